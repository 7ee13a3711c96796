/* cond, while_loop and scan from C, and their derivatives.
 *
 * The closures are called once, with stand-ins that have no value; what they read besides their inputs,
 * through the context, is followed by transforms like an input.
 */
#include "check.h"

static mlxc_error* append_owned(mlxc_error* error, mlxc_array* made, mlxc_arrays* to) {
  if (error == NULL) error = mlxc_arrays_append(to, made);
  mlxc_array_release(made);
  return error;
}

static mlxc_error* append_product(mlxc_array* a, mlxc_array* b, mlxc_arrays* to) {
  mlxc_array* made = NULL;
  mlxc_error* error = mlxc_multiply(a, b, NULL, &made);
  return append_owned(error, made, to);
}

/* ---- the closures ---- */

static mlxc_error* squared(void* context, mlxc_array* const* in, size_t n, mlxc_arrays* out) {
  (void)context;
  return n == 1 ? append_product(in[0], in[0], out) : mlxc_error_make(MLXC_ERROR_VALUE, "one input");
}

/* The context is an array. */
static mlxc_error* times_context(void* context, mlxc_array* const* in, size_t n, mlxc_arrays* out) {
  (void)n;
  return append_product(in[0], *(mlxc_array**)context, out);
}

static mlxc_error* below_context(void* context, mlxc_array* const* in, size_t n, mlxc_arrays* out) {
  mlxc_array* made = NULL;
  (void)n;
  mlxc_error* error = mlxc_less(in[0], *(mlxc_array**)context, NULL, &made);
  return append_owned(error, made, out);
}

static mlxc_error* two_of_them(void* context, mlxc_array* const* in, size_t n, mlxc_arrays* out) {
  mlxc_error* error = squared(context, in, n, out);
  return error != NULL ? error : squared(context, in, n, out);
}

/* carry, x -> carry * x, carry */
static mlxc_error* multiply_on(void* context, mlxc_array* const* in, size_t n, mlxc_arrays* out) {
  (void)context, (void)n;
  mlxc_error* error = append_product(in[0], in[1], out);
  return error != NULL ? error : mlxc_arrays_append(out, in[0]);
}

/* ---- functions of x that use them ---- */

static mlxc_error* choose(void* context, mlxc_array* const* in, size_t n, mlxc_arrays* out) {
  mlxc_closure a = {sizeof a, squared, NULL}, b = {sizeof b, times_context, context};
  mlxc_array* positive = NULL;
  mlxc_array* zero = NULL;
  mlxc_error* error = mlxc_array_from_double(0, MLXC_FLOAT32, &zero);
  if (error == NULL) error = mlxc_greater(in[0], zero, NULL, &positive);
  if (error == NULL) error = mlxc_cond(positive, &a, &b, in, n, out);
  mlxc_array_release(zero);
  mlxc_array_release(positive);
  return error;
}

static mlxc_error* product_of(void* context, mlxc_array* const* in, size_t n, mlxc_arrays* out) {
  mlxc_closure step = {sizeof step, multiply_on, NULL};
  mlxc_array* start = *(mlxc_array**)context;
  (void)n;
  return mlxc_scan(&step, &start, 1, in, 1, mlxc_array_dim(in[0], 0), 0, out);
}

static void choose_functions(mlxc_arrays* pool) {
  mlxc_array* factor = make_float(pool, 10);
  mlxc_closure function = {sizeof function, choose, &factor};
  const float xs[] = {3, -3}, values[] = {9, -30}, slopes[] = {6, 10};
  for (int i = 0; i < 2; i++) {
    mlxc_arrays *outputs = mlxc_arrays_new(), *gradients = mlxc_arrays_new();
    mlxc_array* x = make_float(pool, xs[i]);
    OK(mlxc_value_and_grad(&function, &x, 1, NULL, 0, outputs, gradients));
    REQUIRE(read_float(mlxc_arrays_get(outputs, 0)) == values[i]);
    REQUIRE(read_float(mlxc_arrays_get(gradients, 0)) == slopes[i]);
    mlxc_arrays_free(outputs);
    mlxc_arrays_free(gradients);
  }
  const int64_t two[] = {2};
  mlxc_array* both = make_floats(pool, xs, 1, two);
  mlxc_arrays* outputs = mlxc_arrays_new();
  OK(mlxc_vmap(&function, &both, 1, NULL, outputs));
  require_floats(mlxc_arrays_get(outputs, 0), values, 2);
  mlxc_arrays_free(outputs);
}

static void repeat_functions(mlxc_arrays* pool) {
  mlxc_array *limit = make_float(pool, 100), *factor = make_float(pool, 3), *one = make_float(pool, 1);
  mlxc_closure condition = {sizeof condition, below_context, &limit},
               body = {sizeof body, times_context, &factor}, wrong = {sizeof wrong, two_of_them, NULL};
  mlxc_arrays* outputs = mlxc_arrays_new();
  OK(mlxc_while_loop(&condition, &body, &one, 1, outputs));
  REQUIRE(read_float(mlxc_arrays_get(outputs, 0)) == 243);
  FAILS(MLXC_ERROR_VALUE, mlxc_while_loop(&condition, &wrong, &one, 1, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_while_loop(&wrong, &body, &one, 1, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_while_loop(&condition, &body, NULL, 0, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_cond(one, &body, &wrong, &one, 1, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_cond(one, NULL, &body, &one, 1, outputs));
  REQUIRE(mlxc_arrays_count(outputs) == 1);
  mlxc_arrays_free(outputs);
}

static void go_along_an_axis(mlxc_arrays* pool) {
  const float xs[] = {2, 3, 4}, partial[] = {5, 10, 30}, slopes[] = {60, 40, 30};
  const int64_t three[] = {3};
  mlxc_array *start = make_float(pool, 5), *x = make_floats(pool, xs, 1, three);
  mlxc_closure function = {sizeof function, product_of, &start}, step = {sizeof step, multiply_on, NULL};
  mlxc_arrays *outputs = mlxc_arrays_new(), *gradients = mlxc_arrays_new();
  OK(mlxc_value_and_grad(&function, &x, 1, NULL, 0, outputs, gradients));
  REQUIRE(mlxc_arrays_count(outputs) == 2);
  REQUIRE(read_float(mlxc_arrays_get(outputs, 0)) == 120);
  require_floats(mlxc_arrays_get(outputs, 1), partial, 3);
  require_floats(mlxc_arrays_get(gradients, 0), slopes, 3);
  FAILS(MLXC_ERROR_VALUE, mlxc_scan(&step, &start, 1, &x, 1, 4, 0, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_scan(&step, &start, 1, &x, 1, -1, 0, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_scan(&step, &start, 1, &start, 1, 1, 0, outputs));
  mlxc_arrays_free(outputs);
  mlxc_arrays_free(gradients);
}

int main(void) {
  OK(mlxc_init());
  mlxc_arrays* pool = mlxc_arrays_new();
  choose_functions(pool);
  repeat_functions(pool);
  go_along_an_axis(pool);
  mlxc_arrays_free(pool);
  REQUIRE(mlxc_memory_active() == 0);
  return 0;
}
