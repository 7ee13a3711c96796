/* Eight threads record, evaluate and release on shared arrays and shared streams.
 *
 *   threads [ROUNDS]     how often each thread goes round (50)
 *
 * Every value is checked. Run under a thread sanitizer it also shows data races. Rule it keeps: the
 * program takes no lock of its own round the library's functions.
 */
#include <pthread.h>

#include "check.h"

enum { THREADS = 8, LENGTH = 1024 };

typedef struct shared {
  mlxc_array* data; /* 0, 1, 2, ... */
  mlxc_array* lazy; /* data + data, evaluated by whoever comes first */
  mlxc_stream* streams[2];
  int rounds;
} shared;

typedef struct worker {
  pthread_t thread;
  const shared* all;
  int number;
} worker;

/* Checks that the array is factor * (0, 1, 2, ...) + offset. */
static void require_line(mlxc_array* array, float factor, float offset) {
  float expected[LENGTH];
  for (int i = 0; i < LENGTH; i++) expected[i] = factor * (float)i + offset;
  require_floats(array, expected, LENGTH);
}

/* ((data + k) * 2) + lazy, with the parts on different streams. */
static void mix_streams(const worker* w, int round) {
  const shared* all = w->all;
  mlxc_arrays* pool = mlxc_arrays_new();
  float k = (float)(w->number + round);
  mlxc_array *moved = NULL, *doubled = NULL, *sum = NULL;
  OK(mlxc_add(all->data, make_float(pool, (double)k), all->streams[0], &moved));
  keep(pool, moved);
  OK(mlxc_multiply(moved, make_float(pool, 2), all->streams[1], &doubled));
  keep(pool, doubled);
  if (round % 3 == 0) OK(mlxc_async_eval(&doubled, 1));
  OK(mlxc_add(doubled, all->lazy, all->streams[round % 2], &sum));
  keep(pool, sum);
  require_line(sum, 4, 2 * k);
  mlxc_arrays_free(pool);
}

static mlxc_error* sum_of_squares(void* context, mlxc_array* const* inputs, size_t count,
                                  mlxc_arrays* outputs) {
  (void)context, (void)count;
  mlxc_array *squares = NULL, *sum = NULL;
  mlxc_error* error = mlxc_square(inputs[0], NULL, &squares);
  if (error == NULL) error = mlxc_sum(squares, NULL, -1, 0, NULL, &sum);
  if (error == NULL) error = mlxc_arrays_append(outputs, sum);
  mlxc_array_release(squares);
  mlxc_array_release(sum);
  return error;
}

/* Several threads differentiate with respect to the same array at the same time. */
static void differentiate(const worker* w) {
  mlxc_closure closure = {sizeof closure, sum_of_squares, NULL};
  mlxc_arrays* gradients = mlxc_arrays_new();
  OK(mlxc_grad(&closure, &w->all->data, 1, NULL, 0, gradients));
  require_line(mlxc_arrays_get(gradients, 0), 2, 0);
  mlxc_arrays_free(gradients);
}

/* A failed call on one thread does not disturb the others. */
static void make_mistake(const worker* w) {
  const int64_t shape[1] = {LENGTH + 1};
  mlxc_array* out = NULL;
  FAILS(MLXC_ERROR_VALUE, mlxc_broadcast_to(w->all->data, shape, 1, NULL, &out));
  REQUIRE(out == NULL);
}

static void* work(void* argument) {
  const worker* w = argument;
  require_line(w->all->lazy, 2, 0);
  for (int round = 0; round < w->all->rounds; round++) {
    mix_streams(w, round);
    if (round % 5 == 0) differentiate(w);
    if (round % 7 == 0) make_mistake(w);
    if (round % 10 == 0) OK(mlxc_synchronize(w->all->streams[round / 10 % 2]));
  }
  return NULL;
}

int main(int argc, char** argv) {
  shared all = {.rounds = argc > 1 ? atoi(argv[1]) : 50};
  float data[LENGTH];
  for (int i = 0; i < LENGTH; i++) data[i] = (float)i;
  const int64_t shape[1] = {LENGTH};
  mlxc_device device = mlxc_default_device();
  OK(mlxc_array_from_host(data, MLXC_FLOAT32, 1, shape, &all.data));
  OK(mlxc_add(all.data, all.data, NULL, &all.lazy));
  for (int i = 0; i < 2; i++) OK(mlxc_stream_new(device, &all.streams[i]));

  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.all = &all, .number = i};
    REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
  mlxc_array_release(all.data);
  mlxc_array_release(all.lazy);
  /* What queued work used is released when the stream is known to have passed it. */
  for (int i = 0; i < 2; i++) OK(mlxc_synchronize(all.streams[i]));
  OK(mlxc_synchronize(NULL));
  REQUIRE(mlxc_memory_active() == 0);
  printf("%d threads, %d rounds each\n", THREADS, all.rounds);
  return 0;
}
