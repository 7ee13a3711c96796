/* A frozen, shorter copy of backend.h: the structs as a backend of an older minor version knew them.
 *
 * Who includes it: older_backend.c only, in place of backend.h. Left out are the newest fields of
 * each struct: `accepts` of a kernel row; prefetch and shutdown of the table; the cache of the host
 * table; donation in views. Rule it keeps: this file never changes, so that a library compiled long
 * ago keeps loading.
 */
#ifndef OLDER_ABI_H
#define OLDER_ABI_H

#include <mlxc/types.h>

typedef struct older_device older_device;
typedef struct older_memory older_memory;
typedef struct older_stream older_stream;

typedef struct older_host {
  size_t struct_size;
  int32_t abi_major;
  int32_t abi_minor;
  mlxc_error* (*error_make)(mlxc_code code, const char* text);
  void (*error_free)(mlxc_error* error);
  void (*log)(int32_t level, const char* text);
} older_host;

typedef struct older_view {
  size_t struct_size;
  older_memory* memory;
  void* host;
  int64_t offset;
  mlxc_dtype dtype;
  int32_t ndim;
  const int64_t* shape;
  const int64_t* strides;
  int64_t size;
} older_view;

typedef struct older_kernel_call {
  size_t struct_size;
  int32_t op;
  int32_t n_inputs;
  int32_t n_outputs;
  const older_view* const* inputs;
  const older_view* const* outputs;
} older_kernel_call;

typedef struct older_kernel {
  size_t struct_size;
  int32_t op;
  mlxc_dtype_mask input_dtypes;
  mlxc_dtype_mask output_dtypes;
  uint32_t layouts;
  uint32_t flags;
  mlxc_error* (*run)(older_stream* stream, const older_kernel_call* call);
} older_kernel;

typedef struct older_device_info {
  size_t struct_size;
  uint32_t flags;
  char name[128];
  char architecture[64];
  char features[256];
  int64_t memory_size;
  int64_t alignment;
  mlxc_dtype_mask dtypes;
} older_device_info;

typedef struct older_backend {
  size_t struct_size;
  int32_t abi_major;
  int32_t abi_minor;
  const char* name;
  const char* version;
  mlxc_device_kind kind;
  const older_kernel* kernels;
  size_t n_kernels;
  size_t kernel_size;
  int32_t (*device_count)(const char** reason);
  mlxc_error* (*device_open)(int32_t index, older_device** device);
  mlxc_error* (*device_info)(older_device* device, older_device_info* info);
  mlxc_error* (*alloc)(older_device* device, size_t size, older_memory** memory);
  void (*free)(older_device* device, older_memory* memory);
  void* (*host_pointer)(older_memory* memory);
  mlxc_error* (*wrap)(older_device* device, void* host, size_t size, older_memory** memory);
  mlxc_error* (*stream_create)(older_device* device, older_stream** stream);
  void (*stream_destroy)(older_stream* stream);
  mlxc_error* (*stream_signal)(older_stream* stream, uint64_t value);
  mlxc_error* (*stream_await)(older_stream* stream, older_stream* other, uint64_t value);
  mlxc_error* (*stream_wait)(older_stream* stream, uint64_t value, int64_t timeout_ns, int32_t* reached);
  mlxc_error* (*copy)(older_stream* stream, int32_t direction, older_memory* dst, int64_t dst_offset,
                      older_memory* src, int64_t src_offset, void* host, int64_t size);
  mlxc_error* (*fill)(older_stream* stream, older_memory* dst, int64_t offset, const void* pattern,
                      int64_t pattern_size, int64_t count);
} older_backend;

#endif
