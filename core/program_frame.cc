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

Frame::Frame(const Program& program) : program_(program) {
  slots_.resize(program.slots.size());
  uses_.resize(program.slots.size());
  for (uint32_t slot : program.step_inputs) uses_[slot]++;
  for (uint32_t slot : program.outputs) uses_[slot]++;
  for (uint32_t i = 0; i < program.first_made(); i++) slots_[i] = make_slot(program.slots[i], 0, 0);
  for (uint32_t i = program.n_inputs; i < program.first_made(); i++) uses_[i]++;  // constants stay
  for (const Program::Step& step : program.steps) {
    const int n_inputs = static_cast<int>(step.n_inputs);
    Node* op = make_slot(program.slots[step.outputs], n_inputs, step.op->params_size);
    op->op = step.op->number;
    op->stream = step.stream;
    for (int i = 0; i < n_inputs; i++) op->inputs_data()[i] = slots_[program.step_inputs[step.inputs + i]];
    if (step.op->params_size) std::memcpy(op->params_data(), program.params_of(step), step.op->params_size);
    ops_.push_back(op);
    if (step.n_outputs == 1 && !step.op->run) {
      slots_[step.outputs] = op;
      continue;
    }
    op->multi = new MultiResult;
    op->multi->attachment = step.attachment;
    for (uint32_t i = 0; i < step.n_outputs; i++) {
      const Program::Slot& slot = program.slots[step.outputs + i];
      MultiResult::Result& result = op->multi->results.emplace_back();
      result.dtype = slot.dtype;
      result.shape = slot.shape;
      Node* output = slots_[step.outputs + i] = make_slot(slot, 1, 0);
      output->op = op->op;
      output->is_output = 1;
      output->output_index = i;
      output->stream = step.stream;
      output->inputs_data()[0] = op;
    }
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
      const Program::Step& step = program_.steps[i];
      if (step.stream) continue;
      ops_[i]->stream = stream;
      for (uint32_t k = 0; k < step.n_outputs; k++) slots_[step.outputs + k]->stream = stream;
    }
    for (uint32_t i = 0; i < program_.first_made(); i++) slots_[i]->stream = stream;
    stream_ = stream;
  }
  if (!has_constants_) {
    for (uint32_t i = program_.n_inputs; i < program_.first_made(); i++)
      load_slot(slots_[i], program_.constants[i - program_.n_inputs].node(), false);
    has_constants_ = true;
  }
  for (size_t i = 0; i < slots_.size(); i++) slots_[i]->refs.store(uses_[i], std::memory_order_relaxed);
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
    const Program::Step& step = program_.steps[next_];
    Node* op = ops_[next_];
    if (next_ % 16 == 15 || op->size >= 1 << 16) check_interrupt();
    execute_node(op);
    if (op->multi) {
      for (uint32_t i = 0; i < step.n_outputs; i++) {
        if (uses_[step.outputs + i] > 0) execute_node(slots_[step.outputs + i]);
        MultiResult::Result& result = op->multi->results[i];
        if (result.buffer) release_buffer(std::exchange(result.buffer, nullptr));
      }
    }
    for (uint32_t slot : program_.inputs_of(step)) drop_use(slot);
  }
}

void Frame::clear() noexcept {
  for (uint32_t i = 0; i < slots_.size(); i++)
    if (i < program_.n_inputs || i >= program_.first_made()) drop_buffer(slots_[i]);
  for (Node* op : ops_) {
    if (!op->multi) continue;
    for (MultiResult::Result& result : op->multi->results)
      if (result.buffer) release_buffer(std::exchange(result.buffer, nullptr));
  }
  next_ = 0;
}

}  // namespace mlxc
