# Dtype objects: one for each element type, and what may stand for one in an argument.
#
# Called by everything that has a dtype. A Dtype is a constant: compared by identity inside, and equal
# to NumPy's dtype and to its own name outside. NumPy is never imported here, only looked at if loaded.
cimport cython

from mlxc._capi cimport (
    MLXC_BFLOAT16, MLXC_BOOL, MLXC_COMPLEX64, MLXC_DTYPE_COUNT, MLXC_FLOAT32, MLXC_INT32, mlxc_dtype,
    mlxc_dtype_name, mlxc_dtype_size,
)
from mlxc._typename cimport name_type, set_type_attribute

import sys


@cython.binding(False)  # as a slot of the type, a method checks its self
@cython.embedsignature(True)
@cython.embedsignature.format("clinic")
@cython.final
@cython.auto_pickle(False)
cdef class Dtype:
    """An element type, such as ``mlxc.float32``.

    Hashable; equal to itself, to NumPy's dtype or scalar type of the same name, and to its name.

    >>> import mlxc as mx
    >>> mx.float32.size, mx.float32 == "float32"
    (4, True)
    """

    def __init__(self):
        raise TypeError("dtypes are constants: use mlxc.float32, mlxc.int8, ...")

    def __repr__(self):
        return self._text

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        if type(other) is Dtype:
            return self is other
        if type(other) is str:
            return other == self.name or other == self._text
        cdef object name = numpy_name(other)
        if name is None:
            return NotImplemented
        return name == self.name

    def __reduce__(self):
        return self.name

    @property
    def __numpy_dtype__(self):
        """NumPy's dtype of the same name (bfloat16 needs ml_dtypes)."""
        import numpy
        if self.code == MLXC_BFLOAT16:
            import ml_dtypes
            return numpy.dtype(ml_dtypes.bfloat16)
        return numpy.dtype(self.name)


@cython.binding(False)  # as a slot of the type, a method checks its self
@cython.embedsignature(True)
@cython.embedsignature.format("clinic")
@cython.final
@cython.auto_pickle(False)
cdef class DtypeCategory:
    """A node of the dtype hierarchy, such as ``mlxc.floating``; see issubdtype."""

    cdef readonly str name
    cdef readonly int value

    def __init__(self):
        raise TypeError("categories are constants: use mlxc.floating, mlxc.integer, ...")

    def __repr__(self):
        return f"DtypeCategory.{self.name}"

    def __reduce__(self):
        return self.name


cdef list all_dtypes = []
cdef dict dtypes_by_name = {}


cdef Dtype dtype_object(mlxc_dtype code):
    return <Dtype>all_dtypes[code]


cdef object numpy_name(object value):
    """The name of a NumPy dtype or scalar type, else None."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "dtype"):
        return None
    if isinstance(value, numpy.dtype):
        return value.name
    if isinstance(value, type) and (issubclass(value, numpy.generic) or value.__name__ == "bfloat16"):
        try:
            return numpy.dtype(value).name
        except TypeError:
            return None
    return None


cdef mlxc_dtype to_dtype(object value) except -1:
    cdef object name
    if type(value) is Dtype:
        return (<Dtype>value).code
    if value is bool:
        return MLXC_BOOL
    if value is int:
        return MLXC_INT32
    if value is float:
        return MLXC_FLOAT32
    if value is complex:
        return MLXC_COMPLEX64
    name = value if isinstance(value, str) else numpy_name(value)
    if name is not None:
        found = dtypes_by_name.get(name)
        if found is None:
            raise TypeError(f"no dtype is named {name!r}; there are: {', '.join(d.name for d in all_dtypes)}")
        return (<Dtype>found).code
    raise TypeError(f"a dtype is wanted (such as mlxc.float32, 'float32', numpy.float32 or float), got {value!r}")


cdef int make_dtypes() except -1:
    cdef int code
    cdef Dtype dtype
    for code in range(MLXC_DTYPE_COUNT):
        dtype = Dtype.__new__(Dtype)
        dtype.code = code
        dtype.size = <Py_ssize_t>mlxc_dtype_size(code)
        dtype.name = (<bytes>mlxc_dtype_name(code)).decode()
        dtype._text = "mlxc." + dtype.name
        dtype._hash = hash(dtype.name)
        all_dtypes.append(dtype)
        dtypes_by_name[dtype.name] = dtypes_by_name[dtype._text] = dtype
    dtypes_by_name["bool_"] = all_dtypes[MLXC_BOOL]
    return 0


cdef DtypeCategory make_category(str name, int value):
    cdef DtypeCategory category = DtypeCategory.__new__(DtypeCategory)
    category.name = name
    category.value = value
    set_type_attribute(DtypeCategory, name, category)
    return category


make_dtypes()
name_type(Dtype, b"mlxc.Dtype")
name_type(DtypeCategory, b"mlxc.DtypeCategory")
set_type_attribute(Dtype, "__module__", "mlxc")
set_type_attribute(DtypeCategory, "__module__", "mlxc")

(bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
 float16, bfloat16, float32, float64, complex64, complex128) = all_dtypes

complexfloating = make_category("complexfloating", 0)
floating = make_category("floating", 1)
inexact = make_category("inexact", 2)
signedinteger = make_category("signedinteger", 3)
unsignedinteger = make_category("unsignedinteger", 4)
integer = make_category("integer", 5)
number = make_category("number", 6)
generic = make_category("generic", 7)
