// Implements the running of a program on a frame (program_frame.h).
#include "core/program_frame.h"

#include <cstring>

#include "core/device.h"
#include "core/execute.h"
#include "core/memory.h"
#include "core/tape.h"

namespace mlxc {

namespace {

Node* make_slot(const Program::Slot& slot, int n_inputs, uint32_t params_size) {
  Node* node = make_node(slot.shape.n, n_inputs, params_size);
  node->dtype = static_cast<uint8_t>(slot.dtype);
  node->size = 1;
  for (int i = 0; i < slot.shape.n; i++) {
    node->shape_data()[i] = slot.shape[i];
    node->strides_data()[i] = 0;
    node->size *= slot.shape[i];
  }
  for (int i = 0; i < n_inputs; i++) node->inputs_data()[i] = nullptr;
  node->state.store(state_ready, std::memory_order_relaxed);  // as whoever reads it during a run must find it
  return node;
}

void drop_buffer(Node* node) noexcept {
  if (node->buffer) release_buffer(std::exchange(node->buffer, nullptr));
}

}  // namespace

Frame::Frame(const Program& program, std::shared_ptr<const Plan> plan)
    : program_(program), plan_(std::move(plan)), slots_(program.slots.size()), uses_(program.slots.size()) {
  for (const Plan::Unit& unit : plan_->units)
    for (uint32_t slot : unit.inputs) uses_[slot]++;
  for (uint32_t slot : program.outputs) uses_[slot]++;
  for (uint32_t i = 0; i < program.first_made(); i++) slots_[i] = make_slot(program.slots[i], 0, 0);
  for (uint32_t i = program.n_inputs; i < program.first_made(); i++) uses_[i]++;  // constants stay
  for (const Plan::Unit& unit : plan_->units) ops_.push_back(make_op(unit));
}

Node* Frame::make_op(const Plan::Unit& unit) {
  const Program::Step& step = program_.steps[unit.step];
  const uint32_t params_size = unit.elements ? 0 : step.op->params_size;
  Node* op = make_slot(program_.slots[unit.outputs[0]], static_cast<int>(unit.inputs.size()), params_size);
  op->op = unit.elements ? uint16_t{MLXC_OP_CALL_PROGRAM} : step.op->number;
  op->stream = step.stream;
  for (size_t i = 0; i < unit.inputs.size(); i++) op->inputs_data()[i] = slots_[unit.inputs[i]];
  if (params_size) std::memcpy(op->params_data(), program_.params_of(step), params_size);
  if (unit.elements || unit.outputs.size() > 1 || step.op->run) {
    op->multi = new MultiResult;
    if (!unit.elements) op->multi->attachment = step.attachment;
    make_outputs(op, unit);
  } else {
    slots_[unit.outputs[0]] = op;
  }
  return op;
}

void Frame::make_outputs(Node* op, const Plan::Unit& unit) {
  for (size_t i = 0; i < unit.outputs.size(); i++) {
    const Program::Slot& slot = program_.slots[unit.outputs[i]];
    MultiResult::Result& result = op->multi->results.emplace_back();
    result.dtype = slot.dtype;
    result.shape = slot.shape;
    Node* output = slots_[unit.outputs[i]] = make_slot(slot, 1, 0);
    output->op = op->op;
    output->is_output = 1;
    output->output_index = static_cast<uint32_t>(i);
    output->stream = op->stream;
    output->inputs_data()[0] = op;
  }
}

Frame::~Frame() {
  // The nodes point at each other without counting, so each is freed by itself.
  auto destroy = [](Node* node) {
    for (uint32_t i = 0; i < node->n_inputs; i++) node->inputs_data()[i] = nullptr;
    destroy_node(node);
  };
  for (Node* op : ops_)
    if (op && op->multi) destroy(op);
  for (Node* slot : slots_)
    if (slot) destroy(slot);
}

void Frame::load_slot(Node* slot, Node* from, bool take) {
  for (int i = 0; i < slot->ndim; i++) slot->strides_data()[i] = from->strides_data()[i];
  slot->offset = from->offset;
  if (take) {
    slot->buffer = std::exchange(from->buffer, nullptr);
  } else {
    retain_buffer(from->buffer);
    slot->buffer = from->buffer;
  }
}

void Frame::load(Node* const* inputs, Stream* stream) {
  if (stream != stream_) {
    for (size_t i = 0; i < ops_.size(); i++) {
      const Plan::Unit& unit = plan_->units[i];
      if (program_.steps[unit.step].stream) continue;
      ops_[i]->stream = stream;
      for (uint32_t slot : unit.outputs) slots_[slot]->stream = stream;
    }
    for (uint32_t i = 0; i < program_.first_made(); i++) slots_[i]->stream = stream;
    stream_ = stream;
  }
  if (!has_constants_) {
    for (uint32_t i = program_.n_inputs; i < program_.first_made(); i++)
      load_slot(slots_[i], program_.constants[i - program_.n_inputs].node(), false);
    has_constants_ = true;
  }
  for (size_t i = 0; i < slots_.size(); i++)
    if (slots_[i]) slots_[i]->refs.store(uses_[i], std::memory_order_relaxed);
  for (uint32_t i = 0; i < program_.n_inputs; i++) {
    if (uses_[i] == 0) continue;
    const bool only_here = inputs[i]->refs.load(std::memory_order_acquire) == 1 &&
                           !inputs[i]->traced.load(std::memory_order_relaxed);
    load_slot(slots_[i], inputs[i], only_here);
  }
  next_ = 0;
}

void Frame::drop_use(uint32_t slot) noexcept {
  Node* node = slots_[slot];
  const int64_t left = node->refs.load(std::memory_order_relaxed) - 1;
  node->refs.store(left, std::memory_order_relaxed);
  if (left == 0) drop_buffer(node);
}

void Frame::run() {
  for (; next_ < ops_.size(); next_++) {
    const Plan::Unit& unit = plan_->units[next_];
    Node* op = ops_[next_];
    if (next_ % 16 == 15 || op->size >= 1 << 16) check_interrupt();
    if (unit.elements)
      run_over_views(op, {true, MLXC_LAYOUT_ANY, [&](auto* stream, auto* inputs, auto* outputs) {
                            return unit.elements->run(stream, inputs, outputs);
                          }});
    else
      execute_node(op);
    if (op->multi) {
      for (size_t i = 0; i < unit.outputs.size(); i++) {
        if (uses_[unit.outputs[i]] > 0) execute_node(slots_[unit.outputs[i]]);
        MultiResult::Result& result = op->multi->results[i];
        if (result.buffer) release_buffer(std::exchange(result.buffer, nullptr));
      }
    }
    for (uint32_t slot : unit.inputs) drop_use(slot);
  }
}

void Frame::clear() noexcept {
  for (uint32_t i = 0; i < slots_.size(); i++)
    if (slots_[i] && (i < program_.n_inputs || i >= program_.first_made())) drop_buffer(slots_[i]);
  for (Node* op : ops_) {
    if (!op->multi) continue;
    for (MultiResult::Result& result : op->multi->results)
      if (result.buffer) release_buffer(std::exchange(result.buffer, nullptr));
  }
  next_ = 0;
}

}  // namespace mlxc
