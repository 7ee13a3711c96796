/* Programs of the embedding ABI: a function of arrays, frozen into a typed graph that is called again and
 * again.
 *
 * A program is made by calling a closure once, with arrays that stand for the inputs and have no values:
 * what it records is kept, simplified. It is immutable and may be called from any thread. A call records
 * one node, whatever the program's size, and running that node allocates no further ones. Where a transform
 * (a gradient, another trace) follows an input, the call records the program's ops one by one instead, so
 * that transforms and programs nest in any order.
 */
#ifndef MLXC_PROGRAM_H
#define MLXC_PROGRAM_H

#include "mlxc/transform.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mlxc_program mlxc_program;

enum {
  /* The program takes inputs of other shapes too, of the same dtypes and numbers of axes, where it does not
   * depend on the shapes it was traced with; where it does, such a call is MLXC_ERROR_VALUE. */
  MLXC_PROGRAM_SHAPELESS = 1
};

/* Calls the closure once, on this thread. Of the examples only the dtypes and shapes are looked at. Arrays
 * that the closure uses beside its inputs become constants of the program. */
MLXC_API mlxc_error* mlxc_program_make(const mlxc_closure* fn, mlxc_array* const* examples, size_t n_examples,
                                       uint32_t flags, mlxc_program** out);
MLXC_API mlxc_program* mlxc_program_retain(mlxc_program* program);
MLXC_API void mlxc_program_release(mlxc_program* program); /* NULL is allowed */

typedef struct mlxc_program_facts {
  size_t struct_size;
  size_t n_inputs;
  size_t n_outputs;
  size_t n_steps;     /* ops, after simplification */
  size_t n_constants; /* arrays that are no inputs */
  uint32_t flags;     /* as given to mlxc_program_make */
  /* Why a shapeless program cannot be called with other shapes; "" if it can. */
  const char* fixed;
  /* Nonzero if a constant belongs to a transform that was running during the trace: of no use later. */
  int32_t borrows;
} mlxc_program_facts;
MLXC_API mlxc_error* mlxc_program_get_facts(const mlxc_program* program, mlxc_program_facts* facts);

/* Dtype and shape of an input or output; the sizes live as long as the program. */
typedef struct mlxc_program_value {
  size_t struct_size;
  mlxc_dtype dtype;
  int32_t ndim;
  const int64_t* shape;
} mlxc_program_value;
MLXC_API mlxc_error* mlxc_program_input(const mlxc_program* program, size_t index, mlxc_program_value* value);
MLXC_API mlxc_error* mlxc_program_output(const mlxc_program* program, size_t index,
                                         mlxc_program_value* value);

/* Records a call on the stream (NULL: the default). `outputs` has room for n_outputs arrays, which must be
 * as many as the program has. An input of another dtype is MLXC_ERROR_TYPE, of another shape
 * MLXC_ERROR_VALUE. */
MLXC_API mlxc_error* mlxc_program_call(const mlxc_program* program, mlxc_array* const* inputs,
                                       size_t n_inputs, mlxc_stream* stream, mlxc_array** outputs,
                                       size_t n_outputs);

#ifdef __cplusplus
}
#endif
#endif
