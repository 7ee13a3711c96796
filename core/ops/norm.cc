// Rules of rms_norm, layer_norm and their gradients, over the last axis.
//
// The gradient is an op of its own that reads x once more and keeps nothing from the forward pass. Tangents
// and second derivatives go by way of the formulas at the top. Weight and bias are 0-d where there is none,
// so that every rule has one form.
#include "core/ops/composed.h"

namespace mlxc {

namespace {

Array mean_last(const Array& a) { return op::mean(a, make_axes({a.ndim() - 1}), true); }

// x over its root mean square, or of its difference from the mean.
Array normalize_rows(const Array& x, double eps, bool centered) {
  const Array wide = widen(x);
  const Array moved = centered ? op::subtract(wide, mean_last(wide)) : wide;
  const Array power = op::add(mean_last(op::square(moved)), scalar_like(eps, wide));
  return op::multiply(moved, op::rsqrt(power));
}

// Sums a down to the shape of a weight: the last axis or nothing.
Array sum_to_weight(const Array& a, const Array& weight) { return sum_to(a, weight.shape()); }

std::vector<Array> compose_norm(std::span<const Array> in, double eps, bool centered) {
  Array y = op::multiply(normalize_rows(in[0], eps, centered), widen(in[1]));
  if (centered) y = op::add(y, widen(in[2]));
  return {cast_to(y, in[0].dtype())};
}

// dx = r (h - mean(h) - xhat mean(h xhat)) with h = g weight and r the factor that normalises; the middle
// term falls away where no mean was taken.
std::vector<Array> compose_norm_grad(std::span<const Array> in, double eps, bool centered) {
  const Array x = widen(in[0]), weight = widen(in[1]), g = widen(in[2]);
  const Array moved = centered ? op::subtract(x, mean_last(x)) : x;
  const Array factor = op::rsqrt(op::add(mean_last(op::square(moved)), scalar_like(eps, x)));
  const Array xhat = op::multiply(moved, factor);
  const Array h = op::multiply(g, weight);
  Array inner = op::subtract(h, op::multiply(xhat, mean_last(op::multiply(h, xhat))));
  if (centered) inner = op::subtract(inner, mean_last(h));
  const Array per_row = op::multiply(g, xhat);
  Dims row{x.dim(-1)};
  return {cast_to(op::multiply(factor, inner), in[0].dtype()),
          cast_to(sum_to(per_row, row.span()), in[0].dtype())};
}

void check_rows(const Recording& rec) {
  if (rec.input(0).ndim < 1) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": x must have at least one axis, got a 0-d array");
  }
}

void check_vector(const Recording& rec, int i, const char* name) {
  const Node &x = rec.input(0), &vector = rec.input(i);
  if (vector.ndim == 0) return;
  if (vector.ndim != 1 || vector.shape_data()[0] != x.shape_data()[x.ndim - 1]) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": ", name, " must have one number for each of the ",
         x.shape_data()[x.ndim - 1], " places of the last axis of x, got shapes ", shape_text(vector.shape()),
         " and ", shape_text(x.shape()));
  }
}

void infer_forward(Recording& rec) {
  check_rows(rec);
  check_vector(rec, 1, "weight");
  if (rec.n_inputs > 2) check_vector(rec, 2, "bias");
  const Dims shape(rec.input(0).shape());
  rec.out[0] = {promote_inputs(rec), shape};
}

// A vector that each place of the batch has for itself, as it broadcasts against x.
Array align_vector(const Vmap& vmap, int i, int x_ndim) {
  const Array& vector = vmap.inputs[i];
  if (!vmap.batched[i]) return vector;
  Dims shape{vmap.size};
  for (int k = 1; k < x_ndim - vector.ndim() + 1; k++) shape.push(1);
  for (int k = 1; k < vector.ndim(); k++) shape.push(vector.dim(k));
  return op::reshape(vector, make_sizes(shape.span()));
}

}  // namespace

void infer_rms_norm(Recording& rec) { infer_forward(rec); }
void infer_layer_norm(Recording& rec) { infer_forward(rec); }

void infer_norm_grad(Recording& rec) {
  check_rows(rec);
  check_vector(rec, 1, "weight");
  const Dims shape(rec.input(0).shape());
  if (!(Dims(rec.input(2).shape()) == shape)) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": the cotangent has shape ", shape_text(rec.input(2).shape()),
         ", x has ", shape_text(shape));
  }
  const mlxc_dtype dtype = promote_inputs(rec);
  rec.out[0] = {dtype, shape};
  rec.out[1] = {dtype, Dims{shape[shape.n - 1]}};
}

void vjp_rms_norm(const Vjp& vjp, Array* grads) {
  const double eps = vjp.params_as<mlxc_rms_norm_params>().eps;
  const std::vector<Array> made = op::rms_norm_grad(vjp.inputs[0], vjp.inputs[1], vjp.cotangent(), eps);
  grads[0] = made[0];
  grads[1] = sum_to_weight(made[1], vjp.inputs[1]);
}

void vjp_layer_norm(const Vjp& vjp, Array* grads) {
  const double eps = vjp.params_as<mlxc_layer_norm_params>().eps;
  if (vjp.wants(0) || vjp.wants(1)) {
    const std::vector<Array> made = op::layer_norm_grad(vjp.inputs[0], vjp.inputs[1], vjp.cotangent(), eps);
    grads[0] = made[0];
    grads[1] = sum_to_weight(made[1], vjp.inputs[1]);
  }
  if (vjp.wants(2)) grads[2] = sum_to_weight(vjp.cotangent(), vjp.inputs[2]);
}

void jvp_rms_norm(const Jvp& jvp, Array* out_tangents) {
  const double eps = jvp.params_as<mlxc_rms_norm_params>().eps;
  jvp_composed(jvp, [=](std::span<const Array> in) { return compose_norm(in, eps, false); }, out_tangents);
}

void jvp_layer_norm(const Jvp& jvp, Array* out_tangents) {
  const double eps = jvp.params_as<mlxc_layer_norm_params>().eps;
  jvp_composed(jvp, [=](std::span<const Array> in) { return compose_norm(in, eps, true); }, out_tangents);
}

void vjp_rms_norm_grad(const Vjp& vjp, Array* grads) {
  const double eps = vjp.params_as<mlxc_rms_norm_grad_params>().eps;
  vjp_composed(vjp, [=](std::span<const Array> in) { return compose_norm_grad(in, eps, false); }, grads);
}

void jvp_rms_norm_grad(const Jvp& jvp, Array* out_tangents) {
  const double eps = jvp.params_as<mlxc_rms_norm_grad_params>().eps;
  jvp_composed(
      jvp, [=](std::span<const Array> in) { return compose_norm_grad(in, eps, false); }, out_tangents);
}

void vjp_layer_norm_grad(const Vjp& vjp, Array* grads) {
  const double eps = vjp.params_as<mlxc_layer_norm_grad_params>().eps;
  vjp_composed(vjp, [=](std::span<const Array> in) { return compose_norm_grad(in, eps, true); }, grads);
}

void jvp_layer_norm_grad(const Jvp& jvp, Array* out_tangents) {
  const double eps = jvp.params_as<mlxc_layer_norm_grad_params>().eps;
  jvp_composed(
      jvp, [=](std::span<const Array> in) { return compose_norm_grad(in, eps, true); }, out_tangents);
}

// Rows do not know of each other, so a batched x is just more rows; weights of the batch are applied behind.
void vmap_norm(const Vmap& vmap, Array* results) {
  const bool centered = vmap.op->number == MLXC_OP_LAYER_NORM;
  const double eps =
      centered ? vmap.params_as<mlxc_layer_norm_params>().eps : vmap.params_as<mlxc_rms_norm_params>().eps;
  const Array x = batch_input(vmap, 0);
  const mlxc_dtype dtype = vmap.outputs[0].dtype();
  const bool shared = !vmap.batched[1] && (!centered || !vmap.batched[2]);
  const Array none = scalar(0, dtype), one = scalar(1, dtype);
  const Array& weight = shared ? vmap.inputs[1] : one;
  Array y = centered ? op::layer_norm(x, weight, shared ? vmap.inputs[2] : none, eps)
                     : op::rms_norm(x, weight, eps);
  if (!shared) {
    y = op::multiply(y, align_vector(vmap, 1, x.ndim()));
    if (centered) y = op::add(y, align_vector(vmap, 2, x.ndim()));
  }
  results[0] = y;
}

// The weight goes into the cotangent; its own gradient is summed for each place of the batch apart.
void vmap_norm_grad(const Vmap& vmap, Array* results) {
  const bool centered = vmap.op->number == MLXC_OP_LAYER_NORM_GRAD;
  const double eps = centered ? vmap.params_as<mlxc_layer_norm_grad_params>().eps
                              : vmap.params_as<mlxc_rms_norm_grad_params>().eps;
  const Array x = batch_input(vmap, 0), g = batch_input(vmap, 2);
  const mlxc_dtype dtype = vmap.outputs[0].dtype();
  const Array h = op::multiply(g, align_vector(vmap, 1, x.ndim())), one = scalar(1, dtype);
  results[0] = centered ? op::layer_norm_grad(x, one, h, eps)[0] : op::rms_norm_grad(x, one, h, eps)[0];
  const Array per_row = op::multiply(widen(g), normalize_rows(x, eps, centered));
  Axes summed{};
  for (int i = 1; i + 1 < x.ndim(); i++) summed.items[summed.count++] = i;
  results[1] = cast_to(summed.count ? op::sum(per_row, summed, false) : per_row, dtype);
}

}  // namespace mlxc
