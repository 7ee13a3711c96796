/* conv: convolution over 1 to 3 spatial axes, channels last, for float and complex types.
 *
 * Called by the core with parameters filled in and checked. Patches of the input are laid out as rows, a
 * block at a time, and multiplied with the weight (gemm.h); a convolution of kernel size one is that product
 * at once, and a depthwise one is summed directly. The forms that gradients take are in conv_gradients.h.
 * Halves are computed in float and rounded once. Padding may be negative, which crops.
 */
#include "conv_gradients.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

/* Lays out the patches of rows [begin, end) for one group: a row is taps x channels of the group. */
template <class S, class T>
void lay_out_patches(const Geometry& g, const S* input, int64_t group, int64_t begin, int64_t end,
                     T* patches) {
  const int64_t channels = g.group_channels();
  const S* first = input + group * channels * g.channel_stride;
  /* Neighbouring taps along the last axis read one run of memory. */
  const bool runs = !g.flip && g.kernel_dilation[2] == 1 && g.input_dilation[2] == 1 &&
                    g.channel_stride == 1 && g.in_stride[2] == channels;
  Position position(g, begin);
  for (int64_t row = begin; row < end; row++, position.next(g)) {
    const S* image = first + position.image * g.batch_stride;
    for (int64_t kz = 0; kz < g.kernel[0]; kz++) {
      const int64_t z = g.input_index(0, position.at[0], kz);
      for (int64_t ky = 0; ky < g.kernel[1]; ky++) {
        const int64_t y = z < 0 ? -1 : g.input_index(1, position.at[1], ky);
        const int64_t count = g.kernel[2] * channels;
        if (y < 0) {
          std::memset(static_cast<void*>(patches), 0, static_cast<size_t>(count) * sizeof(T));
          patches += count;
          continue;
        }
        const S* line = image + z * g.in_stride[0] + y * g.in_stride[1];
        if (runs) {
          const int64_t start = position.at[2] * g.stride[2] - g.low[2];
          const int64_t from = std::min(g.kernel[2], std::max<int64_t>(0, -start));
          const int64_t to = std::max(from, std::min(g.kernel[2], g.in[2] - start));
          std::memset(static_cast<void*>(patches), 0, static_cast<size_t>(from * channels) * sizeof(T));
          load_block<S, T>(line + (start + from) * channels, 1, (to - from) * channels,
                           patches + from * channels);
          std::memset(static_cast<void*>(patches + to * channels), 0,
                      static_cast<size_t>((g.kernel[2] - to) * channels) * sizeof(T));
          patches += count;
          continue;
        }
        for (int64_t kx = 0; kx < g.kernel[2]; kx++, patches += channels) {
          const int64_t x = g.input_index(2, position.at[2], kx);
          if (x < 0) {
            std::memset(static_cast<void*>(patches), 0, static_cast<size_t>(channels) * sizeof(T));
          } else {
            load_block<S, T>(line + x * g.in_stride[2], g.channel_stride, channels, patches);
          }
        }
      }
    }
  }
}

/* The weight as T, row-major: as it lies, or converted into scratch. */
template <class S, class T>
mlxc_error* prepare_weight(const mlxc_view* weight, bool as_it_lies, Scratch* scratch, const T** dense) {
  if constexpr (std::is_same_v<S, T>) {
    if (as_it_lies) {
      *dense = data<const T>(weight);
      return nullptr;
    }
  }
  if (!scratch->ok()) return scratch->error();
  const int64_t* strides[1] = {weight->strides};
  const Walk<1> walk = make_walk<1>(weight->ndim, weight->shape, strides);
  T* to = scratch->as<T>();
  Cursor<1> cursor(walk, 0);
  for (int64_t row = 0; row < walk.rows; row++, cursor.next(), to += walk.inner) {
    load_block<S, T>(data<const S>(weight) + cursor.offset[0], walk.inner_stride(0), walk.inner, to);
  }
  *dense = scratch->as<T>();
  return nullptr;
}

template <class T>
void reverse_taps(T* filter, int64_t taps, int64_t channels) {
  for (int64_t tap = 0; tap < taps / 2; tap++) {
    std::swap_ranges(filter + tap * channels, filter + (tap + 1) * channels,
                     filter + (taps - 1 - tap) * channels);
  }
}

/* Blocks of patches times the weight of their group. */
template <class S, class T>
mlxc_error* convolve_patches(const Geometry& g, const S* input, const T* weight, S* out) {
  const int64_t depth = g.taps() * g.group_channels(), filters = g.group_filters(), rows = g.rows();
  const int64_t block = std::min(
      rows, std::max<int64_t>(32, std::min<int64_t>(4096, kPatchElements / std::max<int64_t>(1, depth))));
  const int64_t blocks = (rows + block - 1) / block;
  const size_t result_elements = std::is_same_v<S, T> ? 0 : static_cast<size_t>(block * filters);
  std::atomic<mlxc_error*> failure{nullptr};
  auto fail = [&](mlxc_error* error) {
    mlxc_error* none = nullptr;
    if (!failure.compare_exchange_strong(none, error)) host->error_free(error);
  };
  auto run = [&](int64_t first, int64_t last) {
    Scratch scratch((static_cast<size_t>(block * depth) + result_elements) * sizeof(T));
    if (!scratch.ok()) return fail(scratch.error());
    T* patches = scratch.as<T>();
    T* result = patches + block * depth;
    for (int64_t i = first; i < last; i++) {
      const int64_t group = i % g.groups, begin = i / g.groups * block, end = std::min(rows, begin + block);
      lay_out_patches<S, T>(g, input, group, begin, end, patches);
      const Matrix<const T> left{patches, end - begin, depth, depth, 1};
      const Matrix<const T> right{weight + group * filters * depth, depth, filters, 1, depth};
      S* target = out + begin * g.filters + group * filters;
      if constexpr (std::is_same_v<S, T>) {
        if (mlxc_error* error = multiply<T>("conv", left, right, target, g.filters, false, false))
          return fail(error);
      } else {
        if (mlxc_error* error = multiply<T>("conv", left, right, result, filters, false, false))
          return fail(error);
        for (int64_t row = 0; row < end - begin; row++) {
          from_float_array(result + row * filters, target + row * g.filters, filters);
        }
      }
    }
  };
  const Blas* blas = nullptr;
  if (mlxc_error* error = open_blas("conv", &blas)) return error;
  const int64_t pieces = blocks * g.groups;
  parallel_for(pieces, blas->runs_on_caller ? 1 : pieces, run);
  return failure.load();
}

/* One channel a group: each output channel is a weighted sum of one input channel. */
template <class S, class T>
mlxc_error* convolve_depthwise(const Geometry& g, const S* input, const T* weight, S* out) {
  const int64_t taps = g.taps(), filters = g.filters, multiplier = filters / g.channels;
  /* A tap's weights side by side. */
  Scratch turned(static_cast<size_t>(taps * filters) * sizeof(T));
  if (!turned.ok()) return turned.error();
  T* by_tap = turned.as<T>();
  for (int64_t o = 0; o < filters; o++) {
    for (int64_t tap = 0; tap < taps; tap++) by_tap[tap * filters + o] = weight[o * taps + tap];
  }
  std::atomic<bool> failed{false};
  const size_t bytes = static_cast<size_t>(filters + g.channels) * sizeof(T);
  parallel_for(g.rows(), grain_for_bytes(taps * filters * 2), [&](int64_t begin, int64_t end) {
    Scratch scratch(bytes);
    if (!scratch.ok()) {
      failed.store(true);
      return;
    }
    T* MLXC_RESTRICT sum = scratch.as<T>();
    T* MLXC_RESTRICT pixel = sum + filters;
    Position position(g, begin);
    for (int64_t row = begin; row < end; row++, position.next(g)) {
      std::memset(static_cast<void*>(sum), 0, static_cast<size_t>(filters) * sizeof(T));
      const S* image = input + position.image * g.batch_stride;
      const T* scale = by_tap;
      for (int64_t kz = 0; kz < g.kernel[0]; kz++) {
        const int64_t z = g.input_index(0, position.at[0], kz);
        for (int64_t ky = 0; ky < g.kernel[1]; ky++) {
          const int64_t y = g.input_index(1, position.at[1], ky);
          for (int64_t kx = 0; kx < g.kernel[2]; kx++, scale += filters) {
            const int64_t x = g.input_index(2, position.at[2], kx);
            if (z < 0 || y < 0 || x < 0) continue;
            const S* from = image + z * g.in_stride[0] + y * g.in_stride[1] + x * g.in_stride[2];
            if constexpr (is_native_float<S>) {
              if (multiplier == 1 && g.channel_stride == 1) {
                for (int64_t c = 0; c < g.channels; c++) sum[c] += from[c] * scale[c];
                continue;
              }
            }
            load_block<S, T>(from, g.channel_stride, g.channels, pixel);
            for (int64_t c = 0; c < g.channels; c++) {
              for (int64_t m = 0; m < multiplier; m++) {
                const T& w = scale[c * multiplier + m];
                T& total = sum[c * multiplier + m];
                if constexpr (is_complex<T>) {
                  total.re += pixel[c].re * w.re - pixel[c].im * w.im;
                  total.im += pixel[c].re * w.im + pixel[c].im * w.re;
                } else {
                  total += pixel[c] * w;
                }
              }
            }
          }
        }
      }
      for (int64_t o = 0; o < filters; o++) out[row * filters + o] = cast<S>(sum[o]);
    }
  });
  return failed.load() ? make_memory_error(bytes) : nullptr;
}

/* Whether every output position reads just its own input position, and rows of the input lie regularly. */
bool is_pointwise(const Geometry& g, const mlxc_view* input, int64_t* row_stride) {
  if (g.groups != 1) return false;
  for (int axis = 0; axis < kSpatial; axis++) {
    if (g.kernel[axis] != 1 || g.stride[axis] != 1 || g.low[axis] != 0 || g.input_dilation[axis] != 1 ||
        g.in[axis] != g.out[axis]) {
      return false;
    }
  }
  const int64_t* strides[1] = {input->strides};
  const Walk<1> walk = make_walk<1>(input->ndim - 1, input->shape, strides);
  *row_stride = walk.inner_stride(0);
  return walk.ndim == 1;
}

template <class S>
mlxc_error* convolve(const mlxc_kernel_call* call) {
  using T = ComputeOf<S>;
  const mlxc_view* input = call->inputs[0];
  const mlxc_view* weight = call->inputs[1];
  Geometry g = make_geometry(call);
  const S* from = data<const S>(input);
  S* out = data<S>(call->outputs[0]);
  int64_t row_stride = 0;
  if (is_pointwise(g, input, &row_stride)) {
    const int w = weight->ndim - 1;
    const Matrix<const S> left{from, g.rows(), g.channels, row_stride, g.channel_stride};
    const Matrix<const S> right{data<const S>(weight), g.channels, g.filters, weight->strides[w],
                                weight->strides[0]};
    if constexpr (is_half<S>) {
      return multiply_half<S>("conv", left, right, out, g.filters, true);
    } else {
      return multiply<S>("conv", left, right, out, g.filters, false, true);
    }
  }
  if (sums_over_batch(g, weight)) return convolve_summed<S, T>(g, from, data<const S>(weight), out);
  const bool as_it_lies = std::is_same_v<S, T> && is_contiguous(weight) && !g.flip;
  Scratch scratch(as_it_lies ? 0 : static_cast<size_t>(weight->size) * sizeof(T));
  const T* dense = nullptr;
  if (mlxc_error* error = prepare_weight<S, T>(weight, as_it_lies, &scratch, &dense)) return error;
  if (g.flip) {
    /* The taps are turned round once, so that patches can be read forwards. */
    for (int64_t o = 0; o < g.filters; o++) {
      reverse_taps(scratch.as<T>() + o * g.taps() * g.group_channels(), g.taps(), g.group_channels());
    }
    g.flip = false;
  }
  if (g.groups == g.channels && g.channels > 1) return convolve_depthwise<S, T>(g, from, dense, out);
  if (opens_gaps(g)) return convolve_phases<S, T>(g, from, dense, out);
  return convolve_patches<S, T>(g, from, dense, out);
}

mlxc_error* run_conv(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* input = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  if (input->dtype != out->dtype || call->inputs[1]->dtype != out->dtype) {
    return make_error(MLXC_ERROR_TYPE,
                      "conv: the CPU kernel got %s and %s for a result of %s; all must agree",
                      dtype_name(input->dtype), dtype_name(call->inputs[1]->dtype), dtype_name(out->dtype));
  }
  if (input->ndim < 3 || input->ndim > 2 + kSpatial) {
    return make_error(MLXC_ERROR_VALUE, "conv: the input has %d axes; 1 to 3 spatial axes are accepted",
                      input->ndim);
  }
  if (out->size == 0) return nullptr;
  switch (out->dtype) {
    case MLXC_FLOAT16: return convolve<Half>(call);
    case MLXC_BFLOAT16: return convolve<BFloat>(call);
    case MLXC_FLOAT32: return convolve<float>(call);
    case MLXC_FLOAT64: return convolve<double>(call);
    case MLXC_COMPLEX64: return convolve<Complex64>(call);
    case MLXC_COMPLEX128: return convolve<Complex128>(call);
    default:
      return make_error(MLXC_ERROR_UNSUPPORTED, "conv: got %s; float and complex dtypes are accepted",
                        dtype_name(out->dtype));
  }
}

const mlxc_kernel kRows[] = {make_row(MLXC_OP_CONV, kMaskInexact, kMaskInexact, run_conv)};

}  // namespace

KernelRows conv_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
