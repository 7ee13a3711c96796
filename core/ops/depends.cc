// depends: arrays that are computed only once others are. The core runs it: each output shares the values of
// the input of its index, and inputs without an output are waited for and otherwise unused.
#include "core/ops/depends.h"

#include "core/execute.h"
#include "core/ops/common.h"

namespace mlxc {

std::vector<Array> depends(std::span<const Array> inputs, std::span<const Array> dependencies) {
  if (inputs.empty()) return {};
  std::vector<Array> all(inputs.begin(), inputs.end());
  all.insert(all.end(), dependencies.begin(), dependencies.end());
  std::vector<OutSpec> outputs;
  for (const Array& input : inputs) outputs.push_back({input.dtype(), input.dims()});
  return record_run(MLXC_OP_DEPENDS, all, outputs, nullptr);
}

void run_depends(Node* node) {
  for (size_t i = 0; i < node->multi->results.size(); i++) lay_result(node, i, *node->inputs_data()[i]);
}

void vjp_depends(const Vjp& vjp, Array* grads) {
  for (size_t i = 0; i < vjp.outputs.size(); i++) grads[i] = vjp.cotangents[i];
}

void jvp_depends(const Jvp& jvp, Array* out_tangents) {
  for (size_t i = 0; i < jvp.outputs.size(); i++) out_tangents[i] = jvp.tangents[i];
}

void vmap_depends(const Vmap& vmap, Array* results) {
  const size_t n = vmap.outputs.size();
  const std::vector<Array> made = depends(vmap.inputs.subspan(0, n), vmap.inputs.subspan(n));
  for (size_t i = 0; i < n; i++) results[i] = vmap.batched[i] ? made[i] : repeat_batch(made[i], vmap.size);
}

}  // namespace mlxc
