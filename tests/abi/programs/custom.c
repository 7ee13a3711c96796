/* Functions with rules of their own, checkpointed functions and the order of computation, from C.
 *
 * Every context must be released exactly once: with the graph that holds it, when the function fails, and
 * when no transform needs it at all.
 */
#include "check.h"

/* What a rule does is told by the context: factors for vjp, jvp and vmap. */
typedef struct rules {
  double factor;
  int forward_calls, vjp_calls, releases;
  int fails;
} rules;

static mlxc_error* append_product(mlxc_array* a, mlxc_array* b, mlxc_arrays* to) {
  mlxc_array* made = NULL;
  mlxc_error* error = mlxc_multiply(a, b, NULL, &made);
  if (error == NULL) error = mlxc_arrays_append(to, made);
  mlxc_array_release(made);
  return error;
}

static mlxc_error* append_times(mlxc_array* a, double factor, mlxc_arrays* to) {
  mlxc_array* number = NULL;
  mlxc_error* error = mlxc_array_from_double(factor, MLXC_FLOAT32, &number);
  if (error == NULL) error = append_product(a, number, to);
  mlxc_array_release(number);
  return error;
}

static mlxc_error* forward(void* context, mlxc_array* const* inputs, size_t n, mlxc_arrays* outputs) {
  rules* r = context;
  r->forward_calls++;
  if (r->fails) return mlxc_error_make(MLXC_ERROR_OS, "the function does not feel like it");
  REQUIRE(n == 2);
  mlxc_error* error = append_product(inputs[0], inputs[1], outputs);
  return error != NULL ? error : mlxc_arrays_append(outputs, inputs[0]);
}

static mlxc_error* backward(void* context, mlxc_array* const* primals, size_t n_primals,
                            mlxc_array* const* cotangents, mlxc_array* const* outputs, size_t n_outputs,
                            mlxc_arrays* gradients) {
  rules* r = context;
  r->vjp_calls++;
  REQUIRE(n_primals == 2 && n_outputs == 2);
  REQUIRE(cotangents[0] != NULL && cotangents[1] == NULL);
  REQUIRE(mlxc_array_ndim(outputs[0]) == mlxc_array_ndim(primals[0]));
  mlxc_error* error = append_times(cotangents[0], r->factor, gradients);
  return error != NULL ? error : append_times(cotangents[0], 2 * r->factor, gradients);
}

static mlxc_error* along(void* context, mlxc_array* const* primals, mlxc_array* const* tangents, size_t n,
                         mlxc_arrays* out) {
  rules* r = context;
  REQUIRE(n == 2 && primals[0] != NULL && tangents[0] != NULL);
  mlxc_error* error = append_times(tangents[0], 3 * r->factor, out);
  return error != NULL ? error : mlxc_arrays_append(out, tangents[0]);
}

static mlxc_error* batched(void* context, mlxc_array* const* inputs, const int32_t* axes, size_t n,
                           mlxc_arrays* outputs) {
  rules* r = context;
  REQUIRE(n == 2 && axes[0] == 0 && axes[1] == MLXC_NOT_BATCHED);
  mlxc_error* error = append_times(inputs[0], r->factor, outputs);
  return error != NULL ? error : mlxc_arrays_append(outputs, inputs[1]); /* has no batch: repeated */
}

static void release(void* context) { ((rules*)context)->releases++; }

/* The closure of the transforms: calls the custom function, gives its first output. */
static mlxc_custom custom_of(rules* r) {
  return (mlxc_custom){sizeof(mlxc_custom), forward, NULL, NULL, NULL, r, release};
}

typedef struct call {
  mlxc_custom custom;
  size_t n_outputs;
} call;

static mlxc_error* call_custom(void* context, mlxc_array* const* inputs, size_t n, mlxc_arrays* outputs) {
  call* c = context;
  mlxc_arrays* made = mlxc_arrays_new();
  mlxc_error* error = mlxc_custom_call(&c->custom, inputs, n, made);
  for (size_t i = 0; error == NULL && i < c->n_outputs; i++)
    error = mlxc_arrays_append(outputs, mlxc_arrays_get(made, i));
  mlxc_arrays_free(made);
  return error;
}

static void expect(mlxc_array* array, size_t n, const float* values) {
  float found[16];
  REQUIRE(n <= 16);
  OK(mlxc_array_to_host(array, found, n * sizeof(float)));
  for (size_t i = 0; i < n; i++) REQUIRE(found[i] == values[i]);
}

static void use_rules(void) {
  mlxc_arrays *pool = mlxc_arrays_new(), *results = mlxc_arrays_new();
  const float xs[] = {1, 2, 3, 4}, ys[] = {5, 6};
  const int64_t row[] = {2}, square[] = {2, 2};
  mlxc_array* x = make_floats(pool, xs, 1, row);
  mlxc_array* y = make_floats(pool, ys, 1, row);
  mlxc_array* batch = make_floats(pool, xs, 2, square);
  mlxc_array *in[] = {x, y}, *many[] = {batch, y};

  rules plain = {10, 0, 0, 0, 0};
  call c = {custom_of(&plain), 2};
  mlxc_closure closure = {sizeof closure, call_custom, &c};
  OK(call_custom(&c, in, 2, results));
  expect(mlxc_arrays_get(results, 0), 2, (float[]){5, 12});
  REQUIRE(plain.releases == 1); /* no transform: nothing keeps the rules */
  mlxc_arrays_free(results);

  rules with_vjp = {10, 0, 0, 0, 0};
  c = (call){custom_of(&with_vjp), 1};
  c.custom.vjp = backward;
  results = mlxc_arrays_new();
  mlxc_array* ones[] = {make_floats(pool, (float[]){1, 1}, 1, row)};
  OK(mlxc_vjp(&closure, in, 2, ones, 1, NULL, results));
  expect(mlxc_arrays_get(results, 0), 2, (float[]){10, 10});
  expect(mlxc_arrays_get(results, 1), 2, (float[]){20, 20});
  REQUIRE(with_vjp.forward_calls == 1 && with_vjp.vjp_calls == 1);
  mlxc_arrays_free(results);
  REQUIRE(with_vjp.releases == 1);

  rules with_jvp = {10, 0, 0, 0, 0};
  c = (call){custom_of(&with_jvp), 1};
  c.custom.jvp = along;
  results = mlxc_arrays_new();
  OK(mlxc_jvp(&closure, in, in, 2, NULL, results));
  expect(mlxc_arrays_get(results, 0), 2, (float[]){30, 60});
  mlxc_arrays_free(results);
  REQUIRE(with_jvp.releases == 1);

  rules with_vmap = {10, 0, 0, 0, 0};
  c = (call){custom_of(&with_vmap), 2};
  c.custom.vmap = batched;
  results = mlxc_arrays_new();
  const int32_t axes[] = {0, MLXC_NOT_BATCHED};
  const mlxc_batch_axes where = {sizeof where, axes, NULL, 0};
  OK(mlxc_vmap(&closure, many, 2, &where, results));
  expect(mlxc_arrays_get(results, 0), 4, (float[]){10, 20, 30, 40});
  expect(mlxc_arrays_get(results, 1), 4, (float[]){5, 6, 5, 6});
  mlxc_arrays_free(results);
  REQUIRE(with_vmap.releases == 1);

  mlxc_arrays_free(pool);
}

static void fail_in_functions(void) {
  mlxc_arrays *pool = mlxc_arrays_new(), *results = mlxc_arrays_new();
  mlxc_array* in[] = {make_float(pool, 1), make_float(pool, 2)};
  rules r = {1, 0, 0, 0, 1};
  mlxc_custom custom = custom_of(&r);
  FAILS(MLXC_ERROR_OS, mlxc_custom_call(&custom, in, 2, results));
  REQUIRE(r.releases == 1);
  custom.forward = NULL;
  FAILS(MLXC_ERROR_VALUE, mlxc_custom_call(&custom, in, 2, results));
  REQUIRE(r.releases == 2);
  custom.struct_size = 0;
  FAILS(MLXC_ERROR_VALUE, mlxc_custom_call(&custom, in, 2, results));
  FAILS(MLXC_ERROR_VALUE, mlxc_custom_call(NULL, in, 2, results));
  REQUIRE(r.releases == 2); /* what cannot be read is not released */
  FAILS(MLXC_ERROR_VALUE, mlxc_checkpoint(NULL, in, 2, results));
  FAILS(MLXC_ERROR_VALUE, mlxc_depends(in, 2, NULL, 1, results));
  FAILS(MLXC_ERROR_VALUE, mlxc_depends(in, 2, in, 2, NULL));
  REQUIRE(mlxc_arrays_count(results) == 0);
  mlxc_arrays_free(results);
  mlxc_arrays_free(pool);
}

/* ---- checkpoint ----------------------------------------------------------------------------- */

static mlxc_error* fourth_power(void* context, mlxc_array* const* inputs, size_t n, mlxc_arrays* outputs) {
  (*(int*)context)++;
  mlxc_array* square = NULL;
  REQUIRE(n == 1);
  mlxc_error* error = mlxc_square(inputs[0], NULL, &square);
  if (error == NULL) error = append_product(square, square, outputs);
  mlxc_array_release(square);
  return error;
}

static mlxc_error* checkpointed_power(void* context, mlxc_array* const* inputs, size_t n,
                                      mlxc_arrays* outputs) {
  mlxc_closure inner = {sizeof inner, fourth_power, context};
  return mlxc_checkpoint(&inner, inputs, n, outputs);
}

static void compute_again(void) {
  mlxc_arrays *pool = mlxc_arrays_new(), *gradients = mlxc_arrays_new();
  mlxc_array* x = make_float(pool, 3);
  int calls = 0;
  mlxc_closure closure = {sizeof closure, checkpointed_power, &calls};
  OK(mlxc_grad(&closure, &x, 1, NULL, 0, gradients));
  expect(mlxc_arrays_get(gradients, 0), 1, (float[]){108});
  REQUIRE(calls == 1);
  mlxc_arrays_free(gradients);
  mlxc_arrays_free(pool);
}

static void order_computations(void) {
  mlxc_arrays *pool = mlxc_arrays_new(), *tied = mlxc_arrays_new();
  mlxc_array *a = make_float(pool, 1), *sum = NULL;
  OK(mlxc_add(a, a, NULL, &sum));
  OK(mlxc_depends(&a, 1, &sum, 1, tied));
  REQUIRE(mlxc_array_status(sum) == 0);
  mlxc_array* result = mlxc_arrays_get(tied, 0);
  OK(mlxc_eval(&result, 1));
  REQUIRE(mlxc_array_status(sum) == 1);
  expect(result, 1, (float[]){1});
  mlxc_array_release(sum);
  mlxc_arrays_free(tied);
  mlxc_arrays_free(pool);
}

int main(void) {
  OK(mlxc_init());
  use_rules();
  fail_in_functions();
  compute_again();
  order_computations();
  REQUIRE(mlxc_memory_active() == 0);
  return 0;
}
