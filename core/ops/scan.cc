// Rules of the running sums, products, maxima and minima along an axis; the four share one layout of
// parameters. Gradients are made of scans, slices and pads, so they can be differentiated again.
//
// Rule: nothing divides by an element, so any number of zeros is right; a running maximum or minimum
// passes its gradient to the first element that reached it.
#include <cstddef>
#include <type_traits>

#include "core/ops/common.h"

namespace mlxc {

namespace {

using Params = mlxc_cumsum_params;

template <class P>
constexpr bool same_layout =
    std::is_standard_layout_v<P> && sizeof(P) == sizeof(Params) &&
    offsetof(P, axis) == offsetof(Params, axis) && offsetof(P, reverse) == offsetof(Params, reverse) &&
    offsetof(P, inclusive) == offsetof(Params, inclusive);
static_assert(same_layout<mlxc_cumprod_params> && same_layout<mlxc_cummax_params> &&
              same_layout<mlxc_cummin_params>);

// Moves every element `by` places along the axis, to the front where by < 0; zeros come in.
Array shift(const Array& a, int axis, int64_t by) {
  const int64_t length = a.dim(axis), distance = by < 0 ? -by : by;
  if (distance >= length) return zeros_like(a);
  Sizes low{}, high{};
  low.count = high.count = a.ndim();
  (by < 0 ? high : low).items[axis] = distance;
  return op::pad(slice_axis(a, axis, by < 0 ? distance : 0, length - distance), scalar_like(0, a), low, high);
}

// Solves s[k] = b[k] + a[k] * s[k - 1], or k + 1 if reverse, with s zero outside: each round joins a
// window with the one before it, so that log2(length) rounds do and nothing is divided.
Array solve_recurrence(Array a, Array b, int axis, bool reverse) {
  const int64_t length = b.dim(axis);
  for (int64_t window = 1; window < length; window *= 2) {
    const int64_t by = reverse ? -window : window;
    b = op::add(b, op::multiply(a, shift(b, axis, by)));
    if (2 * window < length) a = op::multiply(a, shift(a, axis, by));
  }
  return b;
}

// dy[i] = x[i] * dy[i - 1] + t[i] * (product before i)
Array cumprod_tangent(const Array& x, const Array& t, const Params& p) {
  const Array before = op::cumprod(x, p.axis, p.reverse, false);
  const Array tangent = solve_recurrence(x, op::multiply(t, before), p.axis, p.reverse);
  return p.inclusive ? tangent : shift(tangent, p.axis, p.reverse ? -1 : 1);
}

// Every later output holds x[k] once: grad[k] = (product before k) * s[k] with s[k] = g[k] + x[k + 1] *
// s[k + 1], or with g[k + 1] in an exclusive product.
Array cumprod_gradient(const Array& x, const Array& g, const Params& p) {
  const int to_earlier = p.reverse ? 1 : -1;
  const Array factors = conj(x);
  const Array before = op::cumprod(factors, p.axis, p.reverse, false);
  const Array next = shift(factors, p.axis, to_earlier);
  const Array start = p.inclusive ? g : shift(g, p.axis, to_earlier);
  return op::multiply(before, solve_recurrence(next, start, p.axis, !p.reverse));
}

// For each place the index of the element that its running extreme (inclusive) comes from: the last
// place so far at which the extreme changed.
Array winner_indices(int op, const Array& x, const Params& p) {
  const Array y =
      op == MLXC_OP_CUMMAX ? op::cummax(x, p.axis, p.reverse, true) : op::cummin(x, p.axis, p.reverse, true);
  const int64_t length = x.dim(p.axis);
  const mlxc_dtype index = length <= INT32_MAX ? MLXC_INT32 : MLXC_INT64;
  const Array first = slice_axis(y, p.axis, p.reverse ? length - 1 : 0, 1);
  const Array others = slice_axis(y, p.axis, p.reverse ? 1 : 0, length - 1);
  const Array ordered[] = {p.reverse ? others : first, p.reverse ? first : others};
  const Array before = op::concatenate(ordered, p.axis);
  const Array stays = op::logical_or(op::equal(y, before), op::isnan(before));
  const Array places = iota(length, p.axis, x.ndim(), index);
  if (!p.reverse) return op::cummax(op::where(stays, scalar(0, index), places), p.axis, false, true);
  const Array last = scalar(static_cast<double>(length - 1), index);
  return op::cummin(op::where(stays, last, places), p.axis, true, true);
}

void vjp_extreme(const Vjp& vjp, Array* grads) {
  const auto& p = vjp.params_as<Params>();
  const Array& x = vjp.inputs[0];
  if (x.size() == 0) return;
  Array g = widen(vjp.cotangent());  // a long sum of float16 ones would stop at 2048
  if (!p.inclusive) g = shift(g, p.axis, p.reverse ? 1 : -1);
  const Array winners = winner_indices(vjp.op->number, x, p);
  constexpr int mode_add = 1;
  grads[0] = op::scatter_axis(zeros_like(g), winners, g, p.axis, mode_add);
}

void jvp_extreme(const Jvp& jvp, Array* out_tangents) {
  const auto& p = jvp.params_as<Params>();
  const Array& x = jvp.inputs[0];
  if (x.size() == 0) return;
  const Array tangent = op::gather_axis(jvp.tangents[0], winner_indices(jvp.op->number, x, p), p.axis);
  out_tangents[0] = p.inclusive ? tangent : shift(tangent, p.axis, p.reverse ? -1 : 1);
}

}  // namespace

void infer_scan(Recording& rec) {
  auto& params = rec.params_as<Params>();
  const Node& a = rec.input(0);
  check_accepts(*rec.op, a.dtype);
  params.axis = normalize_axis(rec.name(), params.axis, a.ndim);
  const mlxc_dtype dtype = result_dtype(*rec.op, a.dtype);
  rec.out[0] = {dtype, Dims(a.shape())};
  rec.cast_input(0, dtype);
}

// Running the other way adds up what each element went into.
void vjp_cumsum(const Vjp& vjp, Array* grads) {
  const auto& p = vjp.params_as<Params>();
  grads[0] = op::cumsum(vjp.cotangent(), p.axis, !p.reverse, p.inclusive);
}

void vjp_cumprod(const Vjp& vjp, Array* grads) {
  grads[0] = cumprod_gradient(vjp.inputs[0], vjp.cotangent(), vjp.params_as<Params>());
}

void jvp_cumprod(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = cumprod_tangent(jvp.inputs[0], jvp.tangents[0], jvp.params_as<Params>());
}

void vjp_cummax(const Vjp& vjp, Array* grads) { vjp_extreme(vjp, grads); }
void vjp_cummin(const Vjp& vjp, Array* grads) { vjp_extreme(vjp, grads); }
void jvp_cummax(const Jvp& jvp, Array* out_tangents) { jvp_extreme(jvp, out_tangents); }
void jvp_cummin(const Jvp& jvp, Array* out_tangents) { jvp_extreme(jvp, out_tangents); }

}  // namespace mlxc
