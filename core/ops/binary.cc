// Gradient rules of the binary element-wise ops, and divmod's shape rule; the table of ops points here.
// The other shape rules are infer_elementwise in common.cc. The sweep sums gradients down to the inputs.
//
// Rule: a derivative that exists is exact at singular points too (x**0 at 0, equal operands, equal
// infinities). What would be 0/0 or 0 * inf is replaced before the operation, never after it, so that
// second derivatives see no NaN either.
#include <limits>

#include "core/ops/common.h"

namespace mlxc {

namespace {

// Fills the two partial products, each only if asked for: partial(i, g) is the derivative with respect
// to input i times g.
template <class Partial>
void apply_partials(const Vjp& vjp, Array* grads, Partial&& partial) {
  for (int i = 0; i < 2; i++) {
    if (vjp.wants(i)) grads[i] = partial(i, vjp.cotangent());
  }
}

template <class Partial>
Array sum_partials(const Jvp& jvp, const Array& output, Partial&& partial) {
  Array sum;
  for (int i = 0; i < 2; i++) {
    if (jvp.tangents[i]) sum = add_maybe(sum, partial(i, jvp.tangents[i]));
  }
  return match_output(sum, output);
}

double smallest_normal(mlxc_dtype dtype) {
  switch (real_dtype(dtype)) {
    case MLXC_FLOAT16: return 0x1p-14;
    case MLXC_FLOAT64: return std::numeric_limits<double>::min();
    default: return std::numeric_limits<float>::min();
  }
}

// b * a**(b - 1), which for b = 0 is 0 even where a**-1 is infinite.
Array power_slope_of_base(const Array& a, const Array& b) {
  const Array zero = scalar_like(0, a), one = scalar_like(1, a);
  const Array lowered = op::subtract(b, one), flat = op::equal(b, zero);
  // Of a constant exponent, often a 0-d array, the special case costs nothing. One that is differentiated
  // must keep b - 1, so that the mixed derivative is right; there the base gives way.
  if (!b->traced.load(std::memory_order_relaxed)) {
    return op::multiply(b, op::power(a, op::where(flat, zero, lowered)));
  }
  const Array size = op::abs(a);
  const Array tiny = op::less_equal(size, scalar_like(smallest_normal(a.dtype()), size));
  return op::multiply(b, op::power(op::where(op::logical_and(flat, tiny), one, a), lowered));
}

// a**b * log(a), taken as 0 at a = 0.
Array power_slope_of_exponent(const Array& a, const Array& y) {
  const Array nonzero = op::not_equal(a, scalar_like(0, a));
  return op::multiply(keep_where(nonzero, y), op::log(op::where(nonzero, a, scalar_like(1, a))));
}

Array power_partial(int i, const Array& a, const Array& b, const Array& y, const Array& g, bool conjugated) {
  const Array slope = i == 0 ? power_slope_of_base(a, b) : power_slope_of_exponent(a, y);
  return op::multiply(g, conjugated ? conj(slope) : slope);
}

// The operand that is the result gets g; equal ones (and operands that a NaN makes incomparable) half
// each, so that nothing of g is lost.
Array select_partial(int i, const Array& a, const Array& b, const Array& g, bool greater_wins) {
  const Array wins = (i == 0) == greater_wins ? op::greater(a, b) : op::less(a, b);
  const Array loses = (i == 0) == greater_wins ? op::less(a, b) : op::greater(a, b);
  const Array half = op::multiply(g, scalar_like(0.5, g));
  return op::where(wins, g, op::where(loses, scalar_like(0, g), half));
}

// exp(a) / (exp(a) + exp(b)) is a sigmoid of the difference; equal infinities differ by 0, not NaN.
Array logaddexp_partial(int i, const Array& a, const Array& b, const Array& g, bool conjugated) {
  const Array equal_infinities = op::logical_and(op::isinf(a), op::equal(a, b));
  const Array zero = scalar_like(0, a);
  const Array x = op::where(equal_infinities, zero, a), y = op::where(equal_infinities, zero, b);
  const Array difference = i == 0 ? op::subtract(x, y) : op::subtract(y, x);
  if (!is_complex(a.dtype())) return op::multiply(g, op::sigmoid(difference));
  const Array factor = op::exp(op::negative(op::logaddexp(zero, op::negative(difference))));
  return op::multiply(g, conjugated ? conj(factor) : factor);
}

// The gradient of the length of (a, b) is the unit vector; 0 at the origin.
Array unit_vector(const Array& part, const Array& length) {
  const Array origin = op::equal(length, scalar_like(0, length));
  return op::divide(part, op::where(origin, scalar_like(1, length), length));
}

// Dividing twice by the length keeps the square of a small or large length out of it.
Array arctan2_partial(int i, const Array& a, const Array& b, const Array& g) {
  const Array length = op::hypot(a, b);
  const Array origin = op::equal(length, scalar_like(0, length));
  const Array divisor = op::where(origin, scalar_like(1, length), length);
  const Array turn = op::divide(op::divide(i == 0 ? b : a, divisor), divisor);
  return op::multiply(g, i == 0 ? turn : op::negative(turn));
}

Array copysign_partial(const Array& a, const Array& b, const Array& g) {
  return op::where(op::equal(op::signbit(a), op::signbit(b)), g, op::negative(g));
}

// a - floor(a / b) * b; the quotient is constant almost everywhere.
Array remainder_partial(int i, const Array& a, const Array& b, const Array& g) {
  return i == 0 ? g : op::negative(op::multiply(g, op::floor_divide(a, b)));
}

}  // namespace

void infer_divmod(Recording& rec) {
  infer_elementwise(rec);
  rec.out[1] = rec.out[0];
}

void vjp_add(const Vjp& vjp, Array* grads) {
  apply_partials(vjp, grads, [](int, const Array& g) { return g; });
}

void jvp_add(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = sum_partials(jvp, jvp.output(), [](int, const Array& t) { return t; });
}

void vjp_subtract(const Vjp& vjp, Array* grads) {
  apply_partials(vjp, grads, [](int i, const Array& g) { return i == 0 ? g : op::negative(g); });
}

void jvp_subtract(const Jvp& jvp, Array* out_tangents) {
  const Array &a = jvp.tangents[0], &b = jvp.tangents[1];
  const Array tangent = !b ? a : !a ? op::negative(b) : op::subtract(a, b);
  out_tangents[0] = match_output(tangent, jvp.output());
}

void vjp_multiply(const Vjp& vjp, Array* grads) {
  apply_partials(vjp, grads, [&](int i, const Array& g) { return mul_conj(g, vjp.inputs[1 - i]); });
}

void jvp_multiply(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = sum_partials(jvp, jvp.output(),
                                 [&](int i, const Array& t) { return op::multiply(t, jvp.inputs[1 - i]); });
}

void vjp_divide(const Vjp& vjp, Array* grads) {
  const Array &b = vjp.inputs[1], &y = vjp.output();
  const Array quotient = op::divide(vjp.cotangent(), conj(b));
  if (vjp.wants(0)) grads[0] = quotient;
  if (vjp.wants(1)) grads[1] = op::negative(mul_conj(quotient, y));
}

void jvp_divide(const Jvp& jvp, Array* out_tangents) {
  const Array &b = jvp.inputs[1], &y = jvp.output();
  out_tangents[0] = sum_partials(jvp, y, [&](int i, const Array& t) {
    return i == 0 ? op::divide(t, b) : op::negative(op::multiply(y, op::divide(t, b)));
  });
}

void vjp_power(const Vjp& vjp, Array* grads) {
  apply_partials(vjp, grads, [&](int i, const Array& g) {
    return power_partial(i, vjp.inputs[0], vjp.inputs[1], vjp.output(), g, true);
  });
}

void jvp_power(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = sum_partials(jvp, jvp.output(), [&](int i, const Array& t) {
    return power_partial(i, jvp.inputs[0], jvp.inputs[1], jvp.output(), t, false);
  });
}

void vjp_maximum(const Vjp& vjp, Array* grads) {
  apply_partials(vjp, grads, [&](int i, const Array& g) {
    return select_partial(i, vjp.inputs[0], vjp.inputs[1], g, true);
  });
}

void jvp_maximum(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = sum_partials(jvp, jvp.output(), [&](int i, const Array& t) {
    return select_partial(i, jvp.inputs[0], jvp.inputs[1], t, true);
  });
}

void vjp_minimum(const Vjp& vjp, Array* grads) {
  apply_partials(vjp, grads, [&](int i, const Array& g) {
    return select_partial(i, vjp.inputs[0], vjp.inputs[1], g, false);
  });
}

void jvp_minimum(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = sum_partials(jvp, jvp.output(), [&](int i, const Array& t) {
    return select_partial(i, jvp.inputs[0], jvp.inputs[1], t, false);
  });
}

void vjp_logaddexp(const Vjp& vjp, Array* grads) {
  apply_partials(vjp, grads, [&](int i, const Array& g) {
    return logaddexp_partial(i, vjp.inputs[0], vjp.inputs[1], g, true);
  });
}

void jvp_logaddexp(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = sum_partials(jvp, jvp.output(), [&](int i, const Array& t) {
    return logaddexp_partial(i, jvp.inputs[0], jvp.inputs[1], t, false);
  });
}

void vjp_arctan2(const Vjp& vjp, Array* grads) {
  apply_partials(vjp, grads,
                 [&](int i, const Array& g) { return arctan2_partial(i, vjp.inputs[0], vjp.inputs[1], g); });
}

void jvp_arctan2(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = sum_partials(jvp, jvp.output(), [&](int i, const Array& t) {
    return arctan2_partial(i, jvp.inputs[0], jvp.inputs[1], t);
  });
}

void vjp_hypot(const Vjp& vjp, Array* grads) {
  apply_partials(vjp, grads, [&](int i, const Array& g) {
    return op::multiply(g, unit_vector(vjp.inputs[i], vjp.output()));
  });
}

void jvp_hypot(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = sum_partials(jvp, jvp.output(), [&](int i, const Array& t) {
    return op::multiply(t, unit_vector(jvp.inputs[i], jvp.output()));
  });
}

// The sign that b lends has no slope.
void vjp_copysign(const Vjp& vjp, Array* grads) {
  if (vjp.wants(0)) grads[0] = copysign_partial(vjp.inputs[0], vjp.inputs[1], vjp.cotangent());
}

void jvp_copysign(const Jvp& jvp, Array* out_tangents) {
  const Array& t = jvp.tangents[0];
  if (t) out_tangents[0] = match_output(copysign_partial(jvp.inputs[0], jvp.inputs[1], t), jvp.output());
}

void vjp_remainder(const Vjp& vjp, Array* grads) {
  apply_partials(vjp, grads, [&](int i, const Array& g) {
    return remainder_partial(i, vjp.inputs[0], vjp.inputs[1], g);
  });
}

void jvp_remainder(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = sum_partials(jvp, jvp.output(), [&](int i, const Array& t) {
    return remainder_partial(i, jvp.inputs[0], jvp.inputs[1], t);
  });
}

// Only the remainder has a slope.
void vjp_divmod(const Vjp& vjp, Array* grads) {
  const Array& g = vjp.cotangents[1];
  if (!g) return;
  for (int i = 0; i < 2; i++) {
    if (vjp.wants(i)) grads[i] = remainder_partial(i, vjp.inputs[0], vjp.inputs[1], g);
  }
}

void jvp_divmod(const Jvp& jvp, Array* out_tangents) {
  out_tangents[1] = sum_partials(jvp, jvp.outputs[1], [&](int i, const Array& t) {
    return remainder_partial(i, jvp.inputs[0], jvp.inputs[1], t);
  });
}

void decompose_subtract(const Decomposition& whole, Array* results) {
  const Array &a = whole.inputs[0], &b = whole.inputs[1];
  if (b.dtype() != MLXC_BOOL) results[0] = op::add(a, op::negative(b));
}

}  // namespace mlxc
