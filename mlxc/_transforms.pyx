# Function transforms and evaluation over trees of arrays: eval, async_eval, grad, value_and_grad, vjp, jvp.
#
# The C library differentiates a closure from arrays to arrays. Here the closure is a C callback that takes the GIL,
# rebuilds the Python arguments round stand-ins for the arrays and calls the function; an exception it raises travels
# through the C library as an error and comes out as the same exception. A tree is any nesting of dict, list, tuple and
# named tuple; its leaves are arrays.
from _operator import index as index_of

from cpython.mem cimport PyMem_Free, PyMem_Malloc

from mlxc._array cimport Array, wrap
from mlxc._capi cimport *
from mlxc._error cimport check, keep_exception

__all__ = ["async_eval", "eval", "grad", "jvp", "value_and_grad", "vjp"]


# ---- trees --------------------------------------------------------------------------------------

cdef int collect_arrays(object tree, list found) except -1:
    """Appends the arrays in a tree; other leaves are passed over."""
    if type(tree) is Array:
        found.append(tree)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            collect_arrays(item, found)
    elif isinstance(tree, dict):
        for item in (<dict>tree).values():
            collect_arrays(item, found)
    return 0


cdef int collect_leaves(object tree, list found, str where) except -1:
    """Appends the leaves of a tree, all of which must be arrays."""
    if type(tree) is Array:
        found.append(tree)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            collect_leaves(item, found, where)
    elif isinstance(tree, dict):
        for item in (<dict>tree).values():
            collect_leaves(item, found, where)
    else:
        raise ValueError(f"{where} should be an array or a tree of arrays, but a leaf of it is of type "
                         f"{type(tree).__name__}")
    return 0


cdef object rebuild(object tree, object leaves):
    """The tree with its arrays replaced by the next ones of an iterator."""
    if type(tree) is Array:
        return next(leaves)
    if isinstance(tree, (list, tuple)):
        items = [rebuild(item, leaves) for item in tree]
        if type(tree) is list:
            return items
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, dict):
        return {key: rebuild(item, leaves) for key, item in (<dict>tree).items()}
    return tree


cdef mlxc_array** take_handles(list arrays) except NULL:
    """References of their own, for drop_handles: another thread may bind an array anew while this one computes."""
    cdef Py_ssize_t i, n = len(arrays)
    cdef mlxc_array** handles = <mlxc_array**>PyMem_Malloc((n + 1) * sizeof(mlxc_array*))
    if handles is NULL:
        raise MemoryError
    for i in range(n):
        handles[i] = mlxc_array_retain((<Array>arrays[i]).h)
    handles[n] = NULL
    return handles


cdef void drop_handles(mlxc_array** handles) noexcept:
    cdef Py_ssize_t i = 0
    while handles is not NULL and handles[i] is not NULL:
        mlxc_array_release(handles[i])
        i += 1
    PyMem_Free(handles)


cdef class ArrayList:
    """Owns an mlxc_arrays."""

    def __cinit__(self):
        self.c = mlxc_arrays_new()
        if self.c is NULL:
            raise MemoryError

    def __dealloc__(self):
        mlxc_arrays_free(self.c)

    cdef list take(self):
        return [wrap(mlxc_array_retain(mlxc_arrays_get(self.c, i))) for i in range(mlxc_arrays_count(self.c))]


# ---- evaluation ---------------------------------------------------------------------------------

cdef int evaluate(tuple args, bint wait) except -1:
    cdef list arrays = []
    collect_arrays(args, arrays)
    cdef size_t n = len(arrays)
    cdef mlxc_array** handles = take_handles(arrays)
    cdef mlxc_error* error
    try:
        with nogil:
            error = mlxc_eval(handles, n) if wait else mlxc_async_eval(handles, n)
        check(error)
    finally:
        drop_handles(handles)
    return 0


def eval(*args):
    """Computes arrays and waits for them.

    Args:
        *args: arrays, or any nesting of dict, list and tuple that contains arrays; anything else in it is passed over.

    Raises:
        IndexError, MemoryError, RuntimeError: what went wrong in the computation. An array whose evaluation failed
            raises again each time it is asked for.

    Example:
        >>> a = mx.array([1, 2]) + 1
        >>> mx.eval(a, {"more": [a * 2]})
    """
    evaluate(args, True)


def async_eval(*args):
    """Starts computing arrays and returns at once. Using one of them waits for it, and raises what went wrong.

    Args:
        *args: arrays, or any nesting of dict, list and tuple that contains arrays; anything else in it is passed over.

    Example:
        >>> a = mx.array([1, 2]) + 1
        >>> mx.async_eval(a)
        >>> a.tolist()
        [2, 3]
    """
    evaluate(args, False)


# ---- the callback -------------------------------------------------------------------------------

cdef class Call:
    """One call of a Python function through the C library."""

    def __cinit__(self):
        self.closure.struct_size = sizeof(mlxc_closure)
        self.closure.call = run_call
        self.closure.context = <void*>self

    cdef list run(self, list stand_ins):
        raise NotImplementedError


cdef mlxc_error* run_call(void* context, mlxc_array* const* inputs, size_t count,
                          mlxc_arrays* outputs) noexcept nogil:
    cdef size_t i
    with gil:
        try:
            for output in (<Call>context).run([wrap(mlxc_array_retain(inputs[i])) for i in range(count)]):
                check(mlxc_arrays_append(outputs, (<Array>output).h))
            return NULL
        except BaseException as exc:
            return keep_exception(exc)


cdef class FlatCall(Call):
    """For vjp and jvp: arrays in, one array or a sequence of arrays out."""

    cdef object fun
    cdef str name

    cdef list run(self, list stand_ins):
        value = self.fun(*stand_ins)
        if type(value) is Array:
            return [value]
        if not isinstance(value, (list, tuple)) or not all([type(item) is Array for item in value]):
            raise ValueError(f"[{self.name}] the function should return an array or a sequence of arrays; but "
                             f"{type(value).__name__} was returned")
        return list(value)


cdef list flat_arrays(object arrays, str what, str name):
    if type(arrays) is Array:
        return [arrays]
    if not isinstance(arrays, (list, tuple)) or not all([type(item) is Array for item in arrays]):
        raise TypeError(f"[{name}] {what} must be a list of arrays")
    return list(arrays)


def vjp(fun, primals, cotangents):
    """The function's outputs, and the products of cotangents with its Jacobian.

    Args:
        fun: function of arrays that returns an array or a sequence of arrays.
        primals: list of the arrays to call it with.
        cotangents: list of arrays, one for each output, of its shape.

    Returns:
        A pair of lists of arrays: the outputs, and for each primal the product, of the primal's shape and dtype.

    Raises:
        ValueError: if the cotangents do not fit the outputs in number or shape.
        TypeError: if primals or cotangents are no lists of arrays, or `fun` is not callable.

    Example:
        >>> mx.vjp(lambda x: x * x, [mx.array([1.0, 2.0])], [mx.array([1.0, 10.0])])
        ([array([1, 4], dtype=float32)], [array([2, 40], dtype=float32)])
    """
    cdef FlatCall call = FlatCall()
    cdef ArrayList outputs = ArrayList(), products = ArrayList()
    cdef list given = flat_arrays(primals, "primals", "vjp"), seeds = flat_arrays(cotangents, "cotangents", "vjp")
    cdef size_t n_given = len(given), n_seeds = len(seeds)
    cdef mlxc_array** inputs = NULL
    cdef mlxc_array** weights = NULL
    cdef mlxc_error* error
    call.fun = need_callable(fun, "vjp")
    call.name = "vjp"
    try:
        inputs = take_handles(given)
        weights = take_handles(seeds)
        with nogil:
            error = mlxc_vjp(&call.closure, inputs, n_given, weights, n_seeds, outputs.c, products.c)
        check(error)
    finally:
        drop_handles(inputs)
        drop_handles(weights)
    return outputs.take(), products.take()


def jvp(fun, primals, tangents):
    """The function's outputs, and the products of its Jacobian with tangents.

    Args:
        fun: function of arrays that returns an array or a sequence of arrays.
        primals: list of the arrays to call it with.
        tangents: list of arrays, one for each primal, of its shape.

    Returns:
        A pair of lists of arrays: the outputs, and for each output the product, of the output's shape and dtype.

    Raises:
        ValueError: if the tangents do not fit the primals in number or shape.
        TypeError: if primals or tangents are no lists of arrays, or `fun` is not callable.

    Example:
        >>> mx.jvp(lambda x: x * x, [mx.array([1.0, 2.0])], [mx.array([1.0, 10.0])])
        ([array([1, 4], dtype=float32)], [array([2, 40], dtype=float32)])
    """
    cdef FlatCall call = FlatCall()
    cdef ArrayList outputs = ArrayList(), products = ArrayList()
    cdef list given = flat_arrays(primals, "primals", "jvp"), ways = flat_arrays(tangents, "tangents", "jvp")
    cdef size_t n = len(given)
    cdef mlxc_array** inputs = NULL
    cdef mlxc_array** directions = NULL
    cdef mlxc_error* error
    call.fun = need_callable(fun, "jvp")
    call.name = "jvp"
    if len(ways) != len(given):
        raise ValueError(f"[jvp] there are {len(given)} primals but {len(ways)} tangents")
    try:
        inputs = take_handles(given)
        directions = take_handles(ways)
        with nogil:
            error = mlxc_jvp(&call.closure, inputs, directions, n, outputs.c, products.c)
        check(error)
    finally:
        drop_handles(inputs)
        drop_handles(directions)
    return outputs.take(), products.take()


# ---- grad ---------------------------------------------------------------------------------------

cdef object need_callable(object fun, str name):
    if not callable(fun):
        raise TypeError(f"[{name}] takes a function, not {type(fun).__name__}")
    return fun


cdef class GradCall(Call):
    """For grad and value_and_grad: Python arguments, some of which are trees of arrays to differentiate by."""

    cdef object fun
    cdef str name
    cdef tuple args
    cdef dict kwargs
    cdef list argnums
    cdef list argnames
    cdef bint only_scalar
    cdef object value

    cdef list run(self, list stand_ins):
        leaves = iter(stand_ins)
        cdef list args = list(self.args)
        cdef dict kwargs = dict(self.kwargs)
        for i in self.argnums:
            args[i] = rebuild(args[i], leaves)
        for key in self.argnames:
            kwargs[key] = rebuild(kwargs[key], leaves)
        value = self.fun(*args, **kwargs)
        loss = value
        if not self.only_scalar and isinstance(value, tuple) and len(value) > 0:
            loss = value[0]
        if type(loss) is not Array:
            also = "" if self.only_scalar else " or a tuple that begins with one"
            raise ValueError(f"[{self.name}] The return value of the function whose gradient we want to compute should "
                             f"be a scalar array{also}; but {type(value).__name__} was returned.")
        if loss.ndim != 0:
            raise ValueError(f"[{self.name}] The function whose gradient we want to compute should return a scalar "
                             f"array; but an array of shape {loss.shape} was returned.")
        self.value = value
        # The other arrays are handed over too, so that they are known as results and not as steps on the way.
        cdef list outputs = [loss]
        if value is not loss:
            collect_arrays(value[1:], outputs)
        return outputs


cdef list checked_argnums(object argnums, bint has_names, str name):
    if argnums is None:
        return [] if has_names else [0]
    cdef list out = [index_of(i) for i in (argnums if isinstance(argnums, (list, tuple)) else (argnums,))]
    for i in out:
        if i < 0:
            raise ValueError(f"[{name}] Can't compute the gradient of negative argument index {i}")
        if out.count(i) > 1:
            raise ValueError(f"[{name}] Duplicate argument index {i} is not allowed.")
    if not out and not has_names:
        raise ValueError(f"[{name}] Gradient wrt no argument requested")
    return out


cdef list checked_argnames(object argnames, str name):
    if argnames is None:
        return []
    cdef list out = [argnames] if isinstance(argnames, str) else list(argnames)
    for key in out:
        if not isinstance(key, str):
            raise TypeError(f"[{name}] argnames are strings, got {type(key).__name__}")
        if out.count(key) > 1:
            raise ValueError(f"[{name}] Duplicate argument name '{key}' is not allowed.")
    return out


cdef tuple differentiate(object fun, str name, list argnums, list argnames, bint only_scalar, tuple args, dict kwargs):
    """(value, gradients) of one call."""
    cdef GradCall call = GradCall()
    cdef ArrayList gradients = ArrayList()
    cdef list leaves = []
    cdef mlxc_array** inputs
    cdef mlxc_error* error
    cdef size_t n
    for i in argnums:
        if i >= len(args):
            raise ValueError(f"[{name}] Can't compute the gradient of argument index {i} because the function is "
                             f"called with only {len(args)} positional arguments.")
        collect_leaves(args[i], leaves, f"[{name}] Argument {i}")
    for key in argnames:
        if key not in kwargs:
            raise ValueError(f"[{name}] Can't compute the gradient of keyword argument '{key}' because the function is "
                             f"called with the following keyword arguments {{{', '.join(kwargs)}}}")
        collect_leaves(kwargs[key], leaves, f"[{name}] Argument '{key}'")
    call.fun, call.name, call.args, call.kwargs = fun, name, args, kwargs
    call.argnums, call.argnames, call.only_scalar = argnums, argnames, only_scalar
    n = len(leaves)
    inputs = take_handles(leaves)
    try:
        with nogil:
            error = mlxc_value_and_grad(&call.closure, inputs, n, NULL, 0, NULL, gradients.c)
        check(error)
    finally:
        drop_handles(inputs)
    parts = iter(gradients.take())
    cdef list by_place = [rebuild(args[i], parts) for i in argnums]
    cdef dict by_name = {key: rebuild(kwargs[key], parts) for key in argnames}
    positional = None if not by_place else by_place[0] if len(by_place) == 1 else tuple(by_place)
    return call.value, (positional, by_name) if argnames else positional


def value_and_grad(fun, argnums=None, argnames=[]):  # no-cython-lint: never changed
    """A function that returns the value of another one and its gradient.

    Args:
        fun: function that returns a scalar array, or a tuple that begins with one; the rest of the tuple is handed
            through.
        argnums: the positional argument, or arguments, to differentiate by; the first by default, none if `argnames`
            is given. Each is an array or a tree (nested dict, list, tuple) of arrays.
        argnames: the keyword argument, or arguments, to differentiate by.

    Returns:
        A function of the same arguments that returns `(value, gradient)`. The gradient has the form of the argument; it
        is a tuple of those for several `argnums`; with `argnames` it is the pair of that (None without `argnums`) and a
        dict by name.

    Raises:
        ValueError: on call, if the function returns no scalar array, an argument is no tree of arrays or is missing.
        TypeError: if `fun` is not callable.

    Example:
        >>> mx.value_and_grad(lambda p: (p["w"] ** 2).sum())({"w": mx.array([1.0, 2.0])})
        (array(5, dtype=float32), {'w': array([2, 4], dtype=float32)})
    """
    need_callable(fun, "value_and_grad")
    cdef list names = checked_argnames(argnames, "value_and_grad")
    cdef list places = checked_argnums(argnums, bool(names), "value_and_grad")

    from functools import wraps  # costs too much at import

    @wraps(fun, updated=())
    def value_and_grad_of(*args, **kwargs):
        return differentiate(fun, "value_and_grad", places, names, False, args, kwargs)

    return value_and_grad_of


def grad(fun, argnums=None, argnames=[]):  # no-cython-lint: never changed
    """A function that returns the gradient of another one.

    Args:
        fun: function that returns a scalar array.
        argnums: the positional argument, or arguments, to differentiate by; the first by default, none if `argnames`
            is given. Each is an array or a tree (nested dict, list, tuple) of arrays.
        argnames: the keyword argument, or arguments, to differentiate by.

    Returns:
        A function of the same arguments that returns the gradient, in the form that value_and_grad describes.

    Raises:
        ValueError: on call, if the function returns no scalar array, an argument is no tree of arrays or is missing.
        TypeError: if `fun` is not callable.

    Example:
        >>> mx.grad(lambda x: x ** 3)(mx.array(2.0))
        array(12, dtype=float32)
        >>> mx.grad(mx.grad(lambda x: x ** 3))(mx.array(2.0))
        array(12, dtype=float32)
    """
    need_callable(fun, "grad")
    cdef list names = checked_argnames(argnames, "grad")
    cdef list places = checked_argnums(argnums, bool(names), "grad")

    from functools import wraps  # costs too much at import

    @wraps(fun, updated=())
    def grad_of(*args, **kwargs):
        return differentiate(fun, "grad", places, names, True, args, kwargs)[1]

    return grad_of
