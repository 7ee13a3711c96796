/* Function transforms of the embedding ABI: vjp, jvp, grad, vmap over one closure type.
 *
 * A closure is a function from arrays to arrays. A transform calls it once, on the calling thread,
 * with stand-ins for the primals, and differentiates what it records; so transforms nest: a closure
 * may itself call mlxc_grad. NULL for a list that results go to means that they are not wanted; if the
 * transform fails nothing was appended.
 */
#ifndef MLXC_TRANSFORM_H
#define MLXC_TRANSFORM_H

#include "mlxc/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A growing list of arrays; it holds a reference to each. */
typedef struct mlxc_arrays mlxc_arrays;
MLXC_API mlxc_arrays* mlxc_arrays_new(void);
MLXC_API void mlxc_arrays_free(mlxc_arrays* list); /* NULL is allowed */
MLXC_API size_t mlxc_arrays_count(const mlxc_arrays* list);
MLXC_API mlxc_array* mlxc_arrays_get(const mlxc_arrays* list, size_t index); /* borrowed, NULL past the end */
MLXC_API mlxc_error* mlxc_arrays_append(mlxc_arrays* list, mlxc_array* array);

typedef struct mlxc_closure {
  size_t struct_size;
  /* Appends the results to `outputs`. An error returned here is returned by the transform. */
  mlxc_error* (*call)(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs);
  void* context;
} mlxc_closure;

/* Outputs of the function, and for each primal the vector-Jacobian product with the cotangents (one
 * an output, of its shape and dtype). */
MLXC_API mlxc_error* mlxc_vjp(const mlxc_closure* fn, mlxc_array* const* primals, size_t n_primals,
                              mlxc_array* const* cotangents, size_t n_cotangents, mlxc_arrays* outputs,
                              mlxc_arrays* vjps);
/* Outputs of the function, and for each output the Jacobian-vector product with the tangents (one a
 * primal, of its shape and dtype). */
MLXC_API mlxc_error* mlxc_jvp(const mlxc_closure* fn, mlxc_array* const* primals, mlxc_array* const* tangents,
                              size_t n_primals, mlxc_arrays* outputs, mlxc_arrays* jvps);
/* Outputs, and the gradients of the first output, which must have one element, with respect to the
 * inputs named by argnums (NULL: all). Outputs after the first are not differentiated. */
MLXC_API mlxc_error* mlxc_value_and_grad(const mlxc_closure* fn, mlxc_array* const* inputs, size_t n_inputs,
                                         const size_t* argnums, size_t n_argnums, mlxc_arrays* outputs,
                                         mlxc_arrays* gradients);
MLXC_API mlxc_error* mlxc_grad(const mlxc_closure* fn, mlxc_array* const* inputs, size_t n_inputs,
                               const size_t* argnums, size_t n_argnums, mlxc_arrays* gradients);

/* ---- batches ---- */

/* Axis of an input or output that is the same for the whole batch. */
#define MLXC_NOT_BATCHED INT32_MIN

/* Where the batch is. A list may be NULL, which is axis 0 for all; negative axes count from the end. */
typedef struct mlxc_batch_axes {
  size_t struct_size;
  const int32_t* in_axes; /* one an input */
  /* One an output, n_out_axes of them; counted with the batch. Read after the closure has returned, so the
   * closure may fill them in. */
  const int32_t* out_axes;
  size_t n_out_axes;
} mlxc_batch_axes;

/* Calls the closure once, on stand-ins that have the shape of one example, and appends to `outputs` what it
 * gives for the whole batch. The stand-ins of batched inputs have no value: reading one, or what depends on
 * it, is MLXC_ERROR_VALUE. Inputs that are not batched are handed over as they are. axes NULL: all 0. */
MLXC_API mlxc_error* mlxc_vmap(const mlxc_closure* fn, mlxc_array* const* inputs, size_t n_inputs,
                               const mlxc_batch_axes* axes, mlxc_arrays* outputs);

/* ---- functions with rules of their own ---- */

/* A function and how it is transformed. Every rule may be NULL: the transform then goes through what
 * `forward` records. Each appends its results to the list; an error it returns is returned by the transform.
 * With a vjp or jvp the function depends on its inputs only, as far as that transform is concerned. */
typedef struct mlxc_custom {
  size_t struct_size;
  /* Called once, by mlxc_custom_call. */
  mlxc_error* (*forward)(void* context, mlxc_array* const* inputs, size_t n_inputs, mlxc_arrays* outputs);
  /* One gradient an input, of its shape. A NULL cotangent is zero. */
  mlxc_error* (*vjp)(void* context, mlxc_array* const* primals, size_t n_primals,
                     mlxc_array* const* cotangents, mlxc_array* const* outputs, size_t n_outputs,
                     mlxc_arrays* gradients);
  /* One tangent an output, of its shape. A NULL tangent is zero. */
  mlxc_error* (*jvp)(void* context, mlxc_array* const* primals, mlxc_array* const* tangents, size_t n_primals,
                     mlxc_arrays* out_tangents);
  /* axes[i] is 0 where input i has the batch as a further first axis, else MLXC_NOT_BATCHED. The outputs have
   * it as first axis, or have the shape of one example if they do not depend on the batch. */
  mlxc_error* (*vmap)(void* context, mlxc_array* const* inputs, const int32_t* axes, size_t n_inputs,
                      mlxc_arrays* outputs);
  void* context;
  /* Called once, from any thread, when no rule will be called any more (perhaps before mlxc_custom_call
   * returns, also if it fails; not if the struct is refused for its size). May be NULL. */
  void (*release)(void* context);
} mlxc_custom;

/* Calls the function and appends its outputs, which carry the rules. */
MLXC_API mlxc_error* mlxc_custom_call(const mlxc_custom* custom, mlxc_array* const* inputs, size_t n_inputs,
                                      mlxc_arrays* outputs);

/* Calls the function and appends its outputs. A reverse sweep computes what leads to them again from the
 * inputs, in place of keeping it. */
MLXC_API mlxc_error* mlxc_checkpoint(const mlxc_closure* fn, mlxc_array* const* inputs, size_t n_inputs,
                                     mlxc_arrays* outputs);

/* ---- order of computation ---- */

/* Appends to `outputs` the inputs as they are, computed only once all the dependencies are. */
MLXC_API mlxc_error* mlxc_depends(mlxc_array* const* inputs, size_t n_inputs, mlxc_array* const* dependencies,
                                  size_t n_dependencies, mlxc_arrays* outputs);

#ifdef __cplusplus
}
#endif
#endif
