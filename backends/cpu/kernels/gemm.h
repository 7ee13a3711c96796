/* One matrix product, of any inexact type and any strides: the own kernels, or BLAS.
 *
 * Called by matmul.cc for each matrix of a batch and by conv.cc for each block of patches. Operands are
 * handed to BLAS as they lie where it can take them (plain or transposed), else packed. BLAS has 32-bit
 * sizes, so what is longer is cut. A result that is not accumulated into is never read, so NaN there does not
 * spread.
 */
#ifndef MLXC_CPU_GEMM_H
#define MLXC_CPU_GEMM_H

#include "blas.h"
#include "copy.h"
#include "gemv.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* Longest side that one call of BLAS gets. */
constexpr int64_t kBlasLimit = INT64_C(1) << 30;

/* An operand in the terms of BLAS. */
template <class T>
struct BlasOperand {
  const T* data;
  int trans;
  int64_t lead;
};

template <class T>
MLXC_INLINE bool describe_operand(const Matrix<const T>& a, BlasOperand<T>* operand) {
  if ((a.cols == 1 || a.col_stride == 1) && (a.rows == 1 || a.row_stride >= a.cols)) {
    *operand = BlasOperand<T>{a.data, kBlasNoTrans, a.rows == 1 ? a.cols : a.row_stride};
  } else if ((a.rows == 1 || a.row_stride == 1) && (a.cols == 1 || a.col_stride >= a.rows)) {
    *operand = BlasOperand<T>{a.data, kBlasTrans, a.cols == 1 ? a.rows : a.col_stride};
  } else {
    return false;
  }
  return operand->lead <= INT32_MAX;
}

template <class T>
MLXC_INLINE void call_gemm(const Blas& blas, const BlasOperand<T>& a, const BlasOperand<T>& b, int64_t m,
                           int64_t n, int64_t k, T* c, int64_t c_row, bool accumulate) {
  const int mi = static_cast<int>(m), ni = static_cast<int>(n), ki = static_cast<int>(k);
  const int lda = static_cast<int>(a.lead), ldb = static_cast<int>(b.lead), ldc = static_cast<int>(c_row);
  if constexpr (std::is_same_v<T, float>) {
    blas.sgemm(kBlasRowMajor, a.trans, b.trans, mi, ni, ki, 1.0f, a.data, lda, b.data, ldb,
               accumulate ? 1.0f : 0.0f, c, ldc);
  } else if constexpr (std::is_same_v<T, double>) {
    blas.dgemm(kBlasRowMajor, a.trans, b.trans, mi, ni, ki, 1.0, a.data, lda, b.data, ldb,
               accumulate ? 1.0 : 0.0, c, ldc);
  } else {
    const T one{1, 0}, zero{0, 0};
    const ComplexGemm gemm = std::is_same_v<T, Complex64> ? blas.cgemm : blas.zgemm;
    gemm(kBlasRowMajor, a.trans, b.trans, mi, ni, ki, &one, a.data, lda, b.data, ldb,
         accumulate ? &one : &zero, c, ldc);
  }
}

/* Gives the matrix in a form that BLAS takes, packed into scratch where it must be. */
template <class T>
mlxc_error* pack_operand(const Matrix<const T>& a, Scratch* scratch, BlasOperand<T>* operand) {
  if (!scratch->ok()) return scratch->error();
  const int64_t shape[2] = {a.rows, a.cols};
  const int64_t source[2] = {a.row_stride, a.col_stride};
  const int64_t target[2] = {a.cols, 1};
  copy_strided(scratch->as<T>(), target, a.data, source, shape, 2, sizeof(T));
  *operand = BlasOperand<T>{scratch->as<T>(), kBlasNoTrans, a.cols};
  return nullptr;
}

/* c (+)= a b by BLAS; no side is longer than kBlasLimit, none is empty. */
template <class T>
MLXC_NOINLINE mlxc_error* multiply_blas(const Blas& blas, const Matrix<const T>& a, const Matrix<const T>& b,
                                        T* c, int64_t c_row, bool accumulate, bool threaded) {
  BlasOperand<T> left, right;
  const bool left_fits = describe_operand(a, &left), right_fits = describe_operand(b, &right);
  Scratch left_scratch(left_fits ? 0 : static_cast<size_t>(a.rows * a.cols) * sizeof(T));
  Scratch right_scratch(right_fits ? 0 : static_cast<size_t>(b.rows * b.cols) * sizeof(T));
  if (!left_fits) {
    if (mlxc_error* error = pack_operand(a, &left_scratch, &left)) return error;
  }
  if (!right_fits) {
    if (mlxc_error* error = pack_operand(b, &right_scratch, &right)) return error;
  }
  const int64_t m = a.rows, n = b.cols, k = a.cols;
  if (!threaded || !blas.runs_on_caller) {
    call_gemm(blas, left, right, m, n, k, c, c_row, accumulate);
    return nullptr;
  }
  const Grid grid = make_grid(m, n, k, host->thread_count(), 96.0 * 96.0 * 96.0);
  parallel_for(grid.pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; piece++) {
      const int64_t i = piece / grid.across * grid.rows, j = piece % grid.across * grid.cols;
      BlasOperand<T> above = left, beside = right;
      above.data += left.trans == kBlasTrans ? i : i * left.lead;
      beside.data += right.trans == kBlasTrans ? j * right.lead : j;
      call_gemm(blas, above, beside, std::min(grid.rows, m - i), std::min(grid.cols, n - j), k,
                c + i * c_row + j, c_row, accumulate);
    }
  });
  return nullptr;
}

/* Complex products too small for BLAS. */
template <class T>
MLXC_INLINE void multiply_tiny_complex(const Matrix<const T>& a, const Matrix<const T>& b, T* c,
                                       int64_t c_row, bool accumulate) {
  for (int64_t i = 0; i < a.rows; i++) {
    for (int64_t j = 0; j < b.cols; j++) {
      const T* x = a.data + i * a.row_stride;
      const T* y = b.data + j * b.col_stride;
      T sum = accumulate ? c[i * c_row + j] : T{0, 0};
      for (int64_t p = 0; p < a.cols; p++, x += a.col_stride, y += b.row_stride) {
        sum.re += x->re * y->re - x->im * y->im;
        sum.im += x->re * y->im + x->im * y->re;
      }
      c[i * c_row + j] = sum;
    }
  }
}

/* c (+)= a b for float, double and complex types. c has adjacent columns. `threaded`: may use the core's
 * threads; false inside parallel_for. `op` is named in errors. */
template <class T>
mlxc_error* multiply(const char* op, const Matrix<const T>& a, const Matrix<const T>& b, T* c, int64_t c_row,
                     bool accumulate, bool threaded) {
  const int64_t m = a.rows, n = b.cols, k = a.cols;
  if (m == 0 || n == 0) return nullptr;
  if (k == 0) {
    if (accumulate) return nullptr;
    for (int64_t i = 0; i < m; i++)
      std::memset(static_cast<void*>(c + i * c_row), 0, static_cast<size_t>(n) * sizeof(T));
    return nullptr;
  }
  if constexpr (is_complex<T>) {
    if (m <= 8 && n <= 8 && k <= 8) {
      multiply_tiny_complex(a, b, c, c_row, accumulate);
      return nullptr;
    }
  } else {
    if (m <= kVectorBlock && n > 1 && is_small_product<T>(m, n, k)) {
      multiply_small(a, b, c, c_row, accumulate);
      return nullptr;
    }
    if (n == 1) return multiply_vector<T, T>(a, b.data, b.row_stride, c, c_row, accumulate, threaded);
    if (m == 1)
      return multiply_vector<T, T>(b.transposed(), a.data, a.col_stride, c, 1, accumulate, threaded);
    if (m <= kFewRows && b.row_stride == 1)
      return multiply_few_rows<T, T>(a, b.transposed(), c, c_row, accumulate, threaded);
  }
  const Blas* blas = nullptr;
  if (mlxc_error* error = open_blas(op, &blas)) return error;
  if (std::max(std::max(m, n), k) <= kBlasLimit && c_row <= INT32_MAX) {
    return multiply_blas(*blas, a, b, c, c_row, accumulate, threaded);
  }
  if (c_row > INT32_MAX) {
    /* BLAS cannot step over rows this long; one row at a time it need not. */
    for (int64_t i = 0; i < m; i++) {
      for (int64_t j = 0; j < n; j += kBlasLimit) {
        for (int64_t p = 0; p < k; p += kBlasLimit) {
          const int64_t cols = std::min(kBlasLimit, n - j), depth = std::min(kBlasLimit, k - p);
          mlxc_error* error = multiply_blas(*blas, a.block(i, p, 1, depth), b.block(p, j, depth, cols),
                                            c + i * c_row + j, cols, accumulate || p > 0, threaded);
          if (error) return error;
        }
      }
    }
    return nullptr;
  }
  for (int64_t i = 0; i < m; i += kBlasLimit) {
    for (int64_t p = 0; p < k; p += kBlasLimit) {
      const int64_t rows = std::min(kBlasLimit, m - i), depth = std::min(kBlasLimit, k - p);
      mlxc_error* error = multiply_blas(*blas, a.block(i, p, rows, depth), b.block(p, 0, depth, n),
                                        c + i * c_row, c_row, accumulate || p > 0, threaded);
      if (error) return error;
    }
  }
  return nullptr;
}

/* ---- halves ---- */

/* The matrix in float, dense in the direction in which it lies. `to` has rows * cols floats. */
template <class S>
Matrix<const float> convert_matrix(const Matrix<const S>& a, float* to, bool threaded) {
  const int64_t down = a.row_stride < 0 ? -a.row_stride : a.row_stride;
  const int64_t right = a.col_stride < 0 ? -a.col_stride : a.col_stride;
  if (down < right && a.rows > 1) return convert_matrix(a.transposed(), to, threaded).transposed();
  parallel_for(a.rows, threaded ? grain_for_bytes(a.cols * 6) : a.rows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      load_block<S, float>(a.data + i * a.row_stride, a.col_stride, a.cols, to + i * a.cols);
    }
  });
  return Matrix<const float>{to, a.rows, a.cols, a.cols, 1};
}

/* Columns of a panel: about `n` divided by the threads, no more than `most` at once, in whole vectors. */
MLXC_INLINE int64_t panel_columns(int64_t n, int64_t most, int64_t threads) {
  const int64_t limit = std::max<int64_t>(32, most / 32 * 32);
  int64_t pieces = (n + limit - 1) / limit;
  pieces = (pieces + threads - 1) / threads * threads;
  return std::min(limit, ((n + pieces - 1) / pieces + 31) / 32 * 32);
}

/* Whether panels may be multiplied one a thread: a BLAS with threads of its own is called from one alone. */
inline mlxc_error* may_split_panels(const char* op, bool threaded, bool* may) {
  const Blas* blas = nullptr;
  if (mlxc_error* error = open_blas(op, &blas)) return error;
  *may = threaded && blas->runs_on_caller;
  return nullptr;
}

/* c = a b, where b has `n` columns that are not in memory as numbers to compute with: make_panel(first,
 * count, room) lays out `count` of its columns in `room` and gives them as a matrix. A thread makes the
 * panels that it multiplies, so they are in its cache and nobody waits for the whole of b. At most `most`
 * numbers are in a panel. */
template <class T, class C, class F>
mlxc_error* multiply_panels(const char* op, const Matrix<const C>& a, int64_t n, T* c, int64_t c_row,
                            int64_t most, bool threaded, const F& make_panel) {
  constexpr bool direct = std::is_same_v<T, C>;
  constexpr int64_t kResultRows = 1024;
  bool splits = false;
  if (mlxc_error* error = may_split_panels(op, threaded, &splits)) return error;
  const int64_t cols = panel_columns(n, most / a.cols, splits ? host->thread_count() : 1);
  const int64_t pieces = (n + cols - 1) / cols, rows = direct ? a.rows : std::min(a.rows, kResultRows);
  FirstError first;
  parallel_for(pieces, splits ? 1 : pieces, [&](int64_t begin, int64_t end) {
    Scratch room(static_cast<size_t>(cols * (a.cols + (direct ? 0 : rows))) * sizeof(C));
    if (!room.ok()) return first.set(room.error());
    C* result = room.as<C>() + cols * a.cols;
    for (int64_t piece = begin; piece < end; piece++) {
      const int64_t at = piece * cols, count = std::min(cols, n - at);
      const Matrix<const C> panel = make_panel(at, count, room.as<C>());
      for (int64_t i = 0; i < a.rows; i += rows) {
        const int64_t height = std::min(rows, a.rows - i);
        const Matrix<const C> left = a.block(i, 0, height, a.cols);
        T* target = c + i * c_row + at;
        if constexpr (direct) {
          first.set(multiply<C>(op, left, panel, target, c_row, false, threaded && !splits));
        } else {
          first.set(multiply<C>(op, left, panel, result, count, false, threaded && !splits));
          for (int64_t r = 0; r < height; r++)
            from_float_array(result + r * count, target + r * c_row, count);
        }
      }
    }
  });
  return first.take();
}

/* c = a b for float16 and bfloat16, summed in float and rounded once. */
template <class S>
mlxc_error* multiply_half(const char* op, const Matrix<const S>& a, const Matrix<const S>& b, S* c,
                          int64_t c_row, bool threaded) {
  const int64_t m = a.rows, n = b.cols, k = a.cols;
  if (m == 0 || n == 0) return nullptr;
  if (n == 1) return multiply_vector<S, float>(a, b.data, b.row_stride, c, c_row, false, threaded);
  if (m == 1) return multiply_vector<S, float>(b.transposed(), a.data, a.col_stride, c, 1, false, threaded);
  if (m <= kFewRows && b.row_stride == 1)
    return multiply_few_rows<S, float>(a, b.transposed(), c, c_row, false, threaded);
  /* Rows of a go through in blocks, so that the copies in float stay small. */
  const int64_t rows = std::min(m, std::max<int64_t>(256, (INT64_C(1) << 22) / (n + k)));
  if (rows == m && k > 0 && n >= 64 * host->thread_count()) {
    Scratch scratch(static_cast<size_t>(m * k) * sizeof(float));
    if (!scratch.ok()) return scratch.error();
    const Matrix<const float> left = convert_matrix(a, scratch.as<float>(), threaded);
    return multiply_panels<S, float>(op, left, n, c, c_row, INT64_C(1) << 19, threaded,
                                     [&](int64_t first, int64_t count, float* room) {
                                       return convert_matrix(b.block(0, first, k, count), room, false);
                                     });
  }
  Scratch scratch(static_cast<size_t>(k * n + rows * (k + n)) * sizeof(float));
  if (!scratch.ok()) return scratch.error();
  float* right_data = scratch.as<float>();
  float* left_data = right_data + k * n;
  float* result = left_data + rows * k;
  const Matrix<const float> right = convert_matrix(b, right_data, threaded);
  for (int64_t i = 0; i < m; i += rows) {
    const int64_t count = std::min(rows, m - i);
    const Matrix<const float> left = convert_matrix(a.block(i, 0, count, k), left_data, threaded);
    if (mlxc_error* error = multiply<float>(op, left, right, result, n, false, threaded)) return error;
    parallel_for(count, threaded ? grain_for_bytes(n * 6) : count, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r++) from_float_array(result + r * n, c + (i + r) * c_row, n);
    });
  }
  return nullptr;
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
