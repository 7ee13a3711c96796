// Functions with rules of their own for the transforms, and functions whose intermediates are computed again
// by the reverse sweep. Each call records what the function records, and then a node that hands the results
// on: the transforms meet the node first.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/transform.h"

namespace mlxc {

// A rule that is absent is that of the recorded function. With a vjp or jvp of its own the function is one of
// its inputs alone: what else it reads is a constant to the transform.
struct CustomRules : Attachment {
  // Gradients, one a primal (null: zero). A null cotangent is zero.
  std::function<std::vector<Array>(std::span<const Array> primals, std::span<const Array> cotangents,
                                   std::span<const Array> outputs)>
      vjp;
  // Tangents, one an output (null: zero). A null tangent is zero.
  std::function<std::vector<Array>(std::span<const Array> primals, std::span<const Array> tangents)> jvp;
  // Results with the batch as first axis, or without batch. Inputs with batched[i] have it as first axis.
  std::function<std::vector<Array>(std::span<const Array> inputs, std::span<const uint8_t> batched)> vmap;
};

std::vector<Array> call_custom(const Function& forward, std::shared_ptr<CustomRules> rules,
                               std::span<const Array> inputs);

// The reverse sweep records what lies between the inputs and the results again, to be computed from the
// inputs when the cotangents are there.
std::vector<Array> call_checkpointed(const Function& fn, std::span<const Array> inputs);

}  // namespace mlxc
