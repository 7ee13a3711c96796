/* Sums of dense rows with weights: what attention does with values where a head has few queries.
 *
 * Used by attention.cc. The rows are read as they lie, once for up to kTileVectors sets of weights; halves
 * are widened while they are loaded. Rule: a sum is kept in registers over all rows of a call.
 */
#ifndef MLXC_CPU_WEIGHTED_ROWS_H
#define MLXC_CPU_WEIGHTED_ROWS_H

#include "dot_rows.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* sums[m][0 .. C registers) += weights[m][r] times row r, for `count` rows. */
template <class S, class T, int C, int M>
MLXC_INLINE void add_weighted_strip(const S* rows, int64_t row, int64_t count, const T* weights,
                                    int64_t weight_row, T* sums, int64_t sum_row) {
  using V = VectorIn<T>;
  V total[M][C] = {};
  for (int64_t r = 0; r < count; r++) {
    V numbers[C];
    for (int c = 0; c < C; c++) load_lanes<S, T>(rows + r * row + c * kLanes<T>, numbers[c]);
    for (int m = 0; m < M; m++) {
      const V weight = V{} + weights[m * weight_row + r];
      for (int c = 0; c < C; c++) total[m][c] = multiply_add<V>(numbers[c], weight, total[m][c]);
    }
  }
  for (int m = 0; m < M; m++) {
    for (int c = 0; c < C; c++) {
      V* to = reinterpret_cast<V*>(sums + m * sum_row + c * kLanes<T>);
      *to += total[m][c];
    }
  }
}

template <class S, class T, int M>
MLXC_NOINLINE void add_weighted_tile(const S* rows, int64_t row, int64_t count, const T* weights,
                                     int64_t weight_row, T* sums, int64_t sum_row, int64_t n) {
  constexpr int64_t W = kLanes<T>;
#if defined(__AVX512F__) || defined(__aarch64__)
  constexpr int wide = 4;
#else
  constexpr int wide = M > 2 ? 2 : 4;
#endif
  int64_t i = 0;
  for (; i + wide * W <= n; i += wide * W)
    add_weighted_strip<S, T, wide, M>(rows + i, row, count, weights, weight_row, sums + i, sum_row);
  for (; i + W <= n; i += W)
    add_weighted_strip<S, T, 1, M>(rows + i, row, count, weights, weight_row, sums + i, sum_row);
  for (; i < n; i++) {
    for (int m = 0; m < M; m++) {
      T sum = T(0);
      for (int64_t r = 0; r < count; r++) sum += weights[m * weight_row + r] * cast<T>(rows[r * row + i]);
      sums[m * sum_row + i] += sum;
    }
  }
}

/* sums[m] += weights[m] times the rows, for m < sets; rows have n numbers. */
template <class S, class T>
MLXC_INLINE void add_weighted_rows(const S* rows, int64_t row, int64_t count, const T* weights,
                                   int64_t weight_row, int64_t sets, T* sums, int64_t sum_row, int64_t n) {
  int64_t m = 0;
  const auto tile = [&](auto tag) {
    constexpr int M = decltype(tag)::value;
    add_weighted_tile<S, T, M>(rows, row, count, weights + m * weight_row, weight_row, sums + m * sum_row,
                               sum_row, n);
    m += M;
  };
  while (m + 4 <= sets) tile(std::integral_constant<int, 4>{});
  if (m + 3 == sets) tile(std::integral_constant<int, 3>{});
  if (m + 2 == sets) tile(std::integral_constant<int, 2>{});
  if (m + 1 == sets) tile(std::integral_constant<int, 1>{});
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
