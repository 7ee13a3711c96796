// Shape rules and gradient building blocks that several families share; see common.h and op.h.
// infer_elementwise is on the path of every recorded a + b: equal dtypes and shapes take no call.
//
// Rule: element-wise ops never record broadcasts of their inputs; kernels read them with stride 0.
#include "core/ops/common.h"

#include <algorithm>

namespace mlxc {

namespace {

constexpr mlxc_dtype_mask bits(int first, int last) {
  mlxc_dtype_mask mask = 0;
  for (int d = first; d <= last; d++) mask |= MLXC_DTYPE_BIT(d);
  return mask;
}

// In the order of Accepts.
constexpr mlxc_dtype_mask accepted[] = {
    MLXC_DTYPES_ALL,
    bits(MLXC_UINT8, MLXC_COMPLEX128),
    bits(MLXC_BOOL, MLXC_FLOAT64),
    bits(MLXC_BOOL, MLXC_INT64),
    bits(MLXC_FLOAT16, MLXC_COMPLEX128),
    bits(MLXC_UINT32, MLXC_UINT32),
    bits(MLXC_FLOAT16, MLXC_FLOAT64),
    bits(MLXC_UINT8, MLXC_UINT8),
    bits(MLXC_BOOL, MLXC_INT64) | bits(MLXC_FLOAT32, MLXC_COMPLEX128),
};
constexpr const char* accepted_text[] = {
    "any dtype",
    "integers, floats and complex numbers",
    "bool, integers and floats",
    "bool and integers",
    "floats and complex numbers",
    "uint32",
    "floats",
    "uint8",
    "float32, float64, complex64, complex128, and integers as float32",
};

bool accepts(const OpInfo& op, mlxc_dtype dtype) {
  return accepted[static_cast<int>(op.accepts)] & MLXC_DTYPE_BIT(dtype);
}

bool same_shape(const Node& a, const Node& b) {
  if (a.ndim != b.ndim) return false;
  const int64_t *x = a.shape_data(), *y = b.shape_data();
  for (int i = 0; i < a.ndim; i++) {
    if (x[i] != y[i]) return false;
  }
  return true;
}

void copy_shape(Dims& to, const Node& from) {
  to.n = from.ndim;
  const int64_t* shape = from.shape_data();
  for (int i = 0; i < to.n; i++) to.v[i] = shape[i];
}

void infer_binary(Recording& rec) {
  const OpInfo& op = *rec.op;
  const Node &a = rec.input(0), &b = rec.input(1);
  mlxc_dtype dtype = a.dtype;
  if (a.dtype != b.dtype) dtype = promote_for(rec, a.dtype, b.dtype);
  check_accepts(op, dtype);
  if (op.dtype_rule == DtypeRule::promote_float_) dtype = to_inexact(dtype);
  OutSpec& out = rec.out[0];
  out.dtype = op.dtype_rule == DtypeRule::bool_ ? MLXC_BOOL : dtype;
  if (b.ndim == 0 || same_shape(a, b)) {
    copy_shape(out.shape, a);
  } else if (a.ndim == 0) {
    copy_shape(out.shape, b);
  } else {
    out.shape = broadcast_shapes(op.name, a.shape(), b.shape());
    checked_size(op.name, out.shape.span());
  }
  if (a.dtype != dtype) rec.cast_input(0, dtype);
  if (b.dtype != dtype) rec.cast_input(1, dtype);
}

void infer_unary(Recording& rec) {
  const OpInfo& op = *rec.op;
  const Node& a = rec.input(0);
  check_accepts(op, a.dtype);
  OutSpec& out = rec.out[0];
  out.dtype = result_dtype(op, a.dtype);
  copy_shape(out.shape, a);
  if (op.dtype_rule == DtypeRule::float_ && a.dtype != out.dtype) rec.cast_input(0, out.dtype);
}

}  // namespace

void check_accepts(const OpInfo& op, mlxc_dtype dtype) {
  if (accepts(op, dtype)) return;
  fail(MLXC_ERROR_TYPE, op.name, " does not take ", dtype_name(dtype), "; it takes ",
       accepted_text[static_cast<int>(op.accepts)]);
}

mlxc_dtype result_dtype(const OpInfo& op, mlxc_dtype input) {
  switch (op.dtype_rule) {
    case DtypeRule::bool_: return MLXC_BOOL;
    case DtypeRule::uint32_: return MLXC_UINT32;
    case DtypeRule::real_: return real_dtype(input);
    case DtypeRule::float_:
    case DtypeRule::promote_float_: return to_inexact(input);
    case DtypeRule::sum_:
      if (input == MLXC_UINT8 || input == MLXC_UINT16) return MLXC_UINT32;
      if (input == MLXC_BOOL || input == MLXC_INT8 || input == MLXC_INT16) return MLXC_INT32;
      return input;
    case DtypeRule::scan_: return input == MLXC_BOOL ? MLXC_INT32 : input;
    default: return input;
  }
}

mlxc_dtype promote_for(const Recording& rec, mlxc_dtype a, mlxc_dtype b) {
  try {
    return promote(a, b);
  } catch (const Failure& failure) {
    fail(failure.code(), rec.name(), ": ", failure.what());
  }
}

void infer_elementwise(Recording& rec) {
  if (rec.n_inputs == 2) {
    infer_binary(rec);
  } else {
    infer_unary(rec);
  }
}

void infer_same(Recording& rec) {
  check_accepts(*rec.op, rec.input(0).dtype);
  rec.out[0].dtype = rec.input(0).dtype;
  copy_shape(rec.out[0].shape, rec.input(0));
}

mlxc_dtype promote_inputs(Recording& rec) {
  mlxc_dtype dtype = rec.input(0).dtype;
  for (int i = 1; i < rec.n_inputs; i++) dtype = promote_for(rec, dtype, rec.input(i).dtype);
  check_accepts(*rec.op, dtype);
  if (rec.op->dtype_rule == DtypeRule::promote_float_) dtype = to_inexact(dtype);
  for (int i = 0; i < rec.n_inputs; i++) rec.cast_input(i, dtype);
  return dtype;
}

Dims reduced_shape(std::span<const int64_t> shape, const Axes& axes, bool keepdims) {
  Dims result;
  int next = 0;
  for (int i = 0; i < static_cast<int>(shape.size()); i++) {
    if (next < axes.count && axes.items[next] == i) {
      next++;
      if (keepdims) result.push(1);
    } else {
      result.push(shape[i]);
    }
  }
  return result;
}

Array cast_to(const Array& a, mlxc_dtype dtype) { return a.dtype() == dtype ? a : op::astype(a, dtype); }

Array conj(const Array& a) { return is_complex(a.dtype()) ? op::conjugate(a) : a; }

Array add_maybe(const Array& a, const Array& b) {
  if (!a) return b;
  return b ? op::add(a, b) : a;
}

Array mul_conj(const Array& g, const Array& d) {
  if (is_complex(d.dtype())) return op::multiply(g, op::conjugate(d));
  return op::multiply(g, d);
}

Array zeros(std::span<const int64_t> shape, mlxc_dtype dtype) {
  return op::full(scalar(0, dtype), make_sizes(shape));
}

Array ones(std::span<const int64_t> shape, mlxc_dtype dtype) {
  return op::full(scalar(1, dtype), make_sizes(shape));
}

Array keep_where(const Array& condition, const Array& a) {
  return op::where(condition, a, scalar(0, a.dtype()));
}

Array sum_to(const Array& a, std::span<const int64_t> shape) {
  const int lead = a.ndim() - static_cast<int>(shape.size());
  Axes summed{}, dropped{};
  for (int i = 0; i < a.ndim(); i++) {
    if (i < lead) dropped.items[dropped.count++] = i;
    if (i < lead || (shape[i - lead] == 1 && a.dim(i) != 1)) summed.items[summed.count++] = i;
  }
  if (summed.count == 0) return a;
  if (dropped.count == summed.count) return op::sum(a, summed, false);
  const Array total = op::sum(a, summed, true);
  return dropped.count > 0 ? op::squeeze(total, dropped) : total;
}

Array broadcast_to(const Array& a, std::span<const int64_t> shape) {
  if (std::ranges::equal(a.shape(), shape)) return a;
  return op::broadcast_to(a, make_sizes(shape));
}

Array repeat_batch(const Array& a, int64_t size) {
  Sizes shape{};
  shape.count = a.ndim() + 1;
  if (shape.count > MLXC_MAX_NDIM)
    fail(MLXC_ERROR_VALUE, "vmap: an array of ", a.ndim(), " axes has no room for the batch");
  shape.items[0] = size;
  std::copy(a.shape().begin(), a.shape().end(), shape.items + 1);
  return op::broadcast_to(a, shape);
}

Array restore_axes(const Array& reduced, const Axes& axes, bool keepdims) {
  return keepdims || axes.count == 0 ? reduced : op::expand_dims(reduced, axes);
}

Array slice_axis(const Array& a, int axis, int64_t from, int64_t count, int64_t step) {
  Sizes start{}, steps{}, shape = a.sizes();
  start.count = steps.count = a.ndim();
  std::fill_n(steps.items, a.ndim(), 1);
  start.items[axis] = from;
  steps.items[axis] = step;
  shape.items[axis] = count;
  return op::slice(a, start, steps, shape);
}

int64_t axes_size(std::span<const int64_t> shape, const Axes& axes) {
  int64_t size = 1;
  for (int i = 0; i < axes.count; i++) size *= shape[axes.items[i]];
  return size;
}

Array iota(int64_t count, int axis, int ndim, mlxc_dtype dtype) {
  const Array line = op::arange(0, 1, count, dtype);
  if (ndim == 1) return line;
  Sizes shape{};
  shape.count = ndim;
  for (int i = 0; i < ndim; i++) shape.items[i] = i == axis ? count : 1;
  return op::reshape(line, shape);
}

Array widen(const Array& a) {
  const bool half = a.dtype() == MLXC_FLOAT16 || a.dtype() == MLXC_BFLOAT16;
  return half ? op::astype(a, MLXC_FLOAT32) : a;
}

Array match_output(const Array& tangent, const Array& output) {
  return broadcast_to(tangent, output.shape());
}

// A linear op's tangent is the op applied to the tangent; an output that is no float or complex array
// has none.
void jvp_linear(const Jvp& jvp, Array* out_tangents) {
  if (!is_inexact(jvp.output().dtype())) return;
  Node* const tangent = jvp.tangents[0].node();
  out_tangents[0] = record(jvp.op->number, &tangent, 1, jvp.params);
}

}  // namespace mlxc
