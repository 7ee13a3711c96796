# The order of computation: depends.
from mlxc._array cimport Array
from mlxc._capi cimport *
from mlxc._error cimport check
from mlxc._transforms cimport ArrayList, drop_handles, flat_arrays, take_handles

__all__ = ["depends"]


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
