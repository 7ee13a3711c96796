// A frame is what a program runs on: one node a slot, made once and used for run after run, so that a run
// allocates no node. The nodes are the frame's alone; their reference counts tell how often a value will
// still be read, so that the last reader may take its buffer over, as in an ordinary graph.
//
// Rule: one run at a time on a frame. A run that an interrupt stopped keeps its frame and goes on from there.
#pragma once

#include "core/program.h"
#include "core/program_plan.h"

namespace mlxc {

class Frame {
 public:
  Frame(const Program& program, std::shared_ptr<const Plan> plan);
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  Device* device() const { return plan_->device; }
  // Takes the inputs of a call in, all of them ready. A buffer that nobody but the call can see is taken
  // over.
  void load(Node* const* inputs, Stream* stream);
  // Runs the steps from where the frame stands.
  void run();
  // The value of a slot that is an output, after run().
  Node* output(uint32_t slot) const { return slots_[slot]; }
  // Gives up all buffers but those of constants.
  void clear() noexcept;

 private:
  void load_slot(Node* slot, Node* from, bool take);
  void drop_use(uint32_t slot) noexcept;
  Node* make_op(const Plan::Unit& unit);
  void make_outputs(Node* op, const Plan::Unit& unit);

  const Program& program_;
  std::shared_ptr<const Plan> plan_;
  std::vector<Node*> slots_;   // null: a value inside a unit
  std::vector<Node*> ops_;     // what a unit runs: the slot's node, or one of its own for several outputs
  std::vector<int64_t> uses_;  // how often each slot is read in a run
  size_t next_ = 0;
  Stream* stream_ = nullptr;
  bool has_constants_ = false;
};

}  // namespace mlxc
