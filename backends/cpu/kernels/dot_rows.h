/* Dot products of dense rows with a few dense vectors: what a product with a few rows is made of.
 *
 * Used by gemv.h and quantized_matmul.cc. R rows of a matrix, as they lie (halves are widened while
 * they are loaded), meet M vectors of the type computed in; each is loaded once. Rule: sums are kept in
 * blocks of kVectorBlock terms, which keeps rounding errors small, and a result does not depend on R or M.
 */
#ifndef MLXC_CPU_DOT_ROWS_H
#define MLXC_CPU_DOT_ROWS_H

#include <utility>

#include "gemm_small.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

constexpr int64_t kVectorBlock = 512;

template <class T>
using VectorIn = typename VectorOf<T, kVectorBytes>::type;
template <class T>
constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));

/* Rows and vectors that a tile has at most: their sums fill half of the registers. */
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kTileRows = 4;
#else
constexpr int kTileRows = 2;
#endif
constexpr int kTileVectors = 4;
/* With one vector only the sums are few, so that more rows fit. */
constexpr int kTallTile = 4;

#if defined(__AVX512F__)
/* The forms of instructions that take a mask, for the plain ones are warned about where they are inlined. */
constexpr __mmask16 kAllLanes = 0xffff;
#endif

/* The next numbers of a row, in the type computed in. */
template <class S, class T>
MLXC_INLINE void load_lanes(const S* from, VectorIn<T>& to) {
  if constexpr (std::is_same_v<S, T>) {
    to = *reinterpret_cast<const VectorIn<T>*>(from);
  } else {
#if defined(__AVX512F__)
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    if constexpr (std::is_same_v<S, Half>) {
      to = (VectorIn<T>)_mm512_maskz_cvtph_ps(kAllLanes, bits);
    } else {
      to = (VectorIn<T>)_mm512_maskz_slli_epi32(kAllLanes, _mm512_maskz_cvtepu16_epi32(kAllLanes, bits), 16);
    }
#elif defined(__AVX2__) && defined(__F16C__)
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    if constexpr (std::is_same_v<S, Half>) {
      to = (VectorIn<T>)_mm256_cvtph_ps(bits);
    } else {
      to = (VectorIn<T>)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
    }
#elif defined(__aarch64__)
    const uint16x4_t bits = vld1_u16(reinterpret_cast<const uint16_t*>(from));
    if constexpr (std::is_same_v<S, Half>) {
      to = (VectorIn<T>)vcvt_f32_f16(vreinterpret_f16_u16(bits));
    } else {
      to = (VectorIn<T>)vshll_n_u16(bits, 16);
    }
#else
    T numbers[kLanes<T>];
    to_float_array(from, numbers, kLanes<T>);
    std::memcpy(&to, numbers, sizeof(to));
#endif
  }
}

/* The sum of N lanes, by halves. */
template <class T, int64_t... I>
MLXC_INLINE T sum_halves(const typename VectorOf<T, static_cast<int>(2 * sizeof...(I) * sizeof(T))>::type& v,
                         std::integer_sequence<int64_t, I...>) {
  constexpr int64_t half = sizeof...(I);
  if constexpr (half * sizeof(T) < 16) {
    return v[0] + v[1];
  } else {
    const typename VectorOf<T, static_cast<int>(half * sizeof(T))>::type sums =
        __builtin_shufflevector(v, v, I...) + __builtin_shufflevector(v, v, (I + half)...);
    if constexpr (half == 4) {
      return (sums[0] + sums[2]) + (sums[1] + sums[3]);
    } else {
      return sum_halves<T>(sums, std::make_integer_sequence<int64_t, half / 2>{});
    }
  }
}

#if defined(__AVX512F__)
/* The sums of four registers, which share most steps: (0 + 2) + (1 + 3) of every four lanes, then by halves.
 */
MLXC_INLINE void sum_four(const VectorIn<float>& a, const VectorIn<float>& b, const VectorIn<float>& c,
                          const VectorIn<float>& d, float* out) {
  using V = VectorIn<float>;
  const auto pair = [](const V& x, const V& y) -> V {
    return __builtin_shufflevector(x, y, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
           __builtin_shufflevector(x, y, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  };
  const V near = pair(a, b), far = pair(c, d);
  const V quads =
      __builtin_shufflevector(near, far, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
      __builtin_shufflevector(near, far, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  const VectorOf<float, 32>::type halves =
      __builtin_shufflevector(quads, quads, 0, 1, 2, 3, 4, 5, 6, 7) +
      __builtin_shufflevector(quads, quads, 8, 9, 10, 11, 12, 13, 14, 15);
  *reinterpret_cast<VectorOf<float, 16>::type*>(out) = __builtin_shufflevector(halves, halves, 0, 1, 2, 3) +
                                                       __builtin_shufflevector(halves, halves, 4, 5, 6, 7);
}
#endif

template <class T>
MLXC_INLINE T sum_lanes(const VectorIn<T>& v) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float>) {
    float sums[4];
    sum_four(v, v, v, v, sums);
    return sums[0];
  }
#endif
  if constexpr (kLanes<T> == 4) {
    return (v[0] + v[2]) + (v[1] + v[3]);
  } else {
    return sum_halves<T>(v, std::make_integer_sequence<int64_t, kLanes<T> / 2>{});
  }
}

/* The same for R registers. */
template <class T, int R>
MLXC_INLINE void sum_registers(const VectorIn<T> (&v)[R], T (&out)[R]) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float> && R == 4) return sum_four(v[0], v[1], v[2], v[3], out);
#endif
  for (int r = 0; r < R; r++) out[r] = sum_lanes<T>(v[r]);
}

/* sums[r][m] = row r times vector m, all of n numbers. */
template <class S, class T, int R, int M>
MLXC_NOINLINE void dot_tile(const S* rows, int64_t row, const T* x, int64_t x_row, int64_t n,
                            T (&sums)[R][M]) {
  using V = VectorIn<T>;
  constexpr int64_t W = kLanes<T>;
  V total[R][M] = {};
  int64_t i = 0;
  while (i + W <= n) {
    const int64_t stop = std::min(i + kVectorBlock, n);
    V part[R][M] = {};
    for (; i + W <= stop; i += W) {
      V near[M];
      for (int m = 0; m < M; m++) near[m] = *reinterpret_cast<const V*>(x + m * x_row + i);
      for (int r = 0; r < R; r++) {
        V a;
        load_lanes<S, T>(rows + r * row + i, a);
        for (int m = 0; m < M; m++) part[r][m] = multiply_add<V>(a, near[m], part[r][m]);
      }
    }
    for (int r = 0; r < R; r++) {
      for (int m = 0; m < M; m++) total[r][m] += part[r][m];
    }
  }
  for (int m = 0; m < M; m++) {
    V column[R];
    T whole[R];
    for (int r = 0; r < R; r++) column[r] = total[r][m];
    sum_registers<T, R>(column, whole);
    for (int r = 0; r < R; r++) {
      T rest = T(0);
      for (int64_t j = i; j < n; j++) rest += cast<T>(rows[r * row + j]) * x[m * x_row + j];
      sums[r][m] = whole[r] + rest;
    }
  }
}

/* Rows [begin, end) of a, which lie dense, with `count` vectors: put(row, vector, sum) gets each product. */
template <class S, class T, class Put>
MLXC_INLINE void dot_all(const S* rows, int64_t row, int64_t begin, int64_t end, const T* x, int64_t x_row,
                         int64_t count, int64_t n, const Put& put) {
  const auto tile = [&](auto r_tag, auto m_tag, int64_t r, int64_t m) {
    constexpr int R = decltype(r_tag)::value, M = decltype(m_tag)::value;
    T sums[R][M];
    dot_tile<S, T, R, M>(rows + r * row, row, x + m * x_row, x_row, n, sums);
    for (int i = 0; i < R; i++) {
      for (int k = 0; k < M; k++) put(r + i, m + k, sums[i][k]);
    }
  };
  using std::integral_constant;
  const auto pass = [&](auto r_tag, int64_t r) {
    int64_t m = 0;
    for (; m + kTileVectors <= count; m += kTileVectors)
      tile(r_tag, integral_constant<int, kTileVectors>{}, r, m);
    if (count - m == 3) return tile(r_tag, integral_constant<int, 3>{}, r, m);
    if (count - m == 2) return tile(r_tag, integral_constant<int, 2>{}, r, m);
    if (count - m == 1) tile(r_tag, integral_constant<int, 1>{}, r, m);
  };
  int64_t r = begin;
  if (count == 1) {
    for (; r + kTallTile <= end; r += kTallTile)
      tile(integral_constant<int, kTallTile>{}, integral_constant<int, 1>{}, r, 0);
  }
  for (; r + kTileRows <= end; r += kTileRows) pass(integral_constant<int, kTileRows>{}, r);
  for (; r < end; r++) pass(integral_constant<int, 1>{}, r);
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
