/* Arrays of the embedding ABI. (The ops themselves are in the generated ops.h.)
 *
 * Ownership: an mlxc_array* is one reference. Functions that return an array through an `out`
 * pointer give the caller a reference of its own, to be given back with mlxc_array_release. Arrays
 * passed in are borrowed. Arrays are immutable; what looks like writing makes a new array.
 */
#ifndef MLXC_ARRAY_H
#define MLXC_ARRAY_H

#include "mlxc/device.h"
#include "mlxc/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mlxc_array mlxc_array;

MLXC_API mlxc_array* mlxc_array_retain(mlxc_array* array);
MLXC_API void mlxc_array_release(mlxc_array* array); /* NULL is allowed */

/* ---- making arrays -------------------------------------------------------------------------- */

/* Copies row-major host bytes. `data` may be NULL only if the array has no element. */
MLXC_API mlxc_error* mlxc_array_from_host(const void* data, mlxc_dtype dtype, int32_t ndim,
                                          const int64_t* shape, mlxc_array** out);
/* Copies host elements laid out with `strides` (in bytes, any sign). */
MLXC_API mlxc_error* mlxc_array_from_strided(const void* data, mlxc_dtype dtype, int32_t ndim,
                                             const int64_t* shape, const int64_t* strides, mlxc_array** out);
/* Uses host memory without a copy; `release(context)` is called, from any thread, when the last
 * array that needs it is gone. The bytes must not change until then. Strides in bytes, or NULL. */
MLXC_API mlxc_error* mlxc_array_wrap_host(void* data, mlxc_dtype dtype, int32_t ndim, const int64_t* shape,
                                          const int64_t* strides, void (*release)(void* context),
                                          void* context, mlxc_array** out);
/* 0-d arrays. A scalar that does not fit `dtype` is MLXC_ERROR_VALUE. */
MLXC_API mlxc_error* mlxc_array_from_bool(int32_t value, mlxc_dtype dtype, mlxc_array** out);
MLXC_API mlxc_error* mlxc_array_from_int(int64_t value, mlxc_dtype dtype, mlxc_array** out);
MLXC_API mlxc_error* mlxc_array_from_uint(uint64_t value, mlxc_dtype dtype, mlxc_array** out);
MLXC_API mlxc_error* mlxc_array_from_double(double value, mlxc_dtype dtype, mlxc_array** out);
MLXC_API mlxc_error* mlxc_array_from_complex(double re, double im, mlxc_dtype dtype, mlxc_array** out);

/* The same for numbers that are only given to ops, such as the 1 of x + 1: a thread keeps those it met
 * lately, so that asking again costs little. The array may be held by others: its bytes must never be
 * written. */
MLXC_API mlxc_error* mlxc_constant_int(int64_t value, mlxc_dtype dtype, mlxc_array** out);
MLXC_API mlxc_error* mlxc_constant_double(double value, mlxc_dtype dtype, mlxc_array** out);

/* ---- what is known without evaluation ------------------------------------------------------- */

MLXC_API int32_t mlxc_array_ndim(const mlxc_array* array);
MLXC_API const int64_t* mlxc_array_shape(const mlxc_array* array); /* ndim sizes, borrowed */
MLXC_API int64_t mlxc_array_dim(const mlxc_array* array, int32_t axis);
MLXC_API int64_t mlxc_array_size(const mlxc_array* array);
MLXC_API mlxc_dtype mlxc_array_dtype(const mlxc_array* array);
MLXC_API mlxc_stream* mlxc_array_stream(const mlxc_array* array); /* where it is computed */
/* 1 if the values are there, 0 if not yet, -1 if the evaluation failed. */
MLXC_API int32_t mlxc_array_status(const mlxc_array* array);
/* Nonzero while a gradient, jvp or other transform follows this array. */
MLXC_API int32_t mlxc_array_is_traced(const mlxc_array* array);
/* The op that makes the array, 0 (MLXC_OP_NONE) for data or once evaluated. */
MLXC_API int32_t mlxc_array_op(const mlxc_array* array);
/* An address that names the underlying buffer, for counting distinct buffers; NULL if unevaluated. */
MLXC_API const void* mlxc_array_buffer_id(const mlxc_array* array, int64_t* bytes);

/* ---- evaluation ----------------------------------------------------------------------------- */

/* Computes the arrays and waits. The first error of any of them is returned; an array whose
 * evaluation failed returns the same error each time. */
MLXC_API mlxc_error* mlxc_eval(mlxc_array* const* arrays, size_t count);
/* Starts computing and returns at once. */
MLXC_API mlxc_error* mlxc_async_eval(mlxc_array* const* arrays, size_t count);
/* Waits for an array that is being computed, at most timeout_ns (negative: for ever). */
MLXC_API mlxc_error* mlxc_array_wait(mlxc_array* array, int64_t timeout_ns, int32_t* done);

/* ---- reading values ------------------------------------------------------------------------- */

/* Evaluates and lends the host bytes: *data is the first element, *strides are in elements and
 * live as long as the array. Valid while the array is. On a device that the host cannot touch this
 * copies once. Memory may be shared by several arrays: do not write. */
MLXC_API mlxc_error* mlxc_array_host(mlxc_array* array, const void** data, const int64_t** strides);
/* Evaluates and copies the elements, row-major, into `data`, which has room for `bytes` bytes. */
MLXC_API mlxc_error* mlxc_array_to_host(mlxc_array* array, void* data, size_t bytes);
/* The one element of a one-element array, converted (floats to integers truncate). */
MLXC_API mlxc_error* mlxc_array_item_int(mlxc_array* array, int64_t* value);
MLXC_API mlxc_error* mlxc_array_item_uint(mlxc_array* array, uint64_t* value);
MLXC_API mlxc_error* mlxc_array_item_double(mlxc_array* array, double* value);
MLXC_API mlxc_error* mlxc_array_item_complex(mlxc_array* array, double* re, double* im);

/* ---- dtypes and shapes ---------------------------------------------------------------------- */

MLXC_API size_t mlxc_dtype_size(mlxc_dtype dtype);          /* bytes, 0 for an unknown dtype */
MLXC_API const char* mlxc_dtype_name(mlxc_dtype dtype);     /* "float32", NULL for an unknown dtype */
MLXC_API mlxc_dtype mlxc_dtype_from_name(const char* name); /* -1 if unknown */
/* The dtype that two arrays of dtypes a and b promote to. */
MLXC_API mlxc_error* mlxc_promote(mlxc_dtype a, mlxc_dtype b, mlxc_dtype* out);
/* NumPy's broadcasting; out_shape has room for MLXC_MAX_NDIM sizes. */
MLXC_API mlxc_error* mlxc_broadcast_shapes(int32_t ndim_a, const int64_t* a, int32_t ndim_b, const int64_t* b,
                                           int32_t* out_ndim, int64_t* out_shape);

#ifdef __cplusplus
}
#endif
#endif
