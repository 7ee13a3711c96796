/* Complex elementary functions (see complex_math.h), on top of the C library's.
 *
 * C99's special values hold where the C library has the function. What it lacks (expm1, log1p, log2, log10,
 * reciprocals) is written so that neither overflow in the middle nor cancellation near zero costs digits.
 */
#include "complex_math.h"

#include <cmath>
#include <complex>
#include <limits>

#include "mlxc/backend.h"
#include "mlxc/ops.h"

namespace mlxc_cpu {
namespace {

using C = std::complex<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/* Smith's division: no overflow in the middle. A zero divisor gives what component-wise division gives. */
C divide(C a, C b) {
  double ar = a.real(), ai = a.imag(), br = b.real(), bi = b.imag();
  double abs_r = std::fabs(br), abs_i = std::fabs(bi);
  if (abs_r >= abs_i) {
    if (abs_r == 0.0) return C(ar / abs_r, ai / abs_r);
    double ratio = bi / br;
    double scale = 1.0 / (br + bi * ratio);
    return C((ar + ai * ratio) * scale, (ai - ar * ratio) * scale);
  }
  double ratio = br / bi;
  double scale = 1.0 / (bi + br * ratio);
  return C((ar * ratio + ai) * scale, (ai * ratio - ar) * scale);
}

C reciprocal(C a) {
  if (std::isinf(a.real()) || std::isinf(a.imag())) {
    return C(std::copysign(0.0, a.real()), std::copysign(0.0, -a.imag()));
  }
  return divide(C(1.0, 0.0), a);
}

C expm1(C a) {
  if (a.imag() == 0.0) return C(std::expm1(a.real()), a.imag());
  double s = std::sin(0.5 * a.imag());
  double e = std::expm1(a.real());
  if (!std::isfinite(e)) return std::exp(a) - C(1.0, 0.0);
  /* e^x cos y - 1 = expm1(x) cos y - 2 sin^2(y / 2) */
  return C(e * std::cos(a.imag()) - 2.0 * s * s, (e + 1.0) * std::sin(a.imag()));
}

C log1p(C a) {
  double x = a.real(), y = a.imag();
  if (std::fabs(x) > 0.5 || std::fabs(y) > 0.5) return std::log(C(1.0 + x, y));
  /* |1 + a|^2 - 1 = 2x + x^2 + y^2, its rounding errors kept: the sum may nearly vanish */
  double xx = x * x, xx_low = std::fma(x, x, -xx);
  double yy = y * y, yy_low = std::fma(y, y, -yy);
  double sum = 2.0 * x + yy;
  double part = sum - 2.0 * x;
  double low = (2.0 * x - (sum - part)) + (yy - part);
  double total = sum + xx;
  part = total - sum;
  low += (sum - (total - part)) + (xx - part);
  return C(0.5 * std::log1p(total + (low + xx_low + yy_low)), std::atan2(y, 1.0 + x));
}

C sign(C a) {
  double modulus = std::hypot(a.real(), a.imag());
  if (modulus == 0.0) return C(0.0, 0.0);
  if (std::isinf(modulus) || modulus < std::numeric_limits<double>::min()) {
    double scale = std::isinf(modulus) ? 0x1p-2 : 0x1p600;
    double re = a.real() * scale, im = a.imag() * scale;
    if (std::isinf(re) || std::isinf(im)) {
      re = std::isinf(re) ? std::copysign(1.0, re) : 0.0;
      im = std::isinf(im) ? std::copysign(1.0, im) : 0.0;
    }
    modulus = std::hypot(re, im);
    return C(re / modulus, im / modulus);
  }
  return C(a.real() / modulus, a.imag() / modulus);
}

/* a^n by repeated squaring */
C power_integer(C a, int64_t n) {
  bool inverse = n < 0;
  uint64_t k = inverse ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  C result(1.0, 0.0);
  C factor = a;
  while (k != 0) {
    if (k & 1) {
      result = C(result.real() * factor.real() - result.imag() * factor.imag(),
                 result.real() * factor.imag() + result.imag() * factor.real());
    }
    k >>= 1;
    if (k != 0) {
      factor = C(factor.real() * factor.real() - factor.imag() * factor.imag(),
                 2.0 * factor.real() * factor.imag());
    }
  }
  return inverse ? divide(C(1.0, 0.0), result) : result;
}

C power(C a, C b) {
  if (b.real() == 0.0 && b.imag() == 0.0) return C(1.0, 0.0);
  if (a.real() == 0.0 && a.imag() == 0.0) {
    if (b.real() > 0.0) return C(0.0, 0.0);
    double nan = std::numeric_limits<double>::quiet_NaN();
    return b.imag() == 0.0 && b.real() < 0.0 ? C(kInfinity, nan) : C(nan, nan);
  }
  if (b.imag() == 0.0 && std::fabs(b.real()) <= 64.0 && b.real() == std::trunc(b.real())) {
    return power_integer(a, static_cast<int64_t>(b.real()));
  }
  if (a.imag() == 0.0 && a.real() > 0.0 && b.imag() == 0.0) return C(std::pow(a.real(), b.real()), 0.0);
  return std::pow(a, b);
}

C logaddexp(C a, C b) {
  if (a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag())) {
    C swap = a;
    a = b;
    b = swap;
  }
  if (a.real() == -kInfinity) return C(-kInfinity, 0.0);
  C result = a + log1p(std::exp(b - a));
  /* back to the principal branch */
  constexpr double two_pi = 6.283185307179586477;
  double angle = result.imag();
  return std::fabs(angle) > 0.5 * two_pi ? C(result.real(), std::remainder(angle, two_pi)) : result;
}

template <class F>
void map(const double* a, double* result, int64_t n, const F& fn) {
  for (int64_t i = 0; i < n; i++) {
    C value = fn(C(a[2 * i], a[2 * i + 1]));
    result[2 * i] = value.real();
    result[2 * i + 1] = value.imag();
  }
}

template <class F>
void map(const double* a, const double* b, double* result, int64_t n, const F& fn) {
  for (int64_t i = 0; i < n; i++) {
    C value = fn(C(a[2 * i], a[2 * i + 1]), C(b[2 * i], b[2 * i + 1]));
    result[2 * i] = value.real();
    result[2 * i + 1] = value.imag();
  }
}

}  // namespace

void complex_unary(int32_t op, const double* a, double* result, int64_t n) {
  constexpr double log2_e = 1.442695040888963407;
  constexpr double log10_e = 0.434294481903251828;
  switch (op) {
    case MLXC_OP_SIGN: map(a, result, n, sign); break;
    case MLXC_OP_SQRT: map(a, result, n, [](C x) { return std::sqrt(x); }); break;
    case MLXC_OP_RSQRT: map(a, result, n, [](C x) { return reciprocal(std::sqrt(x)); }); break;
    case MLXC_OP_RECIPROCAL: map(a, result, n, reciprocal); break;
    case MLXC_OP_EXP: map(a, result, n, [](C x) { return std::exp(x); }); break;
    case MLXC_OP_EXPM1: map(a, result, n, expm1); break;
    case MLXC_OP_LOG: map(a, result, n, [](C x) { return std::log(x); }); break;
    case MLXC_OP_LOG2:
      map(a, result, n, [](C x) {
        C value = std::log(x);
        return C(value.real() * log2_e, value.imag() * log2_e);
      });
      break;
    case MLXC_OP_LOG10:
      map(a, result, n, [](C x) {
        C value = std::log(x);
        return C(value.real() * log10_e, value.imag() * log10_e);
      });
      break;
    case MLXC_OP_LOG1P: map(a, result, n, log1p); break;
    case MLXC_OP_SIN: map(a, result, n, [](C x) { return std::sin(x); }); break;
    case MLXC_OP_COS: map(a, result, n, [](C x) { return std::cos(x); }); break;
    case MLXC_OP_TAN: map(a, result, n, [](C x) { return std::tan(x); }); break;
    case MLXC_OP_ARCSIN: map(a, result, n, [](C x) { return std::asin(x); }); break;
    case MLXC_OP_ARCCOS: map(a, result, n, [](C x) { return std::acos(x); }); break;
    case MLXC_OP_ARCTAN: map(a, result, n, [](C x) { return std::atan(x); }); break;
    case MLXC_OP_SINH: map(a, result, n, [](C x) { return std::sinh(x); }); break;
    case MLXC_OP_COSH: map(a, result, n, [](C x) { return std::cosh(x); }); break;
    case MLXC_OP_TANH: map(a, result, n, [](C x) { return std::tanh(x); }); break;
    case MLXC_OP_ARCSINH: map(a, result, n, [](C x) { return std::asinh(x); }); break;
    case MLXC_OP_ARCCOSH: map(a, result, n, [](C x) { return std::acosh(x); }); break;
    case MLXC_OP_ARCTANH: map(a, result, n, [](C x) { return std::atanh(x); }); break;
    default: break;
  }
}

void complex_binary(int32_t op, const double* a, const double* b, double* result, int64_t n) {
  switch (op) {
    case MLXC_OP_DIVIDE: map(a, b, result, n, divide); break;
    case MLXC_OP_POWER: map(a, b, result, n, power); break;
    case MLXC_OP_LOGADDEXP: map(a, b, result, n, logaddexp); break;
    default: break;
  }
}

}  // namespace mlxc_cpu
