// Rules of the ops that only copy, cast or reinterpret: contiguous, astype, bitcast, stop_gradient. Their
// plain shape rule is infer_same in common.cc.
//
// Rule: bitcast keeps the bytes. Bytes other than 0 and 1 are no bool, so nothing is read as bool.
#include "core/ops/common.h"

namespace mlxc {

namespace {

void check_dtype(const Recording& rec, mlxc_dtype dtype) {
  if (!dtype_valid(dtype)) fail(MLXC_ERROR_TYPE, rec.name(), ": ", dtype, " is not the number of a dtype");
}

}  // namespace

void infer_astype(Recording& rec) {
  const mlxc_dtype dtype = rec.params_as<mlxc_astype_params>().dtype;
  check_dtype(rec, dtype);
  rec.out[0] = {dtype, Dims(rec.input(0).shape())};
}

void infer_bitcast(Recording& rec) {
  const Node& a = rec.input(0);
  const mlxc_dtype dtype = rec.params_as<mlxc_bitcast_params>().dtype;
  check_dtype(rec, dtype);
  if (dtype == MLXC_BOOL && a.dtype != MLXC_BOOL) {
    fail(MLXC_ERROR_TYPE, rec.name(), ": the bytes of ", dtype_name(a.dtype),
         " cannot be read as bool; compare with zero instead");
  }
  OutSpec& out = rec.out[0];
  out = {dtype, Dims(a.shape())};
  const int64_t from = dtype_size(a.dtype), to = dtype_size(dtype);
  if (from == to) return;
  if (a.ndim == 0) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": a 0-d array of ", dtype_name(a.dtype), " cannot be read as ",
         dtype_name(dtype), ", whose items have another size");
  }
  int64_t& last = out.shape[a.ndim - 1];
  const int64_t bytes = checked_size(rec.name(), std::span(&last, 1), from) * from;
  if (bytes % to != 0) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": the last axis of shape ", shape_text(a.shape()), " of ",
         dtype_name(a.dtype), " does not hold a whole number of ", dtype_name(dtype), " items");
  }
  last = bytes / to;
}

bool view_bitcast(const Node& input, const Node& out, Layout* layout) {
  const int64_t from = dtype_size(input.dtype), to = dtype_size(out.dtype);
  const std::span<const int64_t> strides = input.strides();
  layout->strides = Dims(strides);
  layout->offset = input.offset;
  if (from == to || out.size == 0) return true;
  const int last = input.ndim - 1;
  if (input.shape()[last] != 1 && strides[last] != 1) return false;
  if (input.offset % to != 0) return false;
  for (int i = 0; i < last; i++) {
    if (strides[i] * from % to != 0) {
      if (input.shape()[i] != 1) return false;
      layout->strides[i] = 0;
    } else {
      layout->strides[i] = strides[i] * from / to;
    }
  }
  layout->strides[last] = 1;
  return true;
}

bool view_stop_gradient(const Node& input, const Node&, Layout* layout) {
  layout->strides = Dims(input.strides());
  layout->offset = input.offset;
  return true;
}

void vjp_identity(const Vjp& vjp, Array* grads) { grads[0] = vjp.cotangent(); }

// A cast to integers or bool is constant almost everywhere. From real to complex the gradient is the
// real part, which is what the cast back takes.
void vjp_astype(const Vjp& vjp, Array* grads) {
  const mlxc_dtype dtype = vjp.inputs[0].dtype();
  if (is_inexact(vjp.output().dtype()) && is_inexact(dtype)) grads[0] = cast_to(vjp.cotangent(), dtype);
}

}  // namespace mlxc
