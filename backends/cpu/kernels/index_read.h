/* Reading index arrays of any integer dtype, and reporting an index that is out of range.
 *
 * Used by index.cc. Indices become offsets in elements: negative ones count from the end, and what is still
 * outside is noted with its place and reads element 0 until the kernel returns the error. Of several bad
 * indices the first in row-major order is the one that the message names.
 */
#ifndef MLXC_CPU_INDEX_READ_H
#define MLXC_CPU_INDEX_READ_H

#include <atomic>
#include <cinttypes>
#include <cstdio>

#include "dtype.h"
#include "strided.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* The least place at which a bad index was seen, by whichever thread. */
class BadIndex {
 public:
  void note(int64_t place) {
    int64_t seen = place_.load(std::memory_order_relaxed);
    while (place < seen && !place_.compare_exchange_weak(seen, place, std::memory_order_relaxed)) {
    }
  }
  bool any() const { return place() != INT64_MAX; }
  int64_t place() const { return place_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> place_{INT64_MAX};
};

/* Adds index * scale to n offsets. Returns the first position that is out of range, or n. */
template <class I>
MLXC_INLINE int64_t add_offsets_of(const I* indices, int64_t stride, int64_t n, int64_t size, int64_t scale,
                                   int64_t* offsets) {
  int64_t bad = n;
  for (int64_t i = n - 1; i >= 0; i--) {
    const I raw = indices[i * stride];
    int64_t index;
    if constexpr (std::is_signed_v<I>) {
      index = raw < 0 ? raw + size : raw;
    } else {
      index = static_cast<uint64_t>(raw) <= static_cast<uint64_t>(INT64_MAX) ? static_cast<int64_t>(raw) : -1;
    }
    if (MLXC_UNLIKELY(index < 0 || index >= size)) {
      bad = i;
      index = 0;
    }
    offsets[i] += index * scale;
  }
  return bad;
}

inline int64_t add_offsets(const void* indices, mlxc_dtype dtype, int64_t stride, int64_t n, int64_t size,
                           int64_t scale, int64_t* offsets) {
  switch (dtype) {
    case MLXC_BOOL:
    case MLXC_UINT8:
      return add_offsets_of(static_cast<const uint8_t*>(indices), stride, n, size, scale, offsets);
    case MLXC_UINT16:
      return add_offsets_of(static_cast<const uint16_t*>(indices), stride, n, size, scale, offsets);
    case MLXC_UINT32:
      return add_offsets_of(static_cast<const uint32_t*>(indices), stride, n, size, scale, offsets);
    case MLXC_UINT64:
      return add_offsets_of(static_cast<const uint64_t*>(indices), stride, n, size, scale, offsets);
    case MLXC_INT8:
      return add_offsets_of(static_cast<const int8_t*>(indices), stride, n, size, scale, offsets);
    case MLXC_INT16:
      return add_offsets_of(static_cast<const int16_t*>(indices), stride, n, size, scale, offsets);
    case MLXC_INT32:
      return add_offsets_of(static_cast<const int32_t*>(indices), stride, n, size, scale, offsets);
    default: return add_offsets_of(static_cast<const int64_t*>(indices), stride, n, size, scale, offsets);
  }
}

/* The index at a row-major place of its array, as people write it. */
inline void print_index(const mlxc_view* indices, int64_t place, char* text, size_t size) {
  int64_t offset = 0;
  for (int axis = indices->ndim - 1; axis >= 0; axis--) {
    offset += place % indices->shape[axis] * indices->strides[axis];
    place /= indices->shape[axis];
  }
  visit_dtype(indices->dtype, [&](auto tag) {
    using I = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<I>) {
      const I value = static_cast<const I*>(indices->host)[offset];
      if constexpr (std::is_signed_v<I>) {
        std::snprintf(text, size, "%" PRId64, static_cast<int64_t>(value));
      } else {
        std::snprintf(text, size, "%" PRIu64, static_cast<uint64_t>(value));
      }
    }
  });
}

inline mlxc_error* make_index_error(const char* op, const mlxc_view* indices, int64_t place, int axis,
                                    int64_t axis_size) {
  char text[32] = "";
  print_index(indices, place, text, sizeof text);
  return make_error(MLXC_ERROR_INDEX, "%s: index %s is out of range for axis %d with size %" PRId64, op, text,
                    axis, axis_size);
}

inline mlxc_error* check_index_dtype(const char* op, const mlxc_view* indices) {
  if (MLXC_DTYPE_BIT(indices->dtype) & kMaskInteger) return nullptr;
  return make_error(MLXC_ERROR_TYPE, "%s: an index array is %s; integers are accepted", op,
                    dtype_name(indices->dtype));
}

/* The index arrays of gather and scatter: all of one shape, each for one axis of the array indexed. */
struct IndexArrays {
  const char* op;
  const mlxc_view* const* views;
  int count;
  int axes[MLXC_MAX_NDIM];
  int64_t sizes[MLXC_MAX_NDIM];   /* of those axes */
  int64_t strides[MLXC_MAX_NDIM]; /* of those axes */
  Walk<1> walks[MLXC_MAX_NDIM];
  int64_t positions; /* of one index array */
  mutable BadIndex bad[MLXC_MAX_NDIM];

  /* Offsets of positions [begin, begin + n). */
  void read(int64_t begin, int64_t n, int64_t* offsets) const {
    for (int64_t i = 0; i < n; i++) offsets[i] = 0;
    for (int which = 0; which < count; which++) {
      const Walk<1>& walk = walks[which];
      const int64_t stride = walk.inner_stride(0), item = size_of(views[which]->dtype);
      Cursor<1> cursor(walk, begin / walk.inner);
      int64_t column = begin % walk.inner, done = 0;
      while (done < n) {
        const int64_t part = walk.inner - column < n - done ? walk.inner - column : n - done;
        const char* from = data<const char>(views[which]) + (cursor.offset[0] + column * stride) * item;
        const int64_t first = add_offsets(from, views[which]->dtype, stride, part, sizes[which],
                                          strides[which], offsets + done);
        if (MLXC_UNLIKELY(first < part)) bad[which].note(begin + done + first);
        done += part;
        column = 0;
        if (done < n) cursor.next();
      }
    }
  }

  bool error_seen() const {
    for (int which = 0; which < count; which++) {
      if (bad[which].any()) return true;
    }
    return false;
  }

  mlxc_error* error() const {
    int64_t first = INT64_MAX;
    int worst = -1;
    for (int which = 0; which < count; which++) {
      if (bad[which].place() < first) {
        first = bad[which].place();
        worst = which;
      }
    }
    return worst < 0 ? nullptr : make_index_error(op, views[worst], first, axes[worst], sizes[worst]);
  }
};

/* `array` is what the indices point into, with its own strides. */
inline mlxc_error* make_index_arrays(const char* op, const mlxc_view* const* views, const mlxc_axes& axes,
                                     const mlxc_view* array, IndexArrays* arrays) {
  arrays->op = op;
  arrays->views = views;
  arrays->count = axes.count;
  arrays->positions = axes.count > 0 ? views[0]->size : 1;
  for (int which = 0; which < axes.count; which++) {
    if (mlxc_error* error = check_index_dtype(op, views[which])) return error;
    const int axis = axes.items[which];
    arrays->axes[which] = axis;
    arrays->sizes[which] = array->shape[axis];
    arrays->strides[which] = array->strides[axis];
    const int64_t* strides[1] = {views[which]->strides};
    arrays->walks[which] = make_walk<1>(views[which]->ndim, views[which]->shape, strides);
  }
  return nullptr;
}

/* The axes of `array` that no index array names, in order. */
struct OtherAxes {
  int ndim = 0;
  int64_t size = 1;
  int64_t shape[MLXC_MAX_NDIM];
  int64_t strides[MLXC_MAX_NDIM];

  OtherAxes(const mlxc_view* array, const int32_t* axes, int count) {
    for (int axis = 0; axis < array->ndim; axis++) {
      bool named = false;
      for (int which = 0; which < count; which++) named = named || axes[which] == axis;
      if (named) continue;
      shape[ndim] = array->shape[axis];
      strides[ndim++] = array->strides[axis];
      size *= array->shape[axis];
    }
  }
};

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
