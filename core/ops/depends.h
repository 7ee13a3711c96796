// Ties arrays to others that must be computed before them.
#pragma once

#include <span>
#include <vector>

#include "core/node.h"

namespace mlxc {

// The inputs as they are, computed only once the dependencies are.
std::vector<Array> depends(std::span<const Array> inputs, std::span<const Array> dependencies);

}  // namespace mlxc
