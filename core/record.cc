// Implements recording. This is the hot path of every program: one allocation a node, no lock.
#include "core/record.h"

#include <cstring>
#include <optional>

#include "core/constant.h"
#include "core/device.h"
#include "core/execute.h"
#include "core/ops/common.h"
#include "core/program.h"
#include "core/schedule.h"
#include "core/tape.h"
#include "op_functions.h"

namespace mlxc {

Stream* exchange_thread_stream(Stream* stream);  // stream.cc

namespace {

constexpr size_t max_params = 1024;
constexpr int inline_inputs = 8;

// What infer works on: copies of the input pointers.
struct Scratch {
  Node* inputs[inline_inputs];
  std::vector<Node*> many;
};

void check_inputs(const OpInfo& info, Node* const* inputs, int n) {
  if (info.variadic ? n < info.n_inputs : n != info.n_inputs)
    fail(MLXC_ERROR_VALUE, info.name, ": takes ", info.variadic ? "at least " : "", int{info.n_inputs},
         " array(s), got ", n);
  for (int i = 0; i < n; i++)
    if (!inputs[i]) fail(MLXC_ERROR_VALUE, info.name, ": array ", i, " is NULL");
}

enum class Inputs { borrowed, given };

// The caller adopts the node before anything can throw. References to given inputs become the node's.
template <Inputs inputs_are = Inputs::borrowed>
Node* make_op_node(const OpInfo& info, Node* const* from, int n_inputs, const void* params, mlxc_dtype dtype,
                   std::span<const int64_t> shape, int64_t size, Stream* stream) {
  const int ndim = static_cast<int>(shape.size());
  Node* node = make_node(ndim, n_inputs, info.params_size);
  node->op = info.number;
  node->dtype = static_cast<uint8_t>(dtype);
  node->size = size;
  node->stream = stream;
  for (int i = 0; i < ndim; i++) {
    node->shape_data()[i] = shape[i];
    node->strides_data()[i] = 0;
  }
  bool traced = false;
  Node** inputs = node->inputs_data();
  for (int i = 0; i < n_inputs; i++) {
    inputs[i] = from[i];
    if (inputs_are == Inputs::borrowed) retain_node(inputs[i]);
    traced = traced || inputs[i]->traced.load(std::memory_order_relaxed);
  }
  if (info.params_size) std::memcpy(node->params_data(), params, info.params_size);
  if (traced && follows_here()) node->traced.store(1, std::memory_order_relaxed);
  return node;
}

// An element-wise op on two arrays of one dtype, of one shape or the second 0-d, which keeps both: nothing to
// infer.
bool is_plain_pair(const OpInfo& info, Node* const* inputs, int n_inputs) {
  if (n_inputs != 2 || info.infer != infer_elementwise || info.dtype_rule != DtypeRule::promote_ ||
      info.accepts != Accepts::any_)
    return false;
  const Node &a = *inputs[0], &b = *inputs[1];
  if (a.dtype != b.dtype) return false;
  if (b.ndim == 0) return true;
  if (a.ndim != b.ndim) return false;
  for (int i = 0; i < a.ndim; i++)
    if (a.shape_data()[i] != b.shape_data()[i]) return false;
  return true;
}

// A window on values that are already there needs no evaluation.
void view_at_once(Node* node) {
  Node* input = node->inputs_data()[0];
  if (node->traced.load(std::memory_order_relaxed) ||
      input->state.load(std::memory_order_acquire) != state_ready)
    return;
  if (!lay_view(node)) return;
  note_shape_read();  // the window's size may be that of another array
  node->state.store(state_ready, std::memory_order_release);
  detach_inputs(node);
}

Node* make_output_node(Node* multi, int index) {
  const MultiResult::Result& result = multi->multi->results[index];
  Node* node = make_node(result.shape.n, 1, 0);
  node->op = multi->op;
  node->is_output = 1;
  node->output_index = static_cast<uint32_t>(index);
  node->dtype = static_cast<uint8_t>(result.dtype);
  node->stream = multi->stream;
  node->size = 1;
  for (int i = 0; i < result.shape.n; i++) {
    node->shape_data()[i] = result.shape[i];
    node->strides_data()[i] = 0;
    node->size *= result.shape[i];
  }
  retain_node(multi);
  node->inputs_data()[0] = multi;
  node->traced.store(multi->traced.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return node;
}

void make_results(Node* node, const OpInfo& info, std::span<const OutSpec> outputs) {
  node->multi = new MultiResult;
  node->multi->results.reserve(outputs.size());
  for (const OutSpec& out : outputs) {
    checked_size(info.name, out.shape.span(), dtype_size(out.dtype));
    MultiResult::Result& result = node->multi->results.emplace_back();
    result.dtype = out.dtype;
    result.shape = out.shape;
  }
}

}  // namespace

Array output_of(Node* multi, int index) {
  Array output = Array::adopt(make_output_node(multi, index));
  if (output->traced.load(std::memory_order_relaxed)) follow_node(output.node());
  return output;
}

void record_nodes(int op, Node* const* inputs, int n_inputs, const void* params, Stream* stream,
                  Node** outputs) {
  alignas(8) char copy[max_params];
  if (op_table[op].params_size) std::memcpy(copy, params, op_table[op].params_size);
  record_own(op, inputs, n_inputs, copy, stream, outputs);
}

void record_own(int op, Node* const* inputs, int n_inputs, void* params, Stream* stream, Node** outputs) {
  const OpInfo& info = op_table[op];
  check_inputs(info, inputs, n_inputs);
  // Casts and broadcasts that the shape rule records belong to the op's own stream.
  std::optional<StreamScope> scope;
  if (stream)
    scope.emplace(stream);
  else
    stream = current_stream();
  if (is_plain_pair(info, inputs, n_inputs)) {
    const Node& like = *inputs[0];
    Array node =
        Array::adopt(make_op_node(info, inputs, 2, nullptr, like.dtype, like.shape(), like.size, stream));
    if (node->traced.load(std::memory_order_relaxed)) follow_node(node.node());
    outputs[0] = node.give_up();
    return;
  }
  Scratch scratch;
  Recording rec;
  rec.op = &info;
  rec.n_inputs = n_inputs;
  rec.inputs = scratch.inputs;
  if (n_inputs > inline_inputs) {
    scratch.many.resize(n_inputs);
    rec.inputs = scratch.many.data();
  }
  for (int i = 0; i < n_inputs; i++) rec.inputs[i] = inputs[i];
  rec.params = params;
  rec.out.resize(info.n_outputs);
  info.infer(rec);
  const OutSpec& out = rec.out[0];
  const int64_t size = checked_size(info.name, out.shape.span(), dtype_size(out.dtype));
  Array node = Array::adopt(
      make_op_node(info, rec.inputs, rec.n_inputs, rec.params, out.dtype, out.shape.span(), size, stream));
  if (node->traced.load(std::memory_order_relaxed)) follow_node(node.node());
  if (info.n_outputs == 1) {
    if (info.view) view_at_once(node.node());
    outputs[0] = node.give_up();
    return;
  }
  make_results(node.node(), info, {rec.out.data(), static_cast<size_t>(info.n_outputs)});
  SmallArray<Array, 2> made(info.n_outputs);
  for (int i = 0; i < info.n_outputs; i++) made[i] = output_of(node.node(), i);
  for (int i = 0; i < info.n_outputs; i++) outputs[i] = made[i].give_up();
}

Array record(int op, Node* const* inputs, int n_inputs, const void* params) {
  Node* output;
  record_nodes(op, inputs, n_inputs, params, nullptr, &output);
  return Array::adopt(output);
}

Array record_own(int op, Node* const* inputs, int n_inputs, void* params) {
  Node* output;
  record_own(op, inputs, n_inputs, params, nullptr, &output);
  return Array::adopt(output);
}

Array add_given(Array a, Array b) {
  const OpInfo& info = op_table[MLXC_OP_ADD];
  Node* const inputs[] = {a.node(), b.node()};
  if (!is_plain_pair(info, inputs, 2)) return record(MLXC_OP_ADD, inputs, 2, nullptr);
  const Node& like = *a.node();
  Array node = Array::adopt(make_op_node<Inputs::given>(info, inputs, 2, nullptr, like.dtype, like.shape(),
                                                        like.size, current_stream()));
  a.give_up();
  b.give_up();
  if (node->traced.load(std::memory_order_relaxed)) follow_node(node.node());
  return node;
}

Array apply_number(int op, Array a, double value) {
  const OpInfo& info = op_table[op];
  Array number = constant(value, a.dtype());
  Node* const inputs[] = {a.node(), number.node()};
  if (!is_plain_pair(info, inputs, 2)) return record(op, inputs, 2, nullptr);
  Array node = Array::adopt(make_op_node<Inputs::given>(info, inputs, 2, nullptr, a.dtype(), a.shape(),
                                                        a.size(), current_stream()));
  a.give_up();
  number.give_up();
  if (node->traced.load(std::memory_order_relaxed)) follow_node(node.node());
  return node;
}

std::vector<Array> record_many(int op, Node* const* inputs, int n_inputs, const void* params) {
  const int n_outputs = op_table[op].n_outputs;
  SmallArray<Node*, 2> outputs(n_outputs);
  record_nodes(op, inputs, n_inputs, params, nullptr, outputs.data());
  std::vector<Array> result;
  for (int i = 0; i < n_outputs; i++) result.push_back(Array::adopt(outputs[i]));
  return result;
}

std::vector<Array> record_run(int op, std::span<const Array> inputs, std::span<const OutSpec> outputs,
                              std::shared_ptr<Attachment> attachment) {
  const OpInfo& info = op_table[op];
  std::vector<Node*> nodes;
  for (const Array& input : inputs) nodes.push_back(input.node());
  // The op's node itself has no value; its shape tells nothing.
  Array node = Array::adopt(make_op_node(info, nodes.data(), static_cast<int>(nodes.size()), nullptr,
                                         outputs[0].dtype, {}, 1, current_stream()));
  if (node->traced.load(std::memory_order_relaxed)) follow_node(node.node());
  make_results(node.node(), info, outputs);
  node->multi->attachment = std::move(attachment);
  std::vector<Array> result;
  for (size_t i = 0; i < outputs.size(); i++) result.push_back(output_of(node.node(), static_cast<int>(i)));
  return result;
}

void Recording::cast_input(int i, mlxc_dtype dtype) {
  if (inputs[i]->dtype == dtype) return;
  replace_input(i, op::astype(Array::borrow(inputs[i]), dtype));
}

StreamScope::StreamScope(Stream* stream) : before_(exchange_thread_stream(stream)) {}
StreamScope::~StreamScope() { exchange_thread_stream(before_); }

}  // namespace mlxc
