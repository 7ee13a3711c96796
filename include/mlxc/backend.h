/* The backend ABI: what a shared library offers so that mlxc can compute on a device.
 *
 * A backend library exports ONE symbol, mlxc_backend_entry. It includes types.h, backend.h and the
 * generated ops.h (op numbers and parameter structs), and links to nothing of mlxc.
 *
 * Rules
 *  - Every struct begins with its size in bytes, set by whoever fills it in. The reader copies what
 *    it knows into a zeroed struct of its own, once; so a pointer that is NULL means "absent".
 *    Fields are only appended. Op numbers are never reused.
 *  - Errors are returned objects made by host->error_make; NULL means success. No C++ exception, no
 *    abort, no exit, no printing crosses this line.
 *  - A kernel gets borrowed views that are valid during the call only; what it enqueues must copy
 *    what it needs of them (not the memory they name: that lives until the work has run). Outputs
 *    are allocated by the core, row-major without gaps, unless a layout bit says otherwise.
 *  - Threads: the core holds the stream's lock during every call that takes a stream, so one stream
 *    is never entered by two threads at once; different streams may be. alloc and free come from
 *    any thread at any time and must not wait for queued work.
 */
#ifndef MLXC_BACKEND_H
#define MLXC_BACKEND_H

#include "mlxc/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLXC_BACKEND_ABI_MAJOR 1
#define MLXC_BACKEND_ABI_MINOR 0

/* Objects that belong to the backend; the core only carries their addresses. */
typedef struct mlxc_backend_device mlxc_backend_device;
typedef struct mlxc_backend_memory mlxc_backend_memory;
typedef struct mlxc_backend_stream mlxc_backend_stream;
typedef struct mlxc_backend_program mlxc_backend_program;
typedef struct mlxc_backend_kernel mlxc_backend_kernel;

/* ---- what the core offers to a backend ------------------------------------------------------ */

typedef void (*mlxc_range_fn)(void* context, int64_t begin, int64_t end);

enum { MLXC_LOG_DEBUG = 0, MLXC_LOG_INFO = 1, MLXC_LOG_WARNING = 2 };

typedef struct mlxc_host {
  size_t struct_size;
  int32_t abi_major;
  int32_t abi_minor;
  /* Makes an error object; the text is copied. Never returns NULL. */
  mlxc_error* (*error_make)(mlxc_code code, const char* text);
  void (*error_free)(mlxc_error* error);
  /* Kept in a ring that mlxc.info shows; nothing is printed. */
  void (*log)(int32_t level, const char* text);
  /* Calls fn over [0, n) in pieces of at least `grain`, on the core's worker threads and this one;
   * returns when all is done. Calls nested in another run on the calling thread. */
  void (*parallel_for)(int64_t n, int64_t grain, mlxc_range_fn fn, void* context);
  /* How many threads parallel_for uses at most. */
  int32_t (*thread_count)(void);
  /* The disk cache for products of run-time compilers. The key is any string. get returns NULL in
   * *data when absent; the caller frees *data with cache_free. */
  mlxc_error* (*cache_get)(const char* key, void** data, size_t* size);
  mlxc_error* (*cache_put)(const char* key, const void* data, size_t size);
  void (*cache_free)(void* data);
} mlxc_host;

/* ---- views ---------------------------------------------------------------------------------- */

enum {
  MLXC_VIEW_ROW_CONTIGUOUS = 1, /* row-major without gaps */
  MLXC_VIEW_SCALAR = 2,         /* every stride is 0: one element repeated */
  MLXC_VIEW_DONATED = 4         /* an input whose memory is the output's too: written in place */
};

/* A rectangular window on memory. Strides are in elements, may be 0 (broadcast) or negative.
 * The first element is at byte `offset` of the memory. */
typedef struct mlxc_view {
  size_t struct_size;
  mlxc_backend_memory* memory;
  void* host; /* address of the first element where the host can touch the memory, else NULL */
  int64_t offset;
  mlxc_dtype dtype;
  int32_t ndim;
  const int64_t* shape;
  const int64_t* strides;
  int64_t size; /* product of the shape */
  uint32_t flags;
} mlxc_view;

/* ---- kernels -------------------------------------------------------------------------------- */

typedef struct mlxc_kernel_call {
  size_t struct_size;
  int32_t op; /* MLXC_OP_... of ops.h */
  int32_t n_inputs;
  int32_t n_outputs;
  const mlxc_view* const* inputs;
  const mlxc_view* const* outputs;
  const void* params; /* the op's parameter struct of ops.h, or NULL */
  size_t params_size;
} mlxc_kernel_call;

/* Runs the op, or enqueues it: see MLXC_STREAM_SYNCHRONOUS. */
typedef mlxc_error* (*mlxc_kernel_fn)(mlxc_backend_stream* stream, const mlxc_kernel_call* call);

/* Returns nonzero if the kernel takes this call. Only shapes, dtypes, strides and params may be
 * looked at; memory may be NULL. */
typedef int32_t (*mlxc_accepts_fn)(const mlxc_kernel_call* call);

/* Layouts an input may have. What a kernel does not accept the core copies first. */
enum {
  MLXC_LAYOUT_CONTIGUOUS = 0, /* row-major without gaps; always accepted */
  MLXC_LAYOUT_BROADCAST = 1,  /* zero strides */
  MLXC_LAYOUT_STRIDED = 2,    /* any positive strides */
  MLXC_LAYOUT_NEGATIVE = 4,   /* negative strides */
  MLXC_LAYOUT_ANY = 7
};

enum {
  /* Input i may share the memory of output 0 when it has the same dtype and is row-contiguous. */
  MLXC_KERNEL_DONATES_0 = 1,
  MLXC_KERNEL_DONATES_1 = 2,
  MLXC_KERNEL_DONATES_2 = 4
};

/* A row of the kernel list. The core looks rows up by op and takes the first whose dtype masks
 * admit every input and output and whose `accepts` (if any) agrees. */
typedef struct mlxc_kernel {
  size_t struct_size;
  int32_t op;
  mlxc_dtype_mask input_dtypes;
  mlxc_dtype_mask output_dtypes;
  uint32_t layouts;
  uint32_t flags;
  mlxc_kernel_fn run;
  mlxc_accepts_fn accepts;
} mlxc_kernel;

/* ---- element-wise programs ------------------------------------------------------------------- */

/* One op of a program. Values are numbered: the program's inputs first, then what the steps make, in
 * their order. A step makes one value. */
typedef struct mlxc_program_step {
  size_t struct_size;
  int32_t op;       /* element-wise with one output, or MLXC_OP_ASTYPE */
  mlxc_dtype dtype; /* of the value it makes */
  int32_t n_inputs;
  const int32_t* inputs; /* values that come before */
  const void* params;    /* as in a kernel call */
  size_t params_size;
} mlxc_program_step;

/* Several element-wise ops over one shape, to be run without writing what lies between to memory. */
typedef struct mlxc_program_source {
  size_t struct_size;
  int32_t n_inputs;
  const mlxc_dtype* input_dtypes;
  int32_t n_steps;
  const mlxc_program_step* const* steps;
  int32_t n_outputs;
  const int32_t* outputs; /* values that steps make, each once */
} mlxc_program_source;

/* ---- user kernels --------------------------------------------------------------------------- */

/* What a user kernel is compiled from. The text is the body of a function that is run once for each
 * point of a grid, in the backend's own language; the backend declares what the body finds: the inputs and
 * outputs by their names, shapes and strides, and the point. */
typedef struct mlxc_user_kernel_source {
  size_t struct_size;
  const char* name;   /* an identifier */
  const char* header; /* text before the function */
  const char* body;
  const char* options; /* for the backend's compiler, words with spaces between */
  int32_t n_inputs;
  const char* const* input_names;
  const mlxc_dtype* input_dtypes;
  const int32_t* input_ndims;
  int32_t n_outputs;
  const char* const* output_names;
  const mlxc_dtype* output_dtypes;
  const int32_t* output_ndims;
  int32_t n_constants;
  const char* const* constant_names;
  const mlxc_constant* constants;
  int32_t atomic_outputs; /* several points may write one element */
} mlxc_user_kernel_source;

typedef struct mlxc_user_kernel_launch {
  size_t struct_size;
  uint32_t grid[3];        /* points along x, y, z */
  uint32_t threadgroup[3]; /* points that run together, where the device has such groups */
  uint32_t shared_memory;  /* bytes a group */
} mlxc_user_kernel_launch;

/* ---- the backend ---------------------------------------------------------------------------- */

enum {
  /* Memory has a host address, coherent without copies: device memory is host memory. */
  MLXC_DEVICE_HOST_VISIBLE = 1,
  /* Work is finished when the call that submits it returns (the CPU). */
  MLXC_DEVICE_SYNCHRONOUS = 2
};

typedef struct mlxc_device_info {
  size_t struct_size;
  uint32_t flags;
  char name[128];
  char architecture[64];
  char features[256];     /* words with spaces between, for people and for mlxc.info */
  int64_t memory_size;    /* bytes, 0 = unknown */
  int64_t alignment;      /* of allocations, bytes */
  mlxc_dtype_mask dtypes; /* dtypes the device can hold and copy */
} mlxc_device_info;

enum { MLXC_COPY_DEVICE_TO_DEVICE = 0, MLXC_COPY_HOST_TO_DEVICE = 1, MLXC_COPY_DEVICE_TO_HOST = 2 };

typedef struct mlxc_backend {
  size_t struct_size;
  int32_t abi_major;
  int32_t abi_minor;
  const char* name; /* "cpu", "cuda", ... */
  const char* version;
  mlxc_device_kind kind;

  /* Kernel list: n_kernels rows of kernel_size bytes each. */
  const mlxc_kernel* kernels;
  size_t n_kernels;
  size_t kernel_size;

  /* Devices. device_count says in *reason (a static or backend-owned text) why there are none. */
  int32_t (*device_count)(const char** reason);
  mlxc_error* (*device_open)(int32_t index, mlxc_backend_device** device);
  mlxc_error* (*device_info)(mlxc_backend_device* device, mlxc_device_info* info);

  /* Memory. alloc returns MLXC_ERROR_MEMORY when there is none. host_pointer is NULL where the host
   * cannot touch the memory. wrap (optional) makes memory of host bytes that outlive it. */
  mlxc_error* (*alloc)(mlxc_backend_device* device, size_t size, mlxc_backend_memory** memory);
  void (*free)(mlxc_backend_device* device, mlxc_backend_memory* memory);
  void* (*host_pointer)(mlxc_backend_memory* memory);
  mlxc_error* (*wrap)(mlxc_backend_device* device, void* host, size_t size, mlxc_backend_memory** memory);

  /* Streams. A stream is a timeline: work runs in the order given. */
  mlxc_error* (*stream_create)(mlxc_backend_device* device, mlxc_backend_stream** stream);
  void (*stream_destroy)(mlxc_backend_stream* stream);
  /* The timeline reaches `value` when all work so far is done. Values grow. */
  mlxc_error* (*stream_signal)(mlxc_backend_stream* stream, uint64_t value);
  /* Work given to `stream` from here on waits until `other` (same backend) reaches `value`.
   * A failure of `other` up to that value poisons `stream`. */
  mlxc_error* (*stream_await)(mlxc_backend_stream* stream, mlxc_backend_stream* other, uint64_t value);
  /* Blocks the host until the timeline has reached `value`; *reached is 0 on time-out. A negative
   * time-out waits for ever. Returns the error of any work up to `value` that failed; from then on,
   * work that was already queued behind the failure is skipped, and the first wait that returns the
   * error with nothing left in the queue makes the stream usable again. A later wait for a value in
   * the failed stretch returns the error again. May be called by any thread without the stream's lock. */
  mlxc_error* (*stream_wait)(mlxc_backend_stream* stream, uint64_t value, int64_t timeout_ns,
                             int32_t* reached);

  /* Bytes, in stream order. `copy`: the host side is a plain pointer given as host, NULL for
   * device to device; host bytes stay valid until the stream has passed the copy. `fill` repeats
   * the pattern of 1, 2, 4, 8 or 16 bytes. `prefetch` (optional) is a hint. */
  mlxc_error* (*copy)(mlxc_backend_stream* stream, int32_t direction, mlxc_backend_memory* dst,
                      int64_t dst_offset, mlxc_backend_memory* src, int64_t src_offset, void* host,
                      int64_t size);
  mlxc_error* (*fill)(mlxc_backend_stream* stream, mlxc_backend_memory* dst, int64_t offset,
                      const void* pattern, int64_t pattern_size, int64_t count);
  mlxc_error* (*prefetch)(mlxc_backend_stream* stream, mlxc_backend_memory* memory, int64_t offset,
                          int64_t size);

  /* Called once before the library is closed, or never. */
  void (*shutdown)(void);

  /* Element-wise programs; all three or none. program_make compiles the source, of which nothing is kept; it
   * sets *program to NULL, without an error, for one that the backend has no way to run: the core then runs
   * the ops one by one. A program is called by many streams, also at the same time. program_run gets the
   * inputs stretched to the shape of the outputs (strides may be 0, or negative); outputs are row-major and
   * share no memory with inputs. Results must be those of the ops' own kernels, up to the ops' tolerances. */
  mlxc_error* (*program_make)(mlxc_backend_device* device, const mlxc_program_source* source,
                              mlxc_backend_program** program);
  mlxc_error* (*program_run)(mlxc_backend_stream* stream, mlxc_backend_program* program,
                             const mlxc_view* const* inputs, const mlxc_view* const* outputs);
  void (*program_free)(mlxc_backend_device* device, mlxc_backend_program* program);

  /* User kernels; all three or none. user_kernel_make compiles (the error has the compiler's words) and
   * keeps nothing of the source. A kernel is run by many streams. */
  mlxc_error* (*user_kernel_make)(mlxc_backend_device* device, const mlxc_user_kernel_source* source,
                                  mlxc_backend_kernel** kernel);
  mlxc_error* (*user_kernel_run)(mlxc_backend_stream* stream, mlxc_backend_kernel* kernel,
                                 const mlxc_user_kernel_launch* launch, const mlxc_view* const* inputs,
                                 const mlxc_view* const* outputs);
  void (*user_kernel_free)(mlxc_backend_device* device, mlxc_backend_kernel* kernel);
} mlxc_backend;

/* The one exported symbol. On success *backend points to a table that lives as long as the library. */
typedef mlxc_error* (*mlxc_backend_entry_fn)(const mlxc_host* host, const mlxc_backend** backend);
#if defined(MLXC_BUILDING_BACKEND)
#if defined(_WIN32)
__declspec(dllexport)
#elif defined(__GNUC__)
__attribute__((visibility("default")))
#endif
mlxc_error* mlxc_backend_entry(const mlxc_host* host, const mlxc_backend** backend);
#endif

#ifdef __cplusplus
}
#endif
#endif
