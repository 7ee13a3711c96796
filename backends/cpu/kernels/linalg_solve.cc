/* inverse, tri_inverse, solve and solve_triangular, by LAPACK.
 *
 * Called by the core with outputs row-major. All work on the transposed matrix, as a row-major one lies: the
 * inverse of the transposed is the transposed inverse, and equations are solved "transposed". A singular
 * matrix, which has an exact zero on the diagonal of its factor, is an error; NaN and infinity run through.
 */
#include <algorithm>

#include "linalg_batch.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

template <class T>
mlxc_error* invert(const Lapack* lapack, const mlxc_kernel_call* call) {
  const Batch<T> a(call->inputs[0]), out(call->outputs[0]);
  const auto& routines = table_of(*lapack, static_cast<T*>(nullptr));
  const int64_t side = a.rows();
  if (mlxc_error* error = check_sides("linalg.inv", side, side)) return error;
  const int n = static_cast<int>(side), query = -1;
  int info = 0, no_pivot = 1;
  T size{}, none{};
  routines.getri(&n, &none, &n, &no_pivot, &size, &query, &info);
  const int lwork = std::max(work_size(size), n);
  const size_t bytes = Room::bytes<T>(lwork) + Room::bytes<int>(side);
  return for_each_matrix("linalg.inv", "is singular", lapack, a.count(), double(side) * side * side, bytes,
                         [&](Room room, int64_t i) {
                           T* work = room.take<T>(lwork);
                           int* pivots = room.take<int>(side);
                           T* inverse = out.item(i);
                           int result = 0;
                           a.load_rows(i, inverse);
                           routines.getrf(&n, &n, inverse, &n, pivots, &result);
                           if (result == 0) routines.getri(&n, inverse, &n, pivots, work, &lwork, &result);
                           return result == 0;
                         });
}

template <class T>
mlxc_error* invert_triangle(const Lapack* lapack, const mlxc_kernel_call* call) {
  const Batch<T> a(call->inputs[0]), out(call->outputs[0]);
  const auto& routines = table_of(*lapack, static_cast<T*>(nullptr));
  const bool upper = params<mlxc_tri_inverse_params>(call)->upper;
  const int64_t side = a.rows();
  if (mlxc_error* error = check_sides("linalg.tri_inv", side, side)) return error;
  const int n = static_cast<int>(side);
  return for_each_matrix("linalg.tri_inv", "is singular", lapack, a.count(), double(side) * side * side / 3,
                         0, [&](Room, int64_t i) {
                           T* inverse = out.item(i);
                           int info = 0;
                           a.load_rows(i, inverse);
                           keep_triangle(inverse, side, upper);
                           routines.trtri(upper ? "L" : "U", "N", &n, inverse, &n, &info, 1, 1);
                           return info == 0;
                         });
}

/* Both kinds of equations: `solve_one` gets the matrix (row-major) and the right side (column-major). */
template <class T, class F>
mlxc_error* solve_batch(const char* op, const Lapack* lapack, const mlxc_kernel_call* call, double work,
                        const F& solve_one) {
  const Batch<T> a(call->inputs[0]), b(call->inputs[1]), out(call->outputs[0]);
  const int64_t side = a.rows(), width = b.cols();
  if (mlxc_error* error = check_sides(op, side, std::max(side, width))) return error;
  const size_t bytes = Room::bytes<T>(side * side) + Room::bytes<T>(side * width) + Room::bytes<int>(side);
  return for_each_matrix(op, "is singular", lapack, a.count(), work, bytes, [&](Room room, int64_t i) {
    T* matrix = room.take<T>(side * side);
    int* pivots = room.take<int>(side);
    T* right = width == 1 ? out.item(i) : room.take<T>(side * width);
    a.load_rows(i, matrix);
    b.load_columns(i, right);
    const bool solved = solve_one(matrix, right, pivots);
    if (width != 1) out.store_columns(i, right, side);
    return solved;
  });
}

template <class T>
mlxc_error* solve_square(const Lapack* lapack, const mlxc_kernel_call* call) {
  const auto& routines = table_of(*lapack, static_cast<T*>(nullptr));
  const mlxc_view* b = call->inputs[1];
  const double side = static_cast<double>(b->shape[b->ndim - 2]),
               width = static_cast<double>(b->shape[b->ndim - 1]);
  const int n = static_cast<int>(b->shape[b->ndim - 2]), nrhs = static_cast<int>(b->shape[b->ndim - 1]);
  return solve_batch<T>("linalg.solve", lapack, call, side * side * (side / 3 + width),
                        [&](T* matrix, T* right, int* pivots) {
                          int info = 0;
                          routines.getrf(&n, &n, matrix, &n, pivots, &info);
                          if (info == 0)
                            routines.getrs("T", &n, &nrhs, matrix, &n, pivots, right, &n, &info, 1);
                          return info == 0;
                        });
}

template <class T>
mlxc_error* solve_triangle(const Lapack* lapack, const mlxc_kernel_call* call) {
  const auto& routines = table_of(*lapack, static_cast<T*>(nullptr));
  const bool upper = params<mlxc_solve_triangular_params>(call)->upper;
  const mlxc_view* b = call->inputs[1];
  const double side = static_cast<double>(b->shape[b->ndim - 2]),
               width = static_cast<double>(b->shape[b->ndim - 1]);
  const int n = static_cast<int>(b->shape[b->ndim - 2]), nrhs = static_cast<int>(b->shape[b->ndim - 1]);
  return solve_batch<T>(
      "linalg.solve_triangular", lapack, call, side * side * width, [&](T* matrix, T* right, int*) {
        int info = 0;
        routines.trtrs(upper ? "L" : "U", "T", "N", &n, &nrhs, matrix, &n, right, &n, &info, 1, 1, 1);
        return info == 0;
      });
}

mlxc_error* run_inverse(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.inv", &lapack)) return error;
  return visit_lapack("linalg.inv", call->outputs[0]->dtype,
                      [&](auto tag) { return invert<typename decltype(tag)::type>(lapack, call); });
}

mlxc_error* run_tri_inverse(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.tri_inv", &lapack)) return error;
  return visit_lapack("linalg.tri_inv", call->outputs[0]->dtype,
                      [&](auto tag) { return invert_triangle<typename decltype(tag)::type>(lapack, call); });
}

mlxc_error* run_solve(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.solve", &lapack)) return error;
  return visit_lapack("linalg.solve", call->outputs[0]->dtype,
                      [&](auto tag) { return solve_square<typename decltype(tag)::type>(lapack, call); });
}

mlxc_error* run_solve_triangular(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const Lapack* lapack = nullptr;
  if (call->outputs[0]->size == 0) return nullptr;
  if (mlxc_error* error = open_lapack("linalg.solve_triangular", &lapack)) return error;
  return visit_lapack("linalg.solve_triangular", call->outputs[0]->dtype,
                      [&](auto tag) { return solve_triangle<typename decltype(tag)::type>(lapack, call); });
}

const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_INVERSE, kMaskLapack, kMaskLapack, run_inverse),
    make_row(MLXC_OP_TRI_INVERSE, kMaskLapack, kMaskLapack, run_tri_inverse),
    make_row(MLXC_OP_SOLVE, kMaskLapack, kMaskLapack, run_solve),
    make_row(MLXC_OP_SOLVE_TRIANGULAR, kMaskLapack, kMaskLapack, run_solve_triangular),
};

}  // namespace

KernelRows linalg_solve_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
