// matmul for arrays of any number of axes, from the op, which takes at least two each.
#pragma once

#include "core/record.h"

namespace mlxc {

// NumPy's rules for one axis: a vector stands as a row on the left, as a column on the right, and its axis
// leaves the result.
Array matmul_any_ndim(const Array& a, const Array& b);

}  // namespace mlxc
