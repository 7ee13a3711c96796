// custom: the results of a function that has rules of its own. The inputs are the function's, then its
// results as it recorded them; the outputs share the values of the latter. A transform without a rule of its
// own goes on to them, so it differentiates what was recorded; one that has a rule is cut off there.
#include "core/custom.h"

#include <algorithm>

#include "core/execute.h"
#include "core/memory.h"
#include "core/ops/common.h"
#include "core/ops/custom_rules.h"
#include "core/tape.h"

namespace mlxc {

void check_rule_count(const char* rule, const char* what, size_t given, size_t needed) {
  if (given != needed)
    fail(MLXC_ERROR_VALUE, "custom function: its ", rule, " gave ", given, " arrays for ", needed, " ", what);
}

void check_rule_shape(const char* rule, const char* what, size_t i, const Array& given, const Array& like) {
  if (given && !same_shape(given, like))
    fail(MLXC_ERROR_VALUE, "custom function: its ", rule, " gave shape ", shape_text(given.shape()), " for ",
         what, " ", i, " of shape ", shape_text(like.shape()));
}

std::vector<Array> record_custom(std::span<const Array> inputs, std::span<const Array> results,
                                 std::shared_ptr<Attachment> rules) {
  std::vector<Array> all(inputs.begin(), inputs.end());
  all.insert(all.end(), results.begin(), results.end());
  std::vector<OutSpec> specs;
  for (const Array& result : results) specs.push_back({result.dtype(), result.dims()});
  return record_run(MLXC_OP_CUSTOM, all, specs, std::move(rules));
}

std::vector<Array> call_custom(const Function& forward, std::shared_ptr<CustomRules> rules,
                               std::span<const Array> inputs) {
  std::vector<Array> results = forward(inputs);
  auto traced = [](const Array& a) { return a->traced.load(std::memory_order_relaxed) != 0; };
  const bool followed = std::any_of(inputs.begin(), inputs.end(), traced) ||
                        std::any_of(results.begin(), results.end(), traced);
  if (results.empty() || !followed) return results;
  return record_custom(inputs, results, std::move(rules));
}

void run_custom(Node* node) {
  const size_t n_outputs = node->multi->results.size(), n_inputs = node->n_inputs - n_outputs;
  for (size_t i = 0; i < n_outputs; i++) lay_result(node, i, *node->inputs_data()[n_inputs + i]);
}

void vjp_custom(const Vjp& vjp, Array* grads) {
  const CustomRules& rules = rules_of(vjp.attachment);
  const size_t n_outputs = vjp.outputs.size(), n_inputs = vjp.inputs.size() - n_outputs;
  if (!rules.vjp) {
    for (size_t i = 0; i < n_outputs; i++) grads[n_inputs + i] = vjp.cotangents[i];
    return;
  }
  const auto primals = vjp.inputs.first(n_inputs);
  std::vector<Array> made = rules.vjp(primals, vjp.cotangents, vjp.outputs);
  check_rule_count("vjp", "inputs", made.size(), n_inputs);
  for (size_t i = 0; i < n_inputs; i++) {
    check_rule_shape("vjp", "input", i, made[i], primals[i]);
    if (vjp.wants(static_cast<int>(i))) grads[i] = std::move(made[i]);
  }
}

void jvp_custom(const Jvp& jvp, Array* out_tangents) {
  const CustomRules& rules = rules_of(jvp.attachment);
  const size_t n_outputs = jvp.outputs.size(), n_inputs = jvp.inputs.size() - n_outputs;
  const auto tangents = jvp.tangents.first(n_inputs);
  if (!rules.jvp) {
    for (size_t i = 0; i < n_outputs; i++) out_tangents[i] = jvp.tangents[n_inputs + i];
    return;
  }
  if (std::none_of(tangents.begin(), tangents.end(), [](const Array& t) { return static_cast<bool>(t); }))
    return;
  std::vector<Array> made = rules.jvp(jvp.inputs.first(n_inputs), tangents);
  check_rule_count("jvp", "outputs", made.size(), n_outputs);
  for (size_t i = 0; i < n_outputs; i++) {
    check_rule_shape("jvp", "output", i, made[i], jvp.outputs[i]);
    out_tangents[i] = std::move(made[i]);
  }
}

}  // namespace mlxc
