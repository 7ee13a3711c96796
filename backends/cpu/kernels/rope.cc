/* rope: rotary position embedding of (B, ..., T, D).
 *
 * The angles are computed in double, for a position may be large, and once for all heads: a table of cosines
 * and sines for each position (for each place of the first axis, where these have offsets of their own). Of
 * neighbouring positions the later are turned on from the first, in double too. Then rows are turned in
 * whatever order they lie; the result may be the input's memory.
 */
#include <cmath>

#include "elementwise.h"
#include "parallel.h"
#include "strided.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

template <class T>
MLXC_INLINE ComputeOf<T> read(T value) {
  return cast<ComputeOf<T>>(value);
}

/* Turns one row of `half` pairs. Each pair is read whole before it is written. */
template <class T>
MLXC_INLINE void turn_row(const T* from, int64_t step, T* to, const ComputeOf<T>* cosines,
                          const ComputeOf<T>* sines, int64_t half, bool traditional) {
  const int64_t next = traditional ? 2 : 1, other = traditional ? 1 : half;
  for (int64_t i = 0; i < half; i++) {
    const ComputeOf<T> x = read(from[i * next * step]), y = read(from[(i * next + other) * step]);
    to[i * next] = cast<T>(x * cosines[i] - y * sines[i]);
    to[i * next + other] = cast<T>(x * sines[i] + y * cosines[i]);
  }
}

/* The same for halves that lie side by side, where conversions vectorise. */
template <class T>
MLXC_INLINE void turn_dense(const T* from, T* to, const ComputeOf<T>* cosines, const ComputeOf<T>* sines,
                            int64_t half) {
  if constexpr (is_half<T>) {
    constexpr int64_t strip = 64;
    float x[strip], y[strip], u[strip], v[strip];
    for (int64_t i = 0; i < half; i += strip) {
      const int64_t n = half - i < strip ? half - i : strip;
      to_float_array(from + i, x, n);
      to_float_array(from + half + i, y, n);
      for (int64_t k = 0; k < n; k++) {
        u[k] = x[k] * cosines[i + k] - y[k] * sines[i + k];
        v[k] = x[k] * sines[i + k] + y[k] * cosines[i + k];
      }
      from_float_array(u, to + i, n);
      from_float_array(v, to + half + i, n);
    }
  } else {
    MLXC_VECTORIZE
    for (int64_t i = 0; i < half; i++) {
      const T x = from[i], y = from[half + i];
      to[i] = x * cosines[i] - y * sines[i];
      to[half + i] = x * sines[i] + y * cosines[i];
    }
  }
}

/* Positions whose angles are turned on from one computed afresh, and pairs done together. In double that many
 * steps cost some 1e-15, far below what float can tell. */
constexpr int64_t kTurnedRows = 32;
constexpr int64_t kTurnedPairs = 64;

/* Cosines and sines for `count` neighbouring positions from `place` on, in steps of `scale`. */
template <class X>
void fill_table(double place, double scale, const double* rates, int64_t half, int64_t count, double sign,
                X* cosines, X* sines) {
  constexpr int64_t rows_at_once = std::is_same_v<X, float> ? kTurnedRows : 1;
  double c[kTurnedPairs], s[kTurnedPairs], step_c[kTurnedPairs], step_s[kTurnedPairs];
  for (int64_t first = 0; first < half; first += kTurnedPairs) {
    const int64_t n = half - first < kTurnedPairs ? half - first : kTurnedPairs;
    if (rows_at_once > 1 && count > 1) {
      for (int64_t i = 0; i < n; i++) {
        step_c[i] = std::cos(scale * rates[first + i]);
        step_s[i] = std::sin(scale * rates[first + i]);
      }
    }
    for (int64_t row = 0; row < count; row++) {
      X* to_cosines = cosines + row * half + first;
      X* to_sines = sines + row * half + first;
      if (row % rows_at_once == 0) {
        for (int64_t i = 0; i < n; i++) {
          const double angle = (place + static_cast<double>(row)) * scale * rates[first + i];
          c[i] = std::cos(angle);
          s[i] = std::sin(angle);
        }
      } else {
        MLXC_VECTORIZE
        for (int64_t i = 0; i < n; i++) {
          const double turned = c[i] * step_c[i] - s[i] * step_s[i];
          s[i] = s[i] * step_c[i] + c[i] * step_s[i];
          c[i] = turned;
        }
      }
      MLXC_VECTORIZE
      for (int64_t i = 0; i < n; i++) {
        to_cosines[i] = static_cast<X>(c[i]);
        to_sines[i] = static_cast<X>(sign * s[i]);
      }
    }
  }
}

constexpr int64_t kKeptPairs = 128;

/* What a thread computed last: all layers of a model turn by the same rates, and one token at a time also by
 * the same angles. */
struct KeptRates {
  double base;
  int64_t dims;
  double rates[kKeptPairs];
};

template <class X>
struct KeptTable {
  double place, scale, sign;
  int64_t half;
  double rates[kKeptPairs];
  X cosines[kKeptPairs];
  X sines[kKeptPairs];
};

void fill_rates(double base, int64_t dims, double* rates) {
  thread_local KeptRates kept = {};
  const int64_t half = dims / 2;
  const bool keeps = half <= kKeptPairs;
  if (!keeps || kept.dims != dims || kept.base != base) {
    for (int64_t i = 0; i < half; i++) {
      rates[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    }
    if (!keeps) return;
    std::memcpy(kept.rates, rates, static_cast<size_t>(half) * sizeof(double));
    kept.base = base;
    kept.dims = dims;
    return;
  }
  std::memcpy(rates, kept.rates, static_cast<size_t>(half) * sizeof(double));
}

/* Cosines and sines of one position. */
template <class X>
void fill_position(double place, double scale, const double* rates, int64_t half, double sign, X* cosines,
                   X* sines) {
  thread_local KeptTable<X> kept = {};
  const auto pairs = static_cast<size_t>(half);
  if (half > kKeptPairs) return fill_table<X>(place, scale, rates, half, 1, sign, cosines, sines);
  if (kept.half != half || kept.place != place || kept.scale != scale || kept.sign != sign ||
      std::memcmp(kept.rates, rates, pairs * sizeof(double)) != 0) {
    fill_table<X>(place, scale, rates, half, 1, sign, kept.cosines, kept.sines);
    std::memcpy(kept.rates, rates, pairs * sizeof(double));
    kept.place = place;
    kept.scale = scale;
    kept.sign = sign;
    kept.half = half;
  }
  std::memcpy(cosines, kept.cosines, pairs * sizeof(X));
  std::memcpy(sines, kept.sines, pairs * sizeof(X));
}

template <class T>
mlxc_error* run_typed(const mlxc_kernel_call* call) {
  using X = ComputeOf<T>;
  const auto* p = params<mlxc_rope_params>(call);
  const mlxc_view *in = call->inputs[0], *offset = call->inputs[1], *out = call->outputs[0];
  const mlxc_view* freqs = call->n_inputs > 2 ? call->inputs[2] : nullptr;
  const int last = in->ndim - 1;
  const int64_t batch = in->shape[0], length = in->shape[last - 1], depth = in->shape[last];
  const int64_t half = p->dims / 2, tables = offset->ndim == 1 ? batch : 1;
  Scratch scratch(static_cast<size_t>(2 * tables * length * half) * sizeof(X) +
                  static_cast<size_t>(half) * sizeof(double));
  if (!scratch.ok()) return scratch.error();
  double* rates = scratch.as<double>();
  X* cosines = reinterpret_cast<X*>(rates + half);
  X* sines = cosines + tables * length * half;
  if (!freqs) fill_rates(p->base, p->dims, rates);
  for (int64_t i = 0; freqs && i < half; i++) {
    const int64_t at = i * freqs->strides[0];
    rates[i] = 1.0 / (freqs->dtype == MLXC_FLOAT64 ? data<const double>(freqs)[at]
                                                   : static_cast<double>(data<const float>(freqs)[at]));
  }
  const int64_t* starts = data<const int64_t>(offset);
  const double sign = p->inverse ? -1.0 : 1.0;
  const int64_t blocks = (length + kTurnedRows - 1) / kTurnedRows;
  parallel_for(tables * blocks, 1 + 2048 / (kTurnedRows * (half + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; block++) {
      const int64_t table = block / blocks, first = block % blocks * kTurnedRows;
      const int64_t count = length - first < kTurnedRows ? length - first : kTurnedRows;
      const int64_t start = starts[offset->ndim == 1 ? table * offset->strides[0] : 0];
      const double place = static_cast<double>(start) + static_cast<double>(first);
      const int64_t at = (table * length + first) * half;
      if (length == 1) {
        fill_position<X>(place, p->scale, rates, half, sign, cosines + at, sines + at);
        continue;
      }
      fill_table<X>(place, p->scale, rates, half, count, sign, cosines + at, sines + at);
    }
  });
  const T* source = data<const T>(in);
  T* target = data<T>(out);
  const int64_t step = in->strides[last], rows = in->size / depth, per_place = rows / batch;
  parallel_for(
      rows, grain_for_bytes(3 * depth * static_cast<int64_t>(sizeof(T))), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; row++) {
          int64_t rest = row, at = 0;
          for (int axis = last - 1; axis >= 0; axis--) {
            at += rest % in->shape[axis] * in->strides[axis];
            rest /= in->shape[axis];
          }
          const int64_t table = tables == 1 ? row % length : row / per_place * length + row % length;
          const T* from = source + at;
          T* to = target + row * depth;
          if (step == 1 && !p->traditional) {
            turn_dense(from, to, cosines + table * half, sines + table * half, half);
          } else {
            turn_row(from, step, to, cosines + table * half, sines + table * half, half, p->traditional != 0);
          }
          for (int64_t i = 2 * half; i < depth; i++) to[i] = from[i * step];
        }
      });
  return nullptr;
}

mlxc_error* run_rope(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  if (call->outputs[0]->size == 0) return nullptr;
  switch (call->inputs[0]->dtype) {
    case MLXC_FLOAT16: return run_typed<Half>(call);
    case MLXC_BFLOAT16: return run_typed<BFloat>(call);
    case MLXC_FLOAT32: return run_typed<float>(call);
    default: return run_typed<double>(call);
  }
}

constexpr mlxc_kernel kRows[] = {make_row(MLXC_OP_ROPE, kMaskFloat | MLXC_DTYPE_BIT(MLXC_INT64), kMaskFloat,
                                          run_rope, MLXC_KERNEL_DONATES_0, MLXC_LAYOUT_ANY)};

}  // namespace

KernelRows rope_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
