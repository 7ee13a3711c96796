/* What the C test programs share: checks that end the program with a clear line, small makers.
 *
 * Included by every program in this folder; nothing here is needed to use mlxc. Rule it keeps: a
 * check prints the file, the line and the library's own words, and makes the program fail.
 */
#ifndef CHECK_H
#define CHECK_H

#include <mlxc/mlxc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program unless the condition holds. */
#define REQUIRE(condition)                                                      \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

/* Ends the program if the call returns an error. */
#define OK(call) check_ok((call), __FILE__, __LINE__, #call)
/* Ends the program unless the call returns an error of that code and with a text. */
#define FAILS(code, call) check_fails((code), (call), __FILE__, __LINE__, #call)

static inline void check_ok(mlxc_error* error, const char* file, int line, const char* call) {
  if (error == NULL) return;
  fprintf(stderr, "%s:%d: %s\n  error %d: %s\n", file, line, call, (int)mlxc_error_code(error),
          mlxc_error_text(error));
  exit(1);
}

static inline void check_fails(mlxc_code code, mlxc_error* error, const char* file, int line,
                               const char* call) {
  if (mlxc_error_code(error) != code || mlxc_error_text(error)[0] == '\0') {
    fprintf(stderr, "%s:%d: %s\n  expected error %d, got %d: %s\n", file, line, call, (int)code,
            (int)mlxc_error_code(error), mlxc_error_text(error));
    exit(1);
  }
  mlxc_error_free(error);
}

/* Arrays that are released together: `keep` takes the caller's reference over. */
static inline mlxc_array* keep(mlxc_arrays* pool, mlxc_array* array) {
  OK(mlxc_arrays_append(pool, array));
  mlxc_array_release(array);
  return array;
}

static inline mlxc_array* make_floats(mlxc_arrays* pool, const float* values, int32_t ndim,
                                      const int64_t* shape) {
  mlxc_array* made = NULL;
  OK(mlxc_array_from_host(values, MLXC_FLOAT32, ndim, shape, &made));
  return keep(pool, made);
}

static inline mlxc_array* make_float(mlxc_arrays* pool, double value) {
  mlxc_array* made = NULL;
  OK(mlxc_array_from_double(value, MLXC_FLOAT32, &made));
  return keep(pool, made);
}

static inline double read_float(mlxc_array* array) {
  double value = 0;
  OK(mlxc_array_item_double(array, &value));
  return value;
}

/* Ends the program unless the float32 array has exactly these `count` values. */
static inline void require_floats(mlxc_array* array, const float* expected, int64_t count) {
  REQUIRE(mlxc_array_dtype(array) == MLXC_FLOAT32);
  REQUIRE(mlxc_array_size(array) == count);
  float* got = (float*)malloc((size_t)count * sizeof *got + 1);
  REQUIRE(got != NULL);
  OK(mlxc_array_to_host(array, got, (size_t)count * sizeof *got));
  for (int64_t i = 0; i < count; i++) {
    if (got[i] != expected[i]) {
      fprintf(stderr, "element %lld is %g, not %g\n", (long long)i, (double)got[i], (double)expected[i]);
      exit(1);
    }
  }
  free(got);
}

#endif
