# Memory statistics and limits: the core's, as Python functions.
#
# Called by users. All sizes are bytes.
from mlxc._array cimport Array
from mlxc._capi cimport (
    int64_t, mlxc_array_buffer_id, mlxc_memory_active, mlxc_memory_cache, mlxc_memory_clear_cache,
    mlxc_memory_get_limit, mlxc_memory_peak, mlxc_memory_reset_peak, mlxc_memory_set_cache_limit,
    mlxc_memory_set_limit,
)


def get_active_memory():
    """get_active_memory() -> int

    Bytes in use by arrays, without the cache of freed buffers.
    """
    return mlxc_memory_active()


def get_peak_memory():
    """get_peak_memory() -> int

    The most bytes in use at once since the start or the last reset_peak_memory.
    """
    return mlxc_memory_peak()


def reset_peak_memory():
    """reset_peak_memory() -> None

    Starts the peak anew from what is in use now.
    """
    mlxc_memory_reset_peak()


def get_cache_memory():
    """get_cache_memory() -> int

    Bytes of freed buffers that are kept for reuse.
    """
    return mlxc_memory_cache()


def set_memory_limit(limit):
    """set_memory_limit(limit: int) -> int

    Sets the number of bytes above which the cache is given up first; returns the old limit.
    """
    if limit < 0:
        raise ValueError(f"set_memory_limit: the limit is not negative, got {limit}")
    return mlxc_memory_set_limit(limit)


def get_memory_limit():
    """get_memory_limit() -> int

    The limit set by set_memory_limit.
    """
    return mlxc_memory_get_limit()


def set_cache_limit(limit):
    """set_cache_limit(limit: int) -> int

    Sets how many bytes of freed buffers are kept at most; returns the old limit.
    """
    cdef int64_t c_limit, before
    if limit < 0:
        raise ValueError(f"set_cache_limit: the limit is not negative, got {limit}")
    c_limit = limit
    with nogil:
        before = mlxc_memory_set_cache_limit(c_limit)
    return before


cdef int64_t wired_limit = 0


def set_wired_limit(limit):
    """set_wired_limit(limit: int) -> int

    Sets how many bytes a GPU that shares the host's memory keeps resident; returns the old limit.

    Kept for a Metal backend to ask for; the CPU backend keeps nothing resident and takes no notice.
    """
    global wired_limit
    cdef int64_t before = wired_limit
    if limit < 0:
        raise ValueError(f"set_wired_limit: the limit is not negative, got {limit}")
    wired_limit = limit
    return before


def clear_cache():
    """clear_cache() -> None

    Gives the cache of freed buffers back to the system.

    >>> import mlxc as mx
    >>> mx.clear_cache()
    >>> mx.get_cache_memory()
    0
    """
    with nogil:
        mlxc_memory_clear_cache()


cdef int collect_buffers(object tree, dict found) except -1:
    cdef const void* buffer
    cdef int64_t size = 0
    if type(tree) is Array:
        buffer = mlxc_array_buffer_id((<Array>tree).h, &size)
        if buffer is not NULL:
            found[<size_t>buffer] = size
    elif isinstance(tree, dict):
        for item in tree.values():
            collect_buffers(item, found)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            collect_buffers(item, found)
    return 0


def get_array_buffer_size(*args):
    """get_array_buffer_size(*args) -> int

    Bytes of the distinct buffers behind the evaluated arrays in the arguments (arrays, or lists,
    tuples and dicts of them). Arrays that share a buffer count once; what is not evaluated, nothing.

    >>> import mlxc as mx
    >>> x = mx.zeros((4,))
    >>> mx.eval(x)
    >>> mx.get_array_buffer_size([x, x]) == mx.get_array_buffer_size(x)
    True
    """
    cdef dict found = {}
    collect_buffers(args, found)
    return sum(found.values())
