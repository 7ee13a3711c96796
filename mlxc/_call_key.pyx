# What a call of a compiled function is known by: its structure, constants, and the dtypes and shapes of its arrays,
# written one after the other into one run of bytes. Called for each call of a compiled function, so it makes no
# Python object on the way.
#
# Rule: two calls with equal bytes may share a program; whatever a trace may look at is in the bytes.
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from libc.string cimport memcpy
cimport cython

from mlxc._array cimport Array
from mlxc._capi cimport *
from mlxc._dtype cimport Dtype

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    long long PyLong_AsLongLongAndOverflow(object, int* overflow) except? -1


cdef bint is_random_state(object value):
    # By name: the module is imported when random numbers are first asked for.
    cdef object kind = type(value)
    return kind.__name__ == "State" and kind.__module__ == "mlxc._random_key"


@cython.final
@cython.freelist(8)
cdef class CallKey:

    def __cinit__(self):
        self.data = self.few_bytes
        self.room = sizeof(self.few_bytes)
        self.arrays = self.few_arrays
        self.arrays_room = 16
        self.shapes = True

    def __dealloc__(self):
        self.restart(True)
        if self.data is not self.few_bytes:
            PyMem_Free(self.data)
        if self.arrays is not self.few_arrays:
            PyMem_Free(self.arrays)

    cdef void restart(self, bint shapes) noexcept:
        cdef Py_ssize_t i
        for i in range(self.n_arrays):
            mlxc_array_release(self.arrays[i])
        self.n_arrays = self.size = 0
        self.shapes = shapes

    cdef bytes key(self):
        return PyBytes_FromStringAndSize(self.data, self.size)

    cdef int make_room(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t room = self.room
        cdef char* data
        if self.size + more <= room:
            return 0
        while self.size + more > room:
            room *= 2
        if self.data is self.few_bytes:
            data = <char*>PyMem_Malloc(room)
            if data is not NULL:
                memcpy(data, self.data, self.size)
        else:
            data = <char*>PyMem_Realloc(self.data, room)
        if data is NULL:
            raise MemoryError
        self.data = data
        self.room = room
        return 0

    cdef int add_number(self, char token, long long number) except -1:
        self.make_room(9)
        self.data[self.size] = token
        memcpy(self.data + self.size + 1, &number, 8)
        self.size += 9
        return 0

    cdef int add_bytes(self, char token, const char* text, Py_ssize_t n) except -1:
        self.add_number(token, n)
        self.make_room(n)
        memcpy(self.data + self.size, text, n)
        self.size += n
        return 0

    cdef int add_array(self, mlxc_array* h) except -1:
        cdef int32_t ndim = mlxc_array_ndim(h)
        cdef mlxc_array** arrays
        if self.n_arrays == self.arrays_room:
            arrays = <mlxc_array**>PyMem_Malloc(2 * self.arrays_room * sizeof(mlxc_array*))
            if arrays is NULL:
                raise MemoryError
            memcpy(arrays, self.arrays, self.n_arrays * sizeof(mlxc_array*))
            if self.arrays is not self.few_arrays:
                PyMem_Free(self.arrays)
            self.arrays = arrays
            self.arrays_room *= 2
        self.make_room(3 + 8 * ndim)
        self.data[self.size] = c"A"
        self.data[self.size + 1] = <char>mlxc_array_dtype(h)
        self.data[self.size + 2] = <char>ndim
        self.size += 3
        if self.shapes:
            memcpy(self.data + self.size, mlxc_array_shape(h), 8 * ndim)
            self.size += 8 * ndim
        self.arrays[self.n_arrays] = mlxc_array_retain(h)
        self.n_arrays += 1
        return 0

    cdef int add(self, object tree) except -1:
        return self.add_tree(tree, False)

    cdef int add_state(self, object tree) except -1:
        return self.add_tree(tree, True)

    cdef int add_tree(self, object tree, bint state) except -1:
        if type(tree) is Array:
            return self.add_array((<Array>tree).h)
        if isinstance(tree, (list, tuple)):
            if type(tree) is not list and type(tree) is not tuple:
                self.keep_type(type(tree))
            self.add_number(c"[" if isinstance(tree, list) else c"(", len(tree))
            for item in tree:
                self.add_tree(item, state)
            return 0
        if isinstance(tree, dict):
            if type(tree) is not dict:
                self.keep_type(type(tree))
            self.add_number(c"{", len(tree))
            for key, item in (<dict>tree).items():
                self.add_constant(key, state)
                self.add_tree(item, state)
            return 0
        if state and is_random_state(tree):
            return self.add_array((<Array>tree[0]).h)
        return self.add_constant(tree, state)

    cdef keep_type(self, object kind):
        if self.types is None:
            self.types = []
        self.types.append(kind)
        self.add_number(c"T", <long long><Py_ssize_t><PyObject*>kind)

    cdef int add_constant(self, object value, bint state) except -1:
        cdef Py_ssize_t n = 0
        cdef int overflow = 0
        cdef long long number
        cdef double real
        cdef const char* text
        if value is None:
            return self.add_number(c"n", 0)
        if value is True or value is False:
            return self.add_number(c"b", value is True)
        if isinstance(value, int):
            number = PyLong_AsLongLongAndOverflow(value, &overflow)
            if not overflow:
                return self.add_number(c"i", number)
            digits = hex(value).encode()
            return self.add_bytes(c"I", <char*>(<bytes>digits), len(digits))
        if isinstance(value, str):
            text = PyUnicode_AsUTF8AndSize(value, &n)
            return self.add_bytes(c"s", text, n)
        if isinstance(value, float):
            real = value
            memcpy(&number, &real, 8)
            return self.add_number(c"d", number)
        if isinstance(value, complex):
            real = value.real
            memcpy(&number, &real, 8)
            self.add_number(c"c", number)
            real = value.imag
            memcpy(&number, &real, 8)
            return self.add_number(c"c", number)
        if isinstance(value, bytes):
            return self.add_bytes(c"y", <char*>(<bytes>value), len(value))
        if type(value) is Dtype:
            return self.add_number(c"t", (<Dtype>value).code)
        if state:
            return self.add_number(c"o", 0)
        raise ValueError("[compile] the arguments of a compiled function must be trees of arrays or constants (None, "
                         f"bool, int, float, complex, str, bytes, Dtype), but there is one of type "
                         f"{type(value).__name__}")
