// Layouts of the shape ops and of slice, which make a window on their input instead of a copy: where the
// elements of the result lie in the input's buffer. Called when a node is evaluated, on an evaluated input.
// bitcast and stop_gradient have theirs in copy.cc.
//
// Rule: strides are in elements of the result's dtype, the offset is in bytes and starts from the input's.
// Strides of axes of size 0 or 1 are never used to reach an element, so any value serves; the ones given
// here keep a row-major array looking row-major.
#include "core/ops/common.h"

namespace mlxc {

namespace {

bool place_row_major(const Node& input, const Node& out, Layout* layout) {
  layout->strides = row_major_strides(out.shape());
  layout->offset = input.offset;
  return true;
}

}  // namespace

// The axes of both shapes are cut into the shortest runs that hold equally many elements. A run can be
// relaid only where its input axes lie row-major to each other, or hold one axis.
bool view_reshape(const Node& input, const Node& out, Layout* layout) {
  if (out.size <= 1) return place_row_major(input, out, layout);
  Dims sizes, strides;  // of the input, without axes of size one
  for (int i = 0; i < input.ndim; i++) {
    if (input.shape_data()[i] == 1) continue;
    sizes.push(input.shape_data()[i]);
    strides.push(input.strides_data()[i]);
  }
  layout->strides = Dims(out.shape());
  layout->offset = input.offset;
  int from = 0, to = 0;
  while (from < sizes.n) {
    int from_end = from + 1, to_end = to;
    int64_t from_count = sizes[from], to_count = 1;
    while (to_count < from_count) {
      to_count *= out.shape_data()[to_end++];
      while (from_count < to_count) from_count *= sizes[from_end++];
    }
    for (int i = from; i + 1 < from_end; i++) {
      if (strides[i] != strides[i + 1] * sizes[i + 1]) return false;
    }
    int64_t stride = strides[from_end - 1];
    for (int i = to_end - 1; i >= to; i--) {
      layout->strides[i] = stride;
      stride *= out.shape_data()[i];
    }
    from = from_end;
    to = to_end;
  }
  for (; to < out.ndim; to++) layout->strides[to] = 1;  // what is left has size one
  return true;
}

bool view_transpose(const Node& input, const Node& out, Layout* layout) {
  const auto& params = *static_cast<const mlxc_transpose_params*>(out.params_data());
  layout->strides = Dims();
  layout->offset = input.offset;
  for (int i = 0; i < out.ndim; i++) layout->strides.push(input.strides_data()[params.axes.items[i]]);
  return true;
}

bool view_broadcast_to(const Node& input, const Node& out, Layout* layout) {
  const int lead = out.ndim - input.ndim;
  layout->strides = Dims();
  layout->offset = input.offset;
  for (int i = 0; i < out.ndim; i++) {
    const bool kept = i >= lead && input.shape_data()[i - lead] == out.shape_data()[i];
    layout->strides.push(kept ? input.strides_data()[i - lead] : 0);
  }
  return true;
}

bool view_expand_dims(const Node& input, const Node& out, Layout* layout) {
  const auto& params = *static_cast<const mlxc_expand_dims_params*>(out.params_data());
  layout->strides = Dims(out.shape());
  layout->offset = input.offset;
  int from = input.ndim - 1, next = params.axes.count - 1;
  int64_t stride = 1;  // what a row-major neighbour on the right implies
  for (int i = out.ndim - 1; i >= 0; i--) {
    if (next >= 0 && params.axes.items[next] == i) {
      layout->strides[i] = stride;
      next--;
    } else {
      layout->strides[i] = input.strides_data()[from];
      // An unused stride may hold any value, so the product may wrap.
      stride = static_cast<int64_t>(static_cast<uint64_t>(input.strides_data()[from]) *
                                    static_cast<uint64_t>(input.shape_data()[from]));
      from--;
    }
  }
  return true;
}

bool view_squeeze(const Node& input, const Node& out, Layout* layout) {
  const auto& params = *static_cast<const mlxc_squeeze_params*>(out.params_data());
  layout->strides = Dims();
  layout->offset = input.offset;
  int next = 0;
  for (int i = 0; i < input.ndim; i++) {
    if (next < params.axes.count && params.axes.items[next] == i) {
      next++;
    } else {
      layout->strides.push(input.strides_data()[i]);
    }
  }
  return true;
}

// The shape rule has checked that every element lies inside, so that the products cannot overflow.
bool view_slice(const Node& input, const Node& out, Layout* layout) {
  if (out.size == 0) return place_row_major(input, out, layout);
  const auto& params = *static_cast<const mlxc_slice_params*>(out.params_data());
  layout->strides = Dims(input.strides());
  int64_t start = 0;
  for (int i = 0; i < out.ndim; i++) {
    start += params.start.items[i] * input.strides_data()[i];
    if (out.shape_data()[i] > 1) layout->strides[i] *= params.step.items[i];
  }
  layout->offset = input.offset + start * dtype_size(input.dtype);
  return true;
}

}  // namespace mlxc
