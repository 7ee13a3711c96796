/* A backend as it would have been compiled against an older minor version: shorter structs.
 *
 * Who calls it: the loader tests, which require that it loads and that its two kernels run. What its
 * table and rows lack the core must treat as absent. Rule it keeps: it includes older_abi.h and never
 * backend.h. One device in host memory; float32 add and multiply of contiguous arrays.
 */
#include <mlxc/ops.h>
#include <stdlib.h>
#include <string.h>

#include "older_abi.h"

struct older_device {
  int32_t index;
};

struct older_memory {
  void* bytes;
};

struct older_stream {
  _Atomic uint64_t reached;
};

static const older_host* host;
static older_device only_device;

/* ---- kernels -------------------------------------------------------------------------------- */

static mlxc_error* run_add(older_stream* stream, const older_kernel_call* call) {
  (void)stream;
  const float* a = call->inputs[0]->host;
  const float* b = call->inputs[1]->host;
  float* out = call->outputs[0]->host;
  for (int64_t i = 0; i < call->outputs[0]->size; i++) out[i] = a[i] + b[i];
  host->log(0, "older backend: add");
  return NULL;
}

static mlxc_error* run_multiply(older_stream* stream, const older_kernel_call* call) {
  (void)stream;
  const float* a = call->inputs[0]->host;
  const float* b = call->inputs[1]->host;
  float* out = call->outputs[0]->host;
  for (int64_t i = 0; i < call->outputs[0]->size; i++) out[i] = a[i] * b[i];
  host->log(0, "older backend: multiply");
  return NULL;
}

#define FLOAT32 MLXC_DTYPE_BIT(MLXC_FLOAT32)
static const older_kernel kernels[] = {
    {sizeof(older_kernel), MLXC_OP_ADD, FLOAT32, FLOAT32, 0, 0, run_add},
    {sizeof(older_kernel), MLXC_OP_MULTIPLY, FLOAT32, FLOAT32, 0, 0, run_multiply},
};

/* ---- devices and memory --------------------------------------------------------------------- */

static int32_t count_devices(const char** reason) {
  (void)reason;
  return 1;
}

static mlxc_error* open_device(int32_t index, older_device** device) {
  if (index != 0) return host->error_make(MLXC_ERROR_VALUE, "older backend: there is only device 0");
  *device = &only_device;
  return NULL;
}

static mlxc_error* describe_device(older_device* device, older_device_info* info) {
  (void)device;
  info->flags = 1 | 2; /* host-visible, synchronous */
  strcpy(info->name, "older device");
  info->alignment = 64;
  info->dtypes = MLXC_DTYPES_ALL;
  return NULL;
}

static mlxc_error* alloc_memory(older_device* device, size_t size, older_memory** memory) {
  (void)device;
  older_memory* made = size > SIZE_MAX - 64 ? NULL : malloc(sizeof *made);
  if (made != NULL) made->bytes = aligned_alloc(64, (size / 64 + 1) * 64);
  if (made == NULL || made->bytes == NULL) {
    free(made);
    return host->error_make(MLXC_ERROR_MEMORY, "older backend: no host memory left");
  }
  *memory = made;
  return NULL;
}

static void free_memory(older_device* device, older_memory* memory) {
  (void)device;
  free(memory->bytes);
  free(memory);
}

static void* host_pointer(older_memory* memory) { return memory->bytes; }

/* ---- streams -------------------------------------------------------------------------------- */

static mlxc_error* create_stream(older_device* device, older_stream** stream) {
  (void)device;
  *stream = calloc(1, sizeof **stream);
  return *stream == NULL ? host->error_make(MLXC_ERROR_MEMORY, "older backend: no host memory left") : NULL;
}

static void destroy_stream(older_stream* stream) { free(stream); }

static mlxc_error* signal_value(older_stream* stream, uint64_t value) {
  stream->reached = value;
  return NULL;
}

static mlxc_error* await_value(older_stream* stream, older_stream* other, uint64_t value) {
  (void)stream;
  if (other->reached >= value) return NULL;
  return host->error_make(MLXC_ERROR_RUNTIME, "older backend: awaits a value that was never signalled");
}

static mlxc_error* wait_value(older_stream* stream, uint64_t value, int64_t timeout_ns, int32_t* reached) {
  (void)timeout_ns;
  *reached = stream->reached >= value;
  return NULL;
}

static mlxc_error* copy_bytes(older_stream* stream, int32_t direction, older_memory* dst, int64_t dst_offset,
                              older_memory* src, int64_t src_offset, void* bytes, int64_t size) {
  (void)stream;
  char* to = direction == 2 ? bytes : (char*)dst->bytes + dst_offset;
  const char* from = direction == 1 ? bytes : (char*)src->bytes + src_offset;
  memmove(to, from, (size_t)size);
  return NULL;
}

static mlxc_error* fill_bytes(older_stream* stream, older_memory* dst, int64_t offset, const void* pattern,
                              int64_t pattern_size, int64_t count) {
  (void)stream;
  char* at = (char*)dst->bytes + offset;
  for (int64_t i = 0; i < count; i++) memcpy(at + i * pattern_size, pattern, (size_t)pattern_size);
  return NULL;
}

/* ---- the table ------------------------------------------------------------------------------ */

static const older_backend table = {
    .struct_size = sizeof(older_backend),
    .abi_major = 1,
    .abi_minor = 0,
    .name = "older",
    .version = "0.9",
    .kind = MLXC_GPU,
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
    .kernel_size = sizeof(older_kernel),
    .device_count = count_devices,
    .device_open = open_device,
    .device_info = describe_device,
    .alloc = alloc_memory,
    .free = free_memory,
    .host_pointer = host_pointer,
    .wrap = NULL,
    .stream_create = create_stream,
    .stream_destroy = destroy_stream,
    .stream_signal = signal_value,
    .stream_await = await_value,
    .stream_wait = wait_value,
    .copy = copy_bytes,
    .fill = fill_bytes,
};

__attribute__((visibility("default"))) mlxc_error* mlxc_backend_entry(const older_host* given,
                                                                      const older_backend** backend);

mlxc_error* mlxc_backend_entry(const older_host* given, const older_backend** backend) {
  if (given->struct_size < sizeof(older_host)) return given->error_make(MLXC_ERROR_VALUE, "older core");
  host = given;
  *backend = &table;
  return NULL;
}
