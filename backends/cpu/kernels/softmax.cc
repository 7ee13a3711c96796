/* softmax over any axes: exponentials that add up to one.
 *
 * A row (the reduced elements of one output group) is read, exponentiated and scaled while it is in the
 * cache. The maximum is taken away first; what that subtraction rounds off is put back as a first-order
 * term, so large differences cost no digits. Sums are in double; halves are computed in float32.
 */
#include <cmath>
#include <cstring>

#include "elementwise.h"
#include "math_f32.h"
#include "parallel.h"
#include "reduce_plan.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

MLXC_INLINE float exp_of(float x) { return math::exp_f32(x); }
MLXC_INLINE double exp_of(double x) { return std::exp(x); }

/* exp(x - shift), x <= shift */
template <class T>
MLXC_INLINE T exp_difference(T x, T shift) {
  T difference = x - shift;
  T part = difference - x;
  T error = (x - (difference - part)) - (shift + part);
  T value = exp_of(difference);
  return error == error ? math::fma(value, error, value) : value;
}

template <class T>
MLXC_INLINE T find_max(const T* x, int64_t n) {
  constexpr int lanes_count = 32;
  T best = -std::numeric_limits<T>::infinity();
  int64_t i = 0;
  if (n >= lanes_count) {
    T lanes[lanes_count];
    for (int k = 0; k < lanes_count; k++) lanes[k] = x[k];
    for (i = lanes_count; i + lanes_count <= n; i += lanes_count) {
      for (int k = 0; k < lanes_count; k++) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
    }
    for (int half = lanes_count / 2; half > 0; half /= 2) {
      for (int k = 0; k < half; k++) lanes[k] = lanes[k + half] > lanes[k] ? lanes[k + half] : lanes[k];
    }
    best = lanes[0];
  }
  for (; i < n; i++) best = x[i] > best ? x[i] : best;
  return best;
}

/* A NaN anywhere is lost or kept by find_max, but always reaches the sum and with it every element. */
template <class T>
void softmax_row(const T* x, T* result, int64_t n) {
  constexpr int64_t lanes_count = 16;
  T shift = find_max(x, n);
  double lanes[lanes_count] = {};
  int64_t i = 0;
  for (; i + 256 <= n; i += 256) {
    MLXC_VECTORIZE
    for (int64_t k = i; k < i + 256; k++) result[k] = exp_difference(x[k], shift);
    double part[lanes_count] = {};
    for (int64_t j = i; j < i + 256; j += lanes_count) {
      for (int64_t k = 0; k < lanes_count; k++) part[k] += static_cast<double>(result[j + k]);
    }
    for (int64_t k = 0; k < lanes_count; k++) lanes[k] += part[k];
  }
  MLXC_VECTORIZE
  for (int64_t k = i; k < n; k++) result[k] = exp_difference(x[k], shift);
  for (; i + lanes_count <= n; i += lanes_count) {
    for (int64_t k = 0; k < lanes_count; k++) lanes[k] += static_cast<double>(result[i + k]);
  }
  for (; i < n; i++) lanes[0] += static_cast<double>(result[i]);
  double sum = 0;
  for (int64_t k = 0; k < lanes_count; k++) sum += lanes[k];
  T scale = static_cast<T>(1.0 / sum);
  for (int64_t k = 0; k < n; k++) result[k] *= scale;
}

/* A strip of `width` columns side by side, each a row of its own: three passes down the strip. */
constexpr int64_t kStrip = 128;

template <class T>
void softmax_strip(const T* x, T* result, int64_t n, int64_t width, int64_t in_stride, int64_t out_stride) {
  T shift[kStrip];
  T scale[kStrip];
  double sum[kStrip];
  double part[kStrip]; /* of a few rows, so that a sum does not round as often as there are rows */
  for (int64_t c = 0; c < width; c++) {
    shift[c] = x[c];
    sum[c] = part[c] = 0;
  }
  for (int64_t r = 1; r < n; r++) {
    const T* row = x + r * in_stride;
    for (int64_t c = 0; c < width; c++) shift[c] = row[c] > shift[c] ? row[c] : shift[c];
  }
  for (int64_t r = 0; r < n; r++) {
    const T* row = x + r * in_stride;
    T* to = result + r * out_stride;
    MLXC_VECTORIZE
    for (int64_t c = 0; c < width; c++) to[c] = exp_difference(row[c], shift[c]);
    for (int64_t c = 0; c < width; c++) part[c] += static_cast<double>(to[c]);
    if (r % 16 == 15 || r == n - 1) {
      for (int64_t c = 0; c < width; c++) {
        sum[c] += part[c];
        part[c] = 0;
      }
    }
  }
  for (int64_t c = 0; c < width; c++) scale[c] = static_cast<T>(1.0 / sum[c]);
  for (int64_t r = 0; r < n; r++) {
    T* to = result + r * out_stride;
    for (int64_t c = 0; c < width; c++) to[c] *= scale[c];
  }
}

template <class T>
MLXC_INLINE ComputeOf<T> read(T value) {
  if constexpr (is_half<T>) {
    return to_float(value);
  } else {
    return value;
  }
}

/* Rows that lie elsewhere than side by side, or hold halves: through a dense row of scratch memory. The
 * output has the same shape, so a walk over the reduced axes carries both strides. */
template <class T>
void gather_row(ComputeOf<T>* row, const T* source, const Walk<2>& walk, int64_t which) {
  Cursor<2> cursor(walk, 0);
  int64_t stride = walk.inner_stride(which);
  for (int64_t r = 0; r < walk.rows; r++, cursor.next(), row += walk.inner) {
    const T* from = source + cursor.offset[which];
    for (int64_t i = 0; i < walk.inner; i++) row[i] = read(from[i * stride]);
  }
}

template <class T>
void scatter_row(const ComputeOf<T>* row, T* target, const Walk<2>& walk, int64_t which) {
  Cursor<2> cursor(walk, 0);
  int64_t stride = walk.inner_stride(which);
  for (int64_t r = 0; r < walk.rows; r++, cursor.next(), row += walk.inner) {
    T* to = target + cursor.offset[which];
    for (int64_t i = 0; i < walk.inner; i++) to[i * stride] = cast<T>(row[i]);
  }
}

struct Axes {
  Walk<2> kept; /* strides of input and output */
  Walk<2> reduced;
  int64_t n_kept;
  int64_t n_reduced;
};

Axes split_axes(const mlxc_view* in, const mlxc_view* out, const bool* is_reduced) {
  int64_t shape[2][MLXC_MAX_NDIM], in_strides[2][MLXC_MAX_NDIM], out_strides[2][MLXC_MAX_NDIM];
  int count[2] = {0, 0};
  Axes axes;
  axes.n_kept = axes.n_reduced = 1;
  for (int axis = 0; axis < in->ndim; axis++) {
    int group = is_reduced[axis] ? 1 : 0;
    int at = count[group]++;
    shape[group][at] = in->shape[axis];
    in_strides[group][at] = in->strides[axis];
    out_strides[group][at] = out->strides[axis];
    (group ? axes.n_reduced : axes.n_kept) *= in->shape[axis];
  }
  axes.kept = make_walk<2>(count[0], shape[0], {in_strides[0], out_strides[0]});
  axes.reduced = make_walk<2>(count[1], shape[1], {in_strides[1], out_strides[1]});
  return axes;
}

template <class T>
mlxc_error* run_typed(const mlxc_view* in, const mlxc_view* out, const Axes& axes) {
  using X = ComputeOf<T>;
  int64_t n = axes.n_reduced;
  const T* input = data<const T>(in);
  T* output = data<T>(out);
  bool dense = !is_half<T> && axes.reduced.ndim == 1 && axes.reduced.inner_stride(0) == 1 &&
               axes.reduced.inner_stride(1) == 1;
  if constexpr (!is_half<T>) {
    bool strips = axes.reduced.ndim == 1 && axes.kept.inner >= 8 && axes.kept.inner_stride(0) == 1 &&
                  axes.kept.inner_stride(1) == 1;
    if (!dense && strips) {
      int64_t per_row = (axes.kept.inner + kStrip - 1) / kStrip;
      int64_t width = axes.kept.inner < kStrip ? axes.kept.inner : kStrip;
      parallel_for(axes.kept.rows * per_row, grain_for_bytes(4 * static_cast<int64_t>(sizeof(T)) * n * width),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t task = begin; task < end; task++) {
                       Cursor<2> cursor(axes.kept, task / per_row);
                       int64_t left = task % per_row * kStrip;
                       int64_t count = axes.kept.inner - left < kStrip ? axes.kept.inner - left : kStrip;
                       softmax_strip(input + cursor.offset[0] + left, output + cursor.offset[1] + left, n,
                                     count, axes.reduced.inner_stride(0), axes.reduced.inner_stride(1));
                     }
                   });
      return nullptr;
    }
  }
  constexpr int64_t small_row = 4096;
  /* one long row a thread at most: rows are the unit of work */
  int64_t grain = grain_for_bytes(4 * static_cast<int64_t>(sizeof(T)) * n);
  if (!dense && n > small_row) {
    /* Scratch rows for all threads cannot be had inside the loop, where nothing may fail. */
    int64_t tasks = host->thread_count() > 0 ? host->thread_count() : 1;
    if (tasks > axes.n_kept) tasks = axes.n_kept;
    Scratch scratch(static_cast<size_t>(tasks * n) * sizeof(X));
    if (!scratch.ok()) return scratch.error();
    X* rows = scratch.as<X>();
    parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; task++) {
        X* row = rows + task * n;
        for (int64_t i = axes.n_kept * task / tasks; i < axes.n_kept * (task + 1) / tasks; i++) {
          Cursor<2> cursor(axes.kept, i / axes.kept.inner);
          int64_t column = i % axes.kept.inner;
          gather_row(row, input + cursor.offset[0] + column * axes.kept.inner_stride(0), axes.reduced, 0);
          softmax_row(row, row, n);
          scatter_row(row, output + cursor.offset[1] + column * axes.kept.inner_stride(1), axes.reduced, 1);
        }
      }
    });
    return nullptr;
  }
  parallel_for(axes.n_kept, grain, [&](int64_t begin, int64_t end) {
    X row[small_row];
    Cursor<2> cursor(axes.kept, begin / axes.kept.inner);
    int64_t column = begin % axes.kept.inner;
    for (int64_t i = begin; i < end; i++) {
      const T* from = input + cursor.offset[0] + column * axes.kept.inner_stride(0);
      T* to = output + cursor.offset[1] + column * axes.kept.inner_stride(1);
      bool done = false;
      if constexpr (!is_half<T>) {
        if (dense) {
          softmax_row(from, to, n);
          done = true;
        }
      }
      if (!done) {
        gather_row(row, from, axes.reduced, 0);
        softmax_row(row, row, n);
        scatter_row(row, to, axes.reduced, 1);
      }
      if (++column == axes.kept.inner) {
        column = 0;
        cursor.next();
      }
    }
  });
  return nullptr;
}

mlxc_error* run(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* in = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  if (out->size == 0) return nullptr;
  const mlxc_axes& list = params<mlxc_softmax_params>(call)->axes;
  bool is_reduced[MLXC_MAX_NDIM] = {};
  for (int32_t i = 0; i < list.count; i++) is_reduced[list.items[i]] = true;
  Axes axes = split_axes(in, out, is_reduced);
  switch (in->dtype) {
    case MLXC_FLOAT16: return run_typed<Half>(in, out, axes);
    case MLXC_BFLOAT16: return run_typed<BFloat>(in, out, axes);
    case MLXC_FLOAT32: return run_typed<float>(in, out, axes);
    default: return run_typed<double>(in, out, axes);
  }
}

/* In place is safe: a row is read whole (its maximum) before any of it is written, element by element after.
 */
constexpr mlxc_kernel kRows[] = {
    make_row(MLXC_OP_SOFTMAX, kMaskFloat, kMaskFloat, run, MLXC_KERNEL_DONATES_0),
};

}  // namespace

KernelRows softmax_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
