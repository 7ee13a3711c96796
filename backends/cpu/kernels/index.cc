/* gather and scatter: integer-array indexing, read and write.
 *
 * Called by the core with index arrays of one shape (strides may be 0), one for each axis named; see
 * ops.toml. Indices are checked before anything is written, so an index out of range leaves the output's
 * memory as it was. Duplicates are combined in row-major order of the indices. Elements that are only moved
 * are moved by size. The kernels along one axis are in index_axis.h.
 */
#include <algorithm>
#include <cstring>

#include "combine.h"
#include "copy.h"
#include "index_axis.h"
#include "index_read.h"
#include "parallel.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

/* Positions whose offsets are worked out together. */
constexpr int64_t kBatch = 256;
/* A slice this large is copied by all threads together. */
constexpr int64_t kLargeSlice = 256 * 1024;

/* ---- gather ---- */

/* Copies the slices at n offsets, one after the other, to `to`. */
template <class T>
void move_slices(const T* from, const int64_t* offsets, int64_t n, const Walk<1>& slice, int64_t size,
                 T* to) {
  if (size == 1) {
    for (int64_t i = 0; i < n; i++) to[i] = from[offsets[i]];
  } else if (slice.ndim == 1 && slice.inner_stride(0) == 1) {
    for (int64_t i = 0; i < n; i++, to += size) {
#if defined(__GNUC__)
      if (i + 4 < n) __builtin_prefetch(from + offsets[i + 4]);
#endif
      std::memcpy(static_cast<void*>(to), from + offsets[i], static_cast<size_t>(size) * sizeof(T));
    }
  } else {
    for (int64_t i = 0; i < n; i++, to += size) gather_block(to, from + offsets[i], slice, 0, size);
  }
}

mlxc_error* run_gather(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* a = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  const mlxc_axes& axes = params<mlxc_gather_params>(call)->axes;
  if (a->dtype != out->dtype || axes.count != call->n_inputs - 1) {
    return make_error(MLXC_ERROR_TYPE,
                      "gather: the CPU kernel got %s for a result of %s, %d axes and %d index arrays",
                      dtype_name(a->dtype), dtype_name(out->dtype), axes.count, call->n_inputs - 1);
  }
  IndexArrays indices;
  if (mlxc_error* error = make_index_arrays("gather", call->inputs + 1, axes, a, &indices)) return error;
  if (indices.positions == 0) return nullptr;
  const OtherAxes rest(a, axes.items, axes.count);
  const int64_t* strides[1] = {rest.strides};
  const Walk<1> slice = make_walk<1>(rest.ndim, rest.shape, strides);
  const int64_t item = size_of(a->dtype), bytes = rest.size * item;
  const bool large = bytes >= kLargeSlice;
  const int64_t grain = large ? indices.positions : grain_for_bytes(2 * bytes + 8);
  visit_size(item, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = data<const T>(a);
    T* to = data<T>(out);
    parallel_for(indices.positions, grain, [&](int64_t begin, int64_t end) {
      int64_t offsets[kBatch];
      for (int64_t i = begin; i < end; i += kBatch) {
        const int64_t n = std::min(kBatch, end - i);
        indices.read(i, n, offsets);
        if (indices.error_seen() || rest.size == 0) continue;
        if (large) {
          int64_t dense[MLXC_MAX_NDIM];
          int64_t step = 1;
          for (int axis = rest.ndim - 1; axis >= 0; axis--) {
            dense[axis] = step;
            step *= rest.shape[axis];
          }
          for (int64_t j = 0; j < n; j++) {
            copy_strided(to + (i + j) * rest.size, dense, from + offsets[j], rest.strides, rest.shape,
                         rest.ndim, item);
          }
        } else {
          move_slices(from, offsets, n, slice, rest.size, to + i * rest.size);
        }
      }
    });
  });
  return indices.error();
}

/* ---- scatter ---- */

/* Where the slices of an update lie and where they go. */
struct ScatterPlan {
  const int64_t* offsets; /* into the output, one a position */
  int64_t positions;
  Walk<1> starts; /* of the update's slices */
  Walk<2> slice;  /* one slice: in the output, in the update */
};

/* Calls fn(position, offset in the update) for positions [begin, end). */
template <class F>
MLXC_INLINE void for_each_position(const ScatterPlan& plan, int64_t begin, int64_t end, const F& fn) {
  const Walk<1>& walk = plan.starts;
  const int64_t stride = walk.inner_stride(0);
  Cursor<1> cursor(walk, begin / walk.inner);
  int64_t column = begin % walk.inner;
  for (int64_t i = begin; i < end; i++) {
    fn(i, cursor.offset[0] + column * stride);
    if (++column == walk.inner) {
      column = 0;
      cursor.next();
    }
  }
}

/* Columns [first, last) of all slices, in order of the positions. */
template <Mode M, class T>
void combine_columns(const ScatterPlan& plan, T* out, const T* update, int64_t first, int64_t last) {
  const int64_t out_stride = plan.slice.inner_stride(0), update_stride = plan.slice.inner_stride(1);
  if (plan.slice.rows == 1 && plan.slice.inner == 1) {
    for_each_position(plan, 0, plan.positions, [&](int64_t i, int64_t start) {
      T& target = out[plan.offsets[i]];
      target = combine_stored<M>(target, update[start]);
    });
    return;
  }
  for_each_position(plan, 0, plan.positions, [&](int64_t i, int64_t start) {
    Cursor<2> cursor(plan.slice, 0);
    for (int64_t row = 0; row < plan.slice.rows; row++, cursor.next()) {
      T* to = out + plan.offsets[i] + cursor.offset[0];
      const T* from = update + start + cursor.offset[1];
      if (out_stride == 1 && update_stride == 1) {
        for (int64_t j = first; j < last; j++) to[j] = combine_stored<M>(to[j], from[j]);
      } else {
        for (int64_t j = first; j < last; j++) {
          T& target = to[j * out_stride];
          target = combine_stored<M>(target, from[j * update_stride]);
        }
      }
    }
  });
}

/* Positions may repeat, so the threads share out the columns of the slices. */
template <Mode M, class T>
void combine_slices(const ScatterPlan& plan, T* out, const T* update) {
  const int64_t bytes = plan.positions * plan.slice.rows * 3 * static_cast<int64_t>(sizeof(T));
  const int64_t columns = plan.slice.inner;
  /* Below a cache line a column range is not worth a thread. */
  const int64_t grain = std::max<int64_t>(grain_for_bytes(bytes), 64 / static_cast<int64_t>(sizeof(T)));
  parallel_for(columns, grain,
               [&](int64_t first, int64_t last) { combine_columns<M, T>(plan, out, update, first, last); });
}

struct Placed {
  int64_t offset;
  int64_t position;
  bool operator<(const Placed& other) const {
    return offset != other.offset ? offset < other.offset : position < other.position;
  }
};

/* Sums and products of halves: the updates of one place are brought together, combined in float and rounded
 * once. `placed` is sorted; slices of different places do not overlap. */
template <Mode M, class T>
void combine_placed(const ScatterPlan& plan, const Placed* placed, T* out, const T* update, float* slice,
                    int64_t begin, int64_t end) {
  const int64_t inner = plan.slice.inner, stride = plan.slice.inner_stride(0),
                from_stride = plan.slice.inner_stride(1);
  while (begin > 0 && begin < plan.positions && placed[begin].offset == placed[begin - 1].offset) begin++;
  for (int64_t i = begin; i < end;) {
    T* target = out + placed[i].offset;
    Cursor<2> load(plan.slice, 0);
    for (int64_t row = 0; row < plan.slice.rows; row++, load.next()) {
      for (int64_t j = 0; j < inner; j++)
        slice[row * inner + j] = to_float(target[load.offset[0] + j * stride]);
    }
    const int64_t offset = placed[i].offset;
    for (; i < plan.positions && placed[i].offset == offset; i++) {
      int64_t start = 0;
      for_each_position(plan, placed[i].position, placed[i].position + 1,
                        [&](int64_t, int64_t at) { start = at; });
      Cursor<2> cursor(plan.slice, 0);
      for (int64_t row = 0; row < plan.slice.rows; row++, cursor.next()) {
        const T* from = update + start + cursor.offset[1];
        float* sums = slice + row * inner;
        for (int64_t j = 0; j < inner; j++) sums[j] = combine<M>(sums[j], to_float(from[j * from_stride]));
      }
    }
    Cursor<2> store(plan.slice, 0);
    for (int64_t row = 0; row < plan.slice.rows; row++, store.next()) {
      for (int64_t j = 0; j < inner; j++)
        target[store.offset[0] + j * stride] = cast<T>(slice[row * inner + j]);
    }
  }
}

template <Mode M, class T>
mlxc_error* combine_halves(const ScatterPlan& plan, T* out, const T* update) {
  Scratch scratch(static_cast<size_t>(plan.positions) * sizeof(Placed));
  if (!scratch.ok()) return scratch.error();
  Placed* placed = scratch.as<Placed>();
  for (int64_t i = 0; i < plan.positions; i++) placed[i] = Placed{plan.offsets[i], i};
  std::sort(placed, placed + plan.positions);
  const int64_t size = plan.slice.rows * plan.slice.inner;
  const size_t bytes = static_cast<size_t>(size) * sizeof(float);
  std::atomic<bool> failed{false};
  parallel_for(plan.positions, grain_for_bytes(size * 6), [&](int64_t begin, int64_t end) {
    Scratch slice(bytes);
    if (!slice.ok()) {
      failed.store(true);
      return;
    }
    combine_placed<M, T>(plan, placed, out, update, slice.as<float>(), begin, end);
  });
  return failed.load() ? make_memory_error(bytes) : nullptr;
}

mlxc_error* combine_update(Mode mode, const ScatterPlan& plan, const mlxc_view* out,
                           const mlxc_view* update) {
  if (mode == Mode::kSet) {
    visit_size(size_of(out->dtype), [&](auto tag) {
      using T = typename decltype(tag)::type;
      combine_slices<Mode::kSet, T>(plan, data<T>(out), data<const T>(update));
    });
    return nullptr;
  }
  return visit_dtype(out->dtype, [&](auto tag) {
    return visit_mode(mode, [&](auto constant) -> mlxc_error* {
      using T = typename decltype(tag)::type;
      constexpr Mode M = decltype(constant)::value;
      if constexpr (is_half<T> && (M == Mode::kAdd || M == Mode::kMultiply)) {
        return combine_halves<M, T>(plan, data<T>(out), data<const T>(update));
      } else {
        combine_slices<M, T>(plan, data<T>(out), data<const T>(update));
        return nullptr;
      }
    });
  });
}

mlxc_error* run_scatter(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* a = call->inputs[0];
  const mlxc_view* update = call->inputs[1];
  const mlxc_view* out = call->outputs[0];
  const auto* p = params<mlxc_scatter_params>(call);
  if (a->dtype != out->dtype || update->dtype != out->dtype || p->axes.count != call->n_inputs - 2) {
    return make_error(MLXC_ERROR_TYPE,
                      "scatter: the CPU kernel got %s and %s for a result of %s, %d axes and %d index arrays",
                      dtype_name(a->dtype), dtype_name(update->dtype), dtype_name(out->dtype), p->axes.count,
                      call->n_inputs - 2);
  }
  if (mlxc_error* error = check_mode("scatter", p->mode)) return error;
  IndexArrays indices;
  if (mlxc_error* error = make_index_arrays("scatter", call->inputs + 2, p->axes, out, &indices))
    return error;
  Scratch scratch(static_cast<size_t>(indices.positions) * sizeof(int64_t));
  if (!scratch.ok()) return scratch.error();
  int64_t* offsets = scratch.as<int64_t>();
  parallel_for(indices.positions, grain_for_bytes(16),
               [&](int64_t begin, int64_t end) { indices.read(begin, end - begin, offsets + begin); });
  if (mlxc_error* error = indices.error()) return error;
  copy_unless_shared(a, out);
  const OtherAxes rest(out, p->axes.items, p->axes.count);
  if (indices.positions == 0 || rest.size == 0) return nullptr;
  const int lead = update->ndim - rest.ndim;
  const int64_t* starts[1] = {update->strides};
  const int64_t* slices[2] = {rest.strides, update->strides + lead};
  const ScatterPlan plan{offsets, indices.positions, make_walk<1>(lead, update->shape, starts),
                         make_walk<2>(rest.ndim, rest.shape, slices)};
  return combine_update(static_cast<Mode>(p->mode), plan, out, update);
}

const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_GATHER, kMaskAll, kMaskAll, run_gather),
    make_row(MLXC_OP_SCATTER, kMaskAll, kMaskAll, run_scatter, MLXC_KERNEL_DONATES_0),
    make_row(MLXC_OP_GATHER_AXIS, kMaskAll, kMaskAll, run_gather_axis),
    make_row(MLXC_OP_SCATTER_AXIS, kMaskAll, kMaskAll, run_scatter_axis, MLXC_KERNEL_DONATES_0),
};

}  // namespace

KernelRows index_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
