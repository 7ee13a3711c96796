/* Programs from C: a function of arrays is traced once, then called, called with other shapes, and
 * differentiated; what is wrong is refused. */
#include "check.h"

static int calls = 0;

/* (a + b) * 2 twice over, and a sum that nobody wants: three ops are left. */
static mlxc_error* fun(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs) {
  (void)context;
  REQUIRE(count == 2);
  calls++;
  mlxc_arrays* pool = mlxc_arrays_new();
  mlxc_array *sum = NULL, *again = NULL, *product = NULL, *product_again = NULL, *both = NULL, *unused = NULL;
  mlxc_array *two = make_float(pool, 2), *two_again = make_float(pool, 2);
  mlxc_error* error = mlxc_add(inputs[0], inputs[1], NULL, &sum);
  if (error != NULL) {
    mlxc_arrays_free(pool);
    return error;
  }
  keep(pool, sum);
  OK(mlxc_add(inputs[0], inputs[1], NULL, &again));
  OK(mlxc_multiply(sum, two, NULL, &product));
  OK(mlxc_multiply(keep(pool, again), two_again, NULL, &product_again));
  OK(mlxc_add(keep(pool, product), keep(pool, product_again), NULL, &both));
  OK(mlxc_exp(inputs[0], NULL, &unused));
  keep(pool, unused);
  OK(mlxc_arrays_append(outputs, keep(pool, both)));
  OK(mlxc_arrays_append(outputs, inputs[1]));
  mlxc_arrays_free(pool);
  return NULL;
}

/* The first output of the program in `context`, summed: something to differentiate. */
static mlxc_error* sum_of_program(void* context, mlxc_array* const* inputs, size_t count,
                                  mlxc_arrays* outputs) {
  mlxc_array* made[2] = {NULL, NULL};
  mlxc_array* total = NULL;
  mlxc_error* error = mlxc_program_call(context, inputs, count, NULL, made, 2);
  if (error != NULL) return error;
  OK(mlxc_sum(made[0], NULL, -1, 0, NULL, &total));
  OK(mlxc_arrays_append(outputs, total));
  mlxc_array_release(total);
  mlxc_array_release(made[0]);
  mlxc_array_release(made[1]);
  return NULL;
}

static mlxc_error* evaluates(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs) {
  (void)context, (void)outputs;
  return mlxc_eval(inputs, count);
}

static void require_call(mlxc_program* program, mlxc_array* a, mlxc_array* b, const float* expected,
                         int64_t count) {
  mlxc_array* inputs[2] = {a, b};
  mlxc_array* made[2] = {NULL, NULL};
  OK(mlxc_program_call(program, inputs, 2, NULL, made, 2));
  require_floats(made[0], expected, count);
  mlxc_array_release(made[0]);
  mlxc_array_release(made[1]);
}

int main(void) {
  OK(mlxc_init());
  mlxc_arrays* pool = mlxc_arrays_new();
  const float values[3] = {1, 2, 3};
  const int64_t shape[1] = {3}, shorter[1] = {2};
  mlxc_array* a = make_floats(pool, values, 1, shape);
  mlxc_array* b = make_floats(pool, values, 1, shape);
  mlxc_array* c = make_floats(pool, values, 1, shorter);
  mlxc_array* one = make_float(pool, 1);
  mlxc_array* inputs[2] = {a, b};
  mlxc_array* others[2] = {c, c};
  mlxc_array* wrong[2] = {a, one};
  const mlxc_closure closure = {sizeof closure, fun, NULL};

  mlxc_program* program = NULL;
  OK(mlxc_program_make(&closure, inputs, 2, MLXC_PROGRAM_SHAPELESS, &program));
  mlxc_program_facts facts = {.struct_size = sizeof facts};
  OK(mlxc_program_get_facts(program, &facts));
  REQUIRE(facts.n_inputs == 2 && facts.n_outputs == 2 && facts.n_steps == 3 && facts.n_constants == 1);
  REQUIRE(facts.flags == MLXC_PROGRAM_SHAPELESS && facts.fixed[0] == '\0' && !facts.borrows);
  mlxc_program_value value = {.struct_size = sizeof value};
  OK(mlxc_program_input(program, 1, &value));
  REQUIRE(value.dtype == MLXC_FLOAT32 && value.ndim == 1 && value.shape[0] == 3);
  OK(mlxc_program_output(program, 0, &value));
  REQUIRE(value.dtype == MLXC_FLOAT32 && value.ndim == 1 && value.shape[0] == 3);
  FAILS(MLXC_ERROR_INDEX, mlxc_program_output(program, 2, &value));

  const float expected[3] = {8, 16, 24};
  for (int i = 0; i < 3; i++) require_call(program, a, b, expected, 3);
  for (int i = 0; i < 3; i++) require_call(program, c, c, expected, 2);
  REQUIRE(calls == 1);

  mlxc_array* made[2] = {NULL, NULL};
  FAILS(MLXC_ERROR_VALUE, mlxc_program_call(program, inputs, 1, NULL, made, 2));
  FAILS(MLXC_ERROR_VALUE, mlxc_program_call(program, inputs, 2, NULL, made, 1));
  FAILS(MLXC_ERROR_VALUE, mlxc_program_call(program, wrong, 2, NULL, made, 2));
  mlxc_array* integer = NULL;
  OK(mlxc_astype(b, MLXC_INT32, NULL, &integer));
  wrong[1] = keep(pool, integer);
  FAILS(MLXC_ERROR_TYPE, mlxc_program_call(program, wrong, 2, NULL, made, 2));

  /* A gradient goes through the call. */
  const mlxc_closure total = {sizeof total, sum_of_program, program};
  mlxc_arrays* gradients = mlxc_arrays_new();
  OK(mlxc_grad(&total, inputs, 2, NULL, 0, gradients));
  const float fours[3] = {4, 4, 4};
  require_floats(mlxc_arrays_get(gradients, 0), fours, 3);
  require_floats(mlxc_arrays_get(gradients, 1), fours, 3);
  mlxc_arrays_free(gradients);

  /* And so does a trace, which takes the inner program's ops in. */
  mlxc_program* outer = NULL;
  OK(mlxc_program_make(&total, inputs, 2, 0, &outer));
  OK(mlxc_program_get_facts(outer, &facts));
  REQUIRE(facts.n_steps == 4);
  mlxc_program_release(outer);

  /* Shapes are fixed unless asked otherwise; an input has no value during the trace. */
  mlxc_program* fixed = NULL;
  OK(mlxc_program_make(&closure, inputs, 2, 0, &fixed));
  FAILS(MLXC_ERROR_VALUE, mlxc_program_call(fixed, others, 2, NULL, made, 2));
  const mlxc_closure evaluating = {sizeof evaluating, evaluates, NULL};
  mlxc_program* never = NULL;
  FAILS(MLXC_ERROR_VALUE, mlxc_program_make(&evaluating, inputs, 2, 0, &never));
  REQUIRE(never == NULL);

  /* A call outlives the program's handle. */
  OK(mlxc_program_call(fixed, inputs, 2, NULL, made, 2));
  mlxc_program_release(mlxc_program_retain(fixed));
  mlxc_program_release(fixed);
  require_floats(made[0], expected, 3);
  mlxc_array_release(made[0]);
  mlxc_array_release(made[1]);
  mlxc_program_release(program);
  mlxc_arrays_free(pool);
  printf("programs are fine\n");
  return 0;
}
