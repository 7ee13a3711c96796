// Makes programs: calls a function with placeholders, walks what it recorded (the tape) and writes it down as
// slots and steps, simplified on the way: equal steps become one, views that change nothing are passed over,
// equal scalar constants are one, and what does not lead to an output is never met.
#include <cstring>
#include <unordered_map>

#include "core/device.h"
#include "core/execute.h"
#include "core/memory.h"
#include "core/op_params.h"
#include "core/ops/common.h"
#include "core/program.h"
#include "core/schedule.h"
#include "core/tape.h"

namespace mlxc {

namespace {

// Set while a shapeless trace runs on this thread.
thread_local bool* shape_was_read = nullptr;

class ShapeWatch {
 public:
  explicit ShapeWatch(bool* was_read) : before_(std::exchange(shape_was_read, was_read)) {}
  ~ShapeWatch() { shape_was_read = before_; }
  ShapeWatch(const ShapeWatch&) = delete;
  ShapeWatch& operator=(const ShapeWatch&) = delete;

 private:
  bool* before_;
};

std::string bytes_of(const void* data, size_t size) { return {static_cast<const char*>(data), size}; }

// Slots get their final numbers when all constants are known: until then the upper bits tell what they are.
constexpr uint32_t constant_mark = 1u << 30, made_mark = 1u << 31;

class Builder {
 public:
  explicit Builder(std::span<const InputSpec> inputs) : home_(current_stream()) {
    program_->n_inputs = static_cast<uint32_t>(inputs.size());
    for (const InputSpec& input : inputs) program_->slots.push_back({input.dtype, input.shape});
  }

  std::shared_ptr<Program> build(std::span<const Array> outputs, std::span<const Array> placeholders) {
    const Tape tape = make_tape(outputs, placeholders);
    slot_of_.resize(tape.entries.size());
    for (size_t i = 0; i < tape.entries.size(); i++) {
      const Tape::Entry& entry = tape.entries[i];
      if (entry.primal >= 0) {
        slot_of_[i] = static_cast<uint32_t>(entry.primal);
        continue;
      }
      const auto positions = tape.inputs_of(entry);
      if (entry.node->is_output) {
        slot_of_[i] = slot_of_[positions[0]] + entry.node->output_index;
        continue;
      }
      std::vector<uint32_t> from;
      for (uint32_t k = 0; k < entry.node->n_inputs; k++)
        from.push_back(positions[k] >= 0 ? slot_of_[positions[k]]
                                         : take_constant(entry.node->inputs_data()[k]));
      slot_of_[i] = take_step(entry.node, from);
    }
    for (size_t i = 0; i < outputs.size(); i++)
      program_->outputs.push_back(tape.outputs[i] >= 0 ? slot_of_[tape.outputs[i]]
                                                       : take_constant(outputs[i].node()));
    finish();
    return std::move(program_);
  }

 private:
  // An array that does not depend on an input. What the function made out of nothing (zeros, arange) is made
  // again by each run and takes no memory in between.
  uint32_t take_constant(Node* node) {
    const auto known = constant_of_.find(node);
    if (known != constant_of_.end()) return known->second;
    uint32_t slot;
    if (!take_creation(node, &slot)) slot = is_scalar(node) ? take_scalar(node) : add_constant(node);
    constant_of_.emplace(node, slot);
    held_.push_back(Array::borrow(node));
    return slot;
  }

  bool take_creation(Node* node, uint32_t* slot) {
    Node* value = nullptr;
    {
      // While the lock is held nobody can claim the node, so that it keeps its inputs.
      std::lock_guard hold(schedule_lock());
      if (node->state.load(std::memory_order_acquire) != state_pending || !node->op || node->is_output)
        return false;
      if (node->op == MLXC_OP_FULL && is_scalar(node->inputs_data()[0]))
        retain_node(value = node->inputs_data()[0]);
      else if (node->n_inputs > 0 || node->multi)
        return false;
    }
    const Array hold = Array::adopt(value);
    std::vector<uint32_t> from;
    if (value) from.push_back(take_constant(value));
    *slot = take_step(node, from);
    return true;
  }

  static bool is_scalar(const Node* node) {
    return node->ndim == 0 && !node->op && node->state.load(std::memory_order_acquire) == state_ready &&
           node->stream->device->synchronous();
  }

  uint32_t take_scalar(Node* node) {
    std::string key = bytes_of(host_data(node), static_cast<size_t>(dtype_size(node->dtype)));
    key.push_back(static_cast<char>(node->dtype));
    const auto [found, is_new] = scalars_.try_emplace(std::move(key), 0);
    if (is_new) found->second = add_constant(node);
    return found->second;
  }

  uint32_t add_constant(Node* node) {
    program_->constants.push_back(Array::borrow(node));
    return constant_mark | static_cast<uint32_t>(program_->constants.size() - 1);
  }

  bool changes_nothing(const Node* node) const {
    if (node->op != MLXC_OP_RESHAPE && node->op != MLXC_OP_BROADCAST_TO && node->op != MLXC_OP_ASTYPE)
      return false;
    const Node* input = node->inputs_data()[0];
    return input->dtype == node->dtype && input->ndim == node->ndim &&
           std::equal(input->shape().begin(), input->shape().end(), node->shape().begin());
  }

  // The first slot of what the step makes.
  uint32_t take_step(Node* node, const std::vector<uint32_t>& from) {
    const OpInfo& op = op_table[node->op];
    if (from.size() == 1 && changes_nothing(node)) {
      // For other shapes it would not be nothing.
      if (holds_sizes(op)) note_shape_read();
      return from[0];
    }
    Stream* stream = node->stream == home_ ? nullptr : node->stream;
    Attachment* attachment = node->multi ? node->multi->attachment.get() : nullptr;
    std::string key = bytes_of(&node->op, sizeof(node->op)) + bytes_of(&stream, sizeof(stream)) +
                      bytes_of(&attachment, sizeof(attachment)) +
                      bytes_of(from.data(), from.size() * sizeof(uint32_t));
    if (op.params_size) append_params(op, node->params_data(), &key);
    const auto [found, is_new] = steps_.try_emplace(std::move(key), made_mark | made_);
    if (is_new) add_step(op, node, stream, from);
    return found->second;
  }

  void add_step(const OpInfo& op, Node* node, Stream* stream, const std::vector<uint32_t>& from) {
    Program::Step step{};
    step.op = &op;
    step.stream = stream;
    step.inputs = static_cast<uint32_t>(program_->step_inputs.size());
    step.n_inputs = static_cast<uint32_t>(from.size());
    program_->step_inputs.insert(program_->step_inputs.end(), from.begin(), from.end());
    step.outputs = made_;
    step.params = static_cast<uint32_t>(program_->params.size());
    if (op.params_size) {
      program_->params.resize(program_->params.size() + (op.params_size + 7) / 8);
      std::memcpy(program_->params.data() + step.params, node->params_data(), op.params_size);
    }
    if (node->multi) {
      step.attachment = node->multi->attachment;
      for (const MultiResult::Result& result : node->multi->results)
        results_.push_back({result.dtype, result.shape});
      step.n_outputs = static_cast<uint32_t>(node->multi->results.size());
    } else {
      results_.push_back({node->dtype, Dims(node->shape())});
      step.n_outputs = 1;
    }
    made_ += step.n_outputs;
    program_->steps.push_back(std::move(step));
  }

  void finish() {
    const uint32_t first_constant = program_->n_inputs, first_made = program_->first_made();
    auto settle = [&](uint32_t& slot) {
      if (slot & made_mark)
        slot = first_made + (slot & ~made_mark);
      else if (slot & constant_mark)
        slot = first_constant + (slot & ~constant_mark);
    };
    for (const Array& constant : program_->constants)
      program_->slots.push_back({constant.dtype(), constant.dims()});
    program_->slots.insert(program_->slots.end(), results_.begin(), results_.end());
    for (Program::Step& step : program_->steps) step.outputs += first_made;
    for (uint32_t& slot : program_->step_inputs) settle(slot);
    for (uint32_t& slot : program_->outputs) settle(slot);
    program_->list_results();
  }

  std::shared_ptr<Program> program_ = std::make_shared<Program>();
  Stream* home_;
  uint32_t made_ = 0;
  std::vector<Program::Slot> results_;
  std::vector<uint32_t> slot_of_;  // by position on the tape
  std::unordered_map<Node*, uint32_t> constant_of_;
  std::unordered_map<std::string, uint32_t> scalars_, steps_;
  std::vector<Array> held_;  // so that no address in constant_of_ is used twice
};

// What keeps a trace from holding for other shapes; "" if nothing does.
std::string find_fixed_shape(const Program& program, bool shape_was_read) {
  for (const Program::Step& step : program.steps) {
    if (step.op->run) return cat(step.op->name, " is known for the shapes it was traced with only");
    const int op = step.op->number;
    if (op == MLXC_OP_ARANGE || (holds_sizes(*step.op) && op != MLXC_OP_CONV && op != MLXC_OP_PAD))
      return cat(step.op->name, " to a fixed size (", shape_text(program.slots[step.outputs].shape), ")");
  }
  // A gradient rule, for one, may have made it of sizes. What is made of values that are there is noted when
  // it is recorded.
  for (const Array& constant : program.constants)
    if (constant->state.load(std::memory_order_acquire) != state_ready)
      return cat("it uses an array of shape ", shape_text(constant.shape()), " that is not computed yet");
  return shape_was_read ? "the function, or a gradient in it, asks for the shape of an array" : "";
}

}  // namespace

void note_shape_read() noexcept {
  if (shape_was_read) *shape_was_read = true;
}

ProgramPtr trace_program(const Function& fn, std::span<const InputSpec> inputs, bool shapeless) {
  const bool followed = active_traces.load() > 0;
  const Trace trace;
  std::vector<Array> placeholders;
  for (const InputSpec& input : inputs)
    placeholders.push_back(make_placeholder(input.dtype, input.shape.span(), nullptr));
  bool shape_read = false;
  const ShapeWatch watch(shapeless ? &shape_read : nullptr);
  const std::vector<Array> outputs = fn(placeholders);
  for (size_t i = 0; i < outputs.size(); i++)
    if (!outputs[i]) fail(MLXC_ERROR_VALUE, "program: output ", i, " of the function is NULL");
  std::shared_ptr<Program> program = Builder(inputs).build(outputs, placeholders);
  program->shapeless = shapeless;
  if (shapeless) program->fixed = find_fixed_shape(*program, shape_read);
  if (followed)
    for (const Array& constant : program->constants)
      program->borrows = program->borrows || constant->traced.load(std::memory_order_relaxed);
  return program;
}

}  // namespace mlxc
