# The array class's methods that compute: reductions, reshaping, and free functions as methods.
#
# Called once, at import: install gives the class its methods. Reductions also take NumPy's `dtype` and
# `out` (which must be None), because numpy.sum(x) and its kin pass them on to x.sum.
from mlxc._args cimport Axes, Shape, to_axes, to_shape
from mlxc._array cimport Array, wrap
from mlxc._capi cimport (
    int32_t, mlxc_all, mlxc_any, mlxc_array, mlxc_array_dtype, mlxc_array_retain, mlxc_astype, mlxc_error,
    mlxc_max, mlxc_mean, mlxc_min, mlxc_prod, mlxc_reshape, mlxc_stream, mlxc_sum, mlxc_transpose,
)
from mlxc._device cimport to_stream
from mlxc._dtype cimport to_dtype
from mlxc._error cimport check

from mlxc._array import _add_methods
from mlxc._naming import name_errors

ctypedef mlxc_error* (*reduce_fn)(mlxc_array*, const int32_t*, int32_t, int32_t, mlxc_stream*,
                                  mlxc_array**) noexcept nogil


cdef int refuse_out(object out) except -1:
    if out is not None:
        raise TypeError("arrays are immutable: out= cannot be written to")
    return 0


cdef Array cast_to(Array a, object dtype, mlxc_stream* s):
    cdef mlxc_array* out = NULL
    cdef int wanted
    if dtype is None:
        return a
    wanted = to_dtype(dtype)
    if mlxc_array_dtype(a.h) == wanted:
        return a
    check(mlxc_astype(a.h, wanted, s, &out))
    return wrap(out)


cdef Array reduce(reduce_fn fn, object self, object axis, object keepdims, object dtype, object out, object stream):
    cdef mlxc_stream* s = to_stream(stream)
    cdef Axes axes
    cdef mlxc_array* made = NULL
    cdef Array a
    if out is not None:
        refuse_out(out)
    to_axes(axis, &axes)
    a = <Array?>self if dtype is None else cast_to(self, dtype, s)
    check(fn(a.h, axes.v, axes.n, 1 if keepdims else 0, s, &made))
    return wrap(made)


def sum(self, axis=None, keepdims=False, *, dtype=None, out=None, stream=None):
    """Sum over axes (default: all); see mlxc.sum."""
    return reduce(mlxc_sum, self, axis, keepdims, dtype, out, stream)


def prod(self, axis=None, keepdims=False, *, dtype=None, out=None, stream=None):
    """Product over axes (default: all); see mlxc.prod."""
    return reduce(mlxc_prod, self, axis, keepdims, dtype, out, stream)


def mean(self, axis=None, keepdims=False, *, dtype=None, out=None, stream=None):
    """Mean over axes (default: all); see mlxc.mean."""
    return reduce(mlxc_mean, self, axis, keepdims, dtype, out, stream)


def min(self, axis=None, keepdims=False, *, out=None, stream=None):
    """Least value over axes (default: all); see mlxc.min."""
    return reduce(mlxc_min, self, axis, keepdims, None, out, stream)


def max(self, axis=None, keepdims=False, *, out=None, stream=None):
    """Greatest value over axes (default: all); see mlxc.max."""
    return reduce(mlxc_max, self, axis, keepdims, None, out, stream)


def all(self, axis=None, keepdims=False, *, out=None, stream=None):
    """Whether all are nonzero over axes (default: all); see mlxc.all."""
    return reduce(mlxc_all, self, axis, keepdims, None, out, stream)


def any(self, axis=None, keepdims=False, *, out=None, stream=None):
    """Whether any is nonzero over axes (default: all); see mlxc.any."""
    return reduce(mlxc_any, self, axis, keepdims, None, out, stream)


def astype(self, dtype, stream=None, *, copy=True, device=None):
    """The values cast to another dtype; see mlxc.astype. copy=False gives the array itself back if it has the dtype."""
    cdef mlxc_array* out = NULL
    cdef int wanted = to_dtype(dtype)
    cdef Array a = <Array?>self, made
    if mlxc_array_dtype(a.h) == wanted:
        made = wrap(mlxc_array_retain(a.h)) if copy else a
    else:
        check(mlxc_astype(a.h, wanted, to_stream(stream), &out))
        made = wrap(out)
    return made if device is None else made.to_device(device)


def reshape(self, *shape, stream=None):
    """The same elements in another shape, given as one sequence or as separate sizes; see mlxc.reshape."""
    cdef Shape sizes
    cdef mlxc_array* out = NULL
    to_shape(shape[0] if len(shape) == 1 else shape, &sizes)
    check(mlxc_reshape((<Array?>self).h, sizes.v, sizes.n, to_stream(stream), &out))
    return wrap(out)


def transpose(self, *axes, stream=None):
    """The axes permuted (default: reversed), given as one sequence or separately; see mlxc.transpose."""
    cdef Axes order
    cdef mlxc_array* out = NULL
    if len(axes) == 0:
        order.n = -1
    else:
        to_axes(axes[0] if len(axes) == 1 else axes, &order)
    check(mlxc_transpose((<Array?>self).h, order.v, order.n, to_stream(stream), &out))
    return wrap(out)


# Methods that are the free function of the same name.
_SAME = (
    "abs", "square", "sqrt", "rsqrt", "reciprocal", "exp", "log", "log2", "log10", "log1p", "sin", "cos", "flatten",
    "squeeze", "moveaxis", "swapaxes", "logcumsumexp", "logsumexp", "split", "argmin", "argmax", "cumsum", "cumprod",
    "cummax", "cummin", "round", "diagonal", "diag", "conj", "view", "maximum", "minimum",
)


def install(module):
    """Gives the array class its methods; `module` holds the free functions."""
    methods = {"sum": sum, "prod": prod, "mean": mean, "min": min, "max": max, "all": all, "any": any,
               "astype": astype, "reshape": reshape, "transpose": transpose,
               "__div__": Array.__truediv__, "__rdiv__": Array.__rtruediv__}
    for name in _SAME:
        methods[name] = getattr(module, name)
    for name in ("std", "var"):
        methods[name] = accept_out(getattr(module, name), name)
    _add_methods(methods)
    name_errors(methods.values())
    # Not the transforms: they call the user's code, whose errors are not theirs.
    name_errors([f for f in vars(module).values() if (getattr(f, "__module__", None) or "").startswith(NAMED_MODULES)])


NAMED_MODULES = ("mlxc._ops_", "mlxc._einsum", "mlxc._convert", "mlxc._promotion")


def accept_out(function, name):
    """A spread such as std, with NumPy's `dtype` and `out`."""
    def spread(self, axis=None, keepdims=False, ddof=0, *, correction=None, dtype=None, out=None, stream=None):
        refuse_out(out)
        cast = cast_to(self, dtype, to_stream(stream))
        return function(cast, axis, keepdims, ddof, correction=correction, stream=stream)
    spread.__name__ = spread.__qualname__ = name
    spread.__doc__ = function.__doc__
    return spread
