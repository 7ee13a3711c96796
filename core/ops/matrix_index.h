// Matrices picked by index, as gather_mm and gather_qmm do: an index counts the matrices of an array of shape
// (..., rows, columns) in row-major order of the leading axes, from the end where it is negative.
//
// Rule: kernels see both index arrays in one shape, that of the result's leading axes, and check the values.
#pragma once

#include "core/ops/common.h"

namespace mlxc {

// (..., columns, rows)
Array swap_last(const Array& a);
std::span<const int64_t> lead_shape(const Array& a);
int64_t lead_count(std::span<const int64_t> shape);

// Checks the index arrays, inputs `first` and the next, of the matrices a and b, and broadcasts them
// together. Returns their shape.
Dims infer_matrix_indices(Recording& rec, int first, const Array& a, const Array& b);

// The index of each matrix of a, in the shape of a's leading axes.
Array number_matrices(const Array& a);
// The matrices that the indices pick, in the indices' shape.
Array gather_matrices(const Array& a, const Array& indices);
// An array of `shape` in which each of the matrices is added at its index.
Array scatter_matrices(const Array& matrices, const Array& indices, std::span<const int64_t> shape);

// An array of `shape` (..., k, n) with, for each of its matrices, the sum of left^T right over the pairs
// whose index names it. left is of shape (indices' shape..., r, k), right of (indices' shape..., r, n).
Array sum_products(const Array& left, const Array& right, const Array& indices,
                   std::span<const int64_t> shape);

// For a batching rule: index array `i` of the batch, to go with matrices that are batched (then the batch
// counts as one more leading axis, and each item picks from its own) or are shared. `shape` is the matrices'
// own.
Array batch_matrix_indices(const Vmap& vmap, int i, bool matrices_batched, std::span<const int64_t> shape);

}  // namespace mlxc
