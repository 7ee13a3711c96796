/* cholesky, qr and lu_factor, by LAPACK.
 *
 * Called by the core with outputs row-major. Cholesky works in place on the transposed matrix, whose upper
 * factor is the lower one sought; the other two take their columns. An exactly singular matrix has LU factors
 * like any other; one that is not positive definite is an error.
 */
#include <algorithm>

#include "linalg_batch.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

template <class T>
mlxc_error* factor_cholesky(const Lapack* lapack, const mlxc_kernel_call* call) {
  const Batch<T> a(call->inputs[0]), out(call->outputs[0]);
  const auto& routines = table_of(*lapack, static_cast<T*>(nullptr));
  const bool upper = params<mlxc_cholesky_params>(call)->upper;
  const int64_t side = a.rows();
  if (mlxc_error* error = check_sides("linalg.cholesky", side, side)) return error;
  const int n = static_cast<int>(side);
  return for_each_matrix("linalg.cholesky", "is not positive definite", lapack, a.count(),
                         double(side) * side * side / 3, 0, [&](Room, int64_t i) {
                           T* factor = out.item(i);
                           a.load_rows(i, factor);
                           int info = 0;
                           routines.potrf(upper ? "L" : "U", &n, factor, &n, &info, 1);
                           keep_triangle(factor, side, upper);
                           return info == 0;
                         });
}

template <class T>
mlxc_error* factor_qr(const Lapack* lapack, const mlxc_kernel_call* call) {
  const Batch<T> a(call->inputs[0]), q(call->outputs[0]), r(call->outputs[1]);
  const auto& routines = table_of(*lapack, static_cast<T*>(nullptr));
  const int64_t rows = a.rows(), cols = a.cols(), width = q.cols(), least = std::min(rows, cols);
  const int64_t columns = std::max(cols, width);
  if (least == 0) {
    for (int64_t i = 0; i < q.count() && width > 0; i++) fill_identity(q.item(i), width);
    return nullptr;
  }
  if (mlxc_error* error = check_sides("linalg.qr", rows, columns)) return error;
  const int m = static_cast<int>(rows), n = static_cast<int>(cols), w = static_cast<int>(width);
  const int k = static_cast<int>(least), query = -1;
  int info = 0;
  T sizes[2]{}, none{};
  routines.geqrf(&m, &n, &none, &m, &none, &sizes[0], &query, &info);
  routines.orgqr(&m, &w, &k, &none, &m, &none, &sizes[1], &query, &info);
  const int lwork = std::max(work_size(sizes[0]), work_size(sizes[1]));
  const size_t bytes = Room::bytes<T>(rows * columns) + Room::bytes<T>(least) + Room::bytes<T>(lwork);
  return for_each_matrix("linalg.qr", "has no factors", lapack, a.count(), 2.0 * rows * cols * least, bytes,
                         [&](Room room, int64_t i) {
                           T* work = room.take<T>(lwork);
                           T* tau = room.take<T>(least);
                           T* factors = room.take<T>(rows * columns);
                           int result = 0;
                           a.load_columns(i, factors);
                           routines.geqrf(&m, &n, factors, &m, tau, work, &lwork, &result);
                           if (result != 0) return false;
                           T* to = r.item(i);
                           for (int64_t row = 0; row < width; row++) {
                             for (int64_t j = 0; j < cols; j++)
                               *to++ = j < row ? T{} : factors[row + j * rows];
                           }
                           routines.orgqr(&m, &w, &k, factors, &m, tau, work, &lwork, &result);
                           q.store_columns(i, factors, rows);
                           return result == 0;
                         });
}

/* LAPACK counts from 1. Where a column is all NaN it may name no row at all. */
int64_t pivot_row(int named, int64_t row, int64_t rows) {
  return named > row && named <= rows ? named - 1 : row;
}

template <class T>
mlxc_error* factor_lu(const Lapack* lapack, const mlxc_kernel_call* call) {
  const Batch<T> a(call->inputs[0]), lu(call->outputs[0]);
  const Batch<uint32_t> pivots(call->outputs[1], 1), permutation(call->outputs[2], 1);
  const auto& routines = table_of(*lapack, static_cast<T*>(nullptr));
  const int64_t rows = a.rows(), cols = a.cols(), least = std::min(rows, cols);
  if (mlxc_error* error = check_sides("linalg.lu_factor", rows, cols)) return error;
  const int m = static_cast<int>(rows), n = static_cast<int>(cols), lead = std::max(m, 1);
  const size_t bytes = Room::bytes<T>(rows * cols) + Room::bytes<int>(least);
  return for_each_matrix("linalg.lu_factor", "has no factors", lapack, a.count(), 1.0 * rows * cols * least,
                         bytes, [&](Room room, int64_t i) {
                           T* factors = room.take<T>(rows * cols);
                           int* exchanged = room.take<int>(least);
                           int info = 0;
                           if (least > 0) {
                             a.load_columns(i, factors);
                             routines.getrf(&m, &n, factors, &lead, exchanged, &info);
                             lu.store_columns(i, factors, rows);
                           }
                           /* The exchanges undone, last first: row r of a is row place[r] of the product. */
                           uint32_t* place = permutation.item(i);
                           for (int64_t row = 0; row < rows; row++) place[row] = static_cast<uint32_t>(row);
                           for (int64_t row = least - 1; row >= 0; row--) {
                             const int64_t with = pivot_row(exchanged[row], row, rows);
                             pivots.item(i)[row] = static_cast<uint32_t>(with);
                             std::swap(place[row], place[with]);
                           }
                           return info >= 0;
                         });
}

mlxc_error* run_cholesky(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.cholesky", &lapack)) return error;
  return visit_lapack("linalg.cholesky", call->outputs[0]->dtype,
                      [&](auto tag) { return factor_cholesky<typename decltype(tag)::type>(lapack, call); });
}

mlxc_error* run_qr(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.qr", &lapack)) return error;
  return visit_lapack("linalg.qr", call->outputs[0]->dtype,
                      [&](auto tag) { return factor_qr<typename decltype(tag)::type>(lapack, call); });
}

mlxc_error* run_lu_factor(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  if (call->outputs[2]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.lu_factor", &lapack)) return error;
  return visit_lapack("linalg.lu_factor", call->outputs[0]->dtype,
                      [&](auto tag) { return factor_lu<typename decltype(tag)::type>(lapack, call); });
}

const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_CHOLESKY, kMaskLapack, kMaskLapack, run_cholesky),
    make_row(MLXC_OP_QR, kMaskLapack, kMaskLapack, run_qr),
    make_row(MLXC_OP_LU_FACTOR, kMaskLapack, kMaskLapack | MLXC_DTYPE_BIT(MLXC_UINT32), run_lu_factor),
};

}  // namespace

KernelRows linalg_factor_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
