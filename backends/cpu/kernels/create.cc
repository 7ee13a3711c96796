/* Arrays made from nothing: full and arange.
 *
 * `full` repeats its input, usually of one element, over the output; `arange` computes every element from its
 * index, so that errors do not add up and pieces can be filled by different threads.
 */
#include <cmath>

#include "copy.h"
#include "dtype.h"
#include "parallel.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

mlxc_error* run_full(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* in = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  int64_t strides[MLXC_MAX_NDIM] = {};
  int missing = out->ndim - in->ndim;
  for (int axis = missing; axis < out->ndim; axis++) {
    strides[axis] = axis >= 0 && in->shape[axis - missing] != 1 ? in->strides[axis - missing] : 0;
  }
  copy_strided(out->host, out->strides, in->host, strides, out->shape, out->ndim, size_of(out->dtype));
  return nullptr;
}

bool is_whole(double value) { return std::fabs(value) < 0x1p63 && value == std::trunc(value); }

template <class T>
void fill_arange(T* result, int64_t n, double start, double step) {
  bool whole = is_integer<T> && is_whole(start) && is_whole(step);
  uint64_t first = whole ? static_cast<uint64_t>(static_cast<int64_t>(start)) : 0;
  uint64_t each = whole ? static_cast<uint64_t>(static_cast<int64_t>(step)) : 0;
  parallel_for(n, grain_for_bytes(sizeof(T)), [&](int64_t begin, int64_t end) {
    if constexpr (is_integer<T>) {
      if (whole) {
        for (int64_t i = begin; i < end; i++)
          result[i] = static_cast<T>(first + static_cast<uint64_t>(i) * each);
        return;
      }
    }
    for (int64_t i = begin; i < end; i++) result[i] = cast<T>(start + static_cast<double>(i) * step);
  });
}

mlxc_error* run_arange(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_arange_params* p = params<mlxc_arange_params>(call);
  const mlxc_view* out = call->outputs[0];
  visit_dtype(out->dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill_arange(data<T>(out), out->size, p->start, p->step);
  });
  return nullptr;
}

constexpr mlxc_kernel kRows[] = {
    make_row(MLXC_OP_FULL, kMaskAll, kMaskAll, run_full),
    make_row(MLXC_OP_ARANGE, kMaskAll, kMaskAll, run_arange),
};

}  // namespace

KernelRows create_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
