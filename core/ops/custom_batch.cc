// Batches of custom functions: by a rule of the function's own, or by a function of the same kind whose rules
// are those of one example, batched. So a function keeps its vjp in vmap, and vmap of its gradient is the
// gradient of its vmap.
#include <algorithm>

#include "core/ops/common.h"
#include "core/ops/custom_rules.h"
#include "core/vmap.h"

namespace mlxc {

namespace {

// The arrays of a list that are there, each with its place in the list.
struct Present {
  std::vector<size_t> places;
  size_t count;

  explicit Present(std::span<const Array> list) : count(list.size()) {
    for (size_t i = 0; i < list.size(); i++)
      if (list[i]) places.push_back(i);
  }
  std::vector<Array> spread(std::span<const Array> given) const {
    std::vector<Array> list(count);
    for (size_t k = 0; k < places.size(); k++) list[places[k]] = given[k];
    return list;
  }
};

// Calls a rule for each example of the batch. A list is batched where its flags say so, or altogether.
class BatchedCall {
 public:
  void add(std::span<const Array> list, std::span<const uint8_t> batched) {
    for (size_t i = 0; i < list.size(); i++) {
      if (!list[i]) continue;
      inputs_.push_back(list[i]);
      axes_.push_back(batched.empty() || batched[i] ? 0 : MLXC_NOT_BATCHED);
    }
  }
  std::vector<Array> run(const Function& fn) const {
    return vmap(fn, inputs_, axes_, [](size_t n) { return std::vector<int32_t>(n, 0); });
  }

 private:
  std::vector<Array> inputs_;
  std::vector<int32_t> axes_;
};

Array first_axis_sum(const Array& a) { return op::sum(a, make_axes({0}), false); }

// The rules of the function for a whole batch: each calls the rule of one example, batched.
std::shared_ptr<CustomRules> batch_rules(std::shared_ptr<const CustomRules> one,
                                         std::vector<uint8_t> batched) {
  auto rules = std::make_shared<CustomRules>();
  if (one->vjp)
    rules->vjp = [one, batched](std::span<const Array> primals, std::span<const Array> cotangents,
                                std::span<const Array> outputs) {
      const Present given(cotangents);
      const size_t n = primals.size(), m = given.places.size();
      BatchedCall call;
      call.add(primals, batched);
      call.add(cotangents, {});
      call.add(outputs, {});
      std::vector<Array> gradients = call.run([&](std::span<const Array> all) {
        const auto examples = all.first(n);
        std::vector<Array> made = one->vjp(examples, given.spread(all.subspan(n, m)), all.subspan(n + m));
        check_rule_count("vjp", "inputs", made.size(), n);
        for (size_t i = 0; i < n; i++)
          if (!made[i]) made[i] = zeros_like(examples[i]);
        return made;
      });
      for (size_t i = 0; i < n; i++)
        if (!batched[i]) gradients[i] = first_axis_sum(gradients[i]);
      return gradients;
    };
  if (one->jvp)
    rules->jvp = [one, batched](std::span<const Array> primals, std::span<const Array> tangents) {
      const Present given(tangents);
      BatchedCall call;
      call.add(primals, batched);
      call.add(tangents, batched);
      // Null where the rule says zero: then it says so for every example.
      std::vector<size_t> places;
      size_t count = 0;
      const std::vector<Array> made = call.run([&](std::span<const Array> all) {
        const std::vector<Array> list =
            one->jvp(all.first(primals.size()), given.spread(all.subspan(primals.size())));
        const Present there(list);
        places = there.places;
        count = list.size();
        std::vector<Array> kept;
        for (size_t place : places) kept.push_back(list[place]);
        return kept;
      });
      std::vector<Array> list(count);
      for (size_t k = 0; k < places.size(); k++) list[places[k]] = made[k];
      return list;
    };
  return rules;
}

}  // namespace

void vmap_custom(const Vmap& vmap, Array* results) {
  const CustomRules& rules = rules_of(vmap.attachment);
  const size_t n_outputs = vmap.outputs.size(), n_inputs = vmap.inputs.size() - n_outputs;
  const auto inputs = vmap.inputs.first(n_inputs);
  const auto batched = vmap.batched.first(n_inputs);
  if (rules.vmap) {
    std::vector<Array> made = rules.vmap(inputs, batched);
    check_rule_count("vmap", "outputs", made.size(), n_outputs);
    for (size_t i = 0; i < n_outputs; i++) {
      const Array& one = vmap.outputs[i];
      const bool whole = made[i].ndim() == one.ndim() + 1;
      if (made[i].ndim() == one.ndim()) check_rule_shape("vmap", "output", i, made[i], one);
      results[i] = whole ? std::move(made[i]) : repeat_batch(made[i], vmap.size);
    }
    return;
  }
  std::vector<Array> parts;
  for (size_t i = 0; i < n_outputs; i++)
    parts.push_back(vmap.batched[n_inputs + i] ? vmap.inputs[n_inputs + i]
                                               : repeat_batch(vmap.inputs[n_inputs + i], vmap.size));
  const auto one = std::static_pointer_cast<const CustomRules>(vmap.attachment->shared_from_this());
  std::vector<Array> made = record_custom(inputs, parts, batch_rules(one, {batched.begin(), batched.end()}));
  std::move(made.begin(), made.end(), results);
}

}  // namespace mlxc
