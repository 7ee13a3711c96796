/* User kernels of the embedding ABI: ops whose source the user brings, one text for each backend that it is
 * to run on. See docs/user-kernels.md for what a body finds on each backend.
 *
 * A kernel is compiled when it first runs for the dtypes and constants of a call, on the device of the
 * call's stream; a compiler's complaint is the error of that evaluation. It has no gradient and cannot be
 * batched by vmap.
 */
#ifndef MLXC_KERNEL_H
#define MLXC_KERNEL_H

#include "mlxc/transform.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mlxc_user_kernel mlxc_user_kernel;

typedef struct mlxc_user_kernel_desc {
  size_t struct_size;
  const char* name; /* identifiers of C, here and below */
  size_t n_inputs;
  const char* const* input_names;
  size_t n_outputs; /* at least one */
  const char* const* output_names;
  /* The body for each backend ("cpu", "cuda", "metal", ...), and text that goes before its function (may be
   * NULL, as may each of the texts). */
  size_t n_sources;
  const char* const* backends;
  const char* const* bodies;
  const char* const* headers;
  const char* options;    /* for the backend's compiler, or NULL */
  int32_t any_layout;     /* nonzero: inputs come as they lie; else they are made row-major first */
  int32_t atomic_outputs; /* nonzero: several points may write one element */
} mlxc_user_kernel_desc;

typedef struct mlxc_user_kernel_call_desc {
  size_t struct_size;
  const mlxc_dtype* output_dtypes; /* of each output, as the next two */
  const int32_t* output_ndims;
  const int64_t* const* output_shapes;
  uint32_t grid[3]; /* points along x, y and z, each at least 1 */
  uint32_t threadgroup[3];
  uint32_t shared_memory; /* bytes a threadgroup */
  const double*
      init; /* what the outputs are filled with first, or NULL: then every element must be written */
  size_t n_constants;
  const char* const* constant_names;
  const mlxc_constant* constants;
} mlxc_user_kernel_call_desc;

/* Everything is copied. */
MLXC_API mlxc_error* mlxc_user_kernel_new(const mlxc_user_kernel_desc* desc, mlxc_user_kernel** out);
MLXC_API void mlxc_user_kernel_free(mlxc_user_kernel* kernel); /* NULL is allowed */
/* Records a call; appends the outputs. MLXC_ERROR_UNSUPPORTED if there is no source for the stream's device.
 */
MLXC_API mlxc_error* mlxc_user_kernel_call(mlxc_user_kernel* kernel, mlxc_array* const* inputs,
                                           size_t n_inputs, const mlxc_user_kernel_call_desc* call,
                                           mlxc_stream* stream, mlxc_arrays* outputs);

#ifdef __cplusplus
}
#endif
#endif
