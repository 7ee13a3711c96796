/* float16 and bfloat16: storage types and conversions to and from float32.
 *
 * Used by every kernel that computes halves in float32. Conversions round to nearest even, keep NaN (made
 * quiet), infinities, signed zeros and subnormals, and the array forms vectorise on every instruction set.
 */
#ifndef MLXC_CPU_HALF_H
#define MLXC_CPU_HALF_H

#include <cstring>

#include "kernel.h"

#if defined(__F16C__) && defined(__AVX__)
#include <immintrin.h>
#endif

namespace mlxc_cpu {
inline namespace MLXC_ISA {

struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};

template <class To, class From>
MLXC_INLINE To bit_cast(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(&result, &value, sizeof(To));
  return result;
}

MLXC_INLINE float to_float(BFloat value) { return bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

MLXC_INLINE BFloat to_bfloat(float value) {
  uint32_t bits = bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  uint32_t nan = (bits >> 16) | 0x40u;
  return BFloat{static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

MLXC_INLINE float to_float(Half value) {
#if defined(__F16C__) && defined(__AVX__)
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(value.bits)));
#else
  /* Shift exponent and mantissa into place; the multiplication by 2^112 rebias normal and subnormal alike. */
  uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  uint32_t magnitude = static_cast<uint32_t>(value.bits & 0x7fffu) << 13;
  uint32_t scaled = bit_cast<uint32_t>(bit_cast<float>(magnitude) * 0x1p112f);
  uint32_t special = magnitude | 0x7f800000u | ((magnitude & 0x7fffffu) ? 0x400000u : 0u);
  return bit_cast<float>(sign | (magnitude >= 0x0f800000u ? special : scaled));
#endif
}

MLXC_INLINE Half to_half(float value) {
#if defined(__F16C__) && defined(__AVX__)
  return Half{static_cast<uint16_t>(
      _mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_NEAREST_INT), 0))};
#else
  uint32_t bits = bit_cast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  /* Below 2^-14 the addition of one half aligns the mantissa so that the hardware rounds it. */
  uint32_t subnormal = bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t special = magnitude > 0x7f800000u ? (0x7e00u | ((magnitude >> 13) & 0x3ffu)) : 0x7c00u;
  uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  return Half{static_cast<uint16_t>(sign | (magnitude >= 0x477ff000u ? special : result))};
#endif
}

MLXC_INLINE void to_float_array(const BFloat* source, float* result, int64_t n) {
  for (int64_t i = 0; i < n; i++) result[i] = to_float(source[i]);
}

MLXC_INLINE void from_float_array(const float* source, BFloat* result, int64_t n) {
  for (int64_t i = 0; i < n; i++) result[i] = to_bfloat(source[i]);
}

MLXC_INLINE void to_float_array(const Half* source, float* result, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__) && defined(__AVX__)
  for (; i + 8 <= n; i += 8) {
    __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
    _mm256_storeu_ps(result + i, _mm256_cvtph_ps(bits));
  }
#endif
  for (; i < n; i++) result[i] = to_float(source[i]);
}

MLXC_INLINE void from_float_array(const float* source, Half* result, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__) && defined(__AVX__)
  for (; i + 8 <= n; i += 8) {
    __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(result + i), bits);
  }
#endif
  for (; i < n; i++) result[i] = to_half(source[i]);
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
