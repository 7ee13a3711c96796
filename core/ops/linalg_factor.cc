// Rules of cholesky, qr and lu_factor.
//
// Sources: Giles (2008), "An extended collection of matrix derivative results for forward and reverse mode
// algorithmic differentiation"; Murray (2016), "Differentiation of the Cholesky decomposition"; Seeger et al.
// (2017), "Auto-differentiating linear algebra"; Walter and Lehmann (2010), "Algorithmic differentiation of
// linear algebra functions", for qr; de Hoog, Anderssen and Lukas (2011), "Differentiation of matrix
// functionals using triangular factorization", for lu.
//
// Rule: cholesky's derivatives are those on Hermitian matrices: a gradient is Hermitian, and of a tangent the
// Hermitian part counts, although the kernel reads one triangle only.
#include <algorithm>

#include "core/ops/linalg.h"

namespace mlxc {

namespace {

// a x = b and x a = b for the triangle that `a` consists of.
Array solve_left(const Array& a, const Array& b, bool upper) { return op::solve_triangular(a, b, upper); }
Array solve_right(const Array& a, const Array& b, bool upper) {
  return adjoint(op::solve_triangular(adjoint(a), adjoint(b), !upper));
}

Array or_zeros(const Array& cotangent, const Array& like) { return cotangent ? cotangent : zeros_like(like); }

}  // namespace

// ---- cholesky -----------------------------------------------------------------------------------

void vjp_cholesky(const Vjp& vjp, Array* grads) {
  const bool upper = vjp.params_as<mlxc_cholesky_params>().upper;
  const Array factor = upper ? adjoint(vjp.output()) : vjp.output();
  const Array g = upper ? adjoint(vjp.cotangent()) : vjp.cotangent();
  const Array up = adjoint(factor);
  const Array inner = lower_half(product(up, g));
  grads[0] = hermitian_part(solve_right(factor, solve_left(up, inner, true), false));
}

void jvp_cholesky(const Jvp& jvp, Array* out_tangents) {
  const bool upper = jvp.params_as<mlxc_cholesky_params>().upper;
  const Array factor = upper ? adjoint(jvp.output()) : jvp.output();
  const Array da = hermitian_part(jvp.tangents[0]);
  const Array inner = solve_right(adjoint(factor), solve_left(factor, da, false), true);
  const Array tangent = product(factor, lower_half(inner));
  out_tangents[0] = upper ? adjoint(tangent) : tangent;
}

// ---- qr -----------------------------------------------------------------------------------------
//
// The first columns, as many as rows at most, determine q; a wide matrix has further ones with r = q^H a. Of
// a full q the columns beyond those of a tall matrix are any basis of what is left: their derivative is taken
// with no rotation among themselves.

void infer_qr(Recording& rec) {
  const mlxc_dtype dtype = take_matrix(rec);
  const Node& a = rec.input(0);
  const int64_t m = row_count(a), n = column_count(a);
  const int64_t k = rec.params_as<mlxc_qr_params>().full ? m : std::min(m, n);
  rec.out[0] = {dtype, batch_shape(a, {m, k})};
  rec.out[1] = {dtype, batch_shape(a, {k, n})};
}

void vjp_qr(const Vjp& vjp, Array* grads) {
  const Array &a = vjp.inputs[0], &q_all = vjp.outputs[0], &r_all = vjp.outputs[1];
  const int64_t m = a.dim(-2), n = a.dim(-1), k = std::min(m, n);
  if (k == 0) return;
  Array gq = or_zeros(vjp.cotangents[0], q_all), gr = or_zeros(vjp.cotangents[1], r_all);
  const Array q = columns_of(q_all, 0, k);
  if (q_all.dim(-1) > k) {
    const Array rest = columns_of(q_all, k, q_all.dim(-1) - k);
    const Array g_rest = columns_of(gq, k, q_all.dim(-1) - k);
    gq = op::subtract(columns_of(gq, 0, k), product(rest, adjoint(g_rest), q));
    gr = rows_of(gr, 0, k);
  }
  const Array r = columns_of(rows_of(r_all, 0, k), 0, k);
  Array g_beyond;
  if (n > k) {
    g_beyond = columns_of(gr, k, n - k);
    gq = op::add(gq, product(columns_of(a, k, n - k), adjoint(g_beyond)));
    gr = columns_of(gr, 0, k);
  }
  const Array inner = op::subtract(product(r, adjoint(gr)), product(adjoint(gq), q));
  const Array strict = lower_part(inner, -1);
  const Array sides =
      op::add(op::add(strict, adjoint(strict)), diagonal_matrix(real_part(diagonal_of(inner))));
  const Array first = solve_right(adjoint(r), op::add(gq, product(q, sides)), false);
  grads[0] = g_beyond ? join_columns(first, product(q, g_beyond)) : first;
}

void jvp_qr(const Jvp& jvp, Array* out_tangents) {
  const Array &a = jvp.inputs[0], &q_all = jvp.outputs[0], &r_all = jvp.outputs[1];
  const int64_t m = a.dim(-2), n = a.dim(-1), k = std::min(m, n), beyond = q_all.dim(-1) - k;
  if (k == 0) return;
  const Array& da = jvp.tangents[0];
  const Array q = columns_of(q_all, 0, k), r = columns_of(rows_of(r_all, 0, k), 0, k);
  const Array quotient = solve_right(r, columns_of(da, 0, k), true);  // da r^-1
  const Array inner = product(adjoint(q), quotient);
  const Array strict = lower_part(inner, -1);
  Array turn = op::subtract(strict, adjoint(strict));
  if (const Array phase = imaginary_part(diagonal_of(inner))) turn = op::add(turn, diagonal_matrix(phase));
  Array dq = op::add(product(q, op::subtract(turn, inner)), quotient);
  Array dr = product(op::subtract(inner, turn), r);
  if (n > k) {
    const Array last = product(adjoint(dq), columns_of(a, k, n - k));
    dr = join_columns(dr, op::add(last, product(adjoint(q), columns_of(da, k, n - k))));
  }
  if (beyond > 0) {
    const Array rest = columns_of(q_all, k, beyond);
    dq = join_columns(dq, scaled(product(q, product(adjoint(quotient), rest)), -1));
    dr = join_rows(dr, zeros(batch_shape(*r_all.node(), {beyond, n}).span(), dr.dtype()));
  }
  out_tangents[0] = dq;
  out_tangents[1] = dr;
}

// ---- lu -----------------------------------------------------------------------------------------
//
// With k the shorter side, the k x k corner has both factors; further rows belong to l, further columns to u.

namespace {

struct Factors {
  Array l, u;              // of the corner
  Array l_below, u_right;  // null where there are no further rows or columns
};

Factors take_apart(const Array& lu) {
  const int64_t m = lu.dim(-2), n = lu.dim(-1), k = std::min(m, n);
  const Array corner = columns_of(rows_of(lu, 0, k), 0, k);
  Factors f;
  f.l = op::add(lower_part(corner, -1), identity_like(corner));
  f.u = upper_part(corner);
  if (m > k) f.l_below = rows_of(lu, k, m - k);
  if (n > k) f.u_right = columns_of(lu, k, n - k);
  return f;
}

Array permute_rows(const Array& a, const Array& permutation) {
  const Array rows = as_column(permutation);
  return op::gather_axis(a, broadcast_to(rows, a.shape()), a.ndim() - 2);
}

}  // namespace

void infer_lu_factor(Recording& rec) {
  const mlxc_dtype dtype = take_matrix(rec);
  const Node& a = rec.input(0);
  const int64_t m = row_count(a), n = column_count(a);
  rec.out[0] = {dtype, Dims(a.shape())};
  rec.out[1] = {MLXC_UINT32, batch_shape(a, {std::min(m, n)})};
  rec.out[2] = {MLXC_UINT32, batch_shape(a, {m})};
}

void vjp_lu_factor(const Vjp& vjp, Array* grads) {
  const Array &lu = vjp.outputs[0], &g = vjp.cotangents[0], &permutation = vjp.outputs[2];
  const int64_t m = lu.dim(-2), n = lu.dim(-1), k = std::min(m, n);
  if (!g || k == 0) return;
  const Factors f = take_apart(lu);
  const Array corner = columns_of(rows_of(g, 0, k), 0, k);
  Array gl = lower_part(corner, -1), gu = upper_part(corner), beyond;
  if (m > k) {  // l_below = a_below u^-1
    beyond = solve_right(adjoint(f.u), rows_of(g, k, m - k), false);
    gu = op::subtract(gu, product(adjoint(f.l_below), beyond));
  }
  if (n > k) {  // u_right = l^-1 a_right
    beyond = solve_left(adjoint(f.l), columns_of(g, k, n - k), true);
    gl = op::subtract(gl, product(beyond, adjoint(f.u_right)));
  }
  const Array inner =
      op::add(lower_part(product(adjoint(f.l), gl), -1), upper_part(product(gu, adjoint(f.u))));
  Array ga = solve_right(adjoint(f.u), solve_left(adjoint(f.l), inner, true), false);
  if (m > k) ga = join_rows(ga, beyond);
  if (n > k) ga = join_columns(ga, beyond);
  grads[0] = permute_rows(ga, permutation);
}

void jvp_lu_factor(const Jvp& jvp, Array* out_tangents) {
  const Array& lu = jvp.outputs[0];
  const int64_t m = lu.dim(-2), n = lu.dim(-1), k = std::min(m, n);
  if (k == 0) return;
  const Factors f = take_apart(lu);
  const Array& permutation = jvp.outputs[2];
  const Array da = permute_rows(jvp.tangents[0], op::argsort(permutation, permutation.ndim() - 1));
  const Array corner = columns_of(rows_of(da, 0, k), 0, k);
  const Array inner = solve_right(f.u, solve_left(f.l, corner, false), true);
  const Array dl = product(f.l, lower_part(inner, -1)), du = product(upper_part(inner), f.u);
  Array tangent = op::add(dl, du);
  if (m > k) {
    const Array change = op::subtract(rows_of(da, k, m - k), product(f.l_below, du));
    tangent = join_rows(tangent, solve_right(f.u, change, true));
  }
  if (n > k) {
    const Array change = op::subtract(columns_of(da, k, n - k), product(dl, f.u_right));
    tangent = join_columns(tangent, solve_left(f.l, change, false));
  }
  out_tangents[0] = tangent;
}

}  // namespace mlxc
