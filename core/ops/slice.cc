// Rules of slice and slice_update: a window of `shape` elements an axis, from `start` on in steps of
// `step`, read or written. The gradient of each is made of the other.
//
// Rule: every element of a window lies inside its axis, so that views and kernels need no checks. Axes of
// at most one element get step 1, empty windows start at 0.
#include <algorithm>

#include "core/ops/batch.h"
#include "core/ops/update.h"

namespace mlxc {

namespace {

// mlxc_slice_params and mlxc_slice_update_params alike.
template <class P>
Dims check_window(const char* op, const Node& a, P& params) {
  const Sizes* const lists[] = {&params.start, &params.step, &params.shape};
  const char* const names[] = {"start", "step", "shape"};
  for (int i = 0; i < 3; i++) {
    if (lists[i]->count != a.ndim) {
      fail(MLXC_ERROR_VALUE, op, ": `", names[i], "` has ", lists[i]->count,
           " entries; it needs one for each axis of shape ", shape_text(a.shape()));
    }
  }
  int64_t *start = params.start.items, *step = params.step.items;
  const int64_t* shape = params.shape.items;
  for (int i = 0; i < a.ndim; i++) {
    const int64_t size = a.shape_data()[i];
    if (step[i] == 0) fail(MLXC_ERROR_VALUE, op, ": the step of axis ", i, " is zero");
    if (shape[i] < 0)
      fail(MLXC_ERROR_VALUE, op, ": negative size in the window ", shape_text(to_dims(params.shape)));
    if (shape[i] == 0) {
      start[i] = 0;
      step[i] = 1;
      continue;
    }
    bool inside = start[i] >= 0 && start[i] < size;
    if (inside && shape[i] > 1) {
      const uint64_t room = static_cast<uint64_t>(step[i] > 0 ? size - 1 - start[i] : start[i]);
      const uint64_t stride =
          step[i] > 0 ? static_cast<uint64_t>(step[i]) : 0 - static_cast<uint64_t>(step[i]);
      const uint64_t gaps = static_cast<uint64_t>(shape[i] - 1);
      inside = stride == 1 ? gaps <= room : gaps <= room / stride;
    }
    if (!inside) {
      fail(MLXC_ERROR_INDEX, op, ": ", shape[i], " elements from ", start[i], " on in steps of ", step[i],
           " leave axis ", i, " of shape ", shape_text(a.shape()));
    }
    if (shape[i] == 1) step[i] = 1;
  }
  return to_dims(params.shape);
}

}  // namespace

void fit_update(Recording& rec, int i, mlxc_dtype dtype, const Dims& places) {
  const Dims shape(rec.input(i).shape());
  const int extra = std::max(shape.n - places.n, 0);
  bool fits = true;
  Dims kept;
  for (int k = 0; k < shape.n; k++) {
    const int64_t target = k < extra ? 1 : places[places.n - shape.n + k];
    fits = fits && (shape[k] == 1 || shape[k] == target);
    if (k >= extra) kept.push(shape[k]);
  }
  if (!fits) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": cannot broadcast the update of shape ", shape_text(shape),
         " to the places of shape ", shape_text(places));
  }
  rec.cast_input(i, dtype);
  if (extra > 0) rec.replace_input(i, op::reshape(Array::borrow(rec.inputs[i]), make_sizes(kept.span())));
  broadcast_input(rec, i, places);
}

void infer_slice(Recording& rec) {
  const Node& a = rec.input(0);
  rec.out[0].dtype = a.dtype;
  rec.out[0].shape = check_window(rec.name(), a, rec.params_as<mlxc_slice_params>());
}

void vjp_slice(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<mlxc_slice_params>();
  const Array& g = vjp.cotangent();
  grads[0] =
      op::slice_update(zeros(vjp.inputs[0].shape(), g.dtype()), g, params.start, params.step, params.shape);
}

void infer_slice_update(Recording& rec) {
  const Node& a = rec.input(0);
  const Dims window = check_window(rec.name(), a, rec.params_as<mlxc_slice_update_params>());
  fit_update(rec, 1, a.dtype, window);
  rec.out[0] = {a.dtype, Dims(a.shape())};
}

void vjp_slice_update(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<mlxc_slice_update_params>();
  const Array& g = vjp.cotangent();
  if (vjp.wants(0)) {
    grads[0] = op::slice_update(g, scalar_like(0, g), params.start, params.step, params.shape);
  }
  if (vjp.wants(1)) grads[1] = op::slice(g, params.start, params.step, params.shape);
}

void jvp_slice_update(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<mlxc_slice_update_params>();
  const Array a = jvp.tangents[0] ? jvp.tangents[0] : zeros_like(jvp.inputs[0]);
  const Array update = jvp.tangents[1] ? jvp.tangents[1] : scalar_like(0, a);
  out_tangents[0] = op::slice_update(a, update, params.start, params.step, params.shape);
}

void vmap_slice(const Vmap& vmap, Array* results) {
  const auto& params = vmap.params_as<mlxc_slice_params>();
  results[0] = op::slice(vmap.inputs[0], prepend_size(0, params.start), prepend_size(1, params.step),
                         prepend_size(vmap.size, params.shape));
}

// An update that is not batched broadcasts.
void vmap_slice_update(const Vmap& vmap, Array* results) {
  const auto& params = vmap.params_as<mlxc_slice_update_params>();
  results[0] = op::slice_update(batched_input(vmap, 0), vmap.inputs[1], prepend_size(0, params.start),
                                prepend_size(1, params.step), prepend_size(vmap.size, params.shape));
}

}  // namespace mlxc
