/* slice_update: an array with a window of it replaced. (slice itself makes a view in the core.)
 *
 * Called by the core with the update already broadcast to the window and cast. Where the core gave the output
 * the memory of `a`, only the window is written.
 */
#include "copy.h"
#include "dtype.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

mlxc_error* run_slice_update(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* a = call->inputs[0];
  const mlxc_view* update = call->inputs[1];
  const mlxc_view* out = call->outputs[0];
  const auto* p = params<mlxc_slice_update_params>(call);
  if (a->dtype != out->dtype || update->dtype != out->dtype) {
    return make_error(MLXC_ERROR_TYPE,
                      "slice_update: the CPU kernel got %s and %s for a result of %s; all must agree",
                      dtype_name(a->dtype), dtype_name(update->dtype), dtype_name(out->dtype));
  }
  const int64_t item = size_of(out->dtype);
  const bool replaces_all = update->size == out->size;
  if (out->host != a->host && !replaces_all) {
    copy_strided(out->host, out->strides, a->host, a->strides, out->shape, out->ndim, item);
  }
  if (update->size == 0) return nullptr;
  int64_t offset = 0;
  int64_t strides[MLXC_MAX_NDIM];
  for (int axis = 0; axis < out->ndim; axis++) {
    offset += p->start.items[axis] * out->strides[axis];
    strides[axis] = p->step.items[axis] * out->strides[axis];
  }
  copy_strided(data<char>(out) + offset * item, strides, update->host, update->strides, update->shape,
               update->ndim, item);
  return nullptr;
}

const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_SLICE_UPDATE, kMaskAll, kMaskAll, run_slice_update, MLXC_KERNEL_DONATES_0)};

}  // namespace

KernelRows slice_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
