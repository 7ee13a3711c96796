// Rules of the reductions. After infer_reduce the parameter `axes` is explicit and sorted, which the
// gradient rules and the kernels rely on; all reductions share one layout of parameters.
//
// Rule: the gradient of min and max is shared by all winners and adds up to the whole, also where their
// number passes what a half-precision type can count; products are never divided out, so zeros are right.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "core/ops/common.h"

namespace mlxc {

namespace {

using Params = mlxc_sum_params;

template <class P>
constexpr bool same_layout =
    std::is_standard_layout_v<P> && sizeof(P) == sizeof(Params) &&
    offsetof(P, axes) == offsetof(Params, axes) && offsetof(P, keepdims) == offsetof(Params, keepdims);
static_assert(same_layout<mlxc_prod_params> && same_layout<mlxc_min_params> && same_layout<mlxc_max_params> &&
              same_layout<mlxc_mean_params> && same_layout<mlxc_all_params> && same_layout<mlxc_any_params> &&
              same_layout<mlxc_logsumexp_params>);

// A reduced array as it broadcasts against the input.
Array restore(const Array& reduced, const Params& params) {
  return restore_axes(reduced, params.axes, params.keepdims);
}

// What an array is divided by in a mean over the axes: in float32 at least, since float16 ends at 65504.
Array divide_by_count(const Array& a, int64_t count) {
  const Array wide = widen(a);
  return op::divide(wide, scalar(static_cast<double>(count), real_dtype(wide.dtype())));
}

// Where the input equals the extreme value; a NaN equals the NaN that it made.
Array winners(const Array& x, const Array& y, const Params& params) {
  const Array equal = op::equal(x, restore(y, params));
  return is_inexact(x.dtype()) ? op::logical_or(equal, op::isnan(x)) : equal;
}

// How many winners there are, in a type that can count them.
Array count_winners(const Array& mask, const Array& x, const Params& params) {
  const mlxc_dtype wide = real_dtype(x.dtype()) == MLXC_FLOAT64 ? MLXC_FLOAT64 : MLXC_FLOAT32;
  const bool fits = axes_size(x.shape(), params.axes) <= INT32_MAX;
  return cast_to(op::sum(fits ? mask : op::astype(mask, MLXC_FLOAT64), params.axes, params.keepdims), wide);
}

void vjp_extreme(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<Params>();
  const Array& x = vjp.inputs[0];
  const Array mask = winners(x, vjp.output(), params);
  const Array share = op::divide(widen(vjp.cotangent()), count_winners(mask, x, params));
  grads[0] = keep_where(mask, restore(cast_to(share, x.dtype()), params));
}

void jvp_extreme(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<Params>();
  const Array& x = jvp.inputs[0];
  const Array mask = winners(x, jvp.output(), params);
  const Array total = op::sum(widen(keep_where(mask, jvp.tangents[0])), params.axes, params.keepdims);
  out_tangents[0] = op::divide(total, count_winners(mask, x, params));
}

// The product of all other elements along an axis.
Array product_of_others(const Array& x, int axis) {
  return op::multiply(op::cumprod(x, axis, false, false), op::cumprod(x, axis, true, false));
}

// The same over several axes, which are brought together into one and put back.
Array product_of_others(const Array& x, const Axes& axes) {
  if (axes.count == 0) return ones_like(x);
  if (axes.count == 1) return product_of_others(x, axes.items[0]);
  const int ndim = x.ndim();
  Axes order{}, inverse{};
  order.count = inverse.count = ndim;
  int kept = 0, reduced = ndim - axes.count;
  for (int i = 0; i < ndim; i++) {
    const bool taken = std::find(axes.items, axes.items + axes.count, i) != axes.items + axes.count;
    const int place = taken ? reduced++ : kept++;
    order.items[place] = i;
    inverse.items[i] = place;
  }
  const Array moved = op::transpose(x, order);
  Dims flat;
  for (int i = 0; i < kept; i++) flat.push(moved.dim(i));
  flat.push(axes_size(x.shape(), axes));
  const Array others = product_of_others(op::reshape(moved, make_sizes(flat.span())), kept);
  return op::transpose(op::reshape(others, moved.sizes()), inverse);
}

// The weights exp(x - logsumexp); all zero where everything is -inf, not NaN.
Array exp_weights(const Array& x, const Array& y, const Params& params) {
  Array base = y;
  if (!is_complex(y.dtype())) {
    const Array none = op::equal(y, scalar_like(-INFINITY, y));
    base = op::where(none, scalar_like(0, y), y);
  }
  return op::exp(op::subtract(x, restore(base, params)));
}

}  // namespace

void infer_reduce(Recording& rec) {
  auto& params = rec.params_as<Params>();
  const int number = rec.op->number;
  const Node& a = rec.input(0);
  check_accepts(*rec.op, a.dtype);
  normalize_axes(rec.name(), params.axes, a.ndim);
  params.keepdims = params.keepdims != 0;
  OutSpec& out = rec.out[0];
  out = {result_dtype(*rec.op, a.dtype), reduced_shape(a.shape(), params.axes, params.keepdims)};
  if (a.size == 0 && (number == MLXC_OP_MIN || number == MLXC_OP_MAX) &&
      checked_size(rec.name(), out.shape.span()) > 0) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": the shape ", shape_text(a.shape()),
         " has no elements to choose from");
  }
  if (rec.op->dtype_rule == DtypeRule::float_) rec.cast_input(0, out.dtype);
}

void vjp_sum(const Vjp& vjp, Array* grads) {
  grads[0] = broadcast_to(restore(vjp.cotangent(), vjp.params_as<Params>()), vjp.inputs[0].shape());
}

void vjp_mean(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<Params>();
  const Array &x = vjp.inputs[0], &g = vjp.cotangent();
  const Array share = cast_to(divide_by_count(g, axes_size(x.shape(), params.axes)), g.dtype());
  grads[0] = broadcast_to(restore(share, params), x.shape());
}

void vjp_prod(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<Params>();
  grads[0] = mul_conj(restore(vjp.cotangent(), params), product_of_others(vjp.inputs[0], params.axes));
}

void jvp_prod(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<Params>();
  const Array terms = op::multiply(jvp.tangents[0], product_of_others(jvp.inputs[0], params.axes));
  out_tangents[0] = op::sum(terms, params.axes, params.keepdims);
}

void vjp_min(const Vjp& vjp, Array* grads) { vjp_extreme(vjp, grads); }
void vjp_max(const Vjp& vjp, Array* grads) { vjp_extreme(vjp, grads); }
void jvp_min(const Jvp& jvp, Array* out_tangents) { jvp_extreme(jvp, out_tangents); }
void jvp_max(const Jvp& jvp, Array* out_tangents) { jvp_extreme(jvp, out_tangents); }

void vjp_logsumexp(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<Params>();
  const Array weights = exp_weights(vjp.inputs[0], vjp.output(), params);
  grads[0] = mul_conj(restore(vjp.cotangent(), params), weights);
}

void jvp_logsumexp(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<Params>();
  const Array weights = exp_weights(jvp.inputs[0], jvp.output(), params);
  out_tangents[0] = op::sum(op::multiply(weights, jvp.tangents[0]), params.axes, params.keepdims);
}

void decompose_mean(const Decomposition& whole, Array* results) {
  const auto& params = whole.params_as<Params>();
  const Array& x = whole.inputs[0];
  const Array total = op::sum(widen(x), params.axes, params.keepdims);
  results[0] = cast_to(divide_by_count(total, axes_size(x.shape(), params.axes)), x.dtype());
}

void decompose_logsumexp(const Decomposition& whole, Array* results) {
  const auto& params = whole.params_as<Params>();
  if (whole.inputs[0].size() == 0 || is_complex(whole.inputs[0].dtype())) return;
  const Array x = widen(whole.inputs[0]);
  const Array largest = op::max(x, params.axes, params.keepdims);
  // What is infinite or NaN comes out of the sum itself.
  const Array base = keep_where(op::isfinite(largest), largest);
  const Array total = op::sum(op::exp(op::subtract(x, restore(base, params))), params.axes, params.keepdims);
  results[0] = cast_to(op::add(op::log(total), base), whole.inputs[0].dtype());
}

}  // namespace mlxc
