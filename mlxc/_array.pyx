# cython: c_api_binop_methods=True
# The array class: one pointer to a C array, its operators, properties and Python protocols.
#
# Called by everyone. An Array object is a name for an immutable C array; writing (a[i] = v, a += v)
# makes a new C array and lets the same object stand for it. Nothing here waits while holding the GIL.
# Free functions as methods are added by _methods.pyx; conversions are in _convert.pyx, reading values in
# _readout.pyx, indexing in _indexing.pyx.
cimport cython

from mlxc._buffer cimport export_buffer, numpy_array, release_export
from mlxc._capi cimport *
from mlxc._convert cimport convert, is_array_like
from mlxc._at cimport array_at, array_iterator
from mlxc._device cimport to_device, to_stream, wrap_device
from mlxc._dlpack cimport export_capsule
from mlxc._dtype cimport dtype_object, is_complex, is_integer, is_unsigned, to_dtype, to_dtype_or
from mlxc._error cimport check
from mlxc._indexing cimport get_item, set_item
from mlxc._matmul cimport matmul_any
from mlxc._printing cimport format_array
from mlxc._readout cimport read_bytes, read_item, read_list
from mlxc._scalar cimport (KIND_BOOL, KIND_FLOAT, KIND_INT, KIND_NONE, constant_array, plain_number, scalar_array,
                           scalar_kind, weak_dtype)
from mlxc._typename cimport document_method, name_type, set_new, set_type_attribute

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

import sys


# ---- helpers of free functions ------------------------------------------------------------------

cdef Array wrap(mlxc_array* h):
    cdef Array a = Array.__new__(Array)
    a.h = h
    return a


cdef int rebind(Array a, mlxc_array* h) noexcept:
    cdef mlxc_array* old = a.h
    a.h = h
    mlxc_array_release(old)
    return 0


cdef Array as_array(object value):
    if type(value) is Array:
        return <Array>value
    return wrap(convert(value, -1, False))


cdef Array as_array_or_list(object value):
    if type(value) is Array:
        return <Array>value
    return wrap(convert(value, -1, True))


cdef Array as_operand(object value, mlxc_dtype other):
    cdef int kind
    if type(value) is Array:
        return <Array>value
    kind = scalar_kind(value)
    if kind == KIND_NONE:
        return wrap(convert(value, -1, False))
    value = plain_number(value, kind)
    return wrap(constant_array(value, kind, weak_dtype(value, kind, other)))


cdef Array apply_unary(unary_fn fn, object a, mlxc_stream* stream):
    cdef Array x = as_array(a)
    cdef mlxc_array* out = NULL
    check(fn(x.h, stream, &out))
    return wrap(out)


cdef Array apply_binary(binary_fn fn, object a, object b, mlxc_stream* stream):
    cdef Array x, y
    cdef mlxc_array* out = NULL
    if type(a) is Array:
        x = <Array>a
        y = as_operand_of(fn, b, mlxc_array_dtype(x.h))
    elif type(b) is Array or scalar_kind(b) == KIND_NONE:
        y = as_array(b)
        x = as_operand_of(fn, a, mlxc_array_dtype(y.h))
    else:
        x = as_array(a)
        y = as_operand_of(fn, b, mlxc_array_dtype(x.h))
    check(fn(x.h, y.h, stream, &out))
    return wrap(out)


cdef Array as_operand_of(binary_fn fn, object value, mlxc_dtype other):
    """as_operand, but comparisons take numbers that the other's dtype does not hold."""
    if type(value) is Array:
        return <Array>value
    if fn is mlxc_equal or fn is mlxc_not_equal or fn is mlxc_less or fn is mlxc_less_equal or fn is mlxc_greater \
            or fn is mlxc_greater_equal:
        return as_comparand(value, other)
    if fn is mlxc_logical_and or fn is mlxc_logical_or or fn is mlxc_logical_xor:
        kind = scalar_kind(value)
        if kind != KIND_NONE:
            return wrap(scalar_array(bool(value), KIND_BOOL, MLXC_BOOL))
    return as_operand(value, other)


cdef Array as_comparand(object value, mlxc_dtype other):
    """A number beyond the other's dtype is compared as it is: uint8 < 300 holds everywhere."""
    cdef int kind = scalar_kind(value)
    if kind != KIND_INT or not is_integer(other):
        return as_operand(value, other)
    value = plain_number(value, kind)
    cdef object bits = 8 * <int>mlxc_dtype_size(other)  # a Python integer: 64 bits do not hold the limits
    low = 0 if is_unsigned(other) else -(1 << (bits - 1))
    high = (1 << (bits if is_unsigned(other) else bits - 1)) - 1
    if low <= value <= high:
        return wrap(constant_array(value, kind, other))
    # Floats as infinite as the number is, next to the dtype: all that a comparison asks is the side.
    return wrap(scalar_array(float("inf") if value > 0 else float("-inf"), KIND_FLOAT, MLXC_FLOAT32))


# ---- operators ----------------------------------------------------------------------------------

cdef inline object operate(binary_fn fn, object a, object b):
    """a op b where at least one is an Array; NotImplemented beside a stranger."""
    cdef mlxc_array* out = NULL
    if type(a) is Array and type(b) is Array:
        check(fn((<Array>a).h, (<Array>b).h, NULL, &out))
        return wrap(out)
    return operate_mixed(fn, a, b)


cdef object operate_mixed(binary_fn fn, object a, object b):
    cdef object other = b if type(a) is Array else a
    if scalar_kind(other) == KIND_NONE and not is_array_like(other):
        return NotImplemented
    return apply_binary(fn, a, b, NULL)


cdef object compare(binary_fn fn, Array a, object b):
    cdef mlxc_array* out = NULL
    cdef Array other
    cdef mlxc_dtype dtype = mlxc_array_dtype(a.h)
    if type(b) is Array:
        check(fn(a.h, (<Array>b).h, NULL, &out))
        return wrap(out)
    cdef int kind = scalar_kind(b)
    if kind == KIND_NONE and not is_array_like(b):
        return NotImplemented
    other = as_comparand(b, dtype)
    check(fn(a.h, other.h, NULL, &out))
    return wrap(out)


cdef int dtype_kind(mlxc_dtype dtype) noexcept:
    return 0 if dtype == MLXC_BOOL else 1 if is_integer(dtype) else 3 if is_complex(dtype) else 2


cdef bint has_shape(mlxc_array* h, mlxc_array* other) noexcept:
    cdef int i, ndim = mlxc_array_ndim(h)
    if mlxc_array_ndim(other) != ndim:
        return False
    for i in range(ndim):
        if mlxc_array_shape(h)[i] != mlxc_array_shape(other)[i]:
            return False
    return True


cdef object update(binary_fn fn, Array a, object b, str symbol):
    """a op= b: the object keeps its dtype (within the kind) and its shape."""
    cdef mlxc_array* out = NULL
    cdef mlxc_array* cast = NULL
    cdef mlxc_dtype dtype = mlxc_array_dtype(a.h)
    cdef Array other
    cdef int kind
    if type(b) is not Array:
        kind = scalar_kind(b)
        if kind == KIND_NONE and not is_array_like(b):
            return NotImplemented
    other = as_operand(b, dtype)
    if is_integer(dtype) and is_integer(mlxc_array_dtype(other.h)) and mlxc_array_dtype(other.h) != dtype:
        # Two integers may promote to a float (uint64 and int64): the object stays what it is.
        check(mlxc_astype(other.h, dtype, NULL, &cast))
        other = wrap(cast)
    check(fn(a.h, other.h, NULL, &out))
    if not has_shape(a.h, out):
        result = wrap(out)
        raise ValueError(f"a {symbol}= b cannot change a's shape {a.shape} to {result.shape}: write a = a {symbol} b")
    if mlxc_array_dtype(out) != dtype:
        result = wrap(out)
        if dtype_kind(mlxc_array_dtype(out)) > dtype_kind(dtype):
            raise TypeError(f"a {symbol}= b cannot change a's dtype from {a.dtype} to {result.dtype}: "
                            f"write a = a {symbol} b, or cast b")
        check(mlxc_astype(out, dtype, NULL, &cast))
        out = cast
    rebind(a, out)
    return a


# ---- the class ----------------------------------------------------------------------------------

@cython.binding(False)  # as a slot of the type, a method checks its self
@cython.embedsignature(True)
@cython.embedsignature.format("clinic")
@cython.final
@cython.freelist(64)
@cython.no_gc
@cython.auto_pickle(False)
cdef class Array:
    """array(val, dtype=None)\n--\n
    An N-dimensional array of one dtype, computed when its values are needed.

    val: a number, nested lists or tuples of numbers or arrays, a NumPy array or other buffer, a DLPack
    object, an object with ``__mlx_array__``, or an array (which is copied). Without a dtype, integers
    become int32 (int64 or uint64 where they do not fit), floats float32, complex numbers complex64, and
    arrays keep theirs except float64 and complex128, which become float32 and complex64.
    Raises ValueError for ragged lists and numbers that do not fit, TypeError for other objects.

    >>> import mlxc as mx
    >>> mx.array([[1, 2], [3, 4]])
    array([[1, 2],
           [3, 4]], dtype=int32)
    """

    __array_priority__ = 1000.0

    def __init__(self, val, dtype=None):
        rebind(self, convert(val, to_dtype_or(dtype, -1), True))
        self._shape = None

    def __dealloc__(self):
        mlxc_array_release(self.h)

    # -- properties --

    @property
    def shape(self):
        """Tuple of sizes."""
        cdef const int64_t* sizes
        if self._shape is None:
            sizes = mlxc_array_shape(self.h)
            self._shape = tuple([sizes[i] for i in range(mlxc_array_ndim(self.h))])
        return self._shape

    @property
    def dtype(self):
        """Element type."""
        return dtype_object(mlxc_array_dtype(self.h))

    @property
    def ndim(self):
        """Number of axes."""
        return mlxc_array_ndim(self.h)

    @property
    def size(self):
        """Number of elements."""
        return mlxc_array_size(self.h)

    @property
    def itemsize(self):
        """Bytes an element takes."""
        return mlxc_dtype_size(mlxc_array_dtype(self.h))

    @property
    def nbytes(self):
        """Bytes all elements take."""
        return mlxc_array_size(self.h) * <int64_t>mlxc_dtype_size(mlxc_array_dtype(self.h))

    @property
    def T(self):
        """All axes reversed."""
        cdef mlxc_array* out = NULL
        check(mlxc_transpose(self.h, NULL, -1, NULL, &out))
        return wrap(out)

    @property
    def mT(self):
        """The last two axes swapped; ValueError below two axes."""
        cdef mlxc_array* out = NULL
        cdef int32_t axes[32]
        cdef int i, ndim = mlxc_array_ndim(self.h)
        if ndim < 2:
            raise ValueError(f"mT swaps the last two axes; an array of shape {self.shape} has no two")
        for i in range(ndim):
            axes[i] = i
        axes[ndim - 1] = ndim - 2
        axes[ndim - 2] = ndim - 1
        check(mlxc_transpose(self.h, axes, ndim, NULL, &out))
        return wrap(out)

    @property
    def real(self):
        """Real part."""
        return apply_unary(mlxc_real, self, NULL)

    @property
    def imag(self):
        """Imaginary part, zero for real dtypes."""
        return apply_unary(mlxc_imag, self, NULL)

    @property
    def at(self):
        """Indexed updates that combine duplicates: ``a.at[i].add(v)``; see ArrayAt."""
        return array_at(self)

    @property
    def device(self):
        """The device the array is computed on."""
        cdef mlxc_stream* s = mlxc_array_stream(self.h)
        return wrap_device(to_device(None) if s is NULL else mlxc_stream_device(s))

    def to_device(self, device, /, *, stream=None):
        """The same values on another device: a Device, DeviceType or Stream."""
        cdef mlxc_stream* s = to_stream(device if stream is None else stream)
        cdef mlxc_array* out = NULL
        check(mlxc_contiguous(self.h, s, &out))
        return wrap(out)

    # -- values --

    def item(self):
        """The one element as a Python number; ValueError for other sizes. Evaluates."""
        return read_item(self.h)

    def tolist(self):
        """The elements as nested lists, a number for a 0-d array. Evaluates."""
        return read_list(self.h)

    def tobytes(self):
        """The elements as row-major bytes. Evaluates."""
        return read_bytes(self.h)

    def __bool__(self):
        return bool(read_item(self.h))

    def __int__(self):
        return int(read_item(self.h))

    def __float__(self):
        return float(read_item(self.h))

    def __complex__(self):
        return complex(read_item(self.h))

    def __index__(self):
        if mlxc_array_ndim(self.h) != 0 or not is_integer(mlxc_array_dtype(self.h)):
            raise TypeError(f"only a 0-d integer array is an index, this one has shape {self.shape} and {self.dtype}")
        return read_item(self.h)

    def __bytes__(self):
        return read_bytes(self.h)

    def __repr__(self):
        return format_array(self)

    def __format__(self, spec):
        if not spec:
            return format_array(self)
        if mlxc_array_size(self.h) != 1:
            raise TypeError(f"a format such as {spec!r} takes an array of one element, not of shape {self.shape}")
        return format(read_item(self.h), spec)

    # -- container --

    def __len__(self):
        if mlxc_array_ndim(self.h) == 0:
            raise TypeError("a 0-d array has no len()")
        return <Py_ssize_t>mlxc_array_dim(self.h, 0)

    def __getitem__(self, key):
        return get_item(self, key)

    def __setitem__(self, key, value):
        set_item(self, key, value)

    def __delitem__(self, key):
        raise TypeError("elements of an array cannot be deleted")

    def __iter__(self):
        if mlxc_array_ndim(self.h) == 0:
            raise TypeError("a 0-d array cannot be iterated")
        return array_iterator(self)

    def __contains__(self, value):
        found = compare(mlxc_equal, self, value)
        if found is NotImplemented:
            return False
        cdef mlxc_array* out = NULL
        check(mlxc_any((<Array>found).h, NULL, -1, False, NULL, &out))
        return bool(wrap(out))

    def __hash__(self):
        return <Py_hash_t>(<size_t><void*>self >> 4)

    # -- copies, pickling, protocols --

    def __copy__(self):
        return wrap(mlxc_array_retain(self.h))

    def __deepcopy__(self, memo):
        return wrap(mlxc_array_retain(self.h))

    def __getstate__(self):
        return read_bytes(self.h), self.dtype.name, self.shape

    def __setstate__(self, state):
        cdef mlxc_array* out = NULL
        cdef int64_t shape[32]
        cdef const char* data
        cdef int i, ndim
        cdef int64_t size = 1
        values, name, sizes = state
        cdef bytes values_bytes = bytes(values)
        cdef mlxc_dtype dtype = to_dtype(name)
        ndim = <int>len(sizes)
        if ndim > MLXC_MAX_NDIM:
            raise ValueError(f"an array has at most {MLXC_MAX_NDIM} axes, the pickled one has {ndim}")
        for i in range(ndim):
            shape[i] = sizes[i]
        size = mlxc_dtype_size(dtype)
        for extent in sizes:
            if extent < 0 or extent * size > 1 << 62:
                raise ValueError(f"the pickled array has an impossible shape {tuple(sizes)}")
            size *= extent
        if len(values_bytes) != size:
            raise ValueError(f"a pickled array of shape {tuple(sizes)} and {name} takes {size} bytes, it has "
                             f"{len(values_bytes)}")
        data = values_bytes
        check(mlxc_array_from_host(data, dtype, ndim, shape, &out))
        rebind(self, out)
        self._shape = None

    def __reduce__(self):
        return _make_unset, (), self.__getstate__()

    def __array_namespace__(self, api_version=None):
        if api_version is not None and api_version not in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
            raise ValueError(f"version {api_version!r} of the Python array API standard is not supported")
        import mlxc.array_api  # no-cython-lint: for its entry in sys.modules
        return sys.modules["mlxc.array_api"]

    def __array__(self, dtype=None, copy=None):
        return numpy_array(self, self.h, self.shape, dtype, copy)

    def to_numpy(self, dtype=None, copy=None):
        """A NumPy array of the values: their own memory, read-only, unless another dtype or copy=True is asked for.

        ValueError where copy=False and there must be a copy. Evaluates.
        """
        return numpy_array(self, self.h, self.shape, dtype, copy)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        return export_capsule(self.h, max_version, dl_device, copy)

    def __dlpack_device__(self):
        return 1, 0

    def __getbuffer__(self, Py_buffer* view, int flags):
        export_buffer(self, self.h, view, flags)

    def __releasebuffer__(self, Py_buffer* view):
        release_export(view)

    # -- operators: with c_api_binop_methods either side may be the array --

    def __add__(a, b):
        return operate(mlxc_add, a, b)

    def __sub__(a, b):
        return operate(mlxc_subtract, a, b)

    def __mul__(a, b):
        return operate(mlxc_multiply, a, b)

    def __truediv__(a, b):
        return operate(mlxc_divide, a, b)

    def __floordiv__(a, b):
        return operate(mlxc_floor_divide, a, b)

    def __mod__(a, b):
        return operate(mlxc_remainder, a, b)

    def __and__(a, b):
        return operate(mlxc_bitwise_and, a, b)

    def __or__(a, b):
        return operate(mlxc_bitwise_or, a, b)

    def __xor__(a, b):
        return operate(mlxc_bitwise_xor, a, b)

    def __lshift__(a, b):
        return operate(mlxc_left_shift, a, b)

    def __rshift__(a, b):
        return operate(mlxc_right_shift, a, b)

    def __matmul__(a, b):
        cdef object other = b if type(a) is Array else a
        if scalar_kind(other) != KIND_NONE:
            raise ValueError(f"@ multiplies matrices and vectors, not the number {other!r}: use *")
        return operate(matmul_any, a, b)

    def __pow__(a, b, modulus):
        if modulus is not None:
            raise TypeError("pow() of arrays takes no modulus")
        return operate(mlxc_power, a, b)

    def __divmod__(a, b):
        cdef Array x, y
        cdef mlxc_array* quotient = NULL
        cdef mlxc_array* remainder = NULL
        cdef object other = b if type(a) is Array else a
        if type(other) is not Array and scalar_kind(other) == KIND_NONE and not is_array_like(other):
            return NotImplemented
        if type(a) is Array:
            x = <Array>a
            y = as_operand(b, mlxc_array_dtype(x.h))
        else:
            y = <Array>b
            x = as_operand(a, mlxc_array_dtype(y.h))
        check(mlxc_divmod(x.h, y.h, NULL, &quotient, &remainder))
        return wrap(quotient), wrap(remainder)

    def __iadd__(self, other):
        return update(mlxc_add, self, other, "+")

    def __isub__(self, other):
        return update(mlxc_subtract, self, other, "-")

    def __imul__(self, other):
        return update(mlxc_multiply, self, other, "*")

    def __itruediv__(self, other):
        return update(mlxc_divide, self, other, "/")

    def __ifloordiv__(self, other):
        return update(mlxc_floor_divide, self, other, "//")

    def __imod__(self, other):
        return update(mlxc_remainder, self, other, "%")

    def __iand__(self, other):
        return update(mlxc_bitwise_and, self, other, "&")

    def __ior__(self, other):
        return update(mlxc_bitwise_or, self, other, "|")

    def __ixor__(self, other):
        return update(mlxc_bitwise_xor, self, other, "^")

    def __ilshift__(self, other):
        return update(mlxc_left_shift, self, other, "<<")

    def __irshift__(self, other):
        return update(mlxc_right_shift, self, other, ">>")

    def __imatmul__(self, other):
        return update(matmul_any, self, other, "@")

    def __ipow__(self, other, modulus):
        return update(mlxc_power, self, other, "**")

    def __neg__(self):
        return apply_unary(mlxc_negative, self, NULL)

    def __pos__(self):
        return wrap(mlxc_array_retain(self.h))

    def __abs__(self):
        return apply_unary(mlxc_abs, self, NULL)

    def __invert__(self):
        return apply_unary(mlxc_bitwise_invert, self, NULL)

    def __richcmp__(self, other, int op):
        if op == 2:
            return compare(mlxc_equal, self, other)
        if op == 3:
            return compare(mlxc_not_equal, self, other)
        if op == 0:
            return compare(mlxc_less, self, other)
        if op == 1:
            return compare(mlxc_less_equal, self, other)
        if op == 4:
            return compare(mlxc_greater, self, other)
        return compare(mlxc_greater_equal, self, other)


# What an object made by __new__ alone stands for, so that the pointer is never NULL. Made when the first
# array is, because making arrays loads the backends, which importing mlxc does not.
cdef Array unset = None


def _make_unset():
    """What unpickling starts from; __setstate__ gives it its values."""
    global unset
    if unset is None:
        unset = wrap(scalar_array(False, 0, MLXC_BOOL))
    return wrap(mlxc_array_retain(unset.h))


cdef PyObject* make_safely(PyObject* type, PyObject* args, PyObject* keywords) except NULL:
    made = _make_unset()
    Py_INCREF(made)
    return <PyObject*>made


def _add_methods(dict functions):
    """Gives the class methods by name; called once, at import."""
    for name, function in functions.items():
        set_type_attribute(Array, name, function)


cdef int document_operators() except -1:
    """Binary operators are methods without a text of their own; inspect takes their signature from it."""
    document_method(Array, b"__add__", b"__add__($self, other, /)\n--\n\nThe operator + of arrays.")
    document_method(Array, b"__sub__", b"__sub__($self, other, /)\n--\n\nThe operator - of arrays.")
    document_method(Array, b"__mul__", b"__mul__($self, other, /)\n--\n\nThe operator * of arrays.")
    document_method(Array, b"__truediv__", b"__truediv__($self, other, /)\n--\n\nThe operator / of arrays.")
    document_method(Array, b"__floordiv__", b"__floordiv__($self, other, /)\n--\n\nThe operator // of arrays.")
    document_method(Array, b"__mod__", b"__mod__($self, other, /)\n--\n\nThe operator % of arrays.")
    document_method(Array, b"__and__", b"__and__($self, other, /)\n--\n\nThe operator & of arrays.")
    document_method(Array, b"__or__", b"__or__($self, other, /)\n--\n\nThe operator | of arrays.")
    document_method(Array, b"__xor__", b"__xor__($self, other, /)\n--\n\nThe operator ^ of arrays.")
    document_method(Array, b"__lshift__", b"__lshift__($self, other, /)\n--\n\nThe operator << of arrays.")
    document_method(Array, b"__rshift__", b"__rshift__($self, other, /)\n--\n\nThe operator >> of arrays.")
    document_method(Array, b"__divmod__", b"__divmod__($self, other, /)\n--\n\nThe operator divmod of arrays.")
    document_method(Array, b"__matmul__", b"__matmul__($self, other, /)\n--\n\nThe operator @ of arrays.")
    return 0


set_new(Array, make_safely)
document_operators()
name_type(Array, b"mlxc.array")
set_type_attribute(Array, "__module__", "mlxc")
