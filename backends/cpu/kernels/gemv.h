/* Matrix times vector for real types, without BLAS.
 *
 * Called by gemm.h when one side of a product is a single row or column. Bound by memory, so a matrix is read
 * once, in the order it lies in, and split over threads by bytes. Halves are read as they are and summed in
 * float. Sums are kept in blocks of kVectorBlock terms, which keeps rounding errors small.
 */
#ifndef MLXC_CPU_GEMV_H
#define MLXC_CPU_GEMV_H

#include "gemm_small.h"
#include "strided.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

constexpr int64_t kVectorBlock = 512;

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

template <class T>
MLXC_INLINE T sum_lanes(typename VectorOf<T, kVectorBytes>::type v) {
  T total = T(0);
  for (size_t i = 0; i < kVectorBytes / sizeof(T); i++) total += v[i];
  return total;
}

/* Dot products of R dense rows, `row` apart, with x. */
template <class T, int R>
MLXC_INLINE void dot_rows(const T* a, int64_t row, const T* x, int64_t n, T* sums) {
  using V = typename VectorOf<T, kVectorBytes>::type;
  constexpr int64_t W = kVectorBytes / static_cast<int64_t>(sizeof(T));
  V even[R] = {}, odd[R] = {};
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {
    const V x0 = *reinterpret_cast<const V*>(x + i), x1 = *reinterpret_cast<const V*>(x + i + W);
    for (int r = 0; r < R; r++) {
      even[r] = multiply_add<V>(*reinterpret_cast<const V*>(a + r * row + i), x0, even[r]);
      odd[r] = multiply_add<V>(*reinterpret_cast<const V*>(a + r * row + i + W), x1, odd[r]);
    }
  }
  for (int r = 0; r < R; r++) {
    T rest = T(0);
    for (int64_t j = i; j < n; j++) rest += a[r * row + j] * x[j];
    sums[r] = sum_lanes<T>(even[r] + odd[r]) + rest;
  }
}

/* Rows [begin, end) of y = a x, where a row of a is read at a time. */
template <class S, class T>
MLXC_NOINLINE void multiply_by_rows(const Matrix<const S>& a, const T* x, S* y, int64_t y_stride,
                                    bool accumulate, int64_t begin, int64_t end) {
  const int64_t n = a.cols;
  int64_t i = begin;
  auto put = [&](int64_t row, T sum) {
    S* target = y + row * y_stride;
    if (accumulate) sum += cast<T>(*target);
    *target = cast<S>(sum);
  };
  if constexpr (std::is_same_v<S, T>) {
    if (a.col_stride == 1) {
      for (; i + 4 <= end; i += 4) {
        T total[4] = {};
        for (int64_t p = 0; p < n; p += kVectorBlock) {
          T part[4];
          dot_rows<T, 4>(a.data + i * a.row_stride + p, a.row_stride, x + p, std::min(kVectorBlock, n - p),
                         part);
          for (int r = 0; r < 4; r++) total[r] += part[r];
        }
        for (int r = 0; r < 4; r++) put(i + r, total[r]);
      }
    }
  }
  alignas(64) T block[kVectorBlock];
  for (; i < end; i++) {
    T total = T(0);
    for (int64_t p = 0; p < n; p += kVectorBlock) {
      const int64_t count = std::min(kVectorBlock, n - p);
      load_block<S, T>(a.data + i * a.row_stride + p * a.col_stride, a.col_stride, count, block);
      T part;
      dot_rows<T, 1>(block, 0, x + p, count, &part);
      total += part;
    }
    put(i, total);
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
    parallel_for(a.rows, threaded ? grain_for_bytes(bytes) : a.rows, [&](int64_t begin, int64_t end) {
      multiply_by_rows<S, T>(a, right, y, y_stride, accumulate, begin, end);
    });
  }
  return nullptr;
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
