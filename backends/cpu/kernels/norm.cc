/* rms_norm, layer_norm and their gradients, over the last axis; rows side by side.
 *
 * A row is converted to its compute type (halves in float), measured and scaled while it is in the cache.
 * Sums are in double, in lanes, so a long row loses nothing; a mean is taken off before squares are summed.
 * The gradient of the weight is summed in double by each thread for its rows, then over the threads.
 */
#include <cmath>
#include <cstring>

#include "elementwise.h"
#include "parallel.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr int64_t kLanes = 16;
/* Elements summed in the compute type before they go into double; 64 terms a lane cost float32 no digits. */
constexpr int64_t kRun = 1024;

/* The sum of term(i) over a row. */
template <class X, class F>
MLXC_INLINE double sum_terms(int64_t n, const F& term) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const int64_t end = n - begin < kRun ? n : begin + kRun;
    X lanes[kLanes] = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int64_t k = 0; k < kLanes; k++) lanes[k] += term(i + k);
    }
    for (; i < end; i++) lanes[0] += term(i);
    for (int64_t k = 0; k < kLanes; k++) total += static_cast<double>(lanes[k]);
  }
  return total;
}

/* How a row is normalised: (x - center - slip) factor. The center is the mean as far as the compute type can
 * hold it, the slip what is left of it. */
template <class X>
struct Measure {
  X center;
  X slip;
  X factor;

  template <bool Centered>
  MLXC_INLINE X normalize(X x) const {
    return Centered ? (x - center - slip) * factor : x * factor;
  }
};

template <class X, bool Centered>
MLXC_INLINE Measure<X> measure_row(const X* x, int64_t n, double eps) {
  const double count = static_cast<double>(n);
  Measure<X> m{0, 0, 0};
  double power;
  if constexpr (Centered) {
    m.center = static_cast<X>(sum_terms<X>(n, [&](int64_t i) { return x[i]; }) / count);
    const double left = sum_terms<X>(n, [&](int64_t i) { return x[i] - m.center; }) / count;
    m.slip = static_cast<X>(left);
    power = sum_terms<X>(n, [&](int64_t i) { return (x[i] - m.center) * (x[i] - m.center); }) / count;
    power = power > left * left ? power - left * left : power - power; /* which keeps a NaN */
  } else {
    power = sum_terms<X>(n, [&](int64_t i) { return x[i] * x[i]; }) / count;
  }
  /* Squares that overflow float need not be the end: in double they are in range. */
  if constexpr (std::is_same_v<X, float>) {
    if (MLXC_UNLIKELY(!(power < std::numeric_limits<double>::infinity()))) {
      double mean = 0;
      if constexpr (Centered) {
        for (int64_t i = 0; i < n; i++) mean += static_cast<double>(x[i]) / count;
        m.center = static_cast<X>(mean);
        m.slip = static_cast<X>(mean - static_cast<double>(m.center));
      }
      power = 0;
      for (int64_t i = 0; i < n; i++) {
        const double d = static_cast<double>(x[i]) - mean;
        power += d * d / count;
      }
    }
  }
  m.factor = static_cast<X>(1.0 / std::sqrt(power + eps));
  return m;
}

/* A row in its compute type: itself, or a copy in the buffer. */
template <class T>
MLXC_INLINE const ComputeOf<T>* read_row(const T* row, ComputeOf<T>* buffer, int64_t n) {
  if constexpr (is_half<T>) {
    to_float_array(row, buffer, n);
    return buffer;
  } else {
    return row;
  }
}

template <class T>
MLXC_INLINE void write_row(const ComputeOf<T>* result, T* row, int64_t n) {
  if constexpr (is_half<T>) from_float_array(result, row, n);
}

/* A vector of the weights' kind in the compute type, a 0-d one repeated. */
template <class T>
void expand_vector(const mlxc_view* view, ComputeOf<T>* to, int64_t n) {
  const T* from = data<const T>(view);
  for (int64_t i = 0; i < n; i++) to[i] = cast<ComputeOf<T>>(view->ndim == 0 ? from[0] : from[i]);
}

/* Runs fn(worker, begin, end) over the rows, with as many workers at most as there are threads. */
template <class F>
void split_rows(int64_t rows, int64_t workers, const F& fn) {
  parallel_for(workers, 1, [&](int64_t first, int64_t last) {
    for (int64_t w = first; w < last; w++) fn(w, rows * w / workers, rows * (w + 1) / workers);
  });
}

int64_t count_workers(int64_t rows, int64_t n, int64_t element) {
  const int64_t grain = grain_for_bytes(3 * n * element);
  const int64_t threads = host->thread_count() > 0 ? host->thread_count() : 1;
  const int64_t pieces = (rows + grain - 1) / grain;
  return pieces < threads ? (pieces > 0 ? pieces : 1) : threads;
}

template <class T, bool Centered>
mlxc_error* run_forward(const mlxc_kernel_call* call, double eps) {
  using X = ComputeOf<T>;
  const mlxc_view* in = call->inputs[0];
  const int64_t n = in->shape[in->ndim - 1], rows = in->size / n;
  const int64_t workers = count_workers(rows, n, sizeof(T));
  Scratch scratch(static_cast<size_t>((2 + workers) * n) * sizeof(X));
  if (!scratch.ok()) return scratch.error();
  X* weight = scratch.as<X>();
  X* bias = weight + n;
  X* buffers = bias + n;
  expand_vector<T>(call->inputs[1], weight, n);
  if constexpr (Centered) expand_vector<T>(call->inputs[2], bias, n);
  const T* from = data<const T>(in);
  T* to = data<T>(call->outputs[0]);
  split_rows(rows, workers, [&](int64_t worker, int64_t begin, int64_t end) {
    X* buffer = buffers + worker * n;
    for (int64_t r = begin; r < end; r++) {
      const X* x = read_row(from + r * n, buffer, n);
      const Measure<X> m = measure_row<X, Centered>(x, n, eps);
      X* y;
      if constexpr (is_half<T>) {
        y = buffer;
      } else {
        y = to + r * n;
      }
      MLXC_VECTORIZE
      for (int64_t i = 0; i < n; i++) {
        if constexpr (Centered) {
          y[i] = m.template normalize<true>(x[i]) * weight[i] + bias[i];
        } else {
          y[i] = m.template normalize<false>(x[i]) * weight[i];
        }
      }
      write_row(y, to + r * n, n);
    }
  });
  return nullptr;
}

template <class T, bool Centered>
mlxc_error* run_gradient(const mlxc_kernel_call* call, double eps) {
  using X = ComputeOf<T>;
  const mlxc_view* in = call->inputs[0];
  const int64_t n = in->shape[in->ndim - 1], rows = in->size / n;
  const int64_t workers = count_workers(rows, n, 2 * sizeof(T));
  Scratch scratch(static_cast<size_t>((1 + 3 * workers) * n) * sizeof(X));
  Scratch sums(static_cast<size_t>(workers * n) * sizeof(double));
  if (!scratch.ok()) return scratch.error();
  if (!sums.ok()) return sums.error();
  X* weight = scratch.as<X>();
  double* total = sums.as<double>();
  std::memset(total, 0, static_cast<size_t>(workers * n) * sizeof(double));
  expand_vector<T>(call->inputs[1], weight, n);
  const T* from = data<const T>(in);
  const T* cotangents = data<const T>(call->inputs[2]);
  T* to = data<T>(call->outputs[0]);
  split_rows(rows, workers, [&](int64_t worker, int64_t begin, int64_t end) {
    X* x_buffer = weight + n + worker * 3 * n;
    X* g_buffer = x_buffer + n;
    X* h = g_buffer + n; /* a few rows of g xhat, summed before they go into double */
    double* sum = total + worker * n;
    for (int64_t i = 0; i < n; i++) h[i] = 0;
    for (int64_t r = begin; r < end; r++) {
      const X* x = read_row(from + r * n, x_buffer, n);
      const X* g = read_row(cotangents + r * n, g_buffer, n);
      const Measure<X> m = measure_row<X, Centered>(x, n, eps);
      const auto xhat = [&](int64_t i) { return m.template normalize<Centered>(x[i]); };
      const double count = static_cast<double>(n);
      const X along =
          static_cast<X>(sum_terms<X>(n, [&](int64_t i) { return g[i] * weight[i] * xhat(i); }) / count);
      X level = 0;
      if constexpr (Centered) {
        level = static_cast<X>(sum_terms<X>(n, [&](int64_t i) { return g[i] * weight[i]; }) / count);
      }
      X* y;
      if constexpr (is_half<T>) {
        y = x_buffer;
      } else {
        y = to + r * n;
      }
      MLXC_VECTORIZE
      for (int64_t i = 0; i < n; i++) {
        const X hat = xhat(i);
        h[i] += g[i] * hat;
        y[i] = m.factor * (g[i] * weight[i] - level - hat * along);
      }
      write_row(y, to + r * n, n);
      if ((r - begin) % 16 == 15 || r == end - 1) {
        for (int64_t i = 0; i < n; i++) {
          sum[i] += static_cast<double>(h[i]);
          h[i] = 0;
        }
      }
    }
  });
  T* dweight = data<T>(call->outputs[1]);
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t w = 0; w < workers; w++) sum += total[w * n + i];
    dweight[i] = cast<T>(sum);
  }
  return nullptr;
}

template <bool Centered>
mlxc_error* run_norm(const mlxc_kernel_call* call, double eps) {
  if (call->outputs[0]->size == 0) return nullptr;
  switch (call->inputs[0]->dtype) {
    case MLXC_FLOAT16: return run_forward<Half, Centered>(call, eps);
    case MLXC_BFLOAT16: return run_forward<BFloat, Centered>(call, eps);
    case MLXC_FLOAT32: return run_forward<float, Centered>(call, eps);
    default: return run_forward<double, Centered>(call, eps);
  }
}

template <bool Centered>
mlxc_error* run_norm_grad(const mlxc_kernel_call* call, double eps) {
  if (call->outputs[0]->size == 0) {
    const mlxc_view* dweight = call->outputs[1];
    std::memset(dweight->host, 0, static_cast<size_t>(dweight->size * size_of(dweight->dtype)));
    return nullptr;
  }
  switch (call->inputs[0]->dtype) {
    case MLXC_FLOAT16: return run_gradient<Half, Centered>(call, eps);
    case MLXC_BFLOAT16: return run_gradient<BFloat, Centered>(call, eps);
    case MLXC_FLOAT32: return run_gradient<float, Centered>(call, eps);
    default: return run_gradient<double, Centered>(call, eps);
  }
}

mlxc_error* run_rms_norm(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  return run_norm<false>(call, params<mlxc_rms_norm_params>(call)->eps);
}
mlxc_error* run_layer_norm(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  return run_norm<true>(call, params<mlxc_layer_norm_params>(call)->eps);
}
mlxc_error* run_rms_norm_grad(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  return run_norm_grad<false>(call, params<mlxc_rms_norm_grad_params>(call)->eps);
}
mlxc_error* run_layer_norm_grad(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  return run_norm_grad<true>(call, params<mlxc_layer_norm_grad_params>(call)->eps);
}

/* In place is safe forward: a row is measured before it is written, element by element after. */
constexpr mlxc_kernel kRows[] = {
    make_row(MLXC_OP_RMS_NORM, kMaskFloat, kMaskFloat, run_rms_norm, MLXC_KERNEL_DONATES_0,
             MLXC_LAYOUT_CONTIGUOUS),
    make_row(MLXC_OP_LAYER_NORM, kMaskFloat, kMaskFloat, run_layer_norm, MLXC_KERNEL_DONATES_0,
             MLXC_LAYOUT_CONTIGUOUS),
    make_row(MLXC_OP_RMS_NORM_GRAD, kMaskFloat, kMaskFloat, run_rms_norm_grad, 0, MLXC_LAYOUT_CONTIGUOUS),
    make_row(MLXC_OP_LAYER_NORM_GRAD, kMaskFloat, kMaskFloat, run_layer_norm_grad, 0, MLXC_LAYOUT_CONTIGUOUS),
};

}  // namespace

KernelRows norm_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
