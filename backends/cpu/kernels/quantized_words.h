/* A few rows of x times the transpose of a packed matrix, a register of 32-bit words of codes at a time.
 *
 * Used by quantized_matmul.cc for codes of 4 and 8 bits, of which a word holds whole ones. Code j of every
 * word of the register becomes a number by one shift and one conversion, and meets numbers of x that were put
 * into that order once. A lane belongs to one group, so a scale multiplies the sum over a register; a bias
 * multiplies the sum of x over its group. Rule: nothing outside of a row's bytes is read.
 */
#ifndef MLXC_CPU_QUANTIZED_WORDS_H
#define MLXC_CPU_QUANTIZED_WORDS_H

#include "quantized.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

using FloatLanes = VectorIn<float>;
using WordLanes = VectorOf<uint32_t, kVectorBytes>::type;
typedef int32_t IntLanes __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
constexpr int64_t kWords = kVectorBytes / 4;

template <QuantMode Mode, int Bits>
constexpr bool fits_words() {
#if defined(__AVX512F__)
  if (Bits == 4) return true;
#endif
  return Mode == QuantMode::affine && (Bits == 4 || Bits == 8);
}

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* x in the order of the codes, and its sums over groups. Rows are padded with zeros to whole registers of
 * codes, and sums to whole registers. */
struct OrderedRows {
  int64_t x_row, sum_row, groups, lanes; /* of a group: how many words it fills */
  float* x;
  float* sums;

  OrderedRows(int64_t inner, int bits, int64_t group_size)
      : x_row(round_up(inner, kWords * 32 / bits)),
        sum_row(round_up(inner / group_size, kWords)),
        groups(inner / group_size),
        lanes(group_size * bits / 32) {}
  size_t bytes(int64_t rows) const { return static_cast<size_t>(rows * (x_row + sum_row)) * sizeof(float); }
};

/* Whether the last words of a row, if they fill half a register at most, are halved: one half of their codes
 * in the lower lanes, the other in the upper. */
template <int Bits>
constexpr bool kSplitsWords = Bits == 4 && kWords == 16;

template <int Bits>
MLXC_INLINE void order_row(const float* x, int64_t n, float* to) {
  constexpr int64_t codes = 32 / Bits, block = kWords * codes;
  int64_t i = 0;
  for (; i + block <= n; i += block) {
    for (int64_t j = 0; j < codes; j++) {
      for (int64_t lane = 0; lane < kWords; lane++) to[i + j * kWords + lane] = x[i + lane * codes + j];
    }
  }
  if (i == n) return;
  if (kSplitsWords<Bits> && 2 * (n - i) <= block) {
    for (int64_t j = 0; j < codes / 2; j++) {
      for (int64_t lane = 0; lane < kWords; lane++) {
        const int64_t from = i + lane % (kWords / 2) * codes + lane / (kWords / 2) * (codes / 2) + j;
        to[i + j * kWords + lane] = from < n ? x[from] : 0.0f;
      }
    }
    return;
  }
  for (int64_t j = 0; j < codes; j++) {
    for (int64_t lane = 0; lane < kWords; lane++) {
      const int64_t from = i + lane * codes + j;
      to[i + j * kWords + lane] = from < n ? x[from] : 0.0f;
    }
  }
}

MLXC_INLINE void sum_groups(const float* x, int64_t groups, int64_t group_size, float* sums, int64_t room) {
  for (int64_t g = 0; g < groups; g++, x += group_size) {
    FloatLanes sum = {};
    for (int64_t i = 0; i < group_size; i += kWords) sum += *reinterpret_cast<const FloatLanes*>(x + i);
    sums[g] = sum_lanes<float>(sum);
  }
  for (int64_t g = groups; g < room; g++) sums[g] = 0.0f;
}

/* The next words of a row; lanes past `count` are zero. */
MLXC_INLINE void load_words(const uint8_t* from, int64_t count, WordLanes& to) {
  if (count >= kWords) {
    std::memcpy(&to, from, sizeof(to));
    return;
  }
#if defined(__AVX512F__)
  to = (WordLanes)_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << count) - 1), from);
#else
  to = WordLanes{};
  std::memcpy(&to, from, static_cast<size_t>(4 * count));
#endif
}

#if defined(__AVX512F__)
/* At most half a register of words: as they are in the lower lanes, their upper halves in the upper lanes. */
template <int Bits>
MLXC_INLINE void load_halves(const uint8_t* from, int64_t count, WordLanes& to) {
  const __m256i words = _mm256_maskz_loadu_epi32(static_cast<__mmask8>((1u << count) - 1), from);
  VectorOf<uint32_t, 32>::type lower;
  std::memcpy(&lower, &words, sizeof(lower));
  const auto upper = lower >> 16;
  to = __builtin_shufflevector(lower, upper, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
#endif

/* The lowest code of each word as a number. */
template <QuantMode Mode, int Bits>
MLXC_INLINE void convert_codes(const WordLanes& words, FloatLanes& to) {
#if defined(__AVX512F__)
  if constexpr (Bits == 4) {
    /* Only the low four bits of an index count. */
    const __m512 table =
        Mode == QuantMode::affine
            ? _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
            : _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
    to = (FloatLanes)_mm512_maskz_permutexvar_ps(kAllLanes, (__m512i)words, table);
    return;
  }
#endif
  constexpr uint32_t mask = (1u << Bits) - 1;
  to = __builtin_convertvector((IntLanes)(words & mask), FloatLanes);
}

/* to[lane] = scales[place[lane]] */
MLXC_INLINE void spread_scales(const FloatLanes& scales, const IntLanes& place, FloatLanes& to) {
#if defined(__AVX512F__)
  to = (FloatLanes)_mm512_maskz_permutexvar_ps(kAllLanes, (__m512i)place, (__m512)scales);
#elif defined(__AVX2__)
  to = (FloatLanes)_mm256_permutevar8x32_ps((__m256)scales, (__m256i)place);
#else
  for (int64_t lane = 0; lane < kWords; lane++) to[lane] = scales[place[lane]];
#endif
}

/* At most kWords numbers as floats; lanes past `n` are zero. */
template <class S>
MLXC_INLINE void load_some(const S* from, int64_t n, FloatLanes& to) {
#if defined(__AVX512F__)
  const auto mask = static_cast<__mmask16>(n >= kWords ? 0xffffu : (1u << n) - 1);
  if constexpr (std::is_same_v<S, float>) {
    to = (FloatLanes)_mm512_maskz_loadu_ps(mask, from);
  } else {
    const __m256i bits = _mm256_maskz_loadu_epi16(mask, from);
    if constexpr (std::is_same_v<S, Half>) {
      to = (FloatLanes)_mm512_maskz_cvtph_ps(kAllLanes, bits);
    } else {
      const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAllLanes, bits);
      to = (FloatLanes)_mm512_maskz_slli_epi32(kAllLanes, wide, 16);
    }
  }
#else
  S room[kWords] = {};
  std::memcpy(room, from, static_cast<size_t>(std::min(n, kWords)) * sizeof(S));
  load_lanes<S, float>(room, to);
#endif
}

/* Scales or biases of R rows, `row` apart, from the `first` of the first row on. */
template <int R>
MLXC_INLINE void load_scales(const QuantizedMatrix& w, const char* from, int64_t first, int64_t row,
                             int64_t n, FloatLanes (&to)[R]) {
  const auto load = [&](auto tag) {
    using S = typename decltype(tag)::type;
    const S* at = reinterpret_cast<const S*>(from) + first;
    for (int r = 0; r < R; r++) load_some<S>(at + r * row, n, to[r]);
  };
  switch (w.scale_dtype) {
    case MLXC_FLOAT16: return load(Tag<Half>{});
    case MLXC_BFLOAT16: return load(Tag<BFloat>{});
    case MLXC_FLOAT32: return load(Tag<float>{});
    default: break;
  }
  for (int r = 0; r < R; r++) {
    float room[kWords] = {};
    read_scales<float>(w, from, first + r * row, std::min(n, kWords), room);
    std::memcpy(&to[r], room, sizeof(room));
  }
}

/* out[r][m] = row `first` + r of the matrix times row m of x. */
template <QuantMode Mode, int Bits, int R, int M>
MLXC_NOINLINE void multiply_words(const QuantizedMatrix& w, int64_t first, const OrderedRows& rows, int64_t m,
                                  float (&out)[R][M]) {
  constexpr int64_t codes = 32 / Bits;
  const int64_t lanes = rows.lanes, groups = rows.groups, row_bytes = w.row_bytes();
  const int shift = __builtin_ctzll(static_cast<uint64_t>(lanes)); /* a power of two */
  IntLanes place,
      half_place; /* the group of each lane, and of each where the halves of words lie side by side */
  for (int32_t lane = 0; lane < kWords; lane++) {
    place[lane] = lane;
    half_place[lane] = lane % (kWords / 2);
  }
  place >>= shift;
  half_place >>= shift;
  const float* x = rows.x + m * rows.x_row;
  const float* sums = rows.sums + m * rows.sum_row;
  const uint8_t* from = w.codes + first * row_bytes;
  FloatLanes total[R][M] = {};
  for (int64_t g = 0; g < groups; g += kWords) {
    const int64_t count = std::min(kWords, groups - g);
    FloatLanes scales[R];
    load_scales<R>(w, w.scales, first * groups + g, groups, count, scales);
    if constexpr (Mode == QuantMode::affine) {
      FloatLanes biases[R];
      load_scales<R>(w, w.biases, first * groups + g, groups, count, biases);
      for (int k = 0; k < M; k++) {
        const auto* sum = reinterpret_cast<const FloatLanes*>(sums + k * rows.sum_row + g);
        for (int r = 0; r < R; r++) total[r][k] = multiply_add<FloatLanes>(biases[r], *sum, total[r][k]);
      }
    }
    const int64_t words = count * lanes;
    const auto add_codes = [&](WordLanes(&packed)[R], auto steps, const IntLanes& own) {
      FloatLanes part[R][M] = {};
      for (int64_t j = 0; j < decltype(steps)::value; j++) {
        FloatLanes numbers[R];
        for (int r = 0; r < R; r++) {
          convert_codes<Mode, Bits>(packed[r], numbers[r]);
          packed[r] >>= Bits;
        }
        for (int k = 0; k < M; k++) {
          const auto* at = reinterpret_cast<const FloatLanes*>(x + k * rows.x_row + j * kWords);
          for (int r = 0; r < R; r++) part[r][k] = multiply_add<FloatLanes>(numbers[r], *at, part[r][k]);
        }
      }
      x += decltype(steps)::value * kWords;
      for (int r = 0; r < R; r++) {
        FloatLanes scale;
        spread_scales(scales[r], own, scale);
        for (int k = 0; k < M; k++) total[r][k] = multiply_add<FloatLanes>(part[r][k], scale, total[r][k]);
      }
    };
    int64_t i = 0;
    for (; i + kWords <= words || (i < words && (!kSplitsWords<Bits> || 2 * (words - i) > kWords));
         i += kWords) {
      WordLanes packed[R];
      for (int r = 0; r < R; r++) load_words(from + r * row_bytes + 4 * i, words - i, packed[r]);
      add_codes(packed, std::integral_constant<int64_t, codes>{}, place + static_cast<int32_t>(i >> shift));
    }
#if defined(__AVX512F__)
    if constexpr (kSplitsWords<Bits>) {
      if (i < words) {
        WordLanes packed[R];
        for (int r = 0; r < R; r++) load_halves<Bits>(from + r * row_bytes + 4 * i, words - i, packed[r]);
        add_codes(packed, std::integral_constant<int64_t, codes / 2>{},
                  half_place + static_cast<int32_t>(i >> shift));
      }
    }
#endif
    from += 4 * words;
  }
  for (int k = 0; k < M; k++) {
    FloatLanes column[R];
    float sums_of[R];
    for (int r = 0; r < R; r++) column[r] = total[r][k];
    sum_registers<float, R>(column, sums_of);
    for (int r = 0; r < R; r++) out[r][k] = sums_of[r];
  }
}

/* Rows [begin, end) of the matrix times `count` rows of x: put(row, m, product). */
template <QuantMode Mode, int Bits, class Put>
MLXC_INLINE void multiply_all_words(const QuantizedMatrix& w, int64_t begin, int64_t end,
                                    const OrderedRows& rows, int64_t count, const Put& put) {
  const auto tile = [&](auto r_tag, auto m_tag, int64_t r, int64_t m) {
    constexpr int R = decltype(r_tag)::value, M = decltype(m_tag)::value;
    float products[R][M];
    multiply_words<Mode, Bits, R, M>(w, r, rows, m, products);
    for (int i = 0; i < R; i++) {
      for (int k = 0; k < M; k++) put(r + i, m + k, products[i][k]);
    }
  };
  using std::integral_constant;
  const auto pass = [&](auto r_tag, int64_t r) {
    int64_t m = 0;
    for (; m + kTileVectors <= count; m += kTileVectors)
      tile(r_tag, integral_constant<int, kTileVectors>{}, r, m);
    for (; m < count; m++) tile(r_tag, integral_constant<int, 1>{}, r, m);
  };
  int64_t r = begin;
  if (count == 1) {
    for (; r + kTallTile <= end; r += kTallTile)
      tile(integral_constant<int, kTallTile>{}, integral_constant<int, 1>{}, r, 0);
  }
  for (; r + 2 <= end; r += 2) pass(integral_constant<int, 2>{}, r);
  for (; r < end; r++) pass(integral_constant<int, 1>{}, r);
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
