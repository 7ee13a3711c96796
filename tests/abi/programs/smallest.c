/* The smallest program: copy, fill, add and multiply on a device that is given by its name.
 *
 *   smallest [NAME]      NAME is a backend ("cpu", "cuda", "far") or a device's own name; else the CPU
 */
#include "check.h"

static int find_device(const char* name, mlxc_device* found) {
  for (mlxc_device_kind kind = MLXC_CPU; kind <= MLXC_GPU; kind++) {
    for (int32_t index = 0; index < mlxc_device_count(kind); index++) {
      mlxc_device device = {kind, index};
      mlxc_device_facts facts = {.struct_size = sizeof facts};
      OK(mlxc_device_get_facts(device, &facts));
      if (strcmp(facts.backend, name) == 0 || strcmp(facts.name, name) == 0) {
        *found = device;
        return 1;
      }
    }
  }
  return 0;
}

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "cpu";
  mlxc_device device;
  OK(mlxc_init());
  if (!find_device(name, &device)) {
    fprintf(stderr, "no device is called %s\n", name);
    return 2;
  }
  mlxc_stream* stream = NULL;
  OK(mlxc_default_stream(device, &stream));

  const float values[6] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[2] = {2, 3};
  mlxc_array *a = NULL, *two = NULL, *twos = NULL, *sum = NULL, *product = NULL, *copy = NULL;
  OK(mlxc_array_from_host(values, MLXC_FLOAT32, 2, shape, &a));
  OK(mlxc_array_from_double(2, MLXC_FLOAT32, &two));
  OK(mlxc_contiguous(a, stream, &copy));
  OK(mlxc_full(two, shape, 2, stream, &twos));
  OK(mlxc_add(copy, twos, stream, &sum));
  OK(mlxc_multiply(sum, a, stream, &product));

  const float expected[6] = {3, 8, 15, 24, 35, 48};
  require_floats(product, expected, 6);
  printf("%s: (a + 2) * a =", name);
  for (int i = 0; i < 6; i++) printf(" %g", (double)expected[i]);
  printf("\n");

  mlxc_array* all[6] = {a, two, twos, sum, product, copy};
  for (int i = 0; i < 6; i++) mlxc_array_release(all[i]);
  return 0;
}
