// Rules of det, slogdet and cofactor. The derivative of det is the matrix of cofactors, which exists at
// singular matrices too (Jacobi's formula; the form with the inverse, as in Giles 2008, section 2.2.4, holds
// for regular ones only).
//
// Rule: the derivative of a cofactor matrix is made of products of n - 2 singular values. At regular
// matrices it is taken from the inverse, at singular ones from the singular value decomposition, which holds
// there only: a third derivative of det at a singular matrix is not finite.
#include "core/ops/linalg.h"

namespace mlxc {

namespace {

// A number a matrix, in a shape that broadcasts against the matrices.
Array spread(const Array& number) {
  return op::expand_dims(number, make_axes({number.ndim(), number.ndim() + 1}));
}

// Sum of the products of the elements of two matrices.
Array paired(const Array& a, const Array& b) {
  return op::sum(op::multiply(a, b), make_axes({b.ndim() - 2, b.ndim() - 1}), false);
}

// det(u v^H) conj(u) (diag(p diag(x')) - p o x'^T) v^T for a = u s v^H and x' = u^H x v, where p[i, j] is the
// product of all singular values but two. The least one is zero, so only its row and column of p are not.
Array tangent_singular(const Array& a, const std::vector<Array>& svd, const Array& x) {
  const Array &u = svd[0], &s = svd[1], &vh = svd[2];
  const int64_t n = s.dim(-1);
  const int axis = s.ndim() - 1;
  const Array others = slice_axis(s, axis, 0, n - 1);
  const Array without_one =
      op::multiply(op::cumprod(others, axis, false, false), op::cumprod(others, axis, true, false));
  const Array parts[] = {without_one, zeros_like(slice_axis(s, axis, 0, 1))};
  const Array padded = op::concatenate(parts, axis);
  const Array last = cast_to(
      op::equal(iota(n, 0, 1, MLXC_INT64), scalar(static_cast<double>(n - 1), MLXC_INT64)), s.dtype());
  const Array half = op::multiply(as_column(padded), as_row(last));
  const Array p = cast_to(op::add(half, transpose_matrix(half)), x.dtype());
  const Array turned = product(adjoint(u), x, adjoint(vh));
  const Array sums = diagonal_matrix(
      op::sum(product(p, diagonal_matrix(diagonal_of(turned))), make_axes({turned.ndim() - 1}), false));
  const Array inner = op::subtract(sums, op::multiply(p, transpose_matrix(turned)));
  const Array phase = spread(op::multiply(op::det(u), op::det(vh)));
  const Array tangent = op::multiply(phase, product(conj(u), inner, conj(vh)));
  // The formula leaves out what is zero here but has a derivative. A root, zero with infinite slope, owns up.
  return op::add(tangent, op::sqrt(op::subtract(a, op::stop_gradient(a))));
}

// The derivative of the cofactors c of `a` in the direction x; as a map of x it is its own transpose.
Array cofactor_tangent(const Array& a, const Array& c, const Array& x) {
  const int64_t n = a.dim(-1);
  if (n == 0) return x;
  const std::vector<Array> svd = op::svd(a, false);
  const Array least = slice_axis(svd[1], svd[1].ndim() - 1, n - 1, 1);
  const Array singular = as_row(op::equal(safe_reciprocal(least, svd[1]), scalar_like(0, least)));
  const Array inverse = op::inverse(op::where(singular, identity_like(a), a));
  const Array turned = transpose_matrix(inverse);
  const Array regular = op::subtract(op::multiply(spread(paired(turned, x)), c),
                                     product(turned, product(transpose_matrix(x), c)));
  return op::where(singular, tangent_singular(a, svd, x), regular);
}

}  // namespace

void infer_det(Recording& rec) {
  const mlxc_dtype dtype = take_square(rec);
  rec.out[0] = {dtype, batch_shape(rec.input(0))};
}

void vjp_det(const Vjp& vjp, Array* grads) {
  grads[0] = op::multiply(spread(vjp.cotangent()), conj(op::cofactor(vjp.inputs[0])));
}

void jvp_det(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = paired(op::cofactor(jvp.inputs[0]), jvp.tangents[0]);
}

void vjp_cofactor(const Vjp& vjp, Array* grads) {
  grads[0] = conj(cofactor_tangent(vjp.inputs[0], vjp.output(), conj(vjp.cotangent())));
}

void jvp_cofactor(const Jvp& jvp, Array* out_tangents) {
  out_tangents[0] = cofactor_tangent(jvp.inputs[0], jvp.output(), jvp.tangents[0]);
}

void infer_slogdet(Recording& rec) {
  const mlxc_dtype dtype = take_square(rec);
  rec.out[0] = {dtype, batch_shape(rec.input(0))};
  rec.out[1] = {real_dtype(dtype), batch_shape(rec.input(0))};
}

// With d the trace of a^-1 da, the logarithm moves by the real part of d, the sign turns by its imaginary
// part.
void vjp_slogdet(const Vjp& vjp, Array* grads) {
  const Array &sign = vjp.outputs[0], &g_sign = vjp.cotangents[0];
  Array g = vjp.cotangents[1];
  if (g_sign) {
    if (const Array turn = imaginary_part(op::multiply(g_sign, conj(sign)))) g = add_maybe(g, turn);
  }
  if (g) grads[0] = op::multiply(spread(g), adjoint(op::inverse(vjp.inputs[0])));
}

void jvp_slogdet(const Jvp& jvp, Array* out_tangents) {
  const Array change = paired(transpose_matrix(op::inverse(jvp.inputs[0])), jvp.tangents[0]);
  if (const Array turn = imaginary_part(change)) out_tangents[0] = op::multiply(jvp.outputs[0], turn);
  out_tangents[1] = op::real(change);
}

}  // namespace mlxc
