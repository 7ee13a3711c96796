/* What the files of the far backend share: its memory, its jobs, its complaints.
 *
 * The far backend stands in for a discrete GPU with an unforgiving driver: memory that the host
 * cannot touch, streams that run late on threads of their own, few kernels, and a complaint about
 * every breach of backend.h's rules. Settings from the environment, read at load:
 *
 *   FAR_DEVICES      how many devices (1)
 *   FAR_DELAY_US     wait before each piece of work, in microseconds (20)
 *   FAR_PAUSE        1: work begins only when a wait, or another stream, asks for its value
 *   FAR_FAIL_OP      the n-th kernel, counted from 1 in order of submission, fails when it runs
 *   FAR_ALLOC_LIMIT  bytes that may be allocated at one time
 */
#ifndef FAR_H
#define FAR_H

#include <mlxc/backend.h>
#include <mlxc/ops.h>
#include <mlxc/types.h>

#define FAR_MAX_VIEWS 4

typedef struct far_settings {
  int32_t devices;
  int64_t delay_us;
  int32_t pause;
  int64_t fail_op;
  int64_t alloc_limit; /* negative: none */
} far_settings;

extern const mlxc_host* far_host;
extern far_settings far_set;

struct mlxc_backend_device {
  int32_t index;
};

/* ---- complaints (far_backend.c) ------------------------------------------------------------- */

/* Keeps and logs the first breach of the rules; every later call fails with its text. */
void far_complain(const char* format, ...) __attribute__((format(printf, 1, 2)));
/* The error of the first breach, NULL while there is none. */
mlxc_error* far_check(void);

/* ---- memory (far_memory.c) ------------------------------------------------------------------ */

/* The core's handle, an mlxc_backend_memory*, is the address of the protected pages themselves: who
 * takes it for a struct or for data crashes. The record is kept aside. */
typedef struct far_memory far_memory;

mlxc_error* far_alloc(mlxc_backend_device* device, size_t size, mlxc_backend_memory** memory);
void far_free(mlxc_backend_device* device, mlxc_backend_memory* memory);
void* far_host_pointer(mlxc_backend_memory* memory);
/* The record, marked as needed by queued work until far_drop; NULL, with a complaint, if there is no
 * such memory on the device or if bytes [begin, end) are not inside it. */
far_memory* far_hold(mlxc_backend_device* device, mlxc_backend_memory* memory, int64_t begin, int64_t end);
void far_drop(far_memory* memory);
/* Opens the pages for the calling thread's work and closes them when the last worker is done. */
char* far_touch(far_memory* memory);
void far_leave(far_memory* memory);

/* ---- jobs (far_stream.c) -------------------------------------------------------------------- */

typedef struct far_view {
  int64_t offset; /* bytes */
  mlxc_dtype dtype;
  int32_t ndim;
  int64_t size;
  int64_t shape[MLXC_MAX_NDIM];
  int64_t strides[MLXC_MAX_NDIM];
} far_view;

typedef struct far_job far_job;
/* Does the work: data[i] is the first byte of memories[i]. */
typedef void (*far_work)(const far_job* job, char* const* data);

struct far_job {
  far_job* next;
  far_work work; /* NULL for signals and awaits */
  const char* name;
  int32_t n_memories;
  far_memory* memories[FAR_MAX_VIEWS]; /* NULL where a view has no element */
  far_view views[FAR_MAX_VIEWS];       /* of kernels: the inputs, then the output */
  int64_t fails_as;                    /* not 0: the number of the kernel that has to fail */
  /* copies and fills */
  char* bytes;
  int64_t to;
  int64_t from;
  int64_t size;
  int64_t count;
  char pattern[16];
  /* signals (other is NULL) and awaits */
  mlxc_backend_stream* other;
  uint64_t value;
};

mlxc_backend_device* far_device_of(mlxc_backend_stream* stream);
/* Marks the stream as entered by this thread; an error if another one is inside or rules were broken. */
mlxc_error* far_enter(mlxc_backend_stream* stream);
void far_exit(mlxc_backend_stream* stream);
/* Queues the job, which the stream then owns. */
void far_submit(mlxc_backend_stream* stream, far_job* job);
far_job* far_new_job(const char* name, far_work work);
void far_free_job(far_job* job);

mlxc_error* far_stream_create(mlxc_backend_device* device, mlxc_backend_stream** stream);
void far_stream_destroy(mlxc_backend_stream* stream);
mlxc_error* far_stream_signal(mlxc_backend_stream* stream, uint64_t value);
mlxc_error* far_stream_await(mlxc_backend_stream* stream, mlxc_backend_stream* other, uint64_t value);
mlxc_error* far_stream_wait(mlxc_backend_stream* stream, uint64_t value, int64_t timeout_ns,
                            int32_t* reached);
void far_shutdown(void);

/* ---- bytes (far_bytes.c) and kernels (far_kernels.c) ---------------------------------------- */

mlxc_error* far_copy(mlxc_backend_stream* stream, int32_t direction, mlxc_backend_memory* dst,
                     int64_t dst_offset, mlxc_backend_memory* src, int64_t src_offset, void* host,
                     int64_t size);
mlxc_error* far_fill(mlxc_backend_stream* stream, mlxc_backend_memory* dst, int64_t offset,
                     const void* pattern, int64_t pattern_size, int64_t count);

extern const mlxc_kernel far_rows[];
extern const size_t far_n_rows;

#endif
