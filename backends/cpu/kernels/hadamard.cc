/* hadamard_transform: rows of m 2^k numbers times the Kronecker product of the Hadamard matrices of sizes m
 * and 2^k.
 *
 * The power of two is done in k steps of sums and differences, the factor m by sums with the signs below,
 * which are those of N. J. A. Sloane's library (had.12, had.20.will, had.28.pal2). Halves are computed in
 * float. The input is contiguous.
 */
#include "quantized.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

/* Row i of the matrix has minus signs where bits of entry i are set. */
constexpr uint32_t kSigns12[12] = {0x002, 0xaab, 0x3c8, 0x96e, 0xf20, 0x5ba,
                                   0xc8c, 0x6e6, 0x23c, 0xb96, 0x8f0, 0xe5a};
constexpr uint32_t kSigns20[20] = {0x933de, 0x2e3bd, 0x5477b, 0xa0ef7, 0x499ef, 0x637c1, 0xc6ba2,
                                   0x8d764, 0x1aee8, 0x359f0, 0x0fa53, 0x174a7, 0x26d4e, 0x45e9c,
                                   0x83d39, 0xf7a6d, 0xef4fa, 0xdedd5, 0xbdf8b, 0x7bf36};
constexpr uint32_t kSigns28[28] = {0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df,
                                   0x66b4f3f, 0xb467f43, 0x6acbe87, 0xd593d8e, 0xab27b9c, 0x564f7b8,
                                   0xac9aff0, 0x5b31fe1, 0x87fb325, 0x0ff66ca, 0x1decd95, 0x39ddb2a,
                                   0x71bf654, 0xe17eca9, 0xc2fd9d2, 0xfcf1299, 0xfbe2532, 0xf7c4ae4,
                                   0xef8d549, 0xdf1ea13, 0xbe3d4a6, 0x7e7a94c};

/* n = factor * power. */
struct Size {
  int64_t factor;
  int64_t power;
  const uint32_t* signs;
};

bool split_size(int64_t n, Size* size) {
  int64_t odd = n, power = 1;
  while (odd > 1 && odd % 2 == 0) {
    odd /= 2;
    power *= 2;
  }
  const uint32_t* signs = odd == 3 ? kSigns12 : odd == 5 ? kSigns20 : odd == 7 ? kSigns28 : nullptr;
  if (odd == 1) {
    *size = Size{1, power, nullptr};
    return true;
  }
  *size = Size{4 * odd, power / 4, signs};
  return signs != nullptr && power >= 4;
}

template <class C>
void transform_power(C* x, int64_t n) {
  for (int64_t half = 1; half < n; half *= 2) {
    for (int64_t i = 0; i < n; i += 2 * half) {
      C* MLXC_RESTRICT low = x + i;
      C* MLXC_RESTRICT high = x + i + half;
      for (int64_t j = 0; j < half; j++) {
        const C a = low[j], b = high[j];
        low[j] = a + b;
        high[j] = a - b;
      }
    }
  }
}

/* to[i] = sum over j of the signed rows x[j]. */
template <class C>
void transform_factor(const C* MLXC_RESTRICT x, const Size& size, bool transposed, C* MLXC_RESTRICT to) {
  for (int64_t i = 0; i < size.factor; i++) {
    C* MLXC_RESTRICT sum = to + i * size.power;
    for (int64_t k = 0; k < size.power; k++) sum[k] = 0;
    for (int64_t j = 0; j < size.factor; j++) {
      const bool minus = transposed ? size.signs[j] >> i & 1 : size.signs[i] >> j & 1;
      const C sign = minus ? C(-1) : C(1);
      const C* MLXC_RESTRICT row = x + j * size.power;
      for (int64_t k = 0; k < size.power; k++) sum[k] += sign * row[k];
    }
  }
}

template <class T>
mlxc_error* transform_rows(const mlxc_view* a, const mlxc_view* out, double scale, bool transposed) {
  using C = ComputeOf<T>;
  const int64_t n = a->ndim > 0 ? a->shape[a->ndim - 1] : 1;
  Size size;
  if (n < 1 || !split_size(n, &size)) {
    return make_error(MLXC_ERROR_VALUE, "hadamard_transform: the CPU kernel got a last axis of %lld",
                      static_cast<long long>(n));
  }
  const T* from = data<const T>(a);
  T* to = data<T>(out);
  const C factor = static_cast<C>(scale);
  FirstError first;
  parallel_for(a->size / n, grain_for_bytes(n * static_cast<int64_t>(sizeof(T)) * 8),
               [&](int64_t begin, int64_t end) {
                 Scratch scratch(static_cast<size_t>(2 * n) * sizeof(C));
                 if (!scratch.ok()) return first.set(scratch.error());
                 C* row = scratch.as<C>();
                 C* mixed = row + n;
                 for (int64_t r = begin; r < end; r++) {
                   load_block<T, C>(from + r * n, 1, n, row);
                   for (int64_t i = 0; i < size.factor; i++)
                     transform_power(row + i * size.power, size.power);
                   if (size.factor > 1) transform_factor(row, size, transposed, mixed);
                   const C* result = size.factor > 1 ? mixed : row;
                   for (int64_t i = 0; i < n; i++) to[r * n + i] = cast<T>(result[i] * factor);
                 }
               });
  return first.take();
}

mlxc_error* run_hadamard_transform(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view *a = call->inputs[0], *out = call->outputs[0];
  const auto* p = params<mlxc_hadamard_transform_params>(call);
  switch (out->dtype) {
    case MLXC_FLOAT16: return transform_rows<Half>(a, out, p->scale, p->transposed);
    case MLXC_BFLOAT16: return transform_rows<BFloat>(a, out, p->scale, p->transposed);
    case MLXC_FLOAT32: return transform_rows<float>(a, out, p->scale, p->transposed);
    default: return transform_rows<double>(a, out, p->scale, p->transposed);
  }
}

const mlxc_kernel kRows[] = {make_row(MLXC_OP_HADAMARD_TRANSFORM, kMaskFloat, kMaskFloat,
                                      run_hadamard_transform, 0, MLXC_LAYOUT_CONTIGUOUS)};

}  // namespace

KernelRows hadamard_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
