# Functions with rules of their own for the transforms, functions that are computed again in the reverse sweep, and the
# order of computation: custom_function, checkpoint, depends.
#
# The C library gets a context for each call of such a function: the Python rules, and the forms of its arguments and
# results, with which lists of arrays become trees again. The context lives as long as a transform may ask for a rule.
from cpython.ref cimport Py_DECREF, Py_INCREF

from mlxc._array cimport Array, wrap
from mlxc._capi cimport *
from mlxc._error cimport check, keep_exception
from mlxc._transforms cimport (ArrayList, Call, collect_arrays, drop_handles, flat_arrays, need_callable, rebuild,
                               take_handles)

__all__ = ["checkpoint", "custom_function", "depends"]

cdef extern from "Python.h" nogil:
    int Py_IsInitialized()


# ---- rules --------------------------------------------------------------------------------------

cdef list wrap_arrays(mlxc_array* const* handles, size_t count):
    """The arrays; None for NULL."""
    return [wrap(mlxc_array_retain(handles[i])) if handles[i] is not NULL else None for i in range(count)]


cdef object rebuild_maybe(object tree, object leaves):
    """The tree with its arrays replaced by the next values of an iterator, whatever they are."""
    if type(tree) is Array:
        return next(leaves)
    if isinstance(tree, (list, tuple)):
        items = [rebuild_maybe(item, leaves) for item in tree]
        if type(tree) is list:
            return items
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, dict):
        return {key: rebuild_maybe(item, leaves) for key, item in (<dict>tree).items()}
    return tree


cdef object zeros_of(Array like):
    from mlxc._ops_create import zeros_like
    return zeros_like(like)


cdef int put_arrays(object tree, mlxc_arrays* outputs, str rule) except -1:
    """Appends the arrays of what a rule returned; nothing else may be in it."""
    if type(tree) is Array:
        check(mlxc_arrays_append(outputs, (<Array>tree).h))
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            put_arrays(item, outputs, rule)
    elif isinstance(tree, dict):
        for item in (<dict>tree).values():
            put_arrays(item, outputs, rule)
    else:
        raise ValueError(f"[custom_function] the {rule} should return an array or a tree of arrays, but a leaf of what "
                         f"it returned is of type {type(tree).__name__}")
    return 0


cdef int put_batched(object tree, object axes, mlxc_arrays* outputs) except -1:
    """Appends the arrays of what a vmap rule returned, with the batch where the tree of axes says moved first."""
    if type(tree) is Array:
        if axes is not None and axes != 0:
            from mlxc._ops_shape import moveaxis
            tree = moveaxis(tree, axes, 0)
        check(mlxc_arrays_append(outputs, (<Array>tree).h))
    elif isinstance(tree, (list, tuple)):
        same = axes is None or hasattr(axes, "__index__")
        if not same and (not isinstance(axes, (list, tuple)) or len(axes) != len(tree)):
            raise ValueError("[custom_function] the axes that the vmap returned do not have the form of its outputs")
        for i, item in enumerate(tree):
            put_batched(item, axes if same else axes[i], outputs)
    elif isinstance(tree, dict):
        same = axes is None or hasattr(axes, "__index__")
        if not same and (not isinstance(axes, dict) or axes.keys() != tree.keys()):
            raise ValueError("[custom_function] the axes that the vmap returned do not have the form of its outputs")
        for key, item in (<dict>tree).items():
            put_batched(item, axes if same else axes[key], outputs)
    else:
        raise ValueError(f"[custom_function] the vmap should return arrays and their axes, but a leaf of what it "
                         f"returned is of type {type(tree).__name__}")
    return 0


cdef class CustomCall:
    """One call of a custom_function: what its rules need to be called."""

    cdef object fun, vjp_rule, jvp_rule, vmap_rule, args, kwargs, value
    cdef Py_ssize_t n_named  # arrays in the keyword arguments

    cdef tuple build_arguments(self, list leaves):
        """(args, kwargs) with other arrays."""
        parts = iter(leaves)
        args = rebuild_maybe(self.args, parts)
        return args, rebuild_maybe(self.kwargs, parts)

    cdef tuple rule_arguments(self, list leaves):
        """The same as a rule gets them: one positional argument is not wrapped in a tuple."""
        args, kwargs = self.build_arguments(leaves)
        return args[0] if len(args) == 1 else args, kwargs

    cdef int forget_arrays(self) except -1:
        """Keeps the forms only, for the context may live long."""
        from itertools import repeat
        from mlxc._ops_create import zeros

        anything = repeat(zeros(()))
        self.args, self.kwargs = rebuild(self.args, anything), rebuild(self.kwargs, anything)
        self.value = rebuild(self.value, anything)
        return 0

    cdef int run_forward(self, list inputs, mlxc_arrays* outputs) except -1:
        args, kwargs = self.build_arguments(inputs)
        self.value = self.fun(*args, **kwargs)
        cdef list found = []
        collect_arrays(self.value, found)
        for array in found:
            check(mlxc_arrays_append(outputs, (<Array>array).h))
        return 0

    cdef int run_vjp(self, list primals, list cotangents, list outputs, mlxc_arrays* gradients) except -1:
        cdef Py_ssize_t i, n_args = len(primals) - self.n_named
        args, kwargs = self.rule_arguments(primals)
        cdef list seeds = [seed if seed is not None else zeros_of(output) for seed, output in zip(cotangents, outputs)]
        made = self.vjp_rule(args, rebuild(self.value, iter(seeds)), rebuild(self.value, iter(outputs)), **kwargs)
        put_arrays(made, gradients, "vjp")
        if mlxc_arrays_count(gradients) != <size_t>n_args:
            raise ValueError(f"[custom_function] the vjp should return one array for each of the {n_args} arrays among "
                             f"the positional arguments, but it returned {mlxc_arrays_count(gradients)}")
        for i in range(n_args, len(primals)):
            check(mlxc_arrays_append(gradients, (<Array>zeros_of(primals[i])).h))
        return 0

    cdef int run_jvp(self, list primals, list tangents, mlxc_arrays* out_tangents) except -1:
        args, kwargs = self.rule_arguments(primals)
        ways, _ = self.rule_arguments(tangents)
        return put_arrays(self.jvp_rule(args, ways, **kwargs), out_tangents, "jvp")

    cdef int run_vmap(self, list inputs, list axes, mlxc_arrays* outputs) except -1:
        args, kwargs = self.rule_arguments(inputs)
        places, _ = self.rule_arguments(axes)
        made = self.vmap_rule(args, places, **kwargs)
        if not isinstance(made, (list, tuple)) or len(made) != 2:
            raise ValueError("[custom_function] the vmap should return a pair: outputs and their batch axes")
        return put_batched(made[0], made[1], outputs)


cdef mlxc_error* call_forward(void* context, mlxc_array* const* inputs, size_t n_inputs,
                              mlxc_arrays* outputs) noexcept nogil:
    with gil:
        try:
            (<CustomCall>context).run_forward(wrap_arrays(inputs, n_inputs), outputs)
            return NULL
        except BaseException as exc:
            return keep_exception(exc)


cdef mlxc_error* call_vjp(void* context, mlxc_array* const* primals, size_t n_primals, mlxc_array* const* cotangents,
                          mlxc_array* const* outputs, size_t n_outputs, mlxc_arrays* gradients) noexcept nogil:
    with gil:
        try:
            (<CustomCall>context).run_vjp(wrap_arrays(primals, n_primals), wrap_arrays(cotangents, n_outputs),
                                          wrap_arrays(outputs, n_outputs), gradients)
            return NULL
        except BaseException as exc:
            return keep_exception(exc)


cdef mlxc_error* call_jvp(void* context, mlxc_array* const* primals, mlxc_array* const* tangents, size_t n_primals,
                          mlxc_arrays* out_tangents) noexcept nogil:
    with gil:
        try:
            (<CustomCall>context).run_jvp(wrap_arrays(primals, n_primals), wrap_arrays(tangents, n_primals),
                                          out_tangents)
            return NULL
        except BaseException as exc:
            return keep_exception(exc)


cdef mlxc_error* call_vmap(void* context, mlxc_array* const* inputs, const int32_t* axes, size_t n_inputs,
                           mlxc_arrays* outputs) noexcept nogil:
    with gil:
        try:
            (<CustomCall>context).run_vmap(wrap_arrays(inputs, n_inputs),
                                           [0 if axes[i] == 0 else None for i in range(n_inputs)], outputs)
            return NULL
        except BaseException as exc:
            return keep_exception(exc)


cdef void release_context(void* context) noexcept nogil:
    # From any thread, at any time; once Python has ended there is nothing to give back.
    if Py_IsInitialized():
        with gil:
            Py_DECREF(<object>context)


# ---- the decorator ------------------------------------------------------------------------------

class custom_function:
    """A function that says itself how transforms treat it.

    Used as a decorator. The function it makes does what the given one does; where a transform meets it, the rules given
    with `vjp`, `jvp` and `vmap` are used. A transform that has no rule goes through the function as usual; a batch
    of a function without `vmap` keeps its other rules, which are called for each example. With a `vjp` or `jvp` rule
    the function depends on its arguments only: what else it reads is a constant to that transform.

    Arguments and results are arrays or trees (nested dict, list, tuple) of arrays; other values are handed through.
    Keyword arguments are handed to the rules as such, and have no gradient.

    Args:
        f: the function.

    Raises:
        TypeError: if `f` is not callable.
        ValueError: when a rule is used, if what it returns does not fit in number, shape or form.

    Example:
        >>> @mx.custom_function
        ... def clipped(x):
        ...     return mx.maximum(x, 0)
        >>> @clipped.vjp
        ... def straight_through(x, cotangent, output):
        ...     return cotangent
        >>> mx.grad(lambda x: clipped(x).sum())(mx.array([-1.0, 2.0]))
        array([1, 1], dtype=float32)
    """

    def __init__(self, f):
        self._fun = need_callable(f, "custom_function")
        self._vjp = self._jvp = self._vmap = None
        from functools import update_wrapper  # costs too much at import

        update_wrapper(self, f, updated=())

    def __call__(self, *args, **kwargs):
        cdef CustomCall call = CustomCall()
        cdef ArrayList outputs = ArrayList()
        cdef list leaves = []
        cdef mlxc_custom custom
        cdef mlxc_array** inputs
        cdef mlxc_error* error
        cdef size_t n
        if self._vjp is None and self._jvp is None and self._vmap is None:
            return self._fun(*args, **kwargs)
        collect_arrays(args, leaves)
        n = len(leaves)
        collect_arrays(kwargs, leaves)
        call.n_named = len(leaves) - <Py_ssize_t>n
        n = len(leaves)
        call.fun, call.args, call.kwargs = self._fun, args, kwargs
        call.vjp_rule, call.jvp_rule, call.vmap_rule = self._vjp, self._jvp, self._vmap
        custom.struct_size = sizeof(mlxc_custom)
        custom.forward = call_forward
        custom.vjp, custom.jvp, custom.vmap = NULL, NULL, NULL
        if self._vjp is not None:
            custom.vjp = call_vjp
        if self._jvp is not None:
            custom.jvp = call_jvp
        if self._vmap is not None:
            custom.vmap = call_vmap
        custom.context = <void*>call
        custom.release = release_context
        inputs = take_handles(leaves)
        Py_INCREF(call)
        try:
            with nogil:
                error = mlxc_custom_call(&custom, inputs, n, outputs.c)
            check(error)
        finally:
            drop_handles(inputs)
        value = rebuild(call.value, iter(outputs.take()))
        call.forget_arrays()
        return value

    def vjp(self, f):
        """Sets the reverse rule: `f(primals, cotangents, outputs)` returns the gradients.

        Args:
            f: function. `primals` is the function's argument, or the tuple of them if there are several; `cotangents`
                and `outputs` have the form of the function's result. It returns one array for each array among the
                positional arguments, in their form. Keyword arguments of the call come as keyword arguments.

        Returns:
            The custom function itself, so that this is a decorator.

        Example:
            >>> f = mx.custom_function(lambda x, y: x * y)
            >>> f = f.vjp(lambda primals, cotangent, output: (cotangent * 10, cotangent * 100))
            >>> mx.grad(f, argnums=(0, 1))(mx.array(2.0), mx.array(3.0))
            (array(10, dtype=float32), array(100, dtype=float32))
        """
        self._vjp = need_callable(f, "custom_function.vjp")
        return self

    def jvp(self, f):
        """Sets the forward rule: `f(primals, tangents)` returns the tangents of the outputs.

        Args:
            f: function. `primals` is the function's argument, or the tuple of them if there are several; `tangents` has
                the same form, with None for what has no tangent. It returns one array for each array of the result.

        Returns:
            The custom function itself, so that this is a decorator.

        Example:
            >>> f = mx.custom_function(lambda x: x * x)
            >>> f = f.jvp(lambda x, tangent: 7 * tangent)
            >>> mx.jvp(f, [mx.array(2.0)], [mx.array(1.0)])
            ([array(4, dtype=float32)], [array(7, dtype=float32)])
        """
        self._jvp = need_callable(f, "custom_function.jvp")
        return self

    def vmap(self, f):
        """Sets the batching rule: `f(inputs, axes)` returns the outputs for a batch, and their batch axes.

        Args:
            f: function. `inputs` is the function's argument, or the tuple of them if there are several; `axes` has the
                same form, with the batch axis (0) or None in place of each array. It returns a pair: the outputs, and
                an axis for all of them or a tree of axes in their form; None is for what does not depend on the batch.

        Returns:
            The custom function itself, so that this is a decorator.

        Example:
            >>> f = mx.custom_function(lambda x: x.sum())
            >>> f = f.vmap(lambda x, axis: (x.sum(axis=1), 0))
            >>> mx.vmap(f)(mx.array([[1, 2], [3, 4]]))
            array([3, 7], dtype=int32)
        """
        self._vmap = need_callable(f, "custom_function.vmap")
        return self


custom_function.__module__ = "mlxc"


# ---- checkpoint ---------------------------------------------------------------------------------

cdef class CheckpointCall(Call):
    cdef object fun, args, kwargs, value

    cdef list run(self, list stand_ins):
        cdef list outputs = []
        leaves = iter(stand_ins)
        args = rebuild(self.args, leaves)
        self.value = self.fun(*args, **rebuild(self.kwargs, leaves))
        collect_arrays(self.value, outputs)
        return outputs


cdef object run_checkpointed(object fun, tuple args, dict kwargs):
    cdef CheckpointCall call = CheckpointCall()
    cdef ArrayList outputs = ArrayList()
    cdef list leaves = []
    cdef mlxc_array** inputs
    cdef mlxc_error* error
    cdef size_t n
    collect_arrays((args, kwargs), leaves)
    call.fun, call.args, call.kwargs = fun, args, kwargs
    n = len(leaves)
    inputs = take_handles(leaves)
    try:
        with nogil:
            error = mlxc_checkpoint(&call.closure, inputs, n, outputs.c)
        check(error)
    finally:
        drop_handles(inputs)
    return rebuild(call.value, iter(outputs.take()))


def checkpoint(fun):
    """A function whose intermediate results are not kept for its gradient, but computed again when that needs them.

    It costs a second computation of the function, and saves the memory of everything between its arguments and its
    results. The values are the same ones: random numbers, for example, are drawn with the same keys. Gradients reach
    what the function reads besides its arguments, too.

    Args:
        fun: function of arrays or trees (nested dict, list, tuple) of arrays, that returns such.

    Returns:
        A function of the same arguments.

    Raises:
        TypeError: if `fun` is not callable.

    Example:
        >>> f = mx.checkpoint(lambda x: mx.exp(mx.sin(x)))
        >>> mx.grad(f)(mx.array(0.0))
        array(1, dtype=float32)
    """
    need_callable(fun, "checkpoint")
    from functools import wraps  # costs too much at import

    @wraps(fun, updated=())
    def checkpointed(*args, **kwargs):
        return run_checkpointed(fun, args, kwargs)

    return checkpointed


# ---- depends ------------------------------------------------------------------------------------

def depends(inputs, dependencies):
    """Arrays as they are, but computed only once other arrays are.

    Where the order in which a graph is computed matters (for memory, or for what a computation starts), this puts an
    edge in it that no value needs. It copies nothing, and gradients pass through to `inputs`.

    Args:
        inputs: array, or list or tuple of arrays, to hand on.
        dependencies: array, or list or tuple of arrays, that must be computed before; if one of them fails, so do the
            results.

    Returns:
        An array for an array, else a list of arrays.

    Raises:
        TypeError: if an argument is neither an array nor a list or tuple of arrays.

    Example:
        >>> a, b = mx.array([1, 2]), mx.array(3)
        >>> mx.depends(a, b)
        array([1, 2], dtype=int32)
        >>> mx.depends([a, b], a + b)
        [array([1, 2], dtype=int32), array(3, dtype=int32)]
    """
    cdef list given = flat_arrays(inputs, "inputs", "depends")
    cdef list before = flat_arrays(dependencies, "dependencies", "depends")
    cdef ArrayList outputs = ArrayList()
    cdef mlxc_array** first = take_handles(given)
    cdef mlxc_array** second = NULL
    try:
        second = take_handles(before)
        check(mlxc_depends(first, len(given), second, len(before), outputs.c))
    finally:
        drop_handles(first)
        drop_handles(second)
    cdef list made = outputs.take()
    return made[0] if type(inputs) is Array else made
