# The C functions of include/mlxc/*.h as Cython sees them. Every Cython module cimports from here.
#
# The declarations of the ops themselves are generated from ops.toml into c_ops.pxi at build time.
# Rule: nothing but the public headers is declared, and all of it is callable without the GIL.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "mlxc/types.h" nogil:
    ctypedef int32_t mlxc_dtype
    ctypedef int32_t mlxc_code
    ctypedef int32_t mlxc_device_kind
    enum:
        MLXC_MAX_NDIM
        MLXC_DTYPE_COUNT
        MLXC_BOOL
        MLXC_UINT8
        MLXC_UINT16
        MLXC_UINT32
        MLXC_UINT64
        MLXC_INT8
        MLXC_INT16
        MLXC_INT32
        MLXC_INT64
        MLXC_FLOAT16
        MLXC_BFLOAT16
        MLXC_FLOAT32
        MLXC_FLOAT64
        MLXC_COMPLEX64
        MLXC_COMPLEX128
        MLXC_OK
        MLXC_ERROR_VALUE
        MLXC_ERROR_TYPE
        MLXC_ERROR_INDEX
        MLXC_ERROR_MEMORY
        MLXC_ERROR_OS
        MLXC_ERROR_UNSUPPORTED
        MLXC_ERROR_RUNTIME
        MLXC_ERROR_AXIS
        MLXC_ERROR_INTERRUPTED
        MLXC_CPU
        MLXC_GPU
    ctypedef struct mlxc_error:
        pass

cdef extern from "mlxc/device.h" nogil:
    mlxc_error* mlxc_error_make(mlxc_code code, const char* text)
    mlxc_code mlxc_error_code(const mlxc_error* error)
    const char* mlxc_error_text(const mlxc_error* error)
    void mlxc_error_free(mlxc_error* error)

    const char* mlxc_version()
    int32_t mlxc_has_feature(const char* name)
    mlxc_error* mlxc_init()
    mlxc_error* mlxc_backend_load(const char* path)
    ctypedef struct mlxc_backend_attempt:
        size_t struct_size
        const char* path
        const char* name
        const char* version
        const char* message
        int32_t loaded
        mlxc_device_kind kind
        int32_t device_count
        const char* reason
    size_t mlxc_backend_attempt_count()
    mlxc_error* mlxc_backend_attempt_get(size_t index, mlxc_backend_attempt* attempt)
    int32_t mlxc_kernel_exists(mlxc_device_kind kind, int32_t op, mlxc_dtype dtype)
    size_t mlxc_log_read(char* text, size_t size)

    ctypedef struct mlxc_device:
        mlxc_device_kind kind
        int32_t index
    ctypedef struct mlxc_stream:
        pass
    int32_t mlxc_device_count(mlxc_device_kind kind)
    ctypedef struct mlxc_device_facts:
        size_t struct_size
        char backend[64]
        char name[128]
        char architecture[64]
        char features[256]
        int64_t memory_size
        uint32_t flags
    mlxc_error* mlxc_device_get_facts(mlxc_device device, mlxc_device_facts* facts)
    mlxc_device mlxc_default_device()
    mlxc_error* mlxc_set_default_device(mlxc_device device)
    mlxc_error* mlxc_default_stream(mlxc_device device, mlxc_stream** stream)
    mlxc_error* mlxc_set_default_stream(mlxc_stream* stream)
    mlxc_error* mlxc_set_thread_stream(mlxc_stream* stream, mlxc_stream** previous)
    mlxc_error* mlxc_stream_new(mlxc_device device, mlxc_stream** stream)
    mlxc_device mlxc_stream_device(const mlxc_stream* stream)
    int32_t mlxc_stream_index(const mlxc_stream* stream)
    mlxc_error* mlxc_synchronize(mlxc_stream* stream)
    ctypedef int32_t (*mlxc_interrupt_fn)() noexcept nogil
    void mlxc_set_interrupt_hook(mlxc_interrupt_fn hook)

    int64_t mlxc_memory_active()
    int64_t mlxc_memory_peak()
    void mlxc_memory_reset_peak()
    int64_t mlxc_memory_cache()
    int64_t mlxc_memory_set_limit(int64_t limit)
    int64_t mlxc_memory_get_limit()
    int64_t mlxc_memory_set_cache_limit(int64_t limit)
    void mlxc_memory_clear_cache()

cdef extern from "mlxc/array.h" nogil:
    ctypedef struct mlxc_array:
        pass
    mlxc_array* mlxc_array_retain(mlxc_array* array)
    void mlxc_array_release(mlxc_array* array)

    mlxc_error* mlxc_array_from_host(const void* data, mlxc_dtype dtype, int32_t ndim,
                                     const int64_t* shape, mlxc_array** out)
    mlxc_error* mlxc_array_from_strided(const void* data, mlxc_dtype dtype, int32_t ndim,
                                        const int64_t* shape, const int64_t* strides, mlxc_array** out)
    mlxc_error* mlxc_array_wrap_host(void* data, mlxc_dtype dtype, int32_t ndim, const int64_t* shape,
                                     const int64_t* strides, void (*release)(void*) noexcept nogil,
                                     void* context, mlxc_array** out)
    mlxc_error* mlxc_array_from_bool(int32_t value, mlxc_dtype dtype, mlxc_array** out)
    mlxc_error* mlxc_array_from_int(int64_t value, mlxc_dtype dtype, mlxc_array** out)
    mlxc_error* mlxc_array_from_uint(uint64_t value, mlxc_dtype dtype, mlxc_array** out)
    mlxc_error* mlxc_array_from_double(double value, mlxc_dtype dtype, mlxc_array** out)
    mlxc_error* mlxc_constant_int(int64_t value, mlxc_dtype dtype, mlxc_array** out)
    mlxc_error* mlxc_constant_double(double value, mlxc_dtype dtype, mlxc_array** out)
    mlxc_error* mlxc_array_from_complex(double re, double im, mlxc_dtype dtype, mlxc_array** out)

    int32_t mlxc_array_ndim(const mlxc_array* array)
    const int64_t* mlxc_array_shape(const mlxc_array* array)
    int64_t mlxc_array_dim(const mlxc_array* array, int32_t axis)
    int64_t mlxc_array_size(const mlxc_array* array)
    mlxc_dtype mlxc_array_dtype(const mlxc_array* array)
    mlxc_stream* mlxc_array_stream(const mlxc_array* array)
    int32_t mlxc_array_status(const mlxc_array* array)
    int32_t mlxc_array_is_traced(const mlxc_array* array)
    int32_t mlxc_array_op(const mlxc_array* array)
    const void* mlxc_array_buffer_id(const mlxc_array* array, int64_t* bytes)

    mlxc_error* mlxc_eval(mlxc_array** arrays, size_t count)
    mlxc_error* mlxc_async_eval(mlxc_array** arrays, size_t count)
    mlxc_error* mlxc_array_wait(mlxc_array* array, int64_t timeout_ns, int32_t* done)

    mlxc_error* mlxc_array_host(mlxc_array* array, const void** data, const int64_t** strides)
    mlxc_error* mlxc_array_to_host(mlxc_array* array, void* data, size_t bytes)
    mlxc_error* mlxc_array_item_int(mlxc_array* array, int64_t* value)
    mlxc_error* mlxc_array_item_uint(mlxc_array* array, uint64_t* value)
    mlxc_error* mlxc_array_item_double(mlxc_array* array, double* value)
    mlxc_error* mlxc_array_item_complex(mlxc_array* array, double* re, double* im)

    size_t mlxc_dtype_size(mlxc_dtype dtype)
    const char* mlxc_dtype_name(mlxc_dtype dtype)
    mlxc_dtype mlxc_dtype_from_name(const char* name)
    mlxc_error* mlxc_promote(mlxc_dtype a, mlxc_dtype b, mlxc_dtype* out)
    mlxc_error* mlxc_broadcast_shapes(int32_t ndim_a, const int64_t* a, int32_t ndim_b, const int64_t* b,
                                      int32_t* out_ndim, int64_t* out_shape)

cdef extern from "mlxc/random.h" nogil:
    mlxc_error* mlxc_random_uniform(mlxc_array* key, const int64_t* shape, int32_t n_shape, mlxc_dtype dtype,
                                    double scale, double shift, mlxc_stream* stream, mlxc_array** out)
    mlxc_error* mlxc_random_open(mlxc_array* key, const int64_t* shape, int32_t n_shape, mlxc_dtype dtype,
                                 mlxc_stream* stream, mlxc_array** out)
    mlxc_error* mlxc_random_normal(mlxc_array* key, const int64_t* shape, int32_t n_shape, mlxc_dtype dtype,
                                   mlxc_stream* stream, mlxc_array** out)

cdef extern from "mlxc/transform.h" nogil:
    ctypedef struct mlxc_arrays:
        pass
    mlxc_arrays* mlxc_arrays_new()
    void mlxc_arrays_free(mlxc_arrays* list)
    size_t mlxc_arrays_count(const mlxc_arrays* list)
    mlxc_array* mlxc_arrays_get(const mlxc_arrays* list, size_t index)
    mlxc_error* mlxc_arrays_append(mlxc_arrays* list, mlxc_array* array)
    ctypedef struct mlxc_closure:
        size_t struct_size
        mlxc_error* (*call)(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs) noexcept nogil
        void* context
    mlxc_error* mlxc_vjp(const mlxc_closure* fn, mlxc_array** primals, size_t n_primals,
                         mlxc_array** cotangents, size_t n_cotangents, mlxc_arrays* outputs, mlxc_arrays* vjps)
    mlxc_error* mlxc_jvp(const mlxc_closure* fn, mlxc_array** primals, mlxc_array** tangents, size_t n_primals,
                         mlxc_arrays* outputs, mlxc_arrays* jvps)
    mlxc_error* mlxc_value_and_grad(const mlxc_closure* fn, mlxc_array** inputs, size_t n_inputs,
                                    const size_t* argnums, size_t n_argnums, mlxc_arrays* outputs,
                                    mlxc_arrays* gradients)
    mlxc_error* mlxc_grad(const mlxc_closure* fn, mlxc_array** inputs, size_t n_inputs, const size_t* argnums,
                          size_t n_argnums, mlxc_arrays* gradients)
    ctypedef struct mlxc_custom:
        size_t struct_size
        mlxc_error* (*forward)(void* context, mlxc_array* const* inputs, size_t n_inputs,
                               mlxc_arrays* outputs) noexcept nogil
        mlxc_error* (*vjp)(void* context, mlxc_array* const* primals, size_t n_primals, mlxc_array* const* cotangents,
                           mlxc_array* const* outputs, size_t n_outputs, mlxc_arrays* gradients) noexcept nogil
        mlxc_error* (*jvp)(void* context, mlxc_array* const* primals, mlxc_array* const* tangents, size_t n_primals,
                           mlxc_arrays* out_tangents) noexcept nogil
        mlxc_error* (*vmap)(void* context, mlxc_array* const* inputs, const int32_t* axes, size_t n_inputs,
                            mlxc_arrays* outputs) noexcept nogil
        void* context
        void (*release)(void* context) noexcept nogil
    mlxc_error* mlxc_custom_call(const mlxc_custom* custom, mlxc_array** inputs, size_t n_inputs,
                                 mlxc_arrays* outputs)
    mlxc_error* mlxc_checkpoint(const mlxc_closure* fn, mlxc_array** inputs, size_t n_inputs, mlxc_arrays* outputs)
    mlxc_error* mlxc_depends(mlxc_array** inputs, size_t n_inputs, mlxc_array** dependencies,
                             size_t n_dependencies, mlxc_arrays* outputs)
    enum:
        MLXC_NOT_BATCHED
    ctypedef struct mlxc_batch_axes:
        size_t struct_size
        const int32_t* in_axes
        const int32_t* out_axes
        size_t n_out_axes
    mlxc_error* mlxc_vmap(const mlxc_closure* fn, mlxc_array** inputs, size_t n_inputs, const mlxc_batch_axes* axes,
                          mlxc_arrays* outputs)

cdef extern from "mlxc/control.h" nogil:
    mlxc_error* mlxc_cond(mlxc_array* pred, const mlxc_closure* when_true, const mlxc_closure* when_false,
                          mlxc_array** operands, size_t n_operands, mlxc_arrays* outputs)
    mlxc_error* mlxc_while_loop(const mlxc_closure* condition, const mlxc_closure* body, mlxc_array** init,
                                size_t n_init, mlxc_arrays* outputs)
    mlxc_error* mlxc_scan(const mlxc_closure* body, mlxc_array** init, size_t n_init, mlxc_array** xs, size_t n_xs,
                          int64_t length, int32_t reverse, mlxc_arrays* outputs)

cdef extern from "mlxc/program.h" nogil:
    ctypedef struct mlxc_program:
        pass
    enum:
        MLXC_PROGRAM_SHAPELESS
    mlxc_error* mlxc_program_make(const mlxc_closure* fn, mlxc_array** examples, size_t n_examples, uint32_t flags,
                                  mlxc_program** out)
    mlxc_program* mlxc_program_retain(mlxc_program* program)
    void mlxc_program_release(mlxc_program* program)
    ctypedef struct mlxc_program_facts:
        size_t struct_size
        size_t n_inputs
        size_t n_outputs
        size_t n_steps
        size_t n_constants
        uint32_t flags
        const char* fixed
        int32_t borrows
    mlxc_error* mlxc_program_get_facts(const mlxc_program* program, mlxc_program_facts* facts)
    mlxc_error* mlxc_program_call(const mlxc_program* program, mlxc_array** inputs, size_t n_inputs,
                                  mlxc_stream* stream, mlxc_array** outputs, size_t n_outputs)
    ctypedef struct mlxc_program_value:
        size_t struct_size
        mlxc_dtype dtype
        int32_t ndim
        const int64_t* shape
    ctypedef struct mlxc_program_step_facts:
        size_t struct_size
        int32_t op
        size_t n_inputs
        const uint32_t* inputs
        size_t n_outputs
        uint32_t first_output
        const void* params
    mlxc_error* mlxc_program_step_get(const mlxc_program* program, size_t index, mlxc_program_step_facts* facts)
    mlxc_error* mlxc_program_value_get(const mlxc_program* program, size_t index, mlxc_program_value* value)
    mlxc_error* mlxc_program_constant(const mlxc_program* program, size_t index, mlxc_array** out)
    mlxc_error* mlxc_program_output_value(const mlxc_program* program, size_t index, uint32_t* value)
    ctypedef struct mlxc_program_trace:
        size_t struct_size
        const mlxc_program* program
        size_t n_positional
        const char** keywords
    mlxc_error* mlxc_program_save(const char* path, const mlxc_program_trace* traces, size_t n_traces,
                                  const char* metadata)
    ctypedef mlxc_error* (*mlxc_write_fn)(void* context, const void* data, size_t size) noexcept nogil
    ctypedef struct mlxc_program_file:
        pass
    mlxc_error* mlxc_program_load(const char* path, mlxc_program_file** out)
    void mlxc_program_file_free(mlxc_program_file* file)
    const char* mlxc_program_file_metadata(const mlxc_program_file* file)
    mlxc_error* mlxc_program_file_call(const mlxc_program_file* file, mlxc_array** positional, size_t n_positional,
                                       const char** keywords, mlxc_array** named, size_t n_named, mlxc_stream* stream,
                                       mlxc_arrays* outputs)
    mlxc_error* mlxc_graph_dot(mlxc_write_fn write, void* context, mlxc_array** outputs, size_t n_outputs,
                               mlxc_array** named, const char** names, size_t n_named)
    enum:
        MLXC_PARAM_BOOL
        MLXC_PARAM_INT
        MLXC_PARAM_FLOAT
        MLXC_PARAM_DTYPE
        MLXC_PARAM_LIST
    ctypedef struct mlxc_op_param:
        size_t struct_size
        const char* name
        int32_t kind
        int64_t integer
        double real
        int64_t items[32]
    size_t mlxc_op_param_count(int32_t op)
    mlxc_error* mlxc_op_param_get(int32_t op, const void* params, size_t index, mlxc_op_param* param)

cdef extern from "mlxc/kernel.h" nogil:
    enum:
        MLXC_CONSTANT_INT
        MLXC_CONSTANT_BOOL
        MLXC_CONSTANT_DTYPE
    ctypedef struct mlxc_constant:
        int32_t kind
        int64_t value
    ctypedef struct mlxc_user_kernel:
        pass
    ctypedef struct mlxc_user_kernel_desc:
        size_t struct_size
        const char* name
        size_t n_inputs
        const char** input_names
        size_t n_outputs
        const char** output_names
        size_t n_sources
        const char** backends
        const char** bodies
        const char** headers
        const char* options
        int32_t any_layout
        int32_t atomic_outputs
    ctypedef struct mlxc_user_kernel_call_desc:
        size_t struct_size
        const mlxc_dtype* output_dtypes
        const int32_t* output_ndims
        const int64_t** output_shapes
        uint32_t grid[3]
        uint32_t threadgroup[3]
        uint32_t shared_memory
        const double* init
        size_t n_constants
        const char** constant_names
        const mlxc_constant* constants
    mlxc_error* mlxc_user_kernel_new(const mlxc_user_kernel_desc* desc, mlxc_user_kernel** out)
    void mlxc_user_kernel_free(mlxc_user_kernel* kernel)
    mlxc_error* mlxc_user_kernel_call(mlxc_user_kernel* kernel, mlxc_array** inputs, size_t n_inputs,
                                      const mlxc_user_kernel_call_desc* call, mlxc_stream* stream,
                                      mlxc_arrays* outputs)

include "c_ops.pxi"
