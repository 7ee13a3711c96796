/* The engine of all element-wise kernels: dense inner loops in, any layout out.
 *
 * A family has a table of loops, one an op and dtype. A loop works on dense memory, inputs may also be one
 * element repeated (a bit of `scalars`), and an output may be the very memory of an input. The engine
 * (kernels/elementwise.cc) cuts the arrays into tiles, gathers inputs of other layouts into a buffer, turns
 * halves into float32 and back, and spreads long arrays over threads.
 */
#ifndef MLXC_CPU_ELEMENTWISE_H
#define MLXC_CPU_ELEMENTWISE_H

#include "dtype.h"

/* For loops whose output is either no input at all or exactly one: element i is read before it is written. */
#if defined(__clang__)
#define MLXC_VECTORIZE _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define MLXC_VECTORIZE _Pragma("GCC ivdep")
#else
#define MLXC_VECTORIZE
#endif

namespace mlxc_cpu {
inline namespace MLXC_ISA {

using Loop = void (*)(const void* const* in, void* const* out, int64_t n, unsigned scalars);

/* What an element costs, for deciding when a second thread pays. */
enum class Cost : uint8_t { kMemory, kMath, kLibrary };

struct LoopEntry {
  Loop loop = nullptr;
  bool exists = false;
  bool in_float32 = false; /* halves are handed to the loop as float32, and taken back so */
  Cost cost = Cost::kMemory;

  constexpr LoopEntry() = default;
  constexpr LoopEntry(Loop l, bool through_float32 = false, Cost c = Cost::kMemory)
      : loop(l), exists(true), in_float32(through_float32), cost(c) {}
};

/* One op: a loop for each dtype of the first (or, for `where`, the second) input. */
struct LoopTable {
  LoopEntry entries[MLXC_DTYPE_COUNT];
};

/* The loop of a table row for element type T; halves use the float loop. */
template <template <class> class LoopOf, class... Ts>
constexpr void set_loops(LoopTable& table, Cost cost) {
  ((table.entries[DtypeOf<Ts>::value] = LoopEntry{&LoopOf<ComputeOf<Ts>>::run, is_half<Ts>, cost}), ...);
}

/* Runs one loop over the whole call. */
mlxc_error* run_tiles(const mlxc_kernel_call* call, const LoopEntry& entry);

/* The same, with the short way for small dense arrays in the caller. */
MLXC_INLINE mlxc_error* run_elementwise(const mlxc_kernel_call* call, const LoopEntry& entry) {
  constexpr int64_t kSmall = 1024;
  int64_t n = call->outputs[0]->size;
  if (MLXC_LIKELY(n <= kSmall && !entry.in_float32)) {
    const void* in[3];
    void* out[2];
    unsigned contiguous = MLXC_VIEW_ROW_CONTIGUOUS;
    int n_inputs = call->n_inputs;
    for (int i = 0; i < n_inputs; i++) {
      in[i] = call->inputs[i]->host;
      contiguous &= call->inputs[i]->flags;
    }
    out[0] = call->outputs[0]->host;
    if (call->n_outputs > 1) out[1] = call->outputs[1]->host;
    if (MLXC_LIKELY(contiguous)) {
      if (n > 0) entry.loop(in, out, n, 0);
      return nullptr;
    }
  }
  return run_tiles(call, entry);
}

/* The loop of a family's op, by the dtype of its first input (`where`: of its values; a cast: from and to).
 * It does not exist where the family has no such op or dtype. */
LoopEntry unary_loop(int32_t op, mlxc_dtype dtype);
LoopEntry binary_loop(int32_t op, mlxc_dtype dtype);
LoopEntry compare_loop(int32_t op, mlxc_dtype dtype);
LoopEntry select_loop(mlxc_dtype dtype);
LoopEntry cast_loop(mlxc_dtype from, mlxc_dtype to);

/* Halves to float32 and back, n of them. */
void halves_to_floats(mlxc_dtype dtype, const char* source, float* result, int64_t n);
void floats_to_halves(mlxc_dtype dtype, const float* source, char* result, int64_t n);

/* Name every type list once. */
#define MLXC_UNSIGNED_TYPES uint8_t, uint16_t, uint32_t, uint64_t
#define MLXC_SIGNED_TYPES int8_t, int16_t, int32_t, int64_t
#define MLXC_INTEGER_TYPES MLXC_UNSIGNED_TYPES, MLXC_SIGNED_TYPES
#define MLXC_FLOAT_TYPES Half, BFloat, float, double
#define MLXC_COMPLEX_TYPES Complex64, Complex128

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
