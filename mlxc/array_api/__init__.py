"""The Python array API standard 2025.12 over mlxc: what `x.__array_namespace__()` returns.

    >>> import mlxc as mx
    >>> xp = mx.array([3, 1]).__array_namespace__()
    >>> xp.argsort(xp.asarray([3, 1]), descending=True)
    array([0, 1], dtype=int64)

Most functions are mlxc's own, which take the standard's arguments beside MLX's. Those for which MLX and the standard
want different results or names are in _functions.py; the extensions are array_api.linalg and array_api.fft. Any other
name is looked up in mlxc, so that a program need not hold both namespaces.
"""

from importlib import import_module

import mlxc
from mlxc import __array_api_version__
from mlxc.array_api import _functions
from mlxc.array_api._info import ArrayNamespaceInfo

_FROM_MLXC = """
abs acos acosh add all any arange asin asinh astype atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift
bitwise_or bitwise_right_shift bitwise_xor bool broadcast_arrays broadcast_shapes broadcast_to can_cast ceil
complex64 complex128 concat conj copysign cos cosh diff divide e empty equal exp expand_dims expm1 eye finfo flip
float32 float64 floor floor_divide from_dlpack greater greater_equal hypot iinfo imag inf int8 int16 int32 int64
isdtype isfinite isin isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or
logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply nan negative newaxis
nextafter not_equal ones permute_dims pi positive pow prod real reciprocal remainder repeat reshape result_type roll
round sign signbit sin sinh sort sqrt square squeeze stack std subtract sum take take_along_axis tan tanh tensordot
tile tril triu trunc uint8 uint16 uint32 uint64 unique_all unique_counts unique_inverse unique_values unstack var
vecdot where zeros
""".split()
_OWN = """
argmax argmin argsort asarray clip count_nonzero cumulative_prod cumulative_sum empty_like full full_like linspace
nonzero ones_like searchsorted zeros_like
""".split()

globals().update({name: getattr(mlxc, name) for name in _FROM_MLXC})
globals().update({name: getattr(_functions, name) for name in _OWN})

__all__ = [*_FROM_MLXC, *_OWN, "__array_api_version__", "__array_namespace_info__"]  # noqa: PLE0604

# The extensions, imported when they are first named.
_EXTENSIONS = {"linalg": "mlxc.array_api.linalg", "fft": "mlxc.fft"}


def __array_namespace_info__():
    """The inspection object of the standard: devices, dtypes, capabilities."""
    return ArrayNamespaceInfo()


def __getattr__(name):
    if name in _EXTENSIONS:
        return import_module(_EXTENSIONS[name])
    return getattr(mlxc, name)


def __dir__():
    return sorted({*globals(), *_EXTENSIONS})
