// Pictures of recorded graphs: what is not computed yet, in the DOT language (mlxc_graph_dot).
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/closure.h"
#include "core/op.h"
#include "core/program.h"
#include "core/schedule.h"
#include "mlxc/program.h"

namespace mlxc {

namespace {

struct Drawn {
  Array array;
  bool is_op;  // pending; else it is data
  std::vector<Node*> inputs;
};

// The nodes, inputs first. While the lock is held nobody can claim a pending node, so that it keeps its
// inputs.
std::vector<Drawn> collect(std::span<const Array> outputs) {
  struct Visit {
    Node* node;
    uint32_t next;
  };
  std::vector<Drawn> drawn;
  std::unordered_set<Node*> seen;
  std::vector<Visit> stack;
  std::lock_guard hold(schedule_lock());
  auto inputs_of = [](Node* node) -> std::span<Node* const> {
    if (node->state.load(std::memory_order_acquire) != state_pending) return {};
    return {node->inputs_data(), node->n_inputs};
  };
  for (const Array& output : outputs) {
    if (!seen.insert(output.node()).second) continue;
    stack.push_back({output.node(), 0});
    while (!stack.empty()) {
      Visit& top = stack.back();
      const std::span<Node* const> inputs = inputs_of(top.node);
      if (top.next < inputs.size()) {
        Node* input = inputs[top.next++];
        if (seen.insert(input).second) stack.push_back({input, 0});
        continue;
      }
      const bool is_op = top.node->op && top.node->state.load(std::memory_order_acquire) == state_pending;
      drawn.push_back({Array::borrow(top.node), is_op, {inputs.begin(), inputs.end()}});
      stack.pop_back();
    }
  }
  return drawn;
}

std::string quote(const std::string& text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

class Names {
 public:
  void give(Node* node, const std::string& name) { names_[node] = name; }
  const std::string& of(Node* node) {
    std::string& name = names_[node];
    if (name.empty()) name = next();
    return name;
  }

 private:
  // A, B, ..., Z, AA, AB, ...
  std::string next() {
    std::string name;
    for (size_t n = ++count_; n > 0; n = (n - 1) / 26)
      name.insert(name.begin(), static_cast<char>('A' + (n - 1) % 26));
    return name;
  }
  std::unordered_map<Node*, std::string> names_;
  size_t count_ = 0;
};

std::string draw(std::span<const Array> outputs, Names& names) {
  const std::vector<Drawn> drawn = collect(outputs);
  std::unordered_set<Node*> ends;
  for (const Array& output : outputs) ends.insert(output.node());
  std::unordered_map<Node*, size_t> box_of;
  std::string text = "digraph {\n";
  for (size_t i = 0; i < drawn.size(); i++) {
    Node* node = drawn[i].array.node();
    const bool is_data = !drawn[i].is_op;
    if (!is_data && !node->is_output) {
      box_of[node] = i;
      text += cat("{ ", i, " [label=", quote(op_table[node->op].name), ", shape=rectangle]; }\n");
      for (Node* input : drawn[i].inputs) text += cat(quote(names.of(input)), " -> ", i, "\n");
    }
    if (node->multi && !is_data) continue;  // it has no value of its own, its outputs are drawn
    const std::string name = quote(names.of(node));
    const char* rank = is_data ? "rank=source; " : ends.count(node) ? "rank=sink; " : "";
    text += cat("{ ", rank, name, "; }\n");
    if (!is_data) text += cat(box_of[node->is_output ? drawn[i].inputs[0] : node], " -> ", name, "\n");
  }
  return text + "}\n";
}

}  // namespace
}  // namespace mlxc

using namespace mlxc;

extern "C" mlxc_error* mlxc_graph_dot(mlxc_write_fn write, void* context, mlxc_array* const* outputs,
                                      size_t n_outputs, mlxc_array* const* named, const char* const* names,
                                      size_t n_named) {
  return guard([&] {
    if (!write) fail(MLXC_ERROR_VALUE, "mlxc_graph_dot: write is NULL");
    const std::vector<Array> ends = take_handles("mlxc_graph_dot", outputs, n_outputs);
    const std::vector<Array> with_names = take_handles("mlxc_graph_dot", named, n_named);
    Names all;
    for (size_t i = 0; i < n_named; i++) {
      if (!names || !names[i]) fail(MLXC_ERROR_VALUE, "mlxc_graph_dot: a name is NULL");
      all.give(with_names[i].node(), names[i]);
    }
    const std::string text = draw(ends, all);
    throw_error(write(context, text.data(), text.size()));
  });
}
