/* Devices, streams, memory statistics, versions and backends of the embedding ABI.
 *
 * Thread rule of the whole embedding ABI: any function may be called from any thread, with any
 * array and any stream, without locks of the caller's.
 */
#ifndef MLXC_DEVICE_H
#define MLXC_DEVICE_H

#include "mlxc/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors --------------------------------------------------------------------------------- */

MLXC_API mlxc_error* mlxc_error_make(mlxc_code code, const char* text);
/* MLXC_OK and "" for NULL. The text lives as long as the error. */
MLXC_API mlxc_code mlxc_error_code(const mlxc_error* error);
MLXC_API const char* mlxc_error_text(const mlxc_error* error);
MLXC_API void mlxc_error_free(mlxc_error* error);

/* ---- versions and backends ------------------------------------------------------------------ */

#define MLXC_VERSION_MAJOR 0
#define MLXC_VERSION_MINOR 1
#define MLXC_VERSION_PATCH 0

MLXC_API const char* mlxc_version(void);
/* Nonzero if this library has the named feature: "grad", "jvp", "async_eval", ... */
MLXC_API int32_t mlxc_has_feature(const char* name);

/* Loads the backends: files named by MLXC_BACKEND_PATH, then those beside libmlxc. Happens by itself
 * at first need; calling it again does nothing. Fails only where no CPU backend can be loaded. */
MLXC_API mlxc_error* mlxc_init(void);
/* Loads one more backend library; the path must be absolute. */
MLXC_API mlxc_error* mlxc_backend_load(const char* path);

/* Every attempt to load a backend, successful or not. The texts live as long as the process. */
typedef struct mlxc_backend_attempt {
  size_t struct_size;
  const char* path;
  const char* name;    /* "" if it never said */
  const char* version; /* "" if it never said */
  const char* message; /* "loaded", or the loader's own words */
  int32_t loaded;
  mlxc_device_kind kind;
  int32_t device_count;
  const char* reason; /* why there is no device, "" if there is one */
} mlxc_backend_attempt;
MLXC_API size_t mlxc_backend_attempt_count(void);
MLXC_API mlxc_error* mlxc_backend_attempt_get(size_t index, mlxc_backend_attempt* attempt);

/* Whether the backend of `device` has a kernel of its own for `op` with all inputs of `dtype`. */
MLXC_API int32_t mlxc_kernel_exists(mlxc_device_kind kind, int32_t op, mlxc_dtype dtype);

/* The messages that backends logged, oldest first; fills `text` and returns its full length. */
MLXC_API size_t mlxc_log_read(char* text, size_t size);

/* ---- devices and streams -------------------------------------------------------------------- */

typedef struct mlxc_device {
  mlxc_device_kind kind;
  int32_t index;
} mlxc_device;

/* A stream is a queue of work on one device. Streams are never freed: a handle stays valid for the
 * life of the process. NULL means the default stream of the default device. */
typedef struct mlxc_stream mlxc_stream;

MLXC_API int32_t mlxc_device_count(mlxc_device_kind kind);
typedef struct mlxc_device_facts {
  size_t struct_size;
  char backend[64];
  char name[128];
  char architecture[64];
  char features[256];
  int64_t memory_size;
  uint32_t flags; /* MLXC_DEVICE_... of backend.h */
} mlxc_device_facts;
MLXC_API mlxc_error* mlxc_device_get_facts(mlxc_device device, mlxc_device_facts* facts);

MLXC_API mlxc_device mlxc_default_device(void);
MLXC_API mlxc_error* mlxc_set_default_device(mlxc_device device);
/* The stream used where none is named: this thread's if one was set, else the process's. */
MLXC_API mlxc_error* mlxc_default_stream(mlxc_device device, mlxc_stream** stream);
MLXC_API mlxc_error* mlxc_set_default_stream(mlxc_stream* stream);
/* Makes `stream` the one for work of this thread that names none; NULL goes back to the process's
 * default. Returns what was set before through *previous, if that is not NULL. */
MLXC_API mlxc_error* mlxc_set_thread_stream(mlxc_stream* stream, mlxc_stream** previous);
MLXC_API mlxc_error* mlxc_stream_new(mlxc_device device, mlxc_stream** stream);
MLXC_API mlxc_device mlxc_stream_device(const mlxc_stream* stream);
MLXC_API int32_t mlxc_stream_index(const mlxc_stream* stream);
/* Waits until all work given to the stream so far is done, and returns the first error of it. */
MLXC_API mlxc_error* mlxc_synchronize(mlxc_stream* stream);

/* Called now and then, at most every 20 ms or so, during waits and between kernels, on the thread
 * that waits; a nonzero return stops the wait with MLXC_ERROR_INTERRUPTED. NULL removes it. */
typedef int32_t (*mlxc_interrupt_fn)(void);
MLXC_API void mlxc_set_interrupt_hook(mlxc_interrupt_fn hook);

/* ---- memory --------------------------------------------------------------------------------- */

MLXC_API int64_t mlxc_memory_active(void);
MLXC_API int64_t mlxc_memory_peak(void);
MLXC_API void mlxc_memory_reset_peak(void);
MLXC_API int64_t mlxc_memory_cache(void);
/* Limits in bytes; the old one is returned. Over the memory limit the cache is released first. */
MLXC_API int64_t mlxc_memory_set_limit(int64_t limit);
MLXC_API int64_t mlxc_memory_get_limit(void);
MLXC_API int64_t mlxc_memory_set_cache_limit(int64_t limit);
MLXC_API void mlxc_memory_clear_cache(void);
/* With MLXC_GUARD=1 in the environment every buffer is surrounded by known bytes, checked when it is
 * released. Returns the first damage found, NULL if there was none. */
MLXC_API mlxc_error* mlxc_memory_check(void);

#ifdef __cplusplus
}
#endif
#endif
