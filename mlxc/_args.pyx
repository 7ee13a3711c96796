# Shapes, axes and whole numbers out of Python arguments.
#
# Called by every free function that takes a shape or an axis. What only an array's rank can decide
# (an axis out of range, a negative size) is left to the C side, which names the op in its error.
from mlxc._capi cimport MLXC_MAX_NDIM, int32_t, int64_t
from mlxc._error import AxisError

cdef extern from "Python.h":
    int PyIndex_Check(object)
    long long PyLong_AsLongLongAndOverflow(object, int* overflow) except? -1


cdef int64_t to_int(object value, str name) except? -1:
    cdef int overflow = 0
    cdef int64_t result
    if type(value) is not int:
        if type(value) is bool or not PyIndex_Check(value):
            raise TypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
        value = value.__index__()
    result = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        raise ValueError(f"{name} {value} does not fit 64 bits")
    return result


cdef int to_shape(object value, Shape* out) except -1:
    cdef Py_ssize_t i, n
    if PyIndex_Check(value) and not isinstance(value, (list, tuple)):
        out.n = 1
        out.v[0] = to_int(value, "a shape's size")
        return 0
    if not isinstance(value, (list, tuple)):
        try:
            value = tuple(value)
        except TypeError:
            raise TypeError(f"a shape is an integer or a sequence of integers, got {value!r}") from None
    n = len(value)
    if n > MLXC_MAX_NDIM:
        raise ValueError(f"an array has at most {MLXC_MAX_NDIM} axes, got a shape of {n}")
    out.n = <int32_t>n
    for i in range(n):
        out.v[i] = to_int(value[i], "a shape's size")
    return 0


cdef int32_t narrow_axis(object value) except? -1:
    cdef int64_t axis = to_int(value, "an axis")
    if not -MLXC_MAX_NDIM <= axis <= MLXC_MAX_NDIM:
        raise AxisError(f"axis {axis} is out of range: an array has at most {MLXC_MAX_NDIM} axes")
    return <int32_t>axis


cdef int to_axes(object value, Axes* out) except -1:
    cdef Py_ssize_t i, n
    if value is None:
        out.n = -1
        return 0
    if PyIndex_Check(value) and not isinstance(value, (list, tuple)):
        out.n = 1
        out.v[0] = narrow_axis(value)
        return 0
    if not isinstance(value, (list, tuple)):
        try:
            value = tuple(value)
        except TypeError:
            raise TypeError(f"axes are an integer, a sequence of integers or None, got {value!r}") from None
    n = len(value)
    if n > MLXC_MAX_NDIM:
        raise ValueError(f"an array has at most {MLXC_MAX_NDIM} axes, got {n}")
    out.n = <int32_t>n
    for i in range(n):
        out.v[i] = narrow_axis(value[i])
    return 0


cdef int32_t to_axis(object value, int32_t ndim) except -1:
    cdef int64_t axis = to_int(value, "an axis")
    if not -ndim <= axis < ndim:
        raise AxisError(f"axis {axis} is out of range for an array of {ndim} axes")
    return <int32_t>(axis + ndim if axis < 0 else axis)
