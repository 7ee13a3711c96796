// while_loop: a function of a carry, again and again as long as another one says so. Inputs: the first carry,
// what the functions read besides. The number of steps is known only when the node has run, so there is no
// reverse sweep.
#include <algorithm>

#include "core/control.h"
#include "core/device.h"
#include "core/execute.h"
#include "core/memory.h"
#include "core/ops/common.h"
#include "core/tape.h"

namespace mlxc {

namespace {

struct WhileCall : Attachment {
  Branch condition, body;
  WhileCall(Branch a, Branch b) : condition(std::move(a)), body(std::move(b)) {}
};

const WhileCall& call_of(const Attachment* attachment) { return *static_cast<const WhileCall*>(attachment); }

// The functions take `inputs`, of which the first `n_carry` are the carry.
std::vector<Array> record_while(const Function& condition, const Function& body, std::span<const Array> given,
                                size_t n_carry) {
  std::vector<Array> inputs(given.begin(), given.end());
  const std::vector<OutSpec> specs = specs_of(given);
  Branch a = make_branch(condition, specs, &inputs);
  Branch b = make_branch(body, specs, &inputs);
  const std::vector<OutSpec> truth = results_of(a), next = results_of(b);
  if (truth.size() != 1 || truth[0].shape.n != 0)
    fail(MLXC_ERROR_VALUE, "while_loop: cond_fun must give one scalar, it gives ",
         truth.size() == 1 ? spec_text(truth[0]) : cat(truth.size(), " arrays"));
  if (next.size() != n_carry)
    fail(MLXC_ERROR_VALUE, "while_loop: body_fun gives ", next.size(), " arrays, the carry has ", n_carry);
  for (size_t i = 0; i < n_carry; i++)
    if (!same_spec(next[i], specs[i]))
      fail(next[i].dtype == specs[i].dtype ? MLXC_ERROR_VALUE : MLXC_ERROR_TYPE, "while_loop: carry ", i,
           " is ", spec_text(specs[i]), ", but body_fun makes it ", spec_text(next[i]),
           "; it must stay the same");
  return record_run(MLXC_OP_WHILE_LOOP, inputs, std::span(specs).first(n_carry),
                    std::make_shared<WhileCall>(std::move(a), std::move(b)));
}

}  // namespace

std::vector<Array> while_loop(const Function& condition, const Function& body, std::span<const Array> init) {
  if (init.empty()) fail(MLXC_ERROR_VALUE, "while_loop: the carry has no array");
  return record_while(condition, body, init, init.size());
}

void run_while_loop(Node* node) {
  const Untraced untraced;
  const StreamScope scope(node->stream);
  const WhileCall& call = call_of(node->multi->attachment.get());
  std::vector<Array> inputs = leaves_of(node);
  while (read_truth(call.condition.run(inputs)[0])) {
    check_interrupt();
    std::vector<Array> next = call.body.run(inputs);
    std::move(next.begin(), next.end(), inputs.begin());
  }
  for (size_t i = 0; i < node->multi->results.size(); i++) lay_result(node, i, *inputs[i].node());
}

void vjp_while_loop(const Vjp&, Array*) {
  fail(MLXC_ERROR_VALUE,
       "while_loop: it has no gradient in reverse mode, because the number of its steps is not known before "
       "it "
       "runs; use jvp, or scan, whose number of steps is fixed");
}

void jvp_while_loop(const Jvp& rule, Array* out_tangents) {
  const WhileCall& call = call_of(rule.attachment);
  const size_t n_carry = rule.outputs.size(), n = rule.inputs.size();
  // The carry's tangents travel with it; one that is not there begins as zero.
  std::vector<size_t> moving;
  for (size_t i = 0; i < n_carry; i++)
    if (is_inexact(rule.inputs[i].dtype())) moving.push_back(i);
  std::vector<size_t> along = moving;
  for (size_t place : find_tangents(rule.tangents))
    if (place >= n_carry) along.push_back(place);
  if (moving.empty()) return;
  const size_t n_moving = moving.size();
  // New order: carry, its tangents, everything else, the other tangents.
  std::vector<Array> inputs(rule.inputs.begin(), rule.inputs.begin() + static_cast<ptrdiff_t>(n_carry));
  for (size_t place : moving)
    inputs.push_back(rule.tangents[place] ? rule.tangents[place] : zeros_like(rule.inputs[place]));
  inputs.insert(inputs.end(), rule.inputs.begin() + static_cast<ptrdiff_t>(n_carry), rule.inputs.end());
  for (size_t k = n_moving; k < along.size(); k++) inputs.push_back(rule.tangents[along[k]]);
  auto primals_of = [=](std::span<const Array> all) {
    std::vector<Array> primals(all.begin(), all.begin() + static_cast<ptrdiff_t>(n_carry));
    const auto rest = all.subspan(n_carry + n_moving, n - n_carry);
    primals.insert(primals.end(), rest.begin(), rest.end());
    return primals;
  };
  auto body = [&](std::span<const Array> all) {
    const std::vector<Array> primals = primals_of(all);
    std::vector<Array> tangents(all.begin() + static_cast<ptrdiff_t>(n_carry),
                                all.begin() + static_cast<ptrdiff_t>(n_carry + n_moving));
    const auto others = all.subspan(n + n_moving);
    tangents.insert(tangents.end(), others.begin(), others.end());
    Differentiated made =
        jvp([&](std::span<const Array> some) { return call.body.replay(replace(primals, along, some)); },
            pick(primals, along), tangents);
    std::vector<Array> next = std::move(made.outputs);
    for (size_t place : moving) next.push_back(made.results[place]);
    return next;
  };
  auto condition = [&](std::span<const Array> all) { return call.condition.replay(primals_of(all)); };
  std::vector<Array> made = record_while(condition, body, inputs, n_carry + n_moving);
  for (size_t k = 0; k < n_moving; k++) out_tangents[moving[k]] = std::move(made[n_carry + k]);
}

// The loop goes on while any example does; those that are done keep their carry.
void vmap_while_loop(const Vmap& rule, Array* results) {
  const WhileCall& call = call_of(rule.attachment);
  const size_t n_carry = rule.outputs.size();
  std::vector<Array> inputs(rule.inputs.begin(), rule.inputs.end());
  std::vector<uint8_t> batched(rule.batched.begin(), rule.batched.end());
  for (size_t i = 0; i < n_carry; i++) {
    if (!batched[i]) inputs[i] = repeat_batch(inputs[i], rule.size);
    batched[i] = 1;
  }
  auto truths = [&](std::span<const Array> all) {
    return cast_to(map_batch([&](std::span<const Array> one) { return call.condition.replay(one); }, all,
                             batched, rule.size)[0],
                   MLXC_BOOL);
  };
  auto condition = [&](std::span<const Array> all) {
    return std::vector<Array>{op::any(truths(all), make_axes({0}), false)};
  };
  auto body = [&](std::span<const Array> all) {
    std::vector<Array> next =
        map_batch([&](std::span<const Array> one) { return call.body.replay(one); }, all, batched, rule.size);
    const Array going = truths(all);
    for (size_t i = 0; i < n_carry; i++) next[i] = choose(going, next[i], all[i]);
    return next;
  };
  std::vector<Array> made = record_while(condition, body, inputs, n_carry);
  std::move(made.begin(), made.end(), results);
}

}  // namespace mlxc
