/* Looks at what the loader made of the backends that it was told of.
 *
 *   loader loaded PATH             PATH was tried, by MLXC_BACKEND_PATH, and is loaded
 *   loader refused PATH WORD...    it was tried and refused with a message that has each WORD
 *   loader gpu NAME                the GPU backend in use is called NAME; "none": there is none
 *   loader reason PATH WORD...     it is loaded and says with each WORD why it has no device
 *   loader add PATH WORD...        mlxc_backend_load(PATH) fails with each WORD, or works if none is given
 *   loader adds                    an add on the GPU runs, by the backend or by fallback
 *   loader no_cpu                  mlxc_init and ops fail with a clear error, nothing else does
 *
 * Every command but the last also proves that the CPU still works.
 */
#include "check.h"

static void require_words(const char* text, char** words, int count) {
  for (int i = 0; i < count; i++) {
    if (strstr(text, words[i]) != NULL) continue;
    fprintf(stderr, "\"%s\" is not in: %s\n", words[i], text);
    exit(1);
  }
}

static mlxc_backend_attempt find_attempt(const char* path) {
  for (size_t i = 0; i < mlxc_backend_attempt_count(); i++) {
    mlxc_backend_attempt attempt = {.struct_size = sizeof attempt};
    OK(mlxc_backend_attempt_get(i, &attempt));
    if (strcmp(attempt.path, path) == 0) return attempt;
  }
  fprintf(stderr, "%s was not tried\n", path);
  exit(1);
}

static void check_cpu(void) {
  mlxc_array *two = NULL, *sum = NULL;
  mlxc_stream* stream = NULL;
  OK(mlxc_default_stream((mlxc_device){MLXC_CPU, 0}, &stream));
  OK(mlxc_array_from_double(2, MLXC_FLOAT32, &two));
  OK(mlxc_add(two, two, stream, &sum));
  REQUIRE(read_float(sum) == 4);
  mlxc_array_release(two);
  mlxc_array_release(sum);
}

/* (1, 2, 3) + (1, 2, 3), times itself, and sin of it, on the GPU. */
static void check_gpu(void) {
  const float values[3] = {1, 2, 3}, squares[3] = {4, 16, 36};
  const int64_t shape[1] = {3};
  mlxc_array *a = NULL, *sum = NULL, *product = NULL, *sine = NULL;
  mlxc_stream* stream = NULL;
  OK(mlxc_default_stream((mlxc_device){MLXC_GPU, 0}, &stream));
  OK(mlxc_array_from_host(values, MLXC_FLOAT32, 1, shape, &a));
  OK(mlxc_add(a, a, stream, &sum));
  OK(mlxc_multiply(sum, sum, stream, &product));
  OK(mlxc_sin(product, stream, &sine));
  require_floats(product, squares, 3);
  OK(mlxc_eval(&sine, 1));
  mlxc_array* all[4] = {a, sum, product, sine};
  for (int i = 0; i < 4; i++) mlxc_array_release(all[i]);
}

static void check_gpu_name(const char* name) {
  if (strcmp(name, "none") == 0) {
    REQUIRE(mlxc_device_count(MLXC_GPU) == 0);
    mlxc_stream* stream = NULL;
    FAILS(MLXC_ERROR_VALUE, mlxc_default_stream((mlxc_device){MLXC_GPU, 0}, &stream));
    REQUIRE(mlxc_default_device().kind == MLXC_CPU);
    return;
  }
  mlxc_device_facts facts = {.struct_size = sizeof facts};
  OK(mlxc_device_get_facts((mlxc_device){MLXC_GPU, 0}, &facts));
  REQUIRE(strcmp(facts.backend, name) == 0);
}

static void add_backend(const char* path, char** words, int count) {
  mlxc_error* error = mlxc_backend_load(path);
  REQUIRE((error == NULL) == (count == 0));
  require_words(mlxc_error_text(error), words, count);
  mlxc_error_free(error);
  REQUIRE(find_attempt(path).loaded == (count == 0));
}

static void check_without_cpu(void) {
  mlxc_error* error = mlxc_init();
  REQUIRE(mlxc_error_code(error) == MLXC_ERROR_OS);
  REQUIRE(strstr(mlxc_error_text(error), "libmlxc_cpu") != NULL);
  mlxc_error_free(error);
  mlxc_array *two = NULL, *sum = NULL;
  error = mlxc_array_from_double(2, MLXC_FLOAT32, &two);
  if (error == NULL) error = mlxc_add(two, two, NULL, &sum);
  if (error == NULL) error = mlxc_eval(&sum, 1);
  REQUIRE(mlxc_error_code(error) == MLXC_ERROR_OS);
  REQUIRE(strstr(mlxc_error_text(error), "CPU") != NULL);
  mlxc_error_free(error);
  mlxc_array_release(two);
  mlxc_array_release(sum);
  REQUIRE(mlxc_backend_attempt_count() >= 1);
  REQUIRE(mlxc_device_count(MLXC_CPU) == 0);
}

int main(int argc, char** argv) {
  REQUIRE(argc >= 2);
  const char* command = argv[1];
  const char* path = argc > 2 ? argv[2] : "";
  if (strcmp(command, "no_cpu") == 0) {
    check_without_cpu();
    return 0;
  }
  OK(mlxc_init());
  if (strcmp(command, "loaded") == 0) {
    mlxc_backend_attempt attempt = find_attempt(path);
    if (!attempt.loaded) fprintf(stderr, "%s\n", attempt.message);
    REQUIRE(attempt.loaded && strcmp(attempt.message, "loaded") == 0 && attempt.name[0] != '\0');
  } else if (strcmp(command, "refused") == 0) {
    mlxc_backend_attempt attempt = find_attempt(path);
    REQUIRE(!attempt.loaded);
    require_words(attempt.message, argv + 3, argc - 3);
  } else if (strcmp(command, "reason") == 0) {
    mlxc_backend_attempt attempt = find_attempt(path);
    REQUIRE(attempt.loaded && attempt.device_count == 0);
    require_words(attempt.reason, argv + 3, argc - 3);
  } else if (strcmp(command, "gpu") == 0) {
    check_gpu_name(path);
  } else if (strcmp(command, "add") == 0) {
    add_backend(path, argv + 3, argc - 3);
  } else if (strcmp(command, "adds") == 0) {
    check_gpu();
  } else {
    REQUIRE(!"a known command");
  }
  check_cpu();
  return 0;
}
