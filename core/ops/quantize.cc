// Rules of quantize, dequantize, quantize_dequantize and the conversions from and to 8-bit floats.
//
// Rule: an unpacked matrix is linear in scales and biases together, and codes are constants; so a tangent of
// scales or biases goes through the same op, and a cotangent is summed over each group.
#include "core/ops/quantize.h"

#include "core/ops/batch.h"
#include "core/ops/matrix_index.h"

namespace mlxc {

namespace {

const char* mode_name(QuantMode mode) {
  switch (mode) {
    case QuantMode::affine: return "affine";
    case QuantMode::mxfp4: return "mxfp4";
    case QuantMode::mxfp8: return "mxfp8";
    case QuantMode::nvfp4: return "nvfp4";
  }
  return "?";
}

[[noreturn]] void fail_packing(const char* op, QuantMode mode, const char* what, int32_t got,
                               const char* wanted) {
  fail(MLXC_ERROR_VALUE, op, ": mode '", mode_name(mode), "' takes ", what, " ", wanted, ", got ", got);
}

void check_fixed(const char* op, const Packing& packing, int32_t group_size, int32_t bits) {
  const std::string size = std::to_string(group_size), width = std::to_string(bits);
  if (packing.group_size != group_size) {
    fail_packing(op, packing.mode, "a group size of", packing.group_size, size.c_str());
  }
  if (packing.bits != bits) fail_packing(op, packing.mode, "bits of", packing.bits, width.c_str());
}

// The last axis is cut into whole groups.
void check_groups(const Recording& rec, const Node& w, const Packing& packing) {
  if (w.ndim < 2) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": takes arrays of at least 2 axes, got shape ",
         shape_text(w.shape()));
  }
  if (w.shape_data()[w.ndim - 1] % packing.group_size != 0) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": the last axis must be a multiple of the group size ",
         packing.group_size, ", got shape ", shape_text(w.shape()));
  }
}

Dims with_last(std::span<const int64_t> shape, int64_t last) {
  Dims result(shape);
  result[result.n - 1] = last;
  return result;
}

Array dequantize_with(const Array& packed, const Array& scales, const Array& biases,
                      const mlxc_dequantize_params& p) {
  const Array further[] = {biases};
  return op::dequantize(packed, scales, std::span(further, biases ? 1 : 0), p.group_size, p.bits, p.mode,
                        p.dtype);
}

}  // namespace

Packing read_packing(const char* op, int32_t group_size, int32_t bits, int32_t mode) {
  if (mode < 0 || mode > 3) {
    fail(MLXC_ERROR_VALUE, op, ": mode must be 0 (affine), 1 (mxfp4), 2 (mxfp8) or 3 (nvfp4), got ", mode);
  }
  const Packing packing{group_size, bits, static_cast<QuantMode>(mode)};
  switch (packing.mode) {
    case QuantMode::affine:
      if (group_size != 32 && group_size != 64 && group_size != 128) {
        fail_packing(op, packing.mode, "a group size of", group_size, "32, 64 or 128");
      }
      if (bits < 1 || bits > 8 || bits == 7) {
        fail_packing(op, packing.mode, "bits of", bits, "1, 2, 3, 4, 5, 6 or 8");
      }
      break;
    case QuantMode::mxfp4: check_fixed(op, packing, 32, 4); break;
    case QuantMode::mxfp8: check_fixed(op, packing, 32, 8); break;
    case QuantMode::nvfp4: check_fixed(op, packing, 16, 4); break;
  }
  return packing;
}

void check_quantized(Recording& rec, const Packing& packing, int at, int biases) {
  const Node& packed = rec.input(at);
  const Node& scales = rec.input(at + 1);
  if (packed.dtype != MLXC_UINT32) {
    fail(MLXC_ERROR_TYPE, rec.name(), ": the packed codes must be uint32, got ", dtype_name(packed.dtype));
  }
  const bool has_biases = rec.n_inputs > biases;
  if (rec.n_inputs > biases + 1 || has_biases != packing.is_affine()) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": mode '", mode_name(packing.mode), "' ",
         packing.is_affine() ? "needs biases" : "takes no biases");
  }
  if (packed.ndim < 2) {
    fail(MLXC_ERROR_VALUE, rec.name(), ": the packed codes must have at least 2 axes, got shape ",
         shape_text(packed.shape()));
  }
  const int64_t words = packed.shape_data()[packed.ndim - 1];
  const int64_t group_words = packing.group_size * packing.bits / 32;
  const Dims wanted = with_last(packed.shape(), words / group_words);
  for (int i : {at + 1, biases}) {
    if (i == biases && !has_biases) continue;
    if (words % group_words != 0 || Dims(rec.input(i).shape()) != wanted) {
      fail(MLXC_ERROR_VALUE, rec.name(), ": ", i == biases ? "biases" : "scales", " of shape ",
           shape_text(rec.input(i).shape()), " do not belong to packed codes of shape ",
           shape_text(packed.shape()), " with group_size ", packing.group_size, " and bits ", packing.bits);
    }
  }
  if (!packing.is_affine()) {
    if (scales.dtype != MLXC_UINT8) {
      fail(MLXC_ERROR_TYPE, rec.name(), ": scales of mode '", mode_name(packing.mode),
           "' must be uint8, got ", dtype_name(scales.dtype));
    }
    return;
  }
  const mlxc_dtype dtype = promote_for(rec, scales.dtype, rec.input(biases).dtype);
  if (!is_floating(dtype)) {
    fail(MLXC_ERROR_TYPE, rec.name(), ": scales and biases of mode 'affine' must be floats, got ",
         dtype_name(scales.dtype), " and ", dtype_name(rec.input(biases).dtype));
  }
  rec.cast_input(at + 1, dtype);
  rec.cast_input(biases, dtype);
}

GroupGradients fold_groups(const Array& matrix_gradient, const Array& packed, const Packing& packing) {
  const int ndim = matrix_gradient.ndim();
  const int64_t groups = matrix_gradient.dim(-1) / packing.group_size;
  Dims apart = with_last(matrix_gradient.shape(), groups);
  apart.push(packing.group_size);
  const Dims shape = with_last(packed.shape(), groups);
  const mlxc_dtype dtype = matrix_gradient.dtype();
  const Array codes = dequantize_with(packed, ones(shape.span(), dtype), zeros(shape.span(), dtype),
                                      {sizeof(mlxc_dequantize_params), packing.group_size, packing.bits,
                                       static_cast<int32_t>(packing.mode), dtype});
  const Axes last = make_axes({ndim});
  const Sizes sizes = make_sizes(apart.span());
  GroupGradients result;
  result.biases = op::sum(op::reshape(matrix_gradient, sizes), last, false);
  result.scales = op::sum(op::reshape(op::multiply(matrix_gradient, codes), sizes), last, false);
  return result;
}

// ---- quantize -----------------------------------------------------------------------------------

void infer_quantize(Recording& rec) {
  const Node& w = rec.input(0);
  check_accepts(*rec.op, w.dtype);
  const Packing packing = read_packing(rec.name(), rec.params_as<mlxc_quantize_params>());
  check_groups(rec, w, packing);
  const int64_t columns = w.shape_data()[w.ndim - 1];
  rec.out[0] = {MLXC_UINT32, with_last(w.shape(), columns / packing.group_size *
                                                      (packing.group_size * packing.bits / 32))};
  const Dims scales = with_last(w.shape(), columns / packing.group_size);
  if (!packing.is_affine()) {
    rec.out[1] = {MLXC_UINT8, scales};
    return;
  }
  Dims both{2};
  for (const int64_t size : scales.span()) both.push(size);
  rec.out[1] = {w.dtype, both};
}

void infer_quantize_dequantize(Recording& rec) {
  check_accepts(*rec.op, rec.input(0).dtype);
  const Packing packing = read_packing(rec.name(), rec.params_as<mlxc_quantize_dequantize_params>());
  check_groups(rec, rec.input(0), packing);
  rec.out[0] = {rec.input(0).dtype, Dims(rec.input(0).shape())};
}

void vjp_quantize_dequantize(const Vjp& vjp, Array* grads) { grads[0] = vjp.cotangent(); }

void jvp_quantize_dequantize(const Jvp& jvp, Array* out_tangents) { out_tangents[0] = jvp.tangents[0]; }

// Ops that treat every row of the last axis alike.
void vmap_rows(const Vmap& vmap, Array* results) {
  // Single numbers are rows of one, or the batch would be the row.
  const bool single = vmap.inputs[0].ndim() == 1;
  const Array rows = single ? op::expand_dims(vmap.inputs[0], Axes{1, {1}}) : vmap.inputs[0];
  Node* const input = rows.node();
  std::vector<Array> made = record_many(vmap.op->number, &input, 1, vmap.params);
  if (single) made[0] = op::squeeze(made[0], Axes{1, {1}});
  for (size_t i = 0; i < made.size(); i++) results[i] = made[i];
  if (vmap.op->number == MLXC_OP_QUANTIZE && results[1].ndim() > results[0].ndim()) {
    // Scales and biases come first, then the batch.
    Axes axes = all_axes(results[1].ndim());
    std::swap(axes.items[0], axes.items[1]);
    results[1] = op::transpose(results[1], axes);
  }
}

// ---- dequantize ---------------------------------------------------------------------------------

void infer_dequantize(Recording& rec) {
  auto& params = rec.params_as<mlxc_dequantize_params>();
  const Packing packing = read_packing(rec.name(), params);
  check_quantized(rec, packing, 0, 2);
  if (!is_floating(params.dtype)) {
    fail(MLXC_ERROR_TYPE, "dequantize: the result must be of floats, got ", dtype_name(params.dtype));
  }
  const Node& packed = rec.input(0);
  rec.out[0] = {params.dtype,
                with_last(packed.shape(), packing.columns(packed.shape_data()[packed.ndim - 1]))};
}

void vjp_dequantize(const Vjp& vjp, Array* grads) {
  const auto& params = vjp.params_as<mlxc_dequantize_params>();
  const Packing packing = read_packing("dequantize", params);
  if (!packing.is_affine()) return;
  const GroupGradients folded = fold_groups(widen(vjp.cotangent()), vjp.inputs[0], packing);
  if (vjp.wants(1)) grads[1] = folded.scales;
  if (vjp.wants(2)) grads[2] = folded.biases;
}

void jvp_dequantize(const Jvp& jvp, Array* out_tangents) {
  const auto& params = jvp.params_as<mlxc_dequantize_params>();
  if (jvp.inputs.size() < 3 || (!jvp.tangents[1] && !jvp.tangents[2])) return;
  out_tangents[0] =
      dequantize_with(jvp.inputs[0], jvp.tangents[1] ? jvp.tangents[1] : zeros_like(jvp.inputs[1]),
                      jvp.tangents[2] ? jvp.tangents[2] : zeros_like(jvp.inputs[2]), params);
}

void vmap_dequantize(const Vmap& vmap, Array* results) {
  const Array biases = vmap.inputs.size() > 2 ? batched_input(vmap, 2) : Array();
  results[0] = dequantize_with(batched_input(vmap, 0), batched_input(vmap, 1), biases,
                               vmap.params_as<mlxc_dequantize_params>());
}

// ---- 8-bit floats -------------------------------------------------------------------------------

void infer_to_fp8(Recording& rec) {
  check_accepts(*rec.op, rec.input(0).dtype);
  rec.out[0] = {MLXC_UINT8, Dims(rec.input(0).shape())};
}

void infer_from_fp8(Recording& rec) {
  check_accepts(*rec.op, rec.input(0).dtype);
  const mlxc_dtype dtype = rec.params_as<mlxc_from_fp8_params>().dtype;
  if (!is_floating(dtype)) {
    fail(MLXC_ERROR_TYPE, "from_fp8: the result must be of floats, got ", dtype_name(dtype));
  }
  rec.out[0] = {dtype, Dims(rec.input(0).shape())};
}

}  // namespace mlxc
