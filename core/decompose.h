// Decomposition: computes an op that the device has no kernel for by other ops that it has.
#pragma once

#include "core/node.h"

namespace mlxc {

// Whether the environment asks for decompositions also where there is a kernel (MLXC_DECOMPOSE=1): so the
// kit judges them on a device that needs none.
bool prefers_decompositions();

// Computes the claimed node by its op's decomposition on its own stream, if it has one and the device has
// what that takes. False: nothing happened.
bool execute_decomposed(Node* node);

}  // namespace mlxc
