// Batching of recorded graphs: a function of single examples becomes one of a batch.
#pragma once

#include <span>
#include <vector>

#include "core/transform.h"
#include "mlxc/transform.h"

namespace mlxc {

// Calls the function on placeholders for the batched inputs, without their batch axis, and records what it
// recorded again for the whole batch. in_axes: one an input, negative ones count from the end,
// MLXC_NOT_BATCHED hands the input over as it is. `out_axes` is called with the number of outputs, after the
// function, and gives one an output; MLXC_NOT_BATCHED is for an output that does not depend on the batch.
std::vector<Array> vmap(const Function& fn, std::span<const Array> inputs, std::span<const int32_t> in_axes,
                        const std::function<std::vector<int32_t>(size_t n_outputs)>& out_axes);

}  // namespace mlxc
