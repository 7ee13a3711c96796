/* The arithmetic of reductions: accumulators and the loops over dense memory.
 *
 * Used by kernels/reduce.cc, whose driver sees them as a table of function pointers. Sums and products of
 * float32 and halves accumulate in double, of complex64 in complex double, of integers modulo the width of
 * the result; minima and maxima stay in their type, and once a NaN is met it stays.
 */
#ifndef MLXC_CPU_REDUCE_OPS_H
#define MLXC_CPU_REDUCE_OPS_H

#include <cmath>

#include "dtype.h"
#include "math_f32.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* What an accumulator is, for the step that turns it into the result. */
enum class AccKind : uint8_t { kInteger32, kInteger64, kDouble, kComplex, kSame, kFloat };

/* `shift` is what logsumexp takes away before the exponential: one value (run) or one a column (step). */
struct ReduceOps {
  int acc_size = 0;
  AccKind kind = AccKind::kSame;
  void (*init)(void* acc, int64_t n) = nullptr;
  /* acc[i] takes in x[i] of each of `rows` rows, which lie row_stride elements apart */
  void (*step)(void* acc, const void* x, int64_t rows, int64_t row_stride, int64_t n, const double* shift,
               int64_t shift_stride) = nullptr;
  /* *acc takes in all of x */
  void (*run)(void* acc, const void* x, int64_t n, const double* shift) = nullptr;
  /* acc[i] takes in other[i] */
  void (*combine)(void* acc, const void* other, int64_t n) = nullptr;
};

template <class Op>
struct ReduceLoops {
  using X = typename Op::X;
  using A = typename Op::A;

  static void init(void* acc, int64_t n) {
    A* a = static_cast<A*>(acc);
    for (int64_t i = 0; i < n; i++) a[i] = Op::initial();
  }

  template <int Rows>
  static MLXC_INLINE void step_rows(A* MLXC_RESTRICT a, const X* v, int64_t row_stride, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
      A value = a[i];
      for (int r = 0; r < Rows; r++) value = Op::add(value, v[r * row_stride + i], 0.0);
      a[i] = value;
    }
  }

  static void step(void* acc, const void* x, int64_t rows, int64_t row_stride, int64_t n, const double* shift,
                   int64_t shift_stride) {
    A* MLXC_RESTRICT a = static_cast<A*>(acc);
    const X* v = static_cast<const X*>(x);
    if constexpr (Op::kShifted) {
      for (int64_t r = 0; r < rows; r++, v += row_stride) {
        for (int64_t i = 0; i < n; i++) a[i] = Op::add(a[i], v[i], shift[i * shift_stride]);
      }
    } else {
      (void)shift;
      (void)shift_stride;
      int64_t r = 0;
      for (; r + 4 <= rows; r += 4, v += 4 * row_stride) step_rows<4>(a, v, row_stride, n);
      for (; r < rows; r++, v += row_stride) step_rows<1>(a, v, row_stride, n);
    }
  }

  template <int Lanes>
  static MLXC_INLINE A run_lanes(const X* v, int64_t n, double shift) {
    A lanes[Lanes];
    for (int i = 0; i < Lanes; i++) lanes[i] = Op::initial();
    int64_t begin = 0;
    for (; begin + Lanes <= n; begin += Lanes) {
      for (int i = 0; i < Lanes; i++) lanes[i] = Op::add(lanes[i], v[begin + i], shift);
    }
    for (int64_t i = begin; i < n; i++) lanes[i - begin] = Op::add(lanes[i - begin], v[i], shift);
    for (int half = Lanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; i++) lanes[i] = Op::combine(lanes[i], lanes[i + half]);
    }
    return lanes[0];
  }

  static void run(void* acc, const void* x, int64_t n, const double* shift_or_null) {
    const X* v = static_cast<const X*>(x);
    A* a = static_cast<A*>(acc);
    double shift = shift_or_null != nullptr ? *shift_or_null : 0.0;
    /* four of the widest registers, and blocks so that a lane adds no more than about a hundred terms */
    constexpr int lanes = 256 / static_cast<int>(sizeof(A) < 4 ? 4 : sizeof(A));
    constexpr int64_t block = 4096;
    if (n < lanes) {
      for (int64_t i = 0; i < n; i++) *a = Op::add(*a, v[i], shift);
      return;
    }
    for (int64_t begin = 0; begin < n; begin += block) {
      *a = Op::combine(*a, run_lanes<lanes>(v + begin, n - begin < block ? n - begin : block, shift));
    }
  }

  static void combine(void* acc, const void* other, int64_t n) {
    A* a = static_cast<A*>(acc);
    const A* b = static_cast<const A*>(other);
    for (int64_t i = 0; i < n; i++) a[i] = Op::combine(a[i], b[i]);
  }
};

template <class Op>
constexpr ReduceOps make_ops(AccKind kind) {
  using L = ReduceLoops<Op>;
  return ReduceOps{sizeof(typename Op::A), kind, &L::init, &L::step, &L::run, &L::combine};
}

/* ---- sums and products ---- */

template <class XType, class AType>
struct SumOp {
  using X = XType;
  using A = AType;
  static constexpr bool kShifted = false;
  static MLXC_INLINE A initial() { return A{}; }
  static MLXC_INLINE A add(A a, X x, double) { return combine(a, cast<A>(x)); }
  static MLXC_INLINE A combine(A a, A b) {
    if constexpr (is_complex<A>) {
      return A{a.re + b.re, a.im + b.im};
    } else {
      return a + b;
    }
  }
};

template <class XType, class AType>
struct ProdOp {
  using X = XType;
  using A = AType;
  static constexpr bool kShifted = false;
  static MLXC_INLINE A initial() { return cast<A>(uint8_t(1)); }
  static MLXC_INLINE A add(A a, X x, double) { return combine(a, cast<A>(x)); }
  static MLXC_INLINE A combine(A a, A b) {
    if constexpr (is_complex<A>) {
      return A{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    } else {
      return a * b;
    }
  }
};

/* ---- extremes ---- */

template <bool Greater, class T>
struct ExtremeOp {
  using X = T;
  using A = T;
  static constexpr bool kShifted = false;
  static MLXC_INLINE A initial() {
    if constexpr (is_complex<T>) {
      using R = decltype(T::re);
      constexpr R end = Greater ? -std::numeric_limits<R>::infinity() : std::numeric_limits<R>::infinity();
      return T{end, end};
    } else if constexpr (is_native_float<T>) {
      return Greater ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
    } else {
      return Greater ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
    }
  }
  static MLXC_INLINE A add(A a, X x, double) { return combine(a, x); }
  static MLXC_INLINE A combine(A a, A b) {
    if constexpr (is_complex<T>) {
      if (a.re != a.re || a.im != a.im) return a;
      if (b.re != b.re || b.im != b.im) return b;
      bool less = a.re < b.re || (a.re == b.re && a.im < b.im);
      return less == Greater ? b : a;
    } else if constexpr (is_native_float<T>) {
      /* the comparison fails for a NaN in b, which is then taken; one in a is put back */
      T picked = (Greater ? a > b : a < b) ? a : b;
      return a != a ? a : picked;
    } else {
      return (Greater ? a > b : a < b) ? a : b;
    }
  }
};

/* ---- logic ---- */

template <bool All, class T>
struct LogicOp {
  using X = T;
  using A = uint8_t;
  static constexpr bool kShifted = false;
  static MLXC_INLINE A initial() { return All; }
  static MLXC_INLINE A add(A a, X x, double) {
    uint8_t truth;
    if constexpr (is_complex<T>) {
      truth = (x.re != 0) | (x.im != 0);
    } else {
      truth = x != 0;
    }
    return combine(a, truth);
  }
  static MLXC_INLINE A combine(A a, A b) { return static_cast<A>(All ? a & b : a | b); }
};

/* ---- sums of exponentials, in double: cancellation in max + log(sum) then costs nothing ---- */

template <class T>
struct ExpSumOp {
  using X = T;
  using A = std::conditional_t<is_complex<T>, Complex128, double>;
  static constexpr bool kShifted = true;
  static MLXC_INLINE A initial() { return A{}; }
  static MLXC_INLINE A add(A a, X x, double shift) {
    if constexpr (is_complex<T>) {
      double size = std::exp(static_cast<double>(x.re) - shift);
      if (x.im == 0 || size == 0) return A{a.re + size, a.im};
      return A{a.re + size * std::cos(static_cast<double>(x.im)),
               a.im + size * std::sin(static_cast<double>(x.im))};
    } else if constexpr (std::is_same_v<T, float>) {
      double difference = static_cast<double>(x) - shift;
      double value = math::exp_core(difference);
      /* exp_core stops at +-300 */
      value = difference == math::kInf ? math::kInf : value;
      return a + (difference == -math::kInf ? 0.0 : value);
    } else {
      return a + std::exp(x - shift);
    }
  }
  static MLXC_INLINE A combine(A a, A b) { return SumOp<A, A>::combine(a, b); }
};

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
