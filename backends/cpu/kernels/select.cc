/* where(condition, a, b): one of two values, element by element.
 *
 * The core calls `run` with a bool condition and both values in one dtype, all broadcast to one shape. Values
 * are moved as bits, so there is a loop an element size, not a dtype.
 */
#include "elementwise.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

template <class T>
MLXC_INLINE T pick(uint8_t condition, T a, T b) {
  return condition ? a : b;
}

template <class T>
void pick_loop(const void* const* in, void* const* out, int64_t n, unsigned scalars) {
  const uint8_t* condition = static_cast<const uint8_t*>(in[0]);
  const T* a = static_cast<const T*>(in[1]);
  const T* b = static_cast<const T*>(in[2]);
  T* result = static_cast<T*>(out[0]);
  if (scalars & 1) {
    const T* source = *condition ? a : b;
    bool repeated = scalars & (*condition ? 2u : 4u);
    if (repeated) {
      T value = *source;
      for (int64_t i = 0; i < n; i++) result[i] = value;
    } else {
      MLXC_VECTORIZE
      for (int64_t i = 0; i < n; i++) result[i] = source[i];
    }
  } else if (scalars == 0) {
    MLXC_VECTORIZE
    for (int64_t i = 0; i < n; i++) result[i] = pick(condition[i], a[i], b[i]);
  } else if (scalars == 2) {
    T x = *a;
    MLXC_VECTORIZE
    for (int64_t i = 0; i < n; i++) result[i] = pick(condition[i], x, b[i]);
  } else if (scalars == 4) {
    T y = *b;
    MLXC_VECTORIZE
    for (int64_t i = 0; i < n; i++) result[i] = pick(condition[i], a[i], y);
  } else {
    T x = *a, y = *b;
    MLXC_VECTORIZE
    for (int64_t i = 0; i < n; i++) result[i] = pick(condition[i], x, y);
  }
}

constexpr LoopEntry kBySize[17] = {{},
                                   {&pick_loop<uint8_t>},
                                   {&pick_loop<uint16_t>},
                                   {},
                                   {&pick_loop<uint32_t>},
                                   {},
                                   {},
                                   {},
                                   {&pick_loop<uint64_t>},
                                   {},
                                   {},
                                   {},
                                   {},
                                   {},
                                   {},
                                   {},
                                   {&pick_loop<Complex128>}};

mlxc_error* run(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  return run_elementwise(call, kBySize[size_of(call->outputs[0]->dtype)]);
}

/* The condition's dtype is the core's business: a mask holds for all inputs alike. */
int32_t takes_bool_condition(const mlxc_kernel_call* call) {
  return call->inputs[0]->dtype == MLXC_BOOL && call->inputs[1]->dtype == call->inputs[2]->dtype;
}

constexpr mlxc_kernel kRows[] = {
    make_row(MLXC_OP_WHERE, kMaskAll, kMaskAll, run,
             MLXC_KERNEL_DONATES_0 | MLXC_KERNEL_DONATES_1 | MLXC_KERNEL_DONATES_2, MLXC_LAYOUT_ANY,
             takes_bool_condition),
};

}  // namespace

LoopEntry select_loop(mlxc_dtype dtype) { return kBySize[size_of(dtype)]; }

KernelRows select_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
