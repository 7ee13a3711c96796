// Rules of eigh, eigvalsh, eig and eigvals.
//
// Sources: Giles (2008), section 3.1; Boeddeker et al. (2017), "On the computation of complex-valued
// gradients with application to statistically optimum beamforming", for complex matrices.
//
// Rules: derivatives of eigh are those on Hermitian matrices: a gradient is Hermitian, and of a tangent the
// Hermitian part counts, although the kernel reads one triangle only. Between equal eigenvalues vectors may
// turn freely; no turning is assumed, so what does not depend on the choice has a finite gradient.
#include "core/ops/linalg.h"

namespace mlxc {

// ---- Hermitian matrices -------------------------------------------------------------------------

void infer_eigh(Recording& rec) {
  const mlxc_dtype dtype = take_square(rec);
  const Node& a = rec.input(0);
  rec.out[0] = {real_dtype(dtype), batch_shape(a, {row_count(a)})};
  rec.out[1] = {dtype, Dims(a.shape())};
}

void infer_eigvalsh(Recording& rec) {
  const mlxc_dtype dtype = take_square(rec);
  const Node& a = rec.input(0);
  rec.out[0] = {real_dtype(dtype), batch_shape(a, {row_count(a)})};
}

void vjp_eigh(const Vjp& vjp, Array* grads) {
  const Array &w = vjp.outputs[0], &v = vjp.outputs[1], &gw = vjp.cotangents[0], &gv = vjp.cotangents[1];
  Array inner;
  if (gv) inner = op::multiply(product(adjoint(v), gv), reciprocal_gaps(w));
  if (gw) inner = add_maybe(inner, cast_to(diagonal_matrix(gw), v.dtype()));
  grads[0] = hermitian_part(product(v, inner, adjoint(v)));
}

void jvp_eigh(const Jvp& jvp, Array* out_tangents) {
  const Array &w = jvp.outputs[0], &v = jvp.outputs[1];
  const Array inner = product(adjoint(v), hermitian_part(jvp.tangents[0]), v);
  out_tangents[0] = op::real(diagonal_of(inner));
  out_tangents[1] = product(v, op::multiply(inner, reciprocal_gaps(w)));
}

void vjp_eigvalsh(const Vjp& vjp, Array* grads) {
  const std::vector<Array> parts = op::eigh(vjp.inputs[0], vjp.params_as<mlxc_eigvalsh_params>().upper);
  const Array& v = parts[1];
  grads[0] = product(op::multiply(v, as_row(vjp.cotangent())), adjoint(v));
}

void jvp_eigvalsh(const Jvp& jvp, Array* out_tangents) {
  const std::vector<Array> parts = op::eigh(jvp.inputs[0], jvp.params_as<mlxc_eigvalsh_params>().upper);
  const Array& v = parts[1];
  const Array moved = product(hermitian_part(jvp.tangents[0]), v);
  const Array each = op::multiply(op::conjugate(v), moved);
  out_tangents[0] = op::real(op::sum(each, make_axes({v.ndim() - 2}), false));
}

// ---- any square matrices ------------------------------------------------------------------------
//
// A vector has length one, and its greatest element is real (so LAPACK leaves it): the derivative of that
// choice is part of the rule.

void infer_eig(Recording& rec) {
  const mlxc_dtype dtype = complex_dtype(take_square(rec));
  const Node& a = rec.input(0);
  rec.out[0] = {dtype, batch_shape(a, {row_count(a)})};
  rec.out[1] = {dtype, Dims(a.shape())};
}

void infer_eigvals(Recording& rec) {
  const mlxc_dtype dtype = complex_dtype(take_square(rec));
  const Node& a = rec.input(0);
  rec.out[0] = {dtype, batch_shape(a, {row_count(a)})};
}

namespace {

// One where a column of v has its greatest element, else zero.
Array mark_greatest(const Array& v) {
  const Array places = op::argmax(op::abs(v), v.ndim() - 2, true);
  return cast_to(op::equal(iota(v.dim(-2), 0, 2, MLXC_UINT32), places), v.dtype());
}

Array sum_rows(const Array& a) { return op::sum(a, make_axes({a.ndim() - 2}), true); }

// The gradient with respect to the matrix, of its own dtype: real for real matrices.
Array pull_back(const Array& v, const Array& inner, const Array& a) {
  const Array up = adjoint(v);
  const Array g = op::solve(up, product(inner, up));
  return is_complex(a.dtype()) ? g : op::real(g);
}

}  // namespace

void vjp_eig(const Vjp& vjp, Array* grads) {
  const Array &w = vjp.outputs[0], &v = vjp.outputs[1], &gw = vjp.cotangents[0];
  if (v.size() == 0) return;
  Array inner;
  if (vjp.cotangents[1]) {
    const Array& g = vjp.cotangents[1];
    const Array along = sum_rows(op::multiply(op::conjugate(v), g));
    const Array mark = mark_greatest(v);
    const Array turn = op::divide(imaginary_part(along), real_part(sum_rows(op::multiply(v, mark))));
    Array free = op::subtract(g, op::multiply(v, real_part(along)));
    free = op::subtract(free, op::multiply(mark, turn));
    inner = op::multiply(product(adjoint(v), free), op::conjugate(reciprocal_gaps(w)));
  }
  if (gw) inner = add_maybe(inner, diagonal_matrix(gw));
  grads[0] = pull_back(v, inner, vjp.inputs[0]);
}

void jvp_eig(const Jvp& jvp, Array* out_tangents) {
  const Array &w = jvp.outputs[0], &v = jvp.outputs[1];
  if (v.size() == 0) return;
  const Array inner = op::solve(v, product(cast_to(jvp.tangents[0], v.dtype()), v));
  out_tangents[0] = diagonal_of(inner);
  const Array free = product(v, op::multiply(inner, reciprocal_gaps(w)));
  const Array mark = mark_greatest(v);
  const Array turn =
      imaginary_part(op::divide(sum_rows(op::multiply(free, mark)), sum_rows(op::multiply(v, mark))));
  const Array stretch = real_part(sum_rows(op::multiply(op::conjugate(v), free)));
  out_tangents[1] = op::subtract(free, op::multiply(v, op::add(stretch, turn)));
}

void vjp_eigvals(const Vjp& vjp, Array* grads) {
  const std::vector<Array> parts = op::eig(vjp.inputs[0]);
  grads[0] = pull_back(parts[1], diagonal_matrix(vjp.cotangent()), vjp.inputs[0]);
}

void jvp_eigvals(const Jvp& jvp, Array* out_tangents) {
  const std::vector<Array> parts = op::eig(jvp.inputs[0]);
  const Array& v = parts[1];
  out_tangents[0] = diagonal_of(op::solve(v, product(cast_to(jvp.tangents[0], v.dtype()), v)));
}

}  // namespace mlxc
