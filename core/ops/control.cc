// What the rules of cond, while_loop and scan share; see core/control.h.
#include "core/control.h"

#include <algorithm>

#include "core/device.h"
#include "core/execute.h"
#include "core/memory.h"
#include "core/ops/common.h"
#include "core/schedule.h"
#include "core/tape.h"
#include "core/value.h"
#include "core/vmap.h"

namespace mlxc {

namespace {

// The same program with its constants as further inputs: slots are numbered inputs first, then constants, so
// nothing else changes.
ProgramPtr lift_constants(const Program& program) {
  auto lifted = std::make_shared<Program>();
  lifted->n_inputs = program.first_made();
  lifted->slots = program.slots;
  lifted->steps = program.steps;
  lifted->step_inputs = program.step_inputs;
  lifted->params = program.params;
  lifted->outputs = program.outputs;
  lifted->list_results();
  return lifted;
}

std::vector<Array> select(std::span<const Array> inputs, std::span<const uint32_t> takes) {
  std::vector<Array> chosen;
  for (uint32_t place : takes) chosen.push_back(inputs[place]);
  return chosen;
}

Array make_leaf_like(const Node& node, int first_axis) {
  const int ndim = node.ndim - first_axis;
  Array leaf = Array::adopt(make_node(ndim, 0, 0));
  leaf->dtype = node.dtype;
  leaf->stream = node.stream;
  leaf->offset = node.offset;
  leaf->size = 1;
  for (int i = 0; i < ndim; i++) {
    leaf->shape_data()[i] = node.shape_data()[i + first_axis];
    leaf->strides_data()[i] = node.strides_data()[i + first_axis];
    leaf->size *= leaf->shape_data()[i];
  }
  retain_buffer(node.buffer);
  leaf->buffer = node.buffer;
  leaf->state.store(state_ready, std::memory_order_release);
  return leaf;
}

}  // namespace

std::vector<Array> Branch::replay(std::span<const Array> inputs) const {
  return replay_program(*program, select(inputs, takes));
}

std::vector<Array> Branch::run(std::span<const Array> inputs) const {
  std::vector<Array> results = call_program(program, select(inputs, takes));
  run_all(results);
  return results;
}

Branch make_branch(const Function& fn, std::span<const OutSpec> specs, std::vector<Array>* inputs) {
  const ProgramPtr traced = trace_program(fn, specs, false);
  Branch branch{lift_constants(*traced), {}};
  for (uint32_t i = 0; i < specs.size(); i++) branch.takes.push_back(i);
  for (const Array& constant : traced->constants) {
    branch.takes.push_back(static_cast<uint32_t>(inputs->size()));
    inputs->push_back(constant);
  }
  return branch;
}

OutSpec spec_of(const Array& array) { return {array.dtype(), array.dims()}; }

std::vector<OutSpec> specs_of(std::span<const Array> arrays) {
  std::vector<OutSpec> specs;
  for (const Array& array : arrays) specs.push_back(spec_of(array));
  return specs;
}

std::vector<OutSpec> results_of(const Branch& branch) {
  std::vector<OutSpec> specs;
  for (uint32_t slot : branch.program->outputs)
    specs.push_back({branch.program->slots[slot].dtype, branch.program->slots[slot].shape});
  return specs;
}

std::string spec_text(const OutSpec& spec) { return cat(dtype_name(spec.dtype), shape_text(spec.shape)); }

bool same_spec(const OutSpec& a, const OutSpec& b) { return a.dtype == b.dtype && a.shape == b.shape; }

Array make_leaf(const Node& node) { return make_leaf_like(node, 0); }

Array make_leaf_at(const Node& node, int64_t index) {
  Array leaf = make_leaf_like(node, 1);
  leaf->offset += index * node.strides_data()[0] * dtype_size(node.dtype);
  return leaf;
}

std::vector<Array> leaves_of(Node* node) {
  std::vector<Array> leaves;
  for (uint32_t i = 0; i < node->n_inputs; i++) leaves.push_back(make_leaf(*node->inputs_data()[i]));
  return leaves;
}

void run_all(std::span<const Array> arrays) {
  for (const Array& array : arrays)
    if (array->state.load(std::memory_order_acquire) != state_ready) run_nested(array.node());
}

bool read_truth(const Array& scalar) {
  const Array roots[] = {scalar};
  run_all(roots);
  const Value value = load_value(host_data(scalar.node()), scalar.dtype());
  return value.kind == Value::integer || value.kind == Value::unsigned_integer
             ? value.u != 0
             : value.re != 0 || value.im != 0;
}

std::vector<Array> map_batch(const Function& fn, std::span<const Array> inputs,
                             std::span<const uint8_t> batched, int64_t size) {
  std::vector<int32_t> axes;
  for (uint8_t is_batched : batched) axes.push_back(is_batched ? 0 : MLXC_NOT_BATCHED);
  if (std::none_of(batched.begin(), batched.end(), [](uint8_t b) { return b != 0; })) {
    std::vector<Array> results = fn(inputs);
    for (Array& result : results) result = repeat_batch(result, size);
    return results;
  }
  return vmap(fn, inputs, axes, [](size_t n) { return std::vector<int32_t>(n, 0); });
}

Array choose(const Array& truths, const Array& when_true, const Array& when_false) {
  Sizes shape{};
  shape.count = when_true.ndim();
  for (int i = 0; i < when_true.ndim(); i++) shape.items[i] = i == 0 ? truths.dim(0) : 1;
  return op::where(op::reshape(truths, shape), when_true, when_false);
}

std::vector<size_t> find_tangents(std::span<const Array> arrays) {
  std::vector<size_t> places;
  for (size_t i = 0; i < arrays.size(); i++)
    if (arrays[i] && is_inexact(arrays[i].dtype())) places.push_back(i);
  return places;
}

std::vector<Array> replace(std::span<const Array> arrays, std::span<const size_t> places,
                           std::span<const Array> by) {
  std::vector<Array> list(arrays.begin(), arrays.end());
  for (size_t k = 0; k < places.size(); k++) list[places[k]] = by[k];
  return list;
}

std::vector<Array> pick(std::span<const Array> arrays, std::span<const size_t> places) {
  std::vector<Array> list;
  for (size_t place : places) list.push_back(arrays[place]);
  return list;
}

}  // namespace mlxc
