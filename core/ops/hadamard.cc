// Rules of hadamard_transform: the last axis times a Hadamard matrix.
//
// Rule: the matrices of the sizes 20 and 28 are not symmetric, so the gradient is the transposed transform.
#include "core/ops/common.h"

namespace mlxc {

void infer_hadamard_transform(Recording& rec) {
  const Node& a = rec.input(0);
  check_accepts(*rec.op, a.dtype);
  const int64_t n = a.ndim > 0 ? a.shape_data()[a.ndim - 1] : 1;
  int64_t rest = n;
  while (rest > 1 && rest % 2 == 0) rest /= 2;
  // An odd factor of 3, 5 or 7 needs the two factors of 2 that 12, 20 and 28 have.
  const bool odd = rest == 3 || rest == 5 || rest == 7;
  if (a.size == 0 || !(rest == 1 || (odd && n / rest >= 4))) {
    fail(MLXC_ERROR_VALUE,
         "hadamard_transform: the last axis must have m 2^k elements with m one of 1, 12, 20 "
         "and 28, and none may be empty, got shape ",
         shape_text(a.shape()));
  }
  rec.out[0] = {to_inexact(a.dtype), Dims(a.shape())};
  rec.cast_input(0, rec.out[0].dtype);
}

void vjp_hadamard_transform(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<mlxc_hadamard_transform_params>();
  grads[0] = op::hadamard_transform(vjp.cotangent(), params.scale, !params.transposed);
}

}  // namespace mlxc
