/* What both passes of attention share: heads as matrices, the mask's values, workers with scratch memory.
 *
 * Included by kernels/attention.cc and kernels/attention_grad.cc. The heads of q that one head of k serves
 * are handled together, as rows of one tall matrix: row r is query r % length of head r / length.
 */
#ifndef MLXC_CPU_ATTENTION_H
#define MLXC_CPU_ATTENTION_H

#include <atomic>
#include <cmath>

#include "elementwise.h"
#include "gemm.h"
#include "math_f32.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

MLXC_INLINE float exp_of(float x) { return math::exp_f32(x); }
MLXC_INLINE double exp_of(double x) { return std::exp(x); }

template <class X>
constexpr X kMinusInf = -std::numeric_limits<X>::infinity();

/* Sizes of one call. */
struct AttentionShape {
  int64_t batch, heads, kv_heads, queries, keys, depth, value_depth;

  AttentionShape(const mlxc_view* q, const mlxc_view* k, const mlxc_view* v)
      : batch(q->shape[0]),
        heads(q->shape[1]),
        kv_heads(k->shape[1]),
        queries(q->shape[2]),
        keys(k->shape[2]),
        depth(q->shape[3]),
        value_depth(v->shape[3]) {}
  int64_t group() const { return kv_heads == 0 ? 0 : heads / kv_heads; } /* heads of q a head of k */
  int64_t rows() const { return group() * queries; }
  /* How many keys the query sees in a causal pass: the last query sees all. */
  int64_t seen(int64_t query, bool causal) const {
    if (!causal) return keys;
    const int64_t count = query + 1 + keys - queries;
    return count < 0 ? 0 : count > keys ? keys : count;
  }
  /* How many of the `width` keys from `first` on it sees. */
  int64_t seen_of(int64_t query, bool causal, int64_t first, int64_t width) const {
    const int64_t count = seen(query, causal) - first;
    return count < 0 ? 0 : count > width ? width : count;
  }
};

/* Head (b, h) of a (B, H, length, depth) view. */
template <class T>
Matrix<const T> head_of(const mlxc_view* view, int64_t b, int64_t h) {
  return Matrix<const T>{data<const T>(view) + b * view->strides[0] + h * view->strides[1], view->shape[2],
                         view->shape[3], view->strides[2], view->strides[3]};
}

/* `count` rows of a head, from row `begin`, in the compute type: as they lie, or converted into `buffer`. */
template <class T>
Matrix<const ComputeOf<T>> read_block(const Matrix<const T>& head, int64_t begin, int64_t count,
                                      ComputeOf<T>* buffer) {
  const Matrix<const T> block = head.block(begin, 0, count, head.cols);
  if constexpr (is_half<T>) {
    for (int64_t i = 0; i < count; i++) {
      load_block<T, float>(block.data + i * block.row_stride, block.col_stride, block.cols,
                           buffer + i * block.cols);
    }
    return Matrix<const float>{buffer, count, block.cols, block.cols, 1};
  } else {
    return block;
  }
}

/* Row r of the group of heads that (b, h) of the keys serves, times `scale`, for `count` rows from `begin`.
 */
template <class T>
void read_rows(const mlxc_view* view, const AttentionShape& s, int64_t b, int64_t h, int64_t begin,
               int64_t count, ComputeOf<T> scale, ComputeOf<T>* to) {
  const int64_t cols = view->shape[3];
  for (int64_t i = 0; i < count; i++) {
    const int64_t row = begin + i;
    const Matrix<const T> head = head_of<T>(view, b, h * s.group() + row / s.queries);
    ComputeOf<T>* line = to + i * cols;
    load_block<T, ComputeOf<T>>(head.data + row % s.queries * head.row_stride, head.col_stride, cols, line);
    for (int64_t c = 0; c < cols; c++) line[c] *= scale;
  }
}

/* Puts the mask into scores[0 .. count) of keys from `first` on. */
template <class T>
void mask_scores(ComputeOf<T>* scores, const mlxc_view* mask, int64_t b, int64_t head, int64_t query,
                 int64_t first, int64_t count) {
  using X = ComputeOf<T>;
  if (!mask) return;
  const int64_t at =
      b * mask->strides[0] + head * mask->strides[1] + query * mask->strides[2] + first * mask->strides[3];
  const int64_t step = mask->strides[3];
  if (mask->dtype == MLXC_BOOL) {
    const bool* from = data<const bool>(mask) + at;
    for (int64_t j = 0; j < count; j++) scores[j] = from[j * step] ? scores[j] : kMinusInf<X>;
  } else {
    const T* from = data<const T>(mask) + at;
    for (int64_t j = 0; j < count; j++) scores[j] += cast<X>(from[j * step]);
  }
}

/* The first error of several threads. */
class AttentionError {
 public:
  void set(mlxc_error* error) {
    mlxc_error* none = nullptr;
    if (error && !first_.compare_exchange_strong(none, error)) host->error_free(error);
  }
  mlxc_error* take() { return first_.exchange(nullptr); }
  bool failed() const { return first_.load(std::memory_order_relaxed) != nullptr; }

 private:
  std::atomic<mlxc_error*> first_{nullptr};
};

/* Runs fn(task, scratch) for every task, on as many threads as there are tasks for; each has `scratch_bytes`
 * of its own. Tasks are handed out one by one, since causal ones differ in length. */
template <class F>
mlxc_error* run_tasks(int64_t tasks, int64_t scratch_bytes, bool threaded, const F& fn) {
  int64_t workers = threaded ? host->thread_count() : 1;
  if (workers > tasks) workers = tasks;
  if (workers < 1) workers = 1;
  const int64_t each = (scratch_bytes + 63) / 64 * 64;
  Scratch scratch(static_cast<size_t>(workers * each));
  if (!scratch.ok()) return scratch.error();
  AttentionError first;
  std::atomic<int64_t> next{0};
  parallel_for(workers, 1, [&](int64_t begin, int64_t end) {
    for (int64_t w = begin; w < end; w++) {
      while (!first.failed()) {
        const int64_t task = next.fetch_add(1, std::memory_order_relaxed);
        if (task >= tasks) break;
        first.set(fn(task, scratch.as<char>() + w * each));
      }
    }
  });
  return first.take();
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
