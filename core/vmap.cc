// Implements vmap as a forward sweep over the tape (core/tape.h), calling the batching rule of each op that
// depends on a batched input. What does not is used as it was recorded, so that it is computed once.
//
// Rule: the batch is the first axis of everything while the sweep runs; the axes that the caller asked for
// are moved there before it and away after it.
#include "core/vmap.h"

#include <unordered_map>

#include "core/memory.h"
#include "core/op.h"
#include "core/ops/batch.h"
#include "core/program.h"
#include "core/tape.h"

namespace mlxc {

namespace {

struct Batch {
  int64_t size = -1;
  std::vector<int> axes;  // of the inputs, non-negative; -1: not batched
};

Batch find_batch(std::span<const Array> inputs, std::span<const int32_t> in_axes) {
  Batch batch;
  size_t first = 0;
  for (size_t i = 0; i < inputs.size(); i++) {
    const Array& input = inputs[i];
    batch.axes.push_back(-1);
    if (in_axes[i] == MLXC_NOT_BATCHED) continue;
    if (in_axes[i] < -input.ndim() || in_axes[i] >= input.ndim())
      fail(MLXC_ERROR_AXIS, "vmap: in_axes is ", in_axes[i], " for input ", i, ", whose shape is ",
           shape_text(input.shape()));
    const int axis = batch.axes.back() = in_axes[i] < 0 ? in_axes[i] + input.ndim() : in_axes[i];
    if (batch.size < 0) {
      batch.size = input.dim(axis);
      first = i;
    } else if (batch.size != input.dim(axis)) {
      fail(MLXC_ERROR_VALUE, "vmap: the batch axes differ in size: input ", first, " of shape ",
           shape_text(inputs[first].shape()), " has ", batch.size, " along axis ", batch.axes[first],
           ", input ", i, " of shape ", shape_text(input.shape()), " has ", input.dim(axis), " along axis ",
           axis);
    }
  }
  if (batch.size < 0)
    fail(MLXC_ERROR_VALUE, "vmap: at least one input must be batched, but in_axes names no axis of the ",
         inputs.size(), inputs.size() == 1 ? " input" : " inputs");
  return batch;
}

Array make_stand_in(const Array& input, int axis) {
  Dims shape;
  for (int i = 0; i < input.ndim(); i++)
    if (i != axis) shape.push(input.dim(i));
  return make_placeholder(input.dtype(), shape.span(), input->stream);
}

class BatchSweep {
 public:
  BatchSweep(const Tape& tape, int64_t size) : tape_(tape), size_(size), values_(tape.entries.size()) {}

  void seed(size_t stand_in, Array value) { values_[stand_in] = std::move(value); }

  void run() {
    for (size_t i = 0; i < tape_.entries.size(); i++) {
      const Tape::Entry& entry = tape_.entries[i];
      if (entry.primal >= 0) continue;
      if (entry.node->is_output)
        values_[i] = parts_.at(tape_.inputs_of(entry)[0])[entry.node->output_index];
      else
        apply_rule(i);
    }
  }

  // Null for one that does not depend on the batch.
  Array output(size_t i) const { return tape_.outputs[i] >= 0 ? values_[tape_.outputs[i]] : Array(); }

 private:
  void apply_rule(size_t i) {
    const Tape::Entry& entry = tape_.entries[i];
    Node* node = entry.node;
    const OpInfo& info = op_table[node->op];
    operands_.take(node);
    const auto positions = tape_.inputs_of(entry);
    inputs_.clear();
    batched_.clear();
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      batched_.push_back(positions[k] >= 0);
      inputs_.push_back(positions[k] >= 0 ? values_[positions[k]] : operands_.inputs()[k]);
    }
    std::vector<Array> made(operands_.outputs().size());
    StreamScope scope(node->stream);
    if (size_ == 0)
      make_empty(made);
    else
      batch(info, node, made);
    if (node->multi)
      parts_[static_cast<int32_t>(i)] = std::move(made);
    else
      values_[i] = std::move(made[0]);
  }

  void batch(const OpInfo& info, Node* node, std::vector<Array>& made) {
    if (!info.vmap) fail(MLXC_ERROR_VALUE, "vmap: the op ", info.name, " cannot be batched");
    const auto outputs = operands_.outputs();
    info.vmap(
        Vmap{&info, inputs_, batched_, outputs, size_, node->params_size ? node->params_data() : nullptr,
             node->multi ? node->multi->attachment.get() : nullptr},
        made.data());
    for (size_t k = 0; k < made.size(); k++) {
      const Sizes needed = prepend_size(size_, outputs[k].sizes());
      if (!made[k] || !(to_dims(needed) == made[k].dims()) || made[k].dtype() != outputs[k].dtype())
        fail(MLXC_ERROR_RUNTIME, info.name, ": its batching rule gave ",
             made[k] ? cat(dtype_name(made[k].dtype()), shape_text(made[k].shape())) : "nothing", ", not ",
             dtype_name(outputs[k].dtype()), shape_text(to_dims(needed)));
    }
  }

  // Nothing happens to a batch of no examples, so no rule need think of it.
  void make_empty(std::vector<Array>& made) {
    const auto outputs = operands_.outputs();
    for (size_t k = 0; k < made.size(); k++)
      made[k] = zeros(to_dims(prepend_size(0, outputs[k].sizes())).span(), outputs[k].dtype());
  }

  const Tape& tape_;
  const int64_t size_;
  std::vector<Array> values_;
  std::unordered_map<int32_t, std::vector<Array>> parts_;  // of ops with several outputs
  Operands operands_;
  std::vector<Array> inputs_;
  std::vector<uint8_t> batched_;
};

// Output i with the batch where the caller wants it.
Array place_batch(size_t i, const Array& batched, const Array& recorded, int32_t out_axis, int64_t size) {
  if (out_axis == MLXC_NOT_BATCHED) {
    if (!batched) return recorded;
    fail(MLXC_ERROR_VALUE, "vmap: out_axes says that output ", i, " of shape ", shape_text(recorded.shape()),
         " is not batched, but it depends on a batched input");
  }
  const int ndim = recorded.ndim() + 1;
  if (out_axis < -ndim || out_axis >= ndim)
    fail(MLXC_ERROR_AXIS, "vmap: out_axes is ", out_axis, " for output ", i, ", which has shape ",
         shape_text(recorded.shape()), " without the batch");
  const Array whole = batched ? batched : repeat_batch(recorded, size);
  return move_axis(whole, 0, out_axis < 0 ? out_axis + ndim : out_axis);
}

}  // namespace

std::vector<Array> vmap(const Function& fn, std::span<const Array> inputs, std::span<const int32_t> in_axes,
                        const std::function<std::vector<int32_t>(size_t n_outputs)>& out_axes) {
  const Batch batch = find_batch(inputs, in_axes);
  Trace trace;
  std::vector<Array> arguments, stand_ins;
  for (size_t i = 0; i < inputs.size(); i++) {
    arguments.push_back(batch.axes[i] < 0 ? inputs[i] : make_stand_in(inputs[i], batch.axes[i]));
    if (batch.axes[i] >= 0) stand_ins.push_back(arguments.back());
  }
  const std::vector<Array> recorded = fn(arguments);
  note_shape_read();  // by a rule
  const std::vector<int32_t> axes = out_axes(recorded.size());
  const Tape tape = make_tape(recorded, stand_ins);
  const Sweeping sweeping;
  BatchSweep sweep(tape, batch.size);
  for (size_t i = 0, next = 0; i < inputs.size(); i++)
    if (batch.axes[i] >= 0) sweep.seed(next++, move_axis(inputs[i], batch.axes[i], 0));
  sweep.run();
  std::vector<Array> outputs;
  for (size_t i = 0; i < recorded.size(); i++)
    outputs.push_back(place_batch(i, sweep.output(i), recorded[i], axes[i], batch.size));
  return outputs;
}

}  // namespace mlxc
