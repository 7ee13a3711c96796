// Rules of sort, argsort and topk. NaN counts as greatest in all three, and argsort is stable, so its indices
// give sort's and topk's values; the gradients follow those indices.
#include <cstddef>

#include "core/ops/batch.h"

namespace mlxc {

namespace {

// Where in `a` the elements of topk's result come from.
Array find_topk(const Array& a, const mlxc_topk_params& params) {
  return slice_axis(op::argsort(a, params.axis), params.axis, a.dim(params.axis) - params.k, params.k);
}

Array spread(const Array& like, const Array& indices, const Array& g, int axis) {
  constexpr int32_t add = 1;
  return op::scatter_axis(zeros(like.shape(), g.dtype()), indices, g, axis, add);
}

}  // namespace

static_assert(offsetof(mlxc_sort_params, axis) == offsetof(mlxc_argsort_params, axis));

// For argsort too.
void infer_sort(Recording& rec) {
  const Node& a = rec.input(0);
  check_accepts(*rec.op, a.dtype);
  auto& params = rec.params_as<mlxc_sort_params>();
  params.axis = normalize_axis(rec.name(), params.axis, a.ndim);
  const mlxc_dtype dtype = result_dtype(*rec.op, a.dtype);
  const int64_t size = a.shape_data()[params.axis];
  if (rec.op->number == MLXC_OP_ARGSORT && size > int64_t{UINT32_MAX} + 1) {
    fail(MLXC_ERROR_VALUE, "argsort: axis ", params.axis, " of size ", size, " does not fit uint32 indices");
  }
  rec.out[0] = {dtype, Dims(a.shape())};
}

void vjp_sort(const Vjp& vjp, Array* grads) {
  const int axis = vjp.params_as<mlxc_sort_params>().axis;
  grads[0] = spread(vjp.inputs[0], op::argsort(vjp.inputs[0], axis), vjp.cotangent(), axis);
}

void jvp_sort(const Jvp& jvp, Array* out_tangents) {
  const int axis = jvp.params_as<mlxc_sort_params>().axis;
  out_tangents[0] = op::gather_axis(jvp.tangents[0], op::argsort(jvp.inputs[0], axis), axis);
}

void infer_topk(Recording& rec) {
  const Node& a = rec.input(0);
  check_accepts(*rec.op, a.dtype);
  auto& params = rec.params_as<mlxc_topk_params>();
  params.axis = normalize_axis("topk", params.axis, a.ndim);
  const int64_t size = a.shape_data()[params.axis];
  if (params.k < 0 || params.k > size) {
    fail(MLXC_ERROR_VALUE, "topk: k must be from 0 to the ", size, " elements along axis ", params.axis,
         " of shape ", shape_text(a.shape()), ", got ", params.k);
  }
  Dims shape(a.shape());
  shape[params.axis] = params.k;
  rec.out[0] = {a.dtype, shape};
}

void vjp_topk(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<mlxc_topk_params>();
  grads[0] = spread(vjp.inputs[0], find_topk(vjp.inputs[0], params), vjp.cotangent(), params.axis);
}

void jvp_topk(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<mlxc_topk_params>();
  out_tangents[0] = op::gather_axis(jvp.tangents[0], find_topk(jvp.inputs[0], params), params.axis);
}

void vmap_topk(const Vmap& vmap, Array* results) {
  const auto& params = vmap.params_as<mlxc_topk_params>();
  results[0] = op::topk(vmap.inputs[0], params.k, params.axis + 1);
}

}  // namespace mlxc
