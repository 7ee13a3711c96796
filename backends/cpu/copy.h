/* Copies between two strided windows of the same shape, for kernels that assemble or take apart arrays.
 *
 * Defined in kernels/copy.cc; called by copy, slice, join, index and matmul kernels. Tiled where one side is
 * transposed, split over threads when large; the windows must not overlap.
 */
#ifndef MLXC_CPU_COPY_H
#define MLXC_CPU_COPY_H

#include "kernel.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* Elements of `item_size` bytes (1, 2, 4, 8 or 16); strides in elements. */
void copy_strided(void* target, const int64_t* target_strides, const void* source,
                  const int64_t* source_strides, const int64_t* shape, int ndim, int64_t item_size);

/* Every element of the window becomes *value. */
void fill_strided(void* target, const int64_t* target_strides, const void* value, const int64_t* shape,
                  int ndim, int64_t item_size);

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
