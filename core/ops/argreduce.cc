// The shape rule of argmin and argmax.
//
// Rule: indices are uint32; an axis that they cannot number is refused.
#include "core/ops/common.h"

namespace mlxc {

void infer_argreduce(Recording& rec) {
  // argmin and argmax have the same parameters.
  static_assert(sizeof(mlxc_argmin_params) == sizeof(mlxc_argmax_params));
  auto& params = rec.params_as<mlxc_argmin_params>();
  const Node& a = rec.input(0);
  check_accepts(*rec.op, a.dtype);
  params.axis = normalize_axis(rec.name(), params.axis, a.ndim);
  const int64_t length = a.shape()[params.axis];
  if (length > int64_t{UINT32_MAX} + 1) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": axis ", params.axis, " of shape ", shape_text(a.shape()),
         " is too long for uint32 indices");
  }
  OutSpec& out = rec.out[0];
  out = {MLXC_UINT32, reduced_shape(a.shape(), make_axes({params.axis}), params.keepdims)};
  if (length == 0 && checked_size(rec.name(), out.shape.span()) > 0) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": axis ", params.axis, " of shape ", shape_text(a.shape()),
         " has no elements to choose from");
  }
}

}  // namespace mlxc
