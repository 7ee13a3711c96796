/* What the core must get right with a device like the far backend's, one scenario a run.
 *
 *   far_scenarios
 * copies|layouts|ordering|overlap|backlog|fallback|decomposed|partial|gradient|memory|poison|devices
 *
 * Run with MLXC_BACKEND_PATH naming the far backend, and the FAR_ settings that the test chose; see
 * far.h. Rule it keeps: every scenario ends by asking that the backend saw no breach of backend.h's
 * rules.
 */
#define _DEFAULT_SOURCE
#include "check.h"

static mlxc_stream* far_stream; /* the default stream of the far device */
static mlxc_stream* cpu_stream;

static mlxc_stream* new_far_stream(void) {
  mlxc_stream* stream = NULL;
  OK(mlxc_stream_new((mlxc_device){MLXC_GPU, 0}, &stream));
  return stream;
}

static int log_contains(const char* words) {
  static char text[1 << 16];
  mlxc_log_read(text, sizeof text);
  return strstr(text, words) != NULL;
}

typedef mlxc_error* (*binary_op)(mlxc_array* a, mlxc_array* b, mlxc_stream* stream, mlxc_array** out);

static mlxc_array* binary(mlxc_arrays* pool, binary_op op, mlxc_array* a, mlxc_array* b,
                          mlxc_stream* stream) {
  mlxc_array* made = NULL;
  OK(op(a, b, stream, &made));
  return keep(pool, made);
}

static mlxc_array* count_up(mlxc_arrays* pool, int32_t ndim, const int64_t* shape) {
  float values[4096];
  int64_t size = 1;
  for (int32_t i = 0; i < ndim; i++) size *= shape[i];
  REQUIRE(size <= 4096);
  for (int64_t i = 0; i < size; i++) values[i] = (float)i;
  return make_floats(pool, values, ndim, shape);
}

/* The values of a far result equal those of the same op on the CPU. */
static void require_same(mlxc_arrays* pool, binary_op op, mlxc_array* a, mlxc_array* b) {
  mlxc_array *there = binary(pool, op, a, b, far_stream), *here = binary(pool, op, a, b, cpu_stream);
  size_t bytes = (size_t)mlxc_array_size(here) * mlxc_dtype_size(mlxc_array_dtype(here));
  char *got = malloc(bytes + 1), *expected = malloc(bytes + 1);
  REQUIRE(got != NULL && expected != NULL);
  OK(mlxc_array_to_host(there, got, bytes));
  OK(mlxc_array_to_host(here, expected, bytes));
  REQUIRE(memcmp(got, expected, bytes) == 0);
  free(got);
  free(expected);
}

/* ---- scenarios ------------------------------------------------------------------------------ */

/* Host to device and back, of no element, one, and many; results stay usable on both sides. */
static void copies(mlxc_arrays* pool) {
  const int64_t sizes[6] = {0, 1, 2, 3, 1000, 4096};
  for (int i = 0; i < 6; i++) {
    mlxc_array* a = count_up(pool, 1, &sizes[i]);
    require_same(pool, mlxc_add, a, a);
    require_same(pool, mlxc_multiply, a, a);
  }
  const int64_t shape[2] = {3, 4};
  mlxc_array* a = count_up(pool, 2, shape);
  mlxc_array* there = binary(pool, mlxc_add, a, a, far_stream);
  mlxc_array* here = binary(pool, mlxc_multiply, there, a, cpu_stream);
  mlxc_array* back = binary(pool, mlxc_add, here, there, far_stream);
  const float expected[12] = {0, 4, 12, 24, 40, 60, 84, 112, 144, 180, 220, 264};
  require_floats(back, expected, 12);
  require_floats(back, expected, 12);
  require_same(pool, mlxc_add, make_float(pool, 1), make_float(pool, 2));

  const void* data = NULL;
  const int64_t* strides = NULL;
  OK(mlxc_array_host(back, &data, &strides));
  REQUIRE(((const float*)data)[11] == 264 && strides[0] == 4 && strides[1] == 1);
}

/* Transposed, reversed, broadcast and sliced inputs of kernels that take them and that do not. */
static void layouts(mlxc_arrays* pool) {
  const int64_t square[2] = {8, 8}, row[1] = {8}, start[2] = {7, 1}, step[2] = {-2, 3}, window[2] = {4, 2};
  mlxc_array *a = count_up(pool, 2, square), *line = count_up(pool, 1, row), *swapped = NULL, *cut = NULL,
             *ints = NULL, *int_swapped = NULL;
  OK(mlxc_transpose(a, NULL, -1, far_stream, &swapped));
  OK(mlxc_slice(a, start, 2, step, 2, window, 2, far_stream, &cut));
  OK(mlxc_astype(a, MLXC_INT32, cpu_stream, &ints));
  OK(mlxc_transpose(ints, NULL, -1, far_stream, &int_swapped));
  keep(pool, swapped), keep(pool, cut), keep(pool, ints), keep(pool, int_swapped);
  const binary_op ops[3] = {mlxc_add, mlxc_multiply, mlxc_matmul};
  for (int i = 0; i < 3; i++) {
    require_same(pool, ops[i], a, swapped);
    require_same(pool, ops[i], swapped, a);
    require_same(pool, ops[i], swapped, swapped);
  }
  for (int i = 0; i < 2; i++) {
    require_same(pool, ops[i], a, line);
    require_same(pool, ops[i], make_float(pool, 3), a);
    require_same(pool, ops[i], cut, cut);
  }
  require_same(pool, mlxc_add, int_swapped, ints);
  /* A window on a result that only the device has. */
  mlxc_array *sum = binary(pool, mlxc_add, a, a, far_stream), *sum_cut = NULL;
  OK(mlxc_slice(sum, start, 2, step, 2, window, 2, far_stream, &sum_cut));
  keep(pool, sum_cut);
  const float expected[8] = {114, 120, 82, 88, 50, 56, 18, 24};
  require_floats(sum_cut, expected, 8);
}

/* Work that depends on work of other streams, submitted long before that is done. */
static void ordering(mlxc_arrays* pool) {
  mlxc_stream* streams[4] = {far_stream, new_far_stream(), new_far_stream(), cpu_stream};
  const int64_t shape[1] = {256};
  mlxc_array* one = make_float(pool, 1);
  mlxc_array* chains[2] = {count_up(pool, 1, shape), count_up(pool, 1, shape)};
  for (int i = 0; i < 120; i++) {
    mlxc_stream* stream = streams[i % 3];
    mlxc_array* mixed = binary(pool, mlxc_add, chains[i % 2], one, stream);
    /* Now and then a chain goes by way of the CPU. */
    if (i % 29 == 0) mixed = binary(pool, mlxc_add, mixed, one, streams[3]);
    chains[i % 2] = mixed;
    if (i % 10 == 0) OK(mlxc_async_eval(&mixed, 1));
  }
  mlxc_array* both = binary(pool, mlxc_add, chains[0], chains[1], streams[2]);
  OK(mlxc_async_eval(&both, 1));
  float expected[256];
  for (int i = 0; i < 256; i++) expected[i] = (float)(2 * i + 125);
  require_floats(both, expected, 256);
  for (int i = 0; i < 4; i++) OK(mlxc_synchronize(streams[i]));
}

/* async_eval returns while the device has hardly begun; a wait with a time-out says so. Needs
 * FAR_DELAY_US of 20000 or so. */
static void overlap(mlxc_arrays* pool) {
  mlxc_array *sum = make_float(pool, 0), *one = make_float(pool, 1);
  for (int i = 0; i < 10; i++) sum = binary(pool, mlxc_add, sum, one, far_stream);
  int32_t done = -1;
  OK(mlxc_async_eval(&sum, 1));
  OK(mlxc_array_wait(sum, 1000000, &done));
  REQUIRE(done == 0);
  OK(mlxc_array_wait(sum, -1, &done));
  REQUIRE(done == 1);
  REQUIRE(read_float(sum) == 10);
}

/* Nobody on the host ever waits for the first stream, yet what its work used is released. */
static void backlog(mlxc_arrays* pool) {
  (void)pool;
  mlxc_stream* second = new_far_stream();
  const int64_t shape[1] = {4096};
  for (int i = 0; i < 1000; i++) {
    mlxc_arrays* inner = mlxc_arrays_new();
    mlxc_array* a = count_up(inner, 1, shape);
    mlxc_array* sum = binary(inner, mlxc_add, binary(inner, mlxc_add, a, a, far_stream), a, second);
    float values[4096];
    OK(mlxc_array_to_host(sum, values, sizeof values));
    REQUIRE(values[4095] == 3 * 4095);
    mlxc_arrays_free(inner);
  }
  /* A round uses 80 KB; a thousand of them are not kept. */
  REQUIRE(mlxc_memory_active() < 40 * 1000 * 1000);
}

/* sin has no far kernel. argv[2] is the policy that MLXC_FALLBACK names. */
static void fallback(mlxc_arrays* pool, const char* policy) {
  mlxc_array *x = make_float(pool, 0.5), *sine = NULL;
  mlxc_array* doubled = binary(pool, mlxc_add, x, x, far_stream);
  OK(mlxc_sin(doubled, far_stream, &sine));
  keep(pool, sine);
  mlxc_array* after = binary(pool, mlxc_add, sine, sine, far_stream);
  if (strcmp(policy, "error") == 0) {
    mlxc_error* error = mlxc_eval(&after, 1);
    REQUIRE(mlxc_error_code(error) == MLXC_ERROR_UNSUPPORTED);
    const char* text = mlxc_error_text(error);
    REQUIRE(strstr(text, "sin") && strstr(text, "float32") && strstr(text, "far"));
    mlxc_error_free(error);
    REQUIRE(read_float(doubled) == 1);
  } else {
    REQUIRE(read_float(after) > 1.682941 && read_float(after) < 1.682943);
  }
  REQUIRE(log_contains("sin of float32") == (strcmp(policy, "warn") == 0));
}

/* Needs MLXC_FALLBACK=error: square, negative and subtract have no far kernel, but multiply and add do. */
static void decomposed(mlxc_arrays* pool) {
  const int64_t shape[2] = {2, 3};
  mlxc_array *a = count_up(pool, 2, shape), *turned = NULL, *out[3] = {NULL, NULL, NULL};
  OK(mlxc_transpose(a, NULL, -1, far_stream, &turned));
  keep(pool, turned);
  OK(mlxc_square(turned, far_stream, &out[0]));
  OK(mlxc_negative(turned, far_stream, &out[1]));
  OK(mlxc_subtract(turned, out[0], far_stream, &out[2]));
  const float expected[3][6] = {{0, 9, 1, 16, 4, 25}, {-0.0f, -3, -1, -4, -2, -5}, {0, -6, 0, -12, -2, -20}};
  for (int i = 0; i < 3; i++) {
    keep(pool, out[i]);
    require_floats(out[i], expected[i], 6);
  }
  /* not_equal needs equal, which the device lacks too: nothing is half done. */
  mlxc_array* differ = NULL;
  OK(mlxc_not_equal(a, a, far_stream, &differ));
  keep(pool, differ);
  mlxc_error* error = mlxc_eval(&differ, 1);
  REQUIRE(mlxc_error_code(error) == MLXC_ERROR_UNSUPPORTED);
  REQUIRE(strstr(mlxc_error_text(error), "not_equal") != NULL);
  mlxc_error_free(error);
}

/* The kernel list is partial: which ops and dtypes it has, and what becomes of the others. */
static void partial(mlxc_arrays* pool) {
  REQUIRE(mlxc_kernel_exists(MLXC_GPU, MLXC_OP_ADD, MLXC_FLOAT32) == 1);
  REQUIRE(mlxc_kernel_exists(MLXC_GPU, MLXC_OP_ADD, MLXC_INT32) == 1);
  REQUIRE(mlxc_kernel_exists(MLXC_GPU, MLXC_OP_ADD, MLXC_FLOAT64) == 0);
  REQUIRE(mlxc_kernel_exists(MLXC_GPU, MLXC_OP_MULTIPLY, MLXC_INT32) == 0);
  REQUIRE(mlxc_kernel_exists(MLXC_GPU, MLXC_OP_SIN, MLXC_FLOAT32) == 0);
  const int64_t shape[3] = {2, 3, 3};
  mlxc_array* stack = count_up(pool, 3, shape);
  const mlxc_dtype dtypes[5] = {MLXC_BOOL, MLXC_INT32, MLXC_FLOAT16, MLXC_FLOAT64, MLXC_COMPLEX64};
  for (int i = 0; i < 5; i++) {
    mlxc_array* cast = NULL;
    OK(mlxc_astype(stack, dtypes[i], far_stream, &cast));
    keep(pool, cast);
    require_same(pool, mlxc_add, cast, cast);
    require_same(pool, mlxc_multiply, cast, cast);
  }
  /* The far matmul refuses batches through its `accepts`. */
  require_same(pool, mlxc_matmul, stack, stack);
}

/* mean((x @ w) * (x @ w)): forward and backward ops on the far device and on the CPU. */
static mlxc_error* square_loss(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs) {
  (void)count;
  mlxc_stream* stream = context;
  mlxc_array *product = NULL, *squares = NULL, *loss = NULL;
  mlxc_error* error = mlxc_matmul(inputs[0], inputs[1], stream, &product);
  if (error == NULL) error = mlxc_multiply(product, product, stream, &squares);
  if (error == NULL) error = mlxc_mean(squares, NULL, -1, 0, stream, &loss);
  if (error == NULL) error = mlxc_arrays_append(outputs, loss);
  mlxc_array* made[3] = {product, squares, loss};
  for (int i = 0; i < 3; i++) mlxc_array_release(made[i]);
  return error;
}

static void gradient(mlxc_arrays* pool) {
  const int64_t left[2] = {4, 6}, right[2] = {6, 2};
  mlxc_array* inputs[2] = {count_up(pool, 2, left), count_up(pool, 2, right)};
  mlxc_stream* streams[2] = {cpu_stream, far_stream};
  float values[2][24];
  for (size_t wanted = 0; wanted < 2; wanted++) {
    for (int i = 0; i < 2; i++) {
      mlxc_closure closure = {sizeof closure, square_loss, streams[i]};
      mlxc_arrays* gradients = mlxc_arrays_new();
      OK(mlxc_grad(&closure, inputs, 2, NULL, 0, gradients));
      mlxc_array* one = mlxc_arrays_get(gradients, wanted);
      OK(mlxc_array_to_host(one, values[i], (size_t)mlxc_array_size(one) * sizeof(float)));
      mlxc_arrays_free(gradients);
    }
    REQUIRE(memcmp(values[0], values[1], (size_t)mlxc_array_size(inputs[wanted]) * sizeof(float)) == 0);
  }
}

static mlxc_array* full_of_ones(mlxc_arrays* pool, int64_t count) {
  mlxc_array* made = NULL;
  OK(mlxc_full(make_float(pool, 1), &count, 1, far_stream, &made));
  return keep(pool, made);
}

/* Needs FAR_ALLOC_LIMIT=1048576. Too much is an error, and what is cached is given back before. */
static void memory(mlxc_arrays* pool) {
  mlxc_array* big = full_of_ones(pool, 1 << 20);
  FAILS(MLXC_ERROR_MEMORY, mlxc_eval(&big, 1));
  FAILS(MLXC_ERROR_MEMORY, mlxc_eval(&big, 1));
  REQUIRE(mlxc_array_status(big) == -1);
  /* 400 KB at a time, released: without giving the cache back the third size would not fit. */
  for (int64_t count = 100000; count > 70000; count -= 5000) {
    mlxc_arrays* inner = mlxc_arrays_new();
    mlxc_array* ones = full_of_ones(inner, count);
    OK(mlxc_eval(&ones, 1));
    mlxc_arrays_free(inner);
    OK(mlxc_synchronize(far_stream));
  }
  REQUIRE(read_float(full_of_ones(pool, 1)) == 1);
}

static void require_poisoned(mlxc_array* array) {
  for (int again = 0; again < 2; again++) {
    mlxc_error* error = mlxc_eval(&array, 1);
    REQUIRE(mlxc_error_code(error) == MLXC_ERROR_RUNTIME);
    REQUIRE(strstr(mlxc_error_text(error), "kernel 3 (add) failed on purpose"));
    mlxc_error_free(error);
  }
  REQUIRE(mlxc_array_status(array) == -1);
}

/* Needs FAR_FAIL_OP=3: the third kernel fails when it runs. */
static void poison(mlxc_arrays* pool) {
  mlxc_stream* other = new_far_stream();
  mlxc_array *one = make_float(pool, 1), *fresh = make_float(pool, 5), *sums[6];
  for (int i = 0; i < 6; i++) sums[i] = binary(pool, mlxc_add, i == 0 ? one : sums[i - 1], one, far_stream);
  mlxc_array* elsewhere = binary(pool, mlxc_add, sums[3], one, other);
  mlxc_array* unlucky = binary(pool, mlxc_add, fresh, one, far_stream);
  OK(mlxc_async_eval(&sums[1], 1));
  OK(mlxc_async_eval(&elsewhere, 1));
  OK(mlxc_async_eval(&sums[5], 1));
  OK(mlxc_async_eval(&unlucky, 1));
  require_poisoned(elsewhere);
  for (int i = 2; i < 6; i++) require_poisoned(sums[i]);
  require_poisoned(unlucky); /* it was in the queue behind the failure */
  double value;
  FAILS(MLXC_ERROR_RUNTIME, mlxc_array_item_double(sums[4], &value));
  /* What was done before keeps its values, though nobody had read them. */
  REQUIRE(read_float(sums[0]) == 2 && read_float(sums[1]) == 3);
  /* What depends on the failure fails, though it is recorded when the streams work again, anywhere. */
  mlxc_stream* streams[3] = {far_stream, other, cpu_stream};
  for (int i = 0; i < 3; i++) {
    require_poisoned(binary(pool, mlxc_add, sums[2], one, streams[i]));
    require_poisoned(binary(pool, mlxc_multiply, one, elsewhere, streams[i]));
  }
  /* What does not, works, also with data whose copy to the device was skipped. */
  for (int i = 0; i < 3; i++) {
    REQUIRE(read_float(binary(pool, mlxc_add, fresh, one, streams[i])) == 6);
    REQUIRE(read_float(binary(pool, mlxc_add, sums[1], fresh, streams[i])) == 8);
    OK(mlxc_synchronize(streams[i]));
  }
}

/* Needs FAR_DEVICES=2: memory of one device is never used by the other. */
static void devices(mlxc_arrays* pool) {
  REQUIRE(mlxc_device_count(MLXC_GPU) == 2);
  mlxc_stream* second = NULL;
  OK(mlxc_default_stream((mlxc_device){MLXC_GPU, 1}, &second));
  const int64_t shape[1] = {100};
  mlxc_array* a = count_up(pool, 1, shape);
  mlxc_array* first = binary(pool, mlxc_add, a, a, far_stream);
  mlxc_array* moved = binary(pool, mlxc_add, first, a, second);
  mlxc_array* back = binary(pool, mlxc_add, moved, first, far_stream);
  float expected[100];
  for (int i = 0; i < 100; i++) expected[i] = 5 * (float)i;
  require_floats(back, expected, 100);
  REQUIRE(mlxc_stream_device(second).index == 1);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(mlxc_arrays* pool);
  } scenarios[] = {{"copies", copies},   {"layouts", layouts},   {"ordering", ordering},
                   {"overlap", overlap}, {"backlog", backlog},   {"decomposed", decomposed},
                   {"partial", partial}, {"gradient", gradient}, {"memory", memory},
                   {"poison", poison},   {"devices", devices}};
  REQUIRE(argc >= 2);
  OK(mlxc_init());
  if (mlxc_device_count(MLXC_GPU) == 0) {
    fprintf(stderr, "the far backend is not loaded; see MLXC_BACKEND_PATH\n");
    return 2;
  }
  OK(mlxc_default_stream((mlxc_device){MLXC_GPU, 0}, &far_stream));
  OK(mlxc_default_stream((mlxc_device){MLXC_CPU, 0}, &cpu_stream));
  mlxc_arrays* pool = mlxc_arrays_new();
  int found = strcmp(argv[1], "fallback") == 0 && argc == 3;
  if (found) fallback(pool, argv[2]);
  for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
    if (strcmp(argv[1], scenarios[i].name) != 0) continue;
    scenarios[i].run(pool);
    found = 1;
  }
  REQUIRE(found);
  mlxc_arrays_free(pool);
  if (log_contains("breach")) {
    static char text[1 << 16];
    mlxc_log_read(text, sizeof text);
    fprintf(stderr, "%s", text);
    return 1;
  }
  printf("%s: as it should be\n", argv[1]);
  return 0;
}
