// Differentiation of recorded graphs.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/node.h"

namespace mlxc {

using Function = std::function<std::vector<Array>(std::span<const Array> inputs)>;

struct Differentiated {
  std::vector<Array> outputs;
  std::vector<Array> results;  // vjps, one a primal; or jvps, one an output
};

// Calls the function on stand-ins for the primals. `cotangents` is called with the outputs and gives
// one array an output (null: zero).
Differentiated vjp(const Function& fn, std::span<const Array> primals,
                   const std::function<std::vector<Array>(std::span<const Array> outputs)>& cotangents);
Differentiated jvp(const Function& fn, std::span<const Array> primals, std::span<const Array> tangents);

// MLXC_ERROR_VALUE unless `given` is there and has the shape of `like`.
void check_like(const char* what, size_t index, const Array& given, const Array& like);

}  // namespace mlxc
