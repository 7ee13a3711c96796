/* mlxc_vmap from C: axes of inputs and outputs, nesting with gradients, placeholders that cannot be read, and
 * calls that are refused.
 *
 * Run by test_programs.py. Rule it checks: a refused call appends nothing and leaves every array usable.
 */
#include "check.h"

static mlxc_arrays* pool;

static const float values[] = {1, 2, 3, 4, 5, 6};
static const int64_t two_by_three[] = {2, 3}, three[] = {3};

/* a * b of the first two inputs, and b, which may not be batched. */
static mlxc_error* multiply(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs) {
  mlxc_array* product = NULL;
  mlxc_error* error = mlxc_multiply(inputs[0], inputs[count - 1], NULL, &product);
  (void)context;
  if (!error) error = mlxc_arrays_append(outputs, product);
  if (!error) error = mlxc_arrays_append(outputs, inputs[count - 1]);
  mlxc_array_release(product);
  return error;
}

static void batch_goes_where_the_axes_say(void) {
  mlxc_array* inputs[] = {make_floats(pool, values, 2, two_by_three), make_floats(pool, values, 1, three)};
  const int32_t in_axes[] = {0, MLXC_NOT_BATCHED}, out_axes[] = {-1, MLXC_NOT_BATCHED};
  const mlxc_batch_axes axes = {sizeof axes, in_axes, out_axes, 2};
  const mlxc_closure closure = {sizeof closure, multiply, NULL};
  mlxc_arrays* outputs = mlxc_arrays_new();
  OK(mlxc_vmap(&closure, inputs, 2, &axes, outputs));
  REQUIRE(mlxc_arrays_count(outputs) == 2);
  const float columns[] = {1, 4, 4, 10, 9, 18};
  REQUIRE(mlxc_array_dim(mlxc_arrays_get(outputs, 0), 0) == 3);
  require_floats(mlxc_arrays_get(outputs, 0), columns, 6);
  require_floats(mlxc_arrays_get(outputs, 1), values, 3);
  mlxc_arrays_free(outputs);

  outputs = mlxc_arrays_new();
  const float squares[] = {1, 4, 9, 16, 25, 36};
  OK(mlxc_vmap(&closure, inputs, 1, NULL, outputs)); /* all axes are 0 */
  require_floats(mlxc_arrays_get(outputs, 0), squares, 6);
  mlxc_arrays_free(outputs);
}

/* A closure may say where its outputs go when it knows how many there are. */
static mlxc_error* multiply_and_choose(void* context, mlxc_array* const* inputs, size_t count,
                                       mlxc_arrays* outputs) {
  static const int32_t last[] = {1, 1};
  mlxc_batch_axes* axes = context;
  axes->out_axes = last;
  axes->n_out_axes = 2;
  return multiply(NULL, inputs, count, outputs);
}

static void closure_may_choose_the_output_axes(void) {
  mlxc_array* input = make_floats(pool, values, 2, two_by_three);
  mlxc_batch_axes axes = {sizeof axes, NULL, NULL, 0};
  const mlxc_closure closure = {sizeof closure, multiply_and_choose, &axes};
  mlxc_arrays* outputs = mlxc_arrays_new();
  OK(mlxc_vmap(&closure, &input, 1, &axes, outputs));
  const float turned[] = {1, 4, 2, 5, 3, 6};
  require_floats(mlxc_arrays_get(outputs, 1), turned, 6);
  mlxc_arrays_free(outputs);
}

static mlxc_error* sum_of_cubes(void* context, mlxc_array* const* inputs, size_t count,
                                mlxc_arrays* outputs) {
  mlxc_array *square = NULL, *cube = NULL, *total = NULL;
  mlxc_error* error = mlxc_square(inputs[0], NULL, &square);
  (void)context, (void)count;
  if (!error) error = mlxc_multiply(square, inputs[0], NULL, &cube);
  if (!error) error = mlxc_sum(cube, NULL, -1, 0, NULL, &total);
  if (!error) error = mlxc_arrays_append(outputs, total);
  mlxc_array_release(square);
  mlxc_array_release(cube);
  mlxc_array_release(total);
  return error;
}

static mlxc_error* gradient(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs) {
  return mlxc_grad(context, inputs, count, NULL, 0, outputs);
}

static void vmap_of_a_gradient_gives_one_for_each_example(void) {
  mlxc_array* input = make_floats(pool, values, 2, two_by_three);
  mlxc_closure loss = {sizeof loss, sum_of_cubes, NULL};
  const mlxc_closure closure = {sizeof closure, gradient, &loss};
  mlxc_arrays* outputs = mlxc_arrays_new();
  OK(mlxc_vmap(&closure, &input, 1, NULL, outputs));
  const float slopes[] = {3, 12, 27, 48, 75, 108};
  require_floats(mlxc_arrays_get(outputs, 0), slopes, 6);
  mlxc_arrays_free(outputs);
}

struct left_behind {
  mlxc_array* array;
};

/* Reads what has no value in every way, and goes on. */
static mlxc_error* read_early(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs) {
  struct left_behind* left = context;
  const void* data = NULL;
  const int64_t* strides = NULL;
  double value = 0;
  float room[3];
  int64_t bytes = 1;
  (void)count;
  OK(mlxc_exp(inputs[0], NULL, &left->array));
  mlxc_array* const both[] = {inputs[0], left->array};
  for (int i = 0; i < 2; i++) {
    FAILS(MLXC_ERROR_VALUE, mlxc_eval(both, 2));
    FAILS(MLXC_ERROR_VALUE, mlxc_async_eval(both, 2));
    FAILS(MLXC_ERROR_VALUE, mlxc_array_host(both[i], &data, &strides));
    FAILS(MLXC_ERROR_VALUE, mlxc_array_to_host(both[i], room, sizeof room));
    FAILS(MLXC_ERROR_VALUE, mlxc_array_item_double(both[i], &value)); /* has three elements besides */
    FAILS(MLXC_ERROR_VALUE, mlxc_array_wait(both[i], 1000000, NULL));
    REQUIRE(mlxc_array_status(both[i]) == 0);
    REQUIRE(mlxc_array_buffer_id(both[i], &bytes) == NULL && bytes == 0);
    REQUIRE(mlxc_array_is_traced(both[i]));
  }
  return mlxc_arrays_append(outputs, left->array);
}

static void placeholder_has_no_value_and_does_no_harm(void) {
  static const float zeros[6] = {0};
  mlxc_array* input = make_floats(pool, zeros, 2, two_by_three);
  struct left_behind left = {NULL};
  const mlxc_closure closure = {sizeof closure, read_early, &left};
  mlxc_arrays* outputs = mlxc_arrays_new();
  OK(mlxc_vmap(&closure, &input, 1, NULL, outputs));
  const float ones[] = {1, 1, 1, 1, 1, 1};
  require_floats(mlxc_arrays_get(outputs, 0), ones, 6);

  mlxc_array* good = NULL;
  OK(mlxc_add(input, input, NULL, &good));
  mlxc_array* const mixed[] = {good, left.array};
  FAILS(MLXC_ERROR_VALUE, mlxc_eval(mixed, 2));
  FAILS(MLXC_ERROR_VALUE, mlxc_async_eval(mixed, 2));
  OK(mlxc_synchronize(NULL));
  require_floats(good, zeros, 6);
  mlxc_array_release(good);
  mlxc_array_release(left.array);
  mlxc_arrays_free(outputs);
}

static mlxc_error* refuse(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs) {
  (void)context, (void)inputs, (void)count, (void)outputs;
  return mlxc_error_make(MLXC_ERROR_OS, "the closure does not feel like it");
}

static void wrong_calls_are_refused(void) {
  mlxc_array* inputs[] = {make_floats(pool, values, 2, two_by_three), make_floats(pool, values, 1, three)};
  const mlxc_closure closure = {sizeof closure, multiply, NULL}, refusing = {sizeof refusing, refuse, NULL};
  const int32_t none[] = {MLXC_NOT_BATCHED, MLXC_NOT_BATCHED}, far[] = {0, 1}, sizes[] = {0, 0},
                good[] = {1, 0}, out_far[] = {3, 0}, out_none[] = {0, MLXC_NOT_BATCHED};
  const mlxc_batch_axes no_batch = {sizeof no_batch, none, NULL, 0}, no_axis = {sizeof no_axis, far, NULL, 0},
                        no_fit = {sizeof no_fit, sizes, NULL, 0},
                        short_list = {sizeof short_list, good, good, 1},
                        no_place = {sizeof no_place, good, out_far, 2},
                        depends = {sizeof depends, good, out_none, 2}, no_size = {0, good, NULL, 0},
                        right = {sizeof right, good, NULL, 0};
  mlxc_arrays* outputs = mlxc_arrays_new();
  FAILS(MLXC_ERROR_VALUE, mlxc_vmap(&closure, inputs, 2, &no_batch, outputs));
  FAILS(MLXC_ERROR_AXIS, mlxc_vmap(&closure, inputs, 2, &no_axis, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_vmap(&closure, inputs, 2, &no_fit, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_vmap(&closure, inputs, 2, &short_list, outputs));
  FAILS(MLXC_ERROR_AXIS, mlxc_vmap(&closure, inputs, 2, &no_place, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_vmap(&closure, inputs, 2, &depends, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_vmap(&closure, inputs, 2, &no_size, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_vmap(&closure, NULL, 2, &right, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_vmap(NULL, inputs, 2, &right, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_vmap(&closure, inputs, 0, NULL, outputs));
  FAILS(MLXC_ERROR_OS, mlxc_vmap(&refusing, inputs, 2, &right, outputs));
  REQUIRE(mlxc_arrays_count(outputs) == 0);
  OK(mlxc_vmap(&closure, inputs, 2, &right, NULL));
  OK(mlxc_vmap(&closure, inputs, 2, &right, outputs));
  const float products[] = {1, 4, 4, 10, 9, 18};
  require_floats(mlxc_arrays_get(outputs, 0), products, 6);
  mlxc_arrays_free(outputs);
}

int main(void) {
  pool = mlxc_arrays_new();
  REQUIRE(mlxc_has_feature("vmap"));
  batch_goes_where_the_axes_say();
  closure_may_choose_the_output_axes();
  vmap_of_a_gradient_gives_one_for_each_example();
  placeholder_has_no_value_and_does_no_harm();
  wrong_calls_are_refused();
  mlxc_arrays_free(pool);
  return 0;
}
