/* quantized_matmul and gather_qmm: products with packed matrices, summed in float (float64: in double).
 *
 * Few rows of x, as in generating text, meet codes unpacked in registers: the codes are read once, and no
 * number of the matrix is ever in memory. A scale multiplies the sum over its group, and a bias the sum of x
 * over the group. Many rows of x meet blocks of the matrix unpacked into scratch, and go through the plain
 * matrix product. Products with one and the same matrix that follow each other are done as one. Inputs are
 * contiguous.
 */
#include <vector>

#include "gemm.h"
#include "matrix_index.h"
#include "quantized_words.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

/* Rows of x that are multiplied at once while codes are in registers, and from how many on unpacking pays. */
constexpr int kRowsAtOnce = 4;
constexpr int64_t kUnpackRows = 12;
/* Numbers of an unpacked block. */
constexpr int64_t kBlock = INT64_C(1) << 19;
/* Columns whose sums are kept while rows of a matrix pass by. */
constexpr int64_t kColumns = 1024;

template <class T>
using ComputedIn = std::conditional_t<std::is_same_v<T, double>, double, float>;

/* Rows of x that meet one matrix, dense and in the type computed in. */
template <class C>
struct Rows {
  const C* data;
  int64_t count;
  int64_t inner;
};

/* ---- x times the transposed matrix, codes in registers ---- */

/* x padded with zeros to whole units, and its sums over the groups. */
void pad_rows(const Rows<float>& x, int64_t group_size, float* to, float* sums) {
  const int64_t padded = (x.inner + kUnit - 1) / kUnit * kUnit, groups = x.inner / group_size;
  for (int64_t m = 0; m < x.count; m++) {
    const float* from = x.data + m * x.inner;
    float* row = to + m * padded;
    for (int64_t i = 0; i < padded; i++) row[i] = i < x.inner ? from[i] : 0.0f;
    for (int64_t g = 0; g < groups; g++) {
      float sum = 0;
      for (int64_t i = 0; i < group_size; i++) sum += from[g * group_size + i];
      sums[m * groups + g] = sum;
    }
  }
}

/* The products of M padded rows of x with one row of the matrix. */
template <QuantMode Mode, int Bits, int M>
MLXC_INLINE void multiply_codes(const uint8_t* codes, const float* scales, int64_t groups, int64_t group_size,
                                const float* x, int64_t x_row, float* out) {
  Floats total[M] = {};
  if constexpr (Mode == QuantMode::nvfp4) {
    /* Two groups a unit; a last one by itself is the first half of a unit. */
    for (int64_t g = 0; g < groups; g += 2) {
      const bool whole = g + 2 <= groups;
      uint8_t rest[16] = {};
      if (!whole) std::memcpy(rest, codes + g * 8, 8);
      Floats w[4];
      unpack_floats<Mode, Bits>(whole ? codes + g * 8 : rest, w);
      const float first = scales[g], second = whole ? scales[g + 1] : 0.0f;
      for (int m = 0; m < M; m++) {
        const Floats* at = reinterpret_cast<const Floats*>(x + m * x_row + g * 16);
        add_product(w[0] * at[0] + w[1] * at[1], Floats{} + first, total[m]);
        add_product(w[2] * at[2] + w[3] * at[3], Floats{} + second, total[m]);
      }
    }
  } else {
    const int64_t units = group_size / kUnit;
    for (int64_t g = 0; g < groups; g++) {
      Floats even[M] = {}, odd[M] = {};
      for (int64_t u = 0; u < units; u++) {
        Floats w[4];
        unpack_floats<Mode, Bits>(codes, w);
        codes += kUnit * Bits / 8;
        for (int m = 0; m < M; m++) {
          const Floats* at = reinterpret_cast<const Floats*>(x + m * x_row + (g * units + u) * kUnit);
          add_product(w[0], at[0], even[m]);
          add_product(w[1], at[1], odd[m]);
          add_product(w[2], at[2], even[m]);
          add_product(w[3], at[3], odd[m]);
        }
      }
      for (int m = 0; m < M; m++) {
        add_product(even[m] + odd[m], Floats{} + scales[g], total[m]);
      }
    }
  }
  for (int m = 0; m < M; m++) {
    const Floats t = total[m];
    out[m] = ((t[0] + t[4]) + (t[2] + t[6])) + ((t[1] + t[5]) + (t[3] + t[7]));
  }
}

template <QuantMode Mode, int Bits, class T>
mlxc_error* multiply_words_of(const Rows<float>& x, const QuantizedMatrix& w, T* out, bool threaded) {
  OrderedRows rows(x.inner, Bits, w.group_size);
  Scratch scratch(rows.bytes(x.count));
  if (!scratch.ok()) return scratch.error();
  rows.x = scratch.as<float>();
  rows.sums = rows.x + x.count * rows.x_row;
  for (int64_t m = 0; m < x.count; m++) {
    order_row<Bits>(x.data + m * x.inner, x.inner, rows.x + m * rows.x_row);
    if constexpr (Mode == QuantMode::affine) {
      sum_groups(x.data + m * x.inner, w.groups(), w.group_size, rows.sums + m * rows.sum_row, rows.sum_row);
    }
  }
  /* Whole tiles of rows a piece. */
  const int64_t tiles = (w.rows + kTallTile - 1) / kTallTile;
  const int64_t grain = grain_for_bytes(kTallTile * w.row_bytes() * (1 + x.count / 2));
  parallel_for(tiles, threaded ? grain : tiles, [&](int64_t begin, int64_t end) {
    multiply_all_words<Mode, Bits>(
        w, begin * kTallTile, std::min(end * kTallTile, w.rows), rows, x.count,
        [&](int64_t row, int64_t m, float product) { out[m * w.rows + row] = cast<T>(product); });
  });
  return nullptr;
}

template <QuantMode Mode, int Bits, class T>
mlxc_error* multiply_transposed(const Rows<float>& x, const QuantizedMatrix& w, T* out, bool threaded) {
  const int64_t groups = w.groups(), padded = (w.columns + kUnit - 1) / kUnit * kUnit;
  Scratch scratch(static_cast<size_t>(x.count * (padded + groups)) * sizeof(float));
  if (!scratch.ok()) return scratch.error();
  float* rows = scratch.as<float>();
  float* sums = rows + x.count * padded;
  pad_rows(x, w.group_size, rows, sums);
  FirstError first;
  const int64_t grain = threaded ? grain_for_bytes(w.row_bytes()) : w.rows;
  parallel_for(w.rows, grain, [&](int64_t begin, int64_t end) {
    Scratch room(static_cast<size_t>(2 * groups) * sizeof(float));
    if (!room.ok()) return first.set(room.error());
    float* scale_room = room.as<float>();
    for (int64_t n = begin; n < end; n++) {
      const uint8_t* codes = w.codes + n * w.row_bytes();
      const float* scales = read_scales<float>(w, w.scales, n * groups, groups, scale_room);
      const float* biases = nullptr;
      if constexpr (Mode == QuantMode::affine) {
        biases = read_scales<float>(w, w.biases, n * groups, groups, scale_room + groups);
      }
      for (int64_t m = 0; m < x.count;) {
        float result[kRowsAtOnce];
        const float* at = rows + m * padded;
        int count = 1;
        if (m + kRowsAtOnce <= x.count) {
          count = kRowsAtOnce;
          multiply_codes<Mode, Bits, kRowsAtOnce>(codes, scales, groups, w.group_size, at, padded, result);
        } else if (m + 2 <= x.count) {
          count = 2;
          multiply_codes<Mode, Bits, 2>(codes, scales, groups, w.group_size, at, padded, result);
        } else {
          multiply_codes<Mode, Bits, 1>(codes, scales, groups, w.group_size, at, padded, result);
        }
        for (int r = 0; r < count; r++, m++) {
          if constexpr (Mode == QuantMode::affine) {
            float shift[1][1];
            dot_tile<float, float, 1, 1>(sums + m * groups, 0, biases, 0, groups, shift);
            result[r] += shift[0][0];
          }
          out[m * w.rows + n] = cast<T>(result[r]);
        }
      }
    }
  });
  return first.take();
}

/* ---- x times the matrix, codes in registers ---- */

/* Adds M rows of x times rows of the matrix to sums for the columns [first, first + count), in the order of
 * the codes. count is a multiple of the group size. */
template <QuantMode Mode, int Bits, int M>
MLXC_INLINE void add_rows(const Rows<float>& x, int64_t m, const QuantizedMatrix& w, int64_t first,
                          int64_t count, float* scale_room, float* sums, int64_t sum_row, float* shifts,
                          int64_t shift_row) {
  const int64_t first_group = first / w.group_size, groups = count / w.group_size;
  for (int64_t r = 0; r < w.rows; r++) {
    const int64_t scale = r * w.groups() + first_group;
    const float* scales = read_scales<float>(w, w.scales, scale, groups, scale_room);
    const float* biases = nullptr;
    if constexpr (Mode == QuantMode::affine) {
      biases = read_scales<float>(w, w.biases, scale, groups, scale_room + groups);
    }
    float left[M];
    for (int k = 0; k < M; k++) left[k] = x.data[(m + k) * x.inner + r];
    const uint8_t* codes = w.codes + r * w.row_bytes() + first * Bits / 8;
    const auto add = [&](const uint8_t* from, int64_t place, float low, float high) {
      Floats unpacked[4];
      unpack_floats<Mode, Bits>(from, unpacked);
      for (int k = 0; k < M; k++) {
        for (int v = 0; v < 4; v++) {
          Floats* to = reinterpret_cast<Floats*>(sums + k * sum_row + place + 8 * v);
          add_product(unpacked[v], Floats{} + left[k] * (v < 2 ? low : high), *to);
        }
      }
    };
    if constexpr (Mode == QuantMode::nvfp4) {
      for (int64_t g = 0; g < groups; g += 2) {
        const bool whole = g + 2 <= groups;
        uint8_t rest[16] = {};
        if (!whole) std::memcpy(rest, codes + g * 8, 8);
        add(whole ? codes + g * 8 : rest, g * 16, scales[g], whole ? scales[g + 1] : 0.0f);
      }
    } else {
      for (int64_t g = 0; g < groups; g++) {
        for (int64_t i = 0; i < w.group_size; i += kUnit) {
          add(codes, g * w.group_size + i, scales[g], scales[g]);
          codes += kUnit * Bits / 8;
        }
        if constexpr (Mode == QuantMode::affine) {
          for (int k = 0; k < M; k++) shifts[k * shift_row + g] += left[k] * biases[g];
        }
      }
    }
  }
}

template <QuantMode Mode, int Bits, class T>
mlxc_error* multiply_plain(const Rows<float>& x, const QuantizedMatrix& w, T* out, bool threaded) {
  const int64_t pieces = (w.columns + kColumns - 1) / kColumns;
  const int64_t piece_bytes = kColumns * Bits / 8 * w.rows;
  FirstError first;
  parallel_for(pieces, threaded ? grain_for_bytes(piece_bytes) : pieces, [&](int64_t begin, int64_t end) {
    const int64_t most_groups = kColumns / w.group_size;
    Scratch room(static_cast<size_t>(kRowsAtOnce * (kColumns + most_groups) + 2 * most_groups) *
                 sizeof(float));
    if (!room.ok()) return first.set(room.error());
    float* sums = room.as<float>();
    float* shifts = sums + kRowsAtOnce * kColumns;
    float* scale_room = shifts + kRowsAtOnce * most_groups;
    for (int64_t piece = begin; piece < end; piece++) {
      const int64_t start = piece * kColumns, count = std::min(kColumns, w.columns - start);
      for (int64_t m = 0; m < x.count;) {
        const int rows = m + kRowsAtOnce <= x.count ? kRowsAtOnce : 1;
        std::memset(sums, 0, static_cast<size_t>(kRowsAtOnce * (kColumns + most_groups)) * sizeof(float));
        if (rows == kRowsAtOnce) {
          add_rows<Mode, Bits, kRowsAtOnce>(x, m, w, start, count, scale_room, sums, kColumns, shifts,
                                            most_groups);
        } else {
          add_rows<Mode, Bits, 1>(x, m, w, start, count, scale_room, sums, kColumns, shifts, most_groups);
        }
        for (int k = 0; k < rows; k++, m++) {
          T* to = out + m * w.columns + start;
          for (int64_t j = 0; j < count; j++) {
            to[j] = cast<T>(sums[k * kColumns + j] + shifts[k * most_groups + j / w.group_size]);
          }
        }
      }
    }
  });
  return first.take();
}

/* ---- blocks of the matrix unpacked ---- */

/* Rows [first, first + count) of the matrix as numbers, one after the other; on this thread. */
template <class C>
mlxc_error* unpack_rows(const QuantizedMatrix& w, int64_t first, int64_t count, C* to) {
  Scratch room(static_cast<size_t>(2 * w.groups()) * sizeof(C));
  if (!room.ok()) return room.error();
  C* scales = room.as<C>();
  visit_packing(w.mode, w.bits, [&](auto mode, auto bits) {
    for (int64_t r = 0; r < count; r++) {
      dequantize_row<decltype(mode)::value, decltype(bits)::value, C>(
          w, first + r, scales, scales + w.groups(), to + r * w.columns);
    }
  });
  return nullptr;
}

template <class T, class C>
mlxc_error* multiply_unpacked_transposed(const char* op, const Rows<C>& x, const QuantizedMatrix& w, T* out,
                                         bool threaded) {
  const Matrix<const C> left{x.data, x.count, x.inner, x.inner, 1};
  FirstError first;
  mlxc_error* error = multiply_panels<T, C>(op, left, w.rows, out, w.rows, kBlock, threaded,
                                            [&](int64_t start, int64_t count, C* room) {
                                              first.set(unpack_rows(w, start, count, room));
                                              return Matrix<const C>{room, w.columns, count, 1, w.columns};
                                            });
  first.set(error);
  return first.take();
}

template <class T, class C>
mlxc_error* multiply_unpacked_plain(const char* op, const Rows<C>& x, const QuantizedMatrix& w, T* out,
                                    bool threaded) {
  const int64_t block = std::min(w.rows, std::max<int64_t>(1, kBlock / w.columns));
  const bool direct = std::is_same_v<T, C>;
  Scratch scratch(static_cast<size_t>(block * w.columns + (direct ? 0 : x.count * w.columns)) * sizeof(C));
  if (!scratch.ok()) return scratch.error();
  C* unpacked = scratch.as<C>();
  C* result = direct ? reinterpret_cast<C*>(out) : unpacked + block * w.columns;
  const Matrix<const C> left{x.data, x.count, x.inner, x.inner, 1};
  FirstError first;
  for (int64_t start = 0; start < w.rows; start += block) {
    const int64_t rows = std::min(block, w.rows - start);
    parallel_for(rows, threaded ? grain_for_bytes(w.columns * 8) : rows, [&](int64_t begin, int64_t end) {
      first.set(unpack_rows(w, start + begin, end - begin, unpacked + begin * w.columns));
    });
    if (mlxc_error* error = first.take()) return error;
    const Matrix<const C> right{unpacked, rows, w.columns, w.columns, 1};
    mlxc_error* error =
        multiply<C>(op, left.block(0, start, x.count, rows), right, result, w.columns, start > 0, threaded);
    if (error) return error;
  }
  if constexpr (is_half<T>) {
    parallel_for(
        x.count, threaded ? grain_for_bytes(w.columns * 6) : x.count, [&](int64_t begin, int64_t end) {
          from_float_array(result + begin * w.columns, out + begin * w.columns, (end - begin) * w.columns);
        });
  }
  return nullptr;
}

/* ---- products ---- */

template <class T>
mlxc_error* multiply_one(const char* op, const Rows<ComputedIn<T>>& x, const QuantizedMatrix& w,
                         bool transpose, T* out, bool threaded) {
  const int64_t columns = transpose ? w.rows : w.columns;
  if (x.count == 0 || columns == 0) return nullptr;
  if (x.inner == 0) {
    std::memset(static_cast<void*>(out), 0, static_cast<size_t>(x.count * columns) * sizeof(T));
    return nullptr;
  }
  if constexpr (!std::is_same_v<T, double>) {
    if (x.count < kUnpackRows) {
      return visit_packing(w.mode, w.bits, [&](auto mode, auto bits) -> mlxc_error* {
        constexpr QuantMode M = decltype(mode)::value;
        constexpr int B = decltype(bits)::value;
        if (!transpose) return multiply_plain<M, B, T>(x, w, out, threaded);
        if constexpr (fits_words<M, B>()) {
          return multiply_words_of<M, B, T>(x, w, out, threaded);
        } else {
          return multiply_transposed<M, B, T>(x, w, out, threaded);
        }
      });
    }
  }
  return transpose ? multiply_unpacked_transposed<T, ComputedIn<T>>(op, x, w, out, threaded)
                   : multiply_unpacked_plain<T, ComputedIn<T>>(op, x, w, out, threaded);
}

/* Which matrices meet: product i is of the matrices lhs[i] and rhs[i]. */
struct Pairs {
  std::vector<int64_t> lhs;
  std::vector<int64_t> rhs;
};

/* All products, in their order. Each of x has `rows` rows of `inner` numbers. */
template <class T>
mlxc_error* multiply_pairs(const char* op, const T* x, int64_t rows, int64_t inner, const QuantizedMatrix& w,
                           bool transpose, const Pairs& pairs, T* out) {
  using C = ComputedIn<T>;
  const int64_t count = static_cast<int64_t>(pairs.lhs.size());
  const int64_t each = rows * (transpose ? w.rows : w.columns);
  std::vector<int64_t> starts; /* of runs with the same right side */
  for (int64_t i = 0; i < count; i++) {
    if (i == 0 || pairs.rhs[static_cast<size_t>(i)] != pairs.rhs[static_cast<size_t>(i - 1)])
      starts.push_back(i);
  }
  starts.push_back(count);
  const int64_t runs = static_cast<int64_t>(starts.size()) - 1;
  const auto multiply_run = [&](int64_t run, bool threaded) -> mlxc_error* {
    const int64_t begin = starts[static_cast<size_t>(run)], end = starts[static_cast<size_t>(run + 1)];
    const int64_t size = rows * inner;
    bool adjacent = std::is_same_v<T, C>;
    for (int64_t i = begin + 1; i < end; i++) {
      adjacent = adjacent && pairs.lhs[static_cast<size_t>(i)] == pairs.lhs[static_cast<size_t>(i - 1)] + 1;
    }
    Scratch scratch(adjacent ? 0 : static_cast<size_t>((end - begin) * size) * sizeof(C));
    if (!scratch.ok()) return scratch.error();
    Rows<C> left{scratch.as<C>(), (end - begin) * rows, inner};
    if (adjacent) {
      left.data = reinterpret_cast<const C*>(x + pairs.lhs[static_cast<size_t>(begin)] * size);
    } else {
      for (int64_t i = begin; i < end; i++) {
        const T* from = x + pairs.lhs[static_cast<size_t>(i)] * size;
        C* to = scratch.as<C>() + (i - begin) * size;
        parallel_for(size, threaded ? grain_for_bytes(6) : size,
                     [&](int64_t at, int64_t stop) { load_block<T, C>(from + at, 1, stop - at, to + at); });
      }
    }
    return multiply_one<T>(op, left, w.at(pairs.rhs[static_cast<size_t>(begin)]), transpose,
                           out + begin * each, threaded);
  };
  if (runs < 2 * host->thread_count()) {
    for (int64_t run = 0; run < runs; run++) {
      if (mlxc_error* error = multiply_run(run, true)) return error;
    }
    return nullptr;
  }
  FirstError first;
  parallel_for(runs, grain_for_bytes(w.rows * w.row_bytes()), [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; run++) {
      if (mlxc_error* error = multiply_run(run, false)) first.set(error);
    }
  });
  return first.take();
}

mlxc_error* check_call(const char* op, const mlxc_view* x, const mlxc_view* packed, const mlxc_view* out) {
  if (x->dtype != out->dtype || packed->dtype != MLXC_UINT32) {
    return make_error(MLXC_ERROR_TYPE, "%s: the CPU kernel got %s and codes of %s for a result of %s", op,
                      dtype_name(x->dtype), dtype_name(packed->dtype), dtype_name(out->dtype));
  }
  return nullptr;
}

template <class P>
QuantizedMatrix describe_matrix(const P* p, const mlxc_view* packed, const mlxc_view* scales,
                                const mlxc_view* biases) {
  return QuantizedMatrix{data<const uint8_t>(packed),
                         data<const char>(scales),
                         biases ? data<const char>(biases) : nullptr,
                         scales->dtype,
                         static_cast<QuantMode>(p->mode),
                         p->bits,
                         p->group_size,
                         packed->shape[packed->ndim - 2],
                         packed->shape[packed->ndim - 1] * 32 / p->bits};
}

mlxc_error* multiply_views(const char* op, const mlxc_view* x, const QuantizedMatrix& w, bool transpose,
                           const Pairs& pairs, const mlxc_view* out) {
  const int64_t rows = x->ndim > 1 ? x->shape[x->ndim - 2] : 1, inner = x->shape[x->ndim - 1];
  switch (out->dtype) {
    case MLXC_FLOAT16:
      return multiply_pairs<Half>(op, data<const Half>(x), rows, inner, w, transpose, pairs, data<Half>(out));
    case MLXC_BFLOAT16:
      return multiply_pairs<BFloat>(op, data<const BFloat>(x), rows, inner, w, transpose, pairs,
                                    data<BFloat>(out));
    case MLXC_FLOAT32:
      return multiply_pairs<float>(op, data<const float>(x), rows, inner, w, transpose, pairs,
                                   data<float>(out));
    default:
      return multiply_pairs<double>(op, data<const double>(x), rows, inner, w, transpose, pairs,
                                    data<double>(out));
  }
}

mlxc_error* run_quantized_matmul(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view *x = call->inputs[0], *packed = call->inputs[1], *out = call->outputs[0];
  if (mlxc_error* error = check_call("quantized_matmul", x, packed, out)) return error;
  if (out->size == 0) return nullptr;
  const auto* p = params<mlxc_quantized_matmul_params>(call);
  const QuantizedMatrix w =
      describe_matrix(p, packed, call->inputs[2], call->n_inputs > 3 ? call->inputs[3] : nullptr);
  /* One matrix: all rows of x at once. Else the leading axes are walked, those of one side may be shorter
   * or 1. */
  Pairs pairs;
  if (packed->ndim == 2) {
    const int64_t inner = x->shape[x->ndim - 1];
    mlxc_view flat = *x;
    const int64_t shape[2] = {out->size / out->shape[out->ndim - 1], inner};
    flat.ndim = 2;
    flat.shape = shape;
    pairs = {{0}, {0}};
    return multiply_views("quantized_matmul", &flat, w, p->transpose, pairs, out);
  }
  const int lead = out->ndim - 2;
  int64_t steps[2][MLXC_MAX_NDIM], place[MLXC_MAX_NDIM] = {};
  const mlxc_view* sides[2] = {x, packed};
  int64_t count = 1;
  for (int side = 0; side < 2; side++) {
    int64_t step = 1;
    for (int axis = lead - 1; axis >= 0; axis--) {
      const int own = axis - (lead - (sides[side]->ndim - 2));
      const int64_t size = own < 0 ? 1 : sides[side]->shape[own];
      steps[side][axis] = size == 1 ? 0 : step;
      step *= size;
    }
  }
  for (int axis = 0; axis < lead; axis++) count *= out->shape[axis];
  pairs.lhs.reserve(static_cast<size_t>(count));
  pairs.rhs.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; i++) {
    int64_t left = 0, right = 0;
    for (int axis = 0; axis < lead; axis++) {
      left += place[axis] * steps[0][axis];
      right += place[axis] * steps[1][axis];
    }
    pairs.lhs.push_back(left);
    pairs.rhs.push_back(right);
    for (int axis = lead - 1; axis >= 0 && ++place[axis] == out->shape[axis]; axis--) place[axis] = 0;
  }
  return multiply_views("quantized_matmul", x, w, p->transpose, pairs, out);
}

mlxc_error* run_gather_qmm(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view *x = call->inputs[0], *packed = call->inputs[1], *out = call->outputs[0];
  if (mlxc_error* error = check_call("gather_qmm", x, packed, out)) return error;
  const auto* p = params<mlxc_gather_qmm_params>(call);
  const QuantizedMatrix w =
      describe_matrix(p, packed, call->inputs[2], call->n_inputs > 5 ? call->inputs[5] : nullptr);
  Pairs pairs;
  if (mlxc_error* error = read_matrix_indices("gather_qmm", call->inputs[3], x, &pairs.lhs)) return error;
  if (mlxc_error* error = read_matrix_indices("gather_qmm", call->inputs[4], packed, &pairs.rhs))
    return error;
  if (out->size == 0) return nullptr;
  return multiply_views("gather_qmm", x, w, p->transpose, pairs, out);
}

constexpr mlxc_dtype_mask kMaskInputs = kMaskFloat | kMaskInteger;

const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_QUANTIZED_MATMUL, kMaskFloat | MLXC_DTYPE_BIT(MLXC_UINT32) | MLXC_DTYPE_BIT(MLXC_UINT8),
             kMaskFloat, run_quantized_matmul, 0, MLXC_LAYOUT_CONTIGUOUS),
    make_row(MLXC_OP_GATHER_QMM, kMaskInputs, kMaskFloat, run_gather_qmm, 0, MLXC_LAYOUT_CONTIGUOUS),
};

}  // namespace

KernelRows quantized_matmul_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
