// Shared 0-d arrays of numbers that are only given to ops (see constant.cc).
#pragma once

#include "core/node.h"

namespace mlxc {

// The number in the dtype; the node may be held by others and is never written.
Array constant(double value, mlxc_dtype dtype);
Array constant_int(int64_t value, mlxc_dtype dtype);
// op(a, value) of an element-wise op of two arrays, the number in the dtype of `a`, whose reference is used
// up: less to count for a composed function that is done with it.
Array apply_number(int op, Array a, double value);

}  // namespace mlxc
