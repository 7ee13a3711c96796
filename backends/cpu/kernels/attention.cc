/* scaled_dot_product_attention: softmax(scale q k^T + mask) v in blocks, with a running maximum and
 * denominator.
 *
 * A task is a block of rows of one group of heads (attention.h); it goes over the keys block by block and
 * keeps a block of scores, so memory does not depend on the lengths. Halves are computed in float. For one
 * query a head the rows of a group share each read of its keys, and long sequences are cut between the
 * threads.
 */
#include "attention.h"
#include "weighted_rows.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

namespace {

constexpr int64_t kRowBlock = 64;
constexpr int64_t kKeyBlock = 256;

/* The rows of one task while it goes over the keys. */
template <class X>
struct RunningRows {
  X* queries; /* times scale */
  X* scores;
  X* sums; /* of exp(score - top) v */
  X* top;
  X* denominator;
  X* keys;
  X* values;

  static int64_t height(const AttentionShape& s) { return std::min(kRowBlock, s.rows()); }
  static int64_t bytes(const AttentionShape& s, bool converts) {
    int64_t n = height(s) * (s.depth + s.value_depth + kKeyBlock + 2);
    if (converts) n += kKeyBlock * (s.depth + s.value_depth);
    return n * static_cast<int64_t>(sizeof(X));
  }
  RunningRows(char* scratch, const AttentionShape& s) {
    queries = reinterpret_cast<X*>(scratch);
    scores = queries + height(s) * s.depth;
    sums = scores + height(s) * kKeyBlock;
    top = sums + height(s) * s.value_depth;
    denominator = top + height(s);
    keys = denominator + height(s);
    values = keys + kKeyBlock * s.depth;
  }
};

/* A vector folded to one number, half upon half. */
template <class X, int Bytes, class F>
MLXC_INLINE X fold_lanes(const typename VectorOf<X, Bytes>::type& v, const F& join) {
  if constexpr (Bytes == 16) {
    X result = v[0];
    for (int i = 1; i < static_cast<int>(16 / sizeof(X)); i++) result = join(result, v[i]);
    return result;
  } else {
    typename VectorOf<X, Bytes / 2>::type halves[2];
    std::memcpy(halves, &v, sizeof(halves));
    return fold_lanes<X, Bytes / 2>(join(halves[0], halves[1]), join);
  }
}

template <class X>
MLXC_INLINE X find_top(const X* x, int64_t n) {
  using V = typename VectorOf<X, kVectorBytes>::type;
  constexpr int64_t W = kVectorBytes / static_cast<int64_t>(sizeof(X));
  V lanes = V{} + kMinusInf<X>;
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    const V part = *reinterpret_cast<const V*>(x + i);
    lanes = part > lanes ? part : lanes;
  }
  X best = fold_lanes<X, kVectorBytes>(lanes, [](auto a, auto b) { return a > b ? a : b; });
  for (; i < n; i++) best = x[i] > best ? x[i] : best;
  return best;
}

/* Scores become exp(score - top); their sum is returned. */
template <class X>
MLXC_INLINE X exp_scores(X* x, int64_t n, X top) {
  using V = typename VectorOf<X, kVectorBytes>::type;
  constexpr int64_t W = kVectorBytes / static_cast<int64_t>(sizeof(X));
  MLXC_VECTORIZE
  for (int64_t i = 0; i < n; i++) x[i] = exp_of(x[i] - top);
  V lanes = {};
  int64_t i = 0;
  for (; i + W <= n; i += W) lanes += *reinterpret_cast<const V*>(x + i);
  X sum = fold_lanes<X, kVectorBytes>(lanes, [](auto a, auto b) { return a + b; });
  for (; i < n; i++) sum += x[i];
  return sum;
}

/* Takes one row's new scores in, of which `seen` count and the rest become zero: the sums so far shrink by
 * what the maximum grew. A NaN among the scores passes by the maximum but reaches the denominator. */
template <class X>
MLXC_INLINE void take_scores(const RunningRows<X>& rows, int64_t r, int64_t seen, int64_t count,
                             int64_t value_depth) {
  X* scores = rows.scores + r * kKeyBlock;
  const X best = find_top(scores, seen);
  const X before = rows.top[r];
  const X top = best > before ? best : before;
  const X shift = top == kMinusInf<X> ? X(0) : top; /* nothing seen yet: exp gives zeros */
  const X sum = exp_scores(scores, seen, shift);
  std::fill_n(scores + seen, count - seen, X(0));
  if (top != before) {
    const X shrink = before == kMinusInf<X> ? X(0) : exp_of(before - top);
    rows.denominator[r] *= shrink;
    X* sums = rows.sums + r * value_depth;
    for (int64_t c = 0; c < value_depth; c++) sums[c] *= shrink;
    rows.top[r] = top;
  }
  rows.denominator[r] += sum;
}

template <class T>
struct Pass {
  using X = ComputeOf<T>;
  const AttentionShape s;
  const mlxc_view *q, *k, *v, *mask;
  const X* sinks;
  X scale;
  bool causal;

  /* Rows [begin, begin + count) of group (b, h) over keys [first, last). */
  mlxc_error* run(int64_t b, int64_t h, int64_t begin, int64_t count, int64_t first, int64_t last,
                  const RunningRows<X>& rows) const {
    read_rows<T>(q, s, b, h, begin, count, scale, rows.queries);
    for (int64_t r = 0; r < count; r++) {
      rows.top[r] = kMinusInf<X>;
      rows.denominator[r] = 0;
    }
    std::fill_n(rows.sums, count * s.value_depth, X(0));
    const Matrix<const X> queries{rows.queries, count, s.depth, s.depth, 1};
    const Matrix<const T> keys = head_of<T>(k, b, h), values = head_of<T>(v, b, h);
    /* Few rows, as in generating text, read keys and values as they lie. */
    const bool few = count <= kFewRows;
    int64_t end = 0; /* past the last key that any of the rows sees */
    for (int64_t r = begin; r < begin + count; r++) end = std::max(end, s.seen(r % s.queries, causal));
    end = std::min(end, last);
    for (int64_t j = first; j < end; j += kKeyBlock) {
      const int64_t width = std::min(kKeyBlock, end - j);
      if (few && keys.col_stride == 1) {
        dot_all<T, X>(keys.data + j * keys.row_stride, keys.row_stride, 0, width, rows.queries, s.depth,
                      count, s.depth,
                      [&](int64_t key, int64_t r, X sum) { rows.scores[r * kKeyBlock + key] = sum; });
      } else {
        const Matrix<const X> key_block = read_block<T>(keys, j, width, rows.keys);
        if (mlxc_error* error = multiply<X>("attention", queries, key_block.transposed(), rows.scores,
                                            kKeyBlock, false, false)) {
          return error;
        }
      }
      for (int64_t r = 0; r < count; r++) {
        const int64_t row = begin + r;
        const int64_t query = row % s.queries, seen = s.seen_of(query, causal, j, width);
        mask_scores<T>(rows.scores + r * kKeyBlock, mask, b, h * s.group() + row / s.queries, query, j, seen);
        take_scores(rows, r, seen, width, s.value_depth);
      }
      if (few && values.col_stride == 1) {
        add_weighted_rows<T, X>(values.data + j * values.row_stride, values.row_stride, width, rows.scores,
                                kKeyBlock, count, rows.sums, s.value_depth, s.value_depth);
        continue;
      }
      const Matrix<const X> shares{rows.scores, count, width, kKeyBlock, 1};
      const Matrix<const X> value_block = read_block<T>(values, j, width, rows.values);
      if (mlxc_error* error =
              multiply<X>("attention", shares, value_block, rows.sums, s.value_depth, true, false)) {
        return error;
      }
    }
    return nullptr;
  }

  /* Divides row r of the result through, with the sink in, and writes it. */
  void finish(const mlxc_view* out, const mlxc_view* total, int64_t b, int64_t h, int64_t row, X top,
              X denominator, const X* sums) const {
    const int64_t head = h * s.group() + row / s.queries;
    const int64_t place = (b * s.heads + head) * s.queries + row % s.queries;
    if (sinks) {
      const X sink = sinks[head];
      if (top == kMinusInf<X> && denominator == 0) {
        top = sink;
        denominator = 1;
      } else if (sink > top + 30) {
        /* the sums are small beside it, and would overflow the other way round */
        const X shrink = exp_of(top - sink);
        write(out, place, sums, shrink / (denominator * shrink + 1));
        data<X>(total)[place] = sink + std::log1p(denominator * shrink);
        return;
      } else {
        denominator += exp_of(sink - top);
      }
    }
    /* No key seen: zeros. */
    write(out, place, sums, denominator == 0 ? X(0) : 1 / denominator);
    data<X>(total)[place] = denominator == 0 ? kMinusInf<X> : top + std::log(denominator);
  }

  void write(const mlxc_view* out, int64_t place, const X* sums, X factor) const {
    T* to = data<T>(out) + place * s.value_depth;
    for (int64_t c = 0; c < s.value_depth; c++) to[c] = cast<T>(sums[c] * factor);
  }
};

/* Few rows over many keys: the keys are cut too, and the parts put together. */
template <class T>
mlxc_error* run_split(const Pass<T>& pass, const mlxc_view* out, const mlxc_view* total, int64_t parts) {
  using X = ComputeOf<T>;
  const AttentionShape& s = pass.s;
  const int64_t groups = s.batch * s.kv_heads, rows = s.rows(), each = s.value_depth + 2;
  Scratch partial(static_cast<size_t>(groups * parts * rows * each) * sizeof(X));
  if (!partial.ok()) return partial.error();
  X* kept = partial.as<X>();
  mlxc_error* error =
      run_tasks(groups * parts, RunningRows<X>::bytes(s, is_half<T>), true, [&](int64_t task, char* scratch) {
        const RunningRows<X> running(scratch, s);
        const int64_t group = task / parts, part = task % parts;
        mlxc_error* failed = pass.run(group / s.kv_heads, group % s.kv_heads, 0, rows, s.keys * part / parts,
                                      s.keys * (part + 1) / parts, running);
        X* to = kept + task * rows * each;
        for (int64_t r = 0; r < rows; r++, to += each) {
          to[0] = running.top[r];
          to[1] = running.denominator[r];
          std::copy_n(running.sums + r * s.value_depth, s.value_depth, to + 2);
        }
        return failed;
      });
  if (error) return error;
  for (int64_t group = 0; group < groups; group++) {
    for (int64_t r = 0; r < rows; r++) {
      X* first = kept + (group * parts * rows + r) * each;
      X top = first[0];
      for (int64_t p = 1; p < parts; p++) top = std::max(top, first[p * rows * each]);
      const X shift = top == kMinusInf<X> ? X(0) : top;
      X denominator = 0;
      for (int64_t p = 0; p < parts; p++) {
        X* part = first + p * rows * each;
        const X shrink = exp_of(part[0] - shift);
        denominator += part[1] * shrink;
        for (int64_t c = 0; c < s.value_depth; c++) {
          part[2 + c] *= shrink;
          if (p > 0) first[2 + c] += part[2 + c];
        }
      }
      pass.finish(out, total, group / s.kv_heads, group % s.kv_heads, r, top, denominator, first + 2);
    }
  }
  return nullptr;
}

/* How many keys a mask lets any query see: those behind are left out. For few queries whose mask all heads
 * share, as where a cache is not full yet; else all keys. */
int64_t count_seen(const AttentionShape& s, const mlxc_view* mask) {
  const bool shared = (s.batch == 1 || mask->strides[0] == 0) && (s.heads == 1 || mask->strides[1] == 0);
  if (mask->dtype != MLXC_BOOL || s.queries > kFewRows || !shared) return s.keys;
  int64_t seen = 0;
  for (int64_t query = 0; query < s.queries; query++) {
    const bool* row = data<const bool>(mask) + query * mask->strides[2];
    int64_t end = s.keys;
    while (end > seen && !row[(end - 1) * mask->strides[3]]) end--;
    seen = std::max(seen, end);
  }
  return seen;
}

template <class T>
mlxc_error* run_typed(const mlxc_kernel_call* call) {
  using X = ComputeOf<T>;
  const auto* p = params<mlxc_scaled_dot_product_attention_params>(call);
  const mlxc_view *q = call->inputs[0], *k = call->inputs[1], *v = call->inputs[2];
  const mlxc_view *out = call->outputs[0], *total = call->outputs[1];
  const mlxc_view* sink_view = p->has_sinks ? call->inputs[p->has_mask ? 4 : 3] : nullptr;
  AttentionShape s(q, k, v);
  if (s.batch * s.heads * s.queries == 0) return nullptr;
  if (p->has_mask && !p->causal) s.keys = count_seen(s, call->inputs[3]);
  const Pass<T> pass{s,
                     q,
                     k,
                     v,
                     p->has_mask ? call->inputs[3] : nullptr,
                     sink_view ? data<const X>(sink_view) : nullptr,
                     static_cast<X>(p->scale),
                     p->causal != 0};
  const int64_t groups = s.batch * s.kv_heads, rows = s.rows();
  const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
  const double work = static_cast<double>(groups * rows) * static_cast<double>(s.keys) *
                      static_cast<double>(s.depth + s.value_depth);
  const bool threaded = work > 64.0 * 64.0 * 64.0;
  if (threaded && blocks == 1 && groups < 2 * host->thread_count() && s.keys >= 4 * kKeyBlock) {
    const int64_t parts = std::min<int64_t>(host->thread_count(), s.keys / (2 * kKeyBlock));
    if (parts > 1) return run_split<T>(pass, out, total, parts);
  }
  return run_tasks(groups * blocks, RunningRows<X>::bytes(s, is_half<T>), threaded,
                   [&](int64_t task, char* scratch) {
                     const RunningRows<X> running(scratch, s);
                     /* later rows of a causal pass are longer, so they go first */
                     const int64_t group = task % groups, block = blocks - 1 - task / groups;
                     const int64_t b = group / s.kv_heads, h = group % s.kv_heads;
                     const int64_t begin = block * kRowBlock, count = std::min(kRowBlock, rows - begin);
                     if (mlxc_error* error = pass.run(b, h, begin, count, 0, s.keys, running)) return error;
                     for (int64_t r = 0; r < count; r++) {
                       pass.finish(out, total, b, h, begin + r, running.top[r], running.denominator[r],
                                   running.sums + r * s.value_depth);
                     }
                     return static_cast<mlxc_error*>(nullptr);
                   });
}

mlxc_error* run_attention(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  switch (call->inputs[0]->dtype) {
    case MLXC_FLOAT16: return run_typed<Half>(call);
    case MLXC_BFLOAT16: return run_typed<BFloat>(call);
    case MLXC_FLOAT32: return run_typed<float>(call);
    default: return run_typed<double>(call);
  }
}

constexpr mlxc_dtype_mask kInputs = kMaskFloat | kMaskBool;
const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_SCALED_DOT_PRODUCT_ATTENTION, kInputs, kMaskFloat, run_attention, 0, MLXC_LAYOUT_ANY)};

}  // namespace

KernelRows attention_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
