// What the rules of linear algebra share: matrices as the last two axes of arrays, any axes before them.
// Used by core/ops/linalg*.cc. Everything here records ops that can be differentiated again.
//
// Rule: cotangents follow the convention of the sweeps: <g, dy> is the real part of the sum of conj(g) dy, so
// that a real-linear map dy = L(da) is transposed with respect to that product.
#pragma once

#include "core/ops/common.h"

namespace mlxc {

// ---- shape rules --------------------------------------------------------------------------------

// Checks dtype and ndim of input 0 and casts it to a floating dtype, which is returned.
mlxc_dtype take_matrix(Recording& rec, int input = 0);
// The same, and fails unless the matrices are square.
mlxc_dtype take_square(Recording& rec, int input = 0);
// Shape of the batch, then the given sizes.
Dims batch_shape(const Node& a, std::initializer_list<int64_t> sizes = {});
inline int64_t row_count(const Node& a) { return a.shape_data()[a.ndim - 2]; }
inline int64_t column_count(const Node& a) { return a.shape_data()[a.ndim - 1]; }
mlxc_dtype complex_dtype(mlxc_dtype dtype);

// ---- matrices -----------------------------------------------------------------------------------

Array transpose_matrix(const Array& a);
Array adjoint(const Array& a);
inline Array product(const Array& a, const Array& b) { return op::matmul(a, b); }
inline Array product(const Array& a, const Array& b, const Array& c) { return product(product(a, b), c); }
Array scaled(const Array& a, double factor);
// Half the sum, or half the difference, of a matrix and its adjoint.
Array hermitian_part(const Array& a);
Array skew_part(const Array& a);
// i times the imaginary part; null for real arrays.
Array imaginary_part(const Array& a);
// Real part as an array of a's own dtype.
Array real_part(const Array& a);
// Elements with column - row at most (lower) or at least (upper) k; zero elsewhere.
Array lower_part(const Array& a, int64_t k = 0);
Array upper_part(const Array& a, int64_t k = 0);
inline Array triangle(const Array& a, bool upper) { return upper ? upper_part(a) : lower_part(a); }
// The lower triangle with half its diagonal.
Array lower_half(const Array& a);
Array diagonal_of(const Array& a);
// Square matrices with these diagonals.
Array diagonal_matrix(const Array& diagonal);
Array identity_like(const Array& square);
// A vector along the columns (one factor a column) or along the rows.
Array as_row(const Array& vector);
Array as_column(const Array& vector);
// Rows or columns [from, from + count).
Array rows_of(const Array& a, int64_t from, int64_t count);
Array columns_of(const Array& a, int64_t from, int64_t count);
// One matrix beside, or below, the other.
Array join_columns(const Array& a, const Array& b);
Array join_rows(const Array& a, const Array& b);
// 1 / (v[j] - v[i]) at row i, column j, where |v[j] - v[i]| exceeds the rounding error of eigenvalues of
// magnitude up to max |v|, else 0: within a group of equal values, the choice of vectors is arbitrary.
Array reciprocal_gaps(const Array& values);
// 1 / a where |a| exceeds the same bound for the greatest of `values`, else 0.
Array safe_reciprocal(const Array& a, const Array& values);

}  // namespace mlxc
