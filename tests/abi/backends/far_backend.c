/* The far backend's table, its devices, its settings and its complaints.
 *
 * The core loads it; far.h says what it is for and what it can be told. Rule it keeps: the first
 * breach of backend.h's rules is logged through the host table and fails every later call, so that
 * a test cannot pass by luck after one.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "far.h"

const mlxc_host* far_host;
far_settings far_set;

/* ---- complaints ----------------------------------------------------------------------------- */

static char complaint[256];
static pthread_mutex_t complaint_lock = PTHREAD_MUTEX_INITIALIZER;

void far_complain(const char* format, ...) {
  char text[sizeof complaint - 32];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  pthread_mutex_lock(&complaint_lock);
  int first = complaint[0] == '\0';
  if (first) snprintf(complaint, sizeof complaint, "far backend: breach: %s", text);
  pthread_mutex_unlock(&complaint_lock);
  if (first) far_host->log(MLXC_LOG_WARNING, complaint);
}

mlxc_error* far_check(void) {
  pthread_mutex_lock(&complaint_lock);
  mlxc_error* error = complaint[0] == '\0' ? NULL : far_host->error_make(MLXC_ERROR_RUNTIME, complaint);
  pthread_mutex_unlock(&complaint_lock);
  return error;
}

/* ---- devices -------------------------------------------------------------------------------- */

#define MAX_DEVICES 4
static mlxc_backend_device devices[MAX_DEVICES] = {{0}, {1}, {2}, {3}};

static int32_t count_devices(const char** reason) {
  if (far_set.devices == 0) *reason = "FAR_DEVICES is 0";
  return far_set.devices;
}

static mlxc_error* open_device(int32_t index, mlxc_backend_device** device) {
  if (index < 0 || index >= far_set.devices)
    return far_host->error_make(MLXC_ERROR_VALUE, "far backend: no device of that index");
  *device = &devices[index];
  return NULL;
}

static mlxc_error* describe_device(mlxc_backend_device* device, mlxc_device_info* info) {
  if (info->struct_size < sizeof *info)
    return far_host->error_make(MLXC_ERROR_VALUE, "far backend: device_info of another version");
  info->flags = 0;
  snprintf(info->name, sizeof info->name, "far device %d", (int)device->index);
  snprintf(info->architecture, sizeof info->architecture, "protected pages");
  snprintf(info->features, sizeof info->features, "late%s", far_set.pause ? " paused" : "");
  info->memory_size = far_set.alloc_limit > 0 ? far_set.alloc_limit : 0;
  info->alignment = 4096;
  info->dtypes = MLXC_DTYPES_ALL;
  return NULL;
}

/* ---- settings and the table ----------------------------------------------------------------- */

static int64_t read_number(const char* name, int64_t otherwise) {
  const char* text = getenv(name);
  return text == NULL || text[0] == '\0' ? otherwise : strtoll(text, NULL, 10);
}

static mlxc_backend table = {
    .struct_size = sizeof(mlxc_backend),
    .abi_major = MLXC_BACKEND_ABI_MAJOR,
    .abi_minor = MLXC_BACKEND_ABI_MINOR,
    .name = "far",
    .version = "1.0",
    .kind = MLXC_GPU,
    .kernels = far_rows,
    .kernel_size = sizeof(mlxc_kernel),
    .device_count = count_devices,
    .device_open = open_device,
    .device_info = describe_device,
    .alloc = far_alloc,
    .free = far_free,
    .host_pointer = far_host_pointer,
    .stream_create = far_stream_create,
    .stream_destroy = far_stream_destroy,
    .stream_signal = far_stream_signal,
    .stream_await = far_stream_await,
    .stream_wait = far_stream_wait,
    .copy = far_copy,
    .fill = far_fill,
    .shutdown = far_shutdown,
};

mlxc_error* mlxc_backend_entry(const mlxc_host* host, const mlxc_backend** backend) {
  far_host = host;
  int64_t wanted = read_number("FAR_DEVICES", 1);
  far_set.devices = wanted < 0 ? 0 : wanted > MAX_DEVICES ? MAX_DEVICES : (int32_t)wanted;
  far_set.delay_us = read_number("FAR_DELAY_US", 20);
  far_set.pause = read_number("FAR_PAUSE", 0) != 0;
  far_set.fail_op = read_number("FAR_FAIL_OP", 0);
  far_set.alloc_limit = read_number("FAR_ALLOC_LIMIT", -1);
  table.n_kernels = far_n_rows;
  *backend = &table;
  return NULL;
}
