/* Evaluation where it meets other things: gradients that are being recorded, other threads, other
 * streams, callbacks, forks.
 *
 * Each function is a story of its own. Rule it keeps: what may hang if the library is wrong is bounded by
 * the time-out of whoever runs the program.
 */
#define _POSIX_C_SOURCE 200809L /* fork */

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* ---- gradients ---- */

/* sum(sin(2 x)), evaluated while it is recorded. */
static mlxc_error* evaluates_early(void* context, mlxc_array* const* inputs, size_t count,
                                   mlxc_arrays* outputs) {
  (void)context, (void)count;
  mlxc_array *two = NULL, *doubled = NULL, *sine = NULL, *sum = NULL;
  OK(mlxc_array_from_double(2, MLXC_FLOAT32, &two));
  OK(mlxc_multiply(inputs[0], two, NULL, &doubled));
  OK(mlxc_sin(doubled, NULL, &sine));
  mlxc_array_release(doubled);
  mlxc_array_release(two);
  OK(mlxc_eval(&sine, 1));
  OK(mlxc_sum(sine, NULL, -1, 0, NULL, &sum));
  mlxc_array_release(sine);
  OK(mlxc_arrays_append(outputs, sum));
  mlxc_array_release(sum);
  return NULL;
}

static void gradient_survives_an_early_evaluation(void) {
  enum { N = 1000 };
  float x[N];
  for (int i = 0; i < N; i++) x[i] = (float)i / N;
  const int64_t shape[1] = {N};
  mlxc_arrays *pool = mlxc_arrays_new(), *gradients = mlxc_arrays_new();
  mlxc_array* input = make_floats(pool, x, 1, shape);
  mlxc_closure closure = {sizeof closure, evaluates_early, NULL};
  OK(mlxc_grad(&closure, &input, 1, NULL, 0, gradients));
  mlxc_array *doubled = NULL, *cosine = NULL, *expected = NULL;
  OK(mlxc_multiply(input, make_float(pool, 2), NULL, &doubled));
  keep(pool, doubled);
  OK(mlxc_cos(doubled, NULL, &cosine));
  keep(pool, cosine);
  OK(mlxc_multiply(cosine, make_float(pool, 2), NULL, &expected));
  keep(pool, expected);
  float got[N], wanted[N];
  OK(mlxc_array_to_host(mlxc_arrays_get(gradients, 0), got, sizeof got));
  OK(mlxc_array_to_host(expected, wanted, sizeof wanted));
  for (int i = 0; i < N; i++) REQUIRE(got[i] - wanted[i] < 1e-5f && wanted[i] - got[i] < 1e-5f);
  mlxc_arrays_free(gradients);
  mlxc_arrays_free(pool);
}

/* 3 x, and 5 x only on the side. */
typedef struct side {
  mlxc_array* array;
} side;
static mlxc_error* leaves_something_behind(void* context, mlxc_array* const* inputs, size_t count,
                                           mlxc_arrays* outputs) {
  (void)count;
  mlxc_array *three = NULL, *five = NULL, *out = NULL;
  OK(mlxc_array_from_double(3, MLXC_FLOAT32, &three));
  OK(mlxc_array_from_double(5, MLXC_FLOAT32, &five));
  OK(mlxc_multiply(inputs[0], three, NULL, &out));
  OK(mlxc_multiply(inputs[0], five, NULL, &((side*)context)->array));
  OK(mlxc_arrays_append(outputs, out));
  mlxc_array_release(three);
  mlxc_array_release(five);
  mlxc_array_release(out);
  return NULL;
}

/* Another thread traces for as long as `until` says. */
typedef struct tracer {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int state; /* 1: traces, 2: may end */
} tracer;
static mlxc_error* traces_until_told(void* context, mlxc_array* const* inputs, size_t count,
                                     mlxc_arrays* outputs) {
  (void)count;
  tracer* t = context;
  pthread_mutex_lock(&t->lock);
  t->state = 1;
  pthread_cond_broadcast(&t->changed);
  while (t->state != 2) pthread_cond_wait(&t->changed, &t->lock);
  pthread_mutex_unlock(&t->lock);
  return mlxc_arrays_append(outputs, inputs[0]);
}
static void* trace_on_the_side(void* argument) {
  mlxc_arrays *pool = mlxc_arrays_new(), *gradients = mlxc_arrays_new();
  mlxc_array* x = make_float(pool, 1);
  mlxc_closure closure = {sizeof closure, traces_until_told, argument};
  OK(mlxc_grad(&closure, &x, 1, NULL, 0, gradients));
  mlxc_arrays_free(gradients);
  mlxc_arrays_free(pool);
  return NULL;
}

/* What a transform made is ordinary when it has ended, whatever other threads trace: computed arrays do not
 * hold on to the graph of every step before them. */
static void ended_transforms_keep_no_graph(void) {
  tracer other = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, trace_on_the_side, &other) == 0);
  pthread_mutex_lock(&other.lock);
  while (other.state != 1) pthread_cond_wait(&other.changed, &other.lock);
  pthread_mutex_unlock(&other.lock);

  enum { N = 4096, STEPS = 20 };
  static float ones[N];
  const int64_t shape[1] = {1}, wide[1] = {N};
  const float one[1] = {1};
  for (int i = 0; i < N; i++) ones[i] = 1;
  mlxc_array *parameter = NULL, *weights = NULL;
  OK(mlxc_array_from_host(one, MLXC_FLOAT32, 1, shape, &parameter));
  OK(mlxc_array_from_host(ones, MLXC_FLOAT32, 1, wide, &weights));
  int64_t after_first = 0;
  for (int step = 0; step < STEPS; step++) {
    mlxc_arrays* gradients = mlxc_arrays_new();
    side left = {NULL};
    mlxc_closure closure = {sizeof closure, leaves_something_behind, &left};
    OK(mlxc_grad(&closure, &parameter, 1, NULL, 0, gradients));
    mlxc_array *gradient = mlxc_arrays_get(gradients, 0), *moved = NULL, *stretched = NULL;
    REQUIRE(!mlxc_array_is_traced(gradient));
    REQUIRE(!mlxc_array_is_traced(left.array));
    OK(mlxc_add(weights, gradient, NULL, &stretched)); /* the graph has something large to hold */
    OK(mlxc_add(stretched, left.array, NULL, &moved));
    mlxc_array_release(stretched);
    mlxc_array_release(left.array);
    mlxc_arrays_free(gradients);
    OK(mlxc_eval(&moved, 1));
    mlxc_array_release(weights);
    weights = moved;
    if (step == 0) after_first = mlxc_memory_active();
  }
  REQUIRE(mlxc_memory_active() <= after_first + N * (int64_t)sizeof(float));
  mlxc_array_release(weights);
  mlxc_array_release(parameter);

  pthread_mutex_lock(&other.lock);
  other.state = 2;
  pthread_cond_broadcast(&other.changed);
  pthread_mutex_unlock(&other.lock);
  pthread_join(thread, NULL);
}

/* The last user of wrapped memory is released by the end of a transform; its callback uses the library. */
static int released;
static void evaluates_on_release(void* context) {
  (void)context;
  mlxc_arrays* pool = mlxc_arrays_new();
  mlxc_array* sum = NULL;
  OK(mlxc_add(make_float(pool, 1), make_float(pool, 2), NULL, &sum));
  keep(pool, sum);
  REQUIRE(read_float(sum) == 3);
  mlxc_arrays_free(pool);
  released++;
}
static mlxc_error* uses_wrapped_memory(void* context, mlxc_array* const* inputs, size_t count,
                                       mlxc_arrays* outputs) {
  (void)count;
  const int64_t shape[1] = {3};
  mlxc_array *wrapped = NULL, *product = NULL, *sum = NULL;
  OK(mlxc_array_wrap_host(context, MLXC_FLOAT32, 1, shape, NULL, evaluates_on_release, NULL, &wrapped));
  OK(mlxc_add(inputs[0], wrapped, NULL, &product));
  mlxc_array_release(wrapped);
  OK(mlxc_sum(product, NULL, -1, 0, NULL, &sum));
  mlxc_array_release(product);
  OK(mlxc_eval(&sum, 1));
  OK(mlxc_arrays_append(outputs, sum));
  mlxc_array_release(sum);
  return NULL;
}
static void release_callback_may_use_the_library(void) {
  float bytes[3] = {1, 2, 3};
  mlxc_arrays *pool = mlxc_arrays_new(), *outputs = mlxc_arrays_new(), *gradients = mlxc_arrays_new();
  mlxc_array* x = make_float(pool, 1);
  mlxc_closure closure = {sizeof closure, uses_wrapped_memory, bytes};
  OK(mlxc_value_and_grad(&closure, &x, 1, NULL, 0, outputs, gradients));
  REQUIRE(read_float(mlxc_arrays_get(outputs, 0)) == 9 && read_float(mlxc_arrays_get(gradients, 0)) == 3);
  mlxc_arrays_free(outputs);
  mlxc_arrays_free(gradients);
  mlxc_arrays_free(pool);
  REQUIRE(released == 1);
}

static void input_named_twice_is_refused(void) {
  mlxc_arrays *pool = mlxc_arrays_new(), *gradients = mlxc_arrays_new();
  mlxc_array* x = make_float(pool, 1);
  const size_t twice[2] = {0, 0};
  side left = {NULL};
  mlxc_closure closure = {sizeof closure, leaves_something_behind, &left};
  FAILS(MLXC_ERROR_VALUE, mlxc_grad(&closure, &x, 1, twice, 2, gradients));
  REQUIRE(mlxc_arrays_count(gradients) == 0);
  mlxc_array_release(left.array);
  mlxc_arrays_free(gradients);
  mlxc_arrays_free(pool);
}

/* ---- wrapped memory ---- */

static void count_release(void* context) { ++*(int*)context; }

static void wrapped_memory_without_elements_needs_no_address(void) {
  const int64_t shape[2] = {0, 3};
  int count = 0;
  mlxc_array *empty = NULL, *doubled = NULL;
  OK(mlxc_array_wrap_host(NULL, MLXC_FLOAT32, 2, shape, NULL, count_release, &count, &empty));
  OK(mlxc_array_to_host(empty, NULL, 0));
  OK(mlxc_add(empty, empty, NULL, &doubled));
  OK(mlxc_eval(&doubled, 1));
  REQUIRE(mlxc_array_size(doubled) == 0);
  mlxc_array_release(doubled);
  mlxc_array_release(empty);
  REQUIRE(count == 1);
}

static void wrapped_memory_must_be_aligned_and_addressable(void) {
  static float bytes[4];
  const int64_t shape[1] = {3}, huge[1] = {INT64_MAX / 4 * 4};
  int count = 0;
  mlxc_array* out = NULL;
  FAILS(MLXC_ERROR_VALUE,
        mlxc_array_wrap_host((char*)bytes + 1, MLXC_FLOAT32, 1, shape, NULL, count_release, &count, &out));
  FAILS(MLXC_ERROR_VALUE,
        mlxc_array_wrap_host(bytes, MLXC_FLOAT32, 1, shape, huge, count_release, &count, &out));
  REQUIRE(count == 0 && out == NULL);
}

/* ---- streams and threads ---- */

typedef struct relay {
  mlxc_array* link;
  int* missing; /* threads that have not come yet */
} relay;
static void* evaluate_link(void* argument) {
  relay* r = argument;
  __atomic_fetch_sub(r->missing, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(r->missing, __ATOMIC_ACQUIRE) > 0) {
  }
  OK(mlxc_async_eval(&r->link, 1));
  return NULL;
}

/* Threads start the links of one chain at the same time, in any order, on one stream. */
static void overlapping_async_evaluations_end(void) {
  enum { LINKS = 4, ROUNDS = 100 };
  mlxc_stream* stream = NULL;
  const mlxc_device cpu = {MLXC_CPU, 0};
  OK(mlxc_stream_new(cpu, &stream));
  for (int round = 0; round < ROUNDS; round++) {
    int missing = LINKS;
    mlxc_arrays* pool = mlxc_arrays_new();
    mlxc_array *one = make_float(pool, 1), *last = one;
    relay relays[LINKS];
    pthread_t threads[LINKS];
    for (int i = 0; i < LINKS; i++) {
      mlxc_array* next = NULL;
      OK(mlxc_add(last, one, stream, &next));
      last = keep(pool, next);
      relays[i] = (relay){last, &missing};
    }
    for (int i = 0; i < LINKS; i++)
      REQUIRE(pthread_create(&threads[i], NULL, evaluate_link, &relays[i]) == 0);
    for (int i = 0; i < LINKS; i++) pthread_join(threads[i], NULL);
    REQUIRE(read_float(last) == LINKS + 1);
    mlxc_arrays_free(pool);
  }
}

/* A batch that crosses streams is work of each of them. */
static void synchronize_waits_for_a_batch_that_crosses_streams(void) {
  const mlxc_device cpu = {MLXC_CPU, 0};
  mlxc_stream* streams[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) OK(mlxc_stream_new(cpu, &streams[i]));
  const int64_t shape[1] = {4000000};
  mlxc_arrays* pool = mlxc_arrays_new();
  mlxc_array *ones = NULL, *first = NULL, *second = NULL;
  OK(mlxc_full(make_float(pool, 1), shape, 1, streams[0], &ones));
  keep(pool, ones);
  OK(mlxc_sin(ones, streams[0], &first));
  keep(pool, first);
  OK(mlxc_negative(first, streams[1], &second));
  keep(pool, second);
  OK(mlxc_async_eval(&second, 1));
  OK(mlxc_synchronize(streams[0]));
  REQUIRE(mlxc_array_status(first) == 1);
  OK(mlxc_synchronize(streams[1]));
  REQUIRE(mlxc_array_status(second) == 1);
  mlxc_arrays_free(pool);
}

/* An index out of range, found only when the work runs. */
static mlxc_array* take_past_the_end(mlxc_arrays* pool, mlxc_stream* stream) {
  const float values[2] = {1, 2};
  const int64_t shape[1] = {2};
  const int32_t first = 0;
  mlxc_array *index = NULL, *taken = NULL;
  OK(mlxc_array_from_int(7, MLXC_INT32, &index));
  keep(pool, index);
  OK(mlxc_gather(make_floats(pool, values, 1, shape), &index, 1, &first, 1, stream, &taken));
  return keep(pool, taken);
}

static void synchronize_returns_the_error_of_what_was_started(void) {
  const mlxc_device cpu = {MLXC_CPU, 0};
  mlxc_stream* stream = NULL;
  OK(mlxc_stream_new(cpu, &stream));
  mlxc_arrays* pool = mlxc_arrays_new();
  mlxc_array* bad = take_past_the_end(pool, stream);
  OK(mlxc_async_eval(&bad, 1));
  FAILS(MLXC_ERROR_INDEX, mlxc_synchronize(stream));
  OK(mlxc_synchronize(stream)); /* told once */
  FAILS(MLXC_ERROR_INDEX, mlxc_eval(&bad, 1));
  mlxc_arrays_free(pool);
}

/* ---- forks ---- */

static int stop;
static void* compute_until_stopped(void* argument) {
  (void)argument;
  const int64_t shape[1] = {2000000};
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    mlxc_arrays* pool = mlxc_arrays_new();
    mlxc_array *ones = NULL, *sine = NULL;
    OK(mlxc_full(make_float(pool, 1), shape, 1, NULL, &ones));
    keep(pool, ones);
    OK(mlxc_sin(ones, NULL, &sine));
    keep(pool, sine);
    OK(mlxc_eval(&sine, 1));
    mlxc_arrays_free(pool);
  }
  return NULL;
}

/* The child has the stream to itself, though another thread was computing on it at the fork. */
static void child_computes_though_the_parent_was_computing(void) {
  const struct timespec pause = {0, 3000000};
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, compute_until_stopped, NULL) == 0);
  for (int i = 0; i < 20; i++) {
    nanosleep(&pause, NULL);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(20);
      mlxc_arrays* pool = mlxc_arrays_new();
      mlxc_array* sum = NULL;
      OK(mlxc_add(make_float(pool, 1), make_float(pool, 2), NULL, &sum));
      keep(pool, sum);
      _exit(read_float(sum) == 3 ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
}

/* What another thread was computing at the fork is an error in the child, and no wait without end. */
static void child_is_told_of_what_it_cannot_have(void) {
  const int64_t shape[1] = {2000000};
  mlxc_arrays* pool = mlxc_arrays_new();
  mlxc_array *last = NULL, *next = NULL;
  OK(mlxc_full(make_float(pool, 1), shape, 1, NULL, &last));
  keep(pool, last);
  for (int i = 0; i < 20; i++) {
    OK(mlxc_sin(last, NULL, &next));
    last = keep(pool, next);
  }
  OK(mlxc_async_eval(&last, 1));
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);
    OK(mlxc_negative(last, NULL, &next));
    keep(pool, next);
    if (mlxc_array_status(last) == 0) FAILS(MLXC_ERROR_RUNTIME, mlxc_eval(&next, 1));
    mlxc_array* sum = NULL;
    OK(mlxc_add(make_float(pool, 1), make_float(pool, 2), NULL, &sum));
    keep(pool, sum);
    _exit(read_float(sum) == 3 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(mlxc_synchronize(NULL));
  REQUIRE(mlxc_array_status(last) == 1);
  mlxc_arrays_free(pool);
}

int main(int argc, char** argv) {
  const struct {
    const char* name;
    void (*run)(void);
  } stories[] = {
      {"early evaluation", gradient_survives_an_early_evaluation},
      {"no graph", ended_transforms_keep_no_graph},
      {"callback", release_callback_may_use_the_library},
      {"argnums", input_named_twice_is_refused},
      {"empty wrap", wrapped_memory_without_elements_needs_no_address},
      {"wrap", wrapped_memory_must_be_aligned_and_addressable},
      {"overlap", overlapping_async_evaluations_end},
      {"crossing", synchronize_waits_for_a_batch_that_crosses_streams},
      {"error", synchronize_returns_the_error_of_what_was_started},
      {"fork", child_computes_though_the_parent_was_computing},
      {"orphan", child_is_told_of_what_it_cannot_have},
  };
  int run = 0;
  for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
    if (argc > 1 && strcmp(argv[1], stories[i].name) != 0) continue;
    stories[i].run();
    run++;
  }
  REQUIRE(run > 0);
  REQUIRE(mlxc_memory_active() == 0);
  printf("%d stories\n", run);
  return 0;
}
