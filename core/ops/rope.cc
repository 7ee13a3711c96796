// Rules of rope: rotary position embedding (Su et al. 2021, arXiv 2104.09864).
//
// Input (B, ..., T, D); pair i of the first `dims` places of the last axis turns by the angle
// (offset + t) scale / base^(2 i / dims), or / freqs[i]. Pairs are neighbours if traditional, else i and
// i + dims / 2. The transpose of a rotation is the rotation back, so the gradient is the op itself.
#include "core/ops/composed.h"

namespace mlxc {

namespace {

using Params = mlxc_rope_params;

Array rotate(const Array& a, const Array& offset, const Array* freqs, const Params& p, bool inverse) {
  const std::span<const Array> rest = freqs ? std::span<const Array>(freqs, 1) : std::span<const Array>();
  return op::rope(a, offset, rest, p.dims, p.traditional, p.base, p.scale, inverse);
}

// The angles, of shape (B or 1, 1, ..., T, dims / 2).
Array make_angles(const Array& a, const Array& offset, const Array* freqs, const Params& p) {
  const int ndim = a.ndim();
  const mlxc_dtype dtype = a.dtype() == MLXC_FLOAT64 ? MLXC_FLOAT64 : MLXC_FLOAT32;
  Array start = cast_to(offset, dtype);
  if (start.ndim() == 1) {
    Dims shape{start.dim(0)};
    while (shape.n < ndim) shape.push(1);
    start = op::reshape(start, make_sizes(shape.span()));
  }
  const Array places = op::add(iota(a.dim(ndim - 2), ndim - 2, ndim, dtype), start);
  const Array scaled = op::multiply(places, scalar(p.scale, dtype));
  if (freqs) return op::divide(scaled, cast_to(*freqs, dtype));
  const Array power = op::multiply(iota(p.dims / 2, ndim - 1, ndim, dtype), scalar(-2.0 / p.dims, dtype));
  return op::multiply(scaled, op::power(scalar(p.base, dtype), power));
}

Array slice_last(const Array& a, int64_t from, int64_t count, int64_t step = 1) {
  return slice_axis(a, a.ndim() - 1, from, count, step);
}

std::vector<Array> compose_rope(std::span<const Array> in, const Params& p) {
  const Array angles = make_angles(in[0], in[1], in.size() > 2 ? &in[2] : nullptr, p);
  const Array wide = widen(in[0]);
  const int64_t half = p.dims / 2, depth = wide.dim(-1);
  const Array c = op::cos(angles), s = p.inverse ? op::negative(op::sin(angles)) : op::sin(angles);
  const int64_t second = p.traditional ? 1 : half, step = p.traditional ? 2 : 1;
  const Array x = slice_last(wide, 0, half, step), y = slice_last(wide, second, half, step);
  const Array u = op::subtract(op::multiply(x, c), op::multiply(y, s));
  const Array v = op::add(op::multiply(x, s), op::multiply(y, c));
  const int last = wide.ndim() - 1;
  Array turned;
  if (p.traditional) {
    const Array pair[] = {op::expand_dims(u, make_axes({last + 1})),
                          op::expand_dims(v, make_axes({last + 1}))};
    Dims shape(u.shape());
    shape[last] = p.dims;
    turned = op::reshape(op::concatenate(pair, last + 1), make_sizes(shape.span()));
  } else {
    const Array pair[] = {u, v};
    turned = op::concatenate(pair, last);
  }
  if (p.dims < depth) {
    const Array parts[] = {turned, slice_last(wide, p.dims, depth - p.dims)};
    turned = op::concatenate(parts, last);
  }
  return {cast_to(turned, in[0].dtype())};
}

}  // namespace

void infer_rope(Recording& rec) {
  auto& p = rec.params_as<Params>();
  const Node &a = rec.input(0), &offset = rec.input(1);
  check_accepts(*rec.op, a.dtype);
  const mlxc_dtype dtype = to_inexact(a.dtype);
  if (a.ndim < 3) {
    fail(MLXC_ERROR_VALUE, "rope: takes an array of at least 3 axes (B, ..., T, D), got shape ",
         shape_text(a.shape()));
  }
  const int64_t depth = a.shape_data()[a.ndim - 1];
  if (p.dims < 0 || p.dims % 2 != 0 || p.dims > depth) {
    fail(MLXC_ERROR_VALUE, "rope: dims must be even and at most the size of the last axis, got ", p.dims,
         " for shape ", shape_text(a.shape()));
  }
  if (!is_integer(offset.dtype)) {
    fail(MLXC_ERROR_TYPE, "rope: offset must be an integer, got ", dtype_name(offset.dtype));
  }
  if (offset.ndim > 1 || (offset.ndim == 1 && offset.size != a.shape_data()[0])) {
    fail(MLXC_ERROR_VALUE,
         "rope: offset must be a scalar or have one number for each place of the first axis of ",
         shape_text(a.shape()), ", got shape ", shape_text(offset.shape()));
  }
  if (rec.n_inputs > 3) fail(MLXC_ERROR_VALUE, "rope: takes at most 3 arrays, got ", rec.n_inputs);
  if (rec.n_inputs == 3) {
    const Node& freqs = rec.input(2);
    if (freqs.ndim != 1 || freqs.size != p.dims / 2) {
      fail(MLXC_ERROR_VALUE, "rope: freqs must have dims / 2 = ", p.dims / 2, " numbers, got shape ",
           shape_text(freqs.shape()));
    }
    if (!is_floating(freqs.dtype)) {
      fail(MLXC_ERROR_TYPE, "rope: freqs must be floating-point, got ", dtype_name(freqs.dtype));
    }
  }
  p.traditional = p.traditional != 0;
  p.inverse = p.inverse != 0;
  rec.out[0] = {dtype, Dims(a.shape())};
  rec.cast_input(0, dtype);
  if (rec.n_inputs == 3) rec.cast_input(2, dtype == MLXC_FLOAT64 ? MLXC_FLOAT64 : MLXC_FLOAT32);
  rec.cast_input(1, MLXC_INT64);
}

void vjp_rope(const Vjp& vjp, Array* grads) {
  const auto& p = vjp.params_as<Params>();
  const bool given = vjp.inputs.size() > 2;
  if (given && vjp.wants(2)) {
    vjp_composed(vjp, [&](std::span<const Array> in) { return compose_rope(in, p); }, grads);
  } else {
    grads[0] = rotate(vjp.cotangent(), vjp.inputs[1], given ? &vjp.inputs[2] : nullptr, p, !p.inverse);
  }
}

void jvp_rope(const Jvp& jvp, Array* out_tangents) {
  const auto& p = jvp.params_as<Params>();
  const bool given = jvp.inputs.size() > 2;
  if (given && jvp.tangents[2]) {
    jvp_composed(jvp, [&](std::span<const Array> in) { return compose_rope(in, p); }, out_tangents);
  } else {
    out_tangents[0] = rotate(jvp.tangents[0], jvp.inputs[1], given ? &jvp.inputs[2] : nullptr, p, p.inverse);
  }
}

// The batch joins the first axis, where each place may have an offset of its own. Frequencies of each place
// of the batch are beyond the op, and go by way of the formula.
void vmap_rope(const Vmap& vmap, Array* results) {
  const auto& p = vmap.params_as<Params>();
  const bool given = vmap.inputs.size() > 2;
  Array a = batch_input(vmap, 0);
  const int64_t rows = a.dim(1);
  if (given && vmap.batched[2]) {
    Array offset = batch_input(vmap, 1);
    Dims per_row{vmap.size, offset.ndim() == 2 ? rows : 1};
    while (per_row.n < a.ndim()) per_row.push(1);
    Dims per_pair{vmap.size};
    while (per_pair.n + 1 < a.ndim()) per_pair.push(1);
    per_pair.push(p.dims / 2);
    const Array freqs = op::reshape(vmap.inputs[2], make_sizes(per_pair.span()));
    const Array in[] = {a, op::reshape(offset, make_sizes(per_row.span())), freqs};
    results[0] = compose_rope(in, p)[0];
    return;
  }
  Array offset = vmap.inputs[1];
  const bool own = vmap.batched[1] ? offset.ndim() == 2 : offset.ndim() == 1;
  if (vmap.batched[1] || own) {
    Dims places{vmap.size, rows};
    if (vmap.batched[1] && !own) offset = op::expand_dims(offset, make_axes({1}));
    offset = op::reshape(broadcast_to(offset, places.span()), make_sizes(Dims{vmap.size * rows}.span()));
  }
  const Array turned = rotate(merge_batch(a), offset, given ? &vmap.inputs[2] : nullptr, p, p.inverse);
  results[0] = split_batch(turned, vmap.size);
}

}  // namespace mlxc
