/* Memory of the CPU device: host memory, 64-byte aligned, large blocks on huge pages.
 *
 * Called by the backend table (backend.cc) and by kernels that need nothing but the address. Requests beyond
 * what the machine has are refused here, since an overcommitting kernel would grant and later kill.
 */
#ifndef MLXC_CPU_MEMORY_H
#define MLXC_CPU_MEMORY_H

#include "mlxc/backend.h"

struct mlxc_backend_memory {
  void* pointer;
  size_t size;
  size_t mapped; /* bytes of the mapping, 0 if from the heap */
  bool owned;    /* false: wraps memory of someone else */
};

namespace mlxc_cpu {

/* Bytes of memory and swap, or the limit of the control group if that is lower. */
size_t total_memory();

mlxc_error* allocate_memory(size_t size, mlxc_backend_memory** memory);
mlxc_error* wrap_memory(void* host_bytes, size_t size, mlxc_backend_memory** memory);
void free_memory(mlxc_backend_memory* memory);

}  // namespace mlxc_cpu
#endif
