// Following what a function records, which is what every transform begins with: the nodes that are traced,
// the placeholders that a function may be called with, and the tape of what it recorded in order.
//
// Rule: a node recorded from a traced node is traced too and keeps its inputs, until this thread's outermost
// transform ends.
#pragma once

#include <span>
#include <vector>

#include "core/node.h"

namespace mlxc {

// Tells the transform that this thread is in of a traced node that it recorded: when the outermost one ends
// the node becomes ordinary.
void follow_node(Node* node);
// Whether what this thread records from traced nodes is to be traced: some transform runs, and this thread
// is not in the sweep of its outermost one, whose results nobody differentiates again.
bool follows_here();

// While in scope, what this thread records is followed by no transform.
class Untraced {
 public:
  Untraced();
  ~Untraced();
  Untraced(const Untraced&) = delete;
  Untraced& operator=(const Untraced&) = delete;

 private:
  bool before_;
};

// A leaf that stands for an input while a function is traced, and has no value: evaluating it, or what
// depends on it, is MLXC_ERROR_VALUE and leaves everything as it was. It is traced and followed. A null
// stream is the current one.
Array make_placeholder(mlxc_dtype dtype, std::span<const int64_t> shape, Stream* stream);

// Counts as tracing while in scope. A thread's outermost trace makes what was followed ordinary again, so
// that computed arrays do not hold on to their graph.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

 private:
  bool sweeping_before_;
};

// In scope while a transform sweeps.
class Sweeping {
 public:
  Sweeping();
  ~Sweeping();
  Sweeping(const Sweeping&) = delete;
  Sweeping& operator=(const Sweeping&) = delete;

 private:
  bool before_;
};

// What lies between a function's outputs and the stand-ins that it was called with, inputs before users. Only
// what depends on a stand-in is on it. It counts no references: whoever made it holds the outputs.
struct Tape {
  struct Entry {
    Node* node;
    int32_t inputs;  // where its inputs' tape positions begin in Tape::positions
    int32_t primal;  // index of the stand-in that it is, else -1
  };
  std::vector<Entry> entries;
  std::vector<int32_t> positions;  // -1: does not depend on a stand-in
  std::vector<int32_t> outputs;    // the position of each output, or -1

  std::span<const int32_t> inputs_of(const Entry& entry) const {
    return {positions.data() + entry.inputs, entry.primal >= 0 ? 0 : entry.node->n_inputs};
  }
};

// The stand-ins are traced, and so is everything recorded from them.
Tape make_tape(std::span<const Array> outputs, std::span<const Array> stand_ins);

// An op's inputs and outputs as handles for its rule. They count no references, which would cost more than
// the rule: the tape's outputs hold every node of it, and a followed node holds its inputs. The lists are
// used again from op to op.
class Operands {
 public:
  Operands() = default;
  ~Operands() { clear(); }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  void take(Node* node);
  std::span<const Array> inputs() const { return inputs_; }
  std::span<const Array> outputs() const { return made_.empty() ? outputs_ : made_; }

 private:
  void clear();
  std::vector<Array> inputs_, outputs_;
  std::vector<Array> made_;  // of an op with several outputs: these are references of our own
};

bool same_shape(const Array& a, const Array& b);

}  // namespace mlxc
