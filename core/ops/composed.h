// Derivatives of a fused op by way of the formula it fuses: the op's rule hands over a function that records
// the same mathematics in simpler ops, and that is differentiated.
//
// Used where a rule of its own would not pay: for tangents of fused ops, and for derivatives of their
// gradients. What it makes consists of recorded ops, so every further order follows.
#pragma once

#include "core/ops/common.h"
#include "core/transform.h"

namespace mlxc {

// The tangents of fn, which makes the op's outputs from its inputs.
inline void jvp_composed(const Jvp& jvp, const Function& fn, Array* out_tangents) {
  std::vector<Array> inputs(jvp.inputs.begin(), jvp.inputs.end()), primals, tangents;
  std::vector<size_t> places;
  for (size_t i = 0; i < inputs.size(); i++) {
    if (!jvp.tangents[i]) continue;
    places.push_back(i);
    primals.push_back(inputs[i]);
    tangents.push_back(jvp.tangents[i]);
  }
  auto varied = [&](std::span<const Array> at) {
    for (size_t i = 0; i < places.size(); i++) inputs[places[i]] = at[i];
    return fn(inputs);
  };
  Differentiated made = mlxc::jvp(varied, primals, tangents);
  for (size_t i = 0; i < made.results.size(); i++) out_tangents[i] = std::move(made.results[i]);
}

// The gradients of fn for the inputs that are wanted, from the cotangents of the op's outputs.
inline void vjp_composed(const Vjp& vjp, const Function& fn, Array* grads) {
  std::vector<Array> inputs(vjp.inputs.begin(), vjp.inputs.end()), primals;
  std::vector<size_t> places;
  for (size_t i = 0; i < inputs.size(); i++) {
    if (!vjp.wants(static_cast<int>(i)) || !is_inexact(inputs[i].dtype())) continue;
    places.push_back(i);
    primals.push_back(inputs[i]);
  }
  auto varied = [&](std::span<const Array> at) {
    for (size_t i = 0; i < places.size(); i++) inputs[places[i]] = at[i];
    return fn(inputs);
  };
  auto cotangents = [&](std::span<const Array> outputs) {
    std::vector<Array> given(vjp.cotangents.begin(), vjp.cotangents.end());
    given.resize(outputs.size());
    return given;
  };
  Differentiated made = mlxc::vjp(varied, primals, cotangents);
  for (size_t i = 0; i < places.size(); i++) grads[places[i]] = std::move(made.results[i]);
}

// Input i of a batching rule with the batch as its first axis.
inline Array batch_input(const Vmap& vmap, int i) {
  const Array& input = vmap.inputs[i];
  if (vmap.batched[i]) return input;
  Dims shape{vmap.size};
  for (int64_t size : input.shape()) shape.push(size);
  return broadcast_to(input, shape.span());
}

// The batch joined with the first axis of the op's own shape, and the way back.
inline Array merge_batch(const Array& a) {
  Dims shape{a.dim(0) * a.dim(1)};
  for (int i = 2; i < a.ndim(); i++) shape.push(a.dim(i));
  return op::reshape(a, make_sizes(shape.span()));
}
inline Array split_batch(const Array& a, int64_t size) {
  Dims shape{size, size == 0 ? 0 : a.dim(0) / size};
  for (int i = 1; i < a.ndim(); i++) shape.push(a.dim(i));
  return op::reshape(a, make_sizes(shape.span()));
}

}  // namespace mlxc
