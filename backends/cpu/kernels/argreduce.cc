/* argmin and argmax along one axis.
 *
 * The first NaN wins, else the first of equal extremes. Along a row the extreme is found first, with wide
 * lanes, and then its place; down columns value and place are carried side by side. Indices are uint32, which
 * the core has checked to be enough.
 */
#include "elementwise.h"
#include "gemv.h"
#include "parallel.h"
#include "reduce_plan.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr int64_t kStrip = 256;

/* True if x takes the place of the best so far. */
template <bool Greater, class T>
MLXC_INLINE bool beats(T x, T best) {
  if constexpr (is_complex<T>) {
    bool best_nan = best.re != best.re || best.im != best.im;
    if (best_nan) return false;
    if (x.re != x.re || x.im != x.im) return true;
    bool less = x.re < best.re || (x.re == best.re && x.im < best.im);
    bool more = x.re > best.re || (x.re == best.re && x.im > best.im);
    return Greater ? more : less;
  } else if constexpr (is_native_float<T>) {
    return ((Greater ? x > best : x < best) | (x != x)) & (best == best);
  } else {
    return Greater ? x > best : x < best;
  }
}

template <class T>
MLXC_INLINE bool same(T a, T b) {
  if constexpr (is_native_float<T>) {
    return (a == b) | ((a != a) & (b != b));
  } else {
    return a == b;
  }
}

/* Place of the extreme in dense memory. */
template <bool Greater, class T>
int64_t find_extreme(const T* x, int64_t n) {
  if constexpr (is_complex<T>) {
    int64_t place = 0;
    for (int64_t i = 1; i < n; i++) place = beats<Greater>(x[i], x[place]) ? i : place;
    return place;
  } else {
    constexpr int lanes_count = 32;
    T best = x[0];
    int64_t i = 0;
    if (n >= lanes_count) {
      T lanes[lanes_count];
      for (int k = 0; k < lanes_count; k++) lanes[k] = x[k];
      for (i = lanes_count; i + lanes_count <= n; i += lanes_count) {
        for (int k = 0; k < lanes_count; k++)
          lanes[k] = beats<Greater>(x[i + k], lanes[k]) ? x[i + k] : lanes[k];
      }
      for (int k = 0; k < lanes_count; k++) best = beats<Greater>(lanes[k], best) ? lanes[k] : best;
    }
    for (; i < n; i++) best = beats<Greater>(x[i], best) ? x[i] : best;
    int64_t place = 0;
    for (; place + 64 <= n; place += 64) {
      int found = 0;
      for (int64_t k = 0; k < 64; k++) found |= same(x[place + k], best);
      if (found) break;
    }
    while (!same(x[place], best)) place++;
    return place;
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

template <bool Greater, class T>
void by_rows(const ReducePlan& plan, const T* input, uint32_t* output) {
  using X = ComputeOf<T>;
  constexpr int64_t block = 1024;
  int64_t n = plan.n_reduced, stride = plan.reduced.inner_stride(0);
  parallel_for(plan.n_kept, grain_for_bytes(static_cast<int64_t>(sizeof(T)) * (n + 4)),
               [&](int64_t begin, int64_t end) {
                 X dense[block];
                 Cursor<2> cursor(plan.kept, begin / plan.kept.inner);
                 int64_t column = begin % plan.kept.inner;
                 for (int64_t i = begin; i < end; i++) {
                   const T* x = input + cursor.offset[0] + column * plan.kept.inner_stride(0);
                   int64_t place = 0;
                   bool direct = false;
                   if constexpr (!is_half<T>) {
                     if (stride == 1) {
                       place = find_extreme<Greater>(x, n);
                       direct = true;
                     }
                   }
                   if (!direct) {
                     X best{};
                     for (int64_t first = 0; first < n; first += block) {
                       int64_t count = n - first < block ? n - first : block;
                       if constexpr (is_half<T>) {
                         load_block<T, float>(x + first * stride, stride, count, dense);
                       } else {
                         for (int64_t k = 0; k < count; k++) dense[k] = read(x[(first + k) * stride]);
                       }
                       int64_t at = find_extreme<Greater>(dense, count);
                       if (first == 0 || beats<Greater>(dense[at], best)) {
                         best = dense[at];
                         place = first + at;
                       }
                     }
                   }
                   output[cursor.offset[1] + column * plan.kept.inner_stride(1)] =
                       static_cast<uint32_t>(place);
                   if (++column == plan.kept.inner) {
                     column = 0;
                     cursor.next();
                   }
                 }
               });
}

template <bool Greater, class T>
void by_columns(const ReducePlan& plan, const T* input, uint32_t* output) {
  using X = ComputeOf<T>;
  int64_t width = plan.kept.inner, n = plan.n_reduced;
  int64_t strips = (width + kStrip - 1) / kStrip;
  int64_t in_stride = plan.kept.inner_stride(0), out_stride = plan.kept.inner_stride(1);
  int64_t row_stride = plan.reduced.inner_stride(0);
  int64_t task_bytes = static_cast<int64_t>(sizeof(T)) * n * (width < kStrip ? width : kStrip);
  parallel_for(plan.kept.rows * strips, grain_for_bytes(task_bytes), [&](int64_t begin, int64_t end) {
    X best[kStrip];
    X row[kStrip];
    uint32_t place[kStrip];
    for (int64_t task = begin; task < end; task++) {
      int64_t left = task % strips * kStrip;
      int64_t count = width - left < kStrip ? width - left : kStrip;
      Cursor<2> cursor(plan.kept, task / strips);
      const T* x = input + cursor.offset[0] + left * in_stride;
      for (int64_t c = 0; c < count; c++) {
        best[c] = read(x[c * in_stride]);
        place[c] = 0;
      }
      for (int64_t r = 1; r < n; r++) {
        const T* from = x + r * row_stride;
        for (int64_t c = 0; c < count; c++) row[c] = read(from[c * in_stride]);
        for (int64_t c = 0; c < count; c++) {
          bool better = beats<Greater>(row[c], best[c]);
          best[c] = better ? row[c] : best[c];
          place[c] = better ? static_cast<uint32_t>(r) : place[c];
        }
      }
      for (int64_t c = 0; c < count; c++) output[cursor.offset[1] + (left + c) * out_stride] = place[c];
    }
  });
}

template <bool Greater>
mlxc_error* run(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* in = call->inputs[0];
  int32_t axis = params<mlxc_argmax_params>(call)->axis;
  bool is_reduced[MLXC_MAX_NDIM] = {};
  if (in->ndim > 0) is_reduced[axis] = true;
  /* order matters here: undo the turning round of a negative stride */
  ReducePlan plan = make_reduce_plan(in, is_reduced);
  if (plan.n_kept == 0) return nullptr;
  if (plan.n_reduced == 0) {
    return make_error(MLXC_ERROR_VALUE, "%s: axis %d is empty", Greater ? "argmax" : "argmin", axis);
  }
  if (plan.base != 0) {
    plan.base = 0;
    plan.reduced.strides[0][plan.reduced.ndim - 1] *= -1;
  }
  visit_dtype(in->dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    uint32_t* output = data<uint32_t>(call->outputs[0]);
    if (goes_by_columns(plan)) {
      by_columns<Greater>(plan, data<const T>(in), output);
    } else {
      by_rows<Greater>(plan, data<const T>(in), output);
    }
  });
  return nullptr;
}

constexpr mlxc_dtype_mask kIndex = MLXC_DTYPE_BIT(MLXC_UINT32);

constexpr mlxc_kernel kRows[] = {
    make_row(MLXC_OP_ARGMIN, kMaskAll, kIndex, run<false>),
    make_row(MLXC_OP_ARGMAX, kMaskAll, kIndex, run<true>),
};

}  // namespace

KernelRows argreduce_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
