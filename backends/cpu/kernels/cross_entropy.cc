/* cross_entropy over the last axis, and its gradient: rows of logits, one target each.
 *
 * The loss reads each row once, in strips, with a running maximum and sum (in double); nothing of the logits'
 * size is made. Halves are computed in float. All is relative to the row's maximum, so that large logits keep
 * their differences. A target out of range is an index error, found before the rows are read.
 */
#include <cinttypes>
#include <cmath>
#include <cstring>

#include "elementwise.h"
#include "math_f32.h"
#include "parallel.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr int64_t kStrip = 512;

MLXC_INLINE float exp_of(float x) { return math::exp_f32(x); }
MLXC_INLINE double exp_of(double x) { return std::exp(x); }

/* Targets as int64, all checked. */
mlxc_error* read_targets(const char* op, const mlxc_view* targets, int64_t classes, int64_t* to) {
  const int64_t count = targets->size;
  int64_t wrong = -1;
  visit_dtype(targets->dtype, [&](auto tag) {
    using I = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<I>) {
      const I* from = data<const I>(targets);
      for (int64_t i = 0; i < count; i++) {
        to[i] = static_cast<int64_t>(from[i]);
        /* a uint64 past the end of int64 turns negative */
        if ((to[i] < 0 || to[i] >= classes) && wrong < 0) wrong = i;
      }
    }
  });
  if (wrong < 0) return nullptr;
  return make_error(MLXC_ERROR_INDEX, "%s: target %" PRId64 " is out of range for %" PRId64 " classes", op,
                    to[wrong], classes);
}

/* A strip of a row in its compute type. */
template <class T>
MLXC_INLINE const ComputeOf<T>* read_strip(const T* from, ComputeOf<T>* buffer, int64_t n) {
  if constexpr (is_half<T>) {
    to_float_array(from, buffer, n);
    return buffer;
  } else {
    return from;
  }
}

constexpr int64_t lanes_count = 16;

/* The greater of `top` and what is in a strip; a NaN is passed by. */
template <class X>
MLXC_INLINE X max_of_strip(const X* x, int64_t count, X top) {
  X lanes[lanes_count];
  for (int64_t k = 0; k < lanes_count; k++) lanes[k] = -std::numeric_limits<X>::infinity();
  int64_t i = 0;
  for (; i + lanes_count <= count; i += lanes_count) {
    for (int64_t k = 0; k < lanes_count; k++) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
  }
  for (int64_t k = 0; k < lanes_count; k++) top = lanes[k] > top ? lanes[k] : top;
  for (; i < count; i++) top = x[i] > top ? x[i] : top;
  return top;
}

/* What is taken off a row before exp: its maximum, or 0 where that is -inf. */
template <class X>
MLXC_INLINE X shift_by(X top) {
  return top == -std::numeric_limits<X>::infinity() ? X(0) : top;
}

template <class X>
struct RowSum {
  X shift;       /* logsumexp = shift + logsum */
  double logsum; /* the logarithm of the sum of exp(x - shift) */
};

/* A NaN passes by the maximum but reaches the sum. */
template <class T>
RowSum<ComputeOf<T>> sum_row(const T* row, int64_t n) {
  using X = ComputeOf<T>;
  constexpr X minus_inf = -std::numeric_limits<X>::infinity();
  X buffer[kStrip], exps[kStrip];
  X top = minus_inf;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kStrip) {
    const int64_t count = n - begin < kStrip ? n - begin : kStrip;
    const X* x = read_strip(row + begin, buffer, count);
    const X best = max_of_strip(x, count, top);
    if (best != top) {
      sum *= top == minus_inf ? 0.0 : std::exp(static_cast<double>(top) - static_cast<double>(best));
      top = best;
    }
    const X shift = shift_by(top);
    MLXC_VECTORIZE
    for (int64_t j = 0; j < count; j++) exps[j] = exp_of(x[j] - shift);
    X parts[lanes_count] = {};
    int64_t i = 0;
    for (; i + lanes_count <= count; i += lanes_count) {
      for (int64_t k = 0; k < lanes_count; k++) parts[k] += exps[i + k];
    }
    for (; i < count; i++) parts[0] += exps[i];
    for (int64_t k = 0; k < lanes_count; k++) sum += static_cast<double>(parts[k]);
  }
  return {shift_by(top), std::log(sum)};
}

template <class T>
ComputeOf<T> max_of_row(const T* row, int64_t n) {
  ComputeOf<T> buffer[kStrip], top = -std::numeric_limits<ComputeOf<T>>::infinity();
  for (int64_t begin = 0; begin < n; begin += kStrip) {
    const int64_t count = n - begin < kStrip ? n - begin : kStrip;
    top = max_of_strip(read_strip(row + begin, buffer, count), count, top);
  }
  return top;
}

template <class T>
mlxc_error* run_loss(const mlxc_kernel_call* call) {
  using X = ComputeOf<T>;
  const mlxc_view *logits = call->inputs[0], *targets = call->inputs[1];
  const int64_t rows = targets->size, n = logits->shape[logits->ndim - 1];
  Scratch scratch(static_cast<size_t>(rows) * sizeof(int64_t));
  if (!scratch.ok()) return scratch.error();
  int64_t* labels = scratch.as<int64_t>();
  if (mlxc_error* error = read_targets("cross_entropy", targets, n, labels)) return error;
  const T* from = data<const T>(logits);
  X *loss = data<X>(call->outputs[0]), *logsum = data<X>(call->outputs[1]);
  parallel_for(
      rows, grain_for_bytes(4 * n * static_cast<int64_t>(sizeof(T))), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; r++) {
          const RowSum<X> sum = sum_row(from + r * n, n);
          const X at_label = cast<X>(from[r * n + labels[r]]);
          logsum[r] = static_cast<X>(sum.logsum);
          loss[r] =
              static_cast<X>(sum.logsum - (static_cast<double>(at_label) - static_cast<double>(sum.shift)));
        }
      });
  return nullptr;
}

template <class T>
mlxc_error* run_gradient(const mlxc_kernel_call* call) {
  using X = ComputeOf<T>;
  const mlxc_view *logits = call->inputs[0], *targets = call->inputs[1];
  const int64_t rows = targets->size, n = logits->shape[logits->ndim - 1];
  Scratch scratch(static_cast<size_t>(rows) * sizeof(int64_t));
  if (!scratch.ok()) return scratch.error();
  int64_t* labels = scratch.as<int64_t>();
  if (mlxc_error* error = read_targets("cross_entropy_grad", targets, n, labels)) return error;
  const T* from = data<const T>(logits);
  const X *logsum = data<const X>(call->inputs[2]), *g = data<const X>(call->inputs[3]);
  T* to = data<T>(call->outputs[0]);
  parallel_for(rows, grain_for_bytes(4 * n * static_cast<int64_t>(sizeof(T))),
               [&](int64_t begin, int64_t end) {
                 X buffer[kStrip];
                 for (int64_t r = begin; r < end; r++) {
                   const X shift = shift_by(max_of_row(from + r * n, n)), more = logsum[r], factor = g[r];
                   const X label = cast<X>(from[r * n + labels[r]]);
                   const X at_label = (exp_of((label - shift) - more) - X(1)) * factor;
                   for (int64_t i = 0; i < n; i += kStrip) {
                     const int64_t count = n - i < kStrip ? n - i : kStrip;
                     const X* x = read_strip(from + r * n + i, buffer, count);
                     X* y;
                     if constexpr (is_half<T>) {
                       y = buffer;
                     } else {
                       y = to + r * n + i;
                     }
                     MLXC_VECTORIZE
                     for (int64_t j = 0; j < count; j++) y[j] = exp_of((x[j] - shift) - more) * factor;
                     if constexpr (is_half<T>) from_float_array(buffer, to + r * n + i, count);
                   }
                   to[r * n + labels[r]] = cast<T>(at_label);
                 }
               });
  return nullptr;
}

mlxc_error* run_cross_entropy(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  switch (call->inputs[0]->dtype) {
    case MLXC_FLOAT16: return run_loss<Half>(call);
    case MLXC_BFLOAT16: return run_loss<BFloat>(call);
    case MLXC_FLOAT32: return run_loss<float>(call);
    default: return run_loss<double>(call);
  }
}

mlxc_error* run_cross_entropy_grad(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  switch (call->inputs[0]->dtype) {
    case MLXC_FLOAT16: return run_gradient<Half>(call);
    case MLXC_BFLOAT16: return run_gradient<BFloat>(call);
    case MLXC_FLOAT32: return run_gradient<float>(call);
    default: return run_gradient<double>(call);
  }
}

/* The gradient may be written in the logits' place: each strip is read before it is written. */
constexpr mlxc_dtype_mask kInputs = kMaskFloat | kMaskInteger;
constexpr mlxc_kernel kRows[] = {
    make_row(MLXC_OP_CROSS_ENTROPY, kInputs, kMaskFloat, run_cross_entropy, 0, MLXC_LAYOUT_CONTIGUOUS),
    make_row(MLXC_OP_CROSS_ENTROPY_GRAD, kInputs, kMaskFloat, run_cross_entropy_grad, MLXC_KERNEL_DONATES_0,
             MLXC_LAYOUT_CONTIGUOUS),
};

}  // namespace

KernelRows cross_entropy_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
