// What the rule files of core/ops share: small checks for shape rules, and building blocks of gradient
// rules. Everything here records ops that can be differentiated again.
//
// Rule: constants take the dtype of the array they meet, so that a float16 gradient stays float16.
#pragma once

#include "op_functions.h"

namespace mlxc {

// ---- shape rules --------------------------------------------------------------------------------

// The rule of unary and binary element-wise ops, from which others start.
void infer_elementwise(Recording& rec);
// promote, with the op named in the message.
mlxc_dtype promote_for(const Recording& rec, mlxc_dtype a, mlxc_dtype b);
// Casts every input to the dtype that all of them promote to, and returns it.
mlxc_dtype promote_inputs(Recording& rec);
// Shape of `shape` with the axes (sorted, non-negative) taken out, or kept with size one.
Dims reduced_shape(std::span<const int64_t> shape, const Axes& axes, bool keepdims);

// ---- arrays -------------------------------------------------------------------------------------

// Casts unless it has the dtype already.
Array cast_to(const Array& a, mlxc_dtype dtype);
// The complex conjugate; of a real array the array itself.
Array conj(const Array& a);
// Sum where null means zero.
Array add_maybe(const Array& a, const Array& b);
// g * conj(d): how a cotangent passes a holomorphic derivative.
Array mul_conj(const Array& g, const Array& d);
Array zeros(std::span<const int64_t> shape, mlxc_dtype dtype);
inline Array zeros_like(const Array& a) { return zeros(a.shape(), a.dtype()); }
Array ones(std::span<const int64_t> shape, mlxc_dtype dtype);
inline Array ones_like(const Array& a) { return ones(a.shape(), a.dtype()); }
// a where the condition holds, else zero. What the condition leaves out is never multiplied, so a NaN or
// infinity there does no harm.
Array keep_where(const Array& condition, const Array& a);
// Sums a down to `shape`, from which it was broadcast.
Array sum_to(const Array& a, std::span<const int64_t> shape);
Array broadcast_to(const Array& a, std::span<const int64_t> shape);
// The array `size` times along a new first axis: what a batching rule makes of an array without batch.
Array repeat_batch(const Array& a, int64_t size);
// Undoes the shape change of a reduction: puts the reduced axes back (size one) unless kept. The result
// broadcasts against the reduction's input.
Array restore_axes(const Array& reduced, const Axes& axes, bool keepdims);
// a[..., from : from + count : step, ...] along one axis.
Array slice_axis(const Array& a, int axis, int64_t from, int64_t count, int64_t step = 1);
// Product of the sizes of the axes.
int64_t axes_size(std::span<const int64_t> shape, const Axes& axes);
// 0, 1, ... along one axis of an array of so many axes, size 1 along the others.
Array iota(int64_t count, int axis, int ndim, mlxc_dtype dtype);

// Casts float16 and bfloat16 to float32, for a step that their range or precision cannot hold; the
// sweep, or cast_to, brings the result back.
Array widen(const Array& a);
// The tangent in the shape of the op's output, which it may lack where only one input had a tangent.
Array match_output(const Array& tangent, const Array& output);

// The derivative of a holomorphic unary op at x, with value y, times g: the core of both its rules. A
// cotangent meets the conjugated derivative, a tangent the plain one. In core/ops/unary.cc.
Array times_derivative(int op, const Array& x, const Array& y, const Array& g, bool conjugated);

}  // namespace mlxc
