/* matmul: the product of the last two axes, for every dtype.
 *
 * Called by the core with leading axes already broadcast (strides of 0) and both inputs of one dtype. A batch
 * whose right side is one and the same matrix becomes a single tall product; other batches run several
 * matrices at a time when there are enough of them, else one after the other with the threads inside. Rule:
 * the threads are used at one level only.
 */
#include "gemm.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

template <class T>
MLXC_INLINE mlxc_error* multiply_one(const Matrix<const T>& a, const Matrix<const T>& b, T* c,
                                     bool threaded) {
  if constexpr (is_half<T>) {
    return multiply_half<T>("matmul", a, b, c, b.cols, threaded);
  } else if constexpr (std::is_integral_v<T>) {
    return multiply_integer<T>(a, b, c, b.cols, threaded);
  } else {
    return multiply<T>("matmul", a, b, c, b.cols, false, threaded);
  }
}

/* Whether all matrices of the batch share the right side and the left sides lie as one tall matrix. */
bool fold_batch(const mlxc_view* a, const mlxc_view* b, int64_t* rows, int64_t* row_stride) {
  const int batch_ndim = a->ndim - 2;
  for (int axis = 0; axis < batch_ndim; axis++) {
    if (b->shape[axis] != 1 && b->strides[axis] != 0) return false;
  }
  const int64_t* strides[1] = {a->strides};
  const Walk<1> walk = make_walk<1>(a->ndim - 1, a->shape, strides);
  if (walk.ndim != 1) return false;
  *rows = walk.inner;
  *row_stride = walk.inner_stride(0);
  return true;
}

template <class T>
mlxc_error* multiply_batch(const mlxc_view* a, const mlxc_view* b, const Matrix<const T>& left,
                           const Matrix<const T>& right, T* c) {
  const int batch_ndim = a->ndim - 2;
  const int64_t* strides[2] = {a->strides, b->strides};
  const Walk<2> walk = make_walk<2>(batch_ndim, a->shape, strides);
  const int64_t count = walk.rows * walk.inner, each = left.rows * right.cols;
  auto run = [&](int64_t begin, int64_t end, bool threaded) -> mlxc_error* {
    Cursor<2> cursor(walk, begin / walk.inner);
    int64_t column = begin % walk.inner;
    for (int64_t i = begin; i < end; i++) {
      Matrix<const T> x = left, y = right;
      x.data += cursor.offset[0] + column * walk.inner_stride(0);
      y.data += cursor.offset[1] + column * walk.inner_stride(1);
      if (mlxc_error* error = multiply_one<T>(x, y, c + i * each, threaded)) return error;
      if (++column == walk.inner) {
        column = 0;
        cursor.next();
      }
    }
    return nullptr;
  };
  const double work = static_cast<double>(each) * static_cast<double>(left.cols) + 1;
  const int64_t threads = host->thread_count();
  bool blas_splits = false;
  if constexpr (is_native_float<T> || is_half<T> || is_complex<T>) {
    if (work > 32.0 * 32.0 * 32.0) {
      const Blas* blas = nullptr;
      if (mlxc_error* error = open_blas("matmul", &blas)) return error;
      blas_splits = !blas->runs_on_caller;
    }
  }
  /* Large matrices that do not divide evenly among the threads are better split one by one. */
  const bool divides = count >= 4 * threads || count % threads == 0 || work < 128.0 * 128.0 * 128.0;
  if (threads == 1 || blas_splits || !divides) return run(0, count, true);
  FirstError first;
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(64.0 * 64.0 * 64.0 / work));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) { first.set(run(begin, end, false)); });
  return first.take();
}

template <class T>
mlxc_error* multiply_views(const mlxc_view* a, const mlxc_view* b, const mlxc_view* out) {
  const int r = a->ndim - 2, s = b->ndim - 2;
  Matrix<const T> left{data<const T>(a), a->shape[r], a->shape[r + 1], a->strides[r], a->strides[r + 1]};
  Matrix<const T> right{data<const T>(b), b->shape[s], b->shape[s + 1], b->strides[s], b->strides[s + 1]};
  if (a->ndim == 2) return multiply_one<T>(left, right, data<T>(out), true);
  if (fold_batch(a, b, &left.rows, &left.row_stride)) return multiply_one<T>(left, right, data<T>(out), true);
  return multiply_batch<T>(a, b, left, right, data<T>(out));
}

mlxc_error* run_matmul(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* a = call->inputs[0];
  const mlxc_view* b = call->inputs[1];
  const mlxc_view* out = call->outputs[0];
  if (a->dtype != out->dtype || b->dtype != out->dtype) {
    return make_error(MLXC_ERROR_TYPE,
                      "matmul: the CPU kernel got %s and %s for a result of %s; all must agree",
                      dtype_name(a->dtype), dtype_name(b->dtype), dtype_name(out->dtype));
  }
  if (a->ndim < 2 || b->ndim != a->ndim) {
    return make_error(MLXC_ERROR_VALUE,
                      "matmul: the CPU kernel got %d and %d axes; it takes equal numbers from 2", a->ndim,
                      b->ndim);
  }
  if (out->size == 0) return nullptr;
  return visit_dtype(out->dtype, [&](auto tag) -> mlxc_error* {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      /* The low bits of a product do not depend on the sign, so signed and unsigned are one. */
      return multiply_views<std::make_unsigned_t<T>>(a, b, out);
    } else {
      return multiply_views<T>(a, b, out);
    }
  });
}

const mlxc_kernel kRows[] = {make_row(MLXC_OP_MATMUL, kMaskAll, kMaskAll, run_matmul)};

}  // namespace

KernelRows matmul_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
