// Makes plans (program_plan.h).
//
// The steps are gone through in order. An element-wise step joins the open group of its inputs, if that has
// its shape; a group is closed, and takes its place in the order, as soon as a step outside of it reads one
// of its values, or no step to come can read any. So whatever a group reads is there when it runs, and it
// never waits longer than something can still join.
#include "core/program_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/program_recompute.h"
#include "core/registry.h"

namespace mlxc {

namespace {

constexpr size_t largest_group = 512;

class Planner {
 public:
  Planner(const Program& program, Device* device)
      : program_(program),
        device_(device),
        group_of_(program.slots.size(), -1),
        left_(program.slots.size(), 0) {
    for (uint32_t slot : program.step_inputs) left_[slot]++;
  }

  std::shared_ptr<const Plan> make() {
    plan_->device = device_;
    for (uint32_t i = 0; i < program_.steps.size(); i++) {
      const Program::Step& step = program_.steps[i];
      int group = -1;
      if (may_join(step))
        group = join(i);
      else
        for (uint32_t slot : program_.inputs_of(step)) close(group_of_[slot]);
      for (uint32_t slot : program_.inputs_of(step)) read(slot);
      if (group < 0)
        add_single(i);
      else if (groups_[group].to_come == 0)
        close(group);
    }
    for (int group = 0; group < static_cast<int>(groups_.size()); group++) close(group);
    std::vector<Stretch> extended = stretches_;
    recompute_cheap_values(program_, &extended);
    if (!make_units(extended)) make_units(stretches_);
    return plan_;
  }

 private:
  struct Group {
    std::vector<uint32_t> steps;
    int64_t to_come = 0;  // how often steps to come read values of it
    bool open = true;
  };

  Device* device_of(const Program::Step& step) const { return step.stream ? step.stream->device : device_; }

  bool may_join(const Program::Step& step) {
    if (step.op->run || step.n_outputs != 1 || step.n_inputs == 0) return false;
    if (!step.op->elementwise && step.op->number != MLXC_OP_ASTYPE) return false;
    Device* device = device_of(step);
    if (!device->backend->table.program_make) return false;
    // Asked once for each op and kind of inputs: what the backend has no loop for must not spoil a group.
    std::vector<int> key{step.op->number, program_.slots[step.outputs].dtype, device->id.kind,
                         device->id.index};
    for (uint32_t slot : program_.inputs_of(step)) key.push_back(program_.slots[slot].dtype);
    const auto [found, is_new] = known_.try_emplace(std::move(key), false);
    if (is_new) {
      const uint32_t index = static_cast<uint32_t>(&step - program_.steps.data());
      std::vector<uint32_t> inputs, outputs{step.outputs};
      found->second = make_elements({&index, 1}, &inputs, outputs) != nullptr;
    }
    return found->second;
  }

  bool fits(const Group& group, const Program::Step& step) const {
    const Program::Step& first = program_.steps[group.steps[0]];
    return group.open && group.steps.size() < largest_group && first.stream == step.stream &&
           program_.slots[first.outputs].shape == program_.slots[step.outputs].shape;
  }

  // Puts the step into the group of its inputs, or a new one.
  int join(uint32_t index) {
    const Program::Step& step = program_.steps[index];
    int joined = -1;
    for (uint32_t slot : program_.inputs_of(step)) {
      const int other = group_of_[slot];
      if (other < 0 || other == joined || !groups_[other].open) continue;
      if (!fits(groups_[other], step))
        close(other);
      else
        joined = joined < 0 ? other : merge(joined, other);
    }
    if (joined < 0) {
      joined = static_cast<int>(groups_.size());
      groups_.emplace_back();
    }
    groups_[joined].steps.push_back(index);
    groups_[joined].to_come += left_[step.outputs];
    group_of_[step.outputs] = joined;
    return joined;
  }

  // Both are open, so no step outside has read a value of either, and neither reads one of the other.
  int merge(int a, int b) {
    if (groups_[a].steps.size() + groups_[b].steps.size() > largest_group) {
      close(b);
      return a;
    }
    if (groups_[a].steps.size() < groups_[b].steps.size()) std::swap(a, b);
    for (uint32_t index : groups_[b].steps) {
      groups_[a].steps.push_back(index);
      group_of_[program_.steps[index].outputs] = a;
    }
    groups_[a].to_come += groups_[b].to_come;
    groups_[b].open = false;
    groups_[b].steps.clear();
    return a;
  }

  void read(uint32_t slot) {
    left_[slot]--;
    const int group = group_of_[slot];
    if (group >= 0 && groups_[group].open) groups_[group].to_come--;
  }

  void close(int index) {
    if (index < 0 || !groups_[index].open) return;
    Group& group = groups_[index];
    group.open = false;
    std::sort(group.steps.begin(), group.steps.end());
    stretches_.push_back({group.steps, group.steps.size() > 1});
  }

  void add_single(uint32_t index) { stretches_.push_back({{index}, false}); }

  // False where the backend makes no program of a stretch that was extended.
  bool make_units(const std::vector<Stretch>& stretches) {
    plan_->units.clear();
    std::vector<bool> read = read_outside(stretches);
    for (size_t i = 0; i < stretches.size(); i++) {
      const std::vector<uint32_t>& steps = stretches[i].steps;
      if (stretches[i].fused) {
        const std::set<uint32_t> own(stretches_[i].steps.begin(), stretches_[i].steps.end());
        std::vector<uint32_t> inputs, outputs;
        for (uint32_t index : steps)
          if (own.count(index) != 0 && read[program_.steps[index].outputs])
            outputs.push_back(program_.steps[index].outputs);
        if (outputs.empty()) continue;  // all is computed where it is read
        std::unique_ptr<ElementProgram> made = make_elements(steps, &inputs, outputs);
        if (made) {
          plan_->units.push_back({steps[0], std::move(made), std::move(inputs), std::move(outputs)});
          continue;
        }
        if (steps.size() > own.size()) return false;
      }
      for (uint32_t index : steps) add_unit(index);
    }
    return true;
  }

  void add_unit(uint32_t index) {
    const Program::Step& step = program_.steps[index];
    const auto inputs = program_.inputs_of(step);
    std::vector<uint32_t> outputs;
    for (uint32_t i = 0; i < step.n_outputs; i++) outputs.push_back(step.outputs + i);
    plan_->units.push_back({index, nullptr, {inputs.begin(), inputs.end()}, std::move(outputs)});
  }

  // By slot: whether a stretch reads it that does not make it, or it is an output.
  std::vector<bool> read_outside(const std::vector<Stretch>& stretches) const {
    std::vector<bool> read(program_.slots.size(), false);
    for (uint32_t slot : program_.outputs) read[slot] = true;
    for (const Stretch& stretch : stretches) {
      std::set<uint32_t> made;
      for (uint32_t index : stretch.steps)
        for (uint32_t i = 0; i < program_.steps[index].n_outputs; i++)
          made.insert(program_.steps[index].outputs + i);
      for (uint32_t index : stretch.steps)
        for (uint32_t slot : program_.inputs_of(program_.steps[index]))
          if (made.count(slot) == 0) read[slot] = true;
    }
    return read;
  }

  std::unique_ptr<ElementProgram> make_elements(std::span<const uint32_t> steps,
                                                std::vector<uint32_t>* inputs,
                                                const std::vector<uint32_t>& outputs) const {
    std::map<uint32_t, int32_t> value_of;
    std::vector<mlxc_dtype> dtypes;
    for (uint32_t index : steps) value_of[program_.steps[index].outputs] = -1;
    for (uint32_t index : steps)
      for (uint32_t slot : program_.inputs_of(program_.steps[index]))
        if (value_of.try_emplace(slot, static_cast<int32_t>(inputs->size())).second) {
          inputs->push_back(slot);
          dtypes.push_back(program_.slots[slot].dtype);
        }
    auto next = static_cast<int32_t>(inputs->size());
    for (uint32_t index : steps) value_of[program_.steps[index].outputs] = next++;
    std::vector<mlxc_program_step> made(steps.size());
    std::vector<const mlxc_program_step*> pointers;
    std::vector<std::vector<int32_t>> reads(steps.size());
    for (size_t i = 0; i < steps.size(); i++) {
      const Program::Step& step = program_.steps[steps[i]];
      for (uint32_t slot : program_.inputs_of(step)) reads[i].push_back(value_of[slot]);
      made[i] = {sizeof(mlxc_program_step),
                 step.op->number,
                 program_.slots[step.outputs].dtype,
                 static_cast<int32_t>(step.n_inputs),
                 reads[i].data(),
                 program_.params_of(step),
                 step.op->params_size};
      pointers.push_back(&made[i]);
    }
    std::vector<int32_t> results;
    for (uint32_t slot : outputs) results.push_back(value_of[slot]);
    const mlxc_program_source source{sizeof(mlxc_program_source),
                                     static_cast<int32_t>(inputs->size()),
                                     dtypes.data(),
                                     static_cast<int32_t>(steps.size()),
                                     pointers.data(),
                                     static_cast<int32_t>(results.size()),
                                     results.data()};
    Device* device = device_of(program_.steps[steps[0]]);
    mlxc_backend_program* handle = nullptr;
    throw_error(device->backend->table.program_make(device->handle, &source, &handle));
    return handle ? std::make_unique<ElementProgram>(device, handle) : nullptr;
  }

  const Program& program_;
  Device* device_;
  std::shared_ptr<Plan> plan_ = std::make_shared<Plan>();
  std::vector<Stretch> stretches_;
  std::vector<Group> groups_;
  std::vector<int> group_of_;  // by slot
  std::vector<int64_t> left_;  // by slot: how often steps to come read it
  std::map<std::vector<int>, bool> known_;
};

}  // namespace

ElementProgram::~ElementProgram() { device_->backend->table.program_free(device_->handle, handle_); }

mlxc_error* ElementProgram::run(mlxc_backend_stream* stream, const mlxc_view* const* inputs,
                                const mlxc_view* const* outputs) const {
  return device_->backend->table.program_run(stream, handle_, inputs, outputs);
}

std::shared_ptr<const Plan> make_plan(const Program& program, Device* device) {
  return Planner(program, device).make();
}

}  // namespace mlxc
