// Helpers of the rules of linear algebra (linalg.h), and the rules that several of its ops have: shapes of
// square matrices, and batching.
#include "core/ops/linalg.h"

#include <algorithm>
#include <cfloat>

namespace mlxc {

namespace {

Array index_mask(const Array& a, bool lower, int64_t k) {
  const Array rows = iota(a.dim(-2), 0, 2, MLXC_INT64), columns = iota(a.dim(-1), 1, 2, MLXC_INT64);
  const Array limit = op::add(rows, scalar(static_cast<double>(k), MLXC_INT64));
  return lower ? op::less_equal(columns, limit) : op::greater_equal(columns, limit);
}

Array on_diagonal(int64_t n) { return op::equal(iota(n, 0, 2, MLXC_INT64), iota(n, 1, 2, MLXC_INT64)); }

Axes axis_list(int axis) { return make_axes({static_cast<int32_t>(axis)}); }

// Rounding error of eigenvalues or singular values, as the algorithms bound it.
Array rounding_of(const Array& values) {
  const mlxc_dtype dtype = real_dtype(values.dtype());
  const double epsilon = dtype == MLXC_FLOAT64 ? DBL_EPSILON : FLT_EPSILON;
  const Array greatest = op::max(op::abs(values), axis_list(values.ndim() - 1), true);
  return op::stop_gradient(scaled(greatest, epsilon * static_cast<double>(values.dim(-1))));
}

Array reciprocal_beyond(const Array& a, const Array& bound) {
  const Array far = op::greater(op::abs(a), bound);
  return keep_where(far, op::reciprocal(op::where(far, a, scalar_like(1, a))));
}

}  // namespace

// ---- shape rules --------------------------------------------------------------------------------

mlxc_dtype take_matrix(Recording& rec, int input) {
  const Node& a = rec.input(input);
  check_accepts(*rec.op, a.dtype);
  if (a.ndim < 2) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": takes matrices, arrays of at least 2 axes, got shape ",
         shape_text(a.shape()));
  }
  const mlxc_dtype dtype = to_inexact(a.dtype);
  rec.cast_input(input, dtype);
  return dtype;
}

mlxc_dtype take_square(Recording& rec, int input) {
  const mlxc_dtype dtype = take_matrix(rec, input);
  const Node& a = rec.input(input);
  if (row_count(a) != column_count(a)) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": takes square matrices, got shape ", shape_text(a.shape()));
  }
  return dtype;
}

Dims batch_shape(const Node& a, std::initializer_list<int64_t> sizes) {
  Dims shape(a.shape().first(static_cast<size_t>(a.ndim - 2)));
  for (const int64_t size : sizes) shape.push(size);
  return shape;
}

mlxc_dtype complex_dtype(mlxc_dtype dtype) {
  return dtype == MLXC_FLOAT64 || dtype == MLXC_COMPLEX128 ? MLXC_COMPLEX128 : MLXC_COMPLEX64;
}

void infer_matrix_square(Recording& rec) {
  const mlxc_dtype dtype = take_square(rec);
  rec.out[0] = {dtype, Dims(rec.input(0).shape())};
}

// All parameters speak of the last two axes, and the shape rules have made the axes before them equal.
void vmap_matrix(const Vmap& vmap, Array* results) {
  std::vector<Array> batched;
  std::vector<Node*> nodes;
  for (size_t i = 0; i < vmap.inputs.size(); i++) {
    Array input = vmap.inputs[i];
    if (!vmap.batched[i]) {
      Dims shape{vmap.size};
      for (const int64_t size : input.shape()) shape.push(size);
      input = broadcast_to(input, shape.span());
    }
    nodes.push_back(input.node());
    batched.push_back(std::move(input));
  }
  const std::vector<Array> outputs =
      record_many(vmap.op->number, nodes.data(), static_cast<int>(nodes.size()), vmap.params);
  std::copy(outputs.begin(), outputs.end(), results);
}

// ---- matrices -----------------------------------------------------------------------------------

Array transpose_matrix(const Array& a) {
  Axes axes = all_axes(a.ndim());
  std::swap(axes.items[a.ndim() - 2], axes.items[a.ndim() - 1]);
  return op::transpose(a, axes);
}

Array adjoint(const Array& a) { return conj(transpose_matrix(a)); }

Array scaled(const Array& a, double factor) { return op::multiply(a, scalar_like(factor, a)); }

Array hermitian_part(const Array& a) { return scaled(op::add(a, adjoint(a)), 0.5); }

Array skew_part(const Array& a) { return scaled(op::subtract(a, adjoint(a)), 0.5); }

Array imaginary_part(const Array& a) {
  return is_complex(a.dtype()) ? scaled(op::subtract(a, op::conjugate(a)), 0.5) : Array();
}

Array real_part(const Array& a) {
  return is_complex(a.dtype()) ? scaled(op::add(a, op::conjugate(a)), 0.5) : a;
}

Array lower_part(const Array& a, int64_t k) { return keep_where(index_mask(a, true, k), a); }

Array upper_part(const Array& a, int64_t k) { return keep_where(index_mask(a, false, k), a); }

Array lower_half(const Array& a) { return scaled(op::add(lower_part(a), lower_part(a, -1)), 0.5); }

Array diagonal_of(const Array& a) {
  const int64_t n = std::min(a.dim(-2), a.dim(-1));
  const Array square = columns_of(rows_of(a, 0, n), 0, n);
  return op::sum(keep_where(on_diagonal(n), square), axis_list(a.ndim() - 1), false);
}

Array diagonal_matrix(const Array& diagonal) {
  return keep_where(on_diagonal(diagonal.dim(-1)), as_column(diagonal));
}

Array identity_like(const Array& square) { return cast_to(on_diagonal(square.dim(-1)), square.dtype()); }

Array as_row(const Array& vector) { return op::expand_dims(vector, axis_list(vector.ndim() - 1)); }

Array as_column(const Array& vector) { return op::expand_dims(vector, axis_list(vector.ndim())); }

Array rows_of(const Array& a, int64_t from, int64_t count) {
  return from == 0 && count == a.dim(-2) ? a : slice_axis(a, a.ndim() - 2, from, count);
}

Array columns_of(const Array& a, int64_t from, int64_t count) {
  return from == 0 && count == a.dim(-1) ? a : slice_axis(a, a.ndim() - 1, from, count);
}

Array join_columns(const Array& a, const Array& b) {
  const Array parts[] = {a, b};
  return op::concatenate(parts, a.ndim() - 1);
}

Array join_rows(const Array& a, const Array& b) {
  const Array parts[] = {a, b};
  return op::concatenate(parts, a.ndim() - 2);
}

Array reciprocal_gaps(const Array& values) {
  if (values.dim(-1) == 0) return as_column(values);
  return reciprocal_beyond(op::subtract(as_row(values), as_column(values)), as_row(rounding_of(values)));
}

Array safe_reciprocal(const Array& a, const Array& values) {
  if (values.dim(-1) == 0) return a;
  Array bound = rounding_of(values);
  if (a.ndim() > values.ndim()) bound = as_row(bound);
  return reciprocal_beyond(a, bound);
}

}  // namespace mlxc
