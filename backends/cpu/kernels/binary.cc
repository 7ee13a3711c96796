/* Element-wise arithmetic of two arrays: + - * / // % ** max min, bits, shifts, divmod and their like.
 *
 * The core calls `run` with both inputs in one dtype and broadcast to one shape. Each op is a struct with an
 * `apply` for one pair. Integers wrap and never trap: a division by zero gives 0, its remainder the dividend,
 * shifts by the width or more (or by a negative count) shift everything out.
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

template <class Op, class T>
struct Zip {
  static void run(const void* const* in, void* const* out, int64_t n, unsigned scalars) {
    const T* a = static_cast<const T*>(in[0]);
    const T* b = static_cast<const T*>(in[1]);
    T* result = static_cast<T*>(out[0]);
    if (scalars == 0) {
      MLXC_VECTORIZE
      for (int64_t i = 0; i < n; i++) result[i] = Op::apply(a[i], b[i]);
    } else if (scalars == 1) {
      T x = *a;
      MLXC_VECTORIZE
      for (int64_t i = 0; i < n; i++) result[i] = Op::apply(x, b[i]);
    } else {
      T y = *b;
      MLXC_VECTORIZE
      for (int64_t i = 0; i < n; i++) result[i] = Op::apply(a[i], y);
    }
  }
};

/* Ops that cost so much that reading a scalar again does not matter: one loop for all three forms. */
template <class Op, class T>
struct ZipSlow {
  static void run(const void* const* in, void* const* out, int64_t n, unsigned scalars) {
    const T* a = static_cast<const T*>(in[0]);
    const T* b = static_cast<const T*>(in[1]);
    T* result = static_cast<T*>(out[0]);
    int64_t step_a = scalars & 1 ? 0 : 1, step_b = scalars & 2 ? 0 : 1;
    for (int64_t i = 0; i < n; i++) result[i] = Op::apply(a[i * step_a], b[i * step_b]);
  }
};

template <int32_t OpNumber, class T>
struct ZipComplex {
  static void run(const void* const* in, void* const* out, int64_t n, unsigned scalars) {
    constexpr int64_t block = 64;
    using R = decltype(T::re);
    const R* a = static_cast<const R*>(in[0]);
    const R* b = static_cast<const R*>(in[1]);
    R* result = static_cast<R*>(out[0]);
    double wide_a[2 * block], wide_b[2 * block];
    for (int64_t begin = 0; begin < n; begin += block) {
      int64_t count = n - begin < block ? n - begin : block;
      for (int64_t i = 0; i < count; i++) {
        int64_t from_a = scalars & 1 ? 0 : begin + i, from_b = scalars & 2 ? 0 : begin + i;
        wide_a[2 * i] = a[2 * from_a];
        wide_a[2 * i + 1] = a[2 * from_a + 1];
        wide_b[2 * i] = b[2 * from_b];
        wide_b[2 * i + 1] = b[2 * from_b + 1];
      }
      complex_binary(OpNumber, wide_a, wide_b, wide_a, count);
      for (int64_t i = 0; i < 2 * count; i++) result[2 * begin + i] = static_cast<R>(wide_a[i]);
    }
  }
};

/* ---- ops ---- */

struct Add {
  template <class T>
  static MLXC_INLINE T apply(T a, T b) {
    if constexpr (is_complex<T>) {
      return T{a.re + b.re, a.im + b.im};
    } else if constexpr (std::is_same_v<T, bool>) {
      return a | b;
    } else if constexpr (is_native_float<T>) {
      return a + b;
    } else {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    }
  }
};

struct Subtract {
  template <class T>
  static MLXC_INLINE T apply(T a, T b) {
    if constexpr (is_complex<T>) {
      return T{a.re - b.re, a.im - b.im};
    } else if constexpr (std::is_same_v<T, bool>) {
      return a != b;
    } else if constexpr (is_native_float<T>) {
      return a - b;
    } else {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) - static_cast<U>(b)));
    }
  }
};

struct Multiply {
  template <class T>
  static MLXC_INLINE T apply(T a, T b) {
    if constexpr (is_complex<T>) {
      return T{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    } else if constexpr (std::is_same_v<T, bool>) {
      return a & b;
    } else if constexpr (is_native_float<T>) {
      return a * b;
    } else if constexpr (sizeof(T) <= 2) {
      return static_cast<T>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
    } else {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    }
  }
};

struct Divide {
  template <class T>
  static MLXC_INLINE T apply(T a, T b) {
    return a / b;
  }
};

/* Floored quotient and remainder of one pair. Floats as Python has it: the remainder is exact up to one
 * addition and has the sign of the divisor, the quotient is an integer that fits it. */
template <class T>
MLXC_INLINE void divide_floored(T a, T b, T* quotient, T* remainder) {
  if constexpr (is_native_float<T>) {
    if (MLXC_UNLIKELY(b == 0)) {
      *quotient = a / b;
      *remainder = std::numeric_limits<T>::quiet_NaN();
      return;
    }
    T rest = std::fmod(a, b);
    T division = (a - rest) / b;
    if (rest != 0) {
      if ((b < 0) != (rest < 0)) {
        rest += b;
        division -= T(1);
      }
    } else {
      rest = std::copysign(T(0), b);
    }
    if (division != 0) {
      T floored = std::floor(division);
      if (division - floored > T(0.5)) floored += T(1);
      division = floored;
    } else {
      division = std::copysign(T(0), a / b);
    }
    *quotient = division;
    *remainder = rest;
  } else if constexpr (std::is_same_v<T, bool>) {
    *quotient = a & b;
    *remainder = a & !b;
  } else if constexpr (std::is_unsigned_v<T>) {
    T divisor = b == 0 ? T(1) : b;
    T q = static_cast<T>(a / divisor);
    *quotient = b == 0 ? T(0) : q;
    *remainder = b == 0 ? a : static_cast<T>(a - q * divisor);
  } else {
    using U = std::make_unsigned_t<T>;
    T divisor = b == 0 || b == T(-1) ? T(1) : b;
    T q = static_cast<T>(a / divisor);
    T r = static_cast<T>(a % divisor);
    bool low = r != 0 && (r < 0) != (divisor < 0);
    q = static_cast<T>(q - low);
    r = static_cast<T>(r + (low ? divisor : T(0)));
    T negated = static_cast<T>(static_cast<U>(U(0) - static_cast<U>(a)));
    *quotient = b == 0 ? T(0) : b == T(-1) ? negated : q;
    *remainder = b == 0 ? a : b == T(-1) ? T(0) : r;
  }
}

/* The same for float32 where double division settles it: |a / b| < 2^28, then floor(a / b) in double is right
 * and a - q b is exact. */
MLXC_INLINE bool divides_in_double(float a, float b) {
  double ratio = static_cast<double>(a) / static_cast<double>(b);
  return __builtin_fabs(ratio) < 0x1p28 && __builtin_fabsf(b) < math::kInf32;
}

MLXC_INLINE void divide_floored_fast(float a, float b, float* quotient, float* remainder) {
  double wide_a = a, wide_b = b;
  double ratio = wide_a / wide_b;
  double q = __builtin_floor(ratio);
  double r = wide_a - q * wide_b;
  *quotient = static_cast<float>(q == 0 ? __builtin_copysign(0.0, ratio) : q);
  *remainder = static_cast<float>(r == 0 ? __builtin_copysign(0.0, wide_b) : r);
}

enum class Part { kQuotient, kRemainder, kBoth };

template <Part P, class T>
struct ZipFloored {
  static void run(const void* const* in, void* const* out, int64_t n, unsigned scalars) {
    constexpr int64_t block = 256;
    const T* a = static_cast<const T*>(in[0]);
    const T* b = static_cast<const T*>(in[1]);
    T* first = static_cast<T*>(out[0]);
    T* second = P == Part::kBoth ? static_cast<T*>(out[1]) : first;
    int64_t step_a = scalars & 1 ? 0 : 1, step_b = scalars & 2 ? 0 : 1;
    for (int64_t begin = 0; begin < n; begin += block) {
      int64_t end = begin + block < n ? begin + block : n;
      if constexpr (std::is_same_v<T, float>) {
        if (run_fast(a, b, first, second, begin, end, step_a, step_b)) continue;
      }
      for (int64_t i = begin; i < end; i++) {
        T left = a[i * step_a], right = b[i * step_b], q, r;
        divide_one(left, right, &q, &r);
        store(first, second, i, q, r);
      }
    }
  }

  static MLXC_INLINE void divide_one(T left, T right, T* q, T* r) {
    if constexpr (std::is_same_v<T, float>) {
      if (divides_in_double(left, right)) return divide_floored_fast(left, right, q, r);
    }
    divide_floored(left, right, q, r);
  }

  static MLXC_INLINE void store(T* first, T* second, int64_t i, T q, T r) {
    if constexpr (P != Part::kRemainder) first[i] = q;
    if constexpr (P != Part::kQuotient) second[i] = r;
  }

  static bool run_fast(const float* a, const float* b, float* first, float* second, int64_t begin,
                       int64_t end, int64_t step_a, int64_t step_b) {
    float left[256], right[256];
    int64_t n = end - begin;
    for (int64_t i = 0; i < n; i++) left[i] = a[(begin + i) * step_a];
    for (int64_t i = 0; i < n; i++) right[i] = b[(begin + i) * step_b];
    int32_t slow = 0;
    for (int64_t i = 0; i < n; i++) slow |= !divides_in_double(left[i], right[i]);
    if (slow) return false;
    for (int64_t i = 0; i < n; i++) {
      float q, r;
      divide_floored_fast(left[i], right[i], &q, &r);
      store(first, second, begin + i, q, r);
    }
    return true;
  }
};

struct Power {
  static MLXC_INLINE float apply(float a, float b) { return math::power_f32(a, b); }
  static MLXC_INLINE double apply(double a, double b) { return std::pow(a, b); }
  static MLXC_INLINE bool apply(bool a, bool b) { return a | !b; }
  template <class T>
  static MLXC_INLINE T apply(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      if (b < 0) return a == 1 ? T(1) : a == T(-1) ? static_cast<T>(b % 2 ? -1 : 1) : T(0);
    }
    uint64_t result = 1;
    uint64_t factor = static_cast<uint64_t>(a);
    for (uint64_t k = static_cast<uint64_t>(b); k != 0; k >>= 1) {
      if (k & 1) result *= factor;
      factor *= factor;
    }
    return static_cast<T>(result);
  }
};

struct PlainPower {
  static MLXC_INLINE float apply(float a, float b) { return math::power_plain_f32(a, b); }
};

/* A fixed square is common enough (x ** 2) to have its own loop; it is also exact. Of float32, blocks without
 * special cases go a shorter way. */
template <class T>
struct ZipPower {
  static void run(const void* const* in, void* const* out, int64_t n, unsigned scalars) {
    if (scalars == 2 && *static_cast<const T*>(in[1]) == T(2)) {
      const void* square[2] = {in[0], in[0]};
      Zip<Multiply, T>::run(square, out, n, 0);
      return;
    }
    if constexpr (std::is_same_v<T, float>) {
      constexpr int64_t block = 256;
      const float* a = static_cast<const float*>(in[0]);
      const float* b = static_cast<const float*>(in[1]);
      for (int64_t begin = 0; begin < n; begin += block) {
        int64_t count = n - begin < block ? n - begin : block;
        const float* left = scalars & 1 ? a : a + begin;
        const float* right = scalars & 2 ? b : b + begin;
        const void* part_in[2] = {left, right};
        void* part_out[1] = {static_cast<float*>(out[0]) + begin};
        int32_t special = 0;
        if (scalars == 0) {
          for (int64_t i = 0; i < count; i++) special |= !math::is_plain_power(left[i], right[i]);
        } else if (scalars == 1) {
          for (int64_t i = 0; i < count; i++) special |= !math::is_plain_power(*left, right[i]);
        } else {
          for (int64_t i = 0; i < count; i++) special |= !math::is_plain_power(left[i], *right);
        }
        if (special) {
          Zip<Power, float>::run(part_in, part_out, count, scalars);
        } else {
          Zip<PlainPower, float>::run(part_in, part_out, count, scalars);
        }
      }
    } else {
      Zip<Power, T>::run(in, out, n, scalars);
    }
  }
};

template <bool Greater>
struct Extreme {
  template <class T>
  static MLXC_INLINE T apply(T a, T b) {
    if constexpr (is_complex<T>) {
      if (a.re != a.re || a.im != a.im) return a;
      if (b.re != b.re || b.im != b.im) return b;
      bool less = a.re < b.re || (a.re == b.re && a.im < b.im);
      return less == Greater ? b : a;
    } else if constexpr (is_native_float<T>) {
      /* the comparison is false for a NaN on the right, which is then taken; one on the left wins after that
       */
      T picked = (Greater ? a > b : a < b) ? a : b;
      return a != a ? a : picked;
    } else {
      return (Greater ? a > b : a < b) ? a : b;
    }
  }
};
using Maximum = Extreme<true>;
using Minimum = Extreme<false>;

struct LogAddExp {
  static MLXC_INLINE float apply(float a, float b) { return math::logaddexp_f32(a, b); }
  static MLXC_INLINE double apply(double a, double b) {
    double high = a > b ? a : b, low = a > b ? b : a;
    if (a == b) return a + math::kLn2;
    return high + std::log1p(std::exp(low - high));
  }
};
struct Arctan2 {
  static MLXC_INLINE float apply(float a, float b) { return math::arctan2_f32(a, b); }
  static MLXC_INLINE double apply(double a, double b) { return std::atan2(a, b); }
};
struct Hypot {
  static MLXC_INLINE float apply(float a, float b) { return math::hypot_f32(a, b); }
  static MLXC_INLINE double apply(double a, double b) { return std::hypot(a, b); }
};
struct CopySign {
  static MLXC_INLINE float apply(float a, float b) { return __builtin_copysignf(a, b); }
  static MLXC_INLINE double apply(double a, double b) { return __builtin_copysign(a, b); }
};

/* On the bits, so that it works for every format: sign and magnitude as an integer line through zero. */
template <class U, class S, U Infinity>
struct NextBits {
  static MLXC_INLINE U apply(U a, U b) {
    constexpr U sign = static_cast<U>(U(1) << (sizeof(U) * 8 - 1));
    constexpr U rest = static_cast<U>(~sign);
    U magnitude_a = a & rest, magnitude_b = b & rest;
    if (magnitude_a > Infinity) return a;
    if (magnitude_b > Infinity) return b;
    S line_a = static_cast<S>(a & sign ? -static_cast<S>(magnitude_a) : static_cast<S>(magnitude_a));
    S line_b = static_cast<S>(b & sign ? -static_cast<S>(magnitude_b) : static_cast<S>(magnitude_b));
    if (line_a == line_b) return b;
    S line = static_cast<S>(line_a + (line_b > line_a ? 1 : -1));
    U result = static_cast<U>(line < 0 ? static_cast<U>(-line) | sign : static_cast<U>(line));
    return line == 0 ? static_cast<U>(a & sign) : result;
  }
};

struct BitwiseAnd {
  template <class T>
  static MLXC_INLINE T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitwiseOr {
  template <class T>
  static MLXC_INLINE T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitwiseXor {
  template <class T>
  static MLXC_INLINE T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

/* Booleans shift as integers of width one. */
struct LeftShift {
  template <class T>
  static MLXC_INLINE T apply(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) {
      return a & !b;
    } else {
      using U = std::make_unsigned_t<T>;
      using W = std::conditional_t<(sizeof(T) < 4), uint32_t, U>;
      constexpr U width = sizeof(T) * 8;
      U count = static_cast<U>(b);
      W shifted = static_cast<W>(static_cast<U>(a)) << (count & (width - 1));
      return count < width ? static_cast<T>(shifted) : T(0);
    }
  }
};
struct RightShift {
  template <class T>
  static MLXC_INLINE T apply(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) {
      return a & !b;
    } else {
      using U = std::make_unsigned_t<T>;
      constexpr U width = sizeof(T) * 8;
      U count = static_cast<U>(b);
      T shifted = static_cast<T>(a >> (count & (width - 1)));
      T emptied = static_cast<T>(a < 0 ? -1 : 0);
      return count < width ? shifted : emptied;
    }
  }
};

/* ---- the table ---- */

constexpr int kFirst = MLXC_OP_ADD;
/* Ops get the next free number, so a family has its first ones in a row and later ones anywhere behind. */
constexpr int kLast = MLXC_OP_COUNT - 1;

struct Tables {
  LoopTable table[kLast - kFirst + 1];
};

template <class Op, template <class, class> class Form, class... Ts>
constexpr void set(Tables& tables, int op, Cost cost = Cost::kMemory) {
  ((tables.table[op - kFirst].entries[DtypeOf<Ts>::value] =
        LoopEntry{&Form<Op, ComputeOf<Ts>>::run, is_half<Ts>, cost}),
   ...);
}

template <Part P, class... Ts>
constexpr void set_floored(Tables& tables, int op, Cost cost) {
  ((tables.table[op - kFirst].entries[DtypeOf<Ts>::value] =
        LoopEntry{&ZipFloored<P, ComputeOf<Ts>>::run, is_half<Ts>, cost}),
   ...);
}

template <Part P>
constexpr void set_floored_all(Tables& tables, int op) {
  set_floored<P, bool>(tables, op, Cost::kMemory);
  set_floored<P, MLXC_INTEGER_TYPES, Half, BFloat, float>(tables, op, Cost::kMath);
  set_floored<P, double>(tables, op, Cost::kLibrary);
}

template <int32_t OpNumber>
constexpr void set_complex(Tables& tables) {
  LoopEntry* entries = tables.table[OpNumber - kFirst].entries;
  entries[MLXC_COMPLEX64] = LoopEntry{&ZipComplex<OpNumber, Complex64>::run, false, Cost::kLibrary};
  entries[MLXC_COMPLEX128] = LoopEntry{&ZipComplex<OpNumber, Complex128>::run, false, Cost::kLibrary};
}

constexpr Tables make_tables() {
  Tables t{};
  set<Add, Zip, bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_ADD);
  set<Subtract, Zip, bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_SUBTRACT);
  set<Multiply, Zip, bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_MULTIPLY);
  set<Divide, Zip, MLXC_FLOAT_TYPES>(t, MLXC_OP_DIVIDE);
  set_complex<MLXC_OP_DIVIDE>(t);
  set_floored_all<Part::kQuotient>(t, MLXC_OP_FLOOR_DIVIDE);
  set_floored_all<Part::kRemainder>(t, MLXC_OP_REMAINDER);
  set_floored_all<Part::kBoth>(t, MLXC_OP_DIVMOD);
  set<Power, ZipSlow, bool, MLXC_INTEGER_TYPES>(t, MLXC_OP_POWER, Cost::kMath);
  for (int dtype : {MLXC_FLOAT16, MLXC_BFLOAT16, MLXC_FLOAT32}) {
    t.table[MLXC_OP_POWER - kFirst].entries[dtype] =
        LoopEntry{&ZipPower<float>::run, dtype != MLXC_FLOAT32, Cost::kMath};
  }
  t.table[MLXC_OP_POWER - kFirst].entries[MLXC_FLOAT64] =
      LoopEntry{&ZipPower<double>::run, false, Cost::kLibrary};
  set_complex<MLXC_OP_POWER>(t);
  set<Maximum, Zip, bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_MAXIMUM);
  set<Minimum, Zip, bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t, MLXC_OP_MINIMUM);
  set<LogAddExp, Zip, Half, BFloat, float>(t, MLXC_OP_LOGADDEXP, Cost::kMath);
  set<LogAddExp, ZipSlow, double>(t, MLXC_OP_LOGADDEXP, Cost::kLibrary);
  set_complex<MLXC_OP_LOGADDEXP>(t);
  set<Arctan2, Zip, Half, BFloat, float>(t, MLXC_OP_ARCTAN2, Cost::kMath);
  set<Arctan2, ZipSlow, double>(t, MLXC_OP_ARCTAN2, Cost::kLibrary);
  set<Hypot, Zip, Half, BFloat, float>(t, MLXC_OP_HYPOT, Cost::kMath);
  set<Hypot, ZipSlow, double>(t, MLXC_OP_HYPOT, Cost::kLibrary);
  set<CopySign, Zip, MLXC_FLOAT_TYPES>(t, MLXC_OP_COPYSIGN);
  LoopEntry* next = t.table[MLXC_OP_NEXTAFTER - kFirst].entries;
  next[MLXC_FLOAT16] = LoopEntry{&Zip<NextBits<uint16_t, int16_t, 0x7c00>, uint16_t>::run};
  next[MLXC_BFLOAT16] = LoopEntry{&Zip<NextBits<uint16_t, int16_t, 0x7f80>, uint16_t>::run};
  next[MLXC_FLOAT32] = LoopEntry{&Zip<NextBits<uint32_t, int32_t, 0x7f800000u>, uint32_t>::run};
  next[MLXC_FLOAT64] =
      LoopEntry{&Zip<NextBits<uint64_t, int64_t, UINT64_C(0x7ff0000000000000)>, uint64_t>::run};
  set<BitwiseAnd, Zip, bool, MLXC_INTEGER_TYPES>(t, MLXC_OP_BITWISE_AND);
  set<BitwiseOr, Zip, bool, MLXC_INTEGER_TYPES>(t, MLXC_OP_BITWISE_OR);
  set<BitwiseXor, Zip, bool, MLXC_INTEGER_TYPES>(t, MLXC_OP_BITWISE_XOR);
  set<LeftShift, Zip, bool, MLXC_INTEGER_TYPES>(t, MLXC_OP_LEFT_SHIFT);
  set<RightShift, Zip, bool, MLXC_INTEGER_TYPES>(t, MLXC_OP_RIGHT_SHIFT);
  return t;
}

constexpr Tables kTables = make_tables();

mlxc_error* run(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  return run_elementwise(call, kTables.table[call->op - kFirst].entries[call->inputs[0]->dtype]);
}

/* Signed dtypes and so on that have a loop for `op`. */
constexpr mlxc_dtype_mask mask_of(int op) {
  mlxc_dtype_mask mask = 0;
  for (int dtype = 0; dtype < MLXC_DTYPE_COUNT; dtype++) {
    if (kTables.table[op - kFirst].entries[dtype].exists) mask |= MLXC_DTYPE_BIT(dtype);
  }
  return mask;
}

constexpr uint32_t kDonates = MLXC_KERNEL_DONATES_0 | MLXC_KERNEL_DONATES_1;

struct Rows {
  mlxc_kernel rows[kLast - kFirst + 1];
};

constexpr Rows make_rows() {
  Rows r{};
  for (int op = kFirst; op <= kLast; op++) {
    mlxc_dtype_mask mask = mask_of(op);
    r.rows[op - kFirst] = make_row(op, mask, mask, run, op == MLXC_OP_DIVMOD ? 0 : kDonates);
  }
  return r;
}

constexpr Rows kRows = make_rows();

}  // namespace

LoopEntry binary_loop(int32_t op, mlxc_dtype dtype) {
  return op < kFirst || op > kLast ? LoopEntry{} : kTables.table[op - kFirst].entries[dtype];
}

KernelRows binary_rows() { return {kRows.rows, sizeof kRows.rows / sizeof kRows.rows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
