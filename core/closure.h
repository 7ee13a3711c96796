// Functions and lists of arrays of the C ABI as the core has them: for the C functions of transforms and
// programs.
#pragma once

#include <vector>

#include "core/transform.h"
#include "mlxc/transform.h"

struct mlxc_arrays {
  std::vector<mlxc::Array> items;
};

namespace mlxc {

// The closure is borrowed. Errors name the function.
Function wrap_closure(const char* name, const mlxc_closure* closure);
// References to the arrays; a NULL among them is MLXC_ERROR_VALUE.
std::vector<Array> take_handles(const char* name, mlxc_array* const* handles, size_t count);
// Appends to the list, which may be NULL.
void put(mlxc_arrays* list, const std::vector<Array>& arrays);

}  // namespace mlxc
