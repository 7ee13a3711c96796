/* What the kernels of linear algebra share: a view as a batch of matrices, and the loop over it.
 *
 * Used by kernels/linalg_*.cc. LAPACK reads columns first: a row-major matrix handed over as it lies is the
 * transposed one, which most kernels make use of; where it will not do, load_columns transposes. LAPACK runs
 * on the calling thread, so matrices of a batch are shared out among the threads.
 */
#ifndef MLXC_CPU_LINALG_BATCH_H
#define MLXC_CPU_LINALG_BATCH_H

#include <atomic>
#include <cmath>
#include <complex>

#include "copy.h"
#include "dtype.h"
#include "lapack.h"
#include "parallel.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

constexpr mlxc_dtype_mask kMaskLapack =
    MLXC_DTYPE_BIT(MLXC_FLOAT32) | MLXC_DTYPE_BIT(MLXC_FLOAT64) | kMaskComplex;

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<Complex<T>> {
  using type = T;
};
template <class T>
using Real = typename RealOf<T>::type;

/* Calls fn(Tag<T>{}) for the four types of LAPACK. */
template <class F>
mlxc_error* visit_lapack(const char* op, mlxc_dtype dtype, const F& fn) {
  switch (dtype) {
    case MLXC_FLOAT32: return fn(Tag<float>{});
    case MLXC_FLOAT64: return fn(Tag<double>{});
    case MLXC_COMPLEX64: return fn(Tag<Complex64>{});
    case MLXC_COMPLEX128: return fn(Tag<Complex128>{});
    default:
      return make_error(MLXC_ERROR_TYPE,
                        "%s: the CPU kernel got %s; it takes float32, float64 and complex numbers", op,
                        dtype_name(dtype));
  }
}

inline std::complex<double> to_wide(float x) { return x; }
inline std::complex<double> to_wide(double x) { return x; }
template <class T>
std::complex<double> to_wide(const Complex<T>& x) {
  return {x.re, x.im};
}
template <class T>
T from_wide(const std::complex<double>& x) {
  if constexpr (is_complex<T>) {
    return T{static_cast<Real<T>>(x.real()), static_cast<Real<T>>(x.imag())};
  } else {
    return static_cast<T>(x.real());
  }
}
template <class T>
T conjugated(T x) {
  if constexpr (is_complex<T>) x.im = -x.im;
  return x;
}
template <class T>
bool is_finite(const T& x) {
  if constexpr (is_complex<T>) {
    return std::isfinite(x.re) && std::isfinite(x.im);
  } else {
    return std::isfinite(x);
  }
}
template <class T>
bool all_finite(const T* a, int64_t n) {
  bool finite = true;
  for (int64_t i = 0; i < n; i++) finite = finite && is_finite(a[i]);
  return finite;
}

/* A view as matrices (its last two axes) or, with item_axes 0 or 1, as numbers or vectors, one for each index
 * of the axes before them. */
template <class T>
class Batch {
 public:
  explicit Batch(const mlxc_view* view, int item_axes = 2)
      : view_(view), axes_(view->ndim - item_axes), count_(1), item_size_(1) {
    for (int i = 0; i < axes_; i++) count_ *= view->shape[i];
    for (int i = axes_; i < view->ndim; i++) item_size_ *= view->shape[i];
  }
  int64_t count() const { return count_; }
  int64_t rows() const { return view_->shape[axes_]; }
  int64_t cols() const { return view_->shape[axes_ + 1]; }
  int64_t row_stride() const { return view_->strides[axes_]; }
  int64_t col_stride() const { return view_->strides[axes_ + 1]; }
  T* item(int64_t i) const {
    if (is_contiguous(view_)) return data<T>(view_) + i * item_size_;
    int64_t offset = 0;
    for (int axis = axes_ - 1; axis >= 0; axis--) {
      offset += i % view_->shape[axis] * view_->strides[axis];
      i /= view_->shape[axis];
    }
    return data<T>(view_) + offset;
  }
  /* Item i, row-major without gaps. */
  void load_rows(int64_t i, T* to) const { load(i, to, cols(), 1); }
  /* Item i, column-major without gaps. */
  void load_columns(int64_t i, T* to) const { load(i, to, 1, rows()); }
  /* Item i of a row-major result, from column-major memory whose columns are `lead` apart. */
  void store_columns(int64_t i, const T* from, int64_t lead) const {
    const int64_t shape[2] = {rows(), cols()}, source[2] = {1, lead}, target[2] = {cols(), 1};
    if (item_size_ > 0) copy_strided(item(i), target, from, source, shape, 2, sizeof(T));
  }

 private:
  void load(int64_t i, T* to, int64_t row, int64_t column) const {
    const int64_t shape[2] = {rows(), cols()};
    const int64_t source[2] = {row_stride(), col_stride()}, target[2] = {row, column};
    if (item_size_ <= 64) {
      const T* from = item(i);
      for (int64_t r = 0; r < shape[0]; r++) {
        for (int64_t c = 0; c < shape[1]; c++) to[r * row + c * column] = from[r * source[0] + c * source[1]];
      }
    } else {
      copy_strided(to, target, item(i), source, shape, 2, sizeof(T));
    }
  }
  const mlxc_view* view_;
  int axes_;
  int64_t count_, item_size_;
};

/* LAPACK's integers have 32 bits, and so has the number of elements it addresses. */
inline mlxc_error* check_sides(const char* op, int64_t m, int64_t n) {
  if (m <= INT32_MAX && n <= INT32_MAX && m * n <= INT32_MAX) return nullptr;
  return make_error(MLXC_ERROR_VALUE, "%s: matrices of %lld x %lld elements are too large for LAPACK", op,
                    static_cast<long long>(m), static_cast<long long>(n));
}

/* The size that a routine stored in work[0] when asked for it. Sizes beyond a float's precision were rounded.
 */
template <class T>
int work_size(const T& stored) {
  double size;
  if constexpr (is_complex<T>) {
    size = stored.re;
  } else {
    size = stored;
  }
  if (sizeof(Real<T>) == 4) size *= 1 + 1e-6;
  size = std::ceil(size);
  return size < 1 ? 1 : size < INT32_MAX ? static_cast<int>(size) : INT32_MAX;
}

/* Memory of one thread for one matrix at a time, handed out piece by piece. */
class Room {
 public:
  explicit Room(char* at) : at_(at) {}
  template <class T>
  T* take(int64_t count) {
    T* piece = reinterpret_cast<T*>(at_);
    at_ += bytes<T>(count);
    return piece;
  }
  template <class T>
  static size_t bytes(int64_t count) {
    return (static_cast<size_t>(count > 0 ? count : 1) * sizeof(T) + 63) / 64 * 64;
  }

 private:
  char* at_;
};

/* Calls fn(room, i) for each matrix of a batch, with `bytes` of room for it; `work` is about how many
 * multiplications one takes. fn returns whether it went well. The first matrix for which it did not becomes a
 * ValueError: "OP: the matrix WHAT". */
template <class F>
mlxc_error* for_each_matrix(const char* op, const char* what, const Lapack* lapack, int64_t count,
                            double work, size_t bytes, const F& fn) {
  std::atomic<int64_t> failed{count};
  std::atomic<bool> no_memory{false};
  auto run = [&](int64_t begin, int64_t end) {
    Scratch scratch(bytes);
    if (!scratch.ok()) {
      no_memory.store(true);
      return;
    }
    for (int64_t i = begin; i < end; i++) {
      if (fn(Room(scratch.as<char>()), i)) continue;
      int64_t first = failed.load();
      while (i < first && !failed.compare_exchange_weak(first, i)) {
      }
      return;
    }
  };
  const double grain = 100000.0 / (work + 500);
  const bool threaded = lapack == nullptr || lapack->runs_on_caller;
  parallel_for(count, threaded ? static_cast<int64_t>(grain) + 1 : count, run);
  if (no_memory.load()) return make_memory_error(bytes);
  const int64_t first = failed.load();
  if (first == count) return nullptr;
  if (count == 1) return make_error(MLXC_ERROR_VALUE, "%s: the matrix %s", op, what);
  return make_error(MLXC_ERROR_VALUE, "%s: matrix %lld of %lld %s", op, static_cast<long long>(first),
                    static_cast<long long>(count), what);
}

template <class T>
void fill_identity(T* a, int64_t n) {
  for (int64_t i = 0; i < n * n; i++) a[i] = T{};
  for (int64_t i = 0; i < n; i++) a[i * (n + 1)] = from_wide<T>(1.0);
}

/* Zeros outside of the lower or upper triangle of a row-major matrix. */
template <class T>
void keep_triangle(T* a, int64_t n, bool upper) {
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = upper ? 0 : i + 1; j < (upper ? i : n); j++) a[i * n + j] = T{};
  }
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
