// What batching rules share (core/op.h describes a rule, struct Vmap): the batch is a further first axis, so
// most rules bring their inputs into one form, move axes by one, and record the same op again.
//
// Generic rules, for the `vmap` column of ops.toml: "elementwise"; "reduce", for parameters that begin with
// `axes`; "axis", for those that begin with `axis`; "leading", for ops that take any number of leading axes
// and broadcast nothing.
#pragma once

#include <cstring>

#include "core/ops/common.h"

namespace mlxc {

// Input i with the batch as its first axis; one that is not batched is stretched.
Array batched_input(const Vmap& vmap, int i);
// Input i as it broadcasts against arrays of the batch and `ndim` further axes: size-one axes after the
// batch. One that is not batched stays as it is.
Array aligned_input(const Vmap& vmap, int i, int ndim);
// The same for any array; `batched` tells whether it has the batch.
Array align_batched(const Array& a, bool batched, int ndim);

// Axes that follow the batch.
Axes shift_axes(const Axes& axes);
// `first` for the batch, then the others.
Sizes prepend_size(int64_t first, const Sizes& others);
// Moves axis `from` to place `to`.
Array move_axis(const Array& a, int from, int to);

// A copy of an op's parameters, to change and record the op with again.
class ParamsCopy {
 public:
  explicit ParamsCopy(const Vmap& vmap) {
    if (vmap.op->params_size) std::memcpy(bytes_, vmap.params, vmap.op->params_size);
  }
  template <class P>
  P& as() {
    return *reinterpret_cast<P*>(bytes_);
  }
  const void* data() const { return bytes_; }

 private:
  alignas(8) char bytes_[1024];
};

// Records the op of the rule again, with these inputs and parameters.
void record_batched(const Vmap& vmap, std::span<const Array> inputs, const void* params, Array* results);

}  // namespace mlxc
