/* Programs of the embedding ABI: a function of arrays, frozen into a typed graph that is called again and
 * again, written to a file, and called by a program in another language.
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

/* ---- what a program consists of -------------------------------------------------------------- */

/* Values are numbered: inputs first, then constants, then what the steps make, in their order. */
typedef struct mlxc_program_step_facts {
  size_t struct_size;
  int32_t op; /* MLXC_OP_... */
  size_t n_inputs;
  const uint32_t* inputs; /* values */
  size_t n_outputs;
  uint32_t first_output; /* the values first_output, first_output + 1, ... */
  const void* params;    /* the op's parameter struct, or NULL */
} mlxc_program_step_facts;
MLXC_API mlxc_error* mlxc_program_step_get(const mlxc_program* program, size_t index,
                                           mlxc_program_step_facts* facts);
MLXC_API mlxc_error* mlxc_program_value_get(const mlxc_program* program, size_t index,
                                            mlxc_program_value* value);
/* The constant of an index, a new reference; the value that an output is. */
MLXC_API mlxc_error* mlxc_program_constant(const mlxc_program* program, size_t index, mlxc_array** out);
MLXC_API mlxc_error* mlxc_program_output_value(const mlxc_program* program, size_t index, uint32_t* value);

/* ---- files ----------------------------------------------------------------------------------- */

/* One trace of a function as a file has it: its inputs come by place, and then by name. */
typedef struct mlxc_program_trace {
  size_t struct_size;
  const mlxc_program* program;
  size_t n_positional;         /* so many of the program's inputs come by place */
  const char* const* keywords; /* the names of the others, ascending */
} mlxc_program_trace;

/* Writes a file in one step: the old one stays if anything fails. `metadata` is a text that is kept with it,
 * or NULL. docs/dev/program-format.md describes the bytes. */
MLXC_API mlxc_error* mlxc_program_save(const char* path, const mlxc_program_trace* traces, size_t n_traces,
                                       const char* metadata);
/* The same, given piece by piece to a function; what it returns is returned. */
typedef mlxc_error* (*mlxc_write_fn)(void* context, const void* data, size_t size);
MLXC_API mlxc_error* mlxc_program_write(mlxc_write_fn write, void* context, const mlxc_program_trace* traces,
                                        size_t n_traces, const char* metadata);

typedef struct mlxc_program_file mlxc_program_file;
/* A file that is truncated, corrupt, or of a version or with ops that this library lacks is MLXC_ERROR_VALUE;
 * one that cannot be read MLXC_ERROR_OS. Any bytes may be given: they are not believed. */
MLXC_API mlxc_error* mlxc_program_load(const char* path, mlxc_program_file** out);
MLXC_API mlxc_error* mlxc_program_read(const void* data, size_t size, mlxc_program_file** out);
MLXC_API void mlxc_program_file_free(mlxc_program_file* file); /* NULL is allowed */
MLXC_API size_t mlxc_program_file_count(const mlxc_program_file* file);
MLXC_API const char* mlxc_program_file_metadata(const mlxc_program_file* file);
/* A trace of the file; everything in it lives as long as the file. */
MLXC_API mlxc_error* mlxc_program_file_trace(const mlxc_program_file* file, size_t index,
                                             mlxc_program_trace* trace);
/* Calls the first trace that takes these inputs; MLXC_ERROR_VALUE, with a list of the traces, if none does.
 */
MLXC_API mlxc_error* mlxc_program_file_call(const mlxc_program_file* file, mlxc_array* const* positional,
                                            size_t n_positional, const char* const* keywords,
                                            mlxc_array* const* named, size_t n_named, mlxc_stream* stream,
                                            mlxc_arrays* outputs);

/* ---- pictures -------------------------------------------------------------------------------- */

/* The graph of what is not computed yet, in the DOT language of Graphviz. The arrays in `named` are called by
 * their names where they are met. */
MLXC_API mlxc_error* mlxc_graph_dot(mlxc_write_fn write, void* context, mlxc_array* const* outputs,
                                    size_t n_outputs, mlxc_array* const* named, const char* const* names,
                                    size_t n_named);

/* A parameter of an op as its table has it, read out of the op's parameter struct. */
enum {
  MLXC_PARAM_BOOL = 0,
  MLXC_PARAM_INT = 1,
  MLXC_PARAM_FLOAT = 2,
  MLXC_PARAM_DTYPE = 3,
  MLXC_PARAM_LIST = 4
};
typedef struct mlxc_op_param {
  size_t struct_size;
  const char* name;
  int32_t kind;
  int64_t integer; /* of a bool, int or dtype; the count of a list, -1 for "all axes" */
  double real;
  int64_t items[MLXC_MAX_NDIM];
} mlxc_op_param;
MLXC_API size_t mlxc_op_param_count(int32_t op);
MLXC_API mlxc_error* mlxc_op_param_get(int32_t op, const void* params, size_t index, mlxc_op_param* param);

#ifdef __cplusplus
}
#endif
#endif
