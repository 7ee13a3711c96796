# Control flow that a trace can hold: cond, while_loop, scan.
#
# The C library traces closures from arrays to arrays. Here trees of arguments are taken apart for it, and the trees
# that the Python functions return are compared, so that a mismatch is told in their terms.
from mlxc._array cimport Array, as_array
from mlxc._capi cimport *
from mlxc._error cimport check
from mlxc._transforms cimport ArrayList, Call, collect_arrays, drop_handles, need_callable, rebuild, take_handles

__all__ = ["cond", "scan", "while_loop"]


# ---- trees --------------------------------------------------------------------------------------

cdef object to_arrays(object tree, str where):
    """The tree with its numbers as arrays; what is neither array nor number nor None is an error."""
    if type(tree) is Array or tree is None:
        return tree
    if isinstance(tree, (bool, int, float, complex)):
        return as_array(tree)
    if isinstance(tree, (list, tuple)):
        items = [to_arrays(item, where) for item in tree]
        if type(tree) is list:
            return items
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, dict):
        return {key: to_arrays(item, where) for key, item in (<dict>tree).items()}
    raise TypeError(f"{where} must be an array or a tree (nested dict, list, tuple) of arrays, but a leaf of it is of "
                    f"type {type(tree).__name__}")


cdef str describe(object tree):
    """The form of a tree, arrays by dtype and shape: {'a': float32(2, 3)}."""
    if type(tree) is Array:
        return f"{str(tree.dtype).rpartition('.')[2]}{tree.shape}"
    if isinstance(tree, dict):
        return "{" + ", ".join([f"{key!r}: {describe(item)}" for key, item in (<dict>tree).items()]) + "}"
    if isinstance(tree, (list, tuple)):
        inside = ", ".join([describe(item) for item in tree])
        return f"[{inside}]" if isinstance(tree, list) else f"({inside}{',' if len(tree) == 1 else ''})"
    return repr(tree)


cdef int compare_trees(object a, object b, str problem) except -1:
    """ValueError where the forms or shapes differ, TypeError where dtypes do. `problem` has places for both trees."""
    if not same_form(a, b):
        raise ValueError(problem.format(describe(a), describe(b)))
    cdef list left = [], right = []
    collect_arrays(a, left)
    collect_arrays(b, right)
    for x, y in zip(left, right):
        if x.shape != y.shape:
            raise ValueError(problem.format(describe(a), describe(b)))
        if x.dtype != y.dtype:
            raise TypeError(problem.format(describe(a), describe(b)))
    return 0


cdef bint same_form(object a, object b) except -1:
    if type(a) is Array or a is None or type(b) is Array or b is None:
        return type(a) is type(b)
    if isinstance(a, dict):
        # Arrays are taken in the order of the keys, so that counts too.
        return isinstance(b, dict) and list(a) == list(b) and all([same_form(a[key], b[key]) for key in a])
    return (type(a) is type(b) and len(a) == len(b) and all([same_form(x, y) for x, y in zip(a, b)]))


cdef class TreeCall(Call):
    """A call of a function with trees of arrays; keeps the tree that it returned, with numbers as arrays."""

    cdef object fun, value
    cdef tuple args
    cdef str where

    cdef list run(self, list stand_ins):
        cdef list found = []
        leaves = iter(stand_ins)
        self.value = self.finish(self.fun(*[rebuild(arg, leaves) for arg in self.args]))
        collect_arrays(self.value, found)
        return found

    cdef object finish(self, object value):
        return to_arrays(value, self.where)


cdef int fill_call(TreeCall call, object fun, str name, str what, tuple args) except -1:
    call.fun = need_callable(fun, name)
    call.args = args
    call.where = f"[{name}] what {what} returns"
    return 0


# ---- cond ---------------------------------------------------------------------------------------

cdef class FalseCall(TreeCall):
    cdef TreeCall first

    cdef object finish(self, object value):
        value = to_arrays(value, self.where)
        if self.first is not None:
            compare_trees(self.first.value, value,
                          "[cond] both functions must return the same form, shapes and dtypes; true_fun returned {}, "
                          "false_fun returned {}")
        return value


def cond(pred, true_fun, false_fun, *operands):
    """What one of two functions returns, chosen when the result is computed.

    Both functions are called once, when `cond` is, with arrays that have no values yet; only one of them is computed.
    Inside a compiled function or under a transform the choice stays open: `cond` is one operation, with gradients (the
    operation of the chosen function alone), and in `vmap` with a batch of predicates both are computed and the results
    selected. The functions may use arrays that are not among the operands.

    Args:
        pred: scalar array or Python scalar; what is not zero is true.
        true_fun: function of the operands that returns an array or a tree (nested dict, list, tuple) of arrays.
        false_fun: the same; it returns arrays of the same shapes and dtypes in the same form.
        *operands: arrays or trees of arrays that the functions are called with.

    Returns:
        What the chosen function returns.

    Raises:
        ValueError: if `pred` is no scalar, or forms or shapes of the two results differ.
        TypeError: if their dtypes differ, an operand or result is no tree of arrays, or a function is not callable.

    Example:
        >>> f = lambda x: mx.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, x)
        >>> f(mx.array([1.0, 2.0])), f(mx.array([-1.0, -2.0]))
        (array([2, 4], dtype=float32), array([1, 2], dtype=float32))
        >>> mx.grad(lambda x: f(x).sum())(mx.array([-1.0, -2.0]))
        array([-1, -1], dtype=float32)
    """
    cdef TreeCall first = TreeCall()
    cdef FalseCall second = FalseCall()
    cdef ArrayList outputs = ArrayList()
    cdef list leaves = []
    cdef mlxc_array** inputs
    cdef mlxc_error* error
    cdef size_t n
    cdef Array choice = as_array(pred)
    cdef tuple args = to_arrays(operands, "[cond] an operand")
    if mlxc_array_ndim(choice.h) != 0:
        raise ValueError(f"[cond] the predicate must be a scalar, its shape is {choice.shape}")
    fill_call(first, true_fun, "cond", "true_fun", args)
    fill_call(second, false_fun, "cond", "false_fun", args)
    second.first = first
    collect_arrays(args, leaves)
    n = len(leaves)
    inputs = take_handles(leaves)
    try:
        with nogil:
            error = mlxc_cond(choice.h, &first.closure, &second.closure, inputs, n, outputs.c)
        check(error)
    finally:
        drop_handles(inputs)
    return rebuild(first.value, iter(outputs.take()))


# ---- while_loop ---------------------------------------------------------------------------------

cdef class BodyCall(TreeCall):
    cdef object finish(self, object value):
        value = to_arrays(value, self.where)
        compare_trees(self.args[0], value, "[while_loop] body_fun must return the carry in the form, shapes and dtypes "
                                           "that it has; init_val is {}, body_fun returned {}")
        return value


def while_loop(cond_fun, body_fun, init_val):
    """The carry after a function was applied to it as long as another function says so.

    `val = init_val; while cond_fun(val): val = body_fun(val)`, as one operation, which computes when the result does.
    Both functions are called once, with arrays that have no values yet, and may use arrays besides the carry. It has
    derivatives in forward mode (`jvp`), none in reverse mode: the number of steps is not known. In `vmap` the loop goes
    on while any example does; those that are done keep their carry.

    Args:
        cond_fun: function of the carry that returns a scalar array; what is not zero is true.
        body_fun: function of the carry that returns the next one, in the same form, shapes and dtypes.
        init_val: the first carry: an array or a tree (nested dict, list, tuple) of arrays and Python scalars.

    Returns:
        The last carry.

    Raises:
        ValueError: if forms or shapes do not fit; when a gradient in reverse mode is asked for.
        TypeError: if dtypes do not fit, the carry is no tree of arrays, or a function is not callable.

    Example:
        >>> mx.while_loop(lambda x: x < 100, lambda x: x * 2, mx.array(3))
        array(192, dtype=int32)
    """
    cdef TreeCall condition = TreeCall()
    cdef BodyCall body = BodyCall()
    cdef ArrayList outputs = ArrayList()
    cdef list leaves = []
    cdef mlxc_array** inputs
    cdef mlxc_error* error
    cdef size_t n
    cdef tuple args = (to_arrays(init_val, "[while_loop] init_val"),)
    fill_call(condition, cond_fun, "while_loop", "cond_fun", args)
    fill_call(body, body_fun, "while_loop", "body_fun", args)
    collect_arrays(args, leaves)
    n = len(leaves)
    inputs = take_handles(leaves)
    try:
        with nogil:
            error = mlxc_while_loop(&condition.closure, &body.closure, inputs, n, outputs.c)
        check(error)
    finally:
        drop_handles(inputs)
    return rebuild(args[0], iter(outputs.take()))


# ---- scan ---------------------------------------------------------------------------------------

cdef class StepCall(TreeCall):
    cdef object finish(self, object value):
        if not isinstance(value, tuple) or len(value) != 2:
            raise ValueError("[scan] the function must return a pair: the next carry and the step's result (or None)")
        value = to_arrays(value, self.where)
        compare_trees(self.args[0], value[0],
                      "[scan] the function must return the carry in the form, shapes and dtypes that it has; init is "
                      "{}, the function returned {}")
        return value


cdef int64_t find_length(object length, list leaves) except -1:
    cdef int64_t found
    for array in leaves:
        if array.ndim == 0:
            raise ValueError("[scan] an array of xs is a scalar; each needs a first axis to go along")
    sizes = sorted({array.shape[0] for array in leaves})
    if len(sizes) > 1:
        raise ValueError(f"[scan] the first axes of the arrays in xs differ in size: {sizes}")
    if length is None:
        if not sizes:
            raise ValueError("[scan] needs xs with at least one array, or a length")
        return sizes[0]
    found = length.__index__()
    if found < 0:
        raise ValueError(f"[scan] the length is {found}")
    if sizes and sizes[0] != found:
        raise ValueError(f"[scan] the length is {found}, but the first axes of the arrays in xs have size {sizes[0]}")
    return found


def scan(f, init, xs=None, length=None, reverse=False):
    """A function applied along the first axis of some arrays, with a carry that goes from step to step.

    `carry, y = f(carry, x)` for each element `x` of `xs`, as one operation, which computes when the result does. `f` is
    called once, with arrays that have no values yet, and may use arrays besides its arguments. Gradients go backwards
    through the steps: the carries are kept, and the rest of each step is computed again.

    Args:
        f: function of the carry and an element of `xs` that returns a pair: the next carry, in the same form, shapes
            and dtypes, and a tree of arrays or None.
        init: the first carry: an array or a tree (nested dict, list, tuple) of arrays and Python scalars.
        xs: array or tree of arrays of the same size along the first axis; None for steps without elements.
        length: number of steps; it must be given if there are no `xs`.
        reverse: begin with the last element. The results stay in the order of `xs`.

    Returns:
        A pair: the last carry, and what `f` returned beside it, each array stacked along a new first axis.

    Raises:
        ValueError: if forms, shapes or lengths do not fit.
        TypeError: if dtypes do not fit, an argument is no tree of arrays, or `f` is not callable.

    Example:
        >>> mx.scan(lambda total, x: (total + x, total * x), mx.array(0), mx.array([1, 2, 3]))
        (array(6, dtype=int32), array([0, 2, 9], dtype=int32))
        >>> mx.scan(lambda x, _: (x * 2, None), mx.array(1.0), length=5)
        (array(32, dtype=float32), None)
    """
    cdef StepCall step = StepCall()
    cdef ArrayList outputs = ArrayList()
    cdef list carry = [], elements = []
    cdef mlxc_array** first
    cdef mlxc_array** second = NULL
    cdef mlxc_error* error
    cdef size_t n_carry, n_elements
    cdef int64_t steps
    cdef int32_t backwards = bool(reverse)
    cdef tuple args = (to_arrays(init, "[scan] init"), to_arrays(xs, "[scan] xs"))
    fill_call(step, f, "scan", "the function", args)
    collect_arrays(args[0], carry)
    collect_arrays(args[1], elements)
    n_carry, n_elements = len(carry), len(elements)
    steps = find_length(length, elements)
    first = take_handles(carry)
    try:
        second = take_handles(elements)
        with nogil:
            error = mlxc_scan(&step.closure, first, n_carry, second, n_elements, steps, backwards, outputs.c)
        check(error)
    finally:
        drop_handles(first)
        drop_handles(second)
    return rebuild(step.value, iter(outputs.take()))
