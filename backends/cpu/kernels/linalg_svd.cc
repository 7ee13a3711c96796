/* svd, svdvals and pinv, by LAPACK's divide and conquer.
 *
 * Called by the core with outputs row-major. LAPACK is given the transposed matrix, as the row-major one
 * lies: of its factors u' s vh', read as they lie, vh' is the u sought and u' the vh, so that nothing is
 * transposed. NaN and infinity, from which LAPACK may not return, are an error, as a matrix whose iteration
 * does not converge is.
 */
#include <algorithm>

#include "blas.h"
#include "linalg_batch.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr const char* kNotFinite = "has NaN or infinite elements, or its singular values did not converge";

/* One decomposition of LAPACK's, m x n in its own terms: sizes, and what is needed beside the result. */
template <class T>
class Decomposition {
 public:
  Decomposition(const Lapack* lapack, char job, int64_t m, int64_t n)
      : routines_(table_of(*lapack, static_cast<T*>(nullptr))),
        job_(job),
        m_(static_cast<int>(m)),
        n_(static_cast<int>(n)),
        lead_u_(std::max(m_, 1)),
        lead_vh_(job == 'S' ? std::max(std::min(m_, n_), 1) : std::max(n_, 1)) {
    const int64_t least = std::min(m, n), most = std::max(m, n);
    n_iwork_ = 8 * least;
    if (is_complex<T>) {
      n_rwork_ = job == 'N' ? 7 * least : least * std::max(5 * least + 7, 2 * most + 2 * least + 1);
    }
    T size{}, none{};
    Real<T> real_none{};
    int int_none = 0;
    lwork_ = -1;
    call(&none, &real_none, &none, &none, &size, &real_none, &int_none);
    lwork_ = work_size(size);
  }
  size_t bytes() const {
    return Room::bytes<T>(lwork_) + Room::bytes<Real<T>>(n_rwork_) + Room::bytes<int>(n_iwork_);
  }
  /* Overwrites a. */
  bool run(Room* room, T* a, Real<T>* s, T* u, T* vh) const {
    T* work = room->take<T>(lwork_);
    Real<T>* rwork = room->take<Real<T>>(n_rwork_);
    int* iwork = room->take<int>(n_iwork_);
    return call(a, s, u, vh, work, rwork, iwork) == 0;
  }

 private:
  int call(T* a, Real<T>* s, T* u, T* vh, T* work, Real<T>* rwork, int* iwork) const {
    int info = 0;
    if constexpr (is_complex<T>) {
      routines_.gesdd_complex(&job_, &m_, &n_, a, &lead_u_, s, u, &lead_u_, vh, &lead_vh_, work, &lwork_,
                              rwork, iwork, &info, 1);
    } else {
      routines_.gesdd_real(&job_, &m_, &n_, a, &lead_u_, s, u, &lead_u_, vh, &lead_vh_, work, &lwork_, iwork,
                           &info, 1);
    }
    return info;
  }

  const LapackTable<T, Real<T>>& routines_;
  const char job_;
  const int m_, n_, lead_u_, lead_vh_;
  int lwork_ = 0;
  int64_t n_iwork_ = 0, n_rwork_ = 0;
};

/* The work memory of the divide and conquer algorithm is the largest of all. */
mlxc_error* check_svd_sides(const char* op, int64_t m, int64_t n) {
  const int64_t least = std::min(m, n);
  if (mlxc_error* error = check_sides(op, m, n)) return error;
  return check_sides(op, 5 * least + 8, least);
}

template <class T>
mlxc_error* make_svd(const Lapack* lapack, const mlxc_kernel_call* call) {
  const Batch<T> a(call->inputs[0]), u(call->outputs[0]), vh(call->outputs[2]);
  const Batch<Real<T>> s(call->outputs[1], 1);
  const bool full = params<mlxc_svd_params>(call)->full;
  const int64_t rows = a.rows(), cols = a.cols(), least = std::min(rows, cols);
  if (least == 0) {
    for (int64_t i = 0; i < a.count() && full; i++) {
      fill_identity(u.item(i), rows);
      fill_identity(vh.item(i), cols);
    }
    return nullptr;
  }
  if (mlxc_error* error = check_svd_sides("linalg.svd", rows, cols)) return error;
  if (full) {
    if (mlxc_error* error = check_sides("linalg.svd", std::max(rows, cols), std::max(rows, cols)))
      return error;
  }
  const Decomposition<T> decomposition(lapack, full ? 'A' : 'S', cols, rows);
  const size_t bytes = Room::bytes<T>(rows * cols) + decomposition.bytes();
  return for_each_matrix("linalg.svd", kNotFinite, lapack, a.count(), 20.0 * rows * cols * least, bytes,
                         [&](Room room, int64_t i) {
                           T* matrix = room.take<T>(rows * cols);
                           a.load_rows(i, matrix);
                           return all_finite(matrix, rows * cols) &&
                                  decomposition.run(&room, matrix, s.item(i), vh.item(i), u.item(i));
                         });
}

template <class T>
mlxc_error* make_svdvals(const Lapack* lapack, const mlxc_kernel_call* call) {
  const Batch<T> a(call->inputs[0]);
  const Batch<Real<T>> s(call->outputs[0], 1);
  const int64_t rows = a.rows(), cols = a.cols();
  if (mlxc_error* error = check_svd_sides("linalg.svdvals", rows, cols)) return error;
  const Decomposition<T> decomposition(lapack, 'N', cols, rows);
  const size_t bytes = Room::bytes<T>(rows * cols) + decomposition.bytes();
  return for_each_matrix("linalg.svdvals", kNotFinite, lapack, a.count(),
                         3.0 * rows * cols * std::min(rows, cols), bytes, [&](Room room, int64_t i) {
                           T* matrix = room.take<T>(rows * cols);
                           a.load_rows(i, matrix);
                           T none[2]{};
                           return all_finite(matrix, rows * cols) &&
                                  decomposition.run(&room, matrix, s.item(i), &none[0], &none[1]);
                         });
}

void multiply_transposed(const Blas& blas, int m, int n, int k, const float* a, const float* b, float* c) {
  blas.sgemm(kBlasRowMajor, kBlasTrans, kBlasTrans, m, n, k, 1, a, m, b, k, 0, c, n);
}
void multiply_transposed(const Blas& blas, int m, int n, int k, const double* a, const double* b, double* c) {
  blas.dgemm(kBlasRowMajor, kBlasTrans, kBlasTrans, m, n, k, 1, a, m, b, k, 0, c, n);
}
void multiply_transposed(const Blas& blas, int m, int n, int k, const Complex64* a, const Complex64* b,
                         Complex64* c) {
  const Complex64 one{1, 0}, zero{0, 0};
  blas.cgemm(kBlasRowMajor, kBlasTrans, kBlasTrans, m, n, k, &one, a, m, b, k, &zero, c, n);
}
void multiply_transposed(const Blas& blas, int m, int n, int k, const Complex128* a, const Complex128* b,
                         Complex128* c) {
  const Complex128 one{1, 0}, zero{0, 0};
  blas.zgemm(kBlasRowMajor, kBlasTrans, kBlasTrans, m, n, k, &one, a, m, b, k, &zero, c, n);
}

template <class T>
void scale(T* a, int64_t n, Real<T> by) {
  for (int64_t i = 0; i < n; i++) {
    if constexpr (is_complex<T>) {
      a[i].re *= by;
      a[i].im *= by;
    } else {
      a[i] *= by;
    }
  }
}

/* With the transposed matrix decomposed into u s vh, the inverse of the matrix itself is conj(u / s vh). */
template <class T>
mlxc_error* make_pinv(const Lapack* lapack, const Blas& blas, const mlxc_kernel_call* call) {
  const Batch<T> a(call->inputs[0]), out(call->outputs[0]);
  const Batch<Real<T>> rtol(call->inputs[1], 0);
  const int64_t rows = a.rows(), cols = a.cols(), least = std::min(rows, cols);
  if (mlxc_error* error = check_svd_sides("linalg.pinv", rows, cols)) return error;
  const Decomposition<T> decomposition(lapack, 'S', cols, rows);
  const size_t bytes = Room::bytes<T>(rows * cols) + Room::bytes<T>(cols * least) +
                       Room::bytes<T>(rows * least) + Room::bytes<Real<T>>(least) + decomposition.bytes();
  return for_each_matrix(
      "linalg.pinv", kNotFinite, lapack, a.count(), 15.0 * rows * cols * least, bytes,
      [&](Room room, int64_t i) {
        T* matrix = room.take<T>(rows * cols);
        T* u = room.take<T>(cols * least);
        T* vh = room.take<T>(rows * least);
        Real<T>* s = room.take<Real<T>>(least);
        a.load_rows(i, matrix);
        if (!all_finite(matrix, rows * cols) || !decomposition.run(&room, matrix, s, u, vh)) return false;
        const Real<T> cutoff = *rtol.item(i) * s[0];
        for (int64_t k = 0; k < least; k++) scale(u + k * cols, cols, s[k] > cutoff ? 1 / s[k] : Real<T>(0));
        T* inverse = out.item(i);
        multiply_transposed(blas, static_cast<int>(cols), static_cast<int>(rows), static_cast<int>(least), u,
                            vh, inverse);
        if constexpr (is_complex<T>) {
          for (int64_t j = 0; j < rows * cols; j++) inverse[j] = conjugated(inverse[j]);
        }
        return true;
      });
}

mlxc_error* run_svd(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0 && call->outputs[2]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.svd", &lapack)) return error;
  return visit_lapack("linalg.svd", call->inputs[0]->dtype,
                      [&](auto tag) { return make_svd<typename decltype(tag)::type>(lapack, call); });
}

mlxc_error* run_svdvals(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.svdvals", &lapack)) return error;
  return visit_lapack("linalg.svdvals", call->inputs[0]->dtype,
                      [&](auto tag) { return make_svdvals<typename decltype(tag)::type>(lapack, call); });
}

mlxc_error* run_pinv(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  const Blas* blas = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.pinv", &lapack)) return error;
  if (mlxc_error* error = open_blas("linalg.pinv", &blas)) return error;
  return visit_lapack("linalg.pinv", call->inputs[0]->dtype,
                      [&](auto tag) { return make_pinv<typename decltype(tag)::type>(lapack, *blas, call); });
}

const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_SVD, kMaskLapack, kMaskLapack, run_svd),
    make_row(MLXC_OP_SVDVALS, kMaskLapack, kMaskLapack, run_svdvals),
    make_row(MLXC_OP_PINV, kMaskLapack, kMaskLapack, run_pinv),
};

}  // namespace

KernelRows linalg_svd_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
