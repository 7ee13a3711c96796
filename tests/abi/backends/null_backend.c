/* The smallest backend: a GPU kind of backend that has no device and says why, or, with the
 * environment's NULL_DEVICES=1, one device that holds memory and runs no op at all.
 *
 * Who calls it: tests of the loader, and of the rule that an op without a kernel runs on the CPU.
 * Rule it keeps: every required pointer of the table is there, every optional one is NULL. Start a
 * backend of your own from a copy of this file.
 */
#include <mlxc/backend.h>
#include <mlxc/ops.h>
#include <mlxc/types.h>
#include <stdlib.h>
#include <string.h>

struct mlxc_backend_device {
  int32_t index;
};

struct mlxc_backend_memory {
  size_t size;
  void* bytes;
};

/* Work is finished when the call that submits it returns, so a stream is only the last value that
 * was signalled. Atomic because await and wait read it without that stream's lock. */
struct mlxc_backend_stream {
  _Atomic uint64_t reached;
};

static const mlxc_host* host;
static mlxc_backend_device only_device = {0};

static mlxc_error* out_of_memory(void) {
  return host->error_make(MLXC_ERROR_MEMORY, "null backend: no host memory left");
}

/* ---- devices -------------------------------------------------------------------------------- */

static int32_t count_devices(const char** reason) {
  const char* wanted = getenv("NULL_DEVICES");
  if (wanted != NULL && strcmp(wanted, "1") == 0) return 1;
  *reason = "the null backend has no device unless NULL_DEVICES=1";
  return 0;
}

static mlxc_error* open_device(int32_t index, mlxc_backend_device** device) {
  if (index != 0) return host->error_make(MLXC_ERROR_VALUE, "null backend: there is only device 0");
  *device = &only_device;
  return NULL;
}

static mlxc_error* describe_device(mlxc_backend_device* device, mlxc_device_info* info) {
  (void)device;
  info->flags = MLXC_DEVICE_HOST_VISIBLE | MLXC_DEVICE_SYNCHRONOUS;
  strcpy(info->name, "null device");
  strcpy(info->architecture, "none");
  info->features[0] = '\0';
  info->memory_size = 0;
  info->alignment = 64;
  info->dtypes = MLXC_DTYPES_ALL;
  return NULL;
}

/* ---- memory --------------------------------------------------------------------------------- */

static mlxc_error* alloc_memory(mlxc_backend_device* device, size_t size, mlxc_backend_memory** memory) {
  (void)device;
  if (size > SIZE_MAX - 64) return out_of_memory();
  size_t rounded = (size / 64 + 1) * 64;
  mlxc_backend_memory* made = malloc(sizeof *made);
  if (made == NULL) return out_of_memory();
  made->size = size;
  made->bytes = aligned_alloc(64, rounded);
  if (made->bytes == NULL) {
    free(made);
    return out_of_memory();
  }
  *memory = made;
  return NULL;
}

static void free_memory(mlxc_backend_device* device, mlxc_backend_memory* memory) {
  (void)device;
  free(memory->bytes);
  free(memory);
}

static void* host_pointer(mlxc_backend_memory* memory) { return memory->bytes; }

/* ---- streams -------------------------------------------------------------------------------- */

static mlxc_error* create_stream(mlxc_backend_device* device, mlxc_backend_stream** stream) {
  (void)device;
  *stream = calloc(1, sizeof **stream);
  return *stream == NULL ? out_of_memory() : NULL;
}

static void destroy_stream(mlxc_backend_stream* stream) { free(stream); }

static mlxc_error* signal_value(mlxc_backend_stream* stream, uint64_t value) {
  stream->reached = value;
  return NULL;
}

static mlxc_error* await_value(mlxc_backend_stream* stream, mlxc_backend_stream* other, uint64_t value) {
  (void)stream;
  if (other->reached < value)
    return host->error_make(MLXC_ERROR_RUNTIME, "null backend: awaits a value that was never signalled");
  return NULL;
}

static mlxc_error* wait_value(mlxc_backend_stream* stream, uint64_t value, int64_t timeout_ns,
                              int32_t* reached) {
  (void)timeout_ns;
  *reached = stream->reached >= value;
  return NULL;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static mlxc_error* copy_bytes(mlxc_backend_stream* stream, int32_t direction, mlxc_backend_memory* dst,
                              int64_t dst_offset, mlxc_backend_memory* src, int64_t src_offset, void* bytes,
                              int64_t size) {
  (void)stream;
  char* to = direction == MLXC_COPY_DEVICE_TO_HOST ? bytes : (char*)dst->bytes + dst_offset;
  const char* from = direction == MLXC_COPY_HOST_TO_DEVICE ? bytes : (char*)src->bytes + src_offset;
  memmove(to, from, (size_t)size);
  return NULL;
}

static mlxc_error* fill_bytes(mlxc_backend_stream* stream, mlxc_backend_memory* dst, int64_t offset,
                              const void* pattern, int64_t pattern_size, int64_t count) {
  (void)stream;
  char* at = (char*)dst->bytes + offset;
  for (int64_t i = 0; i < count; i++) memcpy(at + i * pattern_size, pattern, (size_t)pattern_size);
  return NULL;
}

/* ---- the table ------------------------------------------------------------------------------ */

static const mlxc_backend table = {
    .struct_size = sizeof(mlxc_backend),
    .abi_major = MLXC_BACKEND_ABI_MAJOR,
    .abi_minor = MLXC_BACKEND_ABI_MINOR,
    .name = "null",
    .version = "1.0",
    .kind = MLXC_GPU,
    .kernels = NULL,
    .n_kernels = 0,
    .kernel_size = sizeof(mlxc_kernel),
    .device_count = count_devices,
    .device_open = open_device,
    .device_info = describe_device,
    .alloc = alloc_memory,
    .free = free_memory,
    .host_pointer = host_pointer,
    .stream_create = create_stream,
    .stream_destroy = destroy_stream,
    .stream_signal = signal_value,
    .stream_await = await_value,
    .stream_wait = wait_value,
    .copy = copy_bytes,
    .fill = fill_bytes,
};

mlxc_error* mlxc_backend_entry(const mlxc_host* given, const mlxc_backend** backend) {
  host = given;
  host->log(MLXC_LOG_INFO, "null backend: entered");
  *backend = &table;
  return NULL;
}
