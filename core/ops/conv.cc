// Rules of conv: 1 to 3 spatial axes, channels last, input (N, ..., C) and weight (O, ..., C / groups).
// Place o of the output sums weight[j] * dilated_input[o * stride + j * kernel_dilation - padding_low]; where
// that leaves the input it reads zero. With flip the weight is read backwards (a convolution as in
// mathematics), without it forwards (a cross-correlation, what neural networks call convolution).
//
// Rule: both gradients are convolutions themselves, so every order of derivative follows from this file.
// Paddings may be negative, which crops; the gradients need that.
#include <algorithm>

#include "core/ops/batch.h"

namespace mlxc {

namespace {

// Sizes along one spatial axis, in 64 bits without overflow.
struct Extent {
  int64_t input, dilated_input;  // dilated: with the gaps that dilation opens
  int64_t kernel, dilated_kernel;
};

int64_t dilate(int64_t size, int64_t dilation) {
  int64_t dilated;
  if (size == 0) return 0;
  if (__builtin_mul_overflow(size - 1, dilation, &dilated) || __builtin_add_overflow(dilated, 1, &dilated)) {
    fail(MLXC_ERROR_VALUE, "conv: size ", size, " with dilation ", dilation, " is too large");
  }
  return dilated;
}

Extent measure(const mlxc_conv_params& params, std::span<const int64_t> input,
               std::span<const int64_t> weight, int axis) {
  const int64_t n = input[static_cast<size_t>(axis) + 1], k = weight[static_cast<size_t>(axis) + 1];
  return {n, dilate(n, params.input_dilation.items[axis]), k, dilate(k, params.kernel_dilation.items[axis])};
}

// Gives a list one entry for each spatial axis: none becomes `standard`, one is repeated.
void fill_entries(Axes& list, const char* name, int n_spatial, int32_t standard) {
  if (list.count != 0 && list.count != 1 && list.count != n_spatial) {
    fail(MLXC_ERROR_VALUE, "conv: ", name, " has ", list.count,
         " entries; it takes 0, 1 or one for each of the ", n_spatial, " spatial axes");
  }
  Axes full{};
  full.count = n_spatial;
  for (int i = 0; i < n_spatial; i++) {
    full.items[i] = list.count == 0 ? standard : list.items[list.count == 1 ? 0 : i];
  }
  list = full;
}

void check_positive(const Axes& list, const char* name) {
  for (int i = 0; i < list.count; i++) {
    if (list.items[i] < 1) fail(MLXC_ERROR_VALUE, "conv: ", name, " must be at least 1, got ", list.items[i]);
  }
}

void check_channels(const Node& input, const Node& weight, int32_t groups) {
  const auto shapes = [&] {
    return cat("input of shape ", shape_text(input.shape()), " and weight of shape ",
               shape_text(weight.shape()));
  };
  if (input.ndim < 3 || input.ndim > 5 || weight.ndim != input.ndim) {
    fail(MLXC_ERROR_VALUE,
         "conv: input and weight both need 3 to 5 axes (batch, 1 to 3 spatial, channels), got ", shapes());
  }
  if (groups < 1) fail(MLXC_ERROR_VALUE, "conv: groups must be at least 1, got ", groups);
  const int64_t channels = input.shape_data()[input.ndim - 1], outputs = weight.shape_data()[0];
  if (channels % groups != 0 || outputs % groups != 0) {
    fail(MLXC_ERROR_VALUE, "conv: groups ", groups, " must divide the ", channels, " input channels and the ",
         outputs, " output channels, got ", shapes());
  }
  if (weight.shape_data()[weight.ndim - 1] != channels / groups) {
    fail(MLXC_ERROR_VALUE,
         "conv: the weight's last axis must have the input's channels / groups = ", channels / groups,
         " elements, got ", shapes());
  }
}

// A padding that a gradient needs; the parameters are 32 bits wide.
int32_t narrow(int64_t padding) {
  if (padding < INT32_MIN || padding > INT32_MAX) {
    fail(MLXC_ERROR_VALUE, "conv: its gradient needs a padding of ", padding, ", which does not fit 32 bits");
  }
  return static_cast<int32_t>(padding);
}

// A number of groups; the parameter is 32 bits wide.
int32_t narrow_count(int64_t count) {
  if (count > INT32_MAX) fail(MLXC_ERROR_VALUE, "conv: a batch of ", count, " groups does not fit 32 bits");
  return static_cast<int32_t>(count);
}

Axes spatial_list(int count) {
  Axes list{};
  list.count = count;
  return list;
}

// Splits axis `axis` of a into (groups, size / groups).
Array split_axis(const Array& a, int axis, int32_t groups) {
  Dims shape;
  for (int i = 0; i < a.ndim(); i++) {
    if (i == axis) shape.push(groups);
    shape.push(i == axis ? a.dim(i) / groups : a.dim(i));
  }
  return op::reshape(a, make_sizes(shape.span()));
}

// Joins axis `join` with the one after it.
Array join_axes(const Array& a, int join) {
  Dims shape;
  for (int i = 0; i < a.ndim(); i++) {
    if (i == join) {
      shape.push(a.dim(i) * a.dim(i + 1));
      i++;
    } else {
      shape.push(a.dim(i));
    }
  }
  return op::reshape(a, make_sizes(shape.span()));
}

Array move_and_join(const Array& a, std::span<const int32_t> order, int join) {
  return join_axes(op::transpose(a, make_axes(order)), join);
}

// (O, ..., C / groups) to (C, ..., O / groups).
Array exchange_channels(const Array& weight, int32_t groups) {
  const Array split = split_axis(weight, 0, groups);  // (G, O / G, ..., C / G)
  const int last = split.ndim() - 1;
  int32_t order[MLXC_MAX_NDIM];
  for (int i = 0; i <= last; i++) order[i] = i;
  std::swap(order[1], order[last]);
  return move_and_join(split, {order, static_cast<size_t>(split.ndim())}, 0);
}

// (N, ..., C) to (C / groups, ..., groups * N).
Array exchange_batch(const Array& input, int32_t groups) {
  const Array split = split_axis(input, input.ndim() - 1, groups);  // (N, ..., G, C / G)
  const int last = split.ndim() - 1;
  int32_t order[MLXC_MAX_NDIM];
  for (int i = 0; i <= last; i++) order[i] = i;
  order[0] = last;
  order[last] = 0;
  return move_and_join(split, {order, static_cast<size_t>(split.ndim())}, last - 1);
}

// Exchanges the first and the last axis.
Array exchange_ends(const Array& a) {
  Axes axes = all_axes(a.ndim());
  std::swap(axes.items[0], axes.items[a.ndim() - 1]);
  return op::transpose(a, axes);
}

// With the spatial axes read backwards.
Array flip_spatial(Array a) {
  for (int axis = 1; axis + 1 < a.ndim(); axis++) {
    if (a.dim(axis) > 1) a = slice_axis(a, axis, a.dim(axis) - 1, a.dim(axis), -1);
  }
  return a;
}

// Each cotangent goes back to the input places it came from: a convolution of the cotangent, spread by the
// stride, with the weight read the other way, at every input_dilation-th place.
Array grad_input(const Array& g, const Array& input, const Array& weight, const mlxc_conv_params& params) {
  if (g.size() == 0 || input.size() == 0 || weight.size() == 0) return zeros(input.shape(), g.dtype());
  const int n_spatial = input.ndim() - 2;
  Axes low = spatial_list(n_spatial), high = spatial_list(n_spatial);
  for (int i = 0; i < n_spatial; i++) {
    const Extent e = measure(params, input.shape(), weight.shape(), i);
    const int64_t lower = e.dilated_kernel - 1 - params.padding_low.items[i];
    const int64_t dilated_g = dilate(g.dim(i + 1), params.stride.items[i]);
    low.items[i] = narrow(lower);
    high.items[i] = narrow(e.dilated_input - 1 + e.dilated_kernel - dilated_g - lower);
  }
  return op::conv(g, conj(exchange_channels(weight, params.groups)), params.input_dilation, low, high,
                  params.kernel_dilation, params.stride, params.groups, !params.flip);
}

// Each weight meets every stride-th place of the input: a convolution of the input with the cotangent as the
// kernel, where the batch takes the place of the channels.
Array grad_weight(const Array& g, const Array& input, const Array& weight, const mlxc_conv_params& params) {
  if (g.size() == 0 || input.size() == 0 || weight.size() == 0) return zeros(weight.shape(), g.dtype());
  const int n_spatial = input.ndim() - 2;
  Axes high = spatial_list(n_spatial);
  for (int i = 0; i < n_spatial; i++) {
    const Extent e = measure(params, input.shape(), weight.shape(), i);
    const int64_t dilated_g = dilate(g.dim(i + 1), params.stride.items[i]);
    high.items[i] = narrow(e.dilated_kernel - 1 + dilated_g - e.dilated_input - params.padding_low.items[i]);
  }
  const Array result =
      op::conv(conj(exchange_batch(input, params.groups)), exchange_ends(g), params.kernel_dilation,
               params.padding_low, high, params.stride, params.input_dilation, params.groups, false);
  const Array forward = exchange_ends(result);  // (C / G, ..., O) to (O, ..., C / G)
  return params.flip ? flip_spatial(forward) : forward;
}

Array conv_like(const Array& input, const Array& weight, const mlxc_conv_params& params) {
  return op::conv(input, weight, params.stride, params.padding_low, params.padding_high,
                  params.kernel_dilation, params.input_dilation, params.groups, params.flip);
}

}  // namespace

void infer_conv(Recording& rec) {
  const Node &input = rec.input(0), &weight = rec.input(1);
  auto& params = rec.params_as<mlxc_conv_params>();
  check_channels(input, weight, params.groups);
  const int n_spatial = input.ndim - 2;
  fill_entries(params.stride, "stride", n_spatial, 1);
  fill_entries(params.padding_low, "padding_low", n_spatial, 0);
  fill_entries(params.padding_high, "padding_high", n_spatial, 0);
  fill_entries(params.kernel_dilation, "kernel_dilation", n_spatial, 1);
  fill_entries(params.input_dilation, "input_dilation", n_spatial, 1);
  check_positive(params.stride, "stride");
  check_positive(params.kernel_dilation, "kernel_dilation");
  check_positive(params.input_dilation, "input_dilation");
  params.flip = params.flip != 0;
  Dims shape{input.shape_data()[0]};
  for (int i = 0; i < n_spatial; i++) {
    const Extent e = measure(params, input.shape(), weight.shape(), i);
    const int64_t padding = int64_t{params.padding_low.items[i]} + params.padding_high.items[i];
    if (e.kernel == 0) {
      fail(MLXC_ERROR_VALUE, "conv: the weight of shape ", shape_text(weight.shape()),
           " is empty along axis ", i + 1);
    }
    int64_t padded;
    if (__builtin_add_overflow(e.dilated_input, padding, &padded) || padded < e.dilated_kernel) {
      fail(MLXC_ERROR_VALUE, "conv: along axis ", i + 1, " the kernel (size ", e.kernel, ", ",
           e.dilated_kernel, " with dilation) is larger than the input (size ", e.input, ", ",
           e.dilated_input, " with dilation, padded by ", params.padding_low.items[i], " and ",
           params.padding_high.items[i], ")");
    }
    shape.push((padded - e.dilated_kernel) / params.stride.items[i] + 1);
  }
  shape.push(weight.shape_data()[0]);
  const mlxc_dtype dtype = promote_inputs(rec);
  checked_size("conv", shape.span(), dtype_size(dtype));
  rec.out[0] = {dtype, shape};
}

void vjp_conv(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<mlxc_conv_params>();
  const Array& g = vjp.cotangent();
  if (vjp.wants(0)) grads[0] = grad_input(g, vjp.inputs[0], vjp.inputs[1], params);
  if (vjp.wants(1)) grads[1] = grad_weight(g, vjp.inputs[0], vjp.inputs[1], params);
}

void jvp_conv(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<mlxc_conv_params>();
  Array tangent;
  if (jvp.tangents[0]) tangent = conv_like(jvp.tangents[0], jvp.inputs[1], params);
  if (jvp.tangents[1]) tangent = add_maybe(tangent, conv_like(jvp.inputs[0], jvp.tangents[1], params));
  out_tangents[0] = tangent;
}

// A batch of inputs is one with more examples; of weights, one with more output channels, in each group; of
// both, one with more groups.
void vmap_conv(const Vmap& vmap, Array* results) {
  auto params = vmap.params_as<mlxc_conv_params>();
  const Array& recorded = vmap.outputs[0];
  Array input = vmap.inputs[0], weight = vmap.inputs[1];
  const int last = recorded.ndim() - 1;
  const int32_t size = narrow_count(vmap.size);
  if (!vmap.batched[1]) {
    results[0] = op::reshape(conv_like(join_axes(input, 0), weight, params),
                             prepend_size(vmap.size, recorded.sizes()));
  } else if (!vmap.batched[0]) {
    // (B, O, ...) to (groups, B, O / groups, ...), so that each group's outputs stay together.
    weight = move_axis(split_axis(weight, 1, params.groups), 0, 1);
    const Array made = conv_like(input, join_axes(join_axes(weight, 0), 0), params);
    const Array split = split_axis(split_axis(made, last, params.groups), last + 1, size);
    results[0] = join_axes(move_axis(split, last + 1, 0), last + 1);
  } else {
    params.groups = narrow_count(vmap.size * params.groups);
    input = join_axes(move_axis(input, 0, last), last);
    results[0] = move_axis(split_axis(conv_like(input, join_axes(weight, 0), params), last, size), last, 0);
  }
}

}  // namespace mlxc
