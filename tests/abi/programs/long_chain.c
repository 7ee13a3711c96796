/* A chain of one million adds, on a thread with a stack of 256 KiB.
 *
 * Shows that recording, evaluation and release are iterative, that a chain's memory does not grow with
 * its length once it is evaluated, and that a chain that nobody evaluates can be dropped. A gradient
 * through a long chain is taken on the same small stack.
 */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { LENGTH = 1000000, GRADIENT_LENGTH = 100000, STACK = 256 * 1024 };

/* Adds `one` to `start` `length` times. */
static mlxc_array* add_many(mlxc_array* start, mlxc_array* one, int length) {
  mlxc_array* sum = mlxc_array_retain(start);
  for (int i = 0; i < length; i++) {
    mlxc_array* next = NULL;
    OK(mlxc_add(sum, one, NULL, &next));
    mlxc_array_release(sum);
    sum = next;
  }
  return sum;
}

/* Resident memory of the process in bytes; 0 where it is not told, or where a sanitizer, which keeps freed
 * memory back, makes it meaningless. */
static int64_t resident_bytes(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#else
  long long total = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%lld %lld", &total, &resident) != 2) resident = 0;
  fclose(file);
  return (int64_t)resident * sysconf(_SC_PAGESIZE);
#endif
}

static void evaluate_chain(mlxc_array* start, mlxc_array* one) {
  int64_t active = mlxc_memory_active();
  mlxc_array* sum = add_many(start, one, LENGTH);
  REQUIRE(mlxc_array_status(sum) == 0);
  OK(mlxc_eval(&sum, 1));
  REQUIRE(mlxc_array_status(sum) == 1);
  REQUIRE(read_float(sum) == LENGTH);
  /* One array of one element is left, whatever the chain's length was. */
  REQUIRE(mlxc_memory_active() - active <= 4096);
  mlxc_array_release(sum);
  REQUIRE(mlxc_memory_active() == active);
}

static void drop_chain(mlxc_array* start, mlxc_array* one) {
  int64_t active = mlxc_memory_active();
  mlxc_array_release(add_many(start, one, LENGTH));
  REQUIRE(mlxc_memory_active() == active);
}

/* Evaluates every so often, as a training loop does: nothing may add up. */
static void evaluate_in_steps(mlxc_array* start, mlxc_array* one) {
  int64_t active = mlxc_memory_active();
  mlxc_array* sum = mlxc_array_retain(start);
  for (int i = 0; i < 1000; i++) {
    mlxc_array* next = add_many(sum, one, 100);
    OK(mlxc_eval(&next, 1));
    mlxc_array_release(sum);
    sum = next;
    REQUIRE(mlxc_memory_active() - active <= 8192);
  }
  REQUIRE(read_float(sum) == 100000);
  mlxc_array_release(sum);
}

static mlxc_error* run_chain(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs) {
  (void)count;
  mlxc_array* sum = add_many(inputs[0], context, GRADIENT_LENGTH);
  mlxc_error* error = mlxc_arrays_append(outputs, sum);
  mlxc_array_release(sum);
  return error;
}

static void differentiate_chain(mlxc_array* start, mlxc_array* one) {
  mlxc_closure closure = {sizeof closure, run_chain, one};
  mlxc_arrays *outputs = mlxc_arrays_new(), *gradients = mlxc_arrays_new();
  OK(mlxc_value_and_grad(&closure, &start, 1, NULL, 0, outputs, gradients));
  REQUIRE(read_float(mlxc_arrays_get(outputs, 0)) == GRADIENT_LENGTH);
  REQUIRE(read_float(mlxc_arrays_get(gradients, 0)) == 1);
  mlxc_arrays_free(outputs);
  mlxc_arrays_free(gradients);
}

static void* run(void* unused) {
  mlxc_array *start = NULL, *one = NULL;
  OK(mlxc_array_from_double(0, MLXC_FLOAT32, &start));
  OK(mlxc_array_from_double(1, MLXC_FLOAT32, &one));
  evaluate_chain(start, one);
  drop_chain(start, one);
  int64_t resident = resident_bytes();
  for (int i = 0; i < 3; i++) {
    evaluate_chain(start, one);
    drop_chain(start, one);
  }
  /* A million nodes take over 100 MB: keeping even one more chain would show. */
  REQUIRE(resident_bytes() - resident < 50 * 1000 * 1000);
  evaluate_in_steps(start, one);
  differentiate_chain(start, one);
  mlxc_array_release(start);
  mlxc_array_release(one);
  return unused;
}

int main(void) {
  OK(mlxc_init());
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstacksize(&attributes, STACK) == 0);
  REQUIRE(pthread_create(&thread, &attributes, run, NULL) == 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  printf("chains of %d adds: evaluated, dropped and differentiated\n", LENGTH);
  return 0;
}
