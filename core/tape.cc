// Implements tape.h.
#include "core/tape.h"

#include <algorithm>
#include <mutex>

#include "core/device.h"
#include "core/dims.h"
#include "core/memory.h"
#include "core/record.h"
#include "core/schedule.h"

namespace mlxc {

namespace {

// Nodes that this thread's transforms followed, until its outermost one ends.
struct Followed {
  int depth = 0;
  bool last_sweep = false;  // in the sweep of the outermost transform
  std::vector<Array> nodes;
};
thread_local Followed followed;

}  // namespace

bool follows_here() { return active_traces.load(std::memory_order_relaxed) > 0 && !followed.last_sweep; }

void follow_node(Node* node) {
  if (followed.depth > 0) followed.nodes.push_back(Array::borrow(node));
}

Array make_placeholder(mlxc_dtype dtype, std::span<const int64_t> shape, Stream* stream) {
  const int64_t size = checked_size("placeholder", shape, dtype_size(dtype));
  Array node = Array::adopt(make_node(static_cast<int>(shape.size()), 0, 0));
  node->dtype = static_cast<uint8_t>(dtype);
  node->size = size;
  node->stream = stream ? stream : current_stream();
  std::copy(shape.begin(), shape.end(), node->shape_data());
  std::fill_n(node->strides_data(), shape.size(), 0);
  node->traced.store(1, std::memory_order_relaxed);
  follow_node(node.node());
  return node;
}

// A rule of the outermost sweep may call a function that transforms: what that traces is followed.
Trace::Trace() : sweeping_before_(std::exchange(followed.last_sweep, false)) {
  active_traces.fetch_add(1);
  followed.depth++;
}

// What this releases is released without the lock: callbacks may be among it.
Trace::~Trace() {
  followed.last_sweep = sweeping_before_;
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

Sweeping::Sweeping() : before_(std::exchange(followed.last_sweep, followed.depth == 1)) {}
Sweeping::~Sweeping() { followed.last_sweep = before_; }

Untraced::Untraced() : before_(std::exchange(followed.last_sweep, true)) {}
Untraced::~Untraced() { followed.last_sweep = before_; }

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
  for (const Array& output : outputs) tape.outputs.push_back(position(output.node()));
  return tape;
}

void Operands::take(Node* node) {
  clear();
  for (uint32_t i = 0; i < node->n_inputs; i++) inputs_.push_back(Array::adopt(node->inputs_data()[i]));
  if (!node->multi) {
    outputs_.push_back(Array::adopt(node));
  } else {
    for (size_t i = 0; i < node->multi->results.size(); i++)
      made_.push_back(output_of(node, static_cast<int>(i)));
  }
}

void Operands::clear() {
  for (Array& input : inputs_) input.give_up();
  for (Array& output : outputs_) output.give_up();
  inputs_.clear();
  outputs_.clear();
  made_.clear();
}

bool same_shape(const Array& a, const Array& b) { return std::ranges::equal(a.shape(), b.shape()); }

}  // namespace mlxc
