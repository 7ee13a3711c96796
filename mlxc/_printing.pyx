# Text of arrays: repr, str and the print options.
#
# Called by Array.__repr__. Numbers are printed with six significant digits, or with a fixed number of
# decimals after set_printoptions(precision=...); an axis longer than six shows its first and last three.
from mlxc._array cimport Array, wrap
from mlxc._capi cimport (
    int64_t, mlxc_array, mlxc_array_dim, mlxc_array_dtype, mlxc_array_ndim, mlxc_array_shape,
    mlxc_concatenate, mlxc_dtype, mlxc_slice,
)
from mlxc._dtype cimport dtype_object, is_complex, is_inexact
from mlxc._error cimport check
from mlxc._readout cimport read_list

cdef enum:
    EDGE = 3  # items shown at each end of a long axis
    MOST_DECIMALS = 1000  # more than any float has


class PrintOptions:
    """Print settings: `precision` is the number of decimals, -1 for six significant digits."""

    __module__ = "mlxc"
    __slots__ = ("precision",)

    def __init__(self, precision=-1):
        self.precision = precision

    def __repr__(self):
        return f"PrintOptions(precision={self.precision})"


_options = PrintOptions()


def set_printoptions(precision: int = -1):
    """set_printoptions(precision: int = -1) -> None

    Sets the number of decimals that arrays are printed with; -1 goes back to six significant digits.
    """
    number = int(precision)
    if not -1 <= number <= MOST_DECIMALS:
        raise ValueError(f"[set_printoptions] precision must be from -1 to {MOST_DECIMALS}, got {precision}")
    _options.precision = number


def get_printoptions():
    """get_printoptions() -> PrintOptions

    A copy of the print settings.
    """
    return PrintOptions(_options.precision)


class _PrintOptionsContext:
    """What printoptions returns: sets the options for the length of a `with` block."""

    __module__ = "mlxc"
    __slots__ = ("_options", "_previous")

    def __init__(self, options):
        self._options = options

    def __enter__(self):
        self._previous = get_printoptions()
        set_printoptions(self._options.precision)
        return self._options

    def __exit__(self, *exc):
        set_printoptions(self._previous.precision)
        return False


def printoptions(precision: int = -1):
    """printoptions(precision: int = -1) -> context manager

    Sets the print options inside a `with` block.

    >>> import mlxc as mx
    >>> with mx.printoptions(precision=2):
    ...     print(mx.array([0.123]))
    array([0.12], dtype=float32)
    """
    return _PrintOptionsContext(PrintOptions(precision))


cdef str format_float(double value, int precision):
    return "%g" % value if precision < 0 else "%.*f" % (precision, value)


cdef str format_number(object value, mlxc_dtype dtype, int precision):
    if is_complex(dtype):
        imaginary = format_float(value.imag, precision)
        if not imaginary.startswith("-"):
            imaginary = "+" + imaginary
        return f"{format_float(value.real, precision)}{imaginary}j"
    if is_inexact(dtype):
        return format_float(value, precision)
    return str(value)


cdef str format_list(object items, int depth, int indent, mlxc_dtype dtype, int precision, int64_t* shape, int ndim):
    cdef list parts = []
    cdef Py_ssize_t i
    if depth == ndim:
        return format_number(items, dtype, precision)
    for i in range(len(items)):
        if i == EDGE and shape[depth] > 2 * EDGE:
            parts.append("...")
        parts.append(format_list(items[i], depth + 1, indent + 1, dtype, precision, shape, ndim))
    separator = ", " if depth == ndim - 1 else ",\n" + " " * indent
    return "[" + separator.join(parts) + "]"


cdef Array take_ends(Array a, int axis):
    """The first and last items of an axis, joined."""
    cdef int ndim = mlxc_array_ndim(a.h), i
    cdef int64_t start[32]
    cdef int64_t step[32]
    cdef int64_t shape[32]
    cdef mlxc_array* ends[2]
    cdef mlxc_array* out = NULL
    cdef Array first, last
    for i in range(ndim):
        start[i] = 0
        step[i] = 1
        shape[i] = mlxc_array_shape(a.h)[i]
    shape[axis] = EDGE
    check(mlxc_slice(a.h, start, ndim, step, ndim, shape, ndim, NULL, &out))
    first = wrap(out)
    start[axis] = mlxc_array_dim(a.h, axis) - EDGE
    check(mlxc_slice(a.h, start, ndim, step, ndim, shape, ndim, NULL, &out))
    last = wrap(out)
    ends[0] = first.h
    ends[1] = last.h
    check(mlxc_concatenate(ends, 2, axis, NULL, &out))
    return wrap(out)


cdef str format_array(Array a):
    """The text of an array: `array([1, 2], dtype=int32)`."""
    cdef mlxc_array* h = a.h
    cdef int ndim = mlxc_array_ndim(h)
    cdef mlxc_dtype dtype = mlxc_array_dtype(h)
    cdef int64_t shape[32]
    cdef int axis
    cdef Array shown = a
    for axis in range(ndim):
        shape[axis] = mlxc_array_shape(h)[axis]
    for axis in range(ndim):
        if shape[axis] > 2 * EDGE:
            shown = take_ends(shown, axis)
    text = format_list(read_list(shown.h), 0, len("array(") + 1, dtype, _options.precision, shape, ndim)
    return f"array({text}, dtype={dtype_object(dtype).name})"
