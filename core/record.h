// Recording: makes the node of an op. Everything that computes goes through here: the C functions and the
// gradient rules.
#pragma once

#include <span>
#include <vector>

#include "core/op.h"

namespace mlxc {

// Records an op with one output on the current stream. Inputs are borrowed. `params` points to the op's
// parameter struct (struct_size set), or is null if it has none; it is copied.
Array record(int op, Node* const* inputs, int n_inputs, const void* params);
// Records an op with several outputs.
std::vector<Array> record_many(int op, Node* const* inputs, int n_inputs, const void* params);
// Records an op that the core runs itself (column `run` of the table), with one or more outputs of the shapes
// and dtypes given.
std::vector<Array> record_run(int op, std::span<const Array> inputs, std::span<const OutSpec> outputs,
                              std::shared_ptr<Attachment> attachment);

// The same for either; new references are stored in outputs. A null stream is the current one.
void record_nodes(int op, Node* const* inputs, int n_inputs, const void* params, Stream* stream,
                  Node** outputs);
// The same, where the caller is done with the parameters: the shape rule works on them in place.
void record_own(int op, Node* const* inputs, int n_inputs, void* params, Stream* stream, Node** outputs);
Array record_own(int op, Node* const* inputs, int n_inputs, void* params);
// a + b of a caller that is done with them. It counts no references, which is much of what recording costs.
Array add_given(Array a, Array b);
// Output `index` of the node of an op with several outputs.
Array output_of(Node* multi, int index);

// 0-d leaf of the dtype. Values are converted as a cast would.
Array scalar(double value, mlxc_dtype dtype);
// A scalar of the dtype of `like` (of its real part for complex).
inline Array scalar_like(double value, const Array& like) { return scalar(value, like.dtype()); }

// While in scope, ops recorded by this thread go to the stream.
class StreamScope {
 public:
  explicit StreamScope(Stream* stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Stream* before_;
};

}  // namespace mlxc
