// Rules of concatenate and pad, which lay arrays into a larger one. Their gradients are slices.
#include "core/ops/batch.h"

namespace mlxc {

void infer_concatenate(Recording& rec) {
  if (rec.n_inputs == 0) fail(MLXC_ERROR_VALUE, "concatenate: needs at least one array");
  auto& params = rec.params_as<mlxc_concatenate_params>();
  const Node& first = rec.input(0);
  if (first.ndim == 0) fail(MLXC_ERROR_VALUE, "concatenate: arrays without axes cannot be joined");
  const int axis = params.axis = normalize_axis("concatenate", params.axis, first.ndim);
  Dims shape(first.shape());
  for (int i = 1; i < rec.n_inputs; i++) {
    const Node& a = rec.input(i);
    bool fits = a.ndim == first.ndim;
    for (int k = 0; fits && k < a.ndim; k++) fits = k == axis || a.shape_data()[k] == shape[k];
    if (!fits) {
      fail(MLXC_ERROR_VALUE, "concatenate: shapes ", shape_text(first.shape()), " and ",
           shape_text(a.shape()), " must agree except along axis ", axis);
    }
    if (__builtin_add_overflow(shape[axis], a.shape_data()[axis], &shape[axis])) {
      fail(MLXC_ERROR_VALUE, "concatenate: the joined axis is too large");
    }
  }
  const mlxc_dtype dtype = promote_inputs(rec);
  checked_size("concatenate", shape.span(), dtype_size(dtype));
  rec.out[0] = {dtype, shape};
}

void vjp_concatenate(const Vjp& vjp, Array* grads) {
  const int axis = vjp.params_as<mlxc_concatenate_params>().axis;
  int64_t from = 0;
  for (size_t i = 0; i < vjp.inputs.size(); i++) {
    const int64_t count = vjp.inputs[i].dim(axis);
    if (vjp.wants(static_cast<int>(i))) grads[i] = slice_axis(vjp.cotangent(), axis, from, count);
    from += count;
  }
}

void jvp_concatenate(const Jvp& jvp, Array* out_tangents) {
  std::vector<Array> parts;
  for (size_t i = 0; i < jvp.inputs.size(); i++) {
    parts.push_back(jvp.tangents[i] ? jvp.tangents[i] : zeros(jvp.inputs[i].shape(), jvp.output().dtype()));
  }
  out_tangents[0] = op::concatenate(parts, jvp.params_as<mlxc_concatenate_params>().axis);
}

void infer_pad(Recording& rec) {
  const Node& a = rec.input(0);
  auto& params = rec.params_as<mlxc_pad_params>();
  if (params.low.count != a.ndim || params.high.count != a.ndim) {
    fail(MLXC_ERROR_VALUE, "pad: got ", params.low.count, " low and ", params.high.count,
         " high widths; it needs one of each for each axis of shape ", shape_text(a.shape()));
  }
  if (rec.input(1).ndim != 0) {
    fail(MLXC_ERROR_VALUE, "pad: the value must have no axes, got shape ", shape_text(rec.input(1).shape()));
  }
  Dims shape;
  for (int i = 0; i < a.ndim; i++) {
    const int64_t low = params.low.items[i], high = params.high.items[i];
    int64_t size;
    if (low < 0 || high < 0) {
      fail(MLXC_ERROR_VALUE, "pad: widths must not be negative, got ", low, " and ", high, " for axis ", i);
    }
    if (__builtin_add_overflow(a.shape_data()[i], low, &size) || __builtin_add_overflow(size, high, &size)) {
      fail(MLXC_ERROR_VALUE, "pad: widths ", low, " and ", high, " for axis ", i, " are too large");
    }
    shape.push(size);
  }
  checked_size("pad", shape.span(), dtype_size(a.dtype));
  rec.cast_input(1, a.dtype);
  rec.out[0] = {a.dtype, shape};
}

void vjp_pad(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<mlxc_pad_params>();
  const Array& a = vjp.inputs[0];
  const Array& g = vjp.cotangent();
  Sizes step = a.sizes();
  for (int i = 0; i < a.ndim(); i++) step.items[i] = 1;
  // An empty window may start past the end of its axis, where a slice may not.
  if (vjp.wants(0)) {
    grads[0] = a.size() == 0 ? zeros(a.shape(), g.dtype()) : op::slice(g, params.low, step, a.sizes());
  }
  if (vjp.wants(1)) {
    const Array border =
        a.size() == 0 ? g : op::slice_update(g, scalar_like(0, g), params.low, step, a.sizes());
    grads[1] = op::sum(border, all_axes(a.ndim()), false);
  }
}

void jvp_pad(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<mlxc_pad_params>();
  const Array a = jvp.tangents[0] ? jvp.tangents[0] : zeros_like(jvp.inputs[0]);
  const Array value = jvp.tangents[1] ? jvp.tangents[1] : scalar_like(0, a);
  out_tangents[0] = op::pad(a, value, params.low, params.high);
}

void vmap_concatenate(const Vmap& vmap, Array* results) {
  std::vector<Array> parts;
  for (size_t i = 0; i < vmap.inputs.size(); i++) parts.push_back(batched_input(vmap, static_cast<int>(i)));
  results[0] = op::concatenate(parts, vmap.params_as<mlxc_concatenate_params>().axis + 1);
}

// The op pads with one value. Where each example has its own they are put in over the borders.
void vmap_pad(const Vmap& vmap, Array* results) {
  const auto& params = vmap.params_as<mlxc_pad_params>();
  const Array &a = vmap.inputs[0], &value = vmap.inputs[1];
  if (!vmap.batched[1]) {
    results[0] = op::pad(a, value, prepend_size(0, params.low), prepend_size(0, params.high));
    return;
  }
  const Dims inner(a.shape().subspan(vmap.batched[0] ? 1 : 0));
  const Array border = op::pad(zeros(inner.span(), MLXC_BOOL), scalar(1, MLXC_BOOL), params.low, params.high);
  const Array padded = vmap.batched[0] ? op::pad(a, scalar_like(0, a), prepend_size(0, params.low),
                                                 prepend_size(0, params.high))
                                       : op::pad(a, scalar_like(0, a), params.low, params.high);
  results[0] = op::where(border, align_batched(value, true, inner.n), padded);
}

}  // namespace mlxc
