// What is known of an op: its row of the table and the interfaces of its rules. The rules of a family
// are in core/ops/FAMILY.cc: infer_NAME (shapes and dtypes), vjp_NAME, jvp_NAME, and view_NAME for
// ops that only make a window on their input; vmap_ and decompose_NAME.
#pragma once

#include <span>
#include <vector>

#include "core/error.h"
#include "core/node.h"
#include "core/small_array.h"

namespace mlxc {

struct OpInfo;

struct OutSpec {
  mlxc_dtype dtype;
  Dims shape;
};

// What a shape rule reads and fills in: it checks the inputs, normalises the parameters (axes
// non-negative, defaults filled in), may replace inputs by casts or broadcasts of them, and sets the
// outputs. `out` has room for as many as the table says.
struct Recording {
  const OpInfo* op;
  Node** inputs;  // borrowed
  int n_inputs;
  void* params;  // a copy of its own
  SmallArray<OutSpec, 2> out;
  std::vector<Array> kept;  // keeps replaced inputs alive

  Node& input(int i) const { return *inputs[i]; }
  template <class P>
  P& params_as() const {
    return *static_cast<P*>(params);
  }
  const char* name() const;
  void replace_input(int i, Array by) {
    inputs[i] = by.node();
    kept.push_back(std::move(by));
  }
  // Casts input i unless it has the dtype already.
  void cast_input(int i, mlxc_dtype dtype);
};

// A vjp rule gets the op's inputs and outputs and the cotangents of the outputs (null = zero; at least
// one is not), and sets grads[i] for the inputs that are wanted. Leaving it null means zero. The sweep
// itself sums gradients of element-wise ops down to the input's shape, and casts every gradient to
// the input's dtype. A rule is made of recorded ops, so it can be differentiated again.
struct Vjp {
  const OpInfo* op;
  std::span<const Array> inputs;
  std::span<const Array> outputs;
  std::span<const Array> cotangents;
  const void* params;
  const std::vector<bool>& wanted;
  Attachment* attachment = nullptr;

  const Array& cotangent() const { return cotangents[0]; }
  const Array& output() const { return outputs[0]; }
  bool wants(int i) const { return wanted[i]; }
  template <class P>
  const P& params_as() const {
    return *static_cast<const P*>(params);
  }
};

// A jvp rule gets the tangents of the inputs (null = zero; at least one is not) and sets
// out_tangents[i] for each output, of the output's shape and dtype (the sweep casts).
struct Jvp {
  const OpInfo* op;
  std::span<const Array> inputs;
  std::span<const Array> outputs;
  std::span<const Array> tangents;
  const void* params;
  Attachment* attachment = nullptr;

  const Array& output() const { return outputs[0]; }
  template <class P>
  const P& params_as() const {
    return *static_cast<const P*>(params);
  }
};

// A batching rule gets the op's inputs, of which those with batched[i] have the batch as a further first
// axis of `size`, before the shape that the op was recorded with (params and axes mean that shape too). It
// sets results[i] for each output: an array with the batch as its first axis. At least one input is
// batched. `outputs` are the outputs as recorded, without batch: their shapes and dtypes may be read, their
// values do not exist.
struct Vmap {
  const OpInfo* op;
  std::span<const Array> inputs;
  std::span<const uint8_t> batched;
  std::span<const Array> outputs;
  int64_t size;
  const void* params;
  Attachment* attachment = nullptr;

  template <class P>
  const P& params_as() const {
    return *static_cast<const P*>(params);
  }
};

// A decomposition makes the op's outputs of other ops, for devices that have no kernel for it. It leaves the
// results null where it does not hold to the last rule of the op: for these dtypes, say.
struct Decomposition {
  const OpInfo* op;
  std::span<const Array> inputs;
  const void* params;

  template <class P>
  const P& params_as() const {
    return *static_cast<const P*>(params);
  }
};

// Where the elements of an evaluated array lie: strides in elements, offset in bytes.
struct Layout {
  Dims strides;
  int64_t offset;
};

enum class Accepts : uint8_t {
  any_,
  number_,
  real_,
  integer_,
  inexact_,
  uint32_,
  floating_,
  uint8_,
  not_half_
};
enum class DtypeRule : uint8_t {
  rule_,
  same_,
  first_,
  bool_,
  uint32_,
  real_,
  float_,
  promote_,
  promote_float_,
  sum_,
  scan_
};

using InferFn = void (*)(Recording&);
using VjpFn = void (*)(const Vjp&, Array* grads);
using JvpFn = void (*)(const Jvp&, Array* out_tangents);
using VmapFn = void (*)(const Vmap&, Array* results);
using DecomposeFn = void (*)(const Decomposition&, Array* results);
// Lays `out` (shape, dtype, params) over the evaluated input; false if that takes a copy of the input
// into row-major order first (then it is called again and must succeed).
using ViewFn = bool (*)(const Node& input, const Node& out, Layout* layout);

// Runs an op that needs no kernel, in place of the backend: the inputs are ready, though their bytes may be
// on their way. It sets the outputs in node->multi->results (buffer, strides, offset), which may share the
// inputs' buffers; it may evaluate other arrays. It is called again if an interrupt stopped it.
using RunFn = void (*)(Node* node);

struct OpInfo {
  uint16_t number;
  const char* name;
  int8_t n_inputs;  // fixed ones
  bool variadic;
  int8_t n_outputs;  // -1: as many as the recording says
  uint32_t params_size;
  bool elementwise;
  Accepts accepts;
  DtypeRule dtype_rule;
  InferFn infer;
  VjpFn vjp;  // null: no gradient
  JvpFn jvp;
  VmapFn vmap;            // null: cannot be batched
  ViewFn view;            // null: needs a kernel
  DecomposeFn decompose;  // null: has none
  RunFn run;              // not null: the core runs it; it has no shape rule and is made by record_run
};

extern const OpInfo op_table[MLXC_OP_COUNT];

inline const char* Recording::name() const { return op->name; }

// ---- what shape rules share (core/ops/common.cc) -----------------------------------------------

// MLXC_ERROR_TYPE naming op, dtype and what is accepted, unless the op accepts the dtype.
void check_accepts(const OpInfo& op, mlxc_dtype dtype);
// The result dtype by the op's generic rule (not promote: that needs two).
mlxc_dtype result_dtype(const OpInfo& op, mlxc_dtype input);

}  // namespace mlxc
