# Reading and writing through indices; see _indexing.pyx.
from mlxc._array cimport Array, binary_fn
from mlxc._capi cimport int32_t, int64_t, mlxc_array, mlxc_dtype

cdef enum:
    SLICE = 0
    INTEGER = 1
    ARRAY = 2


cdef struct Plan:
    int ndim                  # axes after the new ones were added
    int n_new
    int n_arrays
    bint has_integers
    bint partial              # some slice leaves elements out or reverses them
    bint separated            # something stands between two index arrays
    int32_t new_axes[64]
    int kind[64]
    int64_t start[64]
    int64_t step[64]
    int64_t length[64]


cdef Array get_item(Array a, object key)
# Rebinds a to the array with the elements replaced.
cdef int set_item(Array a, object key, object value) except -1

# The steps of both, for ArrayAt.
cdef list prepare_items(object key)
cdef int make_plan(mlxc_array* h, list items, Plan* plan, list arrays) except -1
cdef Array add_new_axes(Array a, Plan* plan)
cdef Array drop_new_axes(Array a, Plan* plan)
cdef Array take_window(Array a, Plan* plan)
cdef Array write_window(Array whole, Array window, Plan* plan)
cdef Array to_value(object value, mlxc_dtype dtype)
cdef Array fit_value(Array value, int ndim, const int64_t* shape)
cdef Array spread_over_integers(Array value, Plan* plan)
cdef int result_shape(Plan* plan, list arrays, int64_t* shape) except -1
cdef Array scatter_value(Array window, Array value, Plan* plan, list arrays, int mode)
cdef Array find_mask(object items, Array a)
cdef Array choose_by_mask(Array a, Array mask, Array value, binary_fn combine)
