/* Indices that pick matrices of an array of shape (..., rows, columns): read and checked.
 *
 * Used by gather_mm and gather_qmm. A negative index counts from the end; one out of range is an error that
 * names it, and nothing is computed.
 */
#ifndef MLXC_CPU_MATRIX_INDEX_H
#define MLXC_CPU_MATRIX_INDEX_H

#include <vector>

#include "dtype.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* The contiguous integer array `indices` as numbers of matrices of `matrices`. */
inline mlxc_error* read_matrix_indices(const char* op, const mlxc_view* indices, const mlxc_view* matrices,
                                       std::vector<int64_t>* to) {
  int64_t count = 1;
  for (int axis = 0; axis < matrices->ndim - 2; axis++) count *= matrices->shape[axis];
  to->resize(static_cast<size_t>(indices->size));
  return visit_dtype(indices->dtype, [&](auto tag) -> mlxc_error* {
    using T = typename decltype(tag)::type;
    if constexpr (is_integer<T>) {
      const T* from = data<const T>(indices);
      for (int64_t i = 0; i < indices->size; i++) {
        /* What does not fit int64 is out of range anyway. */
        int64_t index = from[i] > static_cast<T>(0) && static_cast<uint64_t>(from[i]) > INT64_MAX
                            ? INT64_MAX
                            : static_cast<int64_t>(from[i]);
        const int64_t given = index;
        if (index < 0) index += count;
        if (index < 0 || index >= count) {
          return make_error(MLXC_ERROR_INDEX, "%s: index %lld is out of range for %lld matrices", op,
                            static_cast<long long>(given), static_cast<long long>(count));
        }
        (*to)[static_cast<size_t>(i)] = index;
      }
      return nullptr;
    } else {
      return make_error(MLXC_ERROR_TYPE, "%s: indices must be integers, got %s", op,
                        dtype_name(indices->dtype));
    }
  });
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
