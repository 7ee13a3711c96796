/* gather_mm and segmented_mm: many matrix products whose operands lie within larger arrays.
 *
 * Operands may have any strides. Products with one and the same right side that follow each other are done as
 * one tall product, so sorted indices are fast. Rule: indices and segments are checked before anything is
 * computed.
 */
#include <vector>

#include "gemm.h"
#include "matrix_index.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

/* The last two axes of the matrix with the flat index `index`. */
template <class T>
Matrix<const T> pick_matrix(const mlxc_view* view, int64_t index) {
  const int r = view->ndim - 2;
  int64_t offset = 0;
  for (int axis = r - 1; axis >= 0; axis--) {
    offset += index % view->shape[axis] * view->strides[axis];
    index /= view->shape[axis];
  }
  return Matrix<const T>{data<const T>(view) + offset, view->shape[r], view->shape[r + 1], view->strides[r],
                         view->strides[r + 1]};
}

template <class T>
mlxc_error* multiply_any(const char* op, const Matrix<const T>& a, const Matrix<const T>& b, T* c,
                         bool threaded) {
  if (a.cols == 0) {
    std::memset(static_cast<void*>(c), 0, static_cast<size_t>(a.rows * b.cols) * sizeof(T));
    return nullptr;
  }
  if constexpr (is_half<T>) {
    return multiply_half<T>(op, a, b, c, b.cols, threaded);
  } else {
    return multiply<T>(op, a, b, c, b.cols, false, threaded);
  }
}

/* Runs fn(i, threaded) for i in [0, count): side by side if there is enough to do, else with the threads
 * inside. */
template <class F>
mlxc_error* run_products(int64_t count, double work_each, const F& fn) {
  const int64_t threads = host->thread_count();
  const bool few = count < 2 * threads && work_each > 64.0 * 64.0 * 64.0;
  if (threads == 1 || few) {
    for (int64_t i = 0; i < count; i++) {
      if (mlxc_error* error = fn(i, true)) return error;
    }
    return nullptr;
  }
  FirstError first;
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(64.0 * 64.0 * 64.0 / (work_each + 1)));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      if (mlxc_error* error = fn(i, false)) first.set(error);
    }
  });
  return first.take();
}

template <class T>
mlxc_error* gather_products(const mlxc_view* a, const mlxc_view* b, const std::vector<int64_t>& lhs,
                            const std::vector<int64_t>& rhs, T* out) {
  const int64_t rows = a->shape[a->ndim - 2], inner = a->shape[a->ndim - 1], columns = b->shape[b->ndim - 1];
  const size_t count = lhs.size();
  std::vector<size_t> starts; /* of runs with the same right side */
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || rhs[i] != rhs[i - 1]) starts.push_back(i);
  }
  starts.push_back(count);
  const int64_t runs = static_cast<int64_t>(starts.size()) - 1;
  const double work = static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(columns) *
                      static_cast<double>(count) / static_cast<double>(runs);
  return run_products(runs, work, [&](int64_t run, bool threaded) -> mlxc_error* {
    const size_t begin = starts[static_cast<size_t>(run)], end = starts[static_cast<size_t>(run) + 1];
    const Matrix<const T> right = pick_matrix<T>(b, rhs[begin]);
    Matrix<const T> left = pick_matrix<T>(a, lhs[begin]);
    T* to = out + static_cast<int64_t>(begin) * rows * columns;
    if (end - begin == 1) return multiply_any<T>("gather_mm", left, right, to, threaded);
    const int64_t tall = static_cast<int64_t>(end - begin) * rows;
    Scratch scratch(static_cast<size_t>(tall * inner) * sizeof(T));
    if (!scratch.ok()) return scratch.error();
    const int64_t shape[2] = {rows, inner}, dense[2] = {inner, 1};
    for (size_t i = begin; i < end; i++) {
      left = pick_matrix<T>(a, lhs[i]);
      const int64_t strides[2] = {left.row_stride, left.col_stride};
      copy_strided(scratch.as<T>() + static_cast<int64_t>(i - begin) * rows * inner, dense, left.data,
                   strides, shape, 2, sizeof(T));
    }
    return multiply_any<T>("gather_mm", Matrix<const T>{scratch.as<T>(), tall, inner, inner, 1}, right, to,
                           threaded);
  });
}

template <class T>
mlxc_error* segment_products(const mlxc_view* a, const mlxc_view* b, const std::vector<int64_t>& bounds,
                             T* out) {
  const Matrix<const T> left = pick_matrix<T>(a, 0), right = pick_matrix<T>(b, 0);
  const int64_t count = static_cast<int64_t>(bounds.size() / 2), each = left.rows * right.cols;
  const double work = static_cast<double>(each) * static_cast<double>(left.cols) / static_cast<double>(count);
  return run_products(count, work, [&](int64_t i, bool threaded) {
    const int64_t start = bounds[static_cast<size_t>(2 * i)], stop = bounds[static_cast<size_t>(2 * i + 1)];
    const int64_t length = std::max<int64_t>(0, stop - start);
    return multiply_any<T>("segmented_mm", left.block(0, start, left.rows, length),
                           right.block(start, 0, length, right.cols), out + i * each, threaded);
  });
}

template <class F>
mlxc_error* visit_inexact(const char* op, const mlxc_view* a, const mlxc_view* b, const mlxc_view* out,
                          const F& fn) {
  if (a->dtype != out->dtype || b->dtype != out->dtype) {
    return make_error(MLXC_ERROR_TYPE, "%s: the CPU kernel got %s and %s for a result of %s; all must agree",
                      op, dtype_name(a->dtype), dtype_name(b->dtype), dtype_name(out->dtype));
  }
  switch (out->dtype) {
    case MLXC_FLOAT16: return fn(Tag<Half>{});
    case MLXC_BFLOAT16: return fn(Tag<BFloat>{});
    case MLXC_FLOAT32: return fn(Tag<float>{});
    case MLXC_FLOAT64: return fn(Tag<double>{});
    case MLXC_COMPLEX64: return fn(Tag<Complex64>{});
    default: return fn(Tag<Complex128>{});
  }
}

/* The integers of a view, in row-major order. */
mlxc_error* read_dense(const mlxc_view* view, const mlxc_view** dense, mlxc_view* copy, Scratch* scratch) {
  *dense = view;
  if (is_contiguous(view)) return nullptr;
  if (!scratch->ok()) return scratch->error();
  int64_t strides[MLXC_MAX_NDIM], step = 1;
  for (int axis = view->ndim - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= view->shape[axis];
  }
  copy_strided(scratch->as<char>(), strides, view->host, view->strides, view->shape, view->ndim,
               size_of(view->dtype));
  *copy = *view;
  copy->host = scratch->as<char>();
  *dense = copy;
  return nullptr;
}

mlxc_error* read_indices(const mlxc_view* indices, const mlxc_view* matrices, std::vector<int64_t>* to) {
  Scratch scratch(is_contiguous(indices) ? 0 : static_cast<size_t>(indices->size * size_of(indices->dtype)));
  const mlxc_view* dense;
  mlxc_view copy;
  if (mlxc_error* error = read_dense(indices, &dense, &copy, &scratch)) return error;
  return read_matrix_indices("gather_mm", dense, matrices, to);
}

mlxc_error* run_gather_mm(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view *a = call->inputs[0], *b = call->inputs[1], *out = call->outputs[0];
  std::vector<int64_t> lhs, rhs;
  if (mlxc_error* error = read_indices(call->inputs[2], a, &lhs)) return error;
  if (mlxc_error* error = read_indices(call->inputs[3], b, &rhs)) return error;
  if (out->size == 0) return nullptr;
  return visit_inexact("gather_mm", a, b, out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return gather_products<T>(a, b, lhs, rhs, data<T>(out));
  });
}

mlxc_error* run_segmented_mm(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view *a = call->inputs[0], *b = call->inputs[1], *segments = call->inputs[2],
                  *out = call->outputs[0];
  Scratch scratch(is_contiguous(segments) ? 0
                                          : static_cast<size_t>(segments->size * size_of(segments->dtype)));
  const mlxc_view* dense;
  mlxc_view copy;
  if (mlxc_error* error = read_dense(segments, &dense, &copy, &scratch)) return error;
  const int64_t inner = a->shape[1];
  std::vector<int64_t> bounds(static_cast<size_t>(segments->size));
  mlxc_error* error = visit_dtype(segments->dtype, [&](auto tag) -> mlxc_error* {
    using T = typename decltype(tag)::type;
    if constexpr (is_integer<T>) {
      const T* from = data<const T>(dense);
      for (size_t i = 0; i < bounds.size(); i++) {
        const bool inside = !(from[i] < 0) && static_cast<uint64_t>(from[i]) <= static_cast<uint64_t>(inner);
        if (!inside) {
          return make_error(MLXC_ERROR_INDEX,
                            "segmented_mm: bound %lld of a segment is not within 0 and %lld",
                            static_cast<long long>(from[i]), static_cast<long long>(inner));
        }
        bounds[i] = static_cast<int64_t>(from[i]);
      }
      return nullptr;
    } else {
      return make_error(MLXC_ERROR_TYPE, "segmented_mm: segments must be integers, got %s",
                        dtype_name(segments->dtype));
    }
  });
  if (error || out->size == 0) return error;
  return visit_inexact("segmented_mm", a, b, out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return segment_products<T>(a, b, bounds, data<T>(out));
  });
}

const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_GATHER_MM, kMaskInexact | kMaskInteger, kMaskInexact, run_gather_mm),
    make_row(MLXC_OP_SEGMENTED_MM, kMaskInexact | kMaskInteger, kMaskInexact, run_segmented_mm),
};

}  // namespace

KernelRows grouped_matmul_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
