/* How scatter combines an update with what is there: the modes of ops.toml.
 *
 * Used by index.cc. NaN wins over everything in maximum and minimum; complex numbers compare by real, then
 * imaginary part; integers wrap; on bool, add is "or" and multiply is "and". Halves are combined as float:
 * the caller keeps a sum in float and rounds it once.
 */
#ifndef MLXC_CPU_COMBINE_H
#define MLXC_CPU_COMBINE_H

#include "dtype.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

enum class Mode : int32_t { kSet = 0, kAdd = 1, kMultiply = 2, kMaximum = 3, kMinimum = 4 };

template <class T>
MLXC_INLINE bool is_nan(T value) {
  if constexpr (is_complex<T>) {
    return value.re != value.re || value.im != value.im;
  } else {
    return value != value;
  }
}

template <class T>
MLXC_INLINE bool is_less(T a, T b) {
  if constexpr (is_complex<T>) {
    return a.re < b.re || (a.re == b.re && a.im < b.im);
  } else {
    return a < b;
  }
}

template <Mode M, class T>
MLXC_INLINE T combine(T old, T update) {
  if constexpr (M == Mode::kSet) {
    return update;
  } else if constexpr (M == Mode::kMaximum) {
    return is_nan(old) || is_less(update, old) ? old : update;
  } else if constexpr (M == Mode::kMinimum) {
    return is_nan(old) || is_less(old, update) ? old : update;
  } else if constexpr (std::is_same_v<T, bool>) {
    return M == Mode::kAdd ? (old | update) != 0 : (old & update) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    /* Unsigned and at least 32 bits wide, so that overflow is defined. */
    using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    const U x = static_cast<U>(old), y = static_cast<U>(update);
    return static_cast<T>(M == Mode::kAdd ? x + y : x * y);
  } else if constexpr (is_complex<T>) {
    if constexpr (M == Mode::kAdd) return T{old.re + update.re, old.im + update.im};
    return T{old.re * update.re - old.im * update.im, old.re * update.im + old.im * update.re};
  } else {
    return M == Mode::kAdd ? old + update : old * update;
  }
}

/* Calls fn(std::integral_constant<Mode, M>{}) for a mode other than set. */
template <class F>
MLXC_INLINE decltype(auto) visit_mode(Mode mode, const F& fn) {
  switch (mode) {
    case Mode::kAdd: return fn(std::integral_constant<Mode, Mode::kAdd>{});
    case Mode::kMultiply: return fn(std::integral_constant<Mode, Mode::kMultiply>{});
    case Mode::kMaximum: return fn(std::integral_constant<Mode, Mode::kMaximum>{});
    default: return fn(std::integral_constant<Mode, Mode::kMinimum>{});
  }
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
