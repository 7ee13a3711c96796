/* Element-wise functions of one array: arithmetic, rounding, exponentials, circular functions, tests.
 *
 * The core calls `run` with the input already in a dtype the op computes in. Each op is a struct with an
 * `apply` for one element; `Map` makes the loop the tile engine wants (see elementwise.h).
 */
#include <cmath>
#include <initializer_list>

#include "complex_math.h"
#include "elementwise.h"
#include "math_f32.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

/* ---- loops ---- */

template <class Op, class T, class R>
struct Map {
  static void run(const void* const* in, void* const* out, int64_t n, unsigned) {
    const T* a = static_cast<const T*>(in[0]);
    R* result = static_cast<R*>(out[0]);
    MLXC_VECTORIZE
    for (int64_t i = 0; i < n; i++) result[i] = Op::apply(a[i]);
  }
};

/* float32 functions that are vectorised up to an angle of kTrigLimit; a block with a larger one goes through
 * the C library. */
template <class Op>
struct MapAngle {
  static void run(const void* const* in, void* const* out, int64_t n, unsigned) {
    constexpr int64_t block = 256;
    const float* a = static_cast<const float*>(in[0]);
    float* result = static_cast<float*>(out[0]);
    for (int64_t begin = 0; begin < n; begin += block) {
      int64_t end = begin + block < n ? begin + block : n;
      int32_t large = 0;
      for (int64_t i = begin; i < end; i++) large |= __builtin_fabsf(a[i]) > math::kTrigLimit;
      if (large) {
        for (int64_t i = begin; i < end; i++)
          result[i] = static_cast<float>(Op::apply(static_cast<double>(a[i])));
      } else {
        MLXC_VECTORIZE
        for (int64_t i = begin; i < end; i++) result[i] = Op::apply(a[i]);
      }
    }
  }
};

/* Functions of complex numbers, computed in double by the C library. */
template <int32_t OpNumber, class T>
struct MapComplex {
  static void run(const void* const* in, void* const* out, int64_t n, unsigned) {
    if constexpr (std::is_same_v<T, Complex128>) {
      complex_unary(OpNumber, static_cast<const double*>(in[0]), static_cast<double*>(out[0]), n);
    } else {
      constexpr int64_t block = 128;
      const float* a = static_cast<const float*>(in[0]);
      float* result = static_cast<float*>(out[0]);
      double wide[2 * block];
      for (int64_t begin = 0; begin < n; begin += block) {
        int64_t count = (n - begin < block ? n - begin : block);
        for (int64_t i = 0; i < 2 * count; i++) wide[i] = a[2 * begin + i];
        complex_unary(OpNumber, wide, wide, count);
        for (int64_t i = 0; i < 2 * count; i++) result[2 * begin + i] = static_cast<float>(wide[i]);
      }
    }
  }
};

/* ---- ops ---- */

struct Abs {
  template <class T>
  static MLXC_INLINE auto apply(T a) {
    if constexpr (std::is_same_v<T, Complex64>) {
      double re = a.re, im = a.im;
      bool infinite = __builtin_fabs(re) == math::kInf || __builtin_fabs(im) == math::kInf;
      return static_cast<float>(infinite ? math::kInf : __builtin_sqrt(re * re + im * im));
    } else if constexpr (is_complex<T>) {
      return std::hypot(a.re, a.im);
    } else if constexpr (std::is_same_v<T, float>) {
      return __builtin_fabsf(a);
    } else if constexpr (std::is_same_v<T, double>) {
      return __builtin_fabs(a);
    } else if constexpr (std::is_signed_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(a < 0 ? static_cast<U>(0) - static_cast<U>(a) : static_cast<U>(a));
    } else {
      return a;
    }
  }
};

struct Sign {
  template <class T>
  static MLXC_INLINE T apply(T a) {
    if constexpr (is_native_float<T>) {
      T result = static_cast<T>(a > 0) - static_cast<T>(a < 0);
      return a == a ? result : a;
    } else if constexpr (std::is_same_v<T, bool>) {
      return a;
    } else {
      return static_cast<T>((a > 0) - (a < 0));
    }
  }
};

struct Negative {
  template <class T>
  static MLXC_INLINE T apply(T a) {
    if constexpr (is_complex<T>) {
      return T{-a.re, -a.im};
    } else if constexpr (is_native_float<T>) {
      return -a;
    } else {
      return static_cast<T>(uint64_t(0) - static_cast<uint64_t>(a));
    }
  }
};

struct Square {
  template <class T>
  static MLXC_INLINE T apply(T a) {
    if constexpr (is_complex<T>) {
      return T{a.re * a.re - a.im * a.im, a.re * a.im + a.im * a.re};
    } else if constexpr (is_native_float<T>) {
      return a * a;
    } else if constexpr (std::is_same_v<T, bool>) {
      return a;
    } else {
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(a));
    }
  }
};

/* float32 by ours, double by the C library. */
#define MLXC_REAL_OP(Name, float_value, double_value)                  \
  struct Name {                                                        \
    static MLXC_INLINE float apply(float a) { return float_value; }    \
    static MLXC_INLINE double apply(double a) { return double_value; } \
  };
MLXC_REAL_OP(Sqrt, __builtin_sqrtf(a), __builtin_sqrt(a))
MLXC_REAL_OP(Rsqrt, 1.0f / __builtin_sqrtf(a), 1.0 / __builtin_sqrt(a))
MLXC_REAL_OP(Reciprocal, 1.0f / a, 1.0 / a)
MLXC_REAL_OP(Exp, math::exp_f32(a), std::exp(a))
MLXC_REAL_OP(Expm1, math::expm1_f32(a), std::expm1(a))
MLXC_REAL_OP(Log, math::log_f32(a), std::log(a))
MLXC_REAL_OP(Log2, math::log2_f32(a), std::log2(a))
MLXC_REAL_OP(Log10, math::log10_f32(a), std::log10(a))
MLXC_REAL_OP(Log1p, math::log1p_f32(a), std::log1p(a))
MLXC_REAL_OP(Sin, math::sin_f32(a), std::sin(a))
MLXC_REAL_OP(Cos, math::cos_f32(a), std::cos(a))
MLXC_REAL_OP(Tan, math::tan_f32(a), std::tan(a))
MLXC_REAL_OP(Arcsin, math::arcsin_f32(a), std::asin(a))
MLXC_REAL_OP(Arccos, math::arccos_f32(a), std::acos(a))
MLXC_REAL_OP(Arctan, math::arctan_f32(a), std::atan(a))
MLXC_REAL_OP(Sinh, math::sinh_f32(a), std::sinh(a))
MLXC_REAL_OP(Cosh, math::cosh_f32(a), std::cosh(a))
MLXC_REAL_OP(Tanh, math::tanh_f32(a), std::tanh(a))
MLXC_REAL_OP(Arcsinh, math::arcsinh_f32(a), std::asinh(a))
MLXC_REAL_OP(Arccosh, math::arccosh_f32(a), std::acosh(a))
MLXC_REAL_OP(Arctanh, math::arctanh_f32(a), std::atanh(a))
MLXC_REAL_OP(Erf, math::erf_f32(a), std::erf(a))
MLXC_REAL_OP(Floor, __builtin_floorf(a), __builtin_floor(a))
MLXC_REAL_OP(Ceil, __builtin_ceilf(a), __builtin_ceil(a))
MLXC_REAL_OP(Trunc, __builtin_truncf(a), __builtin_trunc(a))
#undef MLXC_REAL_OP

struct Sigmoid {
  static MLXC_INLINE float apply(float a) { return math::sigmoid_f32(a); }
  static MLXC_INLINE double apply(double a) {
    double e = std::exp(-__builtin_fabs(a));
    return a >= 0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
  }
};

struct Erfinv {
  static MLXC_INLINE float apply(float a) { return math::erfinv_f32(a); }
  /* Halley's steps from the float32 approximation of the smaller of erf and erfc. */
  static double apply(double a) {
    double magnitude = std::fabs(a);
    if (!(magnitude < 1.0)) return magnitude == 1.0 ? std::copysign(math::kInf, a) : math::kNan;
    if (magnitude < 1e-9) return a * 0.886226925452758014;
    double complement = 1.0 - magnitude;
    double x;
    if (complement > 1e-6) {
      x = math::erfinv_f32(static_cast<float>(magnitude));
    } else {
      double t = std::sqrt(-2.0 * std::log(0.5 * complement));
      x = (t - std::log(t * t * 6.283185307179586) / (2.0 * t)) * 0.70710678118654752;
    }
    for (int step = 0; step < 4; step++) {
      double error = magnitude < 0.5 ? std::erf(x) - magnitude : complement - std::erfc(x);
      double newton = error / (1.1283791670955126 * std::exp(-x * x));
      x -= newton / (1.0 + x * newton);
    }
    return std::copysign(x, a);
  }
};

struct Rint {
  template <class T>
  static MLXC_INLINE T apply(T a) {
    if constexpr (is_complex<T>) {
      return T{apply(a.re), apply(a.im)};
    } else {
      /* Adding and taking away 2^23 (2^52) rounds to nearest even, on every instruction set. */
      constexpr T big = std::is_same_v<T, float> ? T(0x1p23) : T(0x1p52);
      T magnitude = a < 0 ? -a : a;
      T rounded = (magnitude + big) - big;
      T result = magnitude < big ? rounded : magnitude;
      if constexpr (std::is_same_v<T, float>) {
        return __builtin_copysignf(result, a);
      } else {
        return __builtin_copysign(result, a);
      }
    }
  }
};

struct Identity {
  template <class T>
  static MLXC_INLINE T apply(T a) {
    return a;
  }
};

struct Conjugate {
  template <class T>
  static MLXC_INLINE T apply(T a) {
    return T{a.re, -a.im};
  }
};

struct Real {
  template <class T>
  static MLXC_INLINE auto apply(T a) {
    return a.re;
  }
};

struct Imag {
  template <class T>
  static MLXC_INLINE auto apply(T a) {
    if constexpr (is_complex<T>) {
      return a.im;
    } else {
      return T{};
    }
  }
};

struct LogicalNot {
  template <class T>
  static MLXC_INLINE bool apply(T a) {
    if constexpr (is_complex<T>) {
      return a.re == 0 && a.im == 0;
    } else {
      return a == 0;
    }
  }
};

struct BitwiseInvert {
  template <class T>
  static MLXC_INLINE T apply(T a) {
    if constexpr (std::is_same_v<T, bool>) {
      return !a;
    } else {
      return static_cast<T>(~a);
    }
  }
};

struct IsNan {
  template <class T>
  static MLXC_INLINE bool apply(T a) {
    if constexpr (is_complex<T>) {
      return (a.re != a.re) | (a.im != a.im);
    } else {
      return a != a;
    }
  }
};

struct IsInf {
  template <class T>
  static MLXC_INLINE bool apply(T a) {
    if constexpr (is_complex<T>) {
      return apply(a.re) | apply(a.im);
    } else {
      return (a < 0 ? -a : a) == std::numeric_limits<T>::infinity();
    }
  }
};

struct IsFinite {
  template <class T>
  static MLXC_INLINE bool apply(T a) {
    if constexpr (is_complex<T>) {
      return apply(a.re) & apply(a.im);
    } else {
      return (a < 0 ? -a : a) < std::numeric_limits<T>::infinity();
    }
  }
};

struct SignBit {
  template <class T>
  static MLXC_INLINE bool apply(T a) {
    if constexpr (std::is_same_v<T, float>) {
      return bit_cast<uint32_t>(a) >> 31;
    } else if constexpr (std::is_same_v<T, double>) {
      return bit_cast<uint64_t>(a) >> 63;
    } else {
      return a < 0;
    }
  }
};

struct True {
  template <class T>
  static MLXC_INLINE bool apply(T) {
    return true;
  }
};
struct False {
  template <class T>
  static MLXC_INLINE bool apply(T) {
    return false;
  }
};

/* ---- the table ---- */

constexpr int kFirst = MLXC_OP_ABS;
/* Ops get the next free number, so a family has its first ones in a row and later ones anywhere behind. */
constexpr int kLast = MLXC_OP_COUNT - 1;

struct Tables {
  LoopTable table[kLast - kFirst + 1];
};

/* Result type as apply has it. */
template <class Op, class... Ts>
constexpr void set(Tables& tables, int op, Cost cost = Cost::kMemory) {
  ((tables.table[op - kFirst].entries[DtypeOf<Ts>::value] =
        LoopEntry{&Map<Op, ComputeOf<Ts>, decltype(Op::apply(ComputeOf<Ts>{}))>::run, is_half<Ts>, cost}),
   ...);
}

template <class Op, int32_t OpNumber>
constexpr void set_inexact(Tables& tables, Cost single = Cost::kMath, Cost wide = Cost::kLibrary) {
  set<Op, Half, BFloat, float>(tables, OpNumber, single);
  set<Op, double>(tables, OpNumber, wide);
  LoopEntry* entries = tables.table[OpNumber - kFirst].entries;
  entries[MLXC_COMPLEX64] = LoopEntry{&MapComplex<OpNumber, Complex64>::run, false, Cost::kLibrary};
  entries[MLXC_COMPLEX128] = LoopEntry{&MapComplex<OpNumber, Complex128>::run, false, Cost::kLibrary};
}

template <class Op, int32_t OpNumber>
constexpr void set_angle(Tables& tables) {
  set_inexact<Op, OpNumber>(tables);
  LoopEntry* entries = tables.table[OpNumber - kFirst].entries;
  entries[MLXC_FLOAT32].loop = entries[MLXC_FLOAT16].loop = entries[MLXC_BFLOAT16].loop = &MapAngle<Op>::run;
}

/* Moves the bits of types on which the op does nothing. */
constexpr void set_identity_integers(Tables& tables, int op) {
  LoopEntry* entries = tables.table[op - kFirst].entries;
  entries[MLXC_BOOL] = entries[MLXC_UINT8] = entries[MLXC_INT8] =
      LoopEntry{&Map<Identity, uint8_t, uint8_t>::run};
  entries[MLXC_UINT16] = entries[MLXC_INT16] = LoopEntry{&Map<Identity, uint16_t, uint16_t>::run};
  entries[MLXC_UINT32] = entries[MLXC_INT32] = LoopEntry{&Map<Identity, uint32_t, uint32_t>::run};
  entries[MLXC_UINT64] = entries[MLXC_INT64] = LoopEntry{&Map<Identity, uint64_t, uint64_t>::run};
}
constexpr void set_identity_real(Tables& tables, int op) {
  set_identity_integers(tables, op);
  LoopEntry* entries = tables.table[op - kFirst].entries;
  entries[MLXC_FLOAT16] = entries[MLXC_BFLOAT16] = LoopEntry{&Map<Identity, uint16_t, uint16_t>::run};
  entries[MLXC_FLOAT32] = LoopEntry{&Map<Identity, uint32_t, uint32_t>::run};
  entries[MLXC_FLOAT64] = LoopEntry{&Map<Identity, uint64_t, uint64_t>::run};
}

constexpr Tables make_tables() {
  Tables t{};
  set<Abs, bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, Complex64>(t, MLXC_OP_ABS);
  set<Abs, Complex128>(t, MLXC_OP_ABS, Cost::kLibrary);
  set<Sign, bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES>(t, MLXC_OP_SIGN);
  LoopEntry* sign = t.table[MLXC_OP_SIGN - kFirst].entries;
  sign[MLXC_COMPLEX64] = LoopEntry{&MapComplex<MLXC_OP_SIGN, Complex64>::run, false, Cost::kLibrary};
  sign[MLXC_COMPLEX128] = LoopEntry{&MapComplex<MLXC_OP_SIGN, Complex128>::run, false, Cost::kLibrary};
  set<Negative, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_NEGATIVE);
  set<Square, bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_SQUARE);
  set_inexact<Sqrt, MLXC_OP_SQRT>(t, Cost::kMemory, Cost::kMemory);
  set_inexact<Rsqrt, MLXC_OP_RSQRT>(t, Cost::kMemory, Cost::kMemory);
  set_inexact<Reciprocal, MLXC_OP_RECIPROCAL>(t, Cost::kMemory, Cost::kMemory);
  set_inexact<Exp, MLXC_OP_EXP>(t);
  set_inexact<Expm1, MLXC_OP_EXPM1>(t);
  set_inexact<Log, MLXC_OP_LOG>(t);
  set_inexact<Log2, MLXC_OP_LOG2>(t);
  set_inexact<Log10, MLXC_OP_LOG10>(t);
  set_inexact<Log1p, MLXC_OP_LOG1P>(t);
  set_angle<Sin, MLXC_OP_SIN>(t);
  set_angle<Cos, MLXC_OP_COS>(t);
  set_angle<Tan, MLXC_OP_TAN>(t);
  set_inexact<Arcsin, MLXC_OP_ARCSIN>(t);
  set_inexact<Arccos, MLXC_OP_ARCCOS>(t);
  set_inexact<Arctan, MLXC_OP_ARCTAN>(t);
  set_inexact<Sinh, MLXC_OP_SINH>(t);
  set_inexact<Cosh, MLXC_OP_COSH>(t);
  set_inexact<Tanh, MLXC_OP_TANH>(t);
  set_inexact<Arcsinh, MLXC_OP_ARCSINH>(t);
  set_inexact<Arccosh, MLXC_OP_ARCCOSH>(t);
  set_inexact<Arctanh, MLXC_OP_ARCTANH>(t);
  set<Sigmoid, Half, BFloat, float>(t, MLXC_OP_SIGMOID, Cost::kMath);
  set<Sigmoid, double>(t, MLXC_OP_SIGMOID, Cost::kLibrary);
  set<Erf, Half, BFloat, float>(t, MLXC_OP_ERF, Cost::kMath);
  set<Erf, double>(t, MLXC_OP_ERF, Cost::kLibrary);
  set<Erfinv, Half, BFloat, float>(t, MLXC_OP_ERFINV, Cost::kMath);
  set<Erfinv, double>(t, MLXC_OP_ERFINV, Cost::kLibrary);
  set<Floor, MLXC_FLOAT_TYPES>(t, MLXC_OP_FLOOR);
  set<Ceil, MLXC_FLOAT_TYPES>(t, MLXC_OP_CEIL);
  set<Trunc, MLXC_FLOAT_TYPES>(t, MLXC_OP_TRUNC);
  set<Rint, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_RINT);
  for (int op : {MLXC_OP_FLOOR, MLXC_OP_CEIL, MLXC_OP_TRUNC, MLXC_OP_RINT}) set_identity_integers(t, op);
  set_identity_real(t, MLXC_OP_CONJUGATE);
  set<Conjugate, MLXC_COMPLEX_TYPES>(t, MLXC_OP_CONJUGATE);
  set_identity_real(t, MLXC_OP_REAL);
  set<Real, MLXC_COMPLEX_TYPES>(t, MLXC_OP_REAL);
  set<Imag, bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_IMAG);
  set<LogicalNot, bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_LOGICAL_NOT);
  set<BitwiseInvert, bool, MLXC_INTEGER_TYPES>(t, MLXC_OP_BITWISE_INVERT);
  set<IsNan, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_ISNAN);
  set<False, bool, MLXC_INTEGER_TYPES>(t, MLXC_OP_ISNAN);
  set<IsInf, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_ISINF);
  set<False, bool, MLXC_INTEGER_TYPES>(t, MLXC_OP_ISINF);
  set<IsFinite, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_ISFINITE);
  set<True, bool, MLXC_INTEGER_TYPES>(t, MLXC_OP_ISFINITE);
  set<SignBit, MLXC_SIGNED_TYPES, MLXC_FLOAT_TYPES>(t, MLXC_OP_SIGNBIT);
  set<False, bool, MLXC_UNSIGNED_TYPES>(t, MLXC_OP_SIGNBIT);
  return t;
}

constexpr Tables kTables = make_tables();

mlxc_error* run(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  return run_elementwise(call, kTables.table[call->op - kFirst].entries[call->inputs[0]->dtype]);
}

struct Rows {
  mlxc_kernel rows[kLast - kFirst + 1];
};

/* A row an op; the dtypes are those that have a loop. */
constexpr Rows make_rows() {
  Rows r{};
  for (int op = kFirst; op <= kLast; op++) {
    mlxc_dtype_mask mask = 0;
    for (int dtype = 0; dtype < MLXC_DTYPE_COUNT; dtype++) {
      if (kTables.table[op - kFirst].entries[dtype].exists) mask |= MLXC_DTYPE_BIT(dtype);
    }
    r.rows[op - kFirst] = make_row(op, mask, kMaskAll, run, MLXC_KERNEL_DONATES_0);
  }
  return r;
}

constexpr Rows kRows = make_rows();

}  // namespace

LoopEntry unary_loop(int32_t op, mlxc_dtype dtype) {
  return op < kFirst || op > kLast ? LoopEntry{} : kTables.table[op - kFirst].entries[dtype];
}

KernelRows unary_rows() { return {kRows.rows, sizeof kRows.rows / sizeof kRows.rows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
