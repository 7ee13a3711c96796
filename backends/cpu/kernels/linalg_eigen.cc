/* eigh, eigvalsh, eig and eigvals, by LAPACK.
 *
 * Called by the core with outputs row-major. Matrices are handed over column-major, and vectors transposed
 * back. LAPACK does not return from some matrices with NaN or infinity, so these are an error here, as one
 * whose iteration does not converge is.
 */
#include <algorithm>

#include "linalg_batch.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr const char* kNotFinite = "has NaN or infinite elements, or its eigenvalues did not converge";

template <class T>
bool triangle_finite(const T* columns, int64_t n, bool upper) {
  bool finite = true;
  for (int64_t j = 0; j < n; j++) {
    const int64_t from = upper ? 0 : j, to = upper ? j + 1 : n;
    finite = finite && all_finite(columns + j * n + from, to - from);
  }
  return finite;
}

/* What heevd takes in work memory; syevd has no rwork. */
template <class T>
struct HermitianWork {
  T* work;
  Real<T>* rwork;
  int* iwork;
  int lwork, lrwork, liwork;
};

template <class T>
int solve_hermitian(const LapackTable<T, Real<T>>& routines, const char* job, const char* triangle, int n,
                    T* a, Real<T>* w, const HermitianWork<T>& room) {
  int info = 0;
  if constexpr (is_complex<T>) {
    routines.heevd(job, triangle, &n, a, &n, w, room.work, &room.lwork, room.rwork, &room.lrwork, room.iwork,
                   &room.liwork, &info, 1, 1);
  } else {
    routines.syevd(job, triangle, &n, a, &n, w, room.work, &room.lwork, room.iwork, &room.liwork, &info, 1,
                   1);
  }
  return info;
}

/* eigvalsh where `vectors` is null. */
template <class T>
mlxc_error* decompose_hermitian(const char* op, const Lapack* lapack, const mlxc_view* input,
                                const mlxc_view* values, const mlxc_view* vectors, bool upper) {
  const Batch<T> a(input);
  const Batch<Real<T>> w(values, 1);
  const auto& routines = table_of(*lapack, static_cast<T*>(nullptr));
  const int64_t side = a.rows();
  /* The work memory of the divide and conquer algorithm is the largest of all. */
  if (mlxc_error* error = check_sides(op, 3 * side + 8, side)) return error;
  const int n = static_cast<int>(side);
  const char* job = vectors ? "V" : "N";
  const char* triangle = upper ? "U" : "L";
  T size{}, none{};
  Real<T> real_size{}, real_none{};
  int int_size = 0;
  solve_hermitian<T>(routines, job, triangle, n, &none, &real_none,
                     HermitianWork<T>{&size, &real_size, &int_size, -1, -1, -1});
  const int lwork = work_size(size), lrwork = is_complex<T> ? work_size(real_size) : 0;
  const int liwork = std::max(int_size, 1);
  const size_t bytes = Room::bytes<T>(side * side) + Room::bytes<T>(lwork) + Room::bytes<Real<T>>(lrwork) +
                       Room::bytes<int>(liwork);
  return for_each_matrix(
      op, kNotFinite, lapack, a.count(), (vectors ? 9.0 : 2.0) * side * side * side, bytes,
      [&](Room room, int64_t i) {
        T* matrix = room.take<T>(side * side);
        const HermitianWork<T> work{
            room.take<T>(lwork), room.take<Real<T>>(lrwork), room.take<int>(liwork), lwork, lrwork, liwork};
        a.load_columns(i, matrix);
        if (!triangle_finite(matrix, side, upper)) return false;
        if (solve_hermitian<T>(routines, job, triangle, n, matrix, w.item(i), work) != 0) return false;
        if (vectors) Batch<T>(vectors).store_columns(i, matrix, side);
        return true;
      });
}

/* Real matrices: the values and vectors of conjugate pairs come in two real columns. */
template <class T>
int solve_general(const LapackTable<T, T>& routines, const char* job, int n, T* a, T* parts, T* vectors,
                  T* work, int lwork, T*, Complex<T>* values) {
  int info = 0;
  const int one = 1;
  T* imaginary = lwork == -1 ? parts : parts + n; /* a question for the size brings no memory */
  routines.geev_real("N", job, &n, a, &n, parts, imaginary, nullptr, &one, vectors, &n, work, &lwork, &info,
                     1, 1);
  if (lwork == -1) return info;
  for (int i = 0; i < n; i++) values[i] = Complex<T>{parts[i], parts[n + i]};
  return info;
}

template <class T>
int solve_general(const LapackTable<Complex<T>, T>& routines, const char* job, int n, Complex<T>* a,
                  Complex<T>*, Complex<T>* vectors, Complex<T>* work, int lwork, T* rwork,
                  Complex<T>* values) {
  int info = 0;
  const int one = 1;
  routines.geev_complex("N", job, &n, a, &n, values, nullptr, &one, vectors, &n, work, &lwork, rwork, &info,
                        1, 1);
  return info;
}

/* The complex vectors of LAPACK's columns, row-major. */
template <class T>
void write_vectors(const T* columns, const Complex<T>* values, int64_t n, Complex<T>* out) {
  for (int64_t j = 0; j < n; j++) {
    const T* re = columns + j * n;
    if (values[j].im == 0) {
      for (int64_t i = 0; i < n; i++) out[i * n + j] = Complex<T>{re[i], 0};
    } else {
      for (int64_t i = 0; i < n; i++) {
        out[i * n + j] = Complex<T>{re[i], re[n + i]};
        out[i * n + j + 1] = Complex<T>{re[i], -re[n + i]};
      }
      j++;
    }
  }
}

template <class T>
void write_vectors(const Complex<T>* columns, const Complex<T>*, int64_t n, Complex<T>* out) {
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < n; i++) out[i * n + j] = columns[j * n + i];
  }
}

/* eigvals where `vectors` is null. */
template <class T>
mlxc_error* decompose_general(const char* op, const Lapack* lapack, const mlxc_view* input,
                              const mlxc_view* values, const mlxc_view* vectors) {
  using C = Complex<Real<T>>;
  const Batch<T> a(input);
  const Batch<C> w(values, 1);
  const auto& routines = table_of(*lapack, static_cast<T*>(nullptr));
  const int64_t side = a.rows();
  if (mlxc_error* error = check_sides(op, 3 * side + 8, side)) return error;
  const int n = static_cast<int>(side);
  const char* job = vectors ? "V" : "N";
  T size{}, none{};
  Real<T> real_none{};
  C complex_none{};
  T both[2]{};
  (void)none;
  solve_general(routines, job, n, &none, both, &none, &size, -1, &real_none, &complex_none);
  const int lwork = std::max(work_size(size), 4 * n);
  const size_t bytes = 2 * Room::bytes<T>(side * side) + Room::bytes<T>(2 * side) + Room::bytes<T>(lwork) +
                       Room::bytes<Real<T>>(2 * side);
  return for_each_matrix(
      op, kNotFinite, lapack, a.count(), 25.0 * side * side * side, bytes, [&](Room room, int64_t i) {
        T* matrix = room.take<T>(side * side);
        T* columns = room.take<T>(side * side);
        T* parts = room.take<T>(2 * side);
        T* work = room.take<T>(lwork);
        Real<T>* rwork = room.take<Real<T>>(2 * side);
        a.load_columns(i, matrix);
        if (!all_finite(matrix, side * side)) return false;
        if (solve_general(routines, job, n, matrix, parts, columns, work, lwork, rwork, w.item(i)) != 0)
          return false;
        if (vectors) write_vectors(columns, w.item(i), side, Batch<C>(vectors).item(i));
        return true;
      });
}

mlxc_error* run_hermitian(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const bool with_vectors = call->op == MLXC_OP_EIGH;
  const char* op = with_vectors ? "linalg.eigh" : "linalg.eigvalsh";
  const bool upper =
      with_vectors ? params<mlxc_eigh_params>(call)->upper : params<mlxc_eigvalsh_params>(call)->upper;
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack(op, &lapack)) return error;
  const mlxc_view* vectors = with_vectors ? call->outputs[1] : nullptr;
  return visit_lapack(op, call->inputs[0]->dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return decompose_hermitian<T>(op, lapack, call->inputs[0], call->outputs[0], vectors, upper);
  });
}

mlxc_error* run_general(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const bool with_vectors = call->op == MLXC_OP_EIG;
  const char* op = with_vectors ? "linalg.eig" : "linalg.eigvals";
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack(op, &lapack)) return error;
  const mlxc_view* vectors = with_vectors ? call->outputs[1] : nullptr;
  return visit_lapack(op, call->inputs[0]->dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return decompose_general<T>(op, lapack, call->inputs[0], call->outputs[0], vectors);
  });
}

const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_EIGH, kMaskLapack, kMaskLapack, run_hermitian),
    make_row(MLXC_OP_EIGVALSH, kMaskLapack, kMaskLapack, run_hermitian),
    make_row(MLXC_OP_EIG, kMaskLapack, kMaskComplex, run_general),
    make_row(MLXC_OP_EIGVALS, kMaskLapack, kMaskComplex, run_general),
};

}  // namespace

KernelRows linalg_eigen_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
