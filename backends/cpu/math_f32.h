/* Elementary functions of float32 without branches, so that loops over them vectorise.
 *
 * Used by unary, binary, reduce and softmax kernels. Each is right to 4 ulp over the whole range (most to 1),
 * with NaN, infinities, signed zeros and subnormals as C99 has them. Where float32 would lose digits the
 * work is done in double: then only the last rounding counts, and no input can overflow. The polynomials are
 * Chebyshev interpolants of our own; the interval stands beside each.
 */
#ifndef MLXC_CPU_MATH_F32_H
#define MLXC_CPU_MATH_F32_H

#include <limits>

#include "half.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace math {

constexpr float kInf32 = std::numeric_limits<float>::infinity();
constexpr float kNan32 = std::numeric_limits<float>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 3.141592653589793238;
constexpr double kLn2 = 0.693147180559945309;

MLXC_INLINE float fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

MLXC_INLINE double fma(double a, double b, double c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

template <class T>
MLXC_INLINE T polynomial(T, T c0) {
  return c0;
}
/* c0 + c1 x + c2 x^2 + ... */
template <class T, class... Rest>
MLXC_INLINE T polynomial(T x, T c0, Rest... rest) {
  return fma(polynomial(x, static_cast<T>(rest)...), x, c0);
}

/* ---- cores in double ---- */

/* (exp(r) - 1) / r on +-ln2/2, relative 9e-14 */
MLXC_INLINE double expm1_ratio(double r) {
  return polynomial(r, 1.0, 0.49999999999797773, 0.16666666666648289, 0.041666666891091698,
                    0.0083333333537293965, 0.0013888821650717691, 0.00019841208732536384,
                    2.4876178959085513e-05, 2.762511557828763e-06);
}

/* Splits x = n ln2 + r; gives 2^n and exp(r) - 1. x is clamped to what float32 can tell apart. */
MLXC_INLINE void split_exp(double x, double* scale, double* rest) {
  constexpr double magic = 0x1.8p52;
  x = x > 300.0 ? 300.0 : x;
  x = x < -300.0 ? -300.0 : x;
  double shifted = fma(x, 1.442695040888963407, magic);
  double n = shifted - magic;
  double r = fma(n, -0x1.62e42feep-1, x);
  r = fma(n, -0x1.a39ef35793c76p-33, r);
  *scale = bit_cast<double>((bit_cast<uint64_t>(shifted) << 52) + UINT64_C(0x3ff0000000000000));
  *rest = r * expm1_ratio(r);
}

MLXC_INLINE double exp_core(double x) {
  double scale, rest;
  split_exp(x, &scale, &rest);
  return fma(scale, rest, scale);
}

MLXC_INLINE double expm1_core(double x) {
  double scale, rest;
  split_exp(x, &scale, &rest);
  return fma(scale, rest, scale - 1.0);
}

/* atanh(s) / s as a polynomial of s^2 on |s| <= 0.1716, relative 3e-14 */
MLXC_INLINE double atanh_ratio(double z) {
  return polynomial(z, 0.99999999999997358, 0.33333333339792687, 0.19999997444944062, 0.14286083178731132,
                    0.1108712033042699, 0.0980411768939395);
}

/* x = 2^e m with m in [sqrt(1/2), sqrt(2)), for x positive, finite and not subnormal. */
MLXC_INLINE void split_log(double x, double* e, double* m) {
  constexpr uint64_t middle = UINT64_C(0x3fe6a09e667f3bcd);
  uint64_t shifted = bit_cast<uint64_t>(x) - middle + (UINT64_C(1023) << 52);
  *e = bit_cast<double>((shifted >> 52) | UINT64_C(0x4330000000000000)) - (0x1p52 + 1023.0);
  *m = bit_cast<double>((shifted & UINT64_C(0xfffffffffffff)) + middle);
}

MLXC_INLINE double log_positive(double x) {
  double e, m;
  split_log(x, &e, &m);
  double s = (m - 1.0) / (m + 1.0);
  return fma(e, kLn2, 2.0 * s * atanh_ratio(s * s));
}

/* log of a double that came from float32 arithmetic: 0, negative, inf and NaN as C99. */
MLXC_INLINE double log_core(double x) {
  double result = log_positive(x);
  result = x == kInf ? kInf : result;
  result = x == 0.0 ? -kInf : result;
  return x >= 0.0 ? result : kNan;
}

MLXC_INLINE double log1p_core(double x) {
  double e, m;
  split_log(1.0 + x, &e, &m);
  bool small = __builtin_fabs(x) < 0.25;
  double numerator = small ? x : m - 1.0;
  double denominator = small ? 2.0 + x : m + 1.0;
  double s = numerator / denominator;
  double result = fma(small ? 0.0 : e, kLn2, 2.0 * s * atanh_ratio(s * s));
  result = x == kInf ? kInf : result;
  result = x == -1.0 ? -kInf : result;
  result = x == 0.0 ? x : result;
  return x >= -1.0 ? result : kNan;
}

/* atan(y / x) for y, x >= 0; atan(t) / t as a polynomial of t^2 on t <= tan(pi / 8), relative 3e-14 */
MLXC_INLINE double atan_ratio(double y, double x) {
  bool swapped = y > x;
  double a = swapped ? x : y;
  double b = swapped ? y : x;
  bool middle = a > 0.41421356237309503 * b;
  double numerator = middle ? a - b : a;
  double denominator = middle ? a + b : b;
  denominator = denominator == 0.0 ? 1.0 : denominator;
  double t = numerator / denominator;
  double p = polynomial(t * t, 0.99999999999997324, -0.33333333330802672, 0.19999999604787236,
                        -0.14285690418495545, 0.11110384913255042, -0.090783902895086727,
                        0.075636903644334716, -0.058744550821707237, 0.030661656753752625);
  double result = fma(t, p, middle ? kPi / 4 : 0.0);
  return swapped ? kPi / 2 - result : result;
}

/* ---- exponentials ---- */

/* In float32 throughout: the one function that softmax and attention live on. */
MLXC_INLINE float exp_f32(float x) {
  constexpr float magic = 0x1.8p23f;
  x = x > 89.0f ? 89.0f : x;
  x = x < -105.0f ? -105.0f : x;
  float shifted = fma(x, 1.44269504f, magic);
  float n = shifted - magic;
  float r = fma(n, -0.693359375f, x);
  r = fma(n, 2.12194440e-4f, r);
  float p = polynomial(r, 0.5f, 0.16666667f, 0.041666465f, 0.0083333109f, 0.001393365f, 0.00019890991f);
  float y = fma(r * r, p, r) + 1.0f;
  /* 2^n in two steps, since n may lie beyond the exponent's range on either side */
  uint32_t k = bit_cast<uint32_t>(shifted) - bit_cast<uint32_t>(magic);
  uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(k) >> 1);
  float first = bit_cast<float>((half + 127u) << 23);
  float second = bit_cast<float>((k - half + 127u) << 23);
  return y * first * second;
}

MLXC_INLINE float expm1_f32(float x) {
  double result = expm1_core(x);
  return x == 0.0f ? x : static_cast<float>(result);
}

MLXC_INLINE float sigmoid_f32(float x) {
  float e = exp_f32(-__builtin_fabsf(x));
  float positive = 1.0f / (1.0f + e);
  return x >= 0.0f ? positive : e * positive;
}

/* tanh(x) = x + x^3 P(x^2) below 0.63, relative 6e-9 */
MLXC_INLINE float tanh_f32(float x) {
  float a = __builtin_fabsf(x);
  float z = a * a;
  float p =
      polynomial(z, -0.33333333f, 0.133333f, -0.053958462f, 0.021762503f, -0.0083231871f, 0.0022695017f);
  float small = fma(x * z, p, x);
  float large = 1.0f - 2.0f / (exp_f32(a + a) + 1.0f);
  return __builtin_copysignf(a < 0.625f ? small : large, x);
}

MLXC_INLINE float sinh_f32(float x) {
  double a = __builtin_fabsf(x);
  double t = expm1_core(a);
  double result = 0.5 * (t + t / (t + 1.0));
  return __builtin_copysignf(static_cast<float>(result), x);
}

MLXC_INLINE float cosh_f32(float x) {
  double e = exp_core(__builtin_fabsf(x));
  return static_cast<float>(0.5 * (e + 1.0 / e));
}

/* ---- logarithms ---- */

MLXC_INLINE float log_f32(float x) { return static_cast<float>(log_core(x)); }
MLXC_INLINE float log2_f32(float x) { return static_cast<float>(log_core(x) * 1.442695040888963407); }
MLXC_INLINE float log10_f32(float x) { return static_cast<float>(log_core(x) * 0.434294481903251828); }
MLXC_INLINE float log1p_f32(float x) { return static_cast<float>(log1p_core(x)); }

/* ---- circular functions; right for |x| <= kTrigLimit, callers send larger ones to the C library ---- */

constexpr float kTrigLimit = 1.0e6f;

MLXC_INLINE void sin_cos_core(double x, double* sine, double* cosine, uint64_t* quadrant) {
  constexpr double magic = 0x1.8p52;
  double shifted = fma(x, 0.636619772367581343, magic);
  double n = shifted - magic;
  /* pi/2 in two parts; n has at most 20 bits and the first part 33, so their product is exact */
  double r = x - n * 0x1.921fb544p0;
  r = r - n * 0x1.0b4611a626331p-34;
  double z = r * r;
  /* sin on +-pi/4: r + r^3 P(r^2), relative 2e-10; cos: 1 - r^2/2 + r^4 P(r^2), relative 2e-9 */
  *sine = fma(r * z,
              polynomial(z, -0.16666666663854385, 0.0083333318743583525, -0.0001984008654531293,
                         2.7249901158293909e-06),
              r);
  *cosine = fma(z * z, polynomial(z, 0.041666664659017902, -0.0013888302941757222, 2.4547921745795434e-05),
                fma(z, -0.5, 1.0));
  *quadrant = bit_cast<uint64_t>(shifted);
}

MLXC_INLINE double flip_sign_bit1(double value, uint64_t quadrant) {
  return bit_cast<double>(bit_cast<uint64_t>(value) ^ ((quadrant & 2) << 62));
}

MLXC_INLINE float sin_f32(float x) {
  double sine, cosine;
  uint64_t quadrant;
  sin_cos_core(x, &sine, &cosine, &quadrant);
  return static_cast<float>(flip_sign_bit1((quadrant & 1) != 0 ? cosine : sine, quadrant));
}

MLXC_INLINE float cos_f32(float x) {
  double sine, cosine;
  uint64_t quadrant;
  sin_cos_core(x, &sine, &cosine, &quadrant);
  return static_cast<float>(flip_sign_bit1((quadrant & 1) != 0 ? sine : cosine, quadrant + (quadrant & 1)));
}

MLXC_INLINE float tan_f32(float x) {
  double sine, cosine;
  uint64_t quadrant;
  sin_cos_core(x, &sine, &cosine, &quadrant);
  bool odd = (quadrant & 1) != 0;
  double numerator = odd ? -cosine : sine;
  double denominator = odd ? sine : cosine;
  return static_cast<float>(numerator / denominator);
}

MLXC_INLINE float arctan_f32(float x) {
  double a = __builtin_fabsf(x);
  return __builtin_copysignf(static_cast<float>(atan_ratio(a, 1.0)), x);
}

MLXC_INLINE float arcsin_f32(float x) {
  double a = __builtin_fabsf(x);
  double other = __builtin_sqrt((1.0 - a) * (1.0 + a));
  return __builtin_copysignf(static_cast<float>(atan_ratio(a, other)), x);
}

MLXC_INLINE float arccos_f32(float x) {
  double a = __builtin_fabsf(x);
  double result = atan_ratio(__builtin_sqrt((1.0 - a) * (1.0 + a)), a);
  return static_cast<float>(x < 0.0f ? kPi - result : result);
}

MLXC_INLINE float arctan2_f32(float y, float x) {
  double b = __builtin_fabsf(y), a = __builtin_fabsf(x);
  bool both = a == kInf && b == kInf;
  double result = atan_ratio(both ? 1.0 : b, both ? 1.0 : a);
  result = __builtin_copysignf(1.0f, x) < 0.0f ? kPi - result : result;
  return __builtin_copysignf(static_cast<float>(result), y);
}

/* ---- inverse hyperbolic ---- */

MLXC_INLINE float arcsinh_f32(float x) {
  double a = __builtin_fabsf(x);
  double z = a * a;
  double result = log1p_core(a + z / (1.0 + __builtin_sqrt(1.0 + z)));
  result = a == kInf ? kInf : result;
  return __builtin_copysignf(static_cast<float>(result), x);
}

MLXC_INLINE float arccosh_f32(float x) {
  double t = static_cast<double>(x) - 1.0;
  double result = log1p_core(t + __builtin_sqrt(t * (2.0 + t)));
  return x >= 1.0f ? static_cast<float>(result) : kNan32;
}

MLXC_INLINE float arctanh_f32(float x) {
  double a = __builtin_fabsf(x);
  double result = 0.5 * log1p_core(2.0 * a / (1.0 - a));
  return __builtin_copysignf(static_cast<float>(result), x);
}

/* ---- error function ---- */

MLXC_INLINE float erf_f32(float x) {
  double a = __builtin_fabsf(x);
  double z = static_cast<double>(x) * x;
  /* erf(x) / x as a polynomial of x^2 on [0, 1], relative 2e-14 */
  double small =
      x * polynomial(z, 1.1283791670954939, -0.37612638902808615, 0.11283791658548713, -0.026866169050599326,
                     0.0052239671935439, -0.00085479337365196328, 0.00012046261269779797,
                     -1.4795031400662045e-05, 1.5306373163641084e-06, -1.0469110332151208e-07);
  /* log(erfc(x)) on [1, 4], absolute 5e-9; beyond 4 erf rounds to 1 */
  double c = a > 4.0 ? 4.0 : a;
  double large =
      1.0 - exp_core(polynomial(c, 0.00041632921770974959, -1.1306751441818166, -0.6309530298165722,
                                -0.11105501737188005, 0.027099523293990374, -0.0050649469202164845,
                                0.0006858366830115038, -6.2298353251614503e-05, 3.3216845907317218e-06,
                                -7.5826819697252746e-08));
  return a < 1.0 ? static_cast<float>(small) : __builtin_copysignf(static_cast<float>(large), x);
}

MLXC_INLINE float erfinv_f32(float x) {
  double d = x;
  double w = -log_positive((1.0 - d) * (1.0 + d));
  /* erfinv(x) / x as a polynomial of w on [0, 5], relative 5e-9, and of sqrt(w) to 4.1, relative 2e-8 */
  double near = polynomial(w, 0.88622692944337311, 0.23201347310748227, 0.011550900732630565,
                           -0.0023400270757833017, -0.00012002570136587074, 3.8981637368426895e-05,
                           6.5314307992052406e-06, -2.696533465757212e-06, 3.440101487642903e-07,
                           -2.0418841975426785e-08, 4.6719325090386648e-10);
  double s = __builtin_sqrt(w);
  double far = polynomial(s, -1.5559185330013516, 8.1828278075590966, -11.605066889352418, 9.6456823315385929,
                          -4.8402689355895667, 1.5605443381346054, -0.32742247424108589, 0.043420642547993951,
                          -0.0033170667322335581, 0.0001115385807799795);
  float result = static_cast<float>(d * (w < 5.0 ? near : far));
  float a = __builtin_fabsf(x);
  result = a == 1.0f ? __builtin_copysignf(kInf32, x) : result;
  return a <= 1.0f ? result : kNan32;
}

/* ---- two arguments ---- */

MLXC_INLINE float power_f32(float base, float exponent) {
  constexpr double magic = 0x1.8p52;
  double y = exponent;
  double magnitude = __builtin_fabsf(base);
  double l = log_core(magnitude);
  double result = exp_core(y * l);
  double rounded = (y + magic) - magic;
  double halved = (0.5 * y + magic) - magic;
  bool huge = __builtin_fabs(y) >= 0x1p24;
  bool integral = huge || rounded == y;
  bool odd = !huge && integral && halved != 0.5 * y;
  bool negative = __builtin_copysignf(1.0f, base) < 0.0f;
  result = negative && odd ? -result : result;
  result = base < 0.0f && magnitude != kInf && !integral ? kNan : result;
  result = magnitude == 1.0 && __builtin_fabs(y) == kInf ? 1.0 : result;
  result = base == 1.0f || exponent == 0.0f ? 1.0 : result;
  return static_cast<float>(result);
}

/* For bases in (0, inf) and finite exponents, where power has no special cases. */
MLXC_INLINE bool is_plain_power(float base, float exponent) {
  return (base > 0.0f) & (base < kInf32) & (__builtin_fabsf(exponent) < kInf32);
}
MLXC_INLINE float power_plain_f32(float base, float exponent) {
  return static_cast<float>(exp_core(static_cast<double>(exponent) * log_positive(base)));
}

MLXC_INLINE float logaddexp_f32(float a, float b) {
  double high = a > b ? a : b;
  double low = a > b ? b : a;
  double difference = a == b ? 0.0 : low - high;
  return static_cast<float>(high + log1p_core(exp_core(difference)));
}

MLXC_INLINE float hypot_f32(float a, float b) {
  double x = a, y = b;
  float result = static_cast<float>(__builtin_sqrt(x * x + y * y));
  bool infinite = __builtin_fabsf(a) == kInf32 || __builtin_fabsf(b) == kInf32;
  return infinite ? kInf32 : result;
}

}  // namespace math
}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
