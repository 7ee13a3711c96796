// Calls of programs: what a call records, what running it does, and calls with other shapes than those of the
// trace.
#include "core/program.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/device.h"
#include "core/execute.h"
#include "core/memory.h"
#include "core/ops/common.h"
#include "core/program_frame.h"
#include "core/schedule.h"
#include "op_functions.h"

namespace mlxc {

namespace {

constexpr size_t kept_frames = 4, kept_specialised = 64;

// What a call's node carries: its program and, while it runs, its frame. The node is claimed by one thread at
// a time, so no lock is needed.
class ProgramCall : public Attachment {
 public:
  explicit ProgramCall(ProgramPtr program) : program_(std::move(program)) {}
  ~ProgramCall() override { give_frame(); }

  void run(Node* node) {
    const Program& program = *program_;
    if (!frame_) {
      frame_ = take_frame(node->stream->device);
      frame_->load(node->inputs_data(), node->stream);
    }
    try {
      frame_->run();
      for (size_t i = 0; i < program.results.size(); i++)
        lay_result(node, i, *frame_->output(program.results[i]));
    } catch (const Failure& failure) {
      // What an interrupt stopped goes on from there, for inputs may have been written over.
      if (failure.code() != MLXC_ERROR_INTERRUPTED) give_frame();
      throw;
    } catch (...) {
      give_frame();
      throw;
    }
    give_frame();
  }

 private:
  std::unique_ptr<Frame> take_frame(Device* device) {
    {
      std::lock_guard hold(program_->lock);
      auto& frames = program_->frames;
      for (size_t i = frames.size(); i-- > 0;) {
        if (frames[i]->device() != device) continue;
        std::unique_ptr<Frame> frame = std::move(frames[i]);
        frames.erase(frames.begin() + static_cast<ptrdiff_t>(i));
        return frame;
      }
    }
    return std::make_unique<Frame>(*program_, plan_for(device));
  }

  std::shared_ptr<const Plan> plan_for(Device* device) {
    {
      std::lock_guard hold(program_->lock);
      for (const auto& plan : program_->plans)
        if (plan->device == device) return plan;
    }
    std::shared_ptr<const Plan> made = make_plan(*program_, device);
    std::lock_guard hold(program_->lock);
    program_->plans.push_back(made);
    return made;
  }

  void give_frame() noexcept {
    if (!frame_) return;
    frame_->clear();
    std::lock_guard hold(program_->lock);
    if (program_->frames.size() < kept_frames) program_->frames.push_back(std::move(frame_));
    frame_.reset();
  }

  ProgramPtr program_;
  std::unique_ptr<Frame> frame_;
};

bool is_traced(const Array& array) { return array->traced.load(std::memory_order_relaxed); }

bool any_traced(std::span<const Array> arrays) {
  return std::any_of(arrays.begin(), arrays.end(), is_traced);
}

bool has_shape(const Array& array, const Dims& shape) {
  return array.ndim() == shape.n && std::equal(shape.v, shape.v + shape.n, array.shape().begin());
}

bool fits_shapes(const Program& program, std::span<const Array> inputs) {
  for (size_t i = 0; i < inputs.size(); i++)
    if (!has_shape(inputs[i], program.slots[i].shape)) return false;
  return true;
}

void check_inputs(const Program& program, std::span<const Array> inputs) {
  if (inputs.size() != program.n_inputs)
    fail(MLXC_ERROR_VALUE, "program: takes ", program.n_inputs, " array(s), got ", inputs.size());
  for (size_t i = 0; i < inputs.size(); i++) {
    const Program::Slot& slot = program.slots[i];
    const Array& input = inputs[i];
    if (!input) fail(MLXC_ERROR_VALUE, "program: input ", i, " is NULL");
    if (input.dtype() != slot.dtype)
      fail(MLXC_ERROR_TYPE, "program: input ", i, " is ", dtype_name(input.dtype()), ", needed is ",
           dtype_name(slot.dtype));
    if (input.ndim() != slot.shape.n || (!program.shapeless && !has_shape(input, slot.shape)))
      fail(MLXC_ERROR_VALUE, "program: input ", i, " has shape ", shape_text(input.shape()), ", needed is ",
           program.shapeless ? cat(slot.shape.n, " axes as in ") : "", shape_text(slot.shape));
  }
}

// The same steps for other shapes.
ProgramPtr specialise(const Program& program, std::span<const Array> inputs) {
  {
    std::lock_guard hold(program.lock);
    for (const ProgramPtr& known : program.specialised)
      if (fits_shapes(*known, inputs)) return known;
  }
  if (!program.fixed.empty()) {
    std::string given;
    for (const Array& input : inputs) given += cat(given.empty() ? "" : ", ", shape_text(input.shape()));
    fail(MLXC_ERROR_VALUE, "program: cannot be called with shapes ", given,
         ", because it holds for the shapes it was traced with only: ", program.fixed);
  }
  std::vector<InputSpec> specs;
  for (const Array& input : inputs) specs.push_back({input.dtype(), input.dims()});
  ProgramPtr made = trace_program(
      [&](std::span<const Array> placeholders) { return replay_program(program, placeholders); }, specs,
      false);
  std::lock_guard hold(program.lock);
  if (program.specialised.size() >= kept_specialised) program.specialised.pop_back();
  program.specialised.insert(program.specialised.begin(), made);
  return made;
}

// Whether the constants have their values, so that a call need not name them among its inputs.
bool constants_ready(const Program& program) {
  if (program.constants_ready.load(std::memory_order_acquire)) return true;
  for (const Array& constant : program.constants)
    if (constant->state.load(std::memory_order_acquire) != state_ready) return false;
  program.constants_ready.store(true, std::memory_order_release);
  return true;
}

std::vector<Array> record_call(const ProgramPtr& program, std::span<const Array> inputs) {
  std::vector<Array> results;
  if (!program->results.empty()) {
    std::vector<OutSpec> specs;
    for (uint32_t slot : program->results)
      specs.push_back({program->slots[slot].dtype, program->slots[slot].shape});
    auto call = std::make_shared<ProgramCall>(program);
    if (constants_ready(*program)) {
      results = record_run(MLXC_OP_CALL_PROGRAM, inputs, specs, std::move(call));
    } else {
      std::vector<Array> all(inputs.begin(), inputs.end());
      all.insert(all.end(), program->constants.begin(), program->constants.end());
      results = record_run(MLXC_OP_CALL_PROGRAM, all, specs, std::move(call));
    }
  }
  std::vector<Array> outputs;
  for (size_t i = 0; i < program->outputs.size(); i++) {
    const uint32_t slot = program->outputs[i];
    if (program->is_made(slot))
      outputs.push_back(results[program->result_of[i]]);
    else
      outputs.push_back(slot < program->n_inputs ? inputs[slot]
                                                 : program->constants[slot - program->n_inputs]);
  }
  return outputs;
}

}  // namespace

Program::Program() = default;
Program::~Program() = default;

void Program::list_results() {
  std::unordered_map<uint32_t, uint32_t> known;
  for (uint32_t slot : outputs) {
    if (!is_made(slot)) {
      result_of.push_back(0);
      continue;
    }
    const auto [found, is_new] = known.try_emplace(slot, static_cast<uint32_t>(results.size()));
    if (is_new) results.push_back(slot);
    result_of.push_back(found->second);
  }
}

std::vector<Array> replay_program(const Program& program, std::span<const Array> inputs) {
  std::vector<Array> values(inputs.begin(), inputs.end());
  values.insert(values.end(), program.constants.begin(), program.constants.end());
  std::vector<Node*> nodes;
  for (const Program::Step& step : program.steps) {
    std::optional<StreamScope> scope;
    if (step.stream) scope.emplace(step.stream);
    if (step.op->run) {
      std::vector<Array> from;
      for (uint32_t slot : program.inputs_of(step)) from.push_back(values[slot]);
      std::vector<OutSpec> specs;
      for (uint32_t i = 0; i < step.n_outputs; i++)
        specs.push_back({program.slots[step.outputs + i].dtype, program.slots[step.outputs + i].shape});
      for (Array& made : record_run(step.op->number, from, specs, step.attachment))
        values.push_back(std::move(made));
      continue;
    }
    nodes.clear();
    for (uint32_t slot : program.inputs_of(step)) nodes.push_back(values[slot].node());
    std::vector<Node*> made(step.n_outputs);
    record_nodes(step.op->number, nodes.data(), static_cast<int>(nodes.size()), program.params_of(step),
                 nullptr, made.data());
    for (Node* node : made) values.push_back(Array::adopt(node));
  }
  std::vector<Array> outputs;
  for (uint32_t slot : program.outputs) outputs.push_back(values[slot]);
  return outputs;
}

std::vector<Array> call_program(const ProgramPtr& program, std::span<const Array> inputs) {
  check_inputs(*program, inputs);
  if (program->shapeless && !fits_shapes(*program, inputs))
    return call_program(specialise(*program, inputs), inputs);
  const bool followed = active_traces.load(std::memory_order_relaxed) > 0 &&
                        (any_traced(inputs) || any_traced(program->constants));
  return followed ? replay_program(*program, inputs) : record_call(program, inputs);
}

void run_call_program(Node* node) { static_cast<ProgramCall&>(*node->multi->attachment).run(node); }

}  // namespace mlxc
