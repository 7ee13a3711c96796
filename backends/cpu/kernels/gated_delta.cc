/* gated_delta: the recurrence of the gated delta rule, step by step, each head of values on its own.
 *
 * A row of a head's state (one place of the value) meets all steps without its neighbours, so rows are the
 * unit of work, a few at a time while keys and queries are in the cache. The state is float32 or float64
 * throughout.
 */
#include <algorithm>
#include <cstring>

#include "elementwise.h"
#include "math_f32.h"
#include "parallel.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr int64_t kLanes = 16;
/* Rows of the state that one task carries through the steps. */
constexpr int64_t kRows = 16;

template <class X>
MLXC_INLINE X dot(const X* a, const X* b, int64_t n) {
  X lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t k = 0; k < kLanes; k++) lanes[k] = math::fma(a[i + k], b[i + k], lanes[k]);
  }
  X sum = 0;
  for (int64_t k = 0; k < kLanes; k++) sum += lanes[k];
  for (; i < n; i++) sum = math::fma(a[i], b[i], sum);
  return sum;
}

/* A line of D numbers in the compute type. */
template <class T>
MLXC_INLINE const ComputeOf<T>* read_line(const T* from, ComputeOf<T>* buffer, int64_t n) {
  if constexpr (is_half<T>) {
    to_float_array(from, buffer, n);
    return buffer;
  } else {
    return from;
  }
}

template <class T>
mlxc_error* run_typed(const mlxc_kernel_call* call) {
  using X = ComputeOf<T>;
  const mlxc_view *qv = call->inputs[0], *vv = call->inputs[2], *mask_view = call->inputs[6];
  const int64_t batch = qv->shape[0], length = qv->shape[1], heads = qv->shape[2], depth = qv->shape[3];
  const int64_t value_heads = vv->shape[2], width = vv->shape[3];
  const T *q = data<const T>(qv), *k = data<const T>(call->inputs[1]), *v = data<const T>(vv);
  const X *gamma = data<const X>(call->inputs[3]), *beta = data<const X>(call->inputs[4]);
  const X* before = data<const X>(call->inputs[5]);
  const bool* mask = data<const bool>(mask_view);
  const bool masked = mask_view->ndim > 0, all = masked || mask[0];
  T* out = data<T>(call->outputs[0]);
  X* after = data<X>(call->outputs[1]);
  const int64_t blocks = (width + kRows - 1) / kRows, tasks = batch * value_heads * blocks;
  if (tasks == 0) return nullptr;
  const int64_t workers = std::min<int64_t>(tasks, host->thread_count() > 0 ? host->thread_count() : 1);
  Scratch scratch(static_cast<size_t>(2 * workers * depth) * sizeof(X));
  if (!scratch.ok()) return scratch.error();
  const double work = static_cast<double>(tasks * kRows) * static_cast<double>(length * (depth + 8));
  const int64_t grain = work > 1e5 ? 1 : workers;
  parallel_for(workers, grain, [&](int64_t first, int64_t last) {
    for (int64_t worker = first; worker < last; worker++) {
      X* k_buffer = scratch.as<X>() + 2 * worker * depth;
      X* q_buffer = k_buffer + depth;
      for (int64_t task = tasks * worker / workers; task < tasks * (worker + 1) / workers; task++) {
        const int64_t head = task / blocks % value_heads, b = task / blocks / value_heads;
        const int64_t from = task % blocks * kRows, count = std::min(kRows, width - from);
        const int64_t key_head = heads == value_heads ? head : head / (value_heads / heads);
        X* state = after + ((b * value_heads + head) * width + from) * depth;
        std::memcpy(state, before + ((b * value_heads + head) * width + from) * depth,
                    static_cast<size_t>(count * depth) * sizeof(X));
        for (int64_t t = 0; t < length; t++) {
          const int64_t step = b * length + t, place = step * value_heads + head;
          T* result = out + place * width + from;
          if (!all || (masked && !mask[step])) {
            for (int64_t r = 0; r < count; r++) result[r] = cast<T>(X(0));
            continue;
          }
          const X* key = read_line(k + (step * heads + key_head) * depth, k_buffer, depth);
          const X* query = read_line(q + (step * heads + key_head) * depth, q_buffer, depth);
          const X decay = gamma[place], rate = beta[place];
          for (int64_t r = 0; r < count; r++) {
            X* row = state + r * depth;
            const X value = cast<X>(v[place * width + from + r]);
            const X error = rate * (value - decay * dot(row, key, depth));
            MLXC_VECTORIZE
            for (int64_t i = 0; i < depth; i++) row[i] = math::fma(error, key[i], decay * row[i]);
            result[r] = cast<T>(dot(row, query, depth));
          }
        }
      }
    }
  });
  return nullptr;
}

mlxc_error* run_gated_delta(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  switch (call->inputs[0]->dtype) {
    case MLXC_FLOAT16: return run_typed<Half>(call);
    case MLXC_BFLOAT16: return run_typed<BFloat>(call);
    case MLXC_FLOAT32: return run_typed<float>(call);
    default: return run_typed<double>(call);
  }
}

constexpr mlxc_kernel kTable[] = {make_row(MLXC_OP_GATED_DELTA, kMaskFloat | kMaskBool, kMaskFloat,
                                           run_gated_delta, 0, MLXC_LAYOUT_CONTIGUOUS)};

}  // namespace

KernelRows gated_delta_rows() { return {kTable, sizeof kTable / sizeof kTable[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
