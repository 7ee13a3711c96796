/* Walking strided views: axes merged where the strides allow, then outer indices counted up.
 *
 * Used by every kernel that takes views of any layout. `Walk<N>` describes N views of one shape with
 * neighbouring axes merged and axes of size one dropped; `Cursor<N>` steps through all its axes but the last.
 * Strides are 64-bit elements of any sign; a 0-d view is one row of one element; an empty one has no rows.
 */
#ifndef MLXC_CPU_STRIDED_H
#define MLXC_CPU_STRIDED_H

#include "kernel.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

template <int N>
struct Walk {
  int ndim;      /* at least 1 */
  int64_t rows;  /* product of the shape without the last axis; 0 if the views are empty */
  int64_t inner; /* size of the last axis */
  int64_t shape[MLXC_MAX_NDIM];
  int64_t strides[N][MLXC_MAX_NDIM];

  int64_t inner_stride(int which) const { return strides[which][ndim - 1]; }
};

/* Merges axes. strides[i] points to ndim strides of view i. */
template <int N>
inline Walk<N> make_walk(int ndim, const int64_t* shape, const int64_t* const (&strides)[N]) {
  Walk<N> walk;
  int last = -1; /* the axis being built, outermost first */
  walk.rows = 1;
  walk.inner = 1;
  for (int axis = 0; axis < ndim; axis++) {
    if (shape[axis] == 0) walk.rows = 0;
    if (shape[axis] == 1) continue;
    bool merges = last >= 0;
    for (int i = 0; merges && i < N; i++) {
      merges = walk.strides[i][last] == strides[i][axis] * shape[axis];
    }
    if (merges) {
      walk.shape[last] *= shape[axis];
    } else {
      walk.shape[++last] = shape[axis];
    }
    for (int i = 0; i < N; i++) walk.strides[i][last] = strides[i][axis];
  }
  if (last < 0) {
    last = 0;
    walk.shape[0] = 1;
    for (int i = 0; i < N; i++) walk.strides[i][0] = 1;
  }
  walk.ndim = last + 1;
  if (walk.rows != 0) {
    for (int axis = 0; axis < last; axis++) walk.rows *= walk.shape[axis];
    walk.inner = walk.shape[last];
  } else {
    walk.inner = 0;
  }
  return walk;
}

template <int N>
inline Walk<N> make_walk(const mlxc_view* const (&views)[N]) {
  const int64_t* strides[N];
  for (int i = 0; i < N; i++) strides[i] = views[i]->strides;
  return make_walk<N>(views[0]->ndim, views[0]->shape, strides);
}

/* Where row `row` starts in each view (elements from the first), and the way to the next row. */
template <int N>
struct Cursor {
  const Walk<N>* walk;
  int64_t index[MLXC_MAX_NDIM];
  int64_t offset[N];

  Cursor(const Walk<N>& w, int64_t row) : walk(&w) {
    for (int i = 0; i < N; i++) offset[i] = 0;
    for (int axis = w.ndim - 2; axis >= 0; axis--) {
      index[axis] = row % w.shape[axis];
      row /= w.shape[axis];
      for (int i = 0; i < N; i++) offset[i] += index[axis] * w.strides[i][axis];
    }
  }

  MLXC_INLINE void next() {
    for (int axis = walk->ndim - 2; axis >= 0; axis--) {
      for (int i = 0; i < N; i++) offset[i] += walk->strides[i][axis];
      if (++index[axis] < walk->shape[axis]) return;
      for (int i = 0; i < N; i++) offset[i] -= walk->strides[i][axis] * walk->shape[axis];
      index[axis] = 0;
    }
  }
};

/* Copies elements [begin, begin + count) of a walk, in row-major order, to dense memory. */
template <class T>
inline void gather_block(T* MLXC_RESTRICT result, const T* source, const Walk<1>& walk, int64_t begin,
                         int64_t count) {
  if (count <= 0) return;
  int64_t stride = walk.inner_stride(0);
  int64_t column = begin % walk.inner;
  Cursor<1> cursor(walk, begin / walk.inner);
  while (true) {
    int64_t n = walk.inner - column;
    if (n > count) n = count;
    const T* from = source + cursor.offset[0] + column * stride;
    if (stride == 1) {
      for (int64_t i = 0; i < n; i++) result[i] = from[i];
    } else if (stride == 0) {
      T value = *from;
      for (int64_t i = 0; i < n; i++) result[i] = value;
    } else {
      for (int64_t i = 0; i < n; i++) result[i] = from[i * stride];
    }
    count -= n;
    if (count == 0) return;
    result += n;
    column = 0;
    cursor.next();
  }
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
