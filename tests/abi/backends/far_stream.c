/* Streams of the far backend: each runs its queue late and in order, on a thread of its own.
 *
 * Called through the backend's table, and by far_bytes.c and far_kernels.c to queue work. Rules it
 * keeps, and which a GPU backend keeps too: a signal's value is reached when all work before it is
 * done; an await holds back what is queued after it; a failure makes the work behind it be skipped,
 * while the timeline goes on, so that nobody waits for ever; every value of the stretch from the
 * failure to the recovery returns the failure's error to whoever waits for it or awaits it.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "far.h"

/* A stretch of the timeline, after `from` and up to `to`, that a failure spoilt. */
typedef struct far_failure {
  struct far_failure* next;
  uint64_t from;
  uint64_t to;
  mlxc_code code;
  char text[160];
} far_failure;

struct mlxc_backend_stream {
  mlxc_backend_stream* next_stream;
  mlxc_backend_device* device;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t more;     /* there is work, or someone asks for a value, or the stream must stop */
  pthread_cond_t progress; /* the timeline has moved, or the queue is empty */
  atomic_int entered;
  far_job* first;
  far_job* last;
  int running;
  int stop;
  uint64_t signalled; /* the last value queued */
  uint64_t reached;
  uint64_t asked;        /* the greatest value that somebody waits for */
  far_failure* failed;   /* not NULL: work is skipped */
  far_failure* failures; /* all, the newest first */
};

static mlxc_backend_stream* streams;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- failures: all under the stream's lock -------------------------------------------------- */

static void fail_stream(mlxc_backend_stream* stream, mlxc_code code, const char* text) {
  if (stream->failed != NULL) return;
  far_failure* failure = calloc(1, sizeof *failure);
  if (failure == NULL) {
    far_complain("no host memory to note a failure");
    return;
  }
  *failure = (far_failure){stream->failures, stream->reached, UINT64_MAX, code, ""};
  snprintf(failure->text, sizeof failure->text, "%s", text);
  stream->failures = failure;
  stream->failed = failure;
}

static const far_failure* find_failure(const mlxc_backend_stream* stream, uint64_t value) {
  for (const far_failure* f = stream->failures; f != NULL; f = f->next)
    if (value > f->from && value <= f->to) return f;
  return NULL;
}

static void ask_for(mlxc_backend_stream* stream, uint64_t value) {
  if (value > stream->asked) stream->asked = value;
  pthread_cond_signal(&stream->more);
}

/* ---- the worker ----------------------------------------------------------------------------- */

static void sleep_us(int64_t us) {
  struct timespec pause = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
  if (us > 0) nanosleep(&pause, NULL);
}

/* Waits until the other stream has reached the value; what spoilt it there spoils this one here. */
static void run_await(mlxc_backend_stream* stream, const far_job* job) {
  mlxc_backend_stream* other = job->other;
  mlxc_code code = MLXC_OK;
  char text[sizeof((far_failure*)0)->text];
  pthread_mutex_lock(&other->lock);
  ask_for(other, job->value);
  while (other->reached < job->value) pthread_cond_wait(&other->progress, &other->lock);
  const far_failure* failure = find_failure(other, job->value);
  if (failure != NULL) {
    code = failure->code;
    memcpy(text, failure->text, sizeof text);
  }
  pthread_mutex_unlock(&other->lock);
  if (code == MLXC_OK) return;
  pthread_mutex_lock(&stream->lock);
  fail_stream(stream, code, text);
  pthread_mutex_unlock(&stream->lock);
}

static void run_work(mlxc_backend_stream* stream, const far_job* job, int skip) {
  sleep_us(far_set.delay_us);
  if (skip) return;
  if (job->fails_as != 0) {
    char text[160];
    snprintf(text, sizeof text, "far backend: kernel %lld (%s) failed on purpose", (long long)job->fails_as,
             job->name);
    pthread_mutex_lock(&stream->lock);
    fail_stream(stream, MLXC_ERROR_RUNTIME, text);
    pthread_mutex_unlock(&stream->lock);
    return;
  }
  char* data[FAR_MAX_VIEWS] = {NULL};
  for (int i = 0; i < job->n_memories; i++)
    if (job->memories[i] != NULL) data[i] = far_touch(job->memories[i]);
  job->work(job, data);
  for (int i = 0; i < job->n_memories; i++)
    if (job->memories[i] != NULL) far_leave(job->memories[i]);
}

static int may_run(const mlxc_backend_stream* stream) {
  if (stream->first == NULL) return 0;
  return !far_set.pause || stream->stop || stream->reached < stream->asked;
}

static void* run_stream(void* argument) {
  mlxc_backend_stream* stream = argument;
  pthread_mutex_lock(&stream->lock);
  for (;;) {
    while (!may_run(stream) && !(stream->stop && stream->first == NULL))
      pthread_cond_wait(&stream->more, &stream->lock);
    far_job* job = stream->first;
    if (job == NULL) break;
    stream->first = job->next;
    if (stream->first == NULL) stream->last = NULL;
    stream->running = 1;
    int skip = stream->failed != NULL;
    if (job->work != NULL || job->other != NULL) {
      pthread_mutex_unlock(&stream->lock);
      if (job->work != NULL)
        run_work(stream, job, skip);
      else
        run_await(stream, job);
      far_free_job(job);
      pthread_mutex_lock(&stream->lock);
    } else {
      stream->reached = job->value;
      far_free_job(job);
    }
    stream->running = 0;
    pthread_cond_broadcast(&stream->progress);
  }
  pthread_mutex_unlock(&stream->lock);
  return NULL;
}

/* ---- jobs ----------------------------------------------------------------------------------- */

far_job* far_new_job(const char* name, far_work work) {
  far_job* job = calloc(1, sizeof *job);
  if (job == NULL) return NULL;
  job->name = name;
  job->work = work;
  return job;
}

void far_free_job(far_job* job) {
  for (int i = 0; i < job->n_memories; i++)
    if (job->memories[i] != NULL) far_drop(job->memories[i]);
  free(job);
}

mlxc_backend_device* far_device_of(mlxc_backend_stream* stream) { return stream->device; }

mlxc_error* far_enter(mlxc_backend_stream* stream) {
  if (atomic_exchange(&stream->entered, 1) != 0) far_complain("two threads in one stream at once");
  mlxc_error* error = far_check();
  if (error != NULL) far_exit(stream);
  return error;
}

void far_exit(mlxc_backend_stream* stream) { atomic_store(&stream->entered, 0); }

void far_submit(mlxc_backend_stream* stream, far_job* job) {
  pthread_mutex_lock(&stream->lock);
  if (stream->last == NULL)
    stream->first = job;
  else
    stream->last->next = job;
  stream->last = job;
  pthread_cond_signal(&stream->more);
  pthread_mutex_unlock(&stream->lock);
}

static mlxc_error* no_host_memory(void) {
  return far_host->error_make(MLXC_ERROR_MEMORY, "far backend: no host memory left");
}

static mlxc_error* submit_timeline_job(mlxc_backend_stream* stream, mlxc_backend_stream* other,
                                       uint64_t value) {
  far_job* job = far_new_job("timeline", NULL);
  if (job == NULL) return no_host_memory();
  job->other = other;
  job->value = value;
  far_submit(stream, job);
  return NULL;
}

/* ---- the table's functions ------------------------------------------------------------------ */

mlxc_error* far_stream_create(mlxc_backend_device* device, mlxc_backend_stream** stream) {
  mlxc_error* error = far_check();
  if (error != NULL) return error;
  mlxc_backend_stream* made = calloc(1, sizeof *made);
  if (made == NULL) return no_host_memory();
  made->device = device;
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->more, NULL);
  pthread_cond_init(&made->progress, NULL);
  if (pthread_create(&made->thread, NULL, run_stream, made) != 0) {
    free(made);
    return far_host->error_make(MLXC_ERROR_RUNTIME, "far backend: cannot start a thread");
  }
  pthread_mutex_lock(&streams_lock);
  made->next_stream = streams;
  streams = made;
  pthread_mutex_unlock(&streams_lock);
  *stream = made;
  return NULL;
}

/* Runs what is queued and ends the thread. */
static void stop_stream(mlxc_backend_stream* stream) {
  pthread_mutex_lock(&stream->lock);
  stream->stop = 1;
  pthread_cond_signal(&stream->more);
  pthread_mutex_unlock(&stream->lock);
  pthread_join(stream->thread, NULL);
}

static void free_stream(mlxc_backend_stream* stream) {
  while (stream->failures != NULL) {
    far_failure* next = stream->failures->next;
    free(stream->failures);
    stream->failures = next;
  }
  pthread_cond_destroy(&stream->more);
  pthread_cond_destroy(&stream->progress);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
}

void far_stream_destroy(mlxc_backend_stream* stream) {
  pthread_mutex_lock(&streams_lock);
  mlxc_backend_stream** at = &streams;
  while (*at != NULL && *at != stream) at = &(*at)->next_stream;
  int known = *at != NULL;
  if (known) *at = stream->next_stream;
  pthread_mutex_unlock(&streams_lock);
  if (known) {
    stop_stream(stream);
    free_stream(stream);
  } else {
    far_complain("destruction of a stream that does not exist");
  }
}

/* All are stopped before the first is freed, for one may still await another. */
void far_shutdown(void) {
  pthread_mutex_lock(&streams_lock);
  mlxc_backend_stream* all = streams;
  streams = NULL;
  pthread_mutex_unlock(&streams_lock);
  for (mlxc_backend_stream* s = all; s != NULL; s = s->next_stream) stop_stream(s);
  while (all != NULL) {
    mlxc_backend_stream* next = all->next_stream;
    free_stream(all);
    all = next;
  }
}

mlxc_error* far_stream_signal(mlxc_backend_stream* stream, uint64_t value) {
  mlxc_error* error = far_enter(stream);
  if (error != NULL) return error;
  pthread_mutex_lock(&stream->lock);
  int grows = value > stream->signalled;
  if (grows) stream->signalled = value;
  pthread_mutex_unlock(&stream->lock);
  if (!grows) {
    far_complain("a signalled value (%llu) that does not grow", (unsigned long long)value);
    error = far_check();
  } else {
    error = submit_timeline_job(stream, NULL, value);
  }
  far_exit(stream);
  return error;
}

mlxc_error* far_stream_await(mlxc_backend_stream* stream, mlxc_backend_stream* other, uint64_t value) {
  mlxc_error* error = far_enter(stream);
  if (error != NULL) return error;
  if (other == stream) {
    far_complain("a stream that awaits itself");
    error = far_check();
  } else {
    error = submit_timeline_job(stream, other, value);
  }
  far_exit(stream);
  return error;
}

/* The moment timeout_ns from now, on the clock of pthread_cond_timedwait. */
static struct timespec deadline_after(int64_t timeout_ns) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  at.tv_sec += (time_t)(timeout_ns / 1000000000);
  at.tv_nsec += (long)(timeout_ns % 1000000000);
  if (at.tv_nsec >= 1000000000) {
    at.tv_sec++;
    at.tv_nsec -= 1000000000;
  }
  return at;
}

mlxc_error* far_stream_wait(mlxc_backend_stream* stream, uint64_t value, int64_t timeout_ns,
                            int32_t* reached) {
  mlxc_error* error = far_check();
  if (error != NULL) return error;
  struct timespec deadline = deadline_after(timeout_ns < 0 ? 0 : timeout_ns);
  pthread_mutex_lock(&stream->lock);
  ask_for(stream, value);
  int late = 0;
  while (stream->reached < value && !late) {
    if (timeout_ns < 0)
      pthread_cond_wait(&stream->progress, &stream->lock);
    else
      late = pthread_cond_timedwait(&stream->progress, &stream->lock, &deadline) == ETIMEDOUT;
  }
  *reached = stream->reached >= value;
  const far_failure* failure = *reached ? find_failure(stream, value) : NULL;
  if (failure != NULL) {
    error = far_host->error_make(failure->code, failure->text);
    if (failure == stream->failed && stream->first == NULL && !stream->running) {
      stream->failed->to = stream->signalled;
      stream->failed = NULL;
    }
  }
  pthread_mutex_unlock(&stream->lock);
  return error;
}
