/* Packed codes and scales of quantised matrices, and how they become numbers.
 *
 * Used by the families quantize and quantized_matmul. Codes are read 32 at a time, as four vectors of eight,
 * in an order of their own that needs no shuffling: `code_index` says which code a place holds. A matrix
 * product puts x into the same order once and never undoes it. Rule: nothing outside of a row's bytes is
 * read.
 */
#ifndef MLXC_CPU_QUANTIZED_H
#define MLXC_CPU_QUANTIZED_H

#include <cmath>

#include "kernels/gemv.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

enum class QuantMode : int32_t { affine = 0, mxfp4 = 1, mxfp8 = 2, nvfp4 = 3 };

using Floats = VectorOf<float, 32>::type;
using Words = VectorOf<uint32_t, 32>::type;
typedef int32_t Ints __attribute__((vector_size(32), aligned(4), may_alias));

/* Codes of one unit of unpacking. */
constexpr int64_t kUnit = 32;

/* sum += a b, rounded once where the CPU can. By reference: vectors wider than registers are no return
 * values. */
MLXC_INLINE void add_product(const Floats& a, const Floats& b, Floats& sum) {
#if defined(__FMA__)
  sum = (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#elif defined(__aarch64__)
  const auto* x = reinterpret_cast<const float32x4_t*>(&a);
  const auto* y = reinterpret_cast<const float32x4_t*>(&b);
  auto* to = reinterpret_cast<float32x4_t*>(&sum);
  to[0] = vfmaq_f32(to[0], x[0], y[0]);
  to[1] = vfmaq_f32(to[1], x[1], y[1]);
#else
  sum += a * b;
#endif
}

template <class T>
MLXC_INLINE T read_bytes(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/* 32 codes from 4 * Bits bytes. */
template <int Bits>
MLXC_INLINE void unpack_codes(const uint8_t* from, Ints (&out)[4]) {
#if defined(__AVX2__)
  if constexpr (Bits == 8) {
    for (int v = 0; v < 4; v++) {
      out[v] = (Ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + 8 * v)));
    }
    return;
  }
#endif
  /* Eight codes in Bits bytes: the first four are in one word, the others in the same or in a second one. */
  constexpr int second = Bits == 8 ? 4 : Bits == 6 ? 2 : Bits == 5 ? 1 : 0;
  constexpr int b = Bits, s = 4 * Bits - 8 * second;
  const Words shifts = {0, b, 2 * b, 3 * b, s, s + b, s + 2 * b, s + 3 * b};
  constexpr uint32_t mask = (1u << Bits) - 1;
  for (int v = 0; v < 4; v++) {
    const uint8_t* at = from + Bits * v;
    uint32_t low, high;
    if constexpr (Bits == 1) {
      low = high = at[0];
    } else if constexpr (Bits == 2) {
      low = high = read_bytes<uint16_t>(at);
    } else if constexpr (Bits == 3) {
      low = high = read_bytes<uint16_t>(at) | static_cast<uint32_t>(at[2]) << 16;
    } else if constexpr (Bits == 4) {
      low = high = read_bytes<uint32_t>(at);
    } else {
      low = read_bytes<uint32_t>(at);
      high = read_bytes<uint32_t>(at + second);
    }
    const Words words = {low, low, low, low, high, high, high, high};
    out[v] = (Ints)((words >> shifts) & mask);
  }
}

/* Eight small floats with a sign, E bits of exponent and M of mantissa as floats. */
template <int E, int M>
MLXC_INLINE void decode_floats(const Ints& codes, Floats* out) {
#if defined(__AVX2__)
  if constexpr (E == 2 && M == 1) {
    const __m256 table = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
    const Floats magnitude = (Floats)_mm256_permutevar8x32_ps(table, (__m256i)codes);
    *out = (Floats)((Ints)magnitude | ((codes >> 3) << 31));
    return;
  }
#endif
  constexpr int bias = (1 << (E - 1)) - 1;
  constexpr float least = E == 2 ? 0.5f : 0x1p-9f;
  const Ints magnitude = codes & ((1 << (E + M)) - 1);
  const Ints normal = (magnitude << (23 - M)) + ((127 - bias) << 23);
  const Floats tiny = __builtin_convertvector(magnitude, Floats) * least;
  const Ints is_tiny = magnitude < (1 << M);
  Ints bits = (is_tiny & (Ints)tiny) | (~is_tiny & normal);
  if constexpr (E == 4) bits |= (magnitude == 127) & 0x7fc00000;
  *out = (Floats)(bits | ((codes >> (E + M)) << 31));
}

/* 32 codes as floats, not yet scaled. */
template <QuantMode Mode, int Bits>
MLXC_INLINE void unpack_floats(const uint8_t* from, Floats (&out)[4]) {
  Ints codes[4];
  unpack_codes<Bits>(from, codes);
  for (int v = 0; v < 4; v++) {
    if constexpr (Mode == QuantMode::affine) {
      out[v] = __builtin_convertvector(codes[v], Floats);
    } else if constexpr (Bits == 4) {
      decode_floats<2, 1>(codes[v], &out[v]);
    } else {
      decode_floats<4, 3>(codes[v], &out[v]);
    }
  }
}

MLXC_INLINE float decode_e4m3(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu, sign = static_cast<uint32_t>(code & 0x80u) << 24;
  if (magnitude < 8)
    return bit_cast<float>(bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-9f) | sign);
  return bit_cast<float>((magnitude == 127 ? 0x7fc00000u : (magnitude << 20) + (120u << 23)) | sign);
}

MLXC_INLINE float decode_e8m0(uint8_t code) {
  return bit_cast<float>(code == 0     ? 0x00400000u
                         : code == 255 ? 0x7fc00000u
                                       : static_cast<uint32_t>(code) << 23);
}

/* To the nearest, ties to even; what is too great becomes the greatest number, 448. */
MLXC_INLINE uint8_t encode_e4m3(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const uint32_t sign = (bits >> 24) & 0x80u;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  uint32_t code;
  if (magnitude < (121u << 23)) {
    /* The addition aligns the mantissa so that it is rounded to a multiple of 2^-9. */
    code = bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0x1p14f) - bit_cast<uint32_t>(0x1p14f);
  } else {
    const uint32_t rounded = (magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;
    code = rounded - (120u << 3);
    if (code > 0x7eu) code = 0x7eu;
  }
  return static_cast<uint8_t>(sign | code);
}

/* A quantised matrix in memory. Scales and biases are of scale_dtype in affine mode, else bytes. */
struct QuantizedMatrix {
  const uint8_t* codes;
  const char* scales;
  const char* biases;
  mlxc_dtype scale_dtype;
  QuantMode mode;
  int32_t bits;
  int64_t group_size;
  int64_t rows;
  int64_t columns;

  int64_t groups() const { return columns / group_size; }
  int64_t row_bytes() const { return columns * bits / 8; }
  /* The matrix `count` matrices further on. */
  QuantizedMatrix at(int64_t count) const {
    QuantizedMatrix other = *this;
    const int64_t scale_bytes = count * rows * groups() * size_of(scale_dtype);
    other.codes += count * rows * row_bytes();
    other.scales += scale_bytes;
    if (biases) other.biases += scale_bytes;
    return other;
  }
};

/* `n` scales or biases from the `first` on, in the type T that is computed in. Gives the place they are at:
 * in the matrix itself if they are of that type, else in `to`. */
template <class T>
MLXC_INLINE const T* read_scales(const QuantizedMatrix& w, const char* from, int64_t first, int64_t n,
                                 T* to) {
  switch (w.scale_dtype) {
    case MLXC_FLOAT16: {
      const Half* values = reinterpret_cast<const Half*>(from) + first;
      if constexpr (std::is_same_v<T, float>) {
        to_float_array(values, to, n);
      } else {
        for (int64_t i = 0; i < n; i++) to[i] = static_cast<T>(to_float(values[i]));
      }
      return to;
    }
    case MLXC_BFLOAT16: {
      const BFloat* values = reinterpret_cast<const BFloat*>(from) + first;
      for (int64_t i = 0; i < n; i++) to[i] = static_cast<T>(to_float(values[i]));
      return to;
    }
    case MLXC_FLOAT32: {
      const float* values = reinterpret_cast<const float*>(from) + first;
      if constexpr (std::is_same_v<T, float>) return values;
      for (int64_t i = 0; i < n; i++) to[i] = static_cast<T>(values[i]);
      return to;
    }
    case MLXC_FLOAT64: {
      const double* values = reinterpret_cast<const double*>(from) + first;
      if constexpr (std::is_same_v<T, double>) return values;
      for (int64_t i = 0; i < n; i++) to[i] = static_cast<T>(values[i]);
      return to;
    }
    default: {
      const uint8_t* values = reinterpret_cast<const uint8_t*>(from) + first;
      const bool e4m3 = w.mode == QuantMode::nvfp4;
      for (int64_t i = 0; i < n; i++) {
        to[i] = static_cast<T>(e4m3 ? decode_e4m3(values[i]) : decode_e8m0(values[i]));
      }
      return to;
    }
  }
}

/* Calls fn with the mode and the number of bits as constants. */
template <class F>
MLXC_INLINE decltype(auto) visit_packing(QuantMode mode, int32_t bits, const F& fn) {
  using M = QuantMode;
  const auto call = [&](auto m, auto b) { return fn(m, b); };
  switch (mode) {
    case M::mxfp4: return call(std::integral_constant<M, M::mxfp4>{}, std::integral_constant<int, 4>{});
    case M::mxfp8: return call(std::integral_constant<M, M::mxfp8>{}, std::integral_constant<int, 8>{});
    case M::nvfp4: return call(std::integral_constant<M, M::nvfp4>{}, std::integral_constant<int, 4>{});
    default: break;
  }
  constexpr std::integral_constant<M, M::affine> affine{};
  switch (bits) {
    case 1: return call(affine, std::integral_constant<int, 1>{});
    case 2: return call(affine, std::integral_constant<int, 2>{});
    case 3: return call(affine, std::integral_constant<int, 3>{});
    case 4: return call(affine, std::integral_constant<int, 4>{});
    case 5: return call(affine, std::integral_constant<int, 5>{});
    case 6: return call(affine, std::integral_constant<int, 6>{});
    default: return call(affine, std::integral_constant<int, 8>{});
  }
}

/* Numbers of one row in their own order. `scales` and `biases` have room for a row's scales. */
template <QuantMode Mode, int Bits, class T>
MLXC_INLINE void dequantize_row(const QuantizedMatrix& w, int64_t row, T* scale_room, T* bias_room, T* out) {
  const int64_t groups = w.groups();
  const T* scales = read_scales<T>(w, w.scales, row * groups, groups, scale_room);
  const T* biases = nullptr;
  if constexpr (Mode == QuantMode::affine) {
    biases = read_scales<T>(w, w.biases, row * groups, groups, bias_room);
  }
  const uint8_t* codes = w.codes + row * w.row_bytes();
  if constexpr (std::is_same_v<T, float> && Mode != QuantMode::nvfp4) {
    /* Groups are whole units, whose scale and bias stay in registers. */
    for (int64_t g = 0; g < groups; g++) {
      const Floats scale = Floats{} + scales[g];
      Floats bias = {};
      if constexpr (Mode == QuantMode::affine) bias += biases[g];
      for (int64_t i = 0; i < w.group_size; i += kUnit, codes += kUnit * Bits / 8, out += kUnit) {
        Floats unpacked[4];
        unpack_floats<Mode, Bits>(codes, unpacked);
        for (int v = 0; v < 4; v++) {
          Floats value = unpacked[v] * scale;
          if constexpr (Mode == QuantMode::affine) value += bias;
          *reinterpret_cast<Floats*>(out + 8 * v) = value;
        }
      }
    }
    return;
  }
  const auto put = [&](const uint8_t* from, int64_t first, int64_t count) {
    Floats unpacked[4];
    unpack_floats<Mode, Bits>(from, unpacked);
    alignas(32) float values[kUnit];
    std::memcpy(values, unpacked, sizeof(values));
    for (int64_t i = 0; i < count; i++) {
      const int64_t group = (first + i) / w.group_size;
      T value = static_cast<T>(values[i]) * scales[group];
      if constexpr (Mode == QuantMode::affine) value += biases[group];
      out[first + i] = value;
    }
  };
  int64_t i = 0;
  for (; i + kUnit <= w.columns; i += kUnit) put(codes + i * Bits / 8, i, kUnit);
  if (i < w.columns) {
    uint8_t rest[kUnit * Bits / 8] = {};
    std::memcpy(rest, codes + i * Bits / 8, static_cast<size_t>((w.columns - i) * Bits / 8));
    put(rest, i, w.columns - i);
  }
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
