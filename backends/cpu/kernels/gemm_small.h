/* Matrix products without BLAS: a register-blocked kernel for real types, and what is built on it.
 *
 * Called by gemm.h. `multiply_small` is for products so small that entering BLAS costs more than they do;
 * `multiply_integer` is for all integer and bool products, whatever their size, blocked for the caches.
 * Both take operands of any strides; the result has adjacent columns. Integers wrap around.
 */
#ifndef MLXC_CPU_GEMM_SMALL_H
#define MLXC_CPU_GEMM_SMALL_H

#include <algorithm>
#include <atomic>
#include <cstring>

#include "dtype.h"
#include "parallel.h"

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* A matrix in memory; strides in elements, of any sign, may be 0. */
template <class T>
struct Matrix {
  T* data;
  int64_t rows;
  int64_t cols;
  int64_t row_stride;
  int64_t col_stride;

  Matrix transposed() const { return Matrix{data, cols, rows, col_stride, row_stride}; }
  Matrix block(int64_t row, int64_t col, int64_t n_rows, int64_t n_cols) const {
    return Matrix{data + row * row_stride + col * col_stride, n_rows, n_cols, row_stride, col_stride};
  }
};

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class T, int Bytes>
struct VectorOf;
#define MLXC_VECTOR(T, BYTES)                                                          \
  template <>                                                                          \
  struct VectorOf<T, BYTES> {                                                          \
    typedef T type __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias)); \
  };
#define MLXC_VECTORS(T) MLXC_VECTOR(T, 16) MLXC_VECTOR(T, 32) MLXC_VECTOR(T, 64)
MLXC_VECTORS(float)
MLXC_VECTORS(double)
MLXC_VECTORS(uint32_t)
MLXC_VECTORS(uint64_t)
#undef MLXC_VECTORS
#undef MLXC_VECTOR

/* a b + c, rounded once where the CPU can: the build forbids the compiler to fuse by itself. */
template <class V>
MLXC_INLINE V multiply_add(V a, V b, V c) {
  using E = std::remove_cv_t<std::remove_reference_t<decltype(a[0])>>;
  if constexpr (std::is_same_v<E, float>) {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#endif
#if defined(__FMA__)
    if constexpr (sizeof(V) == 32) return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#endif
#if defined(__aarch64__)
    if constexpr (sizeof(V) == 16) return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#endif
  } else if constexpr (std::is_same_v<E, double>) {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#endif
#if defined(__FMA__)
    if constexpr (sizeof(V) == 32) return (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#endif
#if defined(__aarch64__)
    if constexpr (sizeof(V) == 16) return (V)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#endif
  }
  return a * b + c;
}

/* c[MR][NV vectors] (+)= a[MR][k] b[k][NV vectors]; columns of b and c are adjacent. */
template <class T, int Bytes, int MR, int NV>
MLXC_INLINE void multiply_tile(const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, int64_t k,
                               T* c, int64_t c_row, bool accumulate) {
  using V = typename VectorOf<T, Bytes>::type;
  constexpr int W = Bytes / static_cast<int>(sizeof(T));
  V sum[MR][NV] = {};
  for (int64_t p = 0; p < k; p++) {
    V right[NV];
    for (int v = 0; v < NV; v++) right[v] = *reinterpret_cast<const V*>(b + v * W);
    for (int r = 0; r < MR; r++) {
      V left = V{} + a[r * a_row];
      for (int v = 0; v < NV; v++) sum[r][v] = multiply_add<V>(left, right[v], sum[r][v]);
    }
    a += a_col;
    b += b_row;
  }
  for (int r = 0; r < MR; r++) {
    for (int v = 0; v < NV; v++) {
      V* target = reinterpret_cast<V*>(c + r * c_row + v * W);
      *target = accumulate ? *target + sum[r][v] : sum[r][v];
    }
  }
}

/* All rows of a against NV vectors of columns. */
template <class T, int Bytes, int NV>
MLXC_INLINE void multiply_strip(const Matrix<const T>& a, const T* b, int64_t b_row, T* c, int64_t c_row,
                                bool accumulate) {
  const T* left = a.data;
  int64_t rows = a.rows;
  for (; rows >= 4; rows -= 4, left += 4 * a.row_stride, c += 4 * c_row) {
    multiply_tile<T, Bytes, 4, NV>(left, a.row_stride, a.col_stride, b, b_row, a.cols, c, c_row, accumulate);
  }
  switch (rows) {
    case 3:
      multiply_tile<T, Bytes, 3, NV>(left, a.row_stride, a.col_stride, b, b_row, a.cols, c, c_row,
                                     accumulate);
      break;
    case 2:
      multiply_tile<T, Bytes, 2, NV>(left, a.row_stride, a.col_stride, b, b_row, a.cols, c, c_row,
                                     accumulate);
      break;
    case 1:
      multiply_tile<T, Bytes, 1, NV>(left, a.row_stride, a.col_stride, b, b_row, a.cols, c, c_row,
                                     accumulate);
      break;
    default: break;
  }
}

/* Stack room for columns of b that must be laid out anew. */
constexpr int64_t kSmallPanelBytes = 32 * 1024;

template <class T, int Bytes>
MLXC_NOINLINE void multiply_small_with(const Matrix<const T>& a, const Matrix<const T>& b, T* c,
                                       int64_t c_row, bool accumulate) {
  constexpr int64_t W = Bytes / static_cast<int64_t>(sizeof(T));
  const int64_t k = b.rows, n = b.cols;
  alignas(64) T panel[kSmallPanelBytes / sizeof(T)];
  const T* right = b.data;
  int64_t right_row = b.row_stride;
  const bool packs = b.col_stride != 1;
  const int64_t whole = n / W * W;
  if (packs) {
    right_row = (n + W - 1) / W * W;
    for (int64_t p = 0; p < k; p++) {
      const T* from = b.data + p * b.row_stride;
      for (int64_t j = 0; j < n; j++) panel[p * right_row + j] = from[j * b.col_stride];
      for (int64_t j = n; j < right_row; j++) panel[p * right_row + j] = T(0);
    }
    right = panel;
  }
  int64_t j = 0;
  for (; j + 2 * W <= whole; j += 2 * W) {
    multiply_strip<T, Bytes, 2>(a, right + j, right_row, c + j, c_row, accumulate);
  }
  if (j < whole) {
    multiply_strip<T, Bytes, 1>(a, right + j, right_row, c + j, c_row, accumulate);
    j += W;
  }
  if (j == n) return;
  /* The last columns do not fill a vector: pad them with zeros, and keep the part of the result that is. */
  const int64_t rest = n - j;
  const T* last = right + j;
  int64_t last_row = right_row;
  if (!packs) {
    for (int64_t p = 0; p < k; p++) {
      const T* from = b.data + p * b.row_stride + j;
      for (int64_t q = 0; q < rest; q++) panel[p * W + q] = from[q];
      for (int64_t q = rest; q < W; q++) panel[p * W + q] = T(0);
    }
    last = panel;
    last_row = W;
  }
  T tile[4 * W];
  for (int64_t i = 0; i < a.rows; i += 4) {
    const int64_t rows = std::min<int64_t>(4, a.rows - i);
    multiply_strip<T, Bytes, 1>(a.block(i, 0, rows, k), last, last_row, tile, W, false);
    for (int64_t r = 0; r < rows; r++) {
      T* target = c + (i + r) * c_row + j;
      for (int64_t q = 0; q < rest; q++) {
        target[q] = accumulate ? target[q] + tile[r * W + q] : tile[r * W + q];
      }
    }
  }
}

/* Whether multiply_small takes the product: its panel fits on the stack and BLAS would not be faster. */
template <class T>
MLXC_INLINE bool is_small_product(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t W = kVectorBytes / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kRoom = kSmallPanelBytes / static_cast<int64_t>(sizeof(T));
  return n <= kRoom && k <= kRoom / W && (n + W - 1) / W * W * k <= kRoom && m <= 64 * 64 &&
         m * n * k <= 32 * 32 * 32;
}

template <class T>
MLXC_INLINE void multiply_small(const Matrix<const T>& a, const Matrix<const T>& b, T* c, int64_t c_row,
                                bool accumulate) {
  if constexpr (kVectorBytes > 32) {
    /* A narrower vector where half of the wide one would be padding. */
    constexpr int64_t W = kVectorBytes / static_cast<int64_t>(sizeof(T));
    const int64_t rest = b.cols % W;
    if (b.cols < 2 * W && rest != 0 && rest <= W / 2) {
      multiply_small_with<T, 32>(a, b, c, c_row, accumulate);
      return;
    }
  }
  multiply_small_with<T, kVectorBytes>(a, b, c, c_row, accumulate);
}

/* ---- integers and bool ---- */

/* What an integer type is multiplied in: wrap-around makes the low bits those of the wide product. */
template <class S>
using WideOf = std::conditional_t<sizeof(S) == 8, uint64_t, uint32_t>;

constexpr int64_t kIntegerDepth = 256;
constexpr int64_t kIntegerColumns = 128;
constexpr int64_t kIntegerRows = 32;

/* Lays a block out row-major in the wide type, rows padded with zeros to `width`. */
template <class S, class T>
MLXC_INLINE void pack_block(const Matrix<const S>& block, int64_t width, T* packed) {
  for (int64_t i = 0; i < block.rows; i++) {
    const S* from = block.data + i * block.row_stride;
    T* to = packed + i * width;
    if (block.col_stride == 1) {
      for (int64_t j = 0; j < block.cols; j++) to[j] = static_cast<T>(from[j]);
    } else {
      for (int64_t j = 0; j < block.cols; j++) to[j] = static_cast<T>(from[j * block.col_stride]);
    }
    for (int64_t j = block.cols; j < width; j++) to[j] = T(0);
  }
}

template <class S>
constexpr size_t kIntegerScratch =
    static_cast<size_t>(
        (kIntegerDepth * kIntegerColumns + kIntegerRows * kIntegerDepth + kIntegerRows * kIntegerColumns)) *
    sizeof(WideOf<S>);

/* c = a b on this thread; scratch has kIntegerScratch<S> bytes. */
template <class S>
MLXC_NOINLINE void multiply_integer_block(const Matrix<const S>& a, const Matrix<const S>& b, S* c,
                                          int64_t c_row, void* scratch) {
  using T = WideOf<S>;
  constexpr int64_t W = kVectorBytes / static_cast<int64_t>(sizeof(T));
  T* right = static_cast<T*>(scratch);
  T* left = right + kIntegerDepth * kIntegerColumns;
  T* tile = left + kIntegerRows * kIntegerDepth;
  for (int64_t j = 0; j < b.cols; j += kIntegerColumns) {
    const int64_t cols = std::min(kIntegerColumns, b.cols - j);
    const int64_t width = (cols + W - 1) / W * W;
    for (int64_t p = 0; p < b.rows; p += kIntegerDepth) {
      const int64_t depth = std::min(kIntegerDepth, b.rows - p);
      pack_block(b.block(p, j, depth, cols), width, right);
      for (int64_t i = 0; i < a.rows; i += kIntegerRows) {
        const int64_t rows = std::min(kIntegerRows, a.rows - i);
        pack_block(a.block(i, p, rows, depth), depth, left);
        const Matrix<const T> packed{left, rows, depth, depth, 1};
        int64_t q = 0;
        for (; q + 2 * W <= width; q += 2 * W) {
          multiply_strip<T, kVectorBytes, 2>(packed, right + q, width, tile + q, width, false);
        }
        if (q < width) multiply_strip<T, kVectorBytes, 1>(packed, right + q, width, tile + q, width, false);
        for (int64_t r = 0; r < rows; r++) {
          S* target = c + (i + r) * c_row + j;
          const T* from = tile + r * width;
          if constexpr (std::is_same_v<S, bool>) {
            /* A block counts at most kIntegerDepth hits, so the count cannot wrap to zero. */
            for (int64_t s = 0; s < cols; s++) target[s] = (from[s] != 0) | (p != 0 && target[s]);
          } else if (p == 0) {
            for (int64_t s = 0; s < cols; s++) target[s] = static_cast<S>(from[s]);
          } else {
            for (int64_t s = 0; s < cols; s++)
              target[s] = static_cast<S>(static_cast<T>(target[s]) + from[s]);
          }
        }
      }
    }
  }
}

/* Splits an m x n result into a grid of pieces, about one a thread, each worth a thread's while. */
struct Grid {
  int64_t rows; /* of a piece */
  int64_t cols;
  int64_t across; /* pieces side by side */
  int64_t pieces;
};

MLXC_INLINE Grid make_grid(int64_t m, int64_t n, int64_t k, int64_t threads, double least_work) {
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  threads = std::max<int64_t>(1, std::min<int64_t>(threads, static_cast<int64_t>(work / least_work)));
  int64_t down = 1, side = 1;
  double least = 0;
  for (int64_t d = 1; d <= threads; d++) {
    /* Work of a piece and, weighed higher, the operands that it has to read and lay out. */
    const double rows = static_cast<double>((m + d - 1) / d);
    const double cols = static_cast<double>((n + threads / d - 1) / (threads / d));
    const double cost = rows * cols + 16 * (rows + cols);
    if (d == 1 || cost < least) {
      least = cost;
      down = d;
      side = threads / d;
    }
  }
  Grid grid;
  grid.rows = std::max<int64_t>(1, ((m + down - 1) / down + 15) / 16 * 16);
  grid.cols = std::max<int64_t>(1, ((n + side - 1) / side + 31) / 32 * 32);
  grid.across = (n + grid.cols - 1) / grid.cols;
  grid.pieces = grid.across * ((m + grid.rows - 1) / grid.rows);
  return grid;
}

template <class S>
mlxc_error* multiply_integer(const Matrix<const S>& a, const Matrix<const S>& b, S* c, int64_t c_row,
                             bool threaded) {
  if (a.cols == 0) {
    for (int64_t i = 0; i < a.rows; i++)
      std::memset(c + i * c_row, 0, static_cast<size_t>(b.cols) * sizeof(S));
    return nullptr;
  }
  const Grid grid =
      make_grid(a.rows, b.cols, a.cols, threaded ? host->thread_count() : 1, 64.0 * 64.0 * 64.0);
  std::atomic<bool> failed{false};
  auto run = [&](int64_t begin, int64_t end) {
    Scratch scratch(kIntegerScratch<S>);
    if (!scratch.ok()) {
      failed.store(true, std::memory_order_relaxed);
      return;
    }
    for (int64_t piece = begin; piece < end; piece++) {
      const int64_t i = piece / grid.across * grid.rows, j = piece % grid.across * grid.cols;
      const int64_t rows = std::min(grid.rows, a.rows - i), cols = std::min(grid.cols, b.cols - j);
      multiply_integer_block<S>(a.block(i, 0, rows, a.cols), b.block(0, j, b.rows, cols), c + i * c_row + j,
                                c_row, scratch.as<void>());
    }
  };
  parallel_for(grid.pieces, 1, run);
  return failed.load() ? make_memory_error(kIntegerScratch<S>) : nullptr;
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
