# Every op as a cdef function on Array, and the small helpers that composed functions share; see _prim.pyx.
# Cimported by the _ops modules, _random and _transforms.
from libc.stdint cimport int32_t, int64_t, uint64_t

from mlxc._args cimport Axes, Shape
from mlxc._array cimport Array
from mlxc._capi cimport mlxc_array, mlxc_dtype, mlxc_stream

# op_NAME(inputs, params, stream), generated from ops.toml.
include "prims_decl.pxi"

# A new object for the same value: what a function that has nothing to do returns, so that in-place operators on the
# result leave the argument alone.
cdef Array alias(Array a)
# A 0-d array of exactly this dtype, to be given to ops: others may hold it too, so it is never returned to a user.
cdef Array number(double value, mlxc_dtype dtype)
cdef Array number_int(int64_t value, mlxc_dtype dtype)
# The array itself if it has the dtype, else a cast.
cdef Array cast(Array a, mlxc_dtype dtype, mlxc_stream* s)
# float32 for integers and bool, else the dtype itself.
cdef mlxc_dtype float_dtype(mlxc_dtype dtype)
cdef mlxc_dtype promote(mlxc_dtype a, mlxc_dtype b) except -1
# The two arguments of a binary function as arrays; a Python scalar beside an array is weak.
cdef tuple operands(object a, object b)
# The shape in C; and views by C shapes and axes: reshape, transpose, broadcast_to, expand_dims and squeeze of one axis.
cdef int read_shape(Array a, Shape* out) except -1
cdef Array reshaped(Array a, Shape* shape, mlxc_stream* s)
cdef Array transposed(Array a, Axes* order, mlxc_stream* s)
cdef Array stretched(Array a, Shape* shape, mlxc_stream* s)
cdef Array with_axis(Array a, int32_t axis, mlxc_stream* s)
cdef Array without_axis(Array a, int32_t axis, mlxc_stream* s)
# The shape as a list, free to be changed.
cdef list dims(Array a)
# The elements of `a` from `start` on along one axis: `length` of them, `step` apart.
cdef Array slice_axis(Array a, int32_t axis, int64_t start, int64_t length, int64_t step, mlxc_stream* s)
# Picks along one axis: the axis is replaced by the axes of `indices`.
cdef Array take_axis(Array a, Array indices, int32_t axis, mlxc_stream* s)
# 0, 1, ..., length - 1.
cdef Array count_up(int64_t length, mlxc_dtype dtype, mlxc_stream* s)
# Row-major 1-D form, and the array with the axes in `axes` (None: all) merged into one that comes last.
cdef Array ravel(Array a, mlxc_stream* s)
cdef Array merge_axes_last(Array a, object axes, mlxc_stream* s)
# The axes in an axis argument as a sorted list of non-negative ints; AxisError or ValueError where they are wrong.
cdef list axis_list(object axes, int32_t ndim)
# The same in C, and as the bits of a mask.
cdef int axis_mask(object axes, int32_t ndim, Axes* out, uint64_t* mask) except -1
# A sequence of arrays as a list of Array; TypeError naming the function.
cdef list array_list(object arrays, str name)
# Evaluates an array that no transform follows, for functions whose result shape depends on values.
cdef int need_values(Array a, str name) except -1
