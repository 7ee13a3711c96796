/* How a reduction walks its input: kept axes and reduced axes, each sorted by stride and merged.
 *
 * Used by reduce, argreduce, softmax and scan kernels. Reduced axes with negative strides are turned round,
 * since the order of the elements does not matter there; kept axes carry their stride in the output along.
 * The order is by stride, so the innermost kept or reduced axis is the one with the closest neighbours.
 */
#ifndef MLXC_CPU_REDUCE_PLAN_H
#define MLXC_CPU_REDUCE_PLAN_H

#include "dtype.h"
#include "strided.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

struct ReducePlan {
  Walk<2> kept;    /* strides of the input and of the output */
  Walk<1> reduced; /* strides of the input, none negative */
  int64_t n_kept;
  int64_t n_reduced;
  int64_t base; /* elements from the view's first to where the reduced axes start */
};

namespace plan_detail {

struct Axis {
  int64_t size;
  int64_t in;
  int64_t out;
};

inline int64_t magnitude(int64_t value) { return value < 0 ? -value : value; }

/* Insertion by descending input stride; axes of size one are left out. */
inline int insert_axis(Axis* axes, int count, Axis axis) {
  if (axis.size == 1) return count;
  int at = count;
  while (at > 0 && magnitude(axes[at - 1].in) < magnitude(axis.in)) {
    axes[at] = axes[at - 1];
    at--;
  }
  axes[at] = axis;
  return count + 1;
}

}  // namespace plan_detail

/* `is_reduced[axis]` marks the reduced axes; the output is row-major over the kept ones. */
inline ReducePlan make_reduce_plan(const mlxc_view* in, const bool* is_reduced) {
  using plan_detail::Axis;
  ReducePlan plan;
  plan.base = 0;
  plan.n_kept = plan.n_reduced = 1;
  Axis kept[MLXC_MAX_NDIM], reduced[MLXC_MAX_NDIM];
  int n_kept = 0, n_reduced = 0;
  for (int axis = in->ndim - 1; axis >= 0; axis--) {
    int64_t size = in->shape[axis], stride = in->strides[axis];
    if (is_reduced[axis]) {
      if (stride < 0 && size > 0) {
        plan.base += stride * (size - 1);
        stride = -stride;
      }
      n_reduced = plan_detail::insert_axis(reduced, n_reduced, Axis{size, stride, 0});
      plan.n_reduced *= size;
    } else {
      n_kept = plan_detail::insert_axis(kept, n_kept, Axis{size, stride, plan.n_kept});
      plan.n_kept *= size;
    }
  }
  int64_t shape[MLXC_MAX_NDIM], in_strides[MLXC_MAX_NDIM], out_strides[MLXC_MAX_NDIM];
  for (int i = 0; i < n_kept; i++) {
    shape[i] = kept[i].size;
    in_strides[i] = kept[i].in;
    out_strides[i] = kept[i].out;
  }
  plan.kept = make_walk<2>(n_kept, shape, {in_strides, out_strides});
  for (int i = 0; i < n_reduced; i++) {
    shape[i] = reduced[i].size;
    in_strides[i] = reduced[i].in;
  }
  plan.reduced = make_walk<1>(n_reduced, shape, {in_strides});
  return plan;
}

/* True if a step along the innermost kept axis is shorter than along the innermost reduced one: then whole
 * rows of outputs are accumulated side by side. */
inline bool goes_by_columns(const ReducePlan& plan) {
  if (plan.kept.inner < 2 || plan.n_reduced < 2) return false;
  return plan_detail::magnitude(plan.kept.inner_stride(0)) <
         plan_detail::magnitude(plan.reduced.inner_stride(0));
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
