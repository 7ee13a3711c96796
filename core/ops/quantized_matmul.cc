// Rules of quantized_matmul and gather_qmm: products with a matrix that stays packed.
//
// Rule: x passes its gradient through the same product with the matrix turned round; scales and biases get
// theirs from the gradient of the unpacked matrix, summed over groups; codes have none.
#include <algorithm>

#include "core/ops/batch.h"
#include "core/ops/matrix_index.h"
#include "core/ops/quantize.h"

namespace mlxc {

namespace {

// The packed matrix and its companions among an op's inputs; biases is null but in affine mode.
struct Quantized {
  Array packed, scales, biases;
};

template <class P>
Array multiply(const Array& x, const Quantized& w, bool transpose, const P& p) {
  const Array further[] = {w.biases};
  return op::quantized_matmul(x, w.packed, w.scales, std::span(further, w.biases ? 1 : 0), transpose,
                              p.group_size, p.bits, p.mode);
}

template <class P>
Array multiply_gathered(const Array& x, const Quantized& w, const Array& lhs, const Array& rhs,
                        bool transpose, const P& p) {
  const Array further[] = {w.biases};
  return op::gather_qmm(x, w.packed, w.scales, lhs, rhs, std::span(further, w.biases ? 1 : 0), transpose,
                        p.group_size, p.bits, p.mode);
}

Quantized read_quantized(std::span<const Array> inputs, size_t biases) {
  return {inputs[1], inputs[2], inputs.size() > biases ? inputs[biases] : Array()};
}

// The scales and biases replaced by their tangents, zero where there is none; packed is null if neither has
// one.
Quantized read_tangent(const Jvp& jvp, size_t biases) {
  Quantized w = read_quantized(jvp.inputs, biases);
  if (!w.biases || (!jvp.tangents[2] && !jvp.tangents[biases])) return {};
  w.scales = jvp.tangents[2] ? jvp.tangents[2] : zeros_like(w.scales);
  w.biases = jvp.tangents[biases] ? jvp.tangents[biases] : zeros_like(w.biases);
  return w;
}

// Checks the inner sizes, casts x to the result's dtype, and returns the sizes (rows, columns) of the result.
std::pair<int64_t, int64_t> infer_product(Recording& rec, const Packing& packing, bool transpose) {
  const Node& x = rec.input(0);
  const Node& packed = rec.input(1);
  check_accepts(*rec.op, x.dtype);
  const int64_t rows = packed.shape_data()[packed.ndim - 2];
  const int64_t columns = packing.columns(packed.shape_data()[packed.ndim - 1]);
  const int64_t inner = transpose ? columns : rows;
  if (x.shape_data()[x.ndim - 1] != inner) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": the last axis of shape ", shape_text(x.shape()), " must be ", inner,
         " long for packed codes of shape ", shape_text(packed.shape()), " (a matrix of ", rows, " x ",
         columns, ") with transpose=", transpose ? "True" : "False");
  }
  mlxc_dtype dtype = to_inexact(x.dtype);
  if (packing.is_affine()) dtype = promote_for(rec, dtype, rec.input(2).dtype);
  const int64_t m = x.ndim > 1 ? x.shape_data()[x.ndim - 2] : 1;
  rec.cast_input(0, dtype);
  return {m, transpose ? rows : columns};
}

}  // namespace

// ---- quantized_matmul ---------------------------------------------------------------------------

void infer_quantized_matmul(Recording& rec) {
  const auto& params = rec.params_as<mlxc_quantized_matmul_params>();
  const Packing packing = read_packing(rec.name(), params);
  check_quantized(rec, packing, 1, 3);
  const bool vector = rec.input(0).ndim == 1;
  if (rec.input(0).ndim == 0 || (vector && rec.input(1).ndim > 2)) {
    fail(MLXC_ERROR_VALUE, "quantized_matmul: x needs at least ", rec.input(1).ndim > 2 ? 2 : 1,
         " axes beside packed codes of shape ", shape_text(rec.input(1).shape()), ", got shape ",
         shape_text(rec.input(0).shape()));
  }
  const auto [rows, columns] = infer_product(rec, packing, params.transpose);
  const Array x = Array::borrow(rec.inputs[0]), packed = Array::borrow(rec.inputs[1]);
  Dims shape;
  if (!vector) {
    try {
      shape = broadcast_shapes(rec.name(), lead_shape(x), lead_shape(packed));
    } catch (const Failure&) {
      fail(MLXC_ERROR_VALUE, "quantized_matmul: the leading axes of shapes ", shape_text(x.shape()), " and ",
           shape_text(packed.shape()), " do not broadcast together");
    }
    shape.push(rows);
  }
  shape.push(columns);
  checked_size(rec.name(), shape.span(), dtype_size(x.dtype()));
  rec.out[0] = {x.dtype(), shape};
}

void vjp_quantized_matmul(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<mlxc_quantized_matmul_params>();
  const Packing packing = read_packing("quantized_matmul", params);
  const Quantized w = read_quantized(vjp.inputs, 3);
  const Array& x = vjp.inputs[0];
  if (vjp.wants(0)) grads[0] = sum_to(multiply(vjp.cotangent(), w, !params.transpose, params), x.shape());
  if (!w.biases || !(vjp.wants(2) || vjp.wants(3))) return;
  // The gradient of the unpacked matrix: one product if the matrix has no leading axes, else one a matrix.
  Array g = widen(vjp.cotangent()), left = widen(x);
  if (w.packed.ndim() == 2) {
    g = op::reshape(g, make_sizes(Dims{g.size() / g.dim(-1), g.dim(-1)}.span()));
    left = op::reshape(left, make_sizes(Dims{left.size() / left.dim(-1), left.dim(-1)}.span()));
  }
  Array matrix = params.transpose ? op::matmul(swap_last(g), left) : op::matmul(swap_last(left), g);
  Dims shape = w.packed.dims();
  shape[shape.n - 1] = matrix.dim(-1);
  matrix = sum_to(matrix, shape.span());
  const GroupGradients folded = fold_groups(matrix, w.packed, packing);
  if (vjp.wants(2)) grads[2] = folded.scales;
  if (vjp.wants(3)) grads[3] = folded.biases;
}

void jvp_quantized_matmul(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<mlxc_quantized_matmul_params>();
  const Quantized w = read_quantized(jvp.inputs, 3), tangent = read_tangent(jvp, 3);
  if (jvp.tangents[0]) out_tangents[0] = multiply(jvp.tangents[0], w, params.transpose, params);
  if (tangent.packed) {
    out_tangents[0] = add_maybe(out_tangents[0], multiply(jvp.inputs[0], tangent, params.transpose, params));
  }
}

void vmap_quantized_matmul(const Vmap& vmap, Array* results) {
  const auto& params = vmap.params_as<mlxc_quantized_matmul_params>();
  const bool matrix_batched =
      vmap.batched[1] || vmap.batched[2] || (vmap.inputs.size() > 3 && vmap.batched[3]);
  Quantized w = read_quantized(vmap.inputs, 3);
  if (!matrix_batched && w.packed.ndim() == 2) {
    results[0] = multiply(vmap.inputs[0], w, params.transpose, params);
    return;
  }
  // Both sides get the batch (or an axis of size one) first, and then equally many axes.
  const int ndim_x = vmap.inputs[0].ndim() - vmap.batched[0];
  const int ndim_w = w.packed.ndim() - vmap.batched[1];
  const int ndim = std::max({ndim_x, ndim_w, 2});
  const auto align = [&](size_t i, int own, bool repeat) {
    const Array& a = vmap.inputs[i];
    const bool batched = vmap.batched[i];
    Dims shape{batched ? a.dim(0) : 1};
    for (int k = own; k < ndim; k++) shape.push(1);
    for (int k = 0; k < own; k++) shape.push(a.dim(k + batched));
    const Array apart = op::reshape(a, make_sizes(shape.span()));
    if (!repeat || batched) return apart;
    shape[0] = vmap.size;
    return broadcast_to(apart, shape.span());
  };
  const Array x = align(0, ndim_x, false);
  w.packed = align(1, ndim_w, matrix_batched);
  w.scales = align(2, ndim_w, matrix_batched);
  if (w.biases) w.biases = align(3, ndim_w, matrix_batched);
  Dims shape{vmap.size};
  for (const int64_t size : vmap.outputs[0].shape()) shape.push(size);
  results[0] = op::reshape(multiply(x, w, params.transpose, params), make_sizes(shape.span()));
}

// ---- gather_qmm ---------------------------------------------------------------------------------

void infer_gather_qmm(Recording& rec) {
  const auto& params = rec.params_as<mlxc_gather_qmm_params>();
  const Packing packing = read_packing(rec.name(), params);
  check_quantized(rec, packing, 1, 5);
  if (rec.input(0).ndim < 2) {
    fail(MLXC_ERROR_VALUE, "gather_qmm: x needs at least 2 axes, got shape ",
         shape_text(rec.input(0).shape()));
  }
  const Dims batch = infer_matrix_indices(rec, 3, Array::borrow(rec.inputs[0]), Array::borrow(rec.inputs[1]));
  const auto [rows, columns] = infer_product(rec, packing, params.transpose);
  Dims shape = batch;
  shape.push(rows);
  shape.push(columns);
  checked_size(rec.name(), shape.span(), dtype_size(rec.input(0).dtype));
  rec.out[0] = {static_cast<mlxc_dtype>(rec.input(0).dtype), shape};
}

void vjp_gather_qmm(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<mlxc_gather_qmm_params>();
  const Packing packing = read_packing("gather_qmm", params);
  const Quantized w = read_quantized(vjp.inputs, 5);
  const Array &x = vjp.inputs[0], &lhs = vjp.inputs[3], &rhs = vjp.inputs[4], &g = vjp.cotangent();
  if (vjp.wants(0)) {
    const Array each = multiply_gathered(g, w, number_matrices(g), rhs, !params.transpose, params);
    grads[0] = scatter_matrices(each, lhs, x.shape());
  }
  if (!w.biases || !(vjp.wants(2) || vjp.wants(5))) return;
  const Array tall = widen(g), left = gather_matrices(widen(x), lhs);
  Dims shape = w.packed.dims();
  shape[shape.n - 1] = packing.columns(w.packed.dim(-1));
  const Array matrix = params.transpose ? sum_products(tall, left, rhs, shape.span())
                                        : sum_products(left, tall, rhs, shape.span());
  const GroupGradients folded = fold_groups(matrix, w.packed, packing);
  if (vjp.wants(2)) grads[2] = folded.scales;
  if (vjp.wants(5)) grads[5] = folded.biases;
}

void jvp_gather_qmm(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<mlxc_gather_qmm_params>();
  const Array &lhs = jvp.inputs[3], &rhs = jvp.inputs[4];
  const Quantized w = read_quantized(jvp.inputs, 5), tangent = read_tangent(jvp, 5);
  if (jvp.tangents[0]) {
    out_tangents[0] = multiply_gathered(jvp.tangents[0], w, lhs, rhs, params.transpose, params);
  }
  if (tangent.packed) {
    out_tangents[0] = add_maybe(
        out_tangents[0], multiply_gathered(jvp.inputs[0], tangent, lhs, rhs, params.transpose, params));
  }
}

void vmap_gather_qmm(const Vmap& vmap, Array* results) {
  const auto& params = vmap.params_as<mlxc_gather_qmm_params>();
  const bool affine = vmap.inputs.size() > 5;
  const bool matrix_batched = vmap.batched[1] || vmap.batched[2] || (affine && vmap.batched[5]);
  const auto own_shape = [&](size_t i) { return vmap.inputs[i].shape().subspan(vmap.batched[i]); };
  const Array lhs = batch_matrix_indices(vmap, 3, vmap.batched[0], own_shape(0));
  const Array rhs = batch_matrix_indices(vmap, 4, matrix_batched, own_shape(1));
  Quantized w = read_quantized(vmap.inputs, 5);
  if (matrix_batched) {
    w = {batched_input(vmap, 1), batched_input(vmap, 2), affine ? batched_input(vmap, 5) : Array()};
  }
  results[0] = multiply_gathered(vmap.inputs[0], w, lhs, rhs, params.transpose, params);
}

}  // namespace mlxc
