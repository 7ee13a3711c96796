/* concatenate and pad: arrays assembled from windows.
 *
 * Called by the core with all inputs of one dtype. Elements are only moved, so the code knows their size and
 * not their type; every element of the output is written once.
 */
#include "copy.h"
#include "dtype.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

mlxc_error* check_dtypes(const char* op, const mlxc_kernel_call* call) {
  const mlxc_dtype dtype = call->outputs[0]->dtype;
  for (int32_t i = 0; i < call->n_inputs; i++) {
    if (call->inputs[i]->dtype == dtype) continue;
    return make_error(MLXC_ERROR_TYPE,
                      "%s: the CPU kernel got %s as input %d for a result of %s; all must agree", op,
                      dtype_name(call->inputs[i]->dtype), i, dtype_name(dtype));
  }
  return nullptr;
}

mlxc_error* run_concatenate(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  if (mlxc_error* error = check_dtypes("concatenate", call)) return error;
  const mlxc_view* out = call->outputs[0];
  const int axis = params<mlxc_concatenate_params>(call)->axis;
  const int64_t item = size_of(out->dtype);
  char* target = data<char>(out);
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const mlxc_view* input = call->inputs[i];
    if (input->size == 0) continue;
    copy_strided(target, out->strides, input->host, input->strides, input->shape, input->ndim, item);
    target += input->shape[axis] * out->strides[axis] * item;
  }
  return nullptr;
}

mlxc_error* run_pad(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  if (mlxc_error* error = check_dtypes("pad", call)) return error;
  const mlxc_view* a = call->inputs[0];
  const void* value = call->inputs[1]->host;
  const mlxc_view* out = call->outputs[0];
  const auto* p = params<mlxc_pad_params>(call);
  if (out->size == 0) return nullptr;
  const int64_t item = size_of(out->dtype);
  /* Axis by axis, the two borders of what is left once the borders of the axes before are cut off. */
  char* origin = data<char>(out);
  int64_t shape[MLXC_MAX_NDIM];
  for (int axis = 0; axis < out->ndim; axis++) shape[axis] = out->shape[axis];
  for (int axis = 0; axis < out->ndim; axis++) {
    const int64_t low = p->low.items[axis], high = p->high.items[axis];
    const int64_t step = out->strides[axis] * item;
    if (low > 0) {
      shape[axis] = low;
      fill_strided(origin, out->strides, value, shape, out->ndim, item);
    }
    if (high > 0) {
      shape[axis] = high;
      fill_strided(origin + (low + a->shape[axis]) * step, out->strides, value, shape, out->ndim, item);
    }
    shape[axis] = a->shape[axis];
    if (shape[axis] == 0) return nullptr;
    origin += low * step;
  }
  copy_strided(origin, out->strides, a->host, a->strides, a->shape, a->ndim, item);
  return nullptr;
}

const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_CONCATENATE, kMaskAll, kMaskAll, run_concatenate),
    make_row(MLXC_OP_PAD, kMaskAll, kMaskAll, run_pad),
};

}  // namespace

KernelRows join_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
