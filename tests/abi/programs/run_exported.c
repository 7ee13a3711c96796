/* Loads a function that Python exported and runs it, without Python.
 *
 *   run_exported FILE      the function takes float32 (2, 3) and, by name, scale: float32 ()
 */
#include "check.h"

static mlxc_error* count_bytes(void* context, const void* data, size_t size) {
  (void)data;
  *(size_t*)context += size;
  return NULL;
}

static mlxc_error* refuse_bytes(void* context, const void* data, size_t size) {
  (void)context, (void)data, (void)size;
  return mlxc_error_make(MLXC_ERROR_OS, "no room");
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  OK(mlxc_init());
  mlxc_program_file* file = NULL;
  OK(mlxc_program_load(argv[1], &file));
  REQUIRE(mlxc_program_file_count(file) == 1);
  printf("metadata: %s\n", mlxc_program_file_metadata(file));

  mlxc_program_trace trace = {.struct_size = sizeof trace};
  OK(mlxc_program_file_trace(file, 0, &trace));
  REQUIRE(trace.n_positional == 1 && strcmp(trace.keywords[0], "scale") == 0);
  FAILS(MLXC_ERROR_INDEX, mlxc_program_file_trace(file, 1, &trace));
  mlxc_program_value value = {.struct_size = sizeof value};
  OK(mlxc_program_input(trace.program, 0, &value));
  REQUIRE(value.dtype == MLXC_FLOAT32 && value.ndim == 2 && value.shape[0] == 2 && value.shape[1] == 3);

  mlxc_arrays* pool = mlxc_arrays_new();
  mlxc_arrays* outputs = mlxc_arrays_new();
  const float values[6] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[2] = {2, 3};
  mlxc_array* x = make_floats(pool, values, 2, shape);
  mlxc_array* scale = make_float(pool, 0.5);
  const char* const names[1] = {"scale"};
  const char* const wrong_names[1] = {"scales"};
  OK(mlxc_program_file_call(file, &x, 1, names, &scale, 1, NULL, outputs));
  REQUIRE(mlxc_arrays_count(outputs) == 2);
  mlxc_array* first = mlxc_arrays_get(outputs, 0);
  float data[4];
  OK(mlxc_array_to_host(first, data, sizeof data));
  for (int i = 0; i < 4; i++) printf("%.6g ", (double)data[i]);
  printf("\n");
  FAILS(MLXC_ERROR_VALUE, mlxc_program_file_call(file, &x, 1, wrong_names, &scale, 1, NULL, outputs));
  FAILS(MLXC_ERROR_VALUE, mlxc_program_file_call(file, &scale, 1, names, &x, 1, NULL, outputs));

  /* What was read can be written again; the bytes are the file's. */
  size_t written = 0;
  OK(mlxc_program_write(count_bytes, &written, &trace, 1, mlxc_program_file_metadata(file)));
  FILE* again = fopen(argv[1], "rb");
  REQUIRE(again != NULL);
  fseek(again, 0, SEEK_END);
  REQUIRE((size_t)ftell(again) == written);
  fclose(again);
  FAILS(MLXC_ERROR_OS, mlxc_program_write(refuse_bytes, NULL, &trace, 1, NULL));
  FAILS(MLXC_ERROR_OS, mlxc_program_load("/no/such/file", &file));
  FAILS(MLXC_ERROR_VALUE, mlxc_program_read("MLXCPROG", 8, &file));

  mlxc_arrays_free(outputs);
  mlxc_arrays_free(pool);
  mlxc_program_file_free(file);
  printf("exported program is fine\n");
  return 0;
}
