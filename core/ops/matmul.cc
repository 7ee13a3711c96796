// Rules of matmul: the last two axes are multiplied, the leading ones broadcast.
//
// Rule: kernels and gradient rules see equal leading axes, for the shape rule replaces the inputs by
// broadcasts, whose own gradient does the summing. A product of many matrices with one shared matrix is
// better recorded as one tall product: its gradient is then one product as well.
#include "core/ops/batch.h"
#include "core/ops/matrix_index.h"
#include "core/ops/update.h"

namespace mlxc {

namespace {

[[noreturn]] void fail_inner(const Array& a, const Array& b) {
  fail(MLXC_ERROR_VALUE, "matmul: the last axis of shape ", shape_text(a.shape()), " and the ",
       b.ndim() == 1 ? "axis" : "last but one axis", " of shape ", shape_text(b.shape()), " differ in size");
}

Dims broadcast_batch(const Node& a, const Node& b) {
  try {
    return broadcast_shapes("matmul", a.shape().first(static_cast<size_t>(a.ndim - 2)),
                            b.shape().first(static_cast<size_t>(b.ndim - 2)));
  } catch (const Failure&) {
    fail(MLXC_ERROR_VALUE, "matmul: the leading axes of shapes ", shape_text(a.shape()), " and ",
         shape_text(b.shape()), " do not broadcast together");
  }
}

}  // namespace

void infer_matmul(Recording& rec) {
  for (int i = 0; i < 2; i++) {
    if (rec.input(i).ndim < 2) {
      fail(MLXC_ERROR_VALUE, "matmul: this op takes arrays of at least 2 axes, got shapes ",
           shape_text(rec.input(0).shape()), " and ", shape_text(rec.input(1).shape()),
           "; give a vector a second axis first");
    }
  }
  const Node &a = rec.input(0), &b = rec.input(1);
  const int64_t rows = a.shape_data()[a.ndim - 2], inner = a.shape_data()[a.ndim - 1];
  const int64_t columns = b.shape_data()[b.ndim - 1];
  if (inner != b.shape_data()[b.ndim - 2])
    fail_inner(Array::borrow(rec.inputs[0]), Array::borrow(rec.inputs[1]));
  const Dims batch = broadcast_batch(a, b);
  Dims left = batch, right = batch, shape = batch;
  left.push(rows);
  left.push(inner);
  right.push(inner);
  right.push(columns);
  shape.push(rows);
  shape.push(columns);
  const mlxc_dtype dtype = promote_inputs(rec);
  check_accepts(*rec.op, dtype);
  checked_size("matmul", shape.span(), dtype_size(dtype));
  broadcast_input(rec, 0, left);
  broadcast_input(rec, 1, right);
  rec.out[0] = {dtype, shape};
}

void vjp_matmul(const Vjp& vjp, Array* grads) {
  const Array& g = vjp.cotangent();
  if (vjp.wants(0)) grads[0] = op::matmul(g, conj(swap_last(vjp.inputs[1])));
  if (vjp.wants(1)) grads[1] = op::matmul(conj(swap_last(vjp.inputs[0])), g);
}

void jvp_matmul(const Jvp& jvp, Array* out_tangents) {
  Array tangent;
  if (jvp.tangents[0]) tangent = op::matmul(jvp.tangents[0], jvp.inputs[1]);
  if (jvp.tangents[1]) tangent = add_maybe(tangent, op::matmul(jvp.inputs[0], jvp.tangents[1]));
  out_tangents[0] = tangent;
}

namespace {

// The batch goes to the rows: one tall product, and its gradient too.
Array multiply_rows(const Array& a, const Array& b) {
  const int rows = a.ndim() - 2;
  const Array moved = move_axis(a, 0, rows - 1);
  Dims tall(b.shape());
  tall[rows - 1] = moved.dim(rows - 1) * moved.dim(rows);
  tall[rows] = moved.dim(rows + 1);
  Dims split = moved.dims();
  split[rows + 1] = b.dim(-1);
  const Array product = op::matmul(op::reshape(moved, make_sizes(tall.span())), b);
  return move_axis(op::reshape(product, make_sizes(split.span())), rows - 1, 0);
}

}  // namespace

// Where only one side is batched, the other is shared. Of a batch of wide right sides each is multiplied on
// its own, for joining their columns would copy them.
void vmap_matmul(const Vmap& vmap, Array* results) {
  const Array &a = vmap.inputs[0], &b = vmap.inputs[1];
  if (!vmap.batched[1]) {
    results[0] = multiply_rows(a, b);
  } else if (!vmap.batched[0] && b.dim(-1) == 1) {
    results[0] = swap_last(multiply_rows(swap_last(b), swap_last(a)));
  } else {
    results[0] = op::matmul(a, b);
  }
}

}  // namespace mlxc
