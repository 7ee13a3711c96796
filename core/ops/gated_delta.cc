// Rules of gated_delta, the gated delta rule (Yang et al. 2024, arXiv 2412.06464): q and k (B, T, H, D), v
// (B, T, N, E), gamma and beta (B, T, N), state (B, N, E, D), mask (B, T) or 0-d. Head n of v reads head n H
// / N of q and k.
//
// Derivatives go step by step through the formula: a chain of T small steps.
#include "core/ops/composed.h"

namespace mlxc {

namespace {

// Step t of an array whose axis 1 are the steps, heads repeated `count` times.
Array take_step(const Array& a, int64_t t, int64_t count) {
  const Array step = op::squeeze(slice_axis(a, 1, t, 1), make_axes({1}));
  if (count == 1) return step;
  const Array spread = op::expand_dims(step, make_axes({2}));
  return op::reshape(broadcast_to(spread, Dims{step.dim(0), step.dim(1), count, step.dim(2)}.span()),
                     make_sizes(Dims{step.dim(0), step.dim(1) * count, step.dim(2)}.span()));
}

Array add_axis(const Array& a, int axis) { return op::expand_dims(a, make_axes({axis})); }

// state k for each head: (B, N, E, D) and (B, N, D) to (B, N, E).
Array apply_state(const Array& state, const Array& vector) {
  return op::squeeze(op::matmul(state, add_axis(vector, 3)), make_axes({3}));
}

std::vector<Array> compose_gated_delta(std::span<const Array> in) {
  const Array q = widen(in[0]), k = widen(in[1]), v = widen(in[2]), gamma = widen(in[3]), beta = widen(in[4]);
  const bool masked = in[6].ndim() > 0;
  const int64_t count = q.dim(2) == 0 ? 1 : v.dim(2) / q.dim(2);
  Array state = in[5];
  std::vector<Array> outs;
  for (int64_t t = 0; t < q.dim(1); t++) {
    const Array kt = take_step(k, t, count), vt = take_step(v, t, 1);
    const Array decay = add_axis(add_axis(take_step(gamma, t, 1), 2), 3);
    const Array rate = add_axis(take_step(beta, t, 1), 2);
    const Array faded = op::multiply(state, decay);
    const Array error = op::multiply(op::subtract(vt, apply_state(faded, kt)), rate);
    Array next = op::add(faded, op::multiply(add_axis(error, 3), add_axis(kt, 2)));
    Array out = apply_state(next, take_step(q, t, count));
    if (masked) {
      const Array keep = add_axis(add_axis(take_step(in[6], t, 1), 1), 2);
      next = op::where(add_axis(keep, 3), next, state);
      out = keep_where(keep, out);
    }
    state = next;
    outs.push_back(add_axis(out, 1));
  }
  Array out = outs.empty() ? zeros(v.shape(), v.dtype()) : op::concatenate(outs, 1);
  return {cast_to(out, in[0].dtype()), state};
}

[[noreturn]] void fail_shape(const Recording& rec, int i, const char* name, const Dims& needed) {
  fail(MLXC_ERROR_VALUE, rec.name(), ": ", name, " must have shape ", shape_text(needed), ", got ",
       shape_text(rec.input(i).shape()));
}

void need_shape(const Recording& rec, int i, const char* name, const Dims& needed) {
  if (!(Dims(rec.input(i).shape()) == needed)) fail_shape(rec, i, name, needed);
}

}  // namespace

void infer_gated_delta(Recording& rec) {
  const Node &q = rec.input(0), &v = rec.input(2);
  if (q.ndim != 4 || v.ndim != 4) {
    fail(MLXC_ERROR_VALUE, rec.name(),
         ": q, k and v must have 4 axes (batch, length, heads, depth), got shapes ", shape_text(q.shape()),
         ", ", shape_text(rec.input(1).shape()), " and ", shape_text(v.shape()));
  }
  const int64_t batch = q.shape()[0], length = q.shape()[1], heads = q.shape()[2], depth = q.shape()[3];
  const int64_t value_heads = v.shape()[2], value_depth = v.shape()[3];
  need_shape(rec, 1, "k", Dims{batch, length, heads, depth});
  need_shape(rec, 2, "v", Dims{batch, length, value_heads, value_depth});
  if (heads == 0 ? value_heads != 0 : value_heads % heads != 0) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": the ", heads, " heads of q and k must divide the ", value_heads,
         " heads of v");
  }
  need_shape(rec, 3, "gamma", Dims{batch, length, value_heads});
  need_shape(rec, 4, "beta", Dims{batch, length, value_heads});
  need_shape(rec, 5, "the state", Dims{batch, value_heads, value_depth, depth});
  if (rec.input(6).ndim > 0) need_shape(rec, 6, "the mask", Dims{batch, length});
  if (rec.input(6).dtype != MLXC_BOOL) {
    fail(MLXC_ERROR_TYPE, rec.name(), ": the mask must be bool, got ", dtype_name(rec.input(6).dtype));
  }
  for (int i = 0; i < 6; i++) check_accepts(*rec.op, rec.input(i).dtype);
  mlxc_dtype dtype = q.dtype;
  for (int i = 1; i < 3; i++) dtype = promote_for(rec, dtype, rec.input(i).dtype);
  dtype = to_inexact(dtype);
  const mlxc_dtype wide = dtype == MLXC_FLOAT64 ? MLXC_FLOAT64 : MLXC_FLOAT32;
  for (int i = 0; i < 3; i++) rec.cast_input(i, dtype);
  for (int i = 3; i < 6; i++) rec.cast_input(i, wide);
  rec.out[0] = {dtype, Dims(rec.input(2).shape())};
  rec.out[1] = {wide, Dims(rec.input(5).shape())};
}

void vjp_gated_delta(const Vjp& vjp, Array* grads) { vjp_composed(vjp, compose_gated_delta, grads); }

void jvp_gated_delta(const Jvp& jvp, Array* out_tangents) {
  jvp_composed(jvp, compose_gated_delta, out_tangents);
}

void vmap_gated_delta(const Vmap& vmap, Array* results) {
  std::vector<Array> in;
  for (int i = 0; i < 7; i++) {
    const bool plain = i == 6 && vmap.inputs[6].ndim() == 0 && !vmap.batched[6];
    in.push_back(plain ? vmap.inputs[6] : batch_input(vmap, i));
  }
  // A flag for each place of the batch becomes a mask.
  if (in[6].ndim() == 1) {
    const Array flag = op::expand_dims(in[6], make_axes({1, 2}));
    in[6] = broadcast_to(flag, Dims{vmap.size, in[0].dim(1), in[0].dim(2)}.span());
  }
  for (int i = 0; i < 7; i++) {
    if (in[i].ndim() > 0) in[i] = merge_batch(in[i]);
  }
  const std::vector<Array> made = op::gated_delta(in[0], in[1], in[2], in[3], in[4], in[5], in[6]);
  results[0] = split_batch(made[0], vmap.size);
  results[1] = split_batch(made[1], vmap.size);
}

}  // namespace mlxc
