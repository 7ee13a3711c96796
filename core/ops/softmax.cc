// Rules of softmax over any axes. Its Jacobian is symmetric, so vjp and jvp are the same formula.
//
// Rule: after infer_softmax `axes` is explicit and sorted.
#include "core/ops/common.h"

namespace mlxc {

namespace {

// y * (t - sum(y * t))
Array times_jacobian(const Array& y, const Array& t, const Axes& axes) {
  const Array weighted = op::multiply(y, t);
  return op::subtract(weighted, op::multiply(y, op::sum(weighted, axes, true)));
}

}  // namespace

void infer_softmax(Recording& rec) {
  auto& params = rec.params_as<mlxc_softmax_params>();
  check_accepts(*rec.op, rec.input(0).dtype);
  normalize_axes(rec.name(), params.axes, rec.input(0).ndim);
  rec.out[0] = {result_dtype(*rec.op, rec.input(0).dtype), Dims(rec.input(0).shape())};
  rec.cast_input(0, rec.out[0].dtype);
}

void vjp_softmax(const Vjp& vjp, Array* grads) {
  grads[0] = times_jacobian(vjp.output(), vjp.cotangent(), vjp.params_as<mlxc_softmax_params>().axes);
}

void jvp_softmax(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = times_jacobian(jvp.output(), jvp.tangents[0], jvp.params_as<mlxc_softmax_params>().axes);
}

void decompose_softmax(const Decomposition& whole, Array* results) {
  const Axes& axes = whole.params_as<mlxc_softmax_params>().axes;
  if (whole.inputs[0].size() == 0 || is_complex(whole.inputs[0].dtype())) return;
  const Array x = widen(whole.inputs[0]);
  const Array weights = op::exp(op::subtract(x, op::max(x, axes, true)));
  results[0] = cast_to(op::divide(weights, op::sum(weights, axes, true)), whole.inputs[0].dtype());
}

}  // namespace mlxc
