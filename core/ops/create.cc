// Rules of the ops that make arrays from parameters: full and arange.
//
// Rule: a shape that comes from a caller is checked here: no negative size, no product that overflows.
#include <algorithm>

#include "core/ops/batch.h"

namespace mlxc {

void infer_full(Recording& rec) {
  const Node& value = rec.input(0);
  const Dims shape = to_dims(rec.params_as<mlxc_full_params>().shape);
  checked_size(rec.name(), shape.span());
  if (value.ndim > 0 && !(broadcast_shapes(rec.name(), value.shape(), shape.span()) == shape)) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": a value of shape ", shape_text(value.shape()),
         " does not fill the shape ", shape_text(shape));
  }
  rec.out[0] = {value.dtype, shape};
}

void vjp_full(const Vjp& vjp, Array* grads) { grads[0] = sum_to(vjp.cotangent(), vjp.inputs[0].shape()); }

void infer_arange(Recording& rec) {
  const auto& params = rec.params_as<mlxc_arange_params>();
  if (!dtype_valid(params.dtype)) {
    fail(MLXC_ERROR_TYPE, rec.name(), ": ", params.dtype, " is not the number of a dtype");
  }
  if (params.length < 0) fail(MLXC_ERROR_VALUE, rec.name(), ": negative length ", params.length);
  rec.out[0] = {params.dtype, Dims({params.length})};
  checked_size(rec.name(), rec.out[0].shape.span());
}

void vmap_full(const Vmap& vmap, Array* results) {
  const Sizes& shape = vmap.params_as<mlxc_full_params>().shape;
  results[0] =
      op::full(aligned_input(vmap, 0, static_cast<int>(shape.count)), prepend_size(vmap.size, shape));
}

}  // namespace mlxc
