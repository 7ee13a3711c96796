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

void check_like(const char* what, size_t index, const Array& given, const Array& like) {
  if (!given) fail(MLXC_ERROR_VALUE, what, " ", index, " is NULL");
  if (!same_shape(given, like))
    fail(MLXC_ERROR_VALUE, what, " ", index, " has shape ", shape_text(given.shape()), ", needed is ",
         shape_text(like.shape()));
}

}  // namespace

bool follows_here() { return active_traces.load(std::memory_order_relaxed) > 0 && !followed.last_sweep; }

void follow_node(Node* node) {
  if (followed.depth > 0) followed.nodes.push_back(Array::borrow(node));
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

// ---- the C functions -----------------------------------------------------------------------------

struct mlxc_arrays {
  std::vector<mlxc::Array> items;
};

using namespace mlxc;

namespace {

Function wrap_closure(const char* name, const mlxc_closure* closure) {
  if (!closure || closure->struct_size < sizeof(mlxc_closure) || !closure->call)
    fail(MLXC_ERROR_VALUE, name, ": the closure is NULL, has no call, or its struct_size is not set");
  return [closure](std::span<const Array> inputs) {
    std::vector<mlxc_array*> handles;
    for (const Array& input : inputs) handles.push_back(input.node());
    mlxc_arrays outputs;
    throw_error(closure->call(closure->context, handles.data(), handles.size(), &outputs));
    return std::move(outputs.items);
  };
}

std::vector<Array> take_handles(const char* name, mlxc_array* const* handles, size_t count) {
  if (count && !handles) fail(MLXC_ERROR_VALUE, name, ": the list of arrays is NULL");
  std::vector<Array> arrays;
  for (size_t i = 0; i < count; i++) {
    if (!handles[i]) fail(MLXC_ERROR_VALUE, name, ": array ", i, " is NULL");
    arrays.push_back(Array::borrow(handles[i]));
  }
  return arrays;
}

void put(mlxc_arrays* list, std::vector<Array>& arrays) {
  if (list) list->items.insert(list->items.end(), arrays.begin(), arrays.end());
}

Differentiated value_and_grad(const char* name, const mlxc_closure* closure, mlxc_array* const* inputs,
                              size_t n_inputs, const size_t* argnums, size_t n_argnums) {
  const Function fn = wrap_closure(name, closure);
  const std::vector<Array> all = take_handles(name, inputs, n_inputs);
  std::vector<size_t> chosen;
  if (argnums) {
    chosen.assign(argnums, argnums + n_argnums);
  } else {
    for (size_t i = 0; i < n_inputs; i++) chosen.push_back(i);
  }
  std::vector<Array> primals;
  std::vector<bool> seen(n_inputs);
  for (size_t index : chosen) {
    if (index >= n_inputs) fail(MLXC_ERROR_VALUE, name, ": argnum ", index, " of ", n_inputs, " inputs");
    if (seen[index]) fail(MLXC_ERROR_VALUE, name, ": argnum ", index, " is named twice");
    seen[index] = true;
    primals.push_back(all[index]);
  }
  return vjp(
      [&](std::span<const Array> stand_ins) {
        std::vector<Array> arguments = all;
        for (size_t i = 0; i < chosen.size(); i++) arguments[chosen[i]] = stand_ins[i];
        return fn(arguments);
      },
      primals,
      [&](std::span<const Array> outputs) {
        if (outputs.empty()) fail(MLXC_ERROR_VALUE, name, ": the function gave no output");
        if (outputs[0].size() != 1)
          fail(MLXC_ERROR_VALUE, name, ": the first output must have one element, its shape is ",
               shape_text(outputs[0].shape()));
        std::vector<Array> seeds(outputs.size());
        seeds[0] = op::full(scalar(1, outputs[0].dtype()), outputs[0].sizes());
        return seeds;
      });
}

}  // namespace

extern "C" {

mlxc_arrays* mlxc_arrays_new(void) { return new (std::nothrow) mlxc_arrays; }
void mlxc_arrays_free(mlxc_arrays* list) { delete list; }
size_t mlxc_arrays_count(const mlxc_arrays* list) { return list ? list->items.size() : 0; }
mlxc_array* mlxc_arrays_get(const mlxc_arrays* list, size_t index) {
  return list && index < list->items.size() ? list->items[index].node() : nullptr;
}
mlxc_error* mlxc_arrays_append(mlxc_arrays* list, mlxc_array* array) {
  return guard([&] {
    if (!list || !array) fail(MLXC_ERROR_VALUE, "mlxc_arrays_append: list or array is NULL");
    list->items.push_back(Array::borrow(array));
  });
}

mlxc_error* mlxc_vjp(const mlxc_closure* closure, mlxc_array* const* primals, size_t n_primals,
                     mlxc_array* const* cotangents, size_t n_cotangents, mlxc_arrays* outputs,
                     mlxc_arrays* vjps) {
  return guard([&] {
    const Function fn = wrap_closure("mlxc_vjp", closure);
    const std::vector<Array> given = take_handles("mlxc_vjp", cotangents, n_cotangents);
    Differentiated result =
        vjp(fn, take_handles("mlxc_vjp", primals, n_primals), [&](std::span<const Array> made) {
          if (made.size() != given.size())
            fail(MLXC_ERROR_VALUE, "mlxc_vjp: the function gave ", made.size(), " outputs, there are ",
                 given.size(), " cotangents");
          for (size_t i = 0; i < given.size(); i++) check_like("mlxc_vjp: cotangent", i, given[i], made[i]);
          return given;
        });
    put(outputs, result.outputs);
    put(vjps, result.results);
  });
}

mlxc_error* mlxc_jvp(const mlxc_closure* closure, mlxc_array* const* primals, mlxc_array* const* tangents,
                     size_t n_primals, mlxc_arrays* outputs, mlxc_arrays* jvps) {
  return guard([&] {
    const Function fn = wrap_closure("mlxc_jvp", closure);
    Differentiated result =
        jvp(fn, take_handles("mlxc_jvp", primals, n_primals), take_handles("mlxc_jvp", tangents, n_primals));
    put(outputs, result.outputs);
    put(jvps, result.results);
  });
}

mlxc_error* mlxc_value_and_grad(const mlxc_closure* closure, mlxc_array* const* inputs, size_t n_inputs,
                                const size_t* argnums, size_t n_argnums, mlxc_arrays* outputs,
                                mlxc_arrays* gradients) {
  return guard([&] {
    Differentiated result =
        value_and_grad("mlxc_value_and_grad", closure, inputs, n_inputs, argnums, n_argnums);
    put(outputs, result.outputs);
    put(gradients, result.results);
  });
}

mlxc_error* mlxc_grad(const mlxc_closure* closure, mlxc_array* const* inputs, size_t n_inputs,
                      const size_t* argnums, size_t n_argnums, mlxc_arrays* gradients) {
  return guard([&] {
    Differentiated result = value_and_grad("mlxc_grad", closure, inputs, n_inputs, argnums, n_argnums);
    put(gradients, result.results);
  });
}

}  // extern "C"
