// Rules of gather_mm and segmented_mm, products of groups of matrices.
//
// Rule: the gradient of matrices that are picked by index is a product for each matrix over all that picked
// it, done as one segmented_mm over the rows in order of their indices; nothing of the size of all products
// is made.
#include "core/ops/batch.h"
#include "core/ops/matrix_index.h"
#include "core/ops/update.h"

namespace mlxc {

namespace {

void check_matrices(const Recording& rec, int count) {
  for (int i = 0; i < count; i++) {
    if (rec.input(i).ndim < 2) {
      fail(MLXC_ERROR_VALUE, rec.name(), ": takes arrays of at least 2 axes, got shapes ",
           shape_text(rec.input(0).shape()), " and ", shape_text(rec.input(1).shape()));
    }
  }
  const Node &a = rec.input(0), &b = rec.input(1);
  if (a.shape_data()[a.ndim - 1] != b.shape_data()[b.ndim - 2]) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": the last axis of shape ", shape_text(a.shape()),
         " and the last but one of shape ", shape_text(b.shape()), " differ in size");
  }
}

// Casts the first two inputs to what they promote to.
mlxc_dtype promote_matrices(Recording& rec) {
  const mlxc_dtype dtype = promote_for(rec, rec.input(0).dtype, rec.input(1).dtype);
  check_accepts(*rec.op, dtype);
  rec.cast_input(0, dtype);
  rec.cast_input(1, dtype);
  return dtype;
}

// Where (in an array of the segments' leading shape and one more axis) position k is in a segment.
Array find_members(const Array& segments, int64_t length) {
  const int axis = segments.ndim() - 1;
  const Array wide = cast_to(segments, MLXC_INT64), place = iota(length, axis, axis + 1, MLXC_INT64);
  return op::logical_and(op::greater_equal(place, slice_axis(wide, axis, 0, 1)),
                         op::less(place, slice_axis(wide, axis, 1, 1)));
}

}  // namespace

// ---- gather_mm ----------------------------------------------------------------------------------

void infer_gather_mm(Recording& rec) {
  check_matrices(rec, 2);
  const Array a = Array::borrow(rec.inputs[0]), b = Array::borrow(rec.inputs[1]);
  Dims shape = infer_matrix_indices(rec, 2, a, b);
  const mlxc_dtype dtype = promote_matrices(rec);
  shape.push(a.dim(-2));
  shape.push(b.dim(-1));
  checked_size(rec.name(), shape.span(), dtype_size(dtype));
  rec.out[0] = {dtype, shape};
}

void vjp_gather_mm(const Vjp& vjp, Array* grads) {
  const Array &a = vjp.inputs[0], &b = vjp.inputs[1], &lhs = vjp.inputs[2], &rhs = vjp.inputs[3];
  const Array& g = vjp.cotangent();
  if (vjp.wants(0)) {
    const Array each = op::gather_mm(g, conj(swap_last(b)), number_matrices(g), rhs);
    grads[0] = scatter_matrices(each, lhs, a.shape());
  }
  if (vjp.wants(1)) grads[1] = sum_products(conj(gather_matrices(a, lhs)), g, rhs, b.shape());
}

void jvp_gather_mm(const Jvp& jvp, Array* out_tangents) {
  const Array &lhs = jvp.inputs[2], &rhs = jvp.inputs[3];
  Array tangent;
  if (jvp.tangents[0]) tangent = op::gather_mm(jvp.tangents[0], jvp.inputs[1], lhs, rhs);
  if (jvp.tangents[1]) {
    tangent = add_maybe(tangent, op::gather_mm(jvp.inputs[0], jvp.tangents[1], lhs, rhs));
  }
  out_tangents[0] = tangent;
}

void vmap_gather_mm(const Vmap& vmap, Array* results) {
  Array indices[2];
  for (int side = 0; side < 2; side++) {
    const size_t i = static_cast<size_t>(side);
    indices[side] = batch_matrix_indices(vmap, 2 + side, vmap.batched[i],
                                         vmap.inputs[i].shape().subspan(vmap.batched[i]));
  }
  results[0] = op::gather_mm(vmap.inputs[0], vmap.inputs[1], indices[0], indices[1]);
}

// ---- segmented_mm -------------------------------------------------------------------------------

void infer_segmented_mm(Recording& rec) {
  check_matrices(rec, 2);
  const Array a = Array::borrow(rec.inputs[0]), b = Array::borrow(rec.inputs[1]);
  const Node& segments = rec.input(2);
  if (a.ndim() != 2 || b.ndim() != 2) {
    fail(MLXC_ERROR_VALUE, "segmented_mm: takes matrices of 2 axes, got shapes ", shape_text(a.shape()),
         " and ", shape_text(b.shape()));
  }
  if (!is_integer(segments.dtype)) {
    fail(MLXC_ERROR_TYPE, "segmented_mm: segments must be integers, got ", dtype_name(segments.dtype));
  }
  if (segments.ndim == 0 || segments.shape_data()[segments.ndim - 1] != 2) {
    fail(MLXC_ERROR_VALUE, "segmented_mm: segments are pairs (start, stop), of shape (..., 2), got shape ",
         shape_text(segments.shape()));
  }
  Dims shape(segments.shape().first(static_cast<size_t>(segments.ndim - 1)));
  const mlxc_dtype dtype = promote_matrices(rec);
  shape.push(a.dim(0));
  shape.push(b.dim(1));
  checked_size(rec.name(), shape.span(), dtype_size(dtype));
  rec.out[0] = {dtype, shape};
}

void vjp_segmented_mm(const Vjp& vjp, Array* grads) {
  const Array &a = vjp.inputs[0], &b = vjp.inputs[1], &segments = vjp.inputs[2], &g = vjp.cotangent();
  const int lead = segments.ndim() - 1;
  const Array members = find_members(segments, a.dim(1));
  // A position may be in several segments, so each gives its share.
  if (vjp.wants(0)) {
    const Array each = op::matmul(g, conj(swap_last(b)));
    grads[0] = op::sum(keep_where(op::expand_dims(members, make_axes({lead})), each), all_axes(lead), false);
  }
  if (vjp.wants(1)) {
    const Array each = op::matmul(conj(swap_last(a)), g);
    grads[1] =
        op::sum(keep_where(op::expand_dims(members, make_axes({lead + 1})), each), all_axes(lead), false);
  }
}

void jvp_segmented_mm(const Jvp& jvp, Array* out_tangents) {
  const Array& segments = jvp.inputs[2];
  Array tangent;
  if (jvp.tangents[0]) tangent = op::segmented_mm(jvp.tangents[0], jvp.inputs[1], segments);
  if (jvp.tangents[1]) {
    tangent = add_maybe(tangent, op::segmented_mm(jvp.inputs[0], jvp.tangents[1], segments));
  }
  out_tangents[0] = tangent;
}

// The inner axes of a batch of matrices become one, in which each item has its own stretch.
void vmap_segmented_mm(const Vmap& vmap, Array* results) {
  const Array segments = batched_input(vmap, 2);
  if (!vmap.batched[0] && !vmap.batched[1]) {
    results[0] = op::segmented_mm(vmap.inputs[0], vmap.inputs[1], segments);
    return;
  }
  const Array a = batched_input(vmap, 0), b = batched_input(vmap, 1);
  const int64_t length = a.dim(2), all = vmap.size * length;
  const Array left =
      op::reshape(op::transpose(a, make_axes({1, 0, 2})), make_sizes(Dims{a.dim(1), all}.span()));
  const Array right = op::reshape(b, make_sizes(Dims{all, b.dim(2)}.span()));
  const auto number = [](int64_t value) { return scalar(static_cast<double>(value), MLXC_INT64); };
  const Array wide = cast_to(segments, MLXC_INT64);
  const Array wrong = op::logical_or(op::less(wide, number(0)), op::greater(wide, number(length)));
  const Array first = op::multiply(iota(vmap.size, 0, wide.ndim(), MLXC_INT64), number(length));
  results[0] = op::segmented_mm(left, right, op::where(wrong, number(all + 1), op::add(wide, first)));
}

}  // namespace mlxc
