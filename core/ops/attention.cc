// Rules of scaled_dot_product_attention and of its gradient: q (B, N, T, D), k (B, M, S, D), v (B, M, S, E),
// where each of the M heads of keys and values serves N / M heads of queries.
//
// The forward pass keeps the logarithm of each row's denominator, from which the gradient computes the scores
// anew, block by block (Dao et al. 2022, arXiv 2205.14135). The gradient's kernel reads delta = sum(g out),
// so that it needs no output; a cotangent of the logarithm is taken off it. Rows in which every key is masked
// give zeros. The formulas here hold the scores; they serve tangents, second derivatives and gradients of
// masks.
#include <cmath>

#include "core/ops/composed.h"
#include "core/ops/update.h"

namespace mlxc {

namespace {

using Params = mlxc_scaled_dot_product_attention_params;
using GradParams = mlxc_attention_grad_params;

Array swap_last(const Array& a) {
  Axes axes = all_axes(a.ndim());
  std::swap(axes.items[a.ndim() - 2], axes.items[a.ndim() - 1]);
  return op::transpose(a, axes);
}

// Each head of keys once for every head of queries that it serves.
Array repeat_heads(const Array& a, int64_t count) {
  if (count == 1) return a;
  const Array spread = op::expand_dims(a, make_axes({2}));
  Dims shape(spread.shape());
  shape[2] = count;
  return op::reshape(broadcast_to(spread, shape.span()),
                     make_sizes(Dims{a.dim(0), a.dim(1) * count, a.dim(2), a.dim(3)}.span()));
}

// Sums what repeat_heads spread.
Array sum_heads(const Array& a, int64_t count) {
  if (count == 1) return a;
  const Array split =
      op::reshape(a, make_sizes(Dims{a.dim(0), a.dim(1) / count, count, a.dim(2), a.dim(3)}.span()));
  return op::sum(split, make_axes({2}), false);
}

// scale q k^T with the masks in, of shape (B, N, T, S); minus infinity where a key is not seen.
Array make_scores(const Array& q, const Array& k, const Array* mask, double scale, bool causal) {
  Array scores = op::matmul(op::multiply(q, scalar_like(scale, q)), swap_last(k));
  const Array none = scalar(-INFINITY, scores.dtype());
  if (mask && mask->dtype() == MLXC_BOOL) {
    scores = op::where(*mask, scores, none);
  } else if (mask) {
    scores = op::add(scores, cast_to(*mask, scores.dtype()));
  }
  if (causal) {
    const int64_t behind = k.dim(2) - q.dim(2);
    const Array last =
        op::add(iota(q.dim(2), 2, 4, MLXC_INT64), scalar(static_cast<double>(behind), MLXC_INT64));
    scores = op::where(op::less_equal(iota(k.dim(2), 3, 4, MLXC_INT64), last), scores, none);
  }
  return scores;
}

// exp(scores - logsumexp), zero where a row has no key at all.
Array make_shares(const Array& scores, const Array& total) {
  const Array column = op::expand_dims(total, make_axes({3}));
  const Array empty = op::equal(column, scalar(-INFINITY, column.dtype()));
  const Array safe = op::where(empty, scalar(0, column.dtype()), column);
  return op::exp(op::subtract(scores, safe));
}

const Array* mask_of(std::span<const Array> in, size_t at, bool has) { return has ? &in[at] : nullptr; }

std::vector<Array> compose_attention(std::span<const Array> in, const Params& p) {
  const int64_t count = in[0].dim(1) / in[1].dim(1);
  const Array q = widen(in[0]), k = repeat_heads(widen(in[1]), count), v = repeat_heads(widen(in[2]), count);
  const Array scores = make_scores(q, k, mask_of(in, 3, p.has_mask), p.scale, p.causal);
  const Array top = op::max(scores, make_axes({3}), true);
  const Array unseen = op::equal(top, scalar(-INFINITY, top.dtype()));
  // A row without keys: its logsumexp is minus infinity, and no derivative may pass through it.
  const Array safe = op::where(unseen, scalar(0, scores.dtype()), scores);
  Array total = op::where(unseen, scalar(-INFINITY, top.dtype()), op::logsumexp(safe, make_axes({3}), true));
  total = op::squeeze(total, make_axes({3}));
  if (p.has_sinks) {
    const Array sinks = cast_to(in[p.has_mask ? 4 : 3], total.dtype());
    total = op::logaddexp(total, op::reshape(sinks, make_sizes(Dims{1, sinks.dim(0), 1}.span())));
  }
  const Array out = op::matmul(make_shares(scores, total), v);
  return {cast_to(out, in[0].dtype()), total};
}

std::vector<Array> compose_grad(std::span<const Array> in, const GradParams& p) {
  const int64_t count = in[0].dim(1) / in[1].dim(1);
  const Array q = widen(in[0]), k = repeat_heads(widen(in[1]), count), v = repeat_heads(widen(in[2]), count);
  const Array delta = op::expand_dims(in[4], make_axes({3})), g = widen(in[5]);
  const Array scores = make_scores(q, k, mask_of(in, 6, p.has_mask), p.scale, p.causal);
  const Array shares = make_shares(scores, in[3]);
  const Array inner = op::subtract(op::matmul(g, swap_last(v)), delta);
  const Array dscores = op::multiply(op::multiply(shares, inner), scalar_like(p.scale, shares));
  const Array sides[] = {sum_heads(op::matmul(swap_last(dscores), q), count),
                         sum_heads(op::matmul(swap_last(shares), g), count)};
  return {cast_to(op::matmul(dscores, k), in[0].dtype()), cast_to(op::concatenate(sides, 3), in[0].dtype())};
}

[[noreturn]] void fail_shapes(const Recording& rec, const char* why) {
  fail(MLXC_ERROR_VALUE, rec.name(), ": ", why, "; got q of shape ", shape_text(rec.input(0).shape()),
       ", k of ", shape_text(rec.input(1).shape()), " and v of ", shape_text(rec.input(2).shape()));
}

void check_heads(const Recording& rec) {
  for (int i = 0; i < 3; i++) {
    if (rec.input(i).ndim != 4) fail_shapes(rec, "takes arrays of 4 axes (batch, heads, length, depth)");
  }
  const auto q = rec.input(0).shape(), k = rec.input(1).shape(), v = rec.input(2).shape();
  if (q[0] != k[0] || q[0] != v[0]) fail_shapes(rec, "the batch sizes differ");
  if (q[3] != k[3]) fail_shapes(rec, "queries and keys must have one depth");
  if (k[1] != v[1] || k[2] != v[2])
    fail_shapes(rec, "keys and values must have equally many heads and places");
  if (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0) {
    fail_shapes(rec, "the heads of k must divide the heads of q");
  }
}

// The mask at input i in the shape of the scores; kernels read it with stride 0.
void fit_mask(Recording& rec, int i, mlxc_dtype dtype) {
  const Node& mask = rec.input(i);
  const Dims scores{rec.input(0).shape()[0], rec.input(0).shape()[1], rec.input(0).shape()[2],
                    rec.input(1).shape()[2]};
  bool fits = mask.ndim <= 4;
  for (int k = 0; fits && k < mask.ndim; k++) {
    const int64_t size = mask.shape()[k];
    fits = size == 1 || size == scores[4 - mask.ndim + k];
  }
  if (!fits) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": a mask of shape ", shape_text(mask.shape()),
         " does not broadcast to the scores' shape ", shape_text(scores));
  }
  if (mask.dtype != MLXC_BOOL) {
    if (is_complex(mask.dtype) || promote_for(rec, mask.dtype, dtype) != dtype) {
      fail(MLXC_ERROR_TYPE, rec.name(), ": a mask must be bool or promote to the result's dtype ",
           dtype_name(dtype), ", got ", dtype_name(mask.dtype));
    }
    rec.cast_input(i, dtype);
  }
  broadcast_input(rec, i, scores);
}

mlxc_dtype promote_first(Recording& rec, std::initializer_list<int> places) {
  mlxc_dtype dtype = rec.input(0).dtype;
  for (int i : places) dtype = promote_for(rec, dtype, rec.input(i).dtype);
  check_accepts(*rec.op, dtype);
  dtype = to_inexact(dtype);
  for (int i : places) rec.cast_input(i, dtype);
  return dtype;
}

mlxc_dtype total_dtype(mlxc_dtype dtype) { return dtype == MLXC_FLOAT64 ? MLXC_FLOAT64 : MLXC_FLOAT32; }

std::span<const Array> mask_span(std::span<const Array> inputs, size_t at, bool has) {
  return has ? inputs.subspan(at, 1) : std::span<const Array>();
}

}  // namespace

void infer_attention(Recording& rec) {
  auto& p = rec.params_as<Params>();
  p.causal = p.causal != 0;
  p.has_mask = p.has_mask != 0;
  p.has_sinks = p.has_sinks != 0;
  const int needed = 3 + p.has_mask + p.has_sinks;
  if (rec.n_inputs != needed) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": takes ", needed, " arrays with these parameters, got ",
         rec.n_inputs);
  }
  check_heads(rec);
  const mlxc_dtype dtype = promote_first(rec, {0, 1, 2});
  if (p.has_mask) fit_mask(rec, 3, dtype);
  const auto q = rec.input(0).shape();
  if (p.has_sinks) {
    const Node& sinks = rec.input(needed - 1);
    if (sinks.ndim != 1 || sinks.size != q[1]) {
      fail(MLXC_ERROR_VALUE, rec.name(), ": sinks must have one number for each of the ", q[1],
           " heads of q, got shape ", shape_text(sinks.shape()));
    }
    if (!is_floating(sinks.dtype)) {
      fail(MLXC_ERROR_TYPE, rec.name(), ": sinks must be floating-point, got ", dtype_name(sinks.dtype));
    }
    rec.cast_input(needed - 1, total_dtype(dtype));
  }
  rec.out[0] = {dtype, Dims{q[0], q[1], q[2], rec.input(2).shape()[3]}};
  rec.out[1] = {total_dtype(dtype), Dims{q[0], q[1], q[2]}};
}

void infer_attention_grad(Recording& rec) {
  auto& p = rec.params_as<GradParams>();
  p.causal = p.causal != 0;
  p.has_mask = p.has_mask != 0;
  if (rec.n_inputs != 6 + p.has_mask) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": takes ", 6 + p.has_mask, " arrays with these parameters, got ",
         rec.n_inputs);
  }
  check_heads(rec);
  const mlxc_dtype dtype = promote_first(rec, {0, 1, 2, 5});
  const auto q = rec.input(0).shape(), k = rec.input(1).shape(), v = rec.input(2).shape();
  const Dims rows{q[0], q[1], q[2]}, out{q[0], q[1], q[2], v[3]};
  if (!(Dims(rec.input(3).shape()) == rows) || !(Dims(rec.input(4).shape()) == rows) ||
      !(Dims(rec.input(5).shape()) == out)) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": logsumexp and delta must have shape ", shape_text(rows),
         " and g must have shape ", shape_text(out), ", got ", shape_text(rec.input(3).shape()), ", ",
         shape_text(rec.input(4).shape()), " and ", shape_text(rec.input(5).shape()));
  }
  rec.cast_input(3, total_dtype(dtype));
  rec.cast_input(4, total_dtype(dtype));
  if (p.has_mask) fit_mask(rec, 6, dtype);
  rec.out[0] = {dtype, Dims(q)};
  rec.out[1] = {dtype, Dims{k[0], k[1], k[2], k[3] + v[3]}};
}

void vjp_attention(const Vjp& vjp, Array* grads) {
  const auto& p = vjp.params_as<Params>();
  const auto in = vjp.inputs;
  if (p.has_mask && vjp.wants(3) && is_floating(in[3].dtype())) {
    vjp_composed(vjp, [&](std::span<const Array> at) { return compose_attention(at, p); }, grads);
    return;
  }
  const Array &out = vjp.outputs[0], &total = vjp.outputs[1];
  const Array g = vjp.cotangents[0] ? vjp.cotangents[0] : zeros_like(out);
  Array delta = op::sum(op::multiply(widen(g), widen(out)), make_axes({3}), false);
  if (vjp.cotangents[1]) delta = op::subtract(delta, vjp.cotangents[1]);
  if (vjp.wants(0) || vjp.wants(1) || vjp.wants(2)) {
    const std::vector<Array> made = op::attention_grad(
        in[0], in[1], in[2], total, delta, g, mask_span(in, 3, p.has_mask), p.scale, p.causal, p.has_mask);
    const int64_t depth = in[1].dim(3);
    grads[0] = made[0];
    if (vjp.wants(1)) grads[1] = slice_axis(made[1], 3, 0, depth);
    if (vjp.wants(2)) grads[2] = slice_axis(made[1], 3, depth, in[2].dim(3));
  }
  const int sinks = p.has_mask ? 4 : 3;
  if (p.has_sinks && vjp.wants(sinks)) {
    const Array column = op::reshape(in[sinks], make_sizes(Dims{1, in[sinks].dim(0), 1}.span()));
    const Array share = op::exp(op::subtract(column, total));
    grads[sinks] = op::negative(op::sum(op::multiply(share, delta), make_axes({0, 2}), false));
  }
}

void jvp_attention(const Jvp& jvp, Array* out_tangents) {
  const auto& p = jvp.params_as<Params>();
  jvp_composed(jvp, [&](std::span<const Array> in) { return compose_attention(in, p); }, out_tangents);
}

void vjp_attention_grad(const Vjp& vjp, Array* grads) {
  const auto& p = vjp.params_as<GradParams>();
  vjp_composed(vjp, [&](std::span<const Array> in) { return compose_grad(in, p); }, grads);
}

void jvp_attention_grad(const Jvp& jvp, Array* out_tangents) {
  const auto& p = jvp.params_as<GradParams>();
  jvp_composed(jvp, [&](std::span<const Array> in) { return compose_grad(in, p); }, out_tangents);
}

// The batch joins the op's own batch axis. Sinks of each place of the batch, which the op has no room for,
// are applied behind: they only add to the denominator.
void vmap_attention(const Vmap& vmap, Array* results) {
  auto p = vmap.params_as<Params>();
  const size_t last = vmap.inputs.size() - 1;
  const bool own_sinks = p.has_sinks && vmap.batched[last];
  std::vector<Array> rest;
  if (p.has_mask) rest.push_back(merge_batch(batch_input(vmap, 3)));
  if (p.has_sinks && !own_sinks) rest.push_back(vmap.inputs[last]);
  std::vector<Array> made = op::scaled_dot_product_attention(
      merge_batch(batch_input(vmap, 0)), merge_batch(batch_input(vmap, 1)), merge_batch(batch_input(vmap, 2)),
      rest, p.scale, p.causal, p.has_mask, p.has_sinks && !own_sinks);
  Array out = split_batch(made[0], vmap.size), total = split_batch(made[1], vmap.size);
  if (own_sinks) {
    const Array& sinks = vmap.inputs[last];
    const Array column = op::reshape(sinks, make_sizes(Dims{vmap.size, 1, sinks.dim(1), 1}.span()));
    const Array with = op::logaddexp(total, column);
    const Array share = op::exp(op::subtract(total, with));
    out = cast_to(op::multiply(widen(out), op::expand_dims(share, make_axes({4}))), out.dtype());
    total = with;
  }
  results[0] = out;
  results[1] = total;
}

void vmap_attention_grad(const Vmap& vmap, Array* results) {
  const auto& p = vmap.params_as<GradParams>();
  std::vector<Array> in;
  for (int i = 0; i < static_cast<int>(vmap.inputs.size()); i++)
    in.push_back(merge_batch(batch_input(vmap, i)));
  const std::vector<Array> made =
      op::attention_grad(in[0], in[1], in[2], in[3], in[4], in[5], std::span<const Array>(in).subspan(6),
                         p.scale, p.causal, p.has_mask);
  results[0] = split_batch(made[0], vmap.size);
  results[1] = split_batch(made[1], vmap.size);
}

}  // namespace mlxc
