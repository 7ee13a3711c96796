// scan: a function of a carry and an element, for each element of the first axes of some arrays. Inputs: the
// first carry, the arrays, what the function reads besides. Outputs: the last carry, the stacked results, and
// the carry before each step, which is filled in only if the reverse sweep of the scan asked for it.
//
// The reverse sweep is a scan in the other direction, whose carry is the cotangent of the carry, and whose
// steps compute the function again from the saved carries.
#include <algorithm>
#include <mutex>

#include "core/control.h"
#include "core/device.h"
#include "core/execute.h"
#include "core/memory.h"
#include "core/ops/batch.h"
#include "core/ops/common.h"
#include "core/schedule.h"
#include "core/tape.h"

namespace mlxc {

namespace {

struct ScanShape {
  size_t n_carry, n_xs;
  int64_t length;
  bool reverse;
};

struct ScanCall : Attachment {
  Branch body;
  ScanShape form;
  mutable std::atomic<bool> saves;  // set before the node is claimed
  ScanCall(Branch b, const ScanShape& f, bool s) : body(std::move(b)), form(f), saves(s) {}
  size_t n_ys() const { return body.program->outputs.size() - form.n_carry; }
};

const ScanCall& call_of(const Attachment* attachment) { return *static_cast<const ScanCall*>(attachment); }

OutSpec stacked(const OutSpec& one, int64_t length) {
  OutSpec all{one.dtype, {}};
  all.shape.push(length);
  for (int i = 0; i < one.shape.n; i++) all.shape.push(one.shape[i]);
  return all;
}

OutSpec element(const OutSpec& all) {
  OutSpec one{all.dtype, {}};
  for (int i = 1; i < all.shape.n; i++) one.shape.push(all.shape[i]);
  return one;
}

std::vector<Array> record_branch(Branch body, std::span<const Array> inputs, const ScanShape& form,
                                 bool saves) {
  const std::vector<OutSpec> made = results_of(body);
  std::vector<OutSpec> outputs(made.begin(), made.begin() + static_cast<ptrdiff_t>(form.n_carry));
  for (size_t i = form.n_carry; i < made.size(); i++) outputs.push_back(stacked(made[i], form.length));
  for (size_t i = 0; i < form.n_carry; i++) outputs.push_back(stacked(made[i], form.length));
  return record_run(MLXC_OP_SCAN, inputs, outputs, std::make_shared<ScanCall>(std::move(body), form, saves));
}

// The function takes one element of each of the xs, and the other inputs as they are.
std::vector<Array> record_scan(const Function& body, std::span<const Array> given, const ScanShape& form,
                               bool saves) {
  std::vector<Array> inputs(given.begin(), given.end());
  std::vector<OutSpec> specs = specs_of(given);
  for (size_t i = form.n_carry; i < form.n_carry + form.n_xs; i++) specs[i] = element(specs[i]);
  Branch branch = make_branch(body, specs, &inputs);
  const std::vector<OutSpec> made = results_of(branch);
  if (made.size() < form.n_carry)
    fail(MLXC_ERROR_VALUE, "scan: the function gives ", made.size(), " arrays, the carry has ", form.n_carry);
  for (size_t i = 0; i < form.n_carry; i++)
    if (!same_spec(made[i], specs[i]))
      fail(made[i].dtype == specs[i].dtype ? MLXC_ERROR_VALUE : MLXC_ERROR_TYPE, "scan: carry ", i, " is ",
           spec_text(specs[i]), ", but the function makes it ", spec_text(made[i]),
           "; it must stay the same");
  if (made.empty()) return {};
  return record_branch(std::move(branch), inputs, form, saves);
}

// Outputs of all steps as one array; `parts` are in the order of the result.
Array stack_steps(std::span<const Array> parts, const MultiResult::Result& like) {
  Array whole;
  if (parts.empty()) {
    whole = zeros(like.shape.span(), like.dtype);
  } else {
    std::vector<Array> rows;
    for (const Array& part : parts) rows.push_back(op::expand_dims(part, make_axes({0})));
    whole = op::concatenate(rows, 0);
  }
  run_all({&whole, 1});
  return whole;
}

// An output that nobody asked for: it shares the first element of something else.
void lay_unused(Node* node, size_t index, const Node& over) {
  lay_result(node, index, over);
  MultiResult::Result& result = node->multi->results[index];
  result.strides = result.shape;
  for (int i = 0; i < result.strides.n; i++) result.strides[i] = 0;
}

// The carries before each step, of a node that has not run yet or of another one like it.
std::vector<Array> saved_carries(const Vjp& rule) {
  const ScanCall& call = call_of(rule.attachment);
  if (call.form.n_carry == 0) return {};
  const size_t first = rule.outputs.size() - call.form.n_carry;
  const Node* node = rule.outputs[0]->inputs_data()[0];
  const std::vector<MultiResult::Result>& results = node->multi->results;
  bool saved;
  {
    // Who claims the node later sees the mark, for that takes the same lock.
    std::lock_guard hold(schedule_lock());
    const uint8_t state = node->state.load();
    if (state == state_pending) call.saves.store(true);
    saved = state == state_pending || (state == state_ready && results[first].buffer != results[0].buffer);
  }
  if (saved) return {rule.outputs.begin() + static_cast<ptrdiff_t>(first), rule.outputs.end()};
  const std::vector<Array> made = record_branch(call.body, rule.inputs, call.form, true);
  return {made.begin() + static_cast<ptrdiff_t>(first), made.end()};
}

// Where the parts of an input list begin.
struct Parts {
  std::vector<size_t> begins{0};
  void add(size_t count) { begins.push_back(begins.back() + count); }
  std::span<const Array> of(std::span<const Array> all, size_t part) const {
    return all.subspan(begins[part], begins[part + 1] - begins[part]);
  }
};

void append(std::vector<Array>* to, std::span<const Array> more) {
  to->insert(to->end(), more.begin(), more.end());
}

std::vector<size_t> wanted_places(const Vjp& rule, size_t first, size_t count) {
  std::vector<size_t> places;
  for (size_t i = first; i < first + count; i++)
    if (rule.wants(static_cast<int>(i)) && is_inexact(rule.inputs[i].dtype())) places.push_back(i);
  return places;
}

}  // namespace

std::vector<Array> scan_loop(const Function& body, std::span<const Array> init, std::span<const Array> xs,
                             int64_t length, bool reverse) {
  if (length < 0) fail(MLXC_ERROR_VALUE, "scan: the length is ", length);
  for (size_t i = 0; i < xs.size(); i++) {
    if (xs[i].ndim() == 0)
      fail(MLXC_ERROR_VALUE, "scan: array ", i, " of xs is a scalar; it needs a first axis");
    if (xs[i].dim(0) != length)
      fail(MLXC_ERROR_VALUE, "scan: the first axis of array ", i, " of xs, of shape ",
           shape_text(xs[i].shape()), ", must have the length of the scan, which is ", length);
  }
  std::vector<Array> inputs(init.begin(), init.end());
  append(&inputs, xs);
  std::vector<Array> made = record_scan(body, inputs, {init.size(), xs.size(), length, reverse}, false);
  if (!made.empty()) made.resize(made.size() - init.size());
  return made;
}

void run_scan_loop(Node* node) {
  const Untraced untraced;
  const StreamScope scope(node->stream);
  const ScanCall& call = call_of(node->multi->attachment.get());
  const size_t n_carry = call.form.n_carry, n_xs = call.form.n_xs;
  const int64_t length = call.form.length;
  const bool reverse = call.form.reverse;
  const size_t n_ys = call.n_ys();
  const bool saves = call.saves.load();
  const std::vector<Array> given = leaves_of(node);
  std::vector<Array> inputs = given;
  std::vector<std::vector<Array>> ys(n_ys, std::vector<Array>(static_cast<size_t>(length)));
  std::vector<std::vector<Array>> saved(n_carry, std::vector<Array>(saves ? static_cast<size_t>(length) : 0));
  for (int64_t step = 0; step < length; step++) {
    check_interrupt();
    const int64_t at = reverse ? length - 1 - step : step;
    for (size_t i = n_carry; i < n_carry + n_xs; i++) inputs[i] = make_leaf_at(*given[i].node(), at);
    if (saves)
      for (size_t i = 0; i < n_carry; i++) saved[i][static_cast<size_t>(at)] = inputs[i];
    std::vector<Array> made = call.body.run(inputs);
    for (size_t i = 0; i < n_carry; i++) inputs[i] = std::move(made[i]);
    for (size_t i = 0; i < n_ys; i++) ys[i][static_cast<size_t>(at)] = std::move(made[n_carry + i]);
  }
  std::vector<MultiResult::Result>& results = node->multi->results;
  for (size_t i = 0; i < n_carry; i++) lay_result(node, i, *inputs[i].node());
  for (size_t i = 0; i < n_ys; i++)
    lay_result(node, n_carry + i, *stack_steps(ys[i], results[n_carry + i]).node());
  for (size_t i = 0; i < n_carry; i++) {
    const size_t place = n_carry + n_ys + i;
    if (saves)
      lay_result(node, place, *stack_steps(saved[i], results[place]).node());
    else
      lay_unused(node, place, *inputs[i].node());
  }
}

void vjp_scan_loop(const Vjp& rule, Array* grads) {
  const ScanCall& call = call_of(rule.attachment);
  const size_t n_carry = call.form.n_carry, n_xs = call.form.n_xs;
  const int64_t length = call.form.length;
  const bool reverse = call.form.reverse;
  const size_t n_ys = call.n_ys(), n_step = n_carry + n_xs, n = rule.inputs.size();
  std::vector<size_t> moving;  // carries that have a cotangent
  for (size_t i = 0; i < n_carry; i++)
    if (is_inexact(rule.inputs[i].dtype())) moving.push_back(i);
  const std::vector<size_t> wanted_xs = wanted_places(rule, n_carry, n_xs);
  const std::vector<size_t> wanted_rest = wanted_places(rule, n_step, n - n_step);
  const std::vector<size_t> seeded_ys = find_tangents(rule.cotangents.subspan(n_carry, n_ys));
  const std::vector<size_t> seeded_saved = find_tangents(rule.cotangents.subspan(n_carry + n_ys));

  // Carry: cotangents of the carry, sums for what is the same in each step. Elements: the forward step's, and
  // cotangents of its results. Then what the function reads.
  Parts parts;
  std::vector<Array> inputs;
  for (size_t i : moving)
    inputs.push_back(rule.cotangents[i] ? rule.cotangents[i] : zeros_like(rule.outputs[i]));
  parts.add(moving.size());
  for (size_t i : wanted_rest) inputs.push_back(zeros_like(rule.inputs[i]));
  parts.add(wanted_rest.size());
  append(&inputs, saved_carries(rule));
  append(&inputs, rule.inputs.subspan(n_carry, n_xs));
  parts.add(n_step);
  append(&inputs, pick(rule.cotangents.subspan(n_carry, n_ys), seeded_ys));
  parts.add(seeded_ys.size());
  append(&inputs, pick(rule.cotangents.subspan(n_carry + n_ys), seeded_saved));
  parts.add(seeded_saved.size());
  append(&inputs, rule.inputs.subspan(n_step));
  parts.add(n - n_step);

  std::vector<size_t> places = moving;  // what the step is differentiated by
  places.insert(places.end(), wanted_xs.begin(), wanted_xs.end());
  places.insert(places.end(), wanted_rest.begin(), wanted_rest.end());
  auto step = [&](std::span<const Array> all) {
    std::vector<Array> given;
    append(&given, parts.of(all, 2));
    append(&given, parts.of(all, 5));
    std::vector<Array> gradients =
        vjp([&](std::span<const Array> primals) { return call.body.replay(replace(given, places, primals)); },
            pick(given, places),
            [&](std::span<const Array>) {
              std::vector<Array> seeds =
                  replace(std::vector<Array>(n_carry + n_ys), moving, parts.of(all, 0));
              for (size_t k = 0; k < seeded_ys.size(); k++)
                seeds[n_carry + seeded_ys[k]] = parts.of(all, 3)[k];
              return seeds;
            })
            .results;
    std::vector<Array> made(gradients.begin(), gradients.begin() + static_cast<ptrdiff_t>(moving.size()));
    for (size_t k = 0; k < seeded_saved.size(); k++) {
      const auto at = std::find(moving.begin(), moving.end(), seeded_saved[k]) - moving.begin();
      made[static_cast<size_t>(at)] = op::add(made[static_cast<size_t>(at)], parts.of(all, 4)[k]);
    }
    const size_t first_rest = moving.size() + wanted_xs.size();
    for (size_t k = 0; k < wanted_rest.size(); k++)
      made.push_back(op::add(parts.of(all, 1)[k], gradients[first_rest + k]));
    for (size_t k = 0; k < wanted_xs.size(); k++) made.push_back(gradients[moving.size() + k]);
    return made;
  };
  const ScanShape form{moving.size() + wanted_rest.size(), n_step + seeded_ys.size() + seeded_saved.size(),
                       length, !reverse};
  const std::vector<Array> made = record_scan(step, inputs, form, false);
  for (size_t k = 0; k < moving.size(); k++) grads[moving[k]] = made[k];
  for (size_t k = 0; k < wanted_rest.size(); k++) grads[wanted_rest[k]] = made[moving.size() + k];
  for (size_t k = 0; k < wanted_xs.size(); k++) grads[wanted_xs[k]] = made[form.n_carry + k];
}

void jvp_scan_loop(const Jvp& rule, Array* out_tangents) {
  const ScanCall& call = call_of(rule.attachment);
  const size_t n_carry = call.form.n_carry, n_xs = call.form.n_xs;
  const int64_t length = call.form.length;
  const bool reverse = call.form.reverse;
  const size_t n_ys = call.n_ys(), n_step = n_carry + n_xs, n = rule.inputs.size();
  std::vector<size_t> moving, moving_ys, along_xs, along_rest;
  for (size_t i = 0; i < n_carry; i++)
    if (is_inexact(rule.inputs[i].dtype())) moving.push_back(i);
  for (size_t i = 0; i < n_ys; i++)
    if (is_inexact(rule.outputs[n_carry + i].dtype())) moving_ys.push_back(i);
  for (size_t i : find_tangents(rule.tangents)) {
    if (i >= n_carry) (i < n_step ? along_xs : along_rest).push_back(i);
  }
  // Carry and its tangents; elements and their tangents; the rest and its tangents.
  Parts parts;
  std::vector<Array> inputs;
  append(&inputs, rule.inputs.first(n_carry));
  parts.add(n_carry);
  for (size_t i : moving) inputs.push_back(rule.tangents[i] ? rule.tangents[i] : zeros_like(rule.inputs[i]));
  parts.add(moving.size());
  append(&inputs, rule.inputs.subspan(n_carry, n_xs));
  parts.add(n_xs);
  append(&inputs, pick(rule.tangents, along_xs));
  parts.add(along_xs.size());
  append(&inputs, rule.inputs.subspan(n_step));
  parts.add(n - n_step);
  append(&inputs, pick(rule.tangents, along_rest));
  parts.add(along_rest.size());

  std::vector<size_t> places = moving;
  places.insert(places.end(), along_xs.begin(), along_xs.end());
  places.insert(places.end(), along_rest.begin(), along_rest.end());
  auto step = [&](std::span<const Array> all) {
    std::vector<Array> given, tangents;
    for (size_t part : {0, 2, 4}) append(&given, parts.of(all, part));
    for (size_t part : {1, 3, 5}) append(&tangents, parts.of(all, part));
    const Differentiated made =
        jvp([&](std::span<const Array> primals) { return call.body.replay(replace(given, places, primals)); },
            pick(given, places), tangents);
    std::vector<Array> next(made.outputs.begin(), made.outputs.begin() + static_cast<ptrdiff_t>(n_carry));
    append(&next, pick(made.results, moving));
    for (size_t i : moving_ys) next.push_back(made.results[n_carry + i]);
    return next;
  };
  const ScanShape form{n_carry + moving.size(), n_xs + along_xs.size(), length, reverse};
  const bool saves = call.saves.load();
  const std::vector<Array> made = record_scan(step, inputs, form, saves);
  for (size_t k = 0; k < moving.size(); k++) out_tangents[moving[k]] = made[n_carry + k];
  for (size_t k = 0; k < moving_ys.size(); k++) out_tangents[n_carry + moving_ys[k]] = made[form.n_carry + k];
  if (!saves) return;
  const size_t first = form.n_carry + moving_ys.size() + n_carry;
  for (size_t k = 0; k < moving.size(); k++) out_tangents[n_carry + n_ys + moving[k]] = made[first + k];
}

void vmap_scan_loop(const Vmap& rule, Array* results) {
  const ScanCall& call = call_of(rule.attachment);
  const size_t n_carry = call.form.n_carry, n_step = n_carry + call.form.n_xs;
  std::vector<Array> inputs(rule.inputs.begin(), rule.inputs.end());
  std::vector<uint8_t> batched(rule.batched.begin(), rule.batched.end());
  for (size_t i = 0; i < n_carry; i++) {
    if (!batched[i]) inputs[i] = repeat_batch(inputs[i], rule.size);
    batched[i] = 1;
  }
  for (size_t i = n_carry; i < n_step; i++)
    if (batched[i]) inputs[i] = move_axis(inputs[i], 0, 1);
  auto step = [&](std::span<const Array> all) {
    return map_batch([&](std::span<const Array> one) { return call.body.replay(one); }, all, batched,
                     rule.size);
  };
  const std::vector<Array> made = record_scan(step, inputs, call.form, call.saves.load());
  for (size_t i = 0; i < made.size(); i++) results[i] = i < n_carry ? made[i] : move_axis(made[i], 0, 1);
}

}  // namespace mlxc
