// Implements program_recompute.h.
#include "core/program_recompute.h"

#include <algorithm>
#include <set>

namespace mlxc {

namespace {

// Computing so few elements anew saves nothing worth looking for.
constexpr int64_t smallest_size = 4096;
constexpr size_t most_steps = 64;  // added to one stretch

// An op that takes about as long as reading an element from memory, or less.
bool is_cheap(uint16_t op) {
  switch (op) {
    case MLXC_OP_ABS:
    case MLXC_OP_ADD:
    case MLXC_OP_ASTYPE:
    case MLXC_OP_EQUAL:
    case MLXC_OP_GREATER:
    case MLXC_OP_GREATER_EQUAL:
    case MLXC_OP_LESS:
    case MLXC_OP_LESS_EQUAL:
    case MLXC_OP_LOGICAL_AND:
    case MLXC_OP_LOGICAL_NOT:
    case MLXC_OP_LOGICAL_OR:
    case MLXC_OP_MAXIMUM:
    case MLXC_OP_MINIMUM:
    case MLXC_OP_MULTIPLY:
    case MLXC_OP_NEGATIVE:
    case MLXC_OP_NOT_EQUAL:
    case MLXC_OP_SQUARE:
    case MLXC_OP_SUBTRACT:
    case MLXC_OP_WHERE: return true;
    default: return false;
  }
}

class Recomputer {
 public:
  Recomputer(const Program& program, std::vector<Stretch>* stretches)
      : program_(program),
        stretches_(*stretches),
        maker_(program.slots.size(), -1),
        stretch_of_(program.steps.size(), -1),
        kept_(program.slots.size(), false) {
    for (size_t i = 0; i < stretches_.size(); i++) {
      for (uint32_t index : stretches_[i].steps) {
        const Program::Step& step = program_.steps[index];
        stretch_of_[index] = static_cast<int>(i);
        for (uint32_t k = 0; k < step.n_outputs; k++) maker_[step.outputs + k] = static_cast<int>(index);
        if (!stretches_[i].fused)
          for (uint32_t slot : program_.inputs_of(step)) kept_[slot] = true;
      }
    }
    for (uint32_t slot : program_.outputs) kept_[slot] = true;
  }

  void run() {
    for (size_t i = 0; i < stretches_.size(); i++)
      if (stretches_[i].fused) extend(static_cast<int>(i));
  }

 private:
  struct Reach {
    std::set<uint32_t> steps;   // to be added
    std::set<uint32_t> leaves;  // full-sized slots that are read then
  };

  const Dims& shape_of(uint32_t slot) const { return program_.slots[slot].shape; }

  // The values that the stretch reads from elsewhere and that are as large as its own.
  std::vector<uint32_t> full_inputs(const Stretch& stretch, const Dims& shape) const {
    std::set<uint32_t> made, read;
    for (uint32_t index : stretch.steps) made.insert(program_.steps[index].outputs);
    for (uint32_t index : stretch.steps)
      for (uint32_t slot : program_.inputs_of(program_.steps[index]))
        if (made.count(slot) == 0 && shape_of(slot) == shape) read.insert(slot);
    return {read.begin(), read.end()};
  }

  // Whether the slot is made by a cheap step of an earlier stretch, and is in memory for none but fused
  // steps.
  bool may_recompute(uint32_t slot, const Program::Step& like) const {
    if (kept_[slot] || maker_[slot] < 0) return false;
    const Program::Step& step = program_.steps[static_cast<size_t>(maker_[slot])];
    return stretches_[static_cast<size_t>(stretch_of_[static_cast<size_t>(maker_[slot])])].fused &&
           step.stream == like.stream && is_cheap(step.op->number);
  }

  void expand(uint32_t slot, const Dims& shape, const Program::Step& like, Reach* reach) const {
    if (!(shape_of(slot) == shape)) return;
    if (!may_recompute(slot, like)) {
      reach->leaves.insert(slot);
      return;
    }
    const auto index = static_cast<uint32_t>(maker_[slot]);
    if (!reach->steps.insert(index).second || reach->steps.size() > most_steps) return;
    for (uint32_t input : program_.inputs_of(program_.steps[index])) expand(input, shape, like, reach);
  }

  void extend(int number) {
    Stretch& stretch = stretches_[static_cast<size_t>(number)];
    const Program::Step& like = program_.steps[stretch.steps[0]];
    const Dims shape = shape_of(like.outputs);
    int64_t size = 1;
    for (int64_t n : shape.span()) size *= n;
    if (size < smallest_size) return;
    const std::vector<uint32_t> inputs = full_inputs(stretch, shape);
    // All values at once may share what they are made of; one by one, each must be made of what is read
    // anyway.
    Reach reach;
    for (uint32_t slot : inputs) expand(slot, shape, like, &reach);
    if (reach.leaves.size() > inputs.size() || reach.steps.size() > most_steps) {
      reach = {};
      reach.leaves.insert(inputs.begin(), inputs.end());
      for (uint32_t slot : inputs) {
        Reach one;
        if (!may_recompute(slot, like)) continue;
        expand(slot, shape, like, &one);
        const bool read_anyway =
            std::includes(reach.leaves.begin(), reach.leaves.end(), one.leaves.begin(), one.leaves.end());
        if (read_anyway && one.steps.size() + reach.steps.size() <= most_steps)
          reach.steps.insert(one.steps.begin(), one.steps.end());
      }
    }
    stretch.steps.insert(stretch.steps.end(), reach.steps.begin(), reach.steps.end());
    std::sort(stretch.steps.begin(), stretch.steps.end());
  }

  const Program& program_;
  std::vector<Stretch>& stretches_;
  std::vector<int> maker_;       // by slot: the step that makes it
  std::vector<int> stretch_of_;  // by step
  std::vector<bool> kept_;       // by slot: in memory for others than fused steps
};

}  // namespace

void recompute_cheap_values(const Program& program, std::vector<Stretch>* stretches) {
  Recomputer(program, stretches).run();
}

}  // namespace mlxc
