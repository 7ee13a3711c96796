/* gather_axis and scatter_axis: an index for every position, along one axis.
 *
 * The second half of index.cc, which lists the rows. Shapes of the array and of the indices agree but for the
 * axis; the update has the shape of the indices. Rules as in index.cc: check first, duplicates in order,
 * halves summed in float.
 */
#ifndef MLXC_CPU_INDEX_AXIS_H
#define MLXC_CPU_INDEX_AXIS_H

#include <algorithm>

#include "combine.h"
#include "copy.h"
#include "index_read.h"
#include "parallel.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* Indices worked on together. */
constexpr int64_t kAxisBatch = 256;

/* The output starts as the array, unless the core gave it the array's memory. */
inline void copy_unless_shared(const mlxc_view* a, const mlxc_view* out) {
  if (out->host == a->host || out->size == 0) return;
  copy_strided(out->host, out->strides, a->host, a->strides, out->shape, out->ndim, size_of(out->dtype));
}

inline mlxc_error* check_mode(const char* op, int32_t mode) {
  if (mode >= 0 && mode <= static_cast<int32_t>(Mode::kMinimum)) return nullptr;
  return make_error(MLXC_ERROR_VALUE,
                    "%s: mode %d is unknown; 0 set, 1 add, 2 multiply, 3 maximum, 4 minimum", op, mode);
}

/* combine, for elements as they are stored. */
template <Mode M, class T>
MLXC_INLINE T combine_stored(T old, T update) {
  if constexpr (is_half<T> && M != Mode::kSet) {
    return cast<T>(combine<M>(to_float(old), to_float(update)));
  } else {
    return combine<M>(old, update);
  }
}

/* Calls fn(place, count, offset in each view) for runs of at most kAxisBatch elements of [begin, end). */
template <int N, class F>
MLXC_INLINE void for_each_run(const Walk<N>& walk, int64_t begin, int64_t end, const F& fn) {
  Cursor<N> cursor(walk, begin / walk.inner);
  int64_t column = begin % walk.inner;
  while (begin < end) {
    int64_t n = std::min(std::min(walk.inner - column, end - begin), kAxisBatch);
    int64_t at[N];
    for (int i = 0; i < N; i++) at[i] = cursor.offset[i] + column * walk.inner_stride(i);
    fn(begin, n, at);
    begin += n;
    column += n;
    if (column == walk.inner) {
      column = 0;
      if (begin < end) cursor.next();
    }
  }
}

/* The strides of a view with one axis held still. */
struct StridesWithout {
  int64_t strides[MLXC_MAX_NDIM];
  StridesWithout(const mlxc_view* view, int axis) {
    for (int i = 0; i < view->ndim; i++) strides[i] = i == axis ? 0 : view->strides[i];
  }
};

inline mlxc_error* check_axis_call(const char* op, const mlxc_view* a, const mlxc_view* indices,
                                   const mlxc_view* out, int axis) {
  if (a->dtype != out->dtype || a->ndim != indices->ndim || axis < 0 || axis >= a->ndim) {
    return make_error(MLXC_ERROR_VALUE,
                      "%s: the CPU kernel got %s with %d axes, %d axes of indices and axis %d", op,
                      dtype_name(a->dtype), a->ndim, indices->ndim, axis);
  }
  return check_index_dtype(op, indices);
}

/* ---- gather_axis ---- */

inline mlxc_error* run_gather_axis(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* a = call->inputs[0];
  const mlxc_view* indices = call->inputs[1];
  const mlxc_view* out = call->outputs[0];
  const int axis = params<mlxc_gather_axis_params>(call)->axis;
  if (mlxc_error* error = check_axis_call("gather_axis", a, indices, out, axis)) return error;
  if (indices->size == 0) return nullptr;
  const StridesWithout still(a, axis);
  const int64_t* strides[2] = {indices->strides, still.strides};
  const Walk<2> walk = make_walk<2>(indices->ndim, indices->shape, strides);
  const int64_t index_item = size_of(indices->dtype), axis_size = a->shape[axis],
                axis_stride = a->strides[axis];
  BadIndex bad;
  visit_size(size_of(a->dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = data<const T>(a);
    T* to = data<T>(out);
    parallel_for(indices->size, grain_for_bytes(2 * sizeof(T) + 16), [&](int64_t begin, int64_t end) {
      int64_t offsets[kAxisBatch];
      for_each_run<2>(walk, begin, end, [&](int64_t place, int64_t n, const int64_t* at) {
        const int64_t step = walk.inner_stride(1);
        for (int64_t i = 0; i < n; i++) offsets[i] = at[1] + i * step;
        const int64_t first = add_offsets(data<const char>(indices) + at[0] * index_item, indices->dtype,
                                          walk.inner_stride(0), n, axis_size, axis_stride, offsets);
        if (MLXC_UNLIKELY(first < n)) bad.note(place + first);
        if (MLXC_UNLIKELY(bad.any())) return;
        for (int64_t i = 0; i < n; i++) to[place + i] = from[offsets[i]];
      });
    });
  });
  return bad.any() ? make_index_error("gather_axis", indices, bad.place(), axis, axis_size) : nullptr;
}

/* ---- scatter_axis ---- */

struct AxisPlan {
  const mlxc_view* indices;
  const mlxc_view* update;
  const mlxc_view* out;
  int axis;
};

/* Combines the update into the part [begin, end) of the output along `split`, an axis other than the plan's,
 * or -1 for all of it. */
template <Mode M, class T>
void combine_part(const AxisPlan& plan, int split, int64_t begin, int64_t end) {
  const mlxc_view *indices = plan.indices, *update = plan.update, *out = plan.out;
  const StridesWithout still(out, plan.axis);
  const int64_t* strides[3] = {indices->strides, update->strides, still.strides};
  int64_t shape[MLXC_MAX_NDIM];
  for (int i = 0; i < indices->ndim; i++) shape[i] = indices->shape[i];
  int64_t start[3] = {0, 0, 0};
  if (split >= 0) {
    shape[split] = end - begin;
    for (int i = 0; i < 3; i++) start[i] = begin * strides[i][split];
  }
  const Walk<3> walk = make_walk<3>(indices->ndim, shape, strides);
  const int64_t index_item = size_of(indices->dtype);
  const T* from = data<const T>(update) + start[1];
  T* to = data<T>(out) + start[2];
  int64_t offsets[kAxisBatch];
  for_each_run<3>(walk, 0, walk.rows * walk.inner, [&](int64_t, int64_t n, const int64_t* at) {
    const int64_t step = walk.inner_stride(2), update_step = walk.inner_stride(1);
    for (int64_t i = 0; i < n; i++) offsets[i] = at[2] + i * step;
    add_offsets(data<const char>(indices) + (start[0] + at[0]) * index_item, indices->dtype,
                walk.inner_stride(0), n, out->shape[plan.axis], out->strides[plan.axis], offsets);
    for (int64_t i = 0; i < n; i++) {
      T& target = to[offsets[i]];
      target = combine_stored<M>(target, from[at[1] + i * update_step]);
    }
  });
}

template <Mode M, class T>
void combine_axis(const AxisPlan& plan) {
  int split = -1;
  for (int i = plan.indices->ndim - 1; i >= 0; i--) {
    if (i != plan.axis && plan.indices->shape[i] > 1) split = i;
  }
  if (split < 0) return combine_part<M, T>(plan, -1, 0, 0);
  const int64_t each = plan.indices->size / plan.indices->shape[split];
  parallel_for(plan.indices->shape[split], grain_for_bytes(each * (3 * sizeof(T) + 16)),
               [&](int64_t begin, int64_t end) { combine_part<M, T>(plan, split, begin, end); });
}

/* Sums and products of halves: a lane of the output at a time, kept in float and rounded once. */
template <Mode M, class T>
mlxc_error* combine_lanes(const AxisPlan& plan) {
  const mlxc_view *indices = plan.indices, *update = plan.update, *out = plan.out;
  const int axis = plan.axis;
  int64_t shape[MLXC_MAX_NDIM];
  for (int i = 0; i < indices->ndim; i++) shape[i] = i == axis ? 1 : indices->shape[i];
  const int64_t* strides[3] = {indices->strides, update->strides, out->strides};
  const Walk<3> walk = make_walk<3>(indices->ndim, shape, strides);
  const int64_t length = out->shape[axis], stride = out->strides[axis], count = indices->shape[axis];
  const int64_t index_item = size_of(indices->dtype);
  const size_t bytes = static_cast<size_t>(length) * sizeof(float);
  std::atomic<bool> failed{false};
  parallel_for(
      walk.rows * walk.inner, grain_for_bytes((length + count) * 8), [&](int64_t begin, int64_t end) {
        Scratch scratch(bytes);
        if (!scratch.ok()) {
          failed.store(true);
          return;
        }
        float* lane = scratch.as<float>();
        int64_t offsets[kAxisBatch];
        for_each_run<3>(walk, begin, end, [&](int64_t, int64_t n, const int64_t* at) {
          for (int64_t i = 0; i < n; i++) {
            const char* index = data<const char>(indices) + (at[0] + i * walk.inner_stride(0)) * index_item;
            const T* from = data<const T>(update) + at[1] + i * walk.inner_stride(1);
            T* to = data<T>(out) + at[2] + i * walk.inner_stride(2);
            for (int64_t j = 0; j < length; j++) lane[j] = to_float(to[j * stride]);
            for (int64_t p = 0; p < count; p += kAxisBatch) {
              const int64_t part = std::min(kAxisBatch, count - p);
              for (int64_t j = 0; j < part; j++) offsets[j] = 0;
              add_offsets(index + p * indices->strides[axis] * index_item, indices->dtype,
                          indices->strides[axis], part, length, 1, offsets);
              for (int64_t j = 0; j < part; j++) {
                lane[offsets[j]] =
                    combine<M>(lane[offsets[j]], to_float(from[(p + j) * update->strides[axis]]));
              }
            }
            for (int64_t j = 0; j < length; j++) to[j * stride] = cast<T>(lane[j]);
          }
        });
      });
  return failed.load() ? make_memory_error(bytes) : nullptr;
}

inline mlxc_error* combine_along_axis(Mode mode, const AxisPlan& plan) {
  if (mode == Mode::kSet) {
    visit_size(size_of(plan.out->dtype),
               [&](auto tag) { combine_axis<Mode::kSet, typename decltype(tag)::type>(plan); });
    return nullptr;
  }
  return visit_dtype(plan.out->dtype, [&](auto tag) {
    return visit_mode(mode, [&](auto constant) -> mlxc_error* {
      using T = typename decltype(tag)::type;
      constexpr Mode M = decltype(constant)::value;
      if constexpr (is_half<T> && (M == Mode::kAdd || M == Mode::kMultiply)) {
        return combine_lanes<M, T>(plan);
      } else {
        combine_axis<M, T>(plan);
        return nullptr;
      }
    });
  });
}

inline mlxc_error* run_scatter_axis(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* a = call->inputs[0];
  const mlxc_view* indices = call->inputs[1];
  const mlxc_view* update = call->inputs[2];
  const mlxc_view* out = call->outputs[0];
  const auto* p = params<mlxc_scatter_axis_params>(call);
  if (mlxc_error* error = check_axis_call("scatter_axis", a, indices, out, p->axis)) return error;
  if (mlxc_error* error = check_mode("scatter_axis", p->mode)) return error;
  if (update->dtype != out->dtype) {
    return make_error(MLXC_ERROR_TYPE, "scatter_axis: the CPU kernel got an update of %s for a result of %s",
                      dtype_name(update->dtype), dtype_name(out->dtype));
  }
  if (indices->size > 0) {
    const int64_t* strides[1] = {indices->strides};
    const Walk<1> walk = make_walk<1>(indices->ndim, indices->shape, strides);
    const int64_t item = size_of(indices->dtype), size = out->shape[p->axis];
    BadIndex bad;
    parallel_for(indices->size, grain_for_bytes(item), [&](int64_t begin, int64_t end) {
      int64_t offsets[kAxisBatch] = {};
      for_each_run<1>(walk, begin, end, [&](int64_t place, int64_t n, const int64_t* at) {
        const int64_t first = add_offsets(data<const char>(indices) + at[0] * item, indices->dtype,
                                          walk.inner_stride(0), n, size, 0, offsets);
        if (MLXC_UNLIKELY(first < n)) bad.note(place + first);
      });
    });
    if (bad.any()) return make_index_error("scatter_axis", indices, bad.place(), p->axis, size);
  }
  copy_unless_shared(a, out);
  if (indices->size == 0 || out->size == 0) return nullptr;
  return combine_along_axis(static_cast<Mode>(p->mode), AxisPlan{indices, update, out, p->axis});
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
