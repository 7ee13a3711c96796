// Implements vjp and jvp as sweeps over the graph that a function records.
//
// The primals are replaced by stand-ins, which are traced (core/tape.h); a sweep walks the tape once, calling
// the rule of each op. Rules record ops, so that what they make can be differentiated again by a transform
// further out.
#include "core/transform.h"

#include <algorithm>
#include <unordered_map>

#include "core/memory.h"
#include "core/op.h"
#include "core/ops/common.h"
#include "core/program.h"
#include "core/tape.h"
#include "mlxc/transform.h"

namespace mlxc {

namespace {

// The stand-in is a window on the primal, so that a transform further out sees through it.
std::vector<Array> make_stand_ins(std::span<const Array> primals) {
  std::vector<Array> stand_ins;
  for (const Array& primal : primals) {
    Array stand_in = op::reshape(primal, primal.sizes());
    stand_in->traced.store(1, std::memory_order_relaxed);
    follow_node(stand_in.node());
    stand_ins.push_back(std::move(stand_in));
  }
  return stand_ins;
}

void accumulate(Array& sum, Array part) {
  sum = sum ? add_given(std::move(sum), std::move(part)) : std::move(part);
}

class BackwardSweep {
 public:
  explicit BackwardSweep(const Tape& tape) : tape_(tape), cotangents_(tape.entries.size()) {}

  void seed(size_t output, Array cotangent) {
    const int32_t at = tape_.outputs[output];
    if (at >= 0) accumulate(cotangents_[at], std::move(cotangent));
  }

  void run() {
    for (size_t i = tape_.entries.size(); i-- > 0;) {
      const Tape::Entry& entry = tape_.entries[i];
      if (entry.primal >= 0) continue;
      if (entry.node->is_output) {
        pass_to_op(i);
      } else if (entry.node->multi ? parts_.contains(i) : static_cast<bool>(cotangents_[i])) {
        apply_rule(i);
      }
    }
  }

  Array result(size_t primal) { return cotangents_[primal]; }

 private:
  void pass_to_op(size_t i) {
    if (!cotangents_[i]) return;
    const Tape::Entry& entry = tape_.entries[i];
    const int32_t at = tape_.inputs_of(entry)[0];
    if (at < 0) return;
    auto& parts = parts_[at];
    parts.resize(tape_.entries[at].node->multi->results.size());
    accumulate(parts[entry.node->output_index], std::move(cotangents_[i]));
  }

  void apply_rule(size_t i) {
    const Tape::Entry& entry = tape_.entries[i];
    Node* node = entry.node;
    const OpInfo& info = op_table[node->op];
    if (!info.vjp) return;
    const auto positions = tape_.inputs_of(entry);
    operands_.take(node);
    const auto inputs = operands_.inputs(), outputs = operands_.outputs();
    if (node->multi) {
      given_ = std::move(parts_[i]);
    } else {
      given_.resize(1);
      given_[0] = std::move(cotangents_[i]);
    }
    wanted_.assign(node->n_inputs, false);
    for (uint32_t k = 0; k < node->n_inputs; k++) wanted_[k] = positions[k] >= 0;
    gradients_.clear();
    gradients_.resize(node->n_inputs);
    StreamScope scope(node->stream);
    info.vjp(Vjp{&info, inputs, outputs, given_, node->params_size ? node->params_data() : nullptr, wanted_,
                 node->multi ? node->multi->attachment.get() : nullptr},
             gradients_.data());
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      if (!wanted_[k] || !gradients_[k]) continue;
      Array gradient = std::move(gradients_[k]);
      const Array& input = inputs[k];
      if (info.elementwise && !same_shape(gradient, input)) gradient = sum_to(gradient, input.shape());
      if (!same_shape(gradient, input))
        fail(MLXC_ERROR_RUNTIME, info.name, ": its gradient has shape ", shape_text(gradient.shape()),
             ", not ", shape_text(input.shape()));
      if (gradient.dtype() != input.dtype()) gradient = op::astype(gradient, input.dtype());
      accumulate(cotangents_[positions[k]], std::move(gradient));
    }
  }

  const Tape& tape_;
  std::vector<Array> cotangents_;
  std::unordered_map<size_t, std::vector<Array>> parts_;  // of ops with several outputs
  Operands operands_;
  std::vector<Array> given_, gradients_;
  std::vector<bool> wanted_;
};

class ForwardSweep {
 public:
  explicit ForwardSweep(const Tape& tape) : tape_(tape), tangents_(tape.entries.size()) {}

  void seed(size_t primal, Array tangent) { tangents_[primal] = std::move(tangent); }

  void run() {
    for (size_t i = 0; i < tape_.entries.size(); i++) {
      const Tape::Entry& entry = tape_.entries[i];
      if (entry.primal >= 0) continue;
      if (entry.node->is_output) {
        auto parts = parts_.find(tape_.inputs_of(entry)[0]);
        if (parts != parts_.end()) tangents_[i] = parts->second[entry.node->output_index];
      } else {
        apply_rule(i);
      }
    }
  }

  Array tangent_of(size_t output) {
    const int32_t at = tape_.outputs[output];
    return at >= 0 ? tangents_[at] : Array();
  }

 private:
  void apply_rule(size_t i) {
    const Tape::Entry& entry = tape_.entries[i];
    Node* node = entry.node;
    const OpInfo& info = op_table[node->op];
    if (!info.jvp) return;
    given_.clear();
    given_.resize(node->n_inputs);
    bool any = false;
    const auto positions = tape_.inputs_of(entry);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      if (positions[k] >= 0) given_[k] = tangents_[positions[k]];
      any = any || given_[k];
    }
    if (!any) return;
    operands_.take(node);
    const auto inputs = operands_.inputs(), outputs = operands_.outputs();
    std::vector<Array> made(outputs.size());
    StreamScope scope(node->stream);
    info.jvp(Jvp{&info, inputs, outputs, given_, node->params_size ? node->params_data() : nullptr,
                 node->multi ? node->multi->attachment.get() : nullptr},
             made.data());
    for (size_t k = 0; k < made.size(); k++) {
      if (!made[k]) continue;
      if (!same_shape(made[k], outputs[k])) made[k] = op::broadcast_to(made[k], outputs[k].sizes());
      made[k] = cast_to(made[k], outputs[k].dtype());
    }
    if (node->multi)
      parts_[i] = std::move(made);
    else
      tangents_[i] = std::move(made[0]);
  }

  const Tape& tape_;
  std::vector<Array> tangents_;
  std::unordered_map<int32_t, std::vector<Array>> parts_;  // of ops with several outputs
  Operands operands_;
  std::vector<Array> given_;
};

}  // namespace

void check_like(const char* what, size_t index, const Array& given, const Array& like) {
  if (!given) fail(MLXC_ERROR_VALUE, what, " ", index, " is NULL");
  if (!same_shape(given, like))
    fail(MLXC_ERROR_VALUE, what, " ", index, " has shape ", shape_text(given.shape()), ", needed is ",
         shape_text(like.shape()));
}

Differentiated vjp(const Function& fn, std::span<const Array> primals,
                   const std::function<std::vector<Array>(std::span<const Array>)>& cotangents) {
  Trace trace;
  const std::vector<Array> stand_ins = make_stand_ins(primals);
  Differentiated result;
  result.outputs = fn(stand_ins);
  note_shape_read();  // by a rule
  const std::vector<Array> seeds = cotangents(result.outputs);
  const Tape tape = make_tape(result.outputs, stand_ins);
  const Sweeping sweeping;
  BackwardSweep sweep(tape);
  for (size_t i = 0; i < result.outputs.size(); i++)
    if (seeds[i]) sweep.seed(i, cast_to(seeds[i], result.outputs[i].dtype()));
  sweep.run();
  for (size_t i = 0; i < primals.size(); i++) {
    Array gradient = sweep.result(i);
    result.results.push_back(gradient ? std::move(gradient) : zeros_like(primals[i]));
  }
  return result;
}

Differentiated jvp(const Function& fn, std::span<const Array> primals, std::span<const Array> tangents) {
  for (size_t i = 0; i < primals.size(); i++) check_like("tangent", i, tangents[i], primals[i]);
  Trace trace;
  const std::vector<Array> stand_ins = make_stand_ins(primals);
  Differentiated result;
  result.outputs = fn(stand_ins);
  note_shape_read();  // by a rule
  const Tape tape = make_tape(result.outputs, stand_ins);
  const Sweeping sweeping;
  ForwardSweep sweep(tape);
  for (size_t i = 0; i < primals.size(); i++) sweep.seed(i, cast_to(tangents[i], primals[i].dtype()));
  sweep.run();
  for (size_t i = 0; i < result.outputs.size(); i++) {
    Array tangent = sweep.tangent_of(i);
    result.results.push_back(tangent ? std::move(tangent) : zeros_like(result.outputs[i]));
  }
  return result;
}

}  // namespace mlxc
