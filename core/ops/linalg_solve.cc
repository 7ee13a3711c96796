// Rules of inverse, tri_inverse, solve and solve_triangular; sources as Giles (2008), sections 2.2 and 2.3.
//
// Rule: kernels and gradient rules of solve see equal leading axes, for the shape rule replaces the inputs by
// broadcasts, whose own gradient does the summing.
#include "core/ops/linalg.h"
#include "core/ops/update.h"

namespace mlxc {

// ---- inverses -----------------------------------------------------------------------------------

void vjp_inverse(const Vjp& vjp, Array* grads) {
  const Array up = adjoint(vjp.output());
  grads[0] = scaled(product(up, vjp.cotangent(), up), -1);
}

void jvp_inverse(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = scaled(product(jvp.output(), jvp.tangents[0], jvp.output()), -1);
}

void vjp_tri_inverse(const Vjp& vjp, Array* grads) {
  const Array up = adjoint(vjp.output());
  const bool upper = vjp.params_as<mlxc_tri_inverse_params>().upper;
  grads[0] = triangle(scaled(product(up, vjp.cotangent(), up), -1), upper);
}

void jvp_tri_inverse(const Jvp& jvp, Array* out_tangents) {
  const bool upper = jvp.params_as<mlxc_tri_inverse_params>().upper;
  out_tangents[0] = scaled(product(jvp.output(), triangle(jvp.tangents[0], upper), jvp.output()), -1);
}

// ---- solve and solve_triangular -----------------------------------------------------------------

void infer_solve(Recording& rec) {
  const Node &a = rec.input(0), &b = rec.input(1);
  if (a.ndim < 2 || b.ndim < 2) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": takes matrices, arrays of at least 2 axes, got shapes ",
         shape_text(a.shape()), " and ", shape_text(b.shape()));
  }
  const int64_t n = row_count(a);
  if (column_count(a) != n || row_count(b) != n) {
    fail(MLXC_ERROR_VALUE, rec.name(),
         ": takes square matrices and right sides with as many rows, got shapes ", shape_text(a.shape()),
         " and ", shape_text(b.shape()));
  }
  for (int i = 0; i < 2; i++) check_accepts(*rec.op, rec.input(i).dtype);
  Dims batch;
  try {
    batch = broadcast_shapes(rec.name(), batch_shape(a).span(), batch_shape(b).span());
  } catch (const Failure&) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": the leading axes of shapes ", shape_text(a.shape()), " and ",
         shape_text(b.shape()), " do not broadcast together");
  }
  Dims left = batch, right = batch;
  left.push(n);
  left.push(n);
  right.push(n);
  right.push(column_count(b));
  const mlxc_dtype dtype = promote_inputs(rec);
  checked_size(rec.name(), left.span(), dtype_size(dtype));
  checked_size(rec.name(), right.span(), dtype_size(dtype));
  broadcast_input(rec, 0, left);
  broadcast_input(rec, 1, right);
  rec.out[0] = {dtype, right};
}

namespace {

Array minus_outer(const Array& gb, const Array& x) { return scaled(product(gb, adjoint(x)), -1); }

// The right side of a dx = db - da x.
Array moved_right_side(const Jvp& jvp, const Array& da) {
  const Array& db = jvp.tangents[1];
  if (!da) return db;
  const Array change = product(da, jvp.output());
  return db ? op::subtract(db, change) : scaled(change, -1);
}

}  // namespace

void vjp_solve(const Vjp& vjp, Array* grads) {
  const Array gb = op::solve(adjoint(vjp.inputs[0]), vjp.cotangent());
  if (vjp.wants(0)) grads[0] = minus_outer(gb, vjp.output());
  if (vjp.wants(1)) grads[1] = gb;
}

void jvp_solve(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = op::solve(jvp.inputs[0], moved_right_side(jvp, jvp.tangents[0]));
}

void vjp_solve_triangular(const Vjp& vjp, Array* grads) {
  const bool upper = vjp.params_as<mlxc_solve_triangular_params>().upper;
  const Array gb = op::solve_triangular(adjoint(vjp.inputs[0]), vjp.cotangent(), !upper);
  if (vjp.wants(0)) grads[0] = triangle(minus_outer(gb, vjp.output()), upper);
  if (vjp.wants(1)) grads[1] = gb;
}

void jvp_solve_triangular(const Jvp& jvp, Array* out_tangents) {
  const bool upper = jvp.params_as<mlxc_solve_triangular_params>().upper;
  const Array da = jvp.tangents[0] ? triangle(jvp.tangents[0], upper) : Array();
  out_tangents[0] = op::solve_triangular(jvp.inputs[0], moved_right_side(jvp, da), upper);
}

}  // namespace mlxc
