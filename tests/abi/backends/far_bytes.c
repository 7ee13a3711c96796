/* Copies and fills of the far backend, queued in stream order like any other work.
 *
 * Called through the backend's table. Rule it keeps: nothing is read or written before the stream
 * gets there, so a caller that frees or reuses host bytes too early gets wrong values.
 */
#include <string.h>

#include "far.h"

static void work_copy(const far_job* job, char* const* data) {
  memmove(data[0] + job->to, data[1] + job->from, (size_t)job->size);
}

static void work_upload(const far_job* job, char* const* data) {
  memcpy(data[0] + job->to, job->bytes, (size_t)job->size);
}

static void work_download(const far_job* job, char* const* data) {
  memcpy(job->bytes, data[0] + job->from, (size_t)job->size);
}

static void work_fill(const far_job* job, char* const* data) {
  char* at = data[0] + job->to;
  for (int64_t i = 0; i < job->count; i++) memcpy(at + i * job->size, job->pattern, (size_t)job->size);
}

/* Adds memory to the job; 0 if rules were broken. */
static int add_memory(mlxc_backend_stream* stream, far_job* job, mlxc_backend_memory* memory, int64_t begin,
                      int64_t size) {
  far_memory* held = far_hold(far_device_of(stream), memory, begin, begin + size);
  if (held == NULL) return 0;
  job->memories[job->n_memories++] = held;
  return 1;
}

/* Queues the job, or frees it and returns the error of the breach that was found. */
static mlxc_error* finish(mlxc_backend_stream* stream, far_job* job, int ok) {
  mlxc_error* error = NULL;
  if (ok) {
    far_submit(stream, job);
  } else {
    error = far_check();
    far_free_job(job);
  }
  far_exit(stream);
  return error;
}

static mlxc_error* no_job(mlxc_backend_stream* stream) {
  far_exit(stream);
  return far_host->error_make(MLXC_ERROR_MEMORY, "far backend: no host memory left");
}

mlxc_error* far_copy(mlxc_backend_stream* stream, int32_t direction, mlxc_backend_memory* dst,
                     int64_t dst_offset, mlxc_backend_memory* src, int64_t src_offset, void* host,
                     int64_t size) {
  mlxc_error* error = far_enter(stream);
  if (error != NULL) return error;
  far_job* job = far_new_job("copy", work_copy);
  if (job == NULL) return no_job(stream);
  job->bytes = host;
  job->to = dst_offset;
  job->from = src_offset;
  job->size = size;
  int ok = size >= 0 && (host != NULL) == (direction != MLXC_COPY_DEVICE_TO_DEVICE);
  if (!ok) {
    far_complain("a copy in direction %d of %lld bytes with%s a host pointer", (int)direction,
                 (long long)size, host == NULL ? "out" : "");
  } else if (direction == MLXC_COPY_HOST_TO_DEVICE) {
    job->work = work_upload;
    ok = add_memory(stream, job, dst, dst_offset, size);
  } else if (direction == MLXC_COPY_DEVICE_TO_HOST) {
    job->work = work_download;
    ok = add_memory(stream, job, src, src_offset, size);
  } else {
    ok = add_memory(stream, job, dst, dst_offset, size) && add_memory(stream, job, src, src_offset, size);
  }
  return finish(stream, job, ok);
}

mlxc_error* far_fill(mlxc_backend_stream* stream, mlxc_backend_memory* dst, int64_t offset,
                     const void* pattern, int64_t pattern_size, int64_t count) {
  mlxc_error* error = far_enter(stream);
  if (error != NULL) return error;
  far_job* job = far_new_job("fill", work_fill);
  if (job == NULL) return no_job(stream);
  int known =
      pattern_size == 1 || pattern_size == 2 || pattern_size == 4 || pattern_size == 8 || pattern_size == 16;
  int ok = known && count >= 0;
  if (ok) {
    memcpy(job->pattern, pattern, (size_t)pattern_size);
    job->to = offset;
    job->size = pattern_size;
    job->count = count;
    ok = add_memory(stream, job, dst, offset, pattern_size * count);
  } else {
    far_complain("a fill of %lld patterns of %lld bytes", (long long)count, (long long)pattern_size);
  }
  return finish(stream, job, ok);
}
