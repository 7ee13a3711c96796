"""Functions of the array API standard whose results or argument names differ from MLX's functions of the same name.

Indices are int64, the "indexing" dtype that __array_namespace_info__ names; asarray keeps 64-bit floats; clip takes
`min` and `max`; running sums widen small integers. All are made of mlxc's functions and work inside transforms.
"""

import mlxc as mx

from .._checks import need_array


def _index_dtype(out):
    return mx.astype(out, mx.int64)


def argmax(x, /, *, axis=None, keepdims=False, stream=None):
    """Index of the first greatest element along an axis, int64; see mlxc.argmax."""
    return _index_dtype(mx.argmax(x, axis=axis, keepdims=keepdims, stream=stream))


def argmin(x, /, *, axis=None, keepdims=False, stream=None):
    """Index of the first least element along an axis, int64; see mlxc.argmin."""
    return _index_dtype(mx.argmin(x, axis=axis, keepdims=keepdims, stream=stream))


def argsort(x, /, *, axis=-1, descending=False, stable=True, stream=None):
    """Indices that sort along an axis, int64; see mlxc.argsort."""
    return _index_dtype(mx.argsort(x, axis=axis, descending=descending, stable=stable, stream=stream))


def searchsorted(x1, x2, /, *, side="left", sorter=None, stream=None):
    """Where x2 would have to be inserted into the sorted x1, int64; see mlxc.searchsorted."""
    return _index_dtype(mx.searchsorted(x1, x2, side=side, sorter=sorter, stream=stream))


def nonzero(x, /, *, stream=None):
    """The places of the nonzero elements, one int64 array an axis; see mlxc.nonzero."""
    return tuple(_index_dtype(places) for places in mx.nonzero(x, stream=stream))


def count_nonzero(x, /, *, axis=None, keepdims=False, stream=None):
    """How many elements are nonzero over axes, int64; see mlxc.count_nonzero."""
    return _index_dtype(mx.count_nonzero(x, axis=axis, keepdims=keepdims, stream=stream))


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of a number, nested lists, a NumPy array, a DLPack object or an array; see mlxc.asarray.

    Without a dtype, arrays from outside keep theirs, 64-bit floats included.
    """
    if dtype is None and not isinstance(obj, mx.array):
        found = getattr(obj, "dtype", None)
        if str(found).rpartition(".")[2] in ("float64", "complex128"):
            dtype = mx.float64 if "float64" in str(found) else mx.complex128
    return mx.asarray(obj, dtype, copy=copy, device=device)


def full(shape, fill_value, *, dtype=None, device=None):
    """An array filled with a value; see mlxc.full."""
    return mx.full(shape, fill_value, dtype, device=device)


# In the shape of an array is on its device too, where none is named.


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """A value in the shape of another array; see mlxc.full_like."""
    need_array(x, "full_like")
    return mx.full_like(x, fill_value, dtype, device=device or x.device)


def zeros_like(x, /, *, dtype=None, device=None):
    """Zeros in the shape of another array; see mlxc.zeros_like."""
    need_array(x, "zeros_like")
    return mx.zeros_like(x, dtype, device=device or x.device)


def ones_like(x, /, *, dtype=None, device=None):
    """Ones in the shape of another array; see mlxc.ones_like."""
    need_array(x, "ones_like")
    return mx.ones_like(x, dtype, device=device or x.device)


def empty_like(x, /, *, dtype=None, device=None):
    """An array in the shape of another one, whose values are of no account; see mlxc.empty_like."""
    need_array(x, "empty_like")
    return mx.empty_like(x, dtype, device=device or x.device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """Evenly spaced values from start to stop, which may be complex; see mlxc.linspace."""
    return mx.linspace(start, stop, num, endpoint, dtype, device=device)


def clip(x, /, min=None, max=None, *, stream=None):
    """x limited to the range from min to max, in the dtype of x; without limits, x itself. See mlxc.clip."""
    if min is None and max is None:
        return mx.positive(x)
    out = mx.clip(x, min, max, stream=stream)
    return out if out.dtype == x.dtype else mx.astype(out, x.dtype, stream=stream)


def _running_dtype(x, dtype):
    # The default integer has 32 bits: what is narrower is widened, as sum and prod do.
    if dtype is not None or not mx.isdtype(x.dtype, ("bool", "integral")) or x.itemsize >= 4:
        return dtype
    return mx.uint32 if mx.isdtype(x.dtype, "unsigned integer") else mx.int32


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False, stream=None):
    """Running sum along an axis, which 1-D arrays need not name; see mlxc.cumsum."""
    if need_array(x, "cumulative_sum").ndim != 1 and axis is None:
        raise ValueError(f"[cumulative_sum] an array of shape {x.shape} needs an axis")
    dtype = _running_dtype(x, dtype)
    return mx.cumsum(x, axis, include_initial=include_initial, dtype=dtype, stream=stream)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False, stream=None):
    """Running product along an axis, which 1-D arrays need not name; see mlxc.cumprod."""
    if need_array(x, "cumulative_prod").ndim != 1 and axis is None:
        raise ValueError(f"[cumulative_prod] an array of shape {x.shape} needs an axis")
    dtype = _running_dtype(x, dtype)
    return mx.cumprod(x, axis, include_initial=include_initial, dtype=dtype, stream=stream)
