# Relations between dtypes: promotion, casting, the hierarchy, and the limits of dtypes.
#
# Called by users. The promotion table itself is the core's.
from mlxc._array cimport Array
from mlxc._capi cimport (
    MLXC_BFLOAT16, MLXC_BOOL, MLXC_COMPLEX64, MLXC_FLOAT16, MLXC_FLOAT32, MLXC_FLOAT64,
    mlxc_array_dtype, mlxc_dtype, mlxc_promote,
)
from mlxc._dtype cimport (
    dtype_object, is_complex, is_floating, is_inexact, is_integer, is_unsigned, to_dtype,
)
from mlxc._error cimport check
from mlxc._scalar cimport KIND_NONE, is_numpy_scalar, own_dtype, plain_number, scalar_kind, weak_dtype

from mlxc._dtype import DtypeCategory


cdef mlxc_dtype promoted(mlxc_dtype a, mlxc_dtype b) except -1:
    cdef mlxc_dtype out = -1
    check(mlxc_promote(a, b, &out))
    return out


cdef mlxc_dtype dtype_of(object value) except -1:
    return mlxc_array_dtype((<Array>value).h) if type(value) is Array else to_dtype(value)


def result_type(*arrays_and_dtypes):
    """result_type(*arrays_and_dtypes: array | Dtype | scalar) -> Dtype

    The dtype that an operation on the arguments gives. Python scalars are weak: they keep the others'
    dtype within its kind. ValueError without arguments.

    >>> import mlxc as mx
    >>> mx.result_type(mx.int32, mx.float16)
    mlxc.float16
    """
    cdef mlxc_dtype result = -1
    cdef list numbers = []
    if not arrays_and_dtypes:
        raise ValueError("result_type takes at least one array, dtype or number")
    for item in arrays_and_dtypes:
        if scalar_kind(item) != KIND_NONE and not is_numpy_scalar(item):
            numbers.append(item)
        else:
            dtype = to_dtype(item.dtype) if is_numpy_scalar(item) else dtype_of(item)
            result = dtype if result < 0 else promoted(result, dtype)
    for item in numbers:
        kind = scalar_kind(item)
        item = plain_number(item, kind)
        result = own_dtype(item, kind) if result < 0 else weak_dtype(item, kind, result)
    return dtype_object(result)


def can_cast(from_, to):
    """can_cast(from_: array | Dtype, to: Dtype) -> bool

    Whether the two promote to `to`, so that casting loses no kind of value.

    >>> import mlxc as mx
    >>> mx.can_cast(mx.int8, mx.int32), mx.can_cast(mx.float32, mx.int32)
    (True, False)
    """
    cdef mlxc_dtype target = to_dtype(to)
    return promoted(dtype_of(from_), target) == target


cdef tuple lineage(mlxc_dtype d):
    """Names of the categories a dtype belongs to."""
    if d == MLXC_BOOL:
        return ("generic",)
    if is_integer(d):
        return ("unsignedinteger" if is_unsigned(d) else "signedinteger", "integer", "number", "generic")
    return ("floating" if is_floating(d) else "complexfloating", "inexact", "number", "generic")


cdef dict category_lineage = {
    "complexfloating": ("complexfloating", "inexact", "number", "generic"),
    "floating": ("floating", "inexact", "number", "generic"),
    "inexact": ("inexact", "number", "generic"),
    "signedinteger": ("signedinteger", "integer", "number", "generic"),
    "unsignedinteger": ("unsignedinteger", "integer", "number", "generic"),
    "integer": ("integer", "number", "generic"),
    "number": ("number", "generic"),
    "generic": ("generic",),
}


def issubdtype(arg1, arg2):
    """issubdtype(arg1: Dtype | DtypeCategory, arg2: Dtype | DtypeCategory) -> bool

    Whether arg1 is arg2, or stands below it in the hierarchy of dtypes.

    >>> import mlxc as mx
    >>> mx.issubdtype(mx.float16, mx.floating), mx.issubdtype(mx.bool_, mx.number)
    (True, False)
    """
    if isinstance(arg2, DtypeCategory):
        names = category_lineage[arg1.name] if isinstance(arg1, DtypeCategory) else lineage(to_dtype(arg1))
        return arg2.name in names
    if isinstance(arg1, DtypeCategory):
        to_dtype(arg2)
        return False
    return to_dtype(arg1) == to_dtype(arg2)


cdef bint is_of_kind(mlxc_dtype d, object kind) except -1:
    if isinstance(kind, tuple):
        return any([is_of_kind(d, item) for item in kind])
    if isinstance(kind, DtypeCategory):
        return kind.name in lineage(d)
    if isinstance(kind, str):
        if kind == "bool":
            return d == MLXC_BOOL
        if kind == "signed integer":
            return is_integer(d) and not is_unsigned(d)
        if kind == "unsigned integer":
            return is_unsigned(d)
        if kind == "integral":
            return is_integer(d)
        if kind == "real floating":
            return is_floating(d)
        if kind == "complex floating":
            return is_complex(d)
        if kind == "numeric":
            return d != MLXC_BOOL
        raise ValueError(f"isdtype knows the kinds bool, signed integer, unsigned integer, integral, real floating, "
                         f"complex floating and numeric, not {kind!r}")
    return d == to_dtype(kind)


def isdtype(dtype, kind):
    """isdtype(dtype: Dtype, kind: Dtype | str | tuple) -> bool

    The Python array API standard's test of a dtype against a kind ("bool", "signed integer", "unsigned
    integer", "integral", "real floating", "complex floating", "numeric"), a dtype, or a tuple of them.

    >>> import mlxc as mx
    >>> mx.isdtype(mx.float32, "real floating")
    True
    """
    return is_of_kind(to_dtype(dtype), kind)


# bits of the significand after the leading one, and the greatest exponent, of each floating dtype
cdef dict float_formats = {MLXC_FLOAT16: (10, 15), MLXC_BFLOAT16: (7, 127), MLXC_FLOAT32: (23, 127),
                           MLXC_FLOAT64: (52, 1023)}


class finfo:
    """Limits of a floating dtype (of a complex one: of its parts), of a dtype or array.

    bits, min, max, eps (the gap between 1 and the next value), smallest_normal, dtype. ValueError for
    other dtypes.

    >>> import mlxc as mx
    >>> mx.finfo(mx.float16).max
    65504.0
    """

    __module__ = "mlxc"
    __slots__ = ("bits", "dtype", "eps", "max", "min", "smallest_normal")

    def __init__(self, arg, /):
        cdef mlxc_dtype d = dtype_of(arg)
        if not is_inexact(d):
            raise ValueError(f"finfo describes floating dtypes, {dtype_object(d).name} has iinfo")
        if is_complex(d):
            d = MLXC_FLOAT32 if d == MLXC_COMPLEX64 else MLXC_FLOAT64
        mantissa, exponent = float_formats[d]
        self.dtype = dtype_object(d)
        self.bits = 8 * self.dtype.size
        self.eps = 2.0 ** -mantissa
        self.max = (2.0 - self.eps) * 2.0 ** exponent
        self.min = -self.max
        self.smallest_normal = 2.0 ** (1 - exponent)

    def __repr__(self):
        return f"finfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype.name})"


class iinfo:
    """Limits of an integer dtype, of a dtype or array: bits, min, max, dtype. ValueError for other dtypes.

    >>> import mlxc as mx
    >>> mx.iinfo(mx.int8).min, mx.iinfo(mx.uint8).max
    (-128, 255)
    """

    __module__ = "mlxc"
    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, arg, /):
        cdef mlxc_dtype d = dtype_of(arg)
        if not is_integer(d):
            raise ValueError(f"iinfo describes integer dtypes, not {dtype_object(d).name}")
        self.dtype = dtype_object(d)
        self.bits = 8 * self.dtype.size
        self.min = 0 if is_unsigned(d) else -(1 << (self.bits - 1))
        self.max = (1 << (self.bits if is_unsigned(d) else self.bits - 1)) - 1

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"
