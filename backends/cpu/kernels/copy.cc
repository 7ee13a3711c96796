/* Copies into row-major memory: contiguous, astype, and copy_strided / fill_strided for other kernels.
 *
 * A copy may visit elements in any order, so axes are sorted by the target's strides; where the source runs
 * fastest along another axis than the target, the two are walked in square tiles, each side's cache lines
 * being used whole. astype goes through the element-wise engine with a loop for each pair of dtypes.
 */
#include "copy.h"

#include <cstring>

#include "elementwise.h"
#include "parallel.h"
#include "strided.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr int64_t kTileEdge = 32;

int64_t magnitude(int64_t value) { return value < 0 ? -value : value; }

/* The axes of size over one, ordered by descending target stride. Returns their count, -1 if empty. */
int order_axes(const int64_t* target_strides, const int64_t* source_strides, const int64_t* shape, int ndim,
               int64_t* sorted_shape, int64_t* sorted_target, int64_t* sorted_source) {
  int count = 0;
  for (int axis = 0; axis < ndim; axis++) {
    if (shape[axis] == 0) return -1;
    if (shape[axis] == 1) continue;
    int at = count++;
    while (at > 0 && magnitude(sorted_target[at - 1]) < magnitude(target_strides[axis])) {
      sorted_shape[at] = sorted_shape[at - 1];
      sorted_target[at] = sorted_target[at - 1];
      sorted_source[at] = sorted_source[at - 1];
      at--;
    }
    sorted_shape[at] = shape[axis];
    sorted_target[at] = target_strides[axis];
    sorted_source[at] = source_strides[axis];
  }
  return count;
}

template <class T>
void copy_row(T* target, int64_t target_stride, const T* source, int64_t source_stride, int64_t n) {
  if (target_stride == 1 && source_stride == 1) {
    if (n >= 64) {
      std::memcpy(target, source, static_cast<size_t>(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; i++) target[i] = source[i];
    }
  } else if (target_stride == 1 && source_stride == 0) {
    T value = *source;
    for (int64_t i = 0; i < n; i++) target[i] = value;
  } else if (target_stride == 1) {
    MLXC_VECTORIZE
    for (int64_t i = 0; i < n; i++) target[i] = source[i * source_stride];
  } else {
    for (int64_t i = 0; i < n; i++) target[i * target_stride] = source[i * source_stride];
  }
}

template <class T>
void copy_all_rows(T* target, const T* source, const Walk<2>& walk) {
  int64_t target_stride = walk.inner_stride(0), source_stride = walk.inner_stride(1);
  int64_t grain = grain_for_bytes(2 * static_cast<int64_t>(sizeof(T)));
  if (walk.rows == 1) {
    parallel_for(walk.inner, grain, [&](int64_t begin, int64_t end) {
      copy_row(target + begin * target_stride, target_stride, source + begin * source_stride, source_stride,
               end - begin);
    });
    return;
  }
  int64_t row_grain = grain / walk.inner > 0 ? grain / walk.inner : 1;
  parallel_for(walk.rows, row_grain, [&](int64_t begin, int64_t end) {
    Cursor<2> cursor(walk, begin);
    for (int64_t row = begin; row < end; row++, cursor.next()) {
      copy_row(target + cursor.offset[0], target_stride, source + cursor.offset[1], source_stride,
               walk.inner);
    }
  });
}

/* target[r * target_row + c] = source[r + c * source_column], the target's rows being dense */
template <class T>
void copy_tile(T* MLXC_RESTRICT target, int64_t target_row, int64_t target_column, const T* source,
               int64_t source_row, int64_t source_column, int64_t rows, int64_t columns) {
  if (rows == kTileEdge && columns == kTileEdge && target_column == 1 && source_row == 1) {
    /* Through a small square that stays in the first-level cache, both sides in whole lines. */
    alignas(64) T square[kTileEdge * kTileEdge];
    for (int64_t c = 0; c < kTileEdge; c++) {
      const T* from = source + c * source_column;
      for (int64_t r = 0; r < kTileEdge; r++) square[c * kTileEdge + r] = from[r];
    }
    for (int64_t r = 0; r < kTileEdge; r++) {
      T* to = target + r * target_row;
      for (int64_t c = 0; c < kTileEdge; c++) to[c] = square[c * kTileEdge + r];
    }
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < columns; c++) {
      target[r * target_row + c * target_column] = source[r * source_row + c * source_column];
    }
  }
}

/* The last axis is the target's fastest, axis `fast` the source's. */
template <class T>
void copy_transposed(T* target, const T* source, int ndim, const int64_t* shape,
                     const int64_t* target_strides, const int64_t* source_strides, int fast) {
  int64_t rows = shape[fast], columns = shape[ndim - 1];
  int64_t target_row = target_strides[fast], source_row = source_strides[fast];
  int64_t target_column = target_strides[ndim - 1], source_column = source_strides[ndim - 1];
  /* what is left: one "row" of the walk a matrix, of inner size 1 */
  int64_t outer_shape[MLXC_MAX_NDIM + 1], outer_target[MLXC_MAX_NDIM + 1], outer_source[MLXC_MAX_NDIM + 1];
  int outer = 0;
  for (int axis = 0; axis < ndim - 1; axis++) {
    if (axis == fast) continue;
    outer_shape[outer] = shape[axis];
    outer_target[outer] = target_strides[axis];
    outer_source[outer] = source_strides[axis];
    outer++;
  }
  Walk<2> walk = make_walk<2>(outer, outer_shape, {outer_target, outer_source});
  int64_t matrices = walk.rows * walk.inner;
  int64_t strips = (rows + kTileEdge - 1) / kTileEdge;
  int64_t grain = grain_for_bytes(2 * static_cast<int64_t>(sizeof(T)) * kTileEdge * columns);
  parallel_for(matrices * strips, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; item++) {
      int64_t matrix = item / strips, row = item % strips * kTileEdge;
      Cursor<2> cursor(walk, matrix / walk.inner);
      int64_t inner = matrix % walk.inner;
      T* to = target + cursor.offset[0] + inner * walk.inner_stride(0) + row * target_row;
      const T* from = source + cursor.offset[1] + inner * walk.inner_stride(1) + row * source_row;
      int64_t height = rows - row < kTileEdge ? rows - row : kTileEdge;
      for (int64_t column = 0; column < columns; column += kTileEdge) {
        int64_t width = columns - column < kTileEdge ? columns - column : kTileEdge;
        copy_tile(to + column * target_column, target_row, target_column, from + column * source_column,
                  source_row, source_column, height, width);
      }
    }
  });
}

template <class T>
void copy_typed(T* target, const int64_t* target_strides, const T* source, const int64_t* source_strides,
                const int64_t* shape, int ndim) {
  int64_t sorted_shape[MLXC_MAX_NDIM], sorted_target[MLXC_MAX_NDIM], sorted_source[MLXC_MAX_NDIM];
  int count =
      order_axes(target_strides, source_strides, shape, ndim, sorted_shape, sorted_target, sorted_source);
  if (count < 0) return;
  Walk<2> walk = make_walk<2>(count, sorted_shape, {sorted_target, sorted_source});
  if (walk.ndim > 1) {
    int last = walk.ndim - 1, fast = last;
    for (int axis = 0; axis < last; axis++) {
      int64_t stride = magnitude(walk.strides[1][axis]);
      if (stride != 0 && stride < magnitude(walk.strides[1][fast])) fast = axis;
    }
    if (fast != last && walk.shape[fast] >= 4 && walk.inner >= 4) {
      copy_transposed(target, source, walk.ndim, walk.shape, walk.strides[0], walk.strides[1], fast);
      return;
    }
  }
  copy_all_rows(target, source, walk);
}

/* ---- casts ---- */

template <class From, class To>
struct Cast {
  static void run(const void* const* in, void* const* out, int64_t n, unsigned) {
    const From* a = static_cast<const From*>(in[0]);
    To* result = static_cast<To*>(out[0]);
    for (int64_t i = 0; i < n; i++) result[i] = cast<To>(a[i]);
  }
};

struct CastTables {
  LoopEntry entries[MLXC_DTYPE_COUNT][MLXC_DTYPE_COUNT]; /* [from][to] */
};

/* Halves are read as float32 by the engine; float32 to half is the engine's own conversion. */
template <class From, class To>
constexpr void set_cast(CastTables& t) {
  using Read = ComputeOf<From>;
  constexpr bool through = is_half<From> || (std::is_same_v<From, float> && is_half<To>);
  using Write = std::conditional_t<through, ComputeOf<To>, To>;
  t.entries[DtypeOf<From>::value][DtypeOf<To>::value] =
      LoopEntry{&Cast<Read, Write>::run, through, Cost::kMemory};
}

template <class From, class... Tos>
constexpr void set_casts_from(CastTables& t) {
  (set_cast<From, Tos>(t), ...);
}

template <class... Ts>
constexpr CastTables make_casts() {
  CastTables t{};
  (set_casts_from<Ts, Ts...>(t), ...);
  return t;
}

constexpr CastTables kCasts = make_casts<bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>();

/* ---- kernels ---- */

mlxc_error* run_contiguous(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* in = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  copy_strided(out->host, out->strides, in->host, in->strides, in->shape, in->ndim, size_of(in->dtype));
  return nullptr;
}

mlxc_error* run_astype(mlxc_backend_stream* stream, const mlxc_kernel_call* call) {
  mlxc_dtype from = call->inputs[0]->dtype, to = call->outputs[0]->dtype;
  if (from == to) return run_contiguous(stream, call);
  return run_elementwise(call, kCasts.entries[from][to]);
}

constexpr mlxc_kernel kRows[] = {
    make_row(MLXC_OP_CONTIGUOUS, kMaskAll, kMaskAll, run_contiguous),
    make_row(MLXC_OP_ASTYPE, kMaskAll, kMaskAll, run_astype),
};

}  // namespace

void copy_strided(void* target, const int64_t* target_strides, const void* source,
                  const int64_t* source_strides, const int64_t* shape, int ndim, int64_t item_size) {
  visit_size(item_size, [&](auto tag) {
    using T = typename decltype(tag)::type;
    copy_typed(static_cast<T*>(target), target_strides, static_cast<const T*>(source), source_strides, shape,
               ndim);
  });
}

void fill_strided(void* target, const int64_t* target_strides, const void* value, const int64_t* shape,
                  int ndim, int64_t item_size) {
  int64_t zeros[MLXC_MAX_NDIM] = {};
  copy_strided(target, target_strides, value, zeros, shape, ndim, item_size);
}

LoopEntry cast_loop(mlxc_dtype from, mlxc_dtype to) { return kCasts.entries[from][to]; }

KernelRows copy_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
