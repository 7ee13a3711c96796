// cond: one of two functions, chosen when the node runs. Inputs: the predicate, the operands, what the
// functions read besides. Its derivatives are cond of the functions' derivatives, with the same predicate.
#include <algorithm>

#include "core/control.h"
#include "core/execute.h"
#include "core/memory.h"
#include "core/ops/common.h"
#include "core/tape.h"

namespace mlxc {

namespace {

struct CondCall : Attachment {
  Branch when_true, when_false;
  CondCall(Branch a, Branch b) : when_true(std::move(a)), when_false(std::move(b)) {}
};

const CondCall& call_of(const Attachment* attachment) { return *static_cast<const CondCall*>(attachment); }

void check_same(const std::vector<OutSpec>& a, const std::vector<OutSpec>& b) {
  if (a.size() != b.size())
    fail(MLXC_ERROR_VALUE, "cond: true_fun gives ", a.size(), " arrays, false_fun gives ", b.size());
  for (size_t i = 0; i < a.size(); i++) {
    if (same_spec(a[i], b[i])) continue;
    fail(a[i].dtype == b[i].dtype ? MLXC_ERROR_VALUE : MLXC_ERROR_TYPE, "cond: output ", i, " is ",
         spec_text(a[i]), " from true_fun and ", spec_text(b[i]), " from false_fun; they must be the same");
  }
}

// `operands` are what both functions take; each may read more.
std::vector<Array> record_cond(const Array& pred, const Function& when_true, const Function& when_false,
                               std::span<const Array> operands) {
  std::vector<Array> inputs(operands.begin(), operands.end());
  const std::vector<OutSpec> specs = specs_of(operands);
  Branch a = make_branch(when_true, specs, &inputs);
  Branch b = make_branch(when_false, specs, &inputs);
  const std::vector<OutSpec> results = results_of(a);
  check_same(results, results_of(b));
  if (results.empty()) return {};
  inputs.insert(inputs.begin(), pred);
  return record_run(MLXC_OP_COND, inputs, results, std::make_shared<CondCall>(std::move(a), std::move(b)));
}

}  // namespace

std::vector<Array> cond(const Array& pred, const Function& when_true, const Function& when_false,
                        std::span<const Array> operands) {
  if (pred.ndim() != 0)
    fail(MLXC_ERROR_VALUE, "cond: the predicate must be a scalar, its shape is ", shape_text(pred.shape()));
  return record_cond(cast_to(pred, MLXC_BOOL), when_true, when_false, operands);
}

void run_cond(Node* node) {
  const Untraced untraced;
  const StreamScope scope(node->stream);
  const CondCall& call = call_of(node->multi->attachment.get());
  const std::vector<Array> inputs = leaves_of(node);
  const Branch& taken = read_truth(inputs[0]) ? call.when_true : call.when_false;
  const std::vector<Array> results = taken.run(std::span(inputs).subspan(1));
  for (size_t i = 0; i < results.size(); i++) lay_result(node, i, *results[i].node());
}

void vjp_cond(const Vjp& rule, Array* grads) {
  const CondCall& call = call_of(rule.attachment);
  const auto operands = rule.inputs.subspan(1);
  std::vector<size_t> wanted, seeded;
  for (size_t i = 0; i < operands.size(); i++)
    if (rule.wants(static_cast<int>(i + 1)) && is_inexact(operands[i].dtype())) wanted.push_back(i);
  for (size_t i = 0; i < rule.cotangents.size(); i++)
    if (rule.cotangents[i]) seeded.push_back(i);
  if (wanted.empty()) return;
  const size_t n = operands.size(), n_results = rule.outputs.size();
  auto backward = [&](const Branch& branch) {
    return [&](std::span<const Array> all) {
      const auto given = all.first(n);
      return vjp(
                 [&](std::span<const Array> primals) {
                   return branch.replay(replace(given, wanted, primals));
                 },
                 pick(given, wanted),
                 [&](std::span<const Array>) {
                   return replace(std::vector<Array>(n_results), seeded, all.subspan(n));
                 })
          .results;
    };
  };
  std::vector<Array> inputs(operands.begin(), operands.end());
  for (size_t place : seeded) inputs.push_back(rule.cotangents[place]);
  std::vector<Array> made =
      record_cond(rule.inputs[0], backward(call.when_true), backward(call.when_false), inputs);
  for (size_t k = 0; k < wanted.size(); k++) grads[wanted[k] + 1] = std::move(made[k]);
}

void jvp_cond(const Jvp& rule, Array* out_tangents) {
  const CondCall& call = call_of(rule.attachment);
  const auto operands = rule.inputs.subspan(1), tangents = rule.tangents.subspan(1);
  const std::vector<size_t> along = find_tangents(tangents);
  std::vector<size_t> moving;
  for (size_t i = 0; i < rule.outputs.size(); i++)
    if (is_inexact(rule.outputs[i].dtype())) moving.push_back(i);
  if (along.empty() || moving.empty()) return;
  const size_t n = operands.size();
  auto forward = [&](const Branch& branch) {
    return [&](std::span<const Array> all) {
      const auto given = all.first(n);
      const Differentiated made =
          jvp([&](std::span<const Array> primals) { return branch.replay(replace(given, along, primals)); },
              pick(given, along), all.subspan(n));
      return pick(made.results, moving);
    };
  };
  std::vector<Array> inputs(operands.begin(), operands.end());
  for (size_t place : along) inputs.push_back(tangents[place]);
  std::vector<Array> made =
      record_cond(rule.inputs[0], forward(call.when_true), forward(call.when_false), inputs);
  for (size_t k = 0; k < moving.size(); k++) out_tangents[moving[k]] = std::move(made[k]);
}

void vmap_cond(const Vmap& rule, Array* results) {
  const CondCall& call = call_of(rule.attachment);
  const auto operands = rule.inputs.subspan(1);
  const auto batched = rule.batched.subspan(1);
  auto whole = [&](const Branch& branch) {
    return [&](std::span<const Array> all) {
      return map_batch([&](std::span<const Array> one) { return branch.replay(one); }, all, batched,
                       rule.size);
    };
  };
  std::vector<Array> made;
  if (!rule.batched[0]) {
    made = record_cond(rule.inputs[0], whole(call.when_true), whole(call.when_false), operands);
  } else {
    const std::vector<Array> a = whole(call.when_true)(operands), b = whole(call.when_false)(operands);
    for (size_t i = 0; i < a.size(); i++) made.push_back(choose(rule.inputs[0], a[i], b[i]));
  }
  std::move(made.begin(), made.end(), results);
}

}  // namespace mlxc
