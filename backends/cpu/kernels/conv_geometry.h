/* The sizes and strides of one convolution, and where its output positions are.
 *
 * Included by kernels/conv.cc and kernels/conv_gradients.h. Fewer spatial axes are handled as three with
 * leading ones of size one.
 */
#ifndef MLXC_CPU_CONV_GEOMETRY_H
#define MLXC_CPU_CONV_GEOMETRY_H

#include "gemm.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

constexpr int kSpatial = 3;
/* Elements of a block of patches: fits the second-level cache. */
constexpr int64_t kPatchElements = INT64_C(1) << 17;

struct Geometry {
  int64_t batch, channels, filters, groups;
  int64_t in[kSpatial], kernel[kSpatial], out[kSpatial];
  int64_t stride[kSpatial], low[kSpatial], kernel_dilation[kSpatial], input_dilation[kSpatial];
  int64_t batch_stride, channel_stride, in_stride[kSpatial]; /* of the input, in elements */
  bool flip;

  int64_t group_channels() const { return channels / groups; }
  int64_t group_filters() const { return filters / groups; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t rows() const { return batch * out[0] * out[1] * out[2]; }

  /* Where tap `tap` of output position `position` reads along an axis; -1 in padding or between dilated
   * elements. */
  int64_t input_index(int axis, int64_t position, int64_t tap) const {
    const int64_t place = flip ? kernel[axis] - 1 - tap : tap;
    const int64_t at = position * stride[axis] + place * kernel_dilation[axis] - low[axis];
    if (at < 0 || at % input_dilation[axis] != 0) return -1;
    const int64_t index = at / input_dilation[axis];
    return index < in[axis] ? index : -1;
  }
};

inline Geometry make_geometry(const mlxc_kernel_call* call) {
  const mlxc_view* input = call->inputs[0];
  const mlxc_view* weight = call->inputs[1];
  const mlxc_view* out = call->outputs[0];
  const auto* p = params<mlxc_conv_params>(call);
  const int spatial = input->ndim - 2, lead = kSpatial - spatial;
  Geometry g;
  g.batch = input->shape[0];
  g.channels = input->shape[input->ndim - 1];
  g.filters = weight->shape[0];
  g.groups = p->groups;
  g.flip = p->flip != 0;
  g.batch_stride = input->strides[0];
  g.channel_stride = input->strides[input->ndim - 1];
  for (int axis = 0; axis < kSpatial; axis++) {
    const int from = axis - lead;
    const bool real = from >= 0;
    g.in[axis] = real ? input->shape[1 + from] : 1;
    g.in_stride[axis] = real ? input->strides[1 + from] : 0;
    g.kernel[axis] = real ? weight->shape[1 + from] : 1;
    g.out[axis] = real ? out->shape[1 + from] : 1;
    g.stride[axis] = real ? p->stride.items[from] : 1;
    g.low[axis] = real ? p->padding_low.items[from] : 0;
    g.kernel_dilation[axis] = real ? p->kernel_dilation.items[from] : 1;
    g.input_dilation[axis] = real ? p->input_dilation.items[from] : 1;
  }
  return g;
}

/* The output position of a row, counted up. */
struct Position {
  int64_t image;
  int64_t at[kSpatial];

  Position(const Geometry& g, int64_t row) {
    for (int axis = kSpatial - 1; axis >= 0; axis--) {
      at[axis] = row % g.out[axis];
      row /= g.out[axis];
    }
    image = row;
  }
  void next(const Geometry& g) {
    for (int axis = kSpatial - 1; axis >= 0; axis--) {
      if (++at[axis] < g.out[axis]) return;
      at[axis] = 0;
    }
    image++;
  }
};

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
