"""What each op should give, computed by NumPy and SciPy on wide values.

REFERENCE maps an element-wise op to a function of wide arrays. Integers keep their own type, so they wrap as the
op must; booleans are handled where NumPy refuses or widens them. cases.py holds the references of the other ops,
beside the calls that they judge.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special


def _is_int(a: np.ndarray) -> bool:
    return a.dtype.kind in "bui"


def _like(values: np.ndarray, a: np.ndarray) -> np.ndarray:
    return values.astype(a.dtype)


def _only_floats(function: Callable) -> Callable:
    """Integers stay as they are."""
    return lambda a: a if _is_int(a) else function(a)


def _sign(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "b":
        return a
    if a.dtype.kind == "c":
        modulus = np.abs(a)
        return np.where(modulus == 0, 0, a / np.where(modulus == 0, 1, modulus))
    return np.sign(a)


def _sigmoid(a: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-a))


def _in_double(function: Callable) -> Callable:
    """SciPy has these in float64 only; SLACK grants their own error where the result is float64 as well."""
    return lambda a: function(a.astype(np.float64))


def _subtract(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a ^ b if a.dtype.kind == "b" else a - b


def floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not _is_int(a):
        return np.floor_divide(a, b)
    if a.dtype.kind == "b":
        return a & b
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, 0, a // safe).astype(a.dtype)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not _is_int(a):
        return np.remainder(a, b)
    if a.dtype.kind == "b":
        return a & ~b
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, a, a % safe).astype(a.dtype)


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not _is_int(a):
        return np.power(a, b)
    if a.dtype.kind == "b":
        return a | ~b
    raised = np.power(a, np.where(b < 0, 0, b).astype(a.dtype))
    # A negative exponent gives the true value cut towards zero: 1, -1 or 0.
    odd = (b % 2 != 0).astype(bool)
    inverse = np.where(a == 1, 1, 0)
    if a.dtype.kind == "i":
        inverse = np.where(a == -1, np.where(odd, -1, 1), inverse)
    return np.where(b < 0, inverse.astype(a.dtype), raised)


def _logaddexp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "c":
        return np.log(np.exp(a) + np.exp(b))
    return np.logaddexp(a, b)


def _left_shift(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "b":
        return a & ~b
    bits = 8 * a.dtype.itemsize
    within = (b >= 0) & (b < bits)
    return np.where(within, a << np.where(within, b, 0).astype(a.dtype), 0).astype(a.dtype)


def _right_shift(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "b":
        return a & ~b
    bits = 8 * a.dtype.itemsize
    within = (b >= 0) & (b < bits)
    beyond = np.where(a < 0, -1, 0).astype(a.dtype) if a.dtype.kind == "i" else np.zeros_like(a)
    return np.where(within, a >> np.where(within, b, 0).astype(a.dtype), beyond)


def nextafter_stored(a: np.ndarray, b: np.ndarray, bfloat16: bool) -> np.ndarray:
    """nextafter on stored values: it depends on the dtype's own spacing."""
    if not bfloat16:
        # Of equal arguments C99 returns the second, which NumPy's float16 does not.
        return np.where(a == b, b, np.nextafter(a, b))
    x, y = ((v.astype(np.uint32) << np.uint32(16)).view(np.float32) for v in (a, b))
    key = np.where(a >> 15, -(a & 0x7FFF).astype(np.int32), (a & 0x7FFF).astype(np.int32))
    moved = key + np.sign(y.astype(np.float64) - x.astype(np.float64)).astype(np.int32)
    # Stepping from a positive or negative subnormal to zero keeps the sign.
    negative = (moved < 0) | ((moved == 0) & (a >> 15 == 1))
    bits = (np.abs(moved) | np.where(negative, 0x8000, 0)).astype(np.uint16)
    return np.where(np.isnan(x) | np.isnan(y), 0x7FC0, np.where(x == y, b, bits)).astype(np.uint16)


def copysign(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.copysign(a, b)


REFERENCE: dict[str, Callable] = {
    "abs": lambda a: a if a.dtype.kind in "bu" else np.abs(a),
    "sign": _sign,
    "negative": lambda a: (0 - a).astype(a.dtype) if _is_int(a) else -a,
    "square": lambda a: a if a.dtype.kind == "b" else a * a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "reciprocal": lambda a: 1 / a,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "arcsin": np.arcsin,
    "arccos": np.arccos,
    "arctan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "arcsinh": np.arcsinh,
    "arccosh": np.arccosh,
    "arctanh": np.arctanh,
    "sigmoid": _sigmoid,
    "erf": _in_double(special.erf),
    "erfinv": _in_double(special.erfinv),
    "floor": _only_floats(np.floor),
    "ceil": _only_floats(np.ceil),
    "trunc": _only_floats(np.trunc),
    "rint": _only_floats(np.rint),
    "conjugate": lambda a: a if a.dtype.kind == "b" else np.conjugate(a),
    "real": np.real,
    "imag": np.imag,
    "logical_not": np.logical_not,
    "bitwise_invert": np.invert,
    "isnan": lambda a: np.zeros(a.shape, bool) if _is_int(a) else np.isnan(a),
    "isinf": lambda a: np.zeros(a.shape, bool) if _is_int(a) else np.isinf(a),
    "isfinite": lambda a: np.ones(a.shape, bool) if _is_int(a) else np.isfinite(a),
    "signbit": lambda a: a < 0 if _is_int(a) else np.signbit(a),
    "add": np.add,
    "subtract": _subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": floor_divide,
    "remainder": remainder,
    "power": _power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "logaddexp": _logaddexp,
    "arctan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": copysign,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": _left_shift,
    "right_shift": _right_shift,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "divmod": lambda a, b: (floor_divide(a, b), remainder(a, b)),
}

# Element-wise ops whose zeros carry a sign that must be right.
SIGNED_ZERO = frozenset(
    "abs negative square sqrt reciprocal expm1 log1p sin tan arcsin arctan sinh tanh arcsinh arctanh erf floor ceil "
    "trunc rint add subtract multiply divide copysign nextafter".split()
)

# Where the reference itself is good to an ulp or two of float64 only, that much more is allowed there.
DOUBLE_SLACK = {"erf": 2.0, "erfinv": 3.0}
