// Decompositions of the comparisons and logical ops, which have no gradient and share the element-wise shape
// rule. The table of ops points here.
#include "core/ops/common.h"

namespace mlxc {

void decompose_not_equal(const Decomposition& whole, Array* results) {
  results[0] = op::logical_not(op::equal(whole.inputs[0], whole.inputs[1]));
}

void decompose_greater(const Decomposition& whole, Array* results) {
  results[0] = op::less(whole.inputs[1], whole.inputs[0]);
}

void decompose_greater_equal(const Decomposition& whole, Array* results) {
  results[0] = op::less_equal(whole.inputs[1], whole.inputs[0]);
}

void decompose_logical_xor(const Decomposition& whole, Array* results) {
  results[0] = op::not_equal(cast_to(whole.inputs[0], MLXC_BOOL), cast_to(whole.inputs[1], MLXC_BOOL));
}

}  // namespace mlxc
