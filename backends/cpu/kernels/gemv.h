/* Matrix times vector, or a few of them, for real types, without BLAS.
 *
 * Called by gemm.h when one side of a product is a single row or column, or a few rows meet dense ones. Bound
 * by memory, so a matrix is read once, in the order it lies in, and split over threads by bytes. Halves are
 * read as they are and summed in float. Sums are kept in blocks of kVectorBlock terms, which keeps rounding
 * errors small.
 */
#ifndef MLXC_CPU_GEMV_H
#define MLXC_CPU_GEMV_H

#include "dot_rows.h"
#include "strided.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* Elements at a stride as T in dense memory. */
template <class S, class T>
MLXC_INLINE void load_block(const S* from, int64_t stride, int64_t n, T* to) {
  if constexpr (is_half<S>) {
    if (stride == 1) {
      to_float_array(from, to, n);
    } else {
      for (int64_t i = 0; i < n; i++) to[i] = to_float(from[i * stride]);
    }
  } else {
    for (int64_t i = 0; i < n; i++) to[i] = from[i * stride];
  }
}

/* Rows [begin, end) of y = a x, where a row of a is read at a time. */
template <class S, class T>
MLXC_NOINLINE void multiply_by_rows(const Matrix<const S>& a, const T* x, S* y, int64_t y_stride,
                                    bool accumulate, int64_t begin, int64_t end) {
  const int64_t n = a.cols;
  auto put = [&](int64_t row, int64_t, T sum) {
    S* target = y + row * y_stride;
    if (accumulate) sum += cast<T>(*target);
    *target = cast<S>(sum);
  };
  if constexpr (std::is_same_v<S, T> || is_half<S>) {
    if (a.col_stride == 1) return dot_all<S, T>(a.data, a.row_stride, begin, end, x, 0, 1, n, put);
  }
  alignas(64) T block[kVectorBlock];
  for (int64_t i = begin; i < end; i++) {
    T total = T(0);
    for (int64_t p = 0; p < n; p += kVectorBlock) {
      const int64_t count = std::min(kVectorBlock, n - p);
      load_block<S, T>(a.data + i * a.row_stride + p * a.col_stride, a.col_stride, count, block);
      T part[1][1];
      dot_tile<T, T, 1, 1>(block, 0, x + p, 0, count, part);
      total += part[0][0];
    }
    put(i, 0, total);
  }
}

/* Rows [begin, end) of y = a x, at most kVectorBlock of them, where columns of a lie dense. */
template <class S, class T>
MLXC_NOINLINE void multiply_by_columns(const Matrix<const S>& a, const T* x, S* y, int64_t y_stride,
                                       bool accumulate, int64_t begin, int64_t end) {
  alignas(64) T total[kVectorBlock], part[kVectorBlock], column[kVectorBlock];
  const int64_t rows = end - begin;
  for (int64_t i = 0; i < rows; i++) total[i] = T(0);
  for (int64_t p = 0; p < a.cols; p += kVectorBlock) {
    const int64_t stop = std::min(a.cols, p + kVectorBlock);
    for (int64_t i = 0; i < rows; i++) part[i] = T(0);
    int64_t q = p;
    if constexpr (std::is_same_v<S, T>) {
      for (; q + 4 <= stop; q += 4) {
        const T* MLXC_RESTRICT a0 = a.data + begin + q * a.col_stride;
        const T* MLXC_RESTRICT a1 = a0 + a.col_stride;
        const T* MLXC_RESTRICT a2 = a1 + a.col_stride;
        const T* MLXC_RESTRICT a3 = a2 + a.col_stride;
        const T x0 = x[q], x1 = x[q + 1], x2 = x[q + 2], x3 = x[q + 3];
        for (int64_t i = 0; i < rows; i++) part[i] += (a0[i] * x0 + a1[i] * x1) + (a2[i] * x2 + a3[i] * x3);
      }
    }
    for (; q < stop; q++) {
      load_block<S, T>(a.data + begin + q * a.col_stride, 1, rows, column);
      const T scale = x[q];
      for (int64_t i = 0; i < rows; i++) part[i] += column[i] * scale;
    }
    for (int64_t i = 0; i < rows; i++) total[i] += part[i];
  }
  for (int64_t i = 0; i < rows; i++) {
    S* target = y + (begin + i) * y_stride;
    T sum = total[i];
    if (accumulate) sum += cast<T>(*target);
    *target = cast<S>(sum);
  }
}

/* y (+)= a x; T is what S is computed in. */
template <class S, class T>
mlxc_error* multiply_vector(const Matrix<const S>& a, const S* x, int64_t x_stride, S* y, int64_t y_stride,
                            bool accumulate, bool threaded) {
  const bool dense = std::is_same_v<S, T> && x_stride == 1;
  Scratch scratch(dense ? 0 : static_cast<size_t>(a.cols) * sizeof(T));
  if (!scratch.ok()) return scratch.error();
  const T* right;
  if (dense) {
    right = reinterpret_cast<const T*>(x);
  } else {
    load_block<S, T>(x, x_stride, a.cols, scratch.as<T>());
    right = scratch.as<T>();
  }
  const int64_t bytes = a.cols * static_cast<int64_t>(sizeof(S));
  if (a.row_stride == 1 && a.col_stride != 1 && a.rows > 1) {
    const int64_t blocks = (a.rows + kVectorBlock - 1) / kVectorBlock;
    parallel_for(blocks, threaded ? grain_for_bytes(bytes * kVectorBlock) : blocks,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; i++) {
                     multiply_by_columns<S, T>(a, right, y, y_stride, accumulate, i * kVectorBlock,
                                               std::min(a.rows, (i + 1) * kVectorBlock));
                   }
                 });
  } else {
    /* Whole tiles of rows a piece. */
    const int64_t tiles = (a.rows + kTallTile - 1) / kTallTile;
    parallel_for(tiles, threaded ? grain_for_bytes(bytes * kTallTile) : tiles,
                 [&](int64_t begin, int64_t end) {
                   begin *= kTallTile;
                   end = std::min(end * kTallTile, a.rows);
                   multiply_by_rows<S, T>(a, right, y, y_stride, accumulate, begin, end);
                 });
  }
  return nullptr;
}

/* How many rows of x still meet a matrix row by row. */
constexpr int64_t kFewRows = 16;

/* c (+)= x times the transposed w, whose rows lie dense; x has at most kFewRows rows. T is what S is computed
 * in. */
template <class S, class T>
mlxc_error* multiply_few_rows(const Matrix<const S>& x, const Matrix<const S>& w, S* c, int64_t c_row,
                              bool accumulate, bool threaded) {
  const int64_t n = x.cols;
  const bool dense = std::is_same_v<S, T> && x.col_stride == 1;
  Scratch scratch(dense ? 0 : static_cast<size_t>(x.rows * n) * sizeof(T));
  if (!scratch.ok()) return scratch.error();
  const T* left = reinterpret_cast<const T*>(x.data);
  if (!dense) {
    for (int64_t m = 0; m < x.rows; m++) {
      load_block<S, T>(x.data + m * x.row_stride, x.col_stride, n, scratch.as<T>() + m * n);
    }
    left = scratch.as<T>();
  }
  const int64_t left_row = dense ? x.row_stride : n;
  const int64_t grain = grain_for_bytes(kTallTile * n * static_cast<int64_t>(sizeof(S)) * (1 + x.rows / 4));
  const int64_t tiles = (w.rows + kTallTile - 1) / kTallTile;
  parallel_for(tiles, threaded ? grain : tiles, [&](int64_t begin, int64_t end) {
    begin *= kTallTile;
    end = std::min(end * kTallTile, w.rows);
    dot_all<S, T>(w.data, w.row_stride, begin, end, left, left_row, x.rows, n,
                  [&](int64_t row, int64_t m, T sum) {
                    S* target = c + m * c_row + row;
                    if (accumulate) sum += cast<T>(*target);
                    *target = cast<S>(sum);
                  });
  });
  return nullptr;
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
