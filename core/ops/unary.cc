// Gradient rules of the unary element-wise ops; the table of ops points here. Their shape rule is
// infer_elementwise in common.cc.
//
// Rule: a holomorphic op states its derivative once, in derivative(); a cotangent is multiplied by its
// conjugate and a tangent by itself. abs, real and imag are not holomorphic and have rules of their own.
#include <cmath>
#include <numbers>

#include "core/ops/common.h"

namespace mlxc {

namespace {

Array scaled(const Array& a, double factor) { return op::multiply(a, scalar_like(factor, a)); }
Array one_plus(const Array& a) { return op::add(a, scalar_like(1, a)); }
Array one_minus(const Array& a) { return op::subtract(scalar_like(1, a), a); }
// 1 - x * x, without the cancellation near -1 and 1.
Array one_minus_square(const Array& x) { return op::multiply(one_minus(x), one_plus(x)); }

// The derivative is `value`, or one over it where that form is exact and cheaper.
struct Derivative {
  Array value;
  bool inverse = false;
};

Derivative derivative(int op, const Array& x, const Array& y) {
  switch (op) {
    case MLXC_OP_SQUARE: return {scaled(x, 2)};
    case MLXC_OP_RSQRT: return {op::divide(scaled(y, -0.5), x)};
    case MLXC_OP_RECIPROCAL: return {op::negative(op::square(y))};
    case MLXC_OP_EXP: return {y};
    case MLXC_OP_EXPM1: return {op::exp(x)};  // y + 1 would cancel for x far below zero
    case MLXC_OP_LOG: return {x, true};
    case MLXC_OP_LOG2: return {scaled(x, std::numbers::ln2), true};
    case MLXC_OP_LOG10: return {scaled(x, std::numbers::ln10), true};
    case MLXC_OP_LOG1P: return {one_plus(x), true};
    case MLXC_OP_SIN: return {op::cos(x)};
    case MLXC_OP_COS: return {op::negative(op::sin(x))};
    case MLXC_OP_TAN: return {one_plus(op::square(y))};
    case MLXC_OP_ARCSIN: return {op::sqrt(one_minus_square(x)), true};
    case MLXC_OP_ARCCOS: return {op::negative(op::sqrt(one_minus_square(x))), true};
    case MLXC_OP_ARCTAN:
      return {one_plus(op::square(widen(x))), true};  // the square passes float16's range at 256
    case MLXC_OP_SINH: return {op::cosh(x)};
    case MLXC_OP_COSH: return {op::sinh(x)};
    case MLXC_OP_TANH: return {one_minus(op::square(y))};
    case MLXC_OP_ARCSINH:
      if (is_complex(x.dtype())) return {op::sqrt(one_plus(op::square(x))), true};
      return {op::hypot(x, scalar_like(1, x)), true};
    case MLXC_OP_ARCCOSH: {
      const Array one = scalar_like(1, x);
      return {op::multiply(op::sqrt(op::subtract(x, one)), op::sqrt(op::add(x, one))), true};
    }
    case MLXC_OP_ARCTANH: return {one_minus_square(x), true};
    case MLXC_OP_SIGMOID: return {op::multiply(y, one_minus(y))};
    case MLXC_OP_ERF: return {scaled(op::exp(op::negative(op::square(x))), 2 * std::numbers::inv_sqrtpi)};
    case MLXC_OP_ERFINV: return {scaled(op::exp(op::square(y)), 0.5 / std::numbers::inv_sqrtpi)};
    default: fail(MLXC_ERROR_RUNTIME, op_table[op].name, " has no derivative rule");
  }
}

// sqrt has an infinite slope at 0, but what does not depend on it (a zero cotangent, as from norm(x)**2
// at 0) must stay zero. The divisor is replaced before dividing, so that second derivatives see no 0/0.
Array times_sqrt_derivative(const Array& y, const Array& g, bool conjugated) {
  const Array zero = scalar_like(0, y);
  const Array harmless = op::logical_and(op::equal(y, zero), op::equal(g, scalar_like(0, g)));
  const Array divisor = scaled(op::where(harmless, scalar_like(1, y), y), 2);
  return op::divide(g, conjugated ? conj(divisor) : divisor);
}

// z / |z|, 0 at 0. Made of ops with derivatives, unlike sign.
Array direction(const Array& z, const Array& modulus) {
  const Array nonzero = op::not_equal(modulus, scalar_like(0, modulus));
  return op::divide(z, op::where(nonzero, modulus, scalar_like(1, modulus)));
}

void apply_derivative(const Vjp& vjp, Array* grads) {
  grads[0] = times_derivative(vjp.op->number, vjp.inputs[0], vjp.output(), vjp.cotangent(), true);
}

}  // namespace

Array times_derivative(int op, const Array& x, const Array& y, const Array& g, bool conjugated) {
  if (op == MLXC_OP_SQRT) return times_sqrt_derivative(y, g, conjugated);
  const Derivative d = derivative(op, x, y);
  const Array factor = conjugated ? conj(d.value) : d.value;
  return d.inverse ? op::divide(g, factor) : op::multiply(g, factor);
}

void vjp_abs(const Vjp& vjp, Array* grads) {
  const Array& x = vjp.inputs[0];
  const Array slope = is_complex(x.dtype()) ? direction(x, vjp.output()) : op::sign(x);
  grads[0] = op::multiply(vjp.cotangent(), slope);
}

void jvp_elementwise(const Jvp& jvp, Array* out_tangents) {
  const Array &x = jvp.inputs[0], &y = jvp.output(), &t = jvp.tangents[0];
  if (jvp.op->number != MLXC_OP_ABS) {
    out_tangents[0] = times_derivative(jvp.op->number, x, y, t, false);
  } else if (is_complex(x.dtype())) {
    out_tangents[0] = op::real(mul_conj(t, direction(x, y)));
  } else {
    out_tangents[0] = op::multiply(t, op::sign(x));
  }
}

void vjp_negative(const Vjp& vjp, Array* grads) { grads[0] = op::negative(vjp.cotangent()); }

void vjp_conjugate(const Vjp& vjp, Array* grads) { grads[0] = conj(vjp.cotangent()); }

void jvp_conjugate(const Jvp& jvp, Array* out_tangents) { out_tangents[0] = conj(jvp.tangents[0]); }

void vjp_real(const Vjp& vjp, Array* grads) { grads[0] = cast_to(vjp.cotangent(), vjp.inputs[0].dtype()); }

void vjp_imag(const Vjp& vjp, Array* grads) {
  const mlxc_dtype dtype = vjp.inputs[0].dtype();
  if (!is_complex(dtype)) return;  // the imaginary part of a real array is constant
  const Array i = op::sqrt(scalar(-1, dtype));
  grads[0] = op::multiply(cast_to(vjp.cotangent(), dtype), i);
}

void vjp_square(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_sqrt(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_rsqrt(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_reciprocal(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_exp(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_expm1(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_log(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_log2(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_log10(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_log1p(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_sin(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_cos(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_tan(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_arcsin(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_arccos(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_arctan(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_sinh(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_cosh(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_tanh(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_arcsinh(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_arccosh(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_arctanh(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_sigmoid(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_erf(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }
void vjp_erfinv(const Vjp& vjp, Array* grads) { apply_derivative(vjp, grads); }

void decompose_square(const Decomposition& whole, Array* results) {
  results[0] = op::multiply(whole.inputs[0], whole.inputs[0]);
}

void decompose_negative(const Decomposition& whole, Array* results) {
  const Array& a = whole.inputs[0];
  // -1 times a complex infinity has a NaN in it, and unsigned types have no -1.
  if (is_complex(a.dtype()) || is_unsigned(a.dtype())) return;
  results[0] = op::multiply(a, scalar_like(-1, a));
}

void decompose_reciprocal(const Decomposition& whole, Array* results) {
  results[0] = op::divide(scalar_like(1, whole.inputs[0]), whole.inputs[0]);
}

void decompose_rsqrt(const Decomposition& whole, Array* results) {
  results[0] = op::reciprocal(op::sqrt(whole.inputs[0]));
}

void decompose_isfinite(const Decomposition& whole, Array* results) {
  const Array& a = whole.inputs[0];
  results[0] = op::logical_not(op::logical_or(op::isnan(a), op::isinf(a)));
}

}  // namespace mlxc
