// Rules of cross_entropy over the last axis, and of its gradient softmax(logits) - one_hot(target), which is
// computed anew from the logits and the logsum, the logarithm of the sum of exp(logits - their maximum):
// nothing of the logits' size is kept, and large logits keep their differences.
//
// Rule: targets are checked when they are known, by the kernels.
#include "core/ops/composed.h"

namespace mlxc {

namespace {

Array with_last(const Array& a) { return op::expand_dims(a, make_axes({a.ndim()})); }
Array without_last(const Array& a) { return op::squeeze(a, make_axes({a.ndim() - 1})); }

// Less the maximum, which is a constant here: neither the loss nor its gradient depends on what is taken off.
Array shifted(const Array& logits) {
  const Array wide = widen(logits);
  if (wide.dim(-1) == 0) return wide;
  return op::subtract(wide, op::stop_gradient(op::max(wide, make_axes({wide.ndim() - 1}), true)));
}

std::vector<Array> compose_cross_entropy(std::span<const Array> in) {
  const Array logits = shifted(in[0]);
  const int last = logits.ndim() - 1;
  const Array logsum = op::logsumexp(logits, make_axes({last}), false);
  const Array picked = without_last(op::gather_axis(logits, with_last(in[1]), last));
  return {op::subtract(logsum, picked), logsum};
}

std::vector<Array> compose_cross_entropy_grad(std::span<const Array> in) {
  const Array logits = shifted(in[0]), logsum = with_last(in[2]), g = with_last(in[3]);
  const Array share = op::multiply(op::exp(op::subtract(logits, logsum)), g);
  constexpr int mode_add = 1;
  const Array made = op::scatter_axis(share, with_last(in[1]), op::negative(g), logits.ndim() - 1, mode_add);
  return {cast_to(made, in[0].dtype())};
}

mlxc_dtype loss_dtype(mlxc_dtype logits) { return logits == MLXC_FLOAT64 ? MLXC_FLOAT64 : MLXC_FLOAT32; }

void check_targets(Recording& rec) {
  const Node &logits = rec.input(0), &targets = rec.input(1);
  check_accepts(*rec.op, logits.dtype);
  if (!is_integer(targets.dtype)) {
    fail(MLXC_ERROR_TYPE, rec.name(), ": targets must be integers, got ", dtype_name(targets.dtype));
  }
  const bool fits = logits.ndim >= 1 && logits.ndim == targets.ndim + 1 &&
                    Dims(logits.shape().first(targets.ndim)) == Dims(targets.shape());
  if (!fits) {
    fail(MLXC_ERROR_VALUE, rec.name(),
         ": targets must have the shape of the logits without the last axis, got ",
         shape_text(targets.shape()), " for logits of shape ", shape_text(logits.shape()));
  }
  if (targets.size > 0 && logits.shape_data()[logits.ndim - 1] == 0) {
    fail(MLXC_ERROR_INDEX, rec.name(), ": no target fits logits of shape ", shape_text(logits.shape()),
         ", whose last axis is empty");
  }
  if (!is_floating(logits.dtype)) rec.cast_input(0, MLXC_FLOAT32);
}

}  // namespace

void infer_cross_entropy(Recording& rec) {
  check_targets(rec);
  const Dims shape(rec.input(1).shape());
  const mlxc_dtype dtype = loss_dtype(rec.input(0).dtype);
  rec.out[0] = {dtype, shape};
  rec.out[1] = {dtype, shape};
}

void infer_cross_entropy_grad(Recording& rec) {
  check_targets(rec);
  const Dims shape(rec.input(1).shape());
  const mlxc_dtype dtype = loss_dtype(rec.input(0).dtype);
  for (int i = 2; i < 4; i++) {
    if (!(Dims(rec.input(i).shape()) == shape)) {
      fail(MLXC_ERROR_VALUE, rec.name(), ": logsum and cotangent must have the shape of the targets ",
           shape_text(shape), ", got ", shape_text(rec.input(i).shape()));
    }
    rec.cast_input(i, dtype);
  }
  rec.out[0] = {rec.input(0).dtype, Dims(rec.input(0).shape())};
}

void vjp_cross_entropy(const Vjp& vjp, Array* grads) {
  if (!vjp.wants(0)) return;
  const Array &logits = vjp.inputs[0], &logsum = vjp.outputs[1];
  if (vjp.cotangents[0]) grads[0] = op::cross_entropy_grad(logits, vjp.inputs[1], logsum, vjp.cotangents[0]);
  if (vjp.cotangents[1]) {
    const Array shares = op::exp(op::subtract(shifted(logits), with_last(logsum)));
    grads[0] = add_maybe(grads[0], op::multiply(shares, with_last(vjp.cotangents[1])));
  }
}

void jvp_cross_entropy(const Jvp& jvp, Array* out_tangents) {
  jvp_composed(jvp, compose_cross_entropy, out_tangents);
}

void vjp_cross_entropy_grad(const Vjp& vjp, Array* grads) {
  vjp_composed(vjp, compose_cross_entropy_grad, grads);
}

void jvp_cross_entropy_grad(const Jvp& jvp, Array* out_tangents) {
  jvp_composed(jvp, compose_cross_entropy_grad, out_tangents);
}

void vmap_cross_entropy(const Vmap& vmap, Array* results) {
  const std::vector<Array> made = op::cross_entropy(batch_input(vmap, 0), batch_input(vmap, 1));
  results[0] = made[0];
  results[1] = made[1];
}

void vmap_cross_entropy_grad(const Vmap& vmap, Array* results) {
  results[0] = op::cross_entropy_grad(batch_input(vmap, 0), batch_input(vmap, 1), batch_input(vmap, 2),
                                      batch_input(vmap, 3));
}

}  // namespace mlxc
