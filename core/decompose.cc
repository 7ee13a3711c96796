// Implements decomposition (decompose.h). The rule records a small graph on the node's inputs, which are
// computed already; it is run at once, within the batch that runs the node, and the node takes its buffers
// over.
//
// Rule: all or nothing. A graph with one op that would go to the CPU would copy back and forth in the middle,
// where the CPU's own kernel copies once; so it is looked through before anything runs.
#include "core/decompose.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/device.h"
#include "core/memory.h"
#include "core/op.h"
#include "core/record.h"
#include "core/registry.h"
#include "core/schedule.h"
#include "core/tape.h"

namespace mlxc {

namespace {

std::vector<Array> decompose(const Node* node) {
  const OpInfo& info = op_table[node->op];
  std::vector<Array> inputs, results(static_cast<size_t>(info.n_outputs));
  for (uint32_t i = 0; i < node->n_inputs; i++)
    inputs.push_back(Array::borrow(const_cast<Node*>(node)->inputs_data()[i]));
  const StreamScope scope(node->stream);
  const Untraced untraced;
  info.decompose({&info, inputs, node->params_size ? node->params_data() : nullptr}, results.data());
  if (!results[0]) results.clear();
  return results;
}

// Whether the device computes the recorded node and what it needs by itself. A kernel that looks at more than
// dtypes may still refuse its call, and that op then goes to the CPU like any other.
bool runs_on(Device* device, Node* node) {
  if (node->state.load(std::memory_order_acquire) == state_ready) return true;
  const OpInfo& info = op_table[node->op];
  const mlxc_dtype dtype = node->n_inputs ? node->inputs_data()[0]->dtype : node->dtype;
  if (!info.view && !device->backend->first[node->op][dtype]) {
    if (!info.decompose) return false;
    const std::vector<Array> parts = decompose(node);
    if (parts.empty()) return false;
    for (const Array& part : parts)
      if (!runs_on(device, part.node())) return false;
  }
  for (uint32_t i = 0; i < node->n_inputs; i++)
    if (!runs_on(device, node->inputs_data()[i])) return false;
  return true;
}

void take_over(Node* node, Node* made) {
  if (made->dtype != node->dtype || Dims(made->shape()) != Dims(node->shape()))
    fail(MLXC_ERROR_RUNTIME, op_table[node->op].name, ": its decomposition gives ", dtype_name(made->dtype),
         shape_text(made->shape()), ", not ", dtype_name(node->dtype), shape_text(node->shape()));
  for (int i = 0; i < node->ndim; i++) node->strides_data()[i] = made->strides_data()[i];
  node->offset = made->offset;
  retain_buffer(made->buffer);
  node->buffer = made->buffer;
}

}  // namespace

bool prefers_decompositions() {
  static const bool prefers = [] {
    const char* value = std::getenv("MLXC_DECOMPOSE");
    return value && std::strcmp(value, "1") == 0;
  }();
  return prefers;
}

bool execute_decomposed(Node* node) {
  const OpInfo& info = op_table[node->op];
  // No op with several outputs has a decomposition.
  if (!info.decompose || node->multi) return false;
  const std::vector<Array> results = decompose(node);
  if (results.empty() || !runs_on(node->stream->device, results[0].node())) return false;
  run_nested(results[0].node());
  take_over(node, results[0].node());
  return true;
}

}  // namespace mlxc
