// A Program is a frozen, typed graph: inputs of known dtype and shape, constants, steps, outputs. `compile`
// makes one from a trace (program_trace.cc); a call of it records one node (program.cc), which runs the steps
// on a frame of slots that is used again and again (program_frame.cc).
//
// Rule: a program never changes once it is made, so any thread may call it; what is kept for the next run
// lies under its lock.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/op.h"
#include "core/transform.h"

namespace mlxc {

class Frame;
struct Plan;

struct Program : std::enable_shared_from_this<Program> {
  // A value: slots are numbered inputs first, then constants, then what the steps make in their order.
  struct Slot {
    mlxc_dtype dtype;
    Dims shape;
  };
  struct Step {
    const OpInfo* op;
    Stream* stream;               // null: that of the call
    uint32_t inputs, n_inputs;    // in step_inputs
    uint32_t outputs, n_outputs;  // slots
    uint32_t params;              // in `params`
    std::shared_ptr<Attachment> attachment;
  };

  uint32_t n_inputs = 0;
  std::vector<Slot> slots;
  std::vector<Array> constants;
  std::vector<Step> steps;
  std::vector<uint32_t> step_inputs;  // slots
  std::vector<uint64_t> params;       // the ops' parameter structs, one after the other
  std::vector<uint32_t> outputs;      // slots
  // What a call's node makes: the outputs that are neither inputs nor constants, each once; and for each
  // output its place there.
  std::vector<uint32_t> results;    // slots
  std::vector<uint32_t> result_of;  // not used for inputs and constants

  // May be called with arrays of other shapes (of the same dtypes and numbers of axes): the steps are
  // recorded anew for them. `fixed` says why that is not possible, where it is not.
  bool shapeless = false;
  std::string fixed;
  // A constant is followed by a transform that was running when the trace was made: the program is of no use
  // once that has ended.
  bool borrows = false;

  Program();
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  uint32_t first_made() const { return n_inputs + static_cast<uint32_t>(constants.size()); }
  std::span<const uint32_t> inputs_of(const Step& step) const {
    return {step_inputs.data() + step.inputs, step.n_inputs};
  }
  bool is_made(uint32_t slot) const { return slot >= first_made(); }
  // Fills in results and result_of.
  void list_results();
  const void* params_of(const Step& step) const {
    return step.op->params_size ? params.data() + step.params : nullptr;
  }

  // ---- kept between calls, under the lock ----
  mutable std::mutex lock;
  mutable std::vector<std::shared_ptr<const Plan>> plans;  // one a device
  mutable std::vector<std::unique_ptr<Frame>> frames;
  mutable std::vector<std::shared_ptr<const Program>> specialised;  // for other shapes, latest first
  mutable std::atomic<bool> constants_ready{false};
};

using ProgramPtr = std::shared_ptr<const Program>;

// What a program's input must be like.
using InputSpec = OutSpec;

// Calls the function once, with placeholders, and keeps what it records. Equal steps are merged, steps that
// no output needs are left out; arrays that do not depend on an input become constants.
ProgramPtr trace_program(const Function& fn, std::span<const InputSpec> inputs, bool shapeless);

// Records the call: one node, or the steps themselves where a transform follows an input.
std::vector<Array> call_program(const ProgramPtr& program, std::span<const Array> inputs);
// Records the steps one by one.
std::vector<Array> replay_program(const Program& program, std::span<const Array> inputs);

// Somebody asked for the size of a traced array. What the answer was used for nobody knows; so if a shapeless
// trace runs on this thread, it holds for these shapes only. Shape rules call it where a parameter depends on
// sizes, transforms because their rules ask.
void note_shape_read() noexcept;

}  // namespace mlxc
