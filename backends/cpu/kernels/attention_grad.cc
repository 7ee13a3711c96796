/* Gradients of attention, the scores computed anew block by block from the logarithms of the denominators.
 *
 * A task is one group of heads (attention.h), so that nobody else adds to its gradients of k and v; these are
 * kept in the compute type until the group is done, and so is a row block's gradient of q. With fewer groups
 * than threads the products inside are threaded instead.
 */
#include "attention.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr int64_t kRowBlock = 64;
constexpr int64_t kKeyBlock = 256;

template <class T>
struct GradientPass {
  using X = ComputeOf<T>;
  const AttentionShape s;
  const mlxc_view *q, *k, *v, *total, *delta, *g, *mask;
  X scale;
  bool causal;
  bool threaded;

  static int64_t scratch_bytes(const AttentionShape& s) {
    const int64_t both = s.depth + s.value_depth;
    int64_t n = kRowBlock * (s.depth * 2 + s.value_depth + 2 * kKeyBlock) + s.keys * both;
    if (is_half<T>) n += kKeyBlock * both;
    return n * static_cast<int64_t>(sizeof(X));
  }

  /* Adds `sum` (+)= a b. */
  mlxc_error* add_product(const Matrix<const X>& a, const Matrix<const X>& b, X* sum, int64_t stride,
                          bool accumulate) const {
    return multiply<X>("attention_grad", a, b, sum, stride, accumulate, threaded);
  }

  mlxc_error* run(int64_t b, int64_t h, char* scratch, const mlxc_view* dq, const mlxc_view* dkv) const {
    const int64_t both = s.depth + s.value_depth;
    X* queries = reinterpret_cast<X*>(scratch);
    X* dqueries = queries + kRowBlock * s.depth;
    X* cotangents = dqueries + kRowBlock * s.depth;
    X* shares = cotangents + kRowBlock * s.value_depth;
    X* dscores = shares + kRowBlock * kKeyBlock;
    X* sides = dscores + kRowBlock * kKeyBlock; /* rows of dk beside dv */
    X* key_buffer = sides + s.keys * both;
    X* value_buffer = key_buffer + kKeyBlock * s.depth;
    std::fill_n(sides, s.keys * both, X(0));
    const Matrix<const T> keys = head_of<T>(k, b, h), values = head_of<T>(v, b, h);
    const int64_t rows = s.rows();
    for (int64_t begin = 0; begin < rows; begin += kRowBlock) {
      const int64_t count = std::min(kRowBlock, rows - begin);
      read_rows<T>(q, s, b, h, begin, count, scale, queries);
      read_rows<T>(g, s, b, h, begin, count, X(1), cotangents);
      std::fill_n(dqueries, count * s.depth, X(0));
      int64_t end = 0;
      for (int64_t r = begin; r < begin + count; r++) end = std::max(end, s.seen(r % s.queries, causal));
      const Matrix<const X> query_rows{queries, count, s.depth, s.depth, 1};
      const Matrix<const X> cotangent_rows{cotangents, count, s.value_depth, s.value_depth, 1};
      for (int64_t j = 0; j < end; j += kKeyBlock) {
        const int64_t width = std::min(kKeyBlock, end - j);
        const Matrix<const X> key_block = read_block<T>(keys, j, width, key_buffer);
        const Matrix<const X> value_block = read_block<T>(values, j, width, value_buffer);
        mlxc_error* error = add_product(query_rows, key_block.transposed(), shares, kKeyBlock, false);
        if (!error) error = add_product(cotangent_rows, value_block.transposed(), dscores, kKeyBlock, false);
        if (error) return error;
        for (int64_t r = 0; r < count; r++) {
          differentiate_row(b, h, begin + r, j, width, shares + r * kKeyBlock, dscores + r * kKeyBlock);
        }
        const Matrix<const X> share_block{shares, count, width, kKeyBlock, 1};
        const Matrix<const X> dscore_block{dscores, count, width, kKeyBlock, 1};
        error = add_product(dscore_block, key_block, dqueries, s.depth, true);
        if (!error) error = add_product(dscore_block.transposed(), query_rows, sides + j * both, both, true);
        if (!error) {
          error =
              add_product(share_block.transposed(), cotangent_rows, sides + j * both + s.depth, both, true);
        }
        if (error) return error;
      }
      T* to = data<T>(dq) + (b * s.heads * s.queries + h * rows + begin) * s.depth;
      for (int64_t i = 0; i < count * s.depth; i++) to[i] = cast<T>(dqueries[i] * scale);
    }
    T* to = data<T>(dkv) + (b * s.kv_heads + h) * s.keys * both;
    for (int64_t i = 0; i < s.keys * both; i++) to[i] = cast<T>(sides[i]);
    return nullptr;
  }

  /* Scores become shares exp(score - total); g v^T becomes shares (g v^T - delta). */
  void differentiate_row(int64_t b, int64_t h, int64_t row, int64_t first, int64_t width, X* shares,
                         X* dscores) const {
    const int64_t head = h * s.group() + row / s.queries, query = row % s.queries;
    const int64_t seen = s.seen_of(query, causal, first, width);
    mask_scores<T>(shares, mask, b, head, query, first, seen);
    const X sum = at(total, b, head, query), level = at(delta, b, head, query);
    const X shift = sum == kMinusInf<X> ? X(0) : sum; /* no key seen: every score is minus infinity */
    MLXC_VECTORIZE
    for (int64_t j = 0; j < seen; j++) {
      shares[j] = exp_of(shares[j] - shift);
      dscores[j] = shares[j] * (dscores[j] - level);
    }
    std::fill_n(shares + seen, width - seen, X(0));
    std::fill_n(dscores + seen, width - seen, X(0));
  }

  static X at(const mlxc_view* view, int64_t b, int64_t head, int64_t query) {
    return data<const X>(view)[b * view->strides[0] + head * view->strides[1] + query * view->strides[2]];
  }
};

template <class T>
mlxc_error* run_typed(const mlxc_kernel_call* call) {
  using X = ComputeOf<T>;
  const auto* p = params<mlxc_attention_grad_params>(call);
  const mlxc_view *q = call->inputs[0], *k = call->inputs[1], *v = call->inputs[2];
  const AttentionShape s(q, k, v);
  const int64_t groups = s.batch * s.kv_heads;
  if (groups == 0) return nullptr;
  const bool by_group = groups >= host->thread_count();
  const GradientPass<T> pass{s,
                             q,
                             k,
                             v,
                             call->inputs[3],
                             call->inputs[4],
                             call->inputs[5],
                             p->has_mask ? call->inputs[6] : nullptr,
                             static_cast<X>(p->scale),
                             p->causal != 0,
                             !by_group};
  return run_tasks(groups, pass.scratch_bytes(s), by_group, [&](int64_t task, char* scratch) {
    return pass.run(task / s.kv_heads, task % s.kv_heads, scratch, call->outputs[0], call->outputs[1]);
  });
}

mlxc_error* run_attention_grad(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  switch (call->inputs[0]->dtype) {
    case MLXC_FLOAT16: return run_typed<Half>(call);
    case MLXC_BFLOAT16: return run_typed<BFloat>(call);
    case MLXC_FLOAT32: return run_typed<float>(call);
    default: return run_typed<double>(call);
  }
}

constexpr mlxc_dtype_mask kInputs = kMaskFloat | kMaskBool;
const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_ATTENTION_GRAD, kInputs, kMaskFloat, run_attention_grad, 0, MLXC_LAYOUT_ANY)};

}  // namespace

KernelRows attention_grad_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
