/* Backends that the loader must refuse, one a build: BROKEN names the fault.
 *
 * Who calls it: the loader tests, which compile this file once for each fault and look for a message
 * that names it. Rule it keeps: apart from its one fault each variant is well formed, so that a
 * refusal can only come from that fault.
 */
#include <mlxc/backend.h>
#include <mlxc/ops.h>
#include <mlxc/types.h>
#include <stdlib.h>

/* Macros and not an enumeration, for the preprocessor compares them too. */
#define NEWER_MINOR 1
#define OTHER_MAJOR 2
#define ENTRY_FAILS 3
#define NO_ENTRY 4
#define NULL_TABLE 5
#define ZERO_SIZE 6
#define NO_NAME 7
#define NO_ALLOC 8
#define ROW_WITHOUT_RUN 9
#define ROW_SIZE_ZERO 10

#ifndef BROKEN
#error "BROKEN must name a fault"
#endif

static const mlxc_host* host;

static mlxc_error* refuse(void) { return host->error_make(MLXC_ERROR_RUNTIME, "broken backend was used"); }

static int32_t count_devices(const char** reason) {
  *reason = "";
  return 1;
}
static mlxc_error* open_device(int32_t index, mlxc_backend_device** device) {
  (void)index, (void)device;
  return refuse();
}
static mlxc_error* describe_device(mlxc_backend_device* device, mlxc_device_info* info) {
  (void)device, (void)info;
  return refuse();
}
static mlxc_error* alloc_memory(mlxc_backend_device* device, size_t size, mlxc_backend_memory** memory) {
  (void)device, (void)size, (void)memory;
  return refuse();
}
static void free_memory(mlxc_backend_device* device, mlxc_backend_memory* memory) {
  (void)device, (void)memory;
}
static void* host_pointer(mlxc_backend_memory* memory) {
  (void)memory;
  return NULL;
}
static mlxc_error* create_stream(mlxc_backend_device* device, mlxc_backend_stream** stream) {
  (void)device, (void)stream;
  return refuse();
}
static void destroy_stream(mlxc_backend_stream* stream) { (void)stream; }
static mlxc_error* signal_value(mlxc_backend_stream* stream, uint64_t value) {
  (void)stream, (void)value;
  return refuse();
}
static mlxc_error* await_value(mlxc_backend_stream* stream, mlxc_backend_stream* other, uint64_t value) {
  (void)stream, (void)other, (void)value;
  return refuse();
}
static mlxc_error* wait_value(mlxc_backend_stream* stream, uint64_t value, int64_t timeout_ns,
                              int32_t* reached) {
  (void)stream, (void)value, (void)timeout_ns, (void)reached;
  return refuse();
}
static mlxc_error* copy_bytes(mlxc_backend_stream* stream, int32_t direction, mlxc_backend_memory* dst,
                              int64_t dst_offset, mlxc_backend_memory* src, int64_t src_offset, void* bytes,
                              int64_t size) {
  (void)stream, (void)direction, (void)dst, (void)dst_offset, (void)src, (void)src_offset, (void)bytes,
      (void)size;
  return refuse();
}
static mlxc_error* fill_bytes(mlxc_backend_stream* stream, mlxc_backend_memory* dst, int64_t offset,
                              const void* pattern, int64_t pattern_size, int64_t count) {
  (void)stream, (void)dst, (void)offset, (void)pattern, (void)pattern_size, (void)count;
  return refuse();
}
static mlxc_error* run_row(mlxc_backend_stream* stream, const mlxc_kernel_call* call) {
  (void)stream, (void)call;
  return refuse();
}

static const mlxc_kernel rows[] = {{
    .struct_size = sizeof(mlxc_kernel),
    .op = MLXC_OP_ADD,
    .input_dtypes = MLXC_DTYPES_ALL,
    .output_dtypes = MLXC_DTYPES_ALL,
    .run = BROKEN == ROW_WITHOUT_RUN ? NULL : run_row,
}};

static const mlxc_backend table = {
    .struct_size = BROKEN == ZERO_SIZE ? 0 : sizeof(mlxc_backend),
    .abi_major = MLXC_BACKEND_ABI_MAJOR + (BROKEN == OTHER_MAJOR ? 1 : 0),
    .abi_minor = MLXC_BACKEND_ABI_MINOR + (BROKEN == NEWER_MINOR ? 7 : 0),
    .name = BROKEN == NO_NAME ? NULL : "broken",
    .version = "1.0",
    .kind = MLXC_GPU,
    .kernels = rows,
    .n_kernels = 1,
    .kernel_size = BROKEN == ROW_SIZE_ZERO ? 0 : sizeof(mlxc_kernel),
    .device_count = count_devices,
    .device_open = open_device,
    .device_info = describe_device,
    .alloc = BROKEN == NO_ALLOC ? NULL : alloc_memory,
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

#if BROKEN == NO_ENTRY
#define mlxc_backend_entry mlxc_backend_entrance
__attribute__((visibility("default")))
mlxc_error* mlxc_backend_entrance(const mlxc_host* given, const mlxc_backend** backend);
#endif

mlxc_error* mlxc_backend_entry(const mlxc_host* given, const mlxc_backend** backend) {
  host = given;
  if (BROKEN == ENTRY_FAILS) return host->error_make(MLXC_ERROR_OS, "the driver is asleep");
  *backend = BROKEN == NULL_TABLE ? NULL : &table;
  return NULL;
}
