// Implements vjp and jvp as sweeps over the graph that a function records.
//
// The primals are replaced by stand-ins, which are marked traced; every node recorded from a traced node
// is traced too and keeps its inputs. The tape is what lies between the outputs and the stand-ins, in
// topological order; a sweep walks it once, calling the rule of each op. Rules record ops, so that what
// they make can be differentiated again by a transform further out.
#include "core/transform.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "core/memory.h"
#include "core/op.h"
#include "core/ops/common.h"
#include "core/schedule.h"
#include "mlxc/transform.h"

namespace mlxc {

namespace {

struct Entry {
  Node* node;
  int32_t inputs;  // where its inputs' tape positions begin in Tape::positions
  int32_t primal;  // index of the primal it stands for, else -1
};

struct Tape {
  std::vector<Entry> entries;      // inputs before users
  std::vector<int32_t> positions;  // -1: not followed

  std::span<const int32_t> inputs_of(const Entry& entry) const {
    return {positions.data() + entry.inputs, entry.primal >= 0 ? 0 : entry.node->n_inputs};
  }
};

// Nodes that this thread's transforms followed, until its outermost one ends.
struct Followed {
  int depth = 0;
  bool last_sweep = false;  // in the sweep of the outermost transform
  std::vector<Array> nodes;
};
thread_local Followed followed;

// Counts as tracing while in scope. A thread's outermost trace makes what was followed ordinary again, so
// that computed arrays do not hold on to their graph. What that releases is released without the lock:
// callbacks may be among it.
class Trace {
 public:
  Trace() {
    active_traces.fetch_add(1);
    followed.depth++;
  }
  ~Trace() {
    active_traces.fetch_sub(1);
    if (--followed.depth > 0) return;
    std::vector<Array> nodes = std::move(followed.nodes);
    followed.nodes.clear();
    std::vector<Node*> computed;
    {
      std::lock_guard hold(schedule_lock());
      for (const Array& node : nodes) {
        const uint8_t state = node->state.load(std::memory_order_acquire);
        const bool traced = node->traced.load(std::memory_order_relaxed);
        // One that is computed from here on gives up its own inputs.
        node->traced.store(0, std::memory_order_release);
        if (traced && (state == state_ready || state == state_failed)) computed.push_back(node.node());
      }
    }
    for (Node* node : computed) detach_inputs(node);
    nodes.clear();
    // The room is used again by the next transform, unless a callback has just run one.
    if (followed.depth == 0 && followed.nodes.empty()) followed.nodes.swap(nodes);
  }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
};

// In scope while a transform sweeps.
class Sweeping {
 public:
  Sweeping() : before_(std::exchange(followed.last_sweep, followed.depth == 1)) {}
  ~Sweeping() { followed.last_sweep = before_; }
  Sweeping(const Sweeping&) = delete;
  Sweeping& operator=(const Sweeping&) = delete;

 private:
  bool before_;
};

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

// Positions are kept in `mark` while the lock is held; a mark counts only if the tape agrees.
Tape make_tape(std::span<const Array> outputs, std::span<const Array> stand_ins) {
  Tape tape;
  std::lock_guard hold(schedule_lock());
  auto position = [&](Node* node) -> int32_t {
    const uint32_t at = node->mark;
    return at < tape.entries.size() && tape.entries[at].node == node ? static_cast<int32_t>(at) : -1;
  };
  auto enter = [&](Node* node, int32_t primal) {
    node->mark = static_cast<uint32_t>(tape.entries.size());
    tape.entries.push_back({node, static_cast<int32_t>(tape.positions.size()), primal});
    if (primal >= 0) return;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
      Node* input = node->inputs_data()[i];
      tape.positions.push_back(input && input->traced.load(std::memory_order_relaxed) ? position(input) : -1);
    }
  };
  for (size_t i = 0; i < stand_ins.size(); i++) enter(stand_ins[i].node(), static_cast<int32_t>(i));
  struct Visit {
    Node* node;
    uint32_t next;
    bool depends;
  };
  thread_local std::vector<Visit> stack;
  // Nodes that were looked at and do not depend on a primal get no entry; their marks point at a dead slot.
  std::vector<Node*> dead;
  constexpr uint32_t dead_base = 1u << 31;
  auto is_dead = [&](Node* node) {
    const uint32_t at = node->mark - dead_base;
    return node->mark >= dead_base && at < dead.size() && dead[at] == node;
  };
  auto push = [&](Node* node) {
    if (node->traced.load(std::memory_order_relaxed)) stack.push_back({node, 0, false});
  };
  for (const Array& output : outputs) {
    if (position(output.node()) >= 0 || is_dead(output.node())) continue;
    push(output.node());
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next < top.node->n_inputs) {
        Node* input = top.node->inputs_data()[top.next];
        if (input && position(input) >= 0) {
          top.depends = true;
        } else if (input && input->traced.load(std::memory_order_relaxed) && !is_dead(input)) {
          push(input);
          continue;  // comes back to this input when it has been decided
        }
        top.next++;
        continue;
      }
      const Visit done = top;
      stack.pop_back();
      if (position(done.node) >= 0 || is_dead(done.node)) continue;
      if (done.depends) {
        enter(done.node, -1);
      } else {
        done.node->mark = dead_base + static_cast<uint32_t>(dead.size());
        dead.push_back(done.node);
      }
    }
  }
  return tape;
}

bool same_shape(const Array& a, const Array& b) {
  return a.ndim() == b.ndim() && std::equal(a.shape().begin(), a.shape().end(), b.shape().begin());
}

// An op's inputs and outputs as handles for its rule. They count no references, which would cost more than
// the rule: the tape's outputs hold every node of it, and a followed node holds its inputs. The lists are
// used again from op to op.
class Operands {
 public:
  ~Operands() { clear(); }
  void take(Node* node) {
    clear();
    for (uint32_t i = 0; i < node->n_inputs; i++) inputs_.push_back(Array::adopt(node->inputs_data()[i]));
    if (!node->multi) {
      outputs_.push_back(Array::adopt(node));
    } else {
      for (size_t i = 0; i < node->multi->results.size(); i++)
        made_.push_back(output_of(node, static_cast<int>(i)));
    }
  }
  std::span<const Array> inputs() const { return inputs_; }
  std::span<const Array> outputs() const { return made_.empty() ? outputs_ : made_; }

 private:
  void clear() {
    for (Array& input : inputs_) input.give_up();
    for (Array& output : outputs_) output.give_up();
    inputs_.clear();
    outputs_.clear();
    made_.clear();
  }
  std::vector<Array> inputs_, outputs_;
  std::vector<Array> made_;  // of an op with several outputs: these are references of our own
};

void accumulate(Array& sum, Array part) { sum = sum ? op::add(sum, part) : std::move(part); }

class BackwardSweep {
 public:
  explicit BackwardSweep(const Tape& tape) : tape_(tape), cotangents_(tape.entries.size()) {}

  void seed(Node* output, Array cotangent) {
    for (size_t i = tape_.entries.size(); i-- > 0;) {
      if (tape_.entries[i].node != output) continue;
      accumulate(cotangents_[i], std::move(cotangent));
      return;
    }
  }

  void run() {
    for (size_t i = tape_.entries.size(); i-- > 0;) {
      const Entry& entry = tape_.entries[i];
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
    const Entry& entry = tape_.entries[i];
    const int32_t at = tape_.inputs_of(entry)[0];
    if (at < 0) return;
    auto& parts = parts_[at];
    parts.resize(tape_.entries[at].node->multi->results.size());
    accumulate(parts[entry.node->output_index], std::move(cotangents_[i]));
  }

  void apply_rule(size_t i) {
    const Entry& entry = tape_.entries[i];
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
    info.vjp(Vjp{&info, inputs, outputs, given_, node->params_size ? node->params_data() : nullptr, wanted_},
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
      const Entry& entry = tape_.entries[i];
      if (entry.primal >= 0) continue;
      if (entry.node->is_output) {
        auto parts = parts_.find(tape_.inputs_of(entry)[0]);
        if (parts != parts_.end()) tangents_[i] = parts->second[entry.node->output_index];
      } else {
        apply_rule(i);
      }
    }
  }

  Array tangent_of(Node* node) {
    for (size_t i = tape_.entries.size(); i-- > 0;)
      if (tape_.entries[i].node == node) return tangents_[i];
    return Array();
  }

 private:
  void apply_rule(size_t i) {
    const Entry& entry = tape_.entries[i];
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
    info.jvp(Jvp{&info, inputs, outputs, given_, node->params_size ? node->params_data() : nullptr},
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

bool follows_here() { return active_traces.load(std::memory_order_relaxed) > 0 && !followed.last_sweep; }

void follow_node(Node* node) {
  if (followed.depth > 0) followed.nodes.push_back(Array::borrow(node));
}

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
  const std::vector<Array> seeds = cotangents(result.outputs);
  const Tape tape = make_tape(result.outputs, stand_ins);
  const Sweeping sweeping;
  BackwardSweep sweep(tape);
  for (size_t i = 0; i < result.outputs.size(); i++)
    if (seeds[i]) sweep.seed(result.outputs[i].node(), cast_to(seeds[i], result.outputs[i].dtype()));
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
  const Tape tape = make_tape(result.outputs, stand_ins);
  const Sweeping sweeping;
  ForwardSweep sweep(tape);
  for (size_t i = 0; i < primals.size(); i++) sweep.seed(i, cast_to(tangents[i], primals[i].dtype()));
  sweep.run();
  for (const Array& output : result.outputs) {
    Array tangent = sweep.tangent_of(output.node());
    result.results.push_back(tangent ? std::move(tangent) : zeros_like(output));
  }
  return result;
}

}  // namespace mlxc
