// Rules of where. The vjp and jvp are where again: what the condition leaves out is never multiplied, so
// a NaN or infinity on the other side stays there.
//
// Rule: the condition is read as a truth value; the two others promote to each other; all broadcast.
#include "core/ops/common.h"

namespace mlxc {

void infer_where(Recording& rec) {
  rec.cast_input(0, MLXC_BOOL);
  const Node &a = rec.input(1), &b = rec.input(2);
  mlxc_dtype dtype = a.dtype;
  if (a.dtype != b.dtype) dtype = promote_for(rec, a.dtype, b.dtype);
  check_accepts(*rec.op, dtype);
  const Dims values = broadcast_shapes(rec.name(), a.shape(), b.shape());
  rec.out[0] = {dtype, broadcast_shapes(rec.name(), rec.input(0).shape(), values.span())};
  checked_size(rec.name(), rec.out[0].shape.span());
  if (a.dtype != dtype) rec.cast_input(1, dtype);
  if (b.dtype != dtype) rec.cast_input(2, dtype);
}

void vjp_where(const Vjp& vjp, Array* grads) {
  const Array &condition = vjp.inputs[0], &g = vjp.cotangent();
  const Array zero = scalar_like(0, g);
  if (vjp.wants(1)) grads[1] = op::where(condition, g, zero);
  if (vjp.wants(2)) grads[2] = op::where(condition, zero, g);
}

void jvp_where(const Jvp& jvp, Array* out_tangents) {
  const Array &a = jvp.tangents[1], &b = jvp.tangents[2];
  if (!a && !b) return;
  const Array zero = scalar_like(0, jvp.output());
  out_tangents[0] = match_output(op::where(jvp.inputs[0], a ? a : zero, b ? b : zero), jvp.output());
}

}  // namespace mlxc
