/* quantize, dequantize, quantize_dequantize, to_fp8, from_fp8.
 *
 * All take contiguous inputs. A group's scale is chosen so that the number of greatest magnitude is kept
 * exactly in affine mode (it, and zero, fall on codes), and is the smallest that covers the group in the
 * others. float64 is quantised in double, the rest in float. A group that holds NaN, or in affine mode an
 * infinity, gets the scale NaN.
 */
#include "quantized.h"

#include <limits>

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr int64_t kMaxGroup = 128;

template <class T>
struct Group {
  T scale;
  T bias;
  uint8_t scale_code;
  uint8_t codes[kMaxGroup];
};

template <class T>
MLXC_INLINE T quiet_nan() {
  return std::numeric_limits<T>::quiet_NaN();
}

template <class T>
void quantize_affine(const T* w, int64_t n, int bits, Group<T>* group) {
  T least = w[0], greatest = w[0];
  bool finite = true;
  for (int64_t i = 0; i < n; i++) {
    least = w[i] < least ? w[i] : least;
    greatest = w[i] > greatest ? w[i] : greatest;
    finite = finite && std::isfinite(w[i]);
  }
  if (!finite) {
    group->scale = group->bias = quiet_nan<T>();
    std::memset(group->codes, 0, sizeof(group->codes));
    return;
  }
  const T steps = static_cast<T>((1 << bits) - 1);
  T scale = std::max((greatest - least) / steps, static_cast<T>(1e-7f));
  T bias = least;
  if (bits > 1) {
    /* The edge of greater magnitude is kept, and the step adjusted so that zero is a code. */
    const bool from_least = std::fabs(least) > std::fabs(greatest);
    if (!from_least) scale = -scale;
    const T edge = from_least ? least : greatest;
    const T steps_to_edge = std::nearbyint(edge / scale);
    bias = 0;
    if (steps_to_edge != 0) {
      scale = edge / steps_to_edge;
      bias = edge;
    }
  }
  for (int64_t i = 0; i < n; i++) {
    const T code = std::nearbyint((w[i] - bias) / scale);
    group->codes[i] = static_cast<uint8_t>(std::min(std::max(code, T(0)), steps));
  }
  group->scale = scale;
  group->bias = bias;
}

/* 4-bit floats (e2m1): 0, 0.5, 1, 1.5, 2, 3, 4, 6 and a sign; ties go toward zero, which has no sign. */
MLXC_INLINE uint8_t encode_e2m1(float value) {
  const float a = std::fabs(value);
  const int code =
      (a > 0.25f) + (a > 0.75f) + (a > 1.25f) + (a > 1.75f) + (a > 2.5f) + (a > 3.5f) + (a > 5.0f);
  return static_cast<uint8_t>(code > 0 && value < 0 ? code | 8 : code);
}

/* The smallest power of two s with greatest <= s * limit; 1 for zeros. */
MLXC_INLINE uint8_t encode_power(float greatest, float limit) {
  if (std::isnan(greatest)) return 255;
  if (greatest == 0) return 127;
  if (std::isinf(greatest)) return 254;
  int exponent;
  const float mantissa = std::frexp(greatest / limit, &exponent);
  if (mantissa == 0.5f || mantissa == 0) exponent--;
  return static_cast<uint8_t>(std::min(std::max(exponent, -127), 127) + 127);
}

void quantize_floats(const float* w, int64_t n, QuantMode mode, Group<float>* group) {
  float greatest = 0;
  bool nan = false;
  for (int64_t i = 0; i < n; i++) {
    greatest = std::max(greatest, std::fabs(w[i]));
    nan = nan || std::isnan(w[i]);
  }
  if (nan) greatest = quiet_nan<float>();
  if (mode == QuantMode::nvfp4) {
    group->scale_code = encode_e4m3(greatest / 6.0f);
    group->scale = decode_e4m3(group->scale_code);
  } else {
    group->scale_code = encode_power(greatest, mode == QuantMode::mxfp4 ? 6.0f : 448.0f);
    group->scale = decode_e8m0(group->scale_code);
  }
  for (int64_t i = 0; i < n; i++) {
    const float scaled = group->scale == 0 ? 0.0f : w[i] / group->scale;
    group->codes[i] = mode == QuantMode::mxfp8 ? encode_e4m3(scaled) : encode_e2m1(scaled);
  }
}

template <class T>
MLXC_INLINE void quantize_group(const T* w, int64_t n, QuantMode mode, int bits, Group<T>* group) {
  if (mode == QuantMode::affine) {
    quantize_affine<T>(w, n, bits, group);
  } else if constexpr (std::is_same_v<T, float>) {
    quantize_floats(w, n, mode, group);
  }
}

/* What a dtype is quantised in. */
template <class T>
using QuantizedIn = std::conditional_t<std::is_same_v<T, double>, double, float>;

void pack_codes(const uint8_t* codes, int64_t n, int bits, uint8_t* to) {
  uint64_t held = 0;
  int n_held = 0;
  for (int64_t i = 0; i < n; i++) {
    held |= static_cast<uint64_t>(codes[i]) << n_held;
    n_held += bits;
    while (n_held >= 8) {
      *to++ = static_cast<uint8_t>(held);
      held >>= 8;
      n_held -= 8;
    }
  }
}

template <class P>
mlxc_error* check_params(const char* op, const P* p) {
  const bool affine = p->mode == 0 && (p->group_size == 32 || p->group_size == 64 || p->group_size == 128) &&
                      p->bits >= 1 && p->bits <= 8 && p->bits != 7;
  const bool floats = (p->mode == 1 && p->group_size == 32 && p->bits == 4) ||
                      (p->mode == 2 && p->group_size == 32 && p->bits == 8) ||
                      (p->mode == 3 && p->group_size == 16 && p->bits == 4);
  if (affine || floats) return nullptr;
  return make_error(MLXC_ERROR_VALUE, "%s: the CPU kernel got mode %d with group size %d and %d bits", op,
                    static_cast<int>(p->mode), static_cast<int>(p->group_size), static_cast<int>(p->bits));
}

/* Calls fn(group index, the group's numbers in the type they are quantised in) for every group, on all
 * threads. */
template <class T, class F>
void for_each_group(const T* w, int64_t groups, int64_t n, const F& fn) {
  using C = QuantizedIn<T>;
  parallel_for(groups, grain_for_bytes(n * static_cast<int64_t>(sizeof(T)) * 8),
               [&](int64_t begin, int64_t end) {
                 C values[kMaxGroup];
                 for (int64_t g = begin; g < end; g++) {
                   load_block<T, C>(w + g * n, 1, n, values);
                   fn(g, values);
                 }
               });
}

template <class F>
mlxc_error* visit_float(const char* op, mlxc_dtype dtype, const F& fn) {
  switch (dtype) {
    case MLXC_FLOAT16: return fn(Tag<Half>{});
    case MLXC_BFLOAT16: return fn(Tag<BFloat>{});
    case MLXC_FLOAT32: return fn(Tag<float>{});
    case MLXC_FLOAT64: return fn(Tag<double>{});
    default:
      return make_error(MLXC_ERROR_TYPE, "%s: the CPU kernel takes floats, got %s", op, dtype_name(dtype));
  }
}

mlxc_error* run_quantize(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view *w = call->inputs[0], *packed = call->outputs[0], *scales = call->outputs[1];
  const auto* p = params<mlxc_quantize_params>(call);
  if (mlxc_error* error = check_params("quantize", p)) return error;
  const int64_t n = p->group_size, groups = w->size / n, group_bytes = n * p->bits / 8;
  const auto mode = static_cast<QuantMode>(p->mode);
  const int bits = p->bits;
  uint8_t* codes = data<uint8_t>(packed);
  return visit_float("quantize", w->dtype, [&](auto tag) -> mlxc_error* {
    using T = typename decltype(tag)::type;
    using C = QuantizedIn<T>;
    if (mode == QuantMode::affine) {
      T* scale = data<T>(scales);
      for_each_group<T>(data<const T>(w), groups, n, [&](int64_t g, const C* values) {
        Group<C> group;
        quantize_affine<C>(values, n, bits, &group);
        pack_codes(group.codes, n, bits, codes + g * group_bytes);
        scale[g] = cast<T>(group.scale);
        scale[groups + g] = cast<T>(group.bias);
      });
    } else {
      uint8_t* scale = data<uint8_t>(scales);
      for_each_group<T>(data<const T>(w), groups, n, [&](int64_t g, const C* values) {
        float narrow[kMaxGroup];
        for (int64_t i = 0; i < n; i++) narrow[i] = static_cast<float>(values[i]);
        Group<float> group;
        quantize_floats(narrow, n, mode, &group);
        pack_codes(group.codes, n, bits, codes + g * group_bytes);
        scale[g] = group.scale_code;
      });
    }
    return nullptr;
  });
}

mlxc_error* run_quantize_dequantize(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view *a = call->inputs[0], *out = call->outputs[0];
  const auto* p = params<mlxc_quantize_dequantize_params>(call);
  if (mlxc_error* error = check_params("quantize_dequantize", p)) return error;
  const int64_t n = p->group_size, groups = a->size / n;
  const auto mode = static_cast<QuantMode>(p->mode);
  const int bits = p->bits;
  return visit_float("quantize_dequantize", a->dtype, [&](auto tag) -> mlxc_error* {
    using T = typename decltype(tag)::type;
    using C = QuantizedIn<T>;
    T* to = data<T>(out);
    for_each_group<T>(data<const T>(a), groups, n, [&](int64_t g, const C* values) {
      if (mode == QuantMode::affine) {
        Group<C> group;
        quantize_affine<C>(values, n, bits, &group);
        /* Scale and bias as quantize stores them. */
        const C scale = cast<C>(cast<T>(group.scale)), bias = cast<C>(cast<T>(group.bias));
        for (int64_t i = 0; i < n; i++)
          to[g * n + i] = cast<T>(static_cast<C>(group.codes[i]) * scale + bias);
        return;
      }
      float narrow[kMaxGroup];
      for (int64_t i = 0; i < n; i++) narrow[i] = static_cast<float>(values[i]);
      Group<float> group;
      quantize_floats(narrow, n, mode, &group);
      for (int64_t i = 0; i < n; i += 8) {
        Ints codes;
        for (int k = 0; k < 8; k++) codes[k] = group.codes[i + k];
        Floats decoded;
        if (mode == QuantMode::mxfp8) {
          decode_floats<4, 3>(codes, &decoded);
        } else {
          decode_floats<2, 1>(codes, &decoded);
        }
        for (int k = 0; k < 8; k++) to[g * n + i + k] = cast<T>(decoded[k] * group.scale);
      }
    });
    return nullptr;
  });
}

mlxc_error* run_dequantize(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view *packed = call->inputs[0], *scales = call->inputs[1], *out = call->outputs[0];
  const auto* p = params<mlxc_dequantize_params>(call);
  if (mlxc_error* error = check_params("dequantize", p)) return error;
  if (out->size == 0) return nullptr;
  const int64_t columns = out->shape[out->ndim - 1];
  const QuantizedMatrix w{data<const uint8_t>(packed),
                          data<const char>(scales),
                          call->n_inputs > 2 ? data<const char>(call->inputs[2]) : nullptr,
                          scales->dtype,
                          static_cast<QuantMode>(p->mode),
                          p->bits,
                          p->group_size,
                          out->size / columns,
                          columns};
  return visit_float("dequantize", out->dtype, [&](auto tag) -> mlxc_error* {
    using T = typename decltype(tag)::type;
    using C = QuantizedIn<T>;
    return visit_packing(w.mode, w.bits, [&](auto mode, auto bits) -> mlxc_error* {
      FirstError first;
      parallel_for(w.rows, grain_for_bytes(columns * 8), [&](int64_t begin, int64_t end) {
        Scratch scratch(static_cast<size_t>(columns + 2 * w.groups()) * sizeof(C));
        if (!scratch.ok()) return first.set(scratch.error());
        C* values = scratch.as<C>();
        for (int64_t row = begin; row < end; row++) {
          C* scale_room = values + columns;
          dequantize_row<decltype(mode)::value, decltype(bits)::value, C>(w, row, scale_room,
                                                                          scale_room + w.groups(), values);
          T* to = data<T>(out) + row * columns;
          if constexpr (is_half<T>) {
            from_float_array(values, to, columns);
          } else {
            std::memcpy(to, values, static_cast<size_t>(columns) * sizeof(T));
          }
        }
      });
      return first.take();
    });
  });
}

/* To float by way of an odd last bit where it is inexact, so that a second rounding does no harm. */
MLXC_INLINE float narrow_to_odd(double value) {
  const float near = static_cast<float>(value);
  const uint32_t bits = bit_cast<uint32_t>(near);
  if (static_cast<double>(near) == value || !std::isfinite(near)) return near;
  const bool beyond = std::fabs(static_cast<double>(near)) > std::fabs(value);
  return bit_cast<float>((beyond ? bits - 1 : bits) | 1u);
}

mlxc_error* run_to_fp8(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view *a = call->inputs[0], *out = call->outputs[0];
  return visit_float("to_fp8", a->dtype, [&](auto tag) -> mlxc_error* {
    using T = typename decltype(tag)::type;
    const T* from = data<const T>(a);
    uint8_t* to = data<uint8_t>(out);
    parallel_for(a->size, grain_for_bytes(sizeof(T)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        if constexpr (std::is_same_v<T, double>) {
          to[i] = encode_e4m3(narrow_to_odd(from[i]));
        } else {
          to[i] = encode_e4m3(cast<float>(from[i]));
        }
      }
    });
    return nullptr;
  });
}

mlxc_error* run_from_fp8(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view *a = call->inputs[0], *out = call->outputs[0];
  return visit_float("from_fp8", out->dtype, [&](auto tag) -> mlxc_error* {
    using T = typename decltype(tag)::type;
    const uint8_t* from = data<const uint8_t>(a);
    T* to = data<T>(out);
    parallel_for(a->size, grain_for_bytes(sizeof(T)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) to[i] = cast<T>(decode_e4m3(from[i]));
    });
    return nullptr;
  });
}

constexpr mlxc_dtype_mask kMaskByte = MLXC_DTYPE_BIT(MLXC_UINT8);
constexpr mlxc_dtype_mask kMaskWord = MLXC_DTYPE_BIT(MLXC_UINT32);

const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_QUANTIZE, kMaskFloat, kMaskWord | kMaskByte | kMaskFloat, run_quantize, 0,
             MLXC_LAYOUT_CONTIGUOUS),
    make_row(MLXC_OP_DEQUANTIZE, kMaskWord | kMaskByte | kMaskFloat, kMaskFloat, run_dequantize, 0,
             MLXC_LAYOUT_CONTIGUOUS),
    make_row(MLXC_OP_QUANTIZE_DEQUANTIZE, kMaskFloat, kMaskFloat, run_quantize_dequantize, 0,
             MLXC_LAYOUT_CONTIGUOUS),
    make_row(MLXC_OP_TO_FP8, kMaskFloat, kMaskByte, run_to_fp8, 0, MLXC_LAYOUT_CONTIGUOUS),
    make_row(MLXC_OP_FROM_FP8, kMaskByte, kMaskFloat, run_from_fp8, 0, MLXC_LAYOUT_CONTIGUOUS),
};

}  // namespace

KernelRows quantize_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
