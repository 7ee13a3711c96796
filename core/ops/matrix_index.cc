// Implements matrix_index.h, with recorded ops.
#include "core/ops/matrix_index.h"
#include "core/ops/batch.h"

#include "core/ops/update.h"

namespace mlxc {

namespace {

void check_indices(const Recording& rec, int i, const Array& matrices) {
  const Node& indices = rec.input(i);
  if (!is_integer(indices.dtype)) {
    fail(MLXC_ERROR_TYPE, rec.name(), ": indices must be integers, got ", dtype_name(indices.dtype));
  }
  if (indices.size > 0 && lead_count(matrices.shape()) == 0) {
    fail(MLXC_ERROR_INDEX, rec.name(), ": no index fits shape ", shape_text(matrices.shape()),
         ", which holds no matrices");
  }
}

Array number(int64_t value) { return scalar(static_cast<double>(value), MLXC_INT64); }

// Indices that count from the end made to count from the start.
Array wrap_indices(const Array& indices, int64_t count) {
  const Array wide = cast_to(indices, MLXC_INT64);
  if (is_unsigned(indices.dtype())) return wide;
  return op::where(op::less(wide, number(0)), op::add(wide, number(count)), wide);
}

}  // namespace

Array swap_last(const Array& a) {
  Axes axes = all_axes(a.ndim());
  std::swap(axes.items[a.ndim() - 2], axes.items[a.ndim() - 1]);
  return op::transpose(a, axes);
}

std::span<const int64_t> lead_shape(const Array& a) {
  return a.shape().first(static_cast<size_t>(a.ndim() - 2));
}

int64_t lead_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape.first(shape.size() - 2)) count *= size;
  return count;
}

Dims infer_matrix_indices(Recording& rec, int first, const Array& a, const Array& b) {
  check_indices(rec, first, a);
  check_indices(rec, first + 1, b);
  const Dims shape = broadcast_shapes(rec.name(), rec.input(first).shape(), rec.input(first + 1).shape());
  checked_size(rec.name(), shape.span());
  broadcast_input(rec, first, shape);
  broadcast_input(rec, first + 1, shape);
  return shape;
}

Array number_matrices(const Array& a) {
  const Array numbers = op::arange(0, 1, lead_count(a.shape()), MLXC_INT64);
  return op::reshape(numbers, make_sizes(lead_shape(a)));
}

Array gather_matrices(const Array& a, const Array& indices) {
  const Dims flat{lead_count(a.shape()), a.dim(-2), a.dim(-1)};
  return op::gather(op::reshape(a, make_sizes(flat.span())), std::span(&indices, 1), make_axes({0}));
}

Array scatter_matrices(const Array& matrices, const Array& indices, std::span<const int64_t> shape) {
  constexpr int32_t add = 1;
  const Dims flat{lead_count(shape), matrices.dim(-2), matrices.dim(-1)};
  const Array none = zeros(flat.span(), matrices.dtype());
  return op::reshape(op::scatter(none, matrices, std::span(&indices, 1), make_axes({0}), add),
                     make_sizes(shape));
}

Array sum_products(const Array& left, const Array& right, const Array& indices,
                   std::span<const int64_t> shape) {
  constexpr int32_t add = 1;
  const int64_t count = lead_count(shape), items = indices.size(), rows = left.dim(-2);
  const Array flat = op::reshape(wrap_indices(indices, count), make_sizes(Dims{items}.span()));
  const Array order = op::argsort(flat, 0);
  // All rows in order of the indices; the rows of one matrix are one stretch of them.
  const auto sort_rows = [&](const Array& a) {
    const Dims apart{items, rows, a.dim(-1)}, together{items * rows, a.dim(-1)};
    const Array matrices = op::reshape(a, make_sizes(apart.span()));
    return op::reshape(op::gather(matrices, std::span(&order, 1), make_axes({0})),
                       make_sizes(together.span()));
  };
  const Dims one{count};
  const Array counts = op::scatter(zeros(one.span(), MLXC_INT64), ones(Dims{items}.span(), MLXC_INT64),
                                   std::span(&flat, 1), make_axes({0}), add);
  const Array lengths = op::multiply(counts, number(rows));
  const Array stops = op::cumsum(lengths, 0, false, true);
  const Array bounds[] = {op::expand_dims(op::subtract(stops, lengths), make_axes({1})),
                          op::expand_dims(stops, make_axes({1}))};
  const Array sums =
      op::segmented_mm(swap_last(sort_rows(left)), sort_rows(right), op::concatenate(bounds, 1));
  return op::reshape(sums, make_sizes(shape));
}

Array batch_matrix_indices(const Vmap& vmap, int i, bool matrices_batched, std::span<const int64_t> shape) {
  const Array indices = batched_input(vmap, i);
  if (!matrices_batched) return indices;
  const int64_t count = lead_count(shape);
  const Array placed = wrap_indices(indices, count);
  const Array wrong = op::logical_or(op::less(placed, number(0)), op::greater_equal(placed, number(count)));
  const Array first = op::multiply(iota(vmap.size, 0, indices.ndim(), MLXC_INT64), number(count));
  // What is out of range for its own item must not reach another's matrices.
  return op::where(wrong, number(vmap.size * count), op::add(placed, first));
}

}  // namespace mlxc
