// checkpoint: the results of a function whose intermediates are not kept for the reverse sweep. The inputs
// are the function's, then what else it read that a transform follows, then its results as it recorded them;
// the outputs share the values of the latter. The vjp rule records the way from the former to the latter
// again.
#include <algorithm>
#include <unordered_set>

#include "core/custom.h"
#include "core/execute.h"
#include "core/memory.h"
#include "core/ops/common.h"
#include "core/ops/depends.h"
#include "core/tape.h"

namespace mlxc {

namespace {

bool is_traced(const Node* node) { return node->traced.load(std::memory_order_relaxed); }

// Followed arrays that what lies between the inputs and the results reads, beside the inputs.
std::vector<Array> find_captured(const Tape& tape) {
  std::vector<Array> captured;
  std::unordered_set<Node*> known;
  for (const Tape::Entry& entry : tape.entries) {
    if (entry.primal >= 0) continue;
    const auto positions = tape.inputs_of(entry);
    for (uint32_t i = 0; i < entry.node->n_inputs; i++) {
      Node* input = entry.node->inputs_data()[i];
      if (positions[i] < 0 && is_traced(input) && known.insert(input).second)
        captured.push_back(Array::borrow(input));
    }
  }
  return captured;
}

std::vector<Array> record_checkpoint(std::span<const Array> inputs, std::span<const Array> results) {
  std::vector<Array> all(inputs.begin(), inputs.end());
  all.insert(all.end(), results.begin(), results.end());
  std::vector<OutSpec> specs;
  for (const Array& result : results) specs.push_back({result.dtype(), result.dims()});
  return record_run(MLXC_OP_CHECKPOINT, all, specs, nullptr);
}

// Records a node again with other inputs; an op's outputs in a row.
std::vector<Array> record_again(const Node* node, std::span<const Array> inputs) {
  const OpInfo& info = op_table[node->op];
  const StreamScope scope(node->stream);
  if (info.run) {
    std::vector<OutSpec> specs;
    for (const MultiResult::Result& result : node->multi->results)
      specs.push_back({result.dtype, result.shape});
    return record_run(node->op, inputs, specs, node->multi->attachment);
  }
  std::vector<Node*> nodes;
  for (const Array& input : inputs) nodes.push_back(input.node());
  SmallArray<Node*, 2> made(info.n_outputs);
  record_nodes(node->op, nodes.data(), static_cast<int>(nodes.size()), node->params_data(), node->stream,
               made.data());
  std::vector<Array> outputs;
  for (int i = 0; i < info.n_outputs; i++) outputs.push_back(Array::adopt(made[i]));
  return outputs;
}

// The results for other starts.
std::vector<Array> replay(const Tape& tape, std::span<const Array> starts, std::span<const Array> results) {
  std::vector<std::vector<Array>> values(tape.entries.size());
  for (size_t i = 0; i < tape.entries.size(); i++) {
    const Tape::Entry& entry = tape.entries[i];
    if (entry.primal >= 0) {
      values[i] = {starts[entry.primal]};
      continue;
    }
    const auto positions = tape.inputs_of(entry);
    if (entry.node->is_output) {
      values[i] = {values[positions[0]][entry.node->output_index]};
      continue;
    }
    std::vector<Array> inputs;
    for (uint32_t k = 0; k < entry.node->n_inputs; k++)
      inputs.push_back(positions[k] >= 0 ? values[positions[k]][0]
                                         : Array::borrow(entry.node->inputs_data()[k]));
    values[i] = record_again(entry.node, inputs);
  }
  std::vector<Array> made;
  for (size_t i = 0; i < results.size(); i++)
    made.push_back(tape.outputs[i] >= 0 ? values[tape.outputs[i]][0] : results[i]);
  return made;
}

}  // namespace

std::vector<Array> call_checkpointed(const Function& fn, std::span<const Array> inputs) {
  const std::vector<Array> results = fn(inputs);
  std::vector<Array> starts;
  for (const Array& input : inputs)
    if (is_traced(input.node())) starts.push_back(input);
  if (starts.empty() || results.empty()) return results;
  const std::vector<Array> captured = find_captured(make_tape(results, starts));
  starts.insert(starts.end(), captured.begin(), captured.end());
  return record_checkpoint(starts, results);
}

void run_checkpoint(Node* node) {
  const size_t n_outputs = node->multi->results.size(), n_inputs = node->n_inputs - n_outputs;
  for (size_t i = 0; i < n_outputs; i++) lay_result(node, i, *node->inputs_data()[n_inputs + i]);
}

void vjp_checkpoint(const Vjp& rule, Array* grads) {
  const size_t n_outputs = rule.outputs.size(), n_inputs = rule.inputs.size() - n_outputs;
  const auto results = rule.inputs.subspan(n_inputs);
  // What does not depend on a followed start is no intermediate of this call.
  std::vector<size_t> places;
  std::vector<Array> starts, cotangents;
  for (size_t i = 0; i < n_inputs; i++) {
    if (!is_traced(rule.inputs[i].node())) continue;
    places.push_back(i);
    starts.push_back(rule.inputs[i]);
  }
  for (const Array& cotangent : rule.cotangents)
    if (cotangent) cotangents.push_back(cotangent);
  const Tape tape = make_tape(results, starts);
  // The sweep of the results as recorded is right always; it is what is left where another transform has
  // rewritten the way, so that it no longer begins at the inputs.
  const bool whole = find_captured(tape).empty();
  for (size_t i = 0; i < n_outputs; i++)
    if (!whole || tape.outputs[i] < 0) grads[n_inputs + i] = rule.cotangents[i];
  if (!whole) return;
  // Not before the cotangents are there: then the first computation is over.
  const std::vector<Array> later = depends(starts, cotangents);
  Differentiated made =
      vjp([&](std::span<const Array> stand_ins) { return replay(tape, stand_ins, results); }, later,
          [&](std::span<const Array>) {
            return std::vector<Array>(rule.cotangents.begin(), rule.cotangents.end());
          });
  for (size_t k = 0; k < places.size(); k++) grads[places[k]] = std::move(made.results[k]);
}

void jvp_checkpoint(const Jvp& jvp, Array* out_tangents) {
  const size_t n_outputs = jvp.outputs.size(), n_inputs = jvp.inputs.size() - n_outputs;
  for (size_t i = 0; i < n_outputs; i++) out_tangents[i] = jvp.tangents[n_inputs + i];
}

void vmap_checkpoint(const Vmap& vmap, Array* results) {
  const size_t n_outputs = vmap.outputs.size(), n_inputs = vmap.inputs.size() - n_outputs;
  std::vector<Array> made = record_checkpoint(vmap.inputs.first(n_inputs), vmap.inputs.subspan(n_inputs));
  for (size_t i = 0; i < n_outputs; i++)
    results[i] = vmap.batched[n_inputs + i] ? std::move(made[i]) : repeat_batch(made[i], vmap.size);
}

}  // namespace mlxc
