# The element-wise functions that are one op each: generated from ops.toml, with the names that the Python array API
# standard gives them. Nothing is written by hand here; what needs more is in _ops_elementwise.pyx.
from mlxc._array cimport apply_binary, apply_unary  # no-cython-lint: the included file uses them
from mlxc._capi cimport *
from mlxc._device cimport to_stream  # no-cython-lint: as above

include "ops_wrappers.pxi"

acos = arccos
acosh = arccosh
asin = arcsin
asinh = arcsinh
atan = arctan
atan2 = arctan2
atanh = arctanh
bitwise_left_shift = left_shift
bitwise_right_shift = right_shift
conj = conjugate
pow = power

__all__ += ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_left_shift", "bitwise_right_shift",
            "conj", "pow"]
