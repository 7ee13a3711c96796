// What ops that write into an array (slice_update, scatter, scatter_axis) share.
#pragma once

#include "core/ops/common.h"

namespace mlxc {

// Casts input i to the dtype and broadcasts it to the places it is written to. As in NumPy's assignment,
// it may have further leading axes of size one.
void fit_update(Recording& rec, int i, mlxc_dtype dtype, const Dims& places);

// Broadcasts input i, which the caller has found to fit.
inline void broadcast_input(Recording& rec, int i, const Dims& shape) {
  if (Dims(rec.input(i).shape()) == shape) return;
  rec.replace_input(i, op::broadcast_to(Array::borrow(rec.inputs[i]), make_sizes(shape.span())));
}

}  // namespace mlxc
