// Control flow that a trace can hold: each construct records one node, whose attachment has its functions as
// programs. Arrays that the functions read besides their arguments become inputs of the node, so that every
// transform follows them.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "core/program.h"

namespace mlxc {

// when_true(operands) or when_false(operands), whichever `pred` (a scalar) says when the node runs. Both give
// arrays of the same dtypes and shapes.
std::vector<Array> cond(const Array& pred, const Function& when_true, const Function& when_false,
                        std::span<const Array> operands);

// carry = body(carry) as long as condition(carry), a scalar, is true. The carry keeps its dtypes and shapes.
std::vector<Array> while_loop(const Function& condition, const Function& body, std::span<const Array> init);

// For each of `length` steps: (carry, y) = body(carry, x), x being an element of the first axis of xs. Gives
// the last carry, then the ys of all steps stacked. In reverse the last x is first; ys stay beside their xs.
std::vector<Array> scan_loop(const Function& body, std::span<const Array> init, std::span<const Array> xs,
                             int64_t length, bool reverse);

// ---- what the rules of the constructs share (core/ops/control.cc) ---------------------------------------

// A function as a program of some of a node's inputs.
struct Branch {
  ProgramPtr program;
  std::vector<uint32_t> takes;  // which inputs it is called with, in their order

  // Records its steps, to be transformed.
  std::vector<Array> replay(std::span<const Array> inputs) const;
  // Computes it, on the current stream.
  std::vector<Array> run(std::span<const Array> inputs) const;
};

// Traces a function of arrays like the first inputs (as many as `specs`); what it reads besides is appended
// to the inputs.
Branch make_branch(const Function& fn, std::span<const OutSpec> specs, std::vector<Array>* inputs);

OutSpec spec_of(const Array& array);
std::vector<OutSpec> specs_of(std::span<const Array> arrays);
// The dtypes and shapes of what it gives.
std::vector<OutSpec> results_of(const Branch& branch);
// "float32(2, 3)"
std::string spec_text(const OutSpec& spec);
bool same_spec(const OutSpec& a, const OutSpec& b);

// A ready array without a graph that shares the values of a ready node: what a running node hands on.
Array make_leaf(const Node& node);
// The same for one element of its first axis.
Array make_leaf_at(const Node& node, int64_t index);
// The node's inputs as leaves.
std::vector<Array> leaves_of(Node* node);
// Computes the arrays.
void run_all(std::span<const Array> arrays);
// Evaluates the scalar and reads it.
bool read_truth(const Array& scalar);

// fn for each example of a batch; results have the batch as first axis whether they depend on it or not.
std::vector<Array> map_batch(const Function& fn, std::span<const Array> inputs,
                             std::span<const uint8_t> batched, int64_t size);
// where() with one truth value for each example.
Array choose(const Array& truths, const Array& when_true, const Array& when_false);

// Places of the arrays that are there, and may have a derivative.
std::vector<size_t> find_tangents(std::span<const Array> arrays);
// The arrays with some of them replaced.
std::vector<Array> replace(std::span<const Array> arrays, std::span<const size_t> places,
                           std::span<const Array> by);
std::vector<Array> pick(std::span<const Array> arrays, std::span<const size_t> places);

}  // namespace mlxc
