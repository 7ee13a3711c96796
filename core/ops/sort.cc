// Rules of sort, argsort, partition, argpartition and topk. NaN counts as greatest in all of them. argsort is
// stable, so its indices give sort's values; argpartition's give partition's, and the elements after the kth
// are those with the greatest values, of equal ones the last; the gradients follow those indices.
#include <cstddef>

#include "core/ops/batch.h"
#include "core/program.h"

namespace mlxc {

namespace {

// Where in `a` the elements of topk's result come from.
Array find_topk(const Array& a, const mlxc_topk_params& params) {
  const int axis = params.axis;
  const int64_t first = a.dim(axis) - params.k;
  if (params.k == 0) return slice_axis(op::argsort(a, axis), axis, first, 0);
  // The few are put in the order of places, then by a stable sort in that of values.
  const Array places = op::sort(slice_axis(op::argpartition(a, axis, first), axis, first, params.k), axis);
  return op::gather_axis(places, op::argsort(op::gather_axis(a, places, axis), axis), axis);
}

Array spread(const Array& like, const Array& indices, const Array& g, int axis) {
  constexpr int32_t add = 1;
  return op::scatter_axis(zeros(like.shape(), g.dtype()), indices, g, axis, add);
}

}  // namespace

static_assert(offsetof(mlxc_sort_params, axis) == offsetof(mlxc_argsort_params, axis));
static_assert(offsetof(mlxc_sort_params, axis) == offsetof(mlxc_partition_params, axis));
static_assert(offsetof(mlxc_argpartition_params, kth) == offsetof(mlxc_partition_params, kth));

// For argsort too.
void infer_sort(Recording& rec) {
  const Node& a = rec.input(0);
  check_accepts(*rec.op, a.dtype);
  auto& params = rec.params_as<mlxc_sort_params>();
  params.axis = normalize_axis(rec.name(), params.axis, a.ndim);
  const mlxc_dtype dtype = result_dtype(*rec.op, a.dtype);
  const int64_t size = a.shape_data()[params.axis];
  const bool places = rec.op->number == MLXC_OP_ARGSORT || rec.op->number == MLXC_OP_ARGPARTITION;
  if (places && size > int64_t{UINT32_MAX} + 1) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": axis ", params.axis, " of size ", size,
         " does not fit uint32 indices");
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

// For argpartition too.
void infer_partition(Recording& rec) {
  infer_sort(rec);
  auto& params = rec.params_as<mlxc_partition_params>();
  const int64_t size = rec.input(0).ndim > 0 ? rec.input(0).shape_data()[params.axis] : 1;
  if (params.kth < -size || params.kth >= size) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": kth ", params.kth, " is out of range for axis ", params.axis,
         " of shape ", shape_text(rec.input(0).shape()));
  }
  if (params.kth >= 0) return;
  note_shape_read();
  params.kth += size;
}

void vjp_partition(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<mlxc_partition_params>();
  const Array& a = vjp.inputs[0];
  grads[0] = spread(a, op::argpartition(a, params.axis, params.kth), vjp.cotangent(), params.axis);
}

void jvp_partition(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<mlxc_partition_params>();
  const Array places = op::argpartition(jvp.inputs[0], params.axis, params.kth);
  out_tangents[0] = op::gather_axis(jvp.tangents[0], places, params.axis);
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
