// Implements batch.h, and the batching rules that many ops share.
#include "core/ops/batch.h"

#include <cstddef>

namespace mlxc {

Array align_batched(const Array& a, bool batched, int ndim) {
  const int missing = batched ? ndim + 1 - a.ndim() : 0;
  if (missing <= 0) return a;
  Axes axes{};
  axes.count = missing;
  for (int i = 0; i < missing; i++) axes.items[i] = i + 1;
  return op::expand_dims(a, axes);
}

Array batched_input(const Vmap& vmap, int i) {
  return vmap.batched[i] ? vmap.inputs[i] : repeat_batch(vmap.inputs[i], vmap.size);
}

Array aligned_input(const Vmap& vmap, int i, int ndim) {
  return align_batched(vmap.inputs[i], vmap.batched[i], ndim);
}

Axes shift_axes(const Axes& axes) {
  Axes shifted = axes;
  for (int i = 0; i < axes.count; i++) shifted.items[i]++;
  return shifted;
}

Sizes prepend_size(int64_t first, const Sizes& others) {
  Dims sizes{first};
  for (int i = 0; i < others.count; i++) sizes.push(others.items[i]);
  return make_sizes(sizes.span());
}

Array move_axis(const Array& a, int from, int to) {
  if (from == to) return a;
  Axes order{};
  for (int i = 0; i < a.ndim(); i++)
    if (i != from) order.items[order.count++] = i;
  for (int i = order.count++; i > to; i--) order.items[i] = order.items[i - 1];
  order.items[to] = from;
  return op::transpose(a, order);
}

void record_batched(const Vmap& vmap, std::span<const Array> inputs, const void* params, Array* results) {
  std::vector<Node*> nodes;
  for (const Array& input : inputs) nodes.push_back(input.node());
  std::vector<Array> made = record_many(vmap.op->number, nodes.data(), static_cast<int>(nodes.size()),
                                        vmap.op->params_size ? params : nullptr);
  for (size_t i = 0; i < made.size(); i++) results[i] = std::move(made[i]);
}

void vmap_elementwise(const Vmap& vmap, Array* results) {
  std::vector<Array> inputs;
  const int ndim = vmap.outputs[0].ndim();
  for (size_t i = 0; i < vmap.inputs.size(); i++)
    inputs.push_back(aligned_input(vmap, static_cast<int>(i), ndim));
  record_batched(vmap, inputs, vmap.params, results);
}

void vmap_leading(const Vmap& vmap, Array* results) {
  std::vector<Array> inputs;
  for (size_t i = 0; i < vmap.inputs.size(); i++) inputs.push_back(batched_input(vmap, static_cast<int>(i)));
  record_batched(vmap, inputs, vmap.params, results);
}

// For softmax too.
void vmap_reduce(const Vmap& vmap, Array* results) {
  static_assert(offsetof(mlxc_softmax_params, axes) == offsetof(mlxc_sum_params, axes));
  ParamsCopy params(vmap);
  Axes& axes = params.as<mlxc_sum_params>().axes;
  axes = shift_axes(axes);
  record_batched(vmap, vmap.inputs, params.data(), results);
}

void vmap_axis(const Vmap& vmap, Array* results) {
  static_assert(offsetof(mlxc_argmin_params, axis) == offsetof(mlxc_sort_params, axis));
  static_assert(offsetof(mlxc_argmin_params, axis) == offsetof(mlxc_cumsum_params, axis));
  ParamsCopy params(vmap);
  params.as<mlxc_argmin_params>().axis++;
  record_batched(vmap, vmap.inputs, params.data(), results);
}

}  // namespace mlxc
