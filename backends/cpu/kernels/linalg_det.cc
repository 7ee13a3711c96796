/* det, slogdet and cofactor, from LU factors by LAPACK.
 *
 * Called by the core. Products and logarithms are taken in double. A singular matrix has determinant 0, sign
 * 0 and logarithm -inf. Cofactors are det(a) inverse(a)^T where the matrix is well conditioned; near singular
 * ones, and at them, they are built from the singular value decomposition, which is exact to rounding for
 * every rank.
 */
#include <algorithm>
#include <limits>

#include "linalg_batch.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

using Wide = std::complex<double>;

/* a b without the recovery of infinities that std::complex does. */
Wide multiply(const Wide& a, const Wide& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/* A factored matrix, and whether it has an exact zero on its diagonal. */
template <class T>
struct Factored {
  const T* factors;
  const int* pivots;
  int64_t n;
  bool singular;

  double turn(int64_t i) const { return pivots[i] != i + 1 ? -1 : 1; }
  const T& diagonal(int64_t i) const { return factors[i * (n + 1)]; }
};

template <class T>
Wide determinant_of(const Factored<T>& matrix) {
  if (matrix.singular) return 0;
  if constexpr (is_complex<T>) {
    Wide product = 1;
    for (int64_t i = 0; i < matrix.n; i++)
      product = multiply(product, matrix.turn(i) * to_wide(matrix.diagonal(i)));
    return product;
  } else {
    double product = 1;
    for (int64_t i = 0; i < matrix.n; i++) product *= matrix.turn(i) * matrix.diagonal(i);
    return product;
  }
}

/* The determinant's sign or phase, and the logarithm of its magnitude. */
template <class T>
Wide sign_and_logarithm_of(const Factored<T>& matrix, double* logarithm) {
  *logarithm = matrix.singular ? -std::numeric_limits<double>::infinity() : 0;
  if (matrix.singular) return 0;
  if constexpr (is_complex<T>) {
    Wide phase = 1;
    for (int64_t i = 0; i < matrix.n; i++) {
      const Wide x = to_wide(matrix.diagonal(i));
      const double size = std::abs(x);
      phase = multiply(phase, matrix.turn(i) * (x / size));
      *logarithm += std::log(size);
    }
    return phase;
  } else {
    double sign = 1;
    for (int64_t i = 0; i < matrix.n; i++) {
      const double x = static_cast<double>(matrix.diagonal(i));
      sign *= x < 0 ? -matrix.turn(i) : x > 0 ? matrix.turn(i) : x;
      *logarithm += std::log(std::fabs(x));
    }
    return sign;
  }
}

/* Calls store(i, factored) for each matrix. */
template <class T, class F>
mlxc_error* factor_each(const char* op, const Lapack* lapack, const mlxc_kernel_call* call, const F& store) {
  const Batch<T> a(call->inputs[0]);
  const auto& routines = table_of(*lapack, static_cast<T*>(nullptr));
  const int64_t side = a.rows();
  if (mlxc_error* error = check_sides(op, side, side)) return error;
  const int n = static_cast<int>(side), lead = std::max(n, 1);
  const size_t bytes = Room::bytes<T>(side * side) + Room::bytes<int>(side);
  return for_each_matrix(op, "has no factors", lapack, a.count(), double(side) * side * side / 3, bytes,
                         [&](Room room, int64_t i) {
                           T* factors = room.take<T>(side * side);
                           int* pivots = room.take<int>(side);
                           int info = 0;
                           if (n > 0) {
                             a.load_rows(i, factors);
                             routines.getrf(&n, &n, factors, &lead, pivots, &info);
                           }
                           store(i, Factored<T>{factors, pivots, side, info > 0});
                           return info >= 0;
                         });
}

template <class T>
mlxc_error* make_det(const Lapack* lapack, const mlxc_kernel_call* call) {
  const Batch<T> out(call->outputs[0], 0);
  return factor_each<T>("linalg.det", lapack, call, [&](int64_t i, const Factored<T>& matrix) {
    *out.item(i) = from_wide<T>(determinant_of(matrix));
  });
}

template <class T>
mlxc_error* make_slogdet(const Lapack* lapack, const mlxc_kernel_call* call) {
  const Batch<T> sign(call->outputs[0], 0);
  const Batch<Real<T>> log_size(call->outputs[1], 0);
  return factor_each<T>("linalg.slogdet", lapack, call, [&](int64_t i, const Factored<T>& matrix) {
    double logarithm = 0;
    *sign.item(i) = from_wide<T>(sign_and_logarithm_of(matrix, &logarithm));
    *log_size.item(i) = static_cast<Real<T>>(logarithm);
  });
}

/* The greatest sum of magnitudes along a row of memory. */
template <class T>
double norm_of(const T* a, int64_t n) {
  double greatest = 0;
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += std::abs(to_wide(a[i * n + j]));
    greatest = sum > greatest || std::isnan(sum) ? sum : greatest;
  }
  return greatest;
}

/* Beyond this condition number the inverse loses too many digits. */
constexpr double kWellConditioned = 1000;

/* Memory of the singular value decomposition of one n x n matrix. */
template <class T>
struct SvdRoom {
  T *matrix, *u, *vh, *work;
  Real<T>*s, *rwork;
  int* iwork;
  int lwork;
};

template <class T>
int decompose(const LapackTable<T, Real<T>>& routines, int n, const SvdRoom<T>& room) {
  int info = 0;
  if constexpr (is_complex<T>) {
    routines.gesdd_complex("A", &n, &n, room.matrix, &n, room.s, room.u, &n, room.vh, &n, room.work,
                           &room.lwork, room.rwork, room.iwork, &info, 1);
  } else {
    routines.gesdd_real("A", &n, &n, room.matrix, &n, room.s, room.u, &n, room.vh, &n, room.work, &room.lwork,
                        room.iwork, &info, 1);
  }
  return info;
}

template <class T>
Wide factor_and_multiply(const LapackTable<T, Real<T>>& routines, const T* unitary, int n, T* copy,
                         int* pivots) {
  std::copy(unitary, unitary + static_cast<int64_t>(n) * n, copy);
  int info = 0;
  routines.getrf(&n, &n, copy, &n, pivots, &info);
  return determinant_of(Factored<T>{copy, pivots, n, info > 0});
}

template <class T>
mlxc_error* make_cofactors(const Lapack* lapack, const mlxc_kernel_call* call) {
  const Batch<T> a(call->inputs[0]), out(call->outputs[0]);
  const auto& routines = table_of(*lapack, static_cast<T*>(nullptr));
  const int64_t side = a.rows(), area = side * side;
  if (mlxc_error* error = check_sides("linalg.det", 5 * side + 8, side)) return error;
  const int n = static_cast<int>(side);
  SvdRoom<T> wanted{};
  T size{}, none{};
  Real<T> real_none{};
  int info = 0, int_none = 0;
  wanted.matrix = wanted.u = wanted.vh = &none;
  wanted.work = &size;
  wanted.s = wanted.rwork = &real_none;
  wanted.iwork = &int_none;
  wanted.lwork = -1;
  decompose<T>(routines, n, wanted);
  T size_inverse{};
  const int query = -1;
  routines.getri(&n, &none, &n, &int_none, &size_inverse, &query, &info);
  const int lwork = std::max({work_size(size), work_size(size_inverse), n});
  const int64_t n_rwork = is_complex<T> ? 5 * area + 7 * side : 0;
  const size_t bytes = 3 * Room::bytes<T>(area) + Room::bytes<T>(lwork) + Room::bytes<Real<T>>(side) +
                       Room::bytes<Real<T>>(n_rwork) + Room::bytes<int>(8 * side);
  return for_each_matrix(
      "linalg.det", "has no cofactors: its singular values did not converge", lapack, a.count(),
      2.0 * side * area, bytes, [&](Room room, int64_t i) {
        SvdRoom<T> svd{};
        svd.matrix = room.take<T>(area);
        svd.u = room.take<T>(area);
        svd.vh = room.take<T>(area);
        svd.work = room.take<T>(lwork);
        svd.s = room.take<Real<T>>(side);
        svd.rwork = room.take<Real<T>>(n_rwork);
        svd.iwork = room.take<int>(8 * side);
        svd.lwork = lwork;
        T* cofactors = out.item(i);
        /* Columns read as rows: the inverse comes out transposed. */
        a.load_columns(i, svd.matrix);
        if (!all_finite(svd.matrix, area)) {
          std::fill(cofactors, cofactors + area, from_wide<T>(std::numeric_limits<double>::quiet_NaN()));
          return true;
        }
        std::copy(svd.matrix, svd.matrix + area, cofactors);
        int result = 0;
        routines.getrf(&n, &n, cofactors, &n, svd.iwork, &result);
        if (result == 0) {
          const Wide det = determinant_of(Factored<T>{cofactors, svd.iwork, side, false});
          routines.getri(&n, cofactors, &n, svd.iwork, svd.work, &lwork, &result);
          if (result == 0 && norm_of(svd.matrix, side) * norm_of(cofactors, side) < kWellConditioned) {
            for (int64_t j = 0; j < area; j++) cofactors[j] = from_wide<T>(det * to_wide(cofactors[j]));
            return true;
          }
        }
        if (decompose<T>(routines, n, svd) != 0) return false;
        const Wide phase = factor_and_multiply(routines, svd.u, n, svd.matrix, svd.iwork) *
                           factor_and_multiply(routines, svd.vh, n, svd.matrix, svd.iwork);
        /* Of a = u s vh the cofactors are det(u vh) conj(u) e conj(vh), e[k] the product of the other values.
         */
        std::fill(cofactors, cofactors + area, T{});
        for (int64_t k = 0; k < side; k++) {
          double others = 1;
          for (int64_t j = 0; j < side; j++) others *= j == k ? 1.0 : static_cast<double>(svd.s[j]);
          if (others == 0) continue;
          for (int64_t row = 0; row < side; row++) {
            const Wide factor = phase * others * std::conj(to_wide(svd.u[row + k * side]));
            for (int64_t col = 0; col < side; col++) {
              T& to = cofactors[row * side + col];
              to = from_wide<T>(to_wide(to) + factor * std::conj(to_wide(svd.vh[k + col * side])));
            }
          }
        }
        return true;
      });
}

mlxc_error* run_det(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.det", &lapack)) return error;
  return visit_lapack("linalg.det", call->outputs[0]->dtype,
                      [&](auto tag) { return make_det<typename decltype(tag)::type>(lapack, call); });
}

mlxc_error* run_slogdet(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.slogdet", &lapack)) return error;
  return visit_lapack("linalg.slogdet", call->outputs[0]->dtype,
                      [&](auto tag) { return make_slogdet<typename decltype(tag)::type>(lapack, call); });
}

mlxc_error* run_cofactor(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.det", &lapack)) return error;
  return visit_lapack("linalg.det", call->outputs[0]->dtype,
                      [&](auto tag) { return make_cofactors<typename decltype(tag)::type>(lapack, call); });
}

const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_DET, kMaskLapack, kMaskLapack, run_det),
    make_row(MLXC_OP_SLOGDET, kMaskLapack, kMaskLapack, run_slogdet),
    make_row(MLXC_OP_COFACTOR, kMaskLapack, kMaskLapack, run_cofactor),
};

}  // namespace

KernelRows linalg_det_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
