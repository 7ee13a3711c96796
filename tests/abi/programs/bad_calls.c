/* Bad arguments and the errors that are documented for them, one group a function.
 *
 * Whatever a call is given, it returns an error with a text, makes nothing, and the next right call
 * works: main() proves that after every group. ops_from_c.c has what all ops have in common.
 */
#include "check.h"

static mlxc_array* out; /* stays NULL while calls fail */
static mlxc_array *matrix, *integers, *flags, *scalar, *vector3;

static const int64_t huge[2] = {INT64_C(1) << 40, INT64_C(1) << 40};
static const int64_t negative[2] = {2, -3};

static void make_arrays(void) {
  const float floats[16] = {0};
  const int32_t ints[16] = {0};
  const unsigned char bools[16] = {0};
  const int64_t square[2] = {4, 4}, three[1] = {3};
  OK(mlxc_array_from_host(floats, MLXC_FLOAT32, 2, square, &matrix));
  OK(mlxc_array_from_host(ints, MLXC_INT32, 2, square, &integers));
  OK(mlxc_array_from_host(bools, MLXC_BOOL, 2, square, &flags));
  OK(mlxc_array_from_host(floats, MLXC_FLOAT32, 1, three, &vector3));
  OK(mlxc_array_from_double(2, MLXC_FLOAT32, &scalar));
}

static void release_arrays(void) {
  mlxc_array* all[5] = {matrix, integers, flags, scalar, vector3};
  for (int i = 0; i < 5; i++) mlxc_array_release(all[i]);
}

/* ---- arrays --------------------------------------------------------------------------------- */

static void give_bad_host_data(void) {
  const float data[4] = {0};
  const int64_t four[1] = {4}, bytes[1] = {4};
  int64_t many[MLXC_MAX_NDIM + 1];
  for (int i = 0; i <= MLXC_MAX_NDIM; i++) many[i] = 1;
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_host(NULL, MLXC_FLOAT32, 1, four, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_host(data, MLXC_FLOAT32, 1, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_host(data, MLXC_FLOAT32, 1, four, NULL));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_host(data, MLXC_FLOAT32, -1, four, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_host(data, MLXC_FLOAT32, MLXC_MAX_NDIM + 1, many, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_host(data, MLXC_FLOAT32, 2, negative, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_host(data, MLXC_FLOAT32, 2, huge, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_array_from_host(data, MLXC_DTYPE_COUNT, 1, four, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_array_from_host(data, -1, 1, four, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_strided(NULL, MLXC_FLOAT32, 1, four, bytes, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_strided(data, MLXC_FLOAT32, 2, huge, bytes, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_array_from_strided(data, 77, 1, four, bytes, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_wrap_host(NULL, MLXC_FLOAT32, 1, four, NULL, NULL, NULL, &out));
}

static void give_bad_scalars(void) {
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_int(300, MLXC_UINT8, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_int(-1, MLXC_UINT32, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_uint(UINT64_MAX, MLXC_INT64, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_array_from_int(1, MLXC_DTYPE_COUNT, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_array_from_double(1, -7, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_from_double(1, MLXC_FLOAT32, NULL));
}

static void read_badly(void) {
  float data[16];
  double number;
  int64_t integer;
  const void* lent;
  const int64_t* strides;
  int32_t done;
  mlxc_array* pair[2] = {matrix, NULL};
  FAILS(MLXC_ERROR_VALUE, mlxc_array_to_host(matrix, data, sizeof data - 1));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_to_host(matrix, NULL, sizeof data));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_to_host(NULL, data, sizeof data));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_item_double(matrix, &number));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_item_double(NULL, &number));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_item_int(scalar, NULL));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_item_int(NULL, &integer));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_host(NULL, &lent, &strides));
  FAILS(MLXC_ERROR_VALUE, mlxc_array_wait(NULL, 0, &done));
  FAILS(MLXC_ERROR_VALUE, mlxc_eval(NULL, 1));
  FAILS(MLXC_ERROR_VALUE, mlxc_eval(pair, 2));
  FAILS(MLXC_ERROR_VALUE, mlxc_async_eval(pair, 2));
  OK(mlxc_eval(NULL, 0));
}

static void ask_badly_about_dtypes(void) {
  mlxc_dtype dtype;
  int32_t ndim;
  int64_t shape[MLXC_MAX_NDIM];
  const int64_t a[1] = {3}, b[1] = {4};
  FAILS(MLXC_ERROR_TYPE, mlxc_promote(MLXC_FLOAT32, 99, &dtype));
  FAILS(MLXC_ERROR_TYPE, mlxc_promote(-1, MLXC_FLOAT32, &dtype));
  FAILS(MLXC_ERROR_VALUE, mlxc_promote(MLXC_INT8, MLXC_INT8, NULL));
  FAILS(MLXC_ERROR_VALUE, mlxc_broadcast_shapes(1, a, 1, b, &ndim, shape));
  FAILS(MLXC_ERROR_VALUE, mlxc_broadcast_shapes(-1, a, 1, b, &ndim, shape));
  REQUIRE(mlxc_dtype_size(99) == 0 && mlxc_dtype_size(-1) == 0);
  REQUIRE(mlxc_dtype_name(99) == NULL && mlxc_dtype_name(-1) == NULL);
  REQUIRE(mlxc_dtype_from_name("float33") == -1 && mlxc_dtype_from_name(NULL) == -1);
}

/* ---- ops ------------------------------------------------------------------------------------ */

static void give_bad_dtypes(void) {
  mlxc_array* fives[1] = {vector3};
  const int32_t first = 0;
  FAILS(MLXC_ERROR_TYPE, mlxc_astype(matrix, 99, NULL, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_astype(matrix, -1, NULL, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_bitcast(matrix, MLXC_DTYPE_COUNT, NULL, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_arange(0, 1, 3, 99, NULL, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_bitwise_and(matrix, matrix, NULL, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_bitwise_invert(matrix, NULL, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_negative(flags, NULL, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_gather(matrix, fives, 1, &first, 1, NULL, &out));
  FAILS(MLXC_ERROR_TYPE, mlxc_random_bits(vector3, NULL, 0, 4, NULL, &out));
}

static void give_bad_shapes(void) {
  const int64_t five[2] = {3, 5}, unknown[2] = {-1, -1}, three_four[2] = {3, 4},
                wrapped[2] = {INT64_C(1) << 33, INT64_C(1) << 33};
  int64_t many[MLXC_MAX_NDIM + 1];
  for (int i = 0; i <= MLXC_MAX_NDIM; i++) many[i] = 1;
  FAILS(MLXC_ERROR_VALUE, mlxc_full(scalar, negative, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_full(scalar, huge, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_full(scalar, wrapped, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_full(scalar, NULL, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_full(scalar, many, MLXC_MAX_NDIM + 1, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_full(scalar, many, -5, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_full(matrix, three_four, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_arange(0, 1, -1, MLXC_FLOAT32, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_arange(0, 1, INT64_MAX, MLXC_FLOAT32, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_reshape(matrix, five, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_reshape(matrix, unknown, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_reshape(matrix, negative, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_reshape(matrix, wrapped, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_broadcast_to(matrix, three_four, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_broadcast_to(matrix, NULL, 0, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_broadcast_to(scalar, huge, 2, NULL, &out));
}

static void give_mismatched_shapes(void) {
  mlxc_array* pair[2] = {matrix, vector3};
  FAILS(MLXC_ERROR_VALUE, mlxc_add(matrix, vector3, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_where(flags, matrix, vector3, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_matmul(matrix, vector3, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_matmul(scalar, matrix, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_concatenate(pair, 2, 0, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_concatenate(NULL, 0, 0, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_concatenate(NULL, 2, 0, NULL, &out));

  mlxc_array* flat = NULL;
  OK(mlxc_argmax(matrix, 1, 0, NULL, &flat));
  FAILS(MLXC_ERROR_VALUE, mlxc_gather_axis(matrix, flat, 0, NULL, &out));
  mlxc_array_release(flat);
}

static void give_bad_axes(void) {
  const int32_t far_off = 7, twice[2] = {0, 0}, off[2] = {0, 5}, second = 1;
  int32_t many[MLXC_MAX_NDIM + 1] = {0};
  FAILS(MLXC_ERROR_AXIS, mlxc_sum(matrix, &far_off, 1, 0, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_sum(matrix, twice, 2, 0, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_sum(matrix, NULL, 1, 0, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_sum(matrix, many, MLXC_MAX_NDIM + 1, 0, NULL, &out));
  FAILS(MLXC_ERROR_AXIS, mlxc_argmax(matrix, -3, 0, NULL, &out));
  FAILS(MLXC_ERROR_AXIS, mlxc_cumsum(matrix, 2, 0, 1, NULL, &out));
  FAILS(MLXC_ERROR_AXIS, mlxc_sort(matrix, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_transpose(matrix, twice, 2, NULL, &out));
  FAILS(MLXC_ERROR_AXIS, mlxc_transpose(matrix, off, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_transpose(matrix, &second, 1, NULL, &out));
  FAILS(MLXC_ERROR_AXIS, mlxc_expand_dims(matrix, &far_off, 1, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_squeeze(matrix, &second, 1, NULL, &out));
  FAILS(MLXC_ERROR_AXIS, mlxc_concatenate(&matrix, 1, 2, NULL, &out));
  FAILS(MLXC_ERROR_AXIS, mlxc_gather_axis(matrix, integers, 5, NULL, &out));
}

static void give_bad_numbers(void) {
  const int64_t start[2] = {0, 0}, step[2] = {1, 0}, ones[2] = {1, 1}, two[2] = {2, 2}, late[2] = {3, 0},
                nine[2] = {9, 9}, top[2] = {INT64_MAX, INT64_MAX};
  const int32_t first = 0;
  FAILS(MLXC_ERROR_VALUE, mlxc_slice(matrix, start, 2, step, 2, two, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_slice(matrix, start, 2, ones, 2, negative, 2, NULL, &out));
  FAILS(MLXC_ERROR_INDEX, mlxc_slice(matrix, late, 2, ones, 2, two, 2, NULL, &out));
  FAILS(MLXC_ERROR_INDEX, mlxc_slice(matrix, start, 2, top, 2, two, 2, NULL, &out));
  FAILS(MLXC_ERROR_INDEX, mlxc_slice(matrix, nine, 2, ones, 2, ones, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_slice(matrix, start, 1, ones, 1, two, 1, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_pad(matrix, scalar, negative, 2, ones, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_pad(matrix, scalar, top, 2, ones, 2, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_scatter(matrix, matrix, &integers, 1, &first, 1, 9, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_topk(matrix, 9, 1, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_topk(matrix, -1, 1, NULL, &out));

  mlxc_array *three = NULL, *key = NULL;
  OK(mlxc_astype(vector3, MLXC_UINT32, NULL, &three));
  OK(mlxc_slice(three, start, 1, ones, 1, two, 1, NULL, &key));
  FAILS(MLXC_ERROR_VALUE, mlxc_random_bits(three, two, 2, 4, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_random_bits(key, two, 2, 3, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_random_bits(key, huge, 2, 4, NULL, &out));
  FAILS(MLXC_ERROR_VALUE, mlxc_random_bits(key, negative, 2, 4, NULL, &out));
  mlxc_array_release(three);
  mlxc_array_release(key);
}

/* An index out of range is found when the op runs; the array keeps its error. */
static void index_out_of_range(void) {
  const int32_t nine = 9, first = 0;
  mlxc_array *index = NULL, *bad = NULL;
  OK(mlxc_array_from_host(&nine, MLXC_INT32, 0, NULL, &index));
  OK(mlxc_gather(matrix, &index, 1, &first, 1, NULL, &bad));
  FAILS(MLXC_ERROR_INDEX, mlxc_eval(&bad, 1));
  REQUIRE(mlxc_array_status(bad) == -1);
  FAILS(MLXC_ERROR_INDEX, mlxc_eval(&bad, 1));
  mlxc_array* after = NULL;
  OK(mlxc_add(bad, bad, NULL, &after));
  FAILS(MLXC_ERROR_INDEX, mlxc_eval(&after, 1));
  mlxc_array_release(after);
  mlxc_array_release(bad);
  mlxc_array_release(index);
}

/* 2^48 bytes are more than any address space of today's machines lends. */
static void ask_for_too_much_memory(void) {
  const int64_t shape[1] = {INT64_C(1) << 46};
  mlxc_array* big = NULL;
  OK(mlxc_full(scalar, shape, 1, NULL, &big));
  FAILS(MLXC_ERROR_MEMORY, mlxc_eval(&big, 1));
  FAILS(MLXC_ERROR_MEMORY, mlxc_eval(&big, 1));
  mlxc_array_release(big);
}

/* ---- devices, closures ---------------------------------------------------------------------- */

static void name_bad_devices(void) {
  const mlxc_device bad[3] = {{7, 0}, {MLXC_CPU, 99}, {MLXC_CPU, -1}};
  mlxc_device_facts facts = {.struct_size = sizeof facts};
  mlxc_stream* stream = NULL;
  for (int i = 0; i < 3; i++) {
    FAILS(MLXC_ERROR_VALUE, mlxc_device_get_facts(bad[i], &facts));
    FAILS(MLXC_ERROR_VALUE, mlxc_set_default_device(bad[i]));
    FAILS(MLXC_ERROR_VALUE, mlxc_stream_new(bad[i], &stream));
    FAILS(MLXC_ERROR_VALUE, mlxc_default_stream(bad[i], &stream));
  }
  const mlxc_device cpu = {MLXC_CPU, 0};
  facts.struct_size = 0;
  FAILS(MLXC_ERROR_VALUE, mlxc_device_get_facts(cpu, &facts));
  FAILS(MLXC_ERROR_VALUE, mlxc_device_get_facts(cpu, NULL));
  FAILS(MLXC_ERROR_VALUE, mlxc_stream_new(cpu, NULL));
  FAILS(MLXC_ERROR_VALUE, mlxc_default_stream(cpu, NULL));
  FAILS(MLXC_ERROR_VALUE, mlxc_set_default_stream(NULL));
  FAILS(MLXC_ERROR_VALUE, mlxc_backend_load(NULL));
  FAILS(MLXC_ERROR_OS, mlxc_backend_load("libmlxc_cpu.so"));
  FAILS(MLXC_ERROR_OS, mlxc_backend_load("/no/such/backend.so"));
  REQUIRE(mlxc_device_count(7) == 0 && mlxc_kernel_exists(MLXC_CPU, 99999, MLXC_FLOAT32) == 0);
  REQUIRE(stream == NULL);
}

static mlxc_error* refuse(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs) {
  (void)context, (void)inputs, (void)count, (void)outputs;
  return mlxc_error_make(MLXC_ERROR_OS, "the closure does not feel like it");
}

static mlxc_error* pass_on(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs) {
  (void)context;
  for (size_t i = 0; i < count; i++) {
    mlxc_error* error = mlxc_arrays_append(outputs, inputs[i]);
    if (error != NULL) return error;
  }
  return NULL;
}

static void give_bad_closures(void) {
  mlxc_closure good = {sizeof good, pass_on, NULL}, none = {sizeof none, NULL, NULL},
               small = {0, pass_on, NULL}, fails = {sizeof fails, refuse, NULL};
  mlxc_arrays *a = mlxc_arrays_new(), *b = mlxc_arrays_new();
  const size_t past = 1;
  FAILS(MLXC_ERROR_VALUE, mlxc_grad(NULL, &scalar, 1, NULL, 0, a));
  FAILS(MLXC_ERROR_VALUE, mlxc_grad(&none, &scalar, 1, NULL, 0, a));
  FAILS(MLXC_ERROR_VALUE, mlxc_grad(&small, &scalar, 1, NULL, 0, a));
  FAILS(MLXC_ERROR_VALUE, mlxc_grad(&good, NULL, 1, NULL, 0, a));
  FAILS(MLXC_ERROR_VALUE, mlxc_grad(&good, &scalar, 1, &past, 1, a));
  FAILS(MLXC_ERROR_VALUE, mlxc_grad(&good, &matrix, 1, NULL, 0, a));       /* not one element */
  FAILS(MLXC_ERROR_VALUE, mlxc_vjp(&good, &matrix, 1, &vector3, 1, a, b)); /* a cotangent's shape */
  FAILS(MLXC_ERROR_VALUE, mlxc_vjp(&good, &matrix, 1, NULL, 0, a, b));     /* their number */
  FAILS(MLXC_ERROR_VALUE, mlxc_jvp(&good, &matrix, &vector3, 1, a, b));
  FAILS(MLXC_ERROR_VALUE, mlxc_jvp(&good, &matrix, NULL, 1, a, b));
  REQUIRE(mlxc_arrays_count(a) == 0 && mlxc_arrays_count(b) == 0);

  mlxc_error* error = mlxc_grad(&fails, &scalar, 1, NULL, 0, a);
  REQUIRE(mlxc_error_code(error) == MLXC_ERROR_OS);
  REQUIRE(strstr(mlxc_error_text(error), "does not feel like it") != NULL);
  mlxc_error_free(error);

  FAILS(MLXC_ERROR_VALUE, mlxc_arrays_append(a, NULL));
  FAILS(MLXC_ERROR_VALUE, mlxc_arrays_append(NULL, scalar));
  REQUIRE(mlxc_arrays_get(a, 3) == NULL && mlxc_arrays_get(NULL, 0) == NULL);
  REQUIRE(mlxc_arrays_count(NULL) == 0);
  mlxc_arrays_free(a);
  mlxc_arrays_free(b);
  mlxc_arrays_free(NULL);
  mlxc_array_release(NULL);
  mlxc_error_free(NULL);
  REQUIRE(mlxc_error_code(NULL) == MLXC_OK && mlxc_error_text(NULL)[0] == '\0');
}

/* ---- the list ------------------------------------------------------------------------------- */

static void prove_usable(void) {
  mlxc_array* sum = NULL;
  OK(mlxc_add(scalar, scalar, NULL, &sum));
  REQUIRE(read_float(sum) == 4);
  mlxc_array_release(sum);
}

int main(void) {
  static void (*const groups[])(void) = {
      give_bad_host_data,     give_bad_scalars,        read_badly,
      ask_badly_about_dtypes, give_bad_dtypes,         give_bad_shapes,
      give_bad_axes,          give_mismatched_shapes,  give_bad_numbers,
      index_out_of_range,     ask_for_too_much_memory, name_bad_devices,
      give_bad_closures,
  };
  OK(mlxc_init());
  make_arrays();
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
    groups[i]();
    REQUIRE(out == NULL);
    prove_usable();
  }
  release_arrays();
  REQUIRE(mlxc_memory_active() == 0);
  printf("%d groups of bad calls\n", (int)(sizeof groups / sizeof groups[0]));
  return 0;
}
