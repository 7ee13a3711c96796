// What the rules of quantised arrays share: how codes are packed, and which packings exist.
//
// A matrix of rows of `columns` numbers is kept as `columns * bits / 32` words a row, the first code in the
// lowest bits, codes that straddle words allowed, and a scale (and bias) for every `group_size` columns.
#pragma once

#include "core/ops/common.h"

namespace mlxc {

enum class QuantMode : int32_t { affine = 0, mxfp4 = 1, mxfp8 = 2, nvfp4 = 3 };

struct Packing {
  int32_t group_size;
  int32_t bits;
  QuantMode mode;

  bool is_affine() const { return mode == QuantMode::affine; }
  int64_t columns(int64_t words) const { return words * 32 / bits; }
};

// The packing that parameters name; MLXC_ERROR_VALUE where mode, group size and bits do not go together.
Packing read_packing(const char* op, int32_t group_size, int32_t bits, int32_t mode);

template <class P>
Packing read_packing(const char* op, const P& params) {
  return read_packing(op, params.group_size, params.bits, params.mode);
}

// Checks dtypes and shapes of a quantised matrix: the codes are input `at`, the scales the next one, and the
// biases (in affine mode) input `biases`. Casts the biases to the scales' dtype or both to what they promote
// to.
void check_quantized(Recording& rec, const Packing& packing, int at, int biases);

// How a cotangent or tangent of the unpacked matrix, shape (..., rows, columns), reaches scales and biases.
struct GroupGradients {
  Array scales;
  Array biases;
};
GroupGradients fold_groups(const Array& matrix_gradient, const Array& packed, const Packing& packing);

}  // namespace mlxc
