// Rules of the ops that only rename places: reshape, transpose, broadcast_to, expand_dims, squeeze. Their
// shape rules write the explicit shape or axes back into the parameters, which the gradient rules read.
// The layouts of these views are in views.cc.
#include <algorithm>

#include "core/ops/batch.h"
#include "core/program.h"

namespace mlxc {

namespace {

// How many elements the wanted shape's known sizes make, with the place of a -1 in `unknown` (or -1).
int64_t count_known(const Dims& wanted, int* unknown) {
  Dims known;
  *unknown = -1;
  for (int i = 0; i < wanted.n; i++) {
    if (wanted[i] == -1) {
      if (*unknown >= 0) {
        fail(MLXC_ERROR_VALUE, "reshape: only one size may be -1, got ", shape_text(wanted));
      }
      *unknown = i;
    } else if (wanted[i] < 0) {
      fail(MLXC_ERROR_VALUE, "reshape: sizes must not be negative (one may be -1), got ", shape_text(wanted));
    } else {
      known.push(wanted[i]);
    }
  }
  return checked_size("reshape", known.span(), 1);
}

void check_list_count(const char* op, const Axes& axes) {
  if (axes.count < 0 || axes.count > MLXC_MAX_NDIM) {
    fail(MLXC_ERROR_VALUE, op, ": ", axes.count, " axes given; it takes 0 to ", MLXC_MAX_NDIM);
  }
}

}  // namespace

void infer_reshape(Recording& rec) {
  const Node& a = rec.input(0);
  Sizes& sizes = rec.params_as<mlxc_reshape_params>().shape;
  OutSpec& out = rec.out[0];
  out.dtype = a.dtype;
  Dims& wanted = out.shape;
  wanted = to_dims(sizes);
  int unknown = -1;
  const bool all_known = std::all_of(wanted.v, wanted.v + wanted.n, [](int64_t size) { return size >= 0; });
  const int64_t known = all_known ? checked_size("reshape", wanted.span(), 1) : count_known(wanted, &unknown);
  bool fits = known == a.size;
  if (unknown >= 0) {
    fits = known > 0 && a.size % known == 0;
    if (fits) sizes.items[unknown] = wanted[unknown] = a.size / known;
  }
  if (!fits) {
    fail(MLXC_ERROR_VALUE, "reshape: cannot reshape ", shape_text(a.shape()), " with ", a.size,
         a.size == 1 ? " element" : " elements", " to ", shape_text(wanted));
  }
}

void vjp_reshape(const Vjp& vjp, Array* grads) {
  grads[0] = op::reshape(vjp.cotangent(), vjp.inputs[0].sizes());
}

void infer_transpose(Recording& rec) {
  const Node& a = rec.input(0);
  auto& params = rec.params_as<mlxc_transpose_params>();
  const int ndim = a.ndim;
  if (params.axes.count == -1) {
    params.axes = all_axes(ndim);
    std::reverse(params.axes.items, params.axes.items + ndim);
  }
  if (params.axes.count != ndim) {
    fail(MLXC_ERROR_VALUE, "transpose: ", params.axes.count, " axes given for an array of shape ",
         shape_text(a.shape()), ", which has ", ndim);
  }
  bool named[MLXC_MAX_NDIM] = {};
  Dims shape;
  for (int i = 0; i < ndim; i++) {
    const int axis = normalize_axis("transpose", params.axes.items[i], ndim);
    if (named[axis]) fail(MLXC_ERROR_VALUE, "transpose: axis ", axis, " is named twice");
    named[axis] = true;
    params.axes.items[i] = axis;
    shape.push(a.shape()[static_cast<size_t>(axis)]);
  }
  rec.out[0] = {a.dtype, shape};
}

void vjp_transpose(const Vjp& vjp, Array* grads) {
  const Axes& axes = vjp.params_as<mlxc_transpose_params>().axes;
  Axes inverse = all_axes(axes.count);
  for (int i = 0; i < axes.count; i++) inverse.items[axes.items[i]] = i;
  grads[0] = op::transpose(vjp.cotangent(), inverse);
}

void infer_broadcast_to(Recording& rec) {
  const Node& a = rec.input(0);
  const Dims wanted = to_dims(rec.params_as<mlxc_broadcast_to_params>().shape);
  checked_size("broadcast_to", wanted.span(), dtype_size(a.dtype));
  const int lead = wanted.n - a.ndim;
  bool fits = lead >= 0;
  for (int i = 0; fits && i < a.ndim; i++) {
    const int64_t size = a.shape_data()[i];
    fits = size == 1 || size == wanted[lead + i];
  }
  if (!fits) {
    fail(MLXC_ERROR_VALUE, "broadcast_to: cannot broadcast shape ", shape_text(a.shape()), " to ",
         shape_text(wanted));
  }
  rec.out[0] = {a.dtype, wanted};
}

void vjp_broadcast_to(const Vjp& vjp, Array* grads) {
  grads[0] = sum_to(vjp.cotangent(), vjp.inputs[0].shape());
}

void infer_expand_dims(Recording& rec) {
  const Node& a = rec.input(0);
  auto& params = rec.params_as<mlxc_expand_dims_params>();
  check_list_count("expand_dims", params.axes);
  const int ndim = a.ndim + params.axes.count;
  if (ndim > MLXC_MAX_NDIM) {
    fail(MLXC_ERROR_VALUE, "expand_dims: ", params.axes.count, " more axes on shape ", shape_text(a.shape()),
         " pass the limit of ", MLXC_MAX_NDIM);
  }
  normalize_axes("expand_dims", params.axes, ndim);
  Dims shape;
  int from = 0, next = 0;
  for (int i = 0; i < ndim; i++) {
    if (next < params.axes.count && params.axes.items[next] == i) {
      shape.push(1);
      next++;
    } else {
      shape.push(a.shape_data()[from++]);
    }
  }
  rec.out[0] = {a.dtype, shape};
}

void vjp_expand_dims(const Vjp& vjp, Array* grads) {
  grads[0] = op::squeeze(vjp.cotangent(), vjp.params_as<mlxc_expand_dims_params>().axes);
}

void infer_squeeze(Recording& rec) {
  const Node& a = rec.input(0);
  Axes& axes = rec.params_as<mlxc_squeeze_params>().axes;
  if (axes.count == -1) {
    note_shape_read();
    axes = Axes{};
    for (int i = 0; i < a.ndim; i++) {
      if (a.shape_data()[i] == 1) axes.items[axes.count++] = i;
    }
  } else {
    check_list_count("squeeze", axes);
    normalize_axes("squeeze", axes, a.ndim);
  }
  Dims shape;
  int next = 0;
  for (int i = 0; i < a.ndim; i++) {
    const int64_t size = a.shape_data()[i];
    if (next == axes.count || axes.items[next] != i) {
      shape.push(size);
      continue;
    }
    if (size != 1) {
      fail(MLXC_ERROR_VALUE, "squeeze: axis ", i, " of shape ", shape_text(a.shape()), " has size ", size,
           ", not 1");
    }
    next++;
  }
  rec.out[0] = {a.dtype, shape};
}

void vjp_squeeze(const Vjp& vjp, Array* grads) {
  grads[0] = op::expand_dims(vjp.cotangent(), vjp.params_as<mlxc_squeeze_params>().axes);
}

void vmap_reshape(const Vmap& vmap, Array* results) {
  results[0] =
      op::reshape(vmap.inputs[0], prepend_size(vmap.size, vmap.params_as<mlxc_reshape_params>().shape));
}

void vmap_transpose(const Vmap& vmap, Array* results) {
  const Axes axes = shift_axes(vmap.params_as<mlxc_transpose_params>().axes);
  Axes order = all_axes(axes.count + 1);
  for (int i = 0; i < axes.count; i++) order.items[i + 1] = axes.items[i];
  results[0] = op::transpose(vmap.inputs[0], order);
}

void vmap_broadcast_to(const Vmap& vmap, Array* results) {
  const Sizes& shape = vmap.params_as<mlxc_broadcast_to_params>().shape;
  results[0] =
      op::broadcast_to(aligned_input(vmap, 0, static_cast<int>(shape.count)), prepend_size(vmap.size, shape));
}

void vmap_expand_dims(const Vmap& vmap, Array* results) {
  results[0] = op::expand_dims(vmap.inputs[0], shift_axes(vmap.params_as<mlxc_expand_dims_params>().axes));
}

void vmap_squeeze(const Vmap& vmap, Array* results) {
  results[0] = op::squeeze(vmap.inputs[0], shift_axes(vmap.params_as<mlxc_squeeze_params>().axes));
}

}  // namespace mlxc
