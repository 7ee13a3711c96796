/* Trains a logistic regression on hand-written digits, with gradients from the library.
 *
 *   logistic_regression DIGITS      DIGITS is tests/data/digits.txt
 *
 * Every fifth image is held out; the program fails below an accuracy of 0.95 on those. It shows how
 * a C program differentiates: the loss is a closure, mlxc_value_and_grad calls it once with stand-ins
 * for the weights and returns the gradients as arrays.
 */
#include "check.h"

enum { PIXELS = 64, CLASSES = 10, MAX_IMAGES = 2000 };

typedef struct dataset {
  int64_t count;
  float* pixels; /* count rows of 64, in [0, 1] */
  int32_t* digits;
} dataset;

static dataset new_dataset(void) {
  dataset data = {0, calloc(MAX_IMAGES * PIXELS, sizeof(float)), calloc(MAX_IMAGES, sizeof(int32_t))};
  REQUIRE(data.pixels != NULL && data.digits != NULL);
  return data;
}

static void free_dataset(dataset* data) {
  free(data->pixels);
  free(data->digits);
}

/* A line is 64 characters 0..9, a..g (grey levels 0 to 16), a space, a digit. */
static void add_line(dataset* data, const char* line) {
  static const char levels[] = "0123456789abcdefg";
  REQUIRE(data->count < MAX_IMAGES && strlen(line) >= PIXELS + 2);
  for (int i = 0; i < PIXELS; i++) {
    const char* at = strchr(levels, line[i]);
    REQUIRE(at != NULL);
    data->pixels[data->count * PIXELS + i] = (float)(at - levels) / 16.0f;
  }
  data->digits[data->count] = line[PIXELS + 1] - '0';
  REQUIRE(data->digits[data->count] >= 0 && data->digits[data->count] < CLASSES);
  data->count++;
}

static void read_digits(const char* path, dataset* training, dataset* held_out) {
  FILE* file = fopen(path, "r");
  if (file == NULL) {
    fprintf(stderr, "cannot open %s\n", path);
    exit(2);
  }
  char line[PIXELS + 16];
  for (int number = 0; fgets(line, sizeof line, file) != NULL; number++)
    add_line(number % 5 == 4 ? held_out : training, line);
  fclose(file);
}

/* ---- the model ------------------------------------------------------------------------------ */

/* Constants of the loss: images (n, 64) and what they show, one-hot (n, 10). */
typedef struct problem {
  mlxc_array* images;
  mlxc_array* one_hot;
} problem;

static mlxc_array* compute_logits(mlxc_arrays* pool, mlxc_array* images, mlxc_array* weight,
                                  mlxc_array* bias) {
  mlxc_array *product = NULL, *logits = NULL;
  OK(mlxc_matmul(images, weight, NULL, &product));
  OK(mlxc_add(keep(pool, product), bias, NULL, &logits));
  return keep(pool, logits);
}

/* Mean over the images of logsumexp(logits) - logit of the right class. Errors are handed back as
 * they are: the library passes them on to whoever called the transform. */
static mlxc_error* compute_loss(void* context, mlxc_array* const* inputs, size_t count,
                                mlxc_arrays* outputs) {
  const problem* p = context;
  REQUIRE(count == 2);
  mlxc_arrays* pool = mlxc_arrays_new();
  mlxc_array *norm = NULL, *chosen = NULL, *right = NULL, *gap = NULL, *loss = NULL;
  const int32_t last = -1;
  mlxc_array* logits = compute_logits(pool, p->images, inputs[0], inputs[1]);
  mlxc_error* error = mlxc_logsumexp(logits, &last, 1, 0, NULL, &norm);
  if (error == NULL) error = mlxc_multiply(logits, p->one_hot, NULL, &chosen);
  if (error == NULL) error = mlxc_sum(chosen, &last, 1, 0, NULL, &right);
  if (error == NULL) error = mlxc_subtract(norm, right, NULL, &gap);
  if (error == NULL) error = mlxc_mean(gap, NULL, -1, 0, NULL, &loss);
  if (error == NULL) error = mlxc_arrays_append(outputs, loss);
  mlxc_array* made[5] = {norm, chosen, right, gap, loss};
  for (int i = 0; i < 5; i++) mlxc_array_release(made[i]);
  mlxc_arrays_free(pool);
  return error;
}

/* parameter - rate * gradient, in place of *parameter. */
static void step(mlxc_array** parameter, mlxc_array* gradient, mlxc_array* rate) {
  mlxc_array *scaled = NULL, *moved = NULL;
  OK(mlxc_multiply(gradient, rate, NULL, &scaled));
  OK(mlxc_subtract(*parameter, scaled, NULL, &moved));
  mlxc_array_release(scaled);
  mlxc_array_release(*parameter);
  *parameter = moved;
}

static double measure_accuracy(const dataset* data, mlxc_array* weight, mlxc_array* bias) {
  mlxc_arrays* pool = mlxc_arrays_new();
  const int64_t shape[2] = {data->count, PIXELS};
  mlxc_array* images = make_floats(pool, data->pixels, 2, shape);
  mlxc_array* guess = NULL;
  OK(mlxc_argmax(compute_logits(pool, images, weight, bias), 1, 0, NULL, &guess));
  uint32_t* guesses = calloc((size_t)data->count, sizeof *guesses);
  REQUIRE(guesses != NULL);
  OK(mlxc_array_to_host(guess, guesses, (size_t)data->count * sizeof *guesses));
  int64_t right = 0;
  for (int64_t i = 0; i < data->count; i++) right += guesses[i] == (uint32_t)data->digits[i];
  free(guesses);
  mlxc_array_release(guess);
  mlxc_arrays_free(pool);
  return (double)right / (double)data->count;
}

static problem make_problem(mlxc_arrays* pool, const dataset* data) {
  const int64_t images[2] = {data->count, PIXELS}, classes[2] = {data->count, CLASSES};
  float* one_hot = calloc((size_t)data->count * CLASSES, sizeof *one_hot);
  REQUIRE(one_hot != NULL);
  for (int64_t i = 0; i < data->count; i++) one_hot[i * CLASSES + data->digits[i]] = 1;
  problem p = {make_floats(pool, data->pixels, 2, images), make_floats(pool, one_hot, 2, classes)};
  free(one_hot);
  return p;
}

static mlxc_array* make_zeros(int32_t ndim, const int64_t* shape) {
  mlxc_array *zero = NULL, *zeros = NULL;
  OK(mlxc_array_from_double(0, MLXC_FLOAT32, &zero));
  OK(mlxc_full(zero, shape, ndim, NULL, &zeros));
  mlxc_array_release(zero);
  return zeros;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: logistic_regression DIGITS\n");
    return 2;
  }
  dataset training = new_dataset(), held_out = new_dataset();
  read_digits(argv[1], &training, &held_out);
  printf("%lld images to learn from, %lld held out\n", (long long)training.count, (long long)held_out.count);

  mlxc_arrays* constants = mlxc_arrays_new();
  problem p = make_problem(constants, &training);
  mlxc_array* rate = make_float(constants, 2.0);
  const mlxc_closure loss = {sizeof loss, compute_loss, &p};
  const int64_t weight_shape[2] = {PIXELS, CLASSES}, bias_shape[1] = {CLASSES};
  mlxc_array* parameters[2] = {make_zeros(2, weight_shape), make_zeros(1, bias_shape)};

  double first = 0, value = 0;
  for (int round = 0; round < 300; round++) {
    mlxc_arrays *outputs = mlxc_arrays_new(), *gradients = mlxc_arrays_new();
    OK(mlxc_value_and_grad(&loss, parameters, 2, NULL, 0, outputs, gradients));
    for (size_t i = 0; i < 2; i++) step(&parameters[i], mlxc_arrays_get(gradients, i), rate);
    OK(mlxc_eval(parameters, 2));
    value = read_float(mlxc_arrays_get(outputs, 0));
    if (round == 0) first = value;
    if (round % 50 == 0) printf("round %3d  loss %.4f\n", round, value);
    mlxc_arrays_free(outputs);
    mlxc_arrays_free(gradients);
  }
  /* Weights of zero give every class the same chance, so the first loss is ln 10. */
  REQUIRE(first > 2.302 && first < 2.303);
  REQUIRE(value < 0.15);

  double accuracy = measure_accuracy(&held_out, parameters[0], parameters[1]);
  printf("loss %.4f, accuracy on the held-out images %.4f\n", value, accuracy);
  REQUIRE(accuracy >= 0.95);

  for (size_t i = 0; i < 2; i++) mlxc_array_release(parameters[i]);
  mlxc_arrays_free(constants);
  free_dataset(&training);
  free_dataset(&held_out);
  return 0;
}
