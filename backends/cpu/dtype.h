/* C++ types of the element types, their traits, and the cast between any two of them.
 *
 * Used by all kernels. `visit_dtype` turns a run-time dtype into a type; `cast<To>(value)` is the one
 * definition of conversion: never undefined, float to integer truncates and out-of-range values give what
 * x86 gives (the low bits of the integer-indefinite value), anything to bool is `!= 0`, complex to real drops
 * the imaginary part.
 */
#ifndef MLXC_CPU_DTYPE_H
#define MLXC_CPU_DTYPE_H

#include <type_traits>

#include "half.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

template <class T>
struct Complex {
  T re;
  T im;
};
using Complex64 = Complex<float>;
using Complex128 = Complex<double>;

/* Bytes of an element; 0 for an unknown dtype. */
constexpr int64_t size_of(mlxc_dtype dtype) {
  constexpr int8_t sizes[MLXC_DTYPE_COUNT] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return dtype >= 0 && dtype < MLXC_DTYPE_COUNT ? sizes[dtype] : 0;
}

template <mlxc_dtype D>
struct TypeOf;
template <class T>
struct DtypeOf;
#define MLXC_MAP_DTYPE(D, T)               \
  template <>                              \
  struct TypeOf<D> {                       \
    using type = T;                        \
  };                                       \
  template <>                              \
  struct DtypeOf<T> {                      \
    static constexpr mlxc_dtype value = D; \
  };
MLXC_MAP_DTYPE(MLXC_BOOL, bool)
MLXC_MAP_DTYPE(MLXC_UINT8, uint8_t)
MLXC_MAP_DTYPE(MLXC_UINT16, uint16_t)
MLXC_MAP_DTYPE(MLXC_UINT32, uint32_t)
MLXC_MAP_DTYPE(MLXC_UINT64, uint64_t)
MLXC_MAP_DTYPE(MLXC_INT8, int8_t)
MLXC_MAP_DTYPE(MLXC_INT16, int16_t)
MLXC_MAP_DTYPE(MLXC_INT32, int32_t)
MLXC_MAP_DTYPE(MLXC_INT64, int64_t)
MLXC_MAP_DTYPE(MLXC_FLOAT16, Half)
MLXC_MAP_DTYPE(MLXC_BFLOAT16, BFloat)
MLXC_MAP_DTYPE(MLXC_FLOAT32, float)
MLXC_MAP_DTYPE(MLXC_FLOAT64, double)
MLXC_MAP_DTYPE(MLXC_COMPLEX64, Complex64)
MLXC_MAP_DTYPE(MLXC_COMPLEX128, Complex128)
#undef MLXC_MAP_DTYPE

template <class T>
constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;
template <class T>
constexpr bool is_complex = std::is_same_v<T, Complex64> || std::is_same_v<T, Complex128>;
/* float and double, not the halves */
template <class T>
constexpr bool is_native_float = std::is_floating_point_v<T>;
template <class T>
constexpr bool is_integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;

/* What a dtype is computed in: halves in float, the rest in themselves. */
template <class T>
using ComputeOf = std::conditional_t<is_half<T>, float, T>;

template <class T>
struct Tag {
  using type = T;
};

/* Calls fn(Tag<T>{}) with the type of `dtype`, and returns what it returns. */
template <class F>
MLXC_INLINE decltype(auto) visit_dtype(mlxc_dtype dtype, const F& fn) {
  switch (dtype) {
    case MLXC_BOOL: return fn(Tag<bool>{});
    case MLXC_UINT8: return fn(Tag<uint8_t>{});
    case MLXC_UINT16: return fn(Tag<uint16_t>{});
    case MLXC_UINT32: return fn(Tag<uint32_t>{});
    case MLXC_UINT64: return fn(Tag<uint64_t>{});
    case MLXC_INT8: return fn(Tag<int8_t>{});
    case MLXC_INT16: return fn(Tag<int16_t>{});
    case MLXC_INT32: return fn(Tag<int32_t>{});
    case MLXC_INT64: return fn(Tag<int64_t>{});
    case MLXC_FLOAT16: return fn(Tag<Half>{});
    case MLXC_BFLOAT16: return fn(Tag<BFloat>{});
    case MLXC_FLOAT32: return fn(Tag<float>{});
    case MLXC_FLOAT64: return fn(Tag<double>{});
    case MLXC_COMPLEX64: return fn(Tag<Complex64>{});
    default: return fn(Tag<Complex128>{});
  }
}

/* Calls fn(Tag<U>{}) with an unsigned type of `size` bytes (1, 2, 4, 8) or Complex128 for 16: enough to move
 * elements about without knowing their dtype. */
template <class F>
MLXC_INLINE decltype(auto) visit_size(int64_t size, const F& fn) {
  switch (size) {
    case 1: return fn(Tag<uint8_t>{});
    case 2: return fn(Tag<uint16_t>{});
    case 4: return fn(Tag<uint32_t>{});
    case 8: return fn(Tag<uint64_t>{});
    default: return fn(Tag<Complex128>{});
  }
}

template <class To, class From>
MLXC_INLINE To cast_float_to_integer(From value) {
  if constexpr (std::is_same_v<To, uint64_t>) {
    if (value >= From(0x1p63)) {
      return value < From(0x1p64) ? static_cast<uint64_t>(value) : UINT64_C(0x8000000000000000);
    }
    return value >= From(-0x1p63) ? static_cast<uint64_t>(static_cast<int64_t>(value))
                                  : UINT64_C(0x8000000000000000);
  } else if constexpr (std::is_same_v<To, int64_t> || std::is_same_v<To, uint32_t>) {
    bool inside = value >= From(-0x1p63) && value < From(0x1p63);
    return static_cast<To>(inside ? static_cast<int64_t>(value) : INT64_MIN);
  } else {
    constexpr From lowest = std::is_same_v<From, double> ? From(-2147483649.0) : From(-2147483904.0);
    bool inside = value > lowest && value < From(0x1p31);
    return static_cast<To>(inside ? static_cast<int32_t>(value) : INT32_MIN);
  }
}

template <class To, class From>
MLXC_INLINE To cast(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_half<From>) {
    return cast<To>(to_float(value));
  } else if constexpr (is_complex<To>) {
    using R = decltype(To::re);
    if constexpr (is_complex<From>) {
      return To{static_cast<R>(value.re), static_cast<R>(value.im)};
    } else {
      return To{cast<R>(value), R(0)};
    }
  } else if constexpr (is_complex<From>) {
    if constexpr (std::is_same_v<To, bool>) {
      return value.re != 0 || value.im != 0;
    } else {
      return cast<To>(value.re);
    }
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat>) {
    float single;
    if constexpr (std::is_same_v<From, double> || (std::is_integral_v<From> && sizeof(From) >= 4)) {
      /* Two roundings would be one too many: round to odd first, so that the second one is right. */
      double wide = static_cast<double>(value);
      single = static_cast<float>(wide);
      uint32_t bits = bit_cast<uint32_t>(single);
      double back = single;
      double magnitude = wide < 0 ? -wide : wide;
      double back_magnitude = back < 0 ? -back : back;
      bool finite = (bits & 0x7f800000u) != 0x7f800000u;
      uint32_t odd = (back_magnitude > magnitude ? bits - 1 : bits) | 1u;
      single = bit_cast<float>(finite && back != wide ? odd : bits);
    } else {
      single = static_cast<float>(value);
    }
    if constexpr (std::is_same_v<To, Half>) {
      return to_half(single);
    } else {
      return to_bfloat(single);
    }
  } else if constexpr (is_native_float<From> && std::is_integral_v<To>) {
    return cast_float_to_integer<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
