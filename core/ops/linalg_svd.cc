// Rules of svd, svdvals and pinv.
//
// Sources: Townsend (2016), "Differentiating the singular value decomposition"; Wan and Zhang (2019),
// "Automatic differentiation for complex valued SVD"; Golub and Pereyra (1973), "The differentiation of
// pseudo-inverses and nonlinear least squares problems whose variables separate", for pinv.
//
// Rule: pairs of singular values enter as 1 / (s_j - s_i) for what turns u and v alike and 1 / (s_j + s_i)
// for what turns them against each other. Only the first is arbitrary between equal values, so that, say, u
// vh has its true derivative there. Vectors that the matrix does not determine are taken not to turn among
// themselves.
#include <algorithm>

#include "core/ops/linalg.h"

namespace mlxc {

void infer_svd(Recording& rec) {
  const mlxc_dtype dtype = take_matrix(rec);
  const Node& a = rec.input(0);
  const bool full = rec.params_as<mlxc_svd_params>().full;
  const int64_t m = row_count(a), n = column_count(a), k = std::min(m, n);
  rec.out[0] = {dtype, batch_shape(a, {m, full ? m : k})};
  rec.out[1] = {real_dtype(dtype), batch_shape(a, {k})};
  rec.out[2] = {dtype, batch_shape(a, {full ? n : k, n})};
}

void infer_svdvals(Recording& rec) {
  const mlxc_dtype dtype = take_matrix(rec);
  const Node& a = rec.input(0);
  rec.out[0] = {real_dtype(dtype), batch_shape(a, {std::min(row_count(a), column_count(a))})};
}

namespace {

// 1 / (s_i + s_j), and 1 / (s_j - s_i).
Array reciprocal_sums(const Array& s) { return safe_reciprocal(op::add(as_column(s), as_row(s)), s); }

// What is left of the columns of x outside of the space of q's columns.
Array outside(const Array& q, const Array& x) { return op::subtract(x, product(q, product(adjoint(q), x))); }

// Of a cotangent for all of q = [q1 q2]: that for q1, where q2 follows q1 as it has to.
Array first_cotangent(const Array& g, const Array& q, int64_t k) {
  const int64_t rest = q.dim(-1) - k;
  if (rest == 0) return g;
  const Array q1 = columns_of(q, 0, k), q2 = columns_of(q, k, rest);
  return op::subtract(columns_of(g, 0, k), product(q2, product(adjoint(columns_of(g, k, rest)), q1)));
}

// The tangent of [q1 q2] from how q1 turns in itself, and from d = da v / s, of which the part outside of
// q1's space moves q1 out of it.
Array side_tangent(const Array& q, int64_t k, const Array& turn, const Array& d) {
  const Array q1 = columns_of(q, 0, k);
  const Array inside = product(q1, turn);
  const int64_t rest = q.dim(-1) - k;
  if (rest == 0) return q1.dim(-2) > k ? op::add(inside, outside(q1, d)) : inside;
  const Array q2 = columns_of(q, k, rest);
  const Array out = product(adjoint(q2), d);
  return join_columns(op::add(inside, product(q2, out)), scaled(product(q1, adjoint(out)), -1));
}

}  // namespace

void vjp_svd(const Vjp& vjp, Array* grads) {
  const Array &u_all = vjp.outputs[0], &s = vjp.outputs[1], &vh_all = vjp.outputs[2];
  const int64_t k = s.dim(-1);
  if (k == 0) return;
  const Array v_all = adjoint(vh_all);
  const Array u = columns_of(u_all, 0, k), v = columns_of(v_all, 0, k);
  const Array inverse_s = as_row(safe_reciprocal(s, s));
  Array inner, beyond_u, beyond_v, of_u, of_v;
  if (vjp.cotangents[0]) {
    const Array g = first_cotangent(vjp.cotangents[0], u_all, k);
    of_u = product(adjoint(u), g);
    if (u.dim(-2) > k) beyond_u = op::multiply(outside(u, g), inverse_s);
  }
  if (vjp.cotangents[2]) {
    const Array g = first_cotangent(adjoint(vjp.cotangents[2]), v_all, k);
    of_v = product(adjoint(v), g);
    if (v.dim(-2) > k) beyond_v = op::multiply(outside(v, g), inverse_s);
  }
  if (of_u || of_v) {
    const Array against = of_v ? scaled(of_v, -1) : Array();
    inner = op::add(hermitian_part(op::multiply(add_maybe(of_u, of_v), reciprocal_gaps(s))),
                    skew_part(op::multiply(add_maybe(of_u, against), reciprocal_sums(s))));
  }
  if (vjp.cotangents[1]) inner = add_maybe(inner, cast_to(diagonal_matrix(vjp.cotangents[1]), u.dtype()));
  Array left = product(u, inner);
  if (beyond_u) left = op::add(left, beyond_u);
  Array g = product(left, adjoint(v));
  if (beyond_v) g = op::add(g, product(u, adjoint(beyond_v)));
  grads[0] = g;
}

void jvp_svd(const Jvp& jvp, Array* out_tangents) {
  const Array &u_all = jvp.outputs[0], &s = jvp.outputs[1], &vh_all = jvp.outputs[2];
  const int64_t k = s.dim(-1);
  if (k == 0) return;
  const Array& da = jvp.tangents[0];
  const Array v_all = adjoint(vh_all);
  const Array u = columns_of(u_all, 0, k), v = columns_of(v_all, 0, k);
  const Array inner = product(adjoint(u), da, v);
  const Array alike = op::multiply(hermitian_part(inner), reciprocal_gaps(s));
  const Array against = op::multiply(skew_part(inner), reciprocal_sums(s));
  const Array inverse_s = as_row(safe_reciprocal(s, s));
  out_tangents[0] = side_tangent(u_all, k, op::add(alike, against), op::multiply(product(da, v), inverse_s));
  out_tangents[1] = op::real(diagonal_of(inner));
  const Array dv =
      side_tangent(v_all, k, op::subtract(alike, against), op::multiply(product(adjoint(da), u), inverse_s));
  out_tangents[2] = adjoint(dv);
}

void vjp_svdvals(const Vjp& vjp, Array* grads) {
  const std::vector<Array> parts = op::svd(vjp.inputs[0], false);
  grads[0] = product(op::multiply(parts[0], as_row(vjp.cotangent())), parts[2]);
}

void jvp_svdvals(const Jvp& jvp, Array* out_tangents) {
  const std::vector<Array> parts = op::svd(jvp.inputs[0], false);
  const Array moved = product(jvp.tangents[0], adjoint(parts[2]));
  const Array each = op::multiply(op::conjugate(parts[0]), moved);
  out_tangents[0] = op::real(op::sum(each, make_axes({each.ndim() - 2}), false));
}

// ---- pinv ---------------------------------------------------------------------------------------
//
// Derivatives are those among matrices of the same rank.

void infer_pinv(Recording& rec) {
  const mlxc_dtype dtype = take_matrix(rec);
  const Node& a = rec.input(0);
  const Node& rtol = rec.input(1);
  if (is_complex(rtol.dtype)) fail(MLXC_ERROR_TYPE, "pinv: rtol is real, got ", dtype_name(rtol.dtype));
  const Dims batch = batch_shape(a);
  if (!(broadcast_shapes("pinv", batch.span(), rtol.shape()) == batch)) {
    fail(MLXC_ERROR_VALUE, "pinv: rtol of shape ", shape_text(rtol.shape()),
         " does not broadcast to the batch of shape ", shape_text(batch));
  }
  rec.cast_input(1, real_dtype(dtype));
  rec.replace_input(1, broadcast_to(Array::borrow(rec.inputs[1]), batch.span()));
  rec.out[0] = {dtype, batch_shape(a, {column_count(a), row_count(a)})};
}

void vjp_pinv(const Vjp& vjp, Array* grads) {
  if (!vjp.wants(0)) return;
  const Array &a = vjp.inputs[0], &p = vjp.output();
  const Array up = adjoint(p), gh = adjoint(vjp.cotangent());
  Array g = scaled(product(up, vjp.cotangent(), up), -1);
  const Array left = product(gh, p, up);
  g = op::add(g, op::subtract(left, product(a, product(p, left))));
  const Array right = product(up, p, gh);
  grads[0] = op::add(g, op::subtract(right, product(right, p, a)));
}

void jvp_pinv(const Jvp& jvp, Array* out_tangents) {
  if (!jvp.tangents[0]) return;
  const Array &a = jvp.inputs[0], &p = jvp.output(), &da = jvp.tangents[0];
  const Array up = adjoint(p), dah = adjoint(da);
  Array t = scaled(product(p, da, p), -1);
  const Array left = product(p, up, dah);
  t = op::add(t, op::subtract(left, product(left, a, p)));
  const Array right = product(dah, up, p);
  out_tangents[0] = op::add(t, op::subtract(right, product(p, product(a, right))));
}

}  // namespace mlxc
