# vmap: a function of one example becomes a function of a batch.
#
# The C library batches a function of arrays (mlxc_vmap). Here trees of arguments and results are matched with trees of
# axes: an axis stands for every array below its place, None for "not batched".
from cpython.mem cimport PyMem_Free, PyMem_Malloc

from mlxc._array cimport Array
from mlxc._capi cimport *
from mlxc._error cimport check
from mlxc._transforms cimport ArrayList, Call, drop_handles, need_callable, rebuild, take_handles

__all__ = ["vmap"]


cdef int raise_mismatch(object tree, object axes, str what) except -1:
    raise ValueError(f"[vmap] {what}: the axes {axes!r} do not have the form of {type(tree).__name__} that they stand "
                     f"beside; each is an int, None, or a tree of them like the {what.split('_')[0]}put")


cdef int match_axes(object tree, object axes, list leaves, list found, str what) except -1:
    """Appends the arrays of a tree, and for each the axis that the tree of axes names."""
    if axes is None or hasattr(axes, "__index__"):
        return use_axis(tree, axes, leaves, found, what)
    if isinstance(axes, (list, tuple)):
        if not isinstance(tree, (list, tuple)) or len(tree) != len(axes):
            raise_mismatch(tree, axes, what)
        for item, axis in zip(tree, axes):
            match_axes(item, axis, leaves, found, what)
    elif isinstance(axes, dict):
        if not isinstance(tree, dict) or tree.keys() != axes.keys():
            raise_mismatch(tree, axes, what)
        for key, item in tree.items():
            match_axes(item, axes[key], leaves, found, what)
    else:
        raise ValueError(f"[vmap] {what}: an axis is an int or None, not {axes!r} of type {type(axes).__name__}")
    return 0


cdef int use_axis(object tree, object axis, list leaves, list found, str what) except -1:
    if type(tree) is Array:
        leaves.append(tree)
        found.append(axis)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            use_axis(item, axis, leaves, found, what)
    elif isinstance(tree, dict):
        for item in (<dict>tree).values():
            use_axis(item, axis, leaves, found, what)
    elif axis is not None:
        raise ValueError(f"[vmap] {what} is {axis} for a value of type {type(tree).__name__}: only arrays have a "
                         "batch; None hands anything through")
    return 0


cdef int32_t* list_axes(list axes) except NULL:
    """The axes as the C library wants them; PyMem_Free them."""
    cdef Py_ssize_t i
    cdef int32_t* out = <int32_t*>PyMem_Malloc((len(axes) + 1) * sizeof(int32_t))
    if out is NULL:
        raise MemoryError
    for i in range(len(axes)):
        # What does not fit 32 bits is no axis of an array; the C library says so.
        out[i] = MLXC_NOT_BATCHED if axes[i] is None else max(-2**31 + 1, min(axes[i].__index__(), 2**31 - 1))
    return out


cdef class VmapCall(Call):
    cdef object fun, out_axes, value
    cdef tuple args
    cdef mlxc_batch_axes axes

    def __cinit__(self):
        self.axes.struct_size = sizeof(mlxc_batch_axes)

    def __dealloc__(self):
        PyMem_Free(<void*>self.axes.in_axes)
        PyMem_Free(<void*>self.axes.out_axes)

    cdef list run(self, list stand_ins):
        cdef list outputs = [], axes = []
        leaves = iter(stand_ins)
        self.value = self.fun(*[rebuild(arg, leaves) for arg in self.args])
        match_axes(self.value, self.out_axes, outputs, axes, "out_axes")
        self.axes.out_axes = list_axes(axes)
        self.axes.n_out_axes = len(axes)
        return outputs


cdef object run_batched(object fun, object in_axes, object out_axes, tuple args):
    cdef VmapCall call = VmapCall()
    cdef ArrayList outputs = ArrayList()
    cdef list leaves = [], axes = []
    cdef mlxc_array** inputs = NULL
    cdef mlxc_error* error
    cdef size_t n
    match_axes(args, in_axes, leaves, axes, "in_axes")
    call.fun, call.out_axes, call.args = fun, out_axes, args
    call.axes.in_axes = list_axes(axes)
    n = len(leaves)
    try:
        inputs = take_handles(leaves)
        with nogil:
            error = mlxc_vmap(&call.closure, inputs, n, &call.axes, outputs.c)
        check(error)
    finally:
        drop_handles(inputs)
    return rebuild(call.value, iter(outputs.take()))


def vmap(fun, in_axes=0, out_axes=0):
    """A function that does for a batch what another one does for one example.

    The function is called once, with arrays that have the shape of one example; the operations that it records are
    recorded again for the whole batch. Its arrays have no values meanwhile, so they can't be printed or decide an `if`.

    Args:
        fun: function of arrays, or trees (nested dict, list, tuple) of arrays, that returns an array or a tree of them.
        in_axes: the axis of the batch in the arguments: an int for all, or a tuple with an entry for each; an entry is
            an int, None for what is the same for the whole batch, or a tree of those in the form of the argument.
            Negative axes count from the end.
        out_axes: where the batch goes in the result, counted with it: an int, None for what does not depend on the
            batch, or a tree of those in the form of the result.

    Returns:
        A function of the same positional arguments. What it returns has the form of `fun`'s result.

    Raises:
        ValueError: on call, if axes and arguments do not fit, nothing is batched, the batches differ in size, or a
            value is read inside.
        IndexError: on call, if an array lacks the axis.
        TypeError: if `fun` is not callable; on call, if keyword arguments are given.

    Example:
        >>> x, y = mx.array([[1, 2], [3, 4]]), mx.array([1, 10])
        >>> mx.vmap(lambda a, b: (a * b).sum())(x, y)
        array([3, 70], dtype=int32)
        >>> mx.vmap(lambda a, b: a * b, in_axes=(1, None))(x, y)
        array([[1, 30],
               [2, 40]], dtype=int32)
        >>> mx.vmap(mx.grad(lambda a: (a ** 3).sum()))(mx.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[3, 12],
               [27, 48]], dtype=float32)
    """
    from functools import wraps  # costs too much at import

    need_callable(fun, "vmap")

    @wraps(fun, updated=())
    def batched(*args, **kwargs):
        if kwargs:
            raise TypeError(f"[vmap] takes positional arguments only, got {', '.join(kwargs)}")
        return run_batched(fun, in_axes, out_axes, args)

    return batched
