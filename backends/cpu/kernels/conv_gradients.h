/* Convolutions in the two forms that the gradients of a convolution take (core/ops/conv.cc).
 *
 * Called by kernels/conv.cc. The gradient of the weight is a convolution whose kernel is as large as the
 * images and whose channels are the batch: it is summed over blocks of image positions, read in the order in
 * which they lie. The gradient of the input of a strided convolution reads its input with gaps: the output
 * positions that meet the same taps are done together, so that no product with a gap is ever made.
 */
#ifndef MLXC_CPU_CONV_GRADIENTS_H
#define MLXC_CPU_CONV_GRADIENTS_H

#include <vector>

#include "conv_geometry.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* ---- the gradient of the weight ---- */

/* Whether the batch lies side by side and the channels apart, in the input as in the weight, as for the
 * gradient of a weight; and whether sums over all positions, one set a thread, are worth it. */
inline bool sums_over_batch(const Geometry& g, const mlxc_view* weight) {
  if (g.groups != 1 || g.flip || g.channels == 0 || g.batch_stride != 1 || g.channel_stride == 1)
    return false;
  if (weight->strides[0] != 1) return false;
  const int64_t places = g.out[0] * g.out[1] * g.out[2];
  if (places * g.batch * g.filters > kPatchElements * 8 || places > g.taps()) return false;
  int64_t step = g.filters; /* rows of the weight follow one another, image by image */
  for (int axis = weight->ndim - 2; axis >= 1; axis--) {
    if (weight->shape[axis] != 1 && weight->strides[axis] != step) return false;
    step *= weight->shape[axis];
  }
  return g.channels == 1 || weight->strides[weight->ndim - 1] == step;
}

/* Lays out, for the image positions [begin, end), what each output place reads there: rows of places x batch.
 */
template <class S, class T>
void lay_out_places(const Geometry& g, const S* input, int64_t begin, int64_t end, T* rows) {
  const bool runs = g.stride[2] == 1 && g.input_dilation[2] == 1 && g.in_stride[2] == g.batch;
  const int64_t line_size = g.out[2] * g.batch;
  int64_t tap[kSpatial], rest = begin;
  for (int axis = kSpatial - 1; axis >= 0; axis--) {
    tap[axis] = rest % g.kernel[axis];
    rest /= g.kernel[axis];
  }
  const S* image = input + rest * g.channel_stride;
  for (int64_t position = begin; position < end; position++) {
    for (int64_t oz = 0; oz < g.out[0]; oz++) {
      const int64_t z = g.input_index(0, oz, tap[0]);
      for (int64_t oy = 0; oy < g.out[1]; oy++, rows += line_size) {
        const int64_t y = z < 0 ? -1 : g.input_index(1, oy, tap[1]);
        if (y < 0) {
          std::memset(static_cast<void*>(rows), 0, static_cast<size_t>(line_size) * sizeof(T));
          continue;
        }
        const S* line = image + z * g.in_stride[0] + y * g.in_stride[1];
        if (runs) {
          const int64_t start = tap[2] * g.kernel_dilation[2] - g.low[2];
          const int64_t from = std::min(g.out[2], std::max<int64_t>(0, -start));
          const int64_t to = std::max(from, std::min(g.out[2], g.in[2] - start));
          std::memset(static_cast<void*>(rows), 0, static_cast<size_t>(from * g.batch) * sizeof(T));
          load_block<S, T>(line + (start + from) * g.batch, 1, (to - from) * g.batch, rows + from * g.batch);
          std::memset(static_cast<void*>(rows + to * g.batch), 0,
                      static_cast<size_t>((g.out[2] - to) * g.batch) * sizeof(T));
          continue;
        }
        for (int64_t ox = 0; ox < g.out[2]; ox++) {
          const int64_t x = g.input_index(2, ox, tap[2]);
          if (x < 0) {
            std::memset(static_cast<void*>(rows + ox * g.batch), 0, static_cast<size_t>(g.batch) * sizeof(T));
          } else {
            load_block<S, T>(line + x * g.in_stride[2], 1, g.batch, rows + ox * g.batch);
          }
        }
      }
    }
    for (int axis = kSpatial - 1; axis >= 0; axis--) {
      if (++tap[axis] < g.kernel[axis]) break;
      tap[axis] = 0;
      if (axis == 0) image += g.channel_stride;
    }
  }
}

template <class S, class T>
mlxc_error* convolve_summed(const Geometry& g, const S* input, const S* weight, S* out) {
  const int64_t places = g.out[0] * g.out[1] * g.out[2], width = places * g.batch, filters = g.filters;
  const int64_t positions = g.taps() * g.channels, sums_size = width * filters;
  const int64_t block =
      std::min(positions, std::max<int64_t>(32, std::min<int64_t>(4096, kPatchElements / (width + filters))));
  const Blas* blas = nullptr;
  if (mlxc_error* error = open_blas("conv", &blas)) return error;
  const int64_t most = blas->runs_on_caller ? host->thread_count() : 1;
  const int64_t workers = std::max<int64_t>(1, std::min(most, positions / block));
  Scratch sums(static_cast<size_t>(workers * sums_size) * sizeof(T));
  if (!sums.ok()) return sums.error();
  FirstError first;
  parallel_for(workers, 1, [&](int64_t begin, int64_t end) {
    constexpr bool direct = std::is_same_v<S, T>;
    Scratch scratch(static_cast<size_t>(block * (width + (direct ? 0 : filters))) * sizeof(T));
    if (!scratch.ok()) return first.set(scratch.error());
    T* rows = scratch.as<T>();
    for (int64_t w = begin; w < end; w++) {
      T* sum = sums.as<T>() + w * sums_size;
      const int64_t start = positions * w / workers, stop = positions * (w + 1) / workers;
      for (int64_t i = start; i < stop; i += block) {
        const int64_t count = std::min(block, stop - i);
        lay_out_places<S, T>(g, input, i, i + count, rows);
        Matrix<const T> right{nullptr, count, filters, filters, 1};
        if constexpr (direct) {
          right.data = weight + i * filters;
        } else {
          load_block<S, T>(weight + i * filters, 1, count * filters, rows + block * width);
          right.data = rows + block * width;
        }
        const Matrix<const T> left{rows, width, count, 1, width};
        first.set(multiply<T>("conv", left, right, sum, filters, i > start, false));
      }
    }
  });
  if (mlxc_error* error = first.take()) return error;
  for (int64_t c = 0; c < g.batch; c++) {
    for (int64_t place = 0; place < places; place++) {
      const T* from = sums.as<T>() + (place * g.batch + c) * filters;
      S* to = out + (c * places + place) * filters;
      for (int64_t o = 0; o < filters; o++) {
        T sum = from[o];
        for (int64_t w = 1; w < workers; w++) {
          const T& other = from[w * sums_size + o];
          if constexpr (is_complex<T>) {
            sum.re += other.re;
            sum.im += other.im;
          } else {
            sum += other;
          }
        }
        to[o] = cast<S>(sum);
      }
    }
  }
  return nullptr;
}

/* ---- the gradient of the input of a strided convolution ---- */

/* Whether the input is read with gaps at every output position. */
inline bool opens_gaps(const Geometry& g) {
  bool gaps = false;
  for (int axis = 0; axis < kSpatial; axis++) {
    if (g.stride[axis] != 1) return false;
    gaps = gaps || g.input_dilation[axis] > 1;
  }
  return gaps && g.group_channels() > 0;
}

/* The taps that meet the input along an axis at output positions `phase`, `phase` + dilation, ...: tap
 * taps[j] of position phase + t dilation reads place t + first[j]. */
struct PhaseAxis {
  std::vector<int64_t> taps;
  std::vector<int64_t> first;
  int64_t positions;

  PhaseAxis(const Geometry& g, int axis, int64_t phase) {
    const int64_t dilation = g.input_dilation[axis];
    positions = g.out[axis] > phase ? (g.out[axis] - phase + dilation - 1) / dilation : 0;
    for (int64_t tap = 0; tap < g.kernel[axis]; tap++) {
      const int64_t place = g.flip ? g.kernel[axis] - 1 - tap : tap;
      const int64_t at = phase + place * g.kernel_dilation[axis] - g.low[axis];
      if (at % dilation != 0) continue;
      taps.push_back(tap);
      first.push_back(at / dilation);
    }
  }
  int64_t count() const { return static_cast<int64_t>(taps.size()); }
};

struct Phase {
  PhaseAxis axis[kSpatial];
  int64_t start[kSpatial];

  int64_t taps() const { return axis[0].count() * axis[1].count() * axis[2].count(); }
  int64_t rows_each() const { return axis[0].positions * axis[1].positions * axis[2].positions; }
};

/* The weights of one group that a phase meets, (filters, taps of the phase, channels). */
template <class T>
void pick_taps(const Geometry& g, const Phase& phase, const T* weight, T* to) {
  const int64_t channels = g.group_channels(), depth = g.taps() * channels;
  for (int64_t o = 0; o < g.group_filters(); o++) {
    for (const int64_t z : phase.axis[0].taps) {
      for (const int64_t y : phase.axis[1].taps) {
        for (const int64_t x : phase.axis[2].taps) {
          const int64_t tap = (z * g.kernel[1] + y) * g.kernel[2] + x;
          std::copy_n(weight + o * depth + tap * channels, channels, to);
          to += channels;
        }
      }
    }
  }
}

/* Rows [begin, end) of a phase for one group: the patches, and where in the output each row goes. */
template <class S, class T>
void lay_out_phase(const Geometry& g, const Phase& phase, const S* input, int64_t begin, int64_t end,
                   T* patches, int64_t* targets) {
  const int64_t channels = g.group_channels();
  const PhaseAxis &az = phase.axis[0], &ay = phase.axis[1], &ax = phase.axis[2];
  const auto read = [](int64_t position, int64_t first, int64_t size) {
    const int64_t index = position + first;
    return index >= 0 && index < size ? index : -1;
  };
  for (int64_t row = begin; row < end; row++) {
    const int64_t tx = row % ax.positions, ty = row / ax.positions % ay.positions;
    const int64_t tz = row / (ax.positions * ay.positions) % az.positions;
    const int64_t image = row / (ax.positions * ay.positions * az.positions);
    const int64_t oz = phase.start[0] + tz * g.input_dilation[0];
    const int64_t oy = phase.start[1] + ty * g.input_dilation[1];
    const int64_t ox = phase.start[2] + tx * g.input_dilation[2];
    *targets++ = ((image * g.out[0] + oz) * g.out[1] + oy) * g.out[2] + ox;
    const S* base = input + image * g.batch_stride;
    for (const int64_t fz : az.first) {
      const int64_t z = read(tz, fz, g.in[0]);
      for (const int64_t fy : ay.first) {
        const int64_t y = read(ty, fy, g.in[1]);
        for (const int64_t fx : ax.first) {
          const int64_t x = read(tx, fx, g.in[2]);
          if (z < 0 || y < 0 || x < 0) {
            std::memset(static_cast<void*>(patches), 0, static_cast<size_t>(channels) * sizeof(T));
          } else {
            load_block<S, T>(base + z * g.in_stride[0] + y * g.in_stride[1] + x * g.in_stride[2],
                             g.channel_stride, channels, patches);
          }
          patches += channels;
        }
      }
    }
  }
}

template <class S, class T>
mlxc_error* convolve_phase(const Geometry& g, const Phase& phase, const S* input, const T* weight, S* out,
                           bool threaded) {
  const int64_t rows = g.batch * phase.rows_each(), channels = g.group_channels();
  const int64_t filters = g.group_filters(), depth = phase.taps() * channels;
  if (rows == 0) return nullptr;
  Scratch picked(static_cast<size_t>(filters * depth + 1) * sizeof(T)); /* a phase may meet no taps */
  if (!picked.ok()) return picked.error();
  const int64_t block = std::min(
      rows, std::max<int64_t>(32, std::min<int64_t>(4096, kPatchElements / std::max<int64_t>(1, depth))));
  const int64_t blocks = (rows + block - 1) / block;
  for (int64_t group = 0; group < g.groups; group++) {
    pick_taps(g, phase, weight + group * filters * g.taps() * channels, picked.as<T>());
    const Matrix<const T> right{picked.as<T>(), depth, filters, 1, depth};
    FirstError first;
    parallel_for(blocks, threaded ? 1 : blocks, [&](int64_t begin, int64_t end) {
      Scratch scratch(static_cast<size_t>(block) * sizeof(int64_t) +
                      static_cast<size_t>(block * (depth + filters)) * sizeof(T));
      if (!scratch.ok()) return first.set(scratch.error());
      int64_t* targets = scratch.as<int64_t>();
      T* patches = reinterpret_cast<T*>(targets + block);
      T* result = patches + block * depth;
      for (int64_t i = begin * block; i < std::min(rows, end * block); i += block) {
        const int64_t count = std::min(block, rows - i);
        lay_out_phase<S, T>(g, phase, input + group * channels * g.channel_stride, i, i + count, patches,
                            targets);
        const Matrix<const T> left{patches, count, depth, depth, 1};
        if (mlxc_error* error = multiply<T>("conv", left, right, result, filters, false, false))
          return first.set(error);
        for (int64_t r = 0; r < count; r++) {
          S* to = out + targets[r] * g.filters + group * filters;
          for (int64_t o = 0; o < filters; o++) to[o] = cast<S>(result[r * filters + o]);
        }
      }
    });
    if (mlxc_error* error = first.take()) return error;
  }
  return nullptr;
}

template <class S, class T>
mlxc_error* convolve_phases(const Geometry& g, const S* input, const T* weight, S* out) {
  const Blas* blas = nullptr;
  if (mlxc_error* error = open_blas("conv", &blas)) return error;
  try {
    for (int64_t z = 0; z < std::min(g.input_dilation[0], g.out[0]); z++) {
      for (int64_t y = 0; y < std::min(g.input_dilation[1], g.out[1]); y++) {
        for (int64_t x = 0; x < std::min(g.input_dilation[2], g.out[2]); x++) {
          const Phase phase{{PhaseAxis(g, 0, z), PhaseAxis(g, 1, y), PhaseAxis(g, 2, x)}, {z, y, x}};
          mlxc_error* error = convolve_phase<S, T>(g, phase, input, weight, out, blas->runs_on_caller);
          if (error) return error;
        }
      }
    }
  } catch (const std::bad_alloc&) {
    return make_memory_error(static_cast<size_t>(g.taps()) * sizeof(int64_t));
  }
  return nullptr;
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
