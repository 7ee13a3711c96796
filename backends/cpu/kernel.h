/* What every kernel file of the CPU backend starts from: how it names its rows and reports errors.
 *
 * A kernel family is one file kernels/FAMILY.cc that defines `KernelRows FAMILY_rows()`; families.h lists
 * the families and backend.cc joins their rows. A family is compiled once, or once an instruction set with
 * MLXC_ISA = base, v3 or v4. Rule that keeps the variants apart: all code of a family, and all inline code
 * of the headers it uses, lives in `namespace mlxc_cpu { inline namespace MLXC_ISA {`, so no two variants
 * share a symbol; base objects are linked first, so a template of the standard library that both emit is
 * taken from the one that runs everywhere.
 */
#ifndef MLXC_CPU_KERNEL_H
#define MLXC_CPU_KERNEL_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "mlxc/backend.h"
#include "mlxc/ops.h"

#ifndef MLXC_ISA
#define MLXC_ISA base
#endif

#if defined(__GNUC__)
#define MLXC_INLINE inline __attribute__((always_inline))
#define MLXC_NOINLINE __attribute__((noinline))
#define MLXC_RESTRICT __restrict__
#define MLXC_LIKELY(x) __builtin_expect(!!(x), 1)
#define MLXC_UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define MLXC_INLINE inline
#define MLXC_NOINLINE
#define MLXC_RESTRICT
#define MLXC_LIKELY(x) (x)
#define MLXC_UNLIKELY(x) (x)
#endif

namespace mlxc_cpu {

/* The core's table, set once by the entry. */
extern const mlxc_host* host;

/* Errors with printf formatting. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
mlxc_error* make_error(mlxc_code code, const char* format, ...);
mlxc_error* make_memory_error(size_t bytes);

/* Words for messages. */
const char* dtype_name(mlxc_dtype dtype);

struct KernelRows {
  const mlxc_kernel* rows;
  size_t count;
};

/* Sets of dtypes for the masks of rows. */
constexpr mlxc_dtype_mask kMaskBool = MLXC_DTYPE_BIT(MLXC_BOOL);
constexpr mlxc_dtype_mask kMaskUnsigned = MLXC_DTYPE_BIT(MLXC_UINT8) | MLXC_DTYPE_BIT(MLXC_UINT16) |
                                          MLXC_DTYPE_BIT(MLXC_UINT32) | MLXC_DTYPE_BIT(MLXC_UINT64);
constexpr mlxc_dtype_mask kMaskSigned = MLXC_DTYPE_BIT(MLXC_INT8) | MLXC_DTYPE_BIT(MLXC_INT16) |
                                        MLXC_DTYPE_BIT(MLXC_INT32) | MLXC_DTYPE_BIT(MLXC_INT64);
constexpr mlxc_dtype_mask kMaskInteger = kMaskUnsigned | kMaskSigned; /* without bool */
constexpr mlxc_dtype_mask kMaskHalf = MLXC_DTYPE_BIT(MLXC_FLOAT16) | MLXC_DTYPE_BIT(MLXC_BFLOAT16);
constexpr mlxc_dtype_mask kMaskFloat =
    kMaskHalf | MLXC_DTYPE_BIT(MLXC_FLOAT32) | MLXC_DTYPE_BIT(MLXC_FLOAT64);
constexpr mlxc_dtype_mask kMaskComplex = MLXC_DTYPE_BIT(MLXC_COMPLEX64) | MLXC_DTYPE_BIT(MLXC_COMPLEX128);
constexpr mlxc_dtype_mask kMaskReal = kMaskBool | kMaskInteger | kMaskFloat;
constexpr mlxc_dtype_mask kMaskInexact = kMaskFloat | kMaskComplex;
constexpr mlxc_dtype_mask kMaskAll = MLXC_DTYPES_ALL;

inline namespace MLXC_ISA {

/* A row of the kernel list. */
constexpr mlxc_kernel make_row(int32_t op, mlxc_dtype_mask inputs, mlxc_dtype_mask outputs,
                               mlxc_kernel_fn run, uint32_t flags = 0, uint32_t layouts = MLXC_LAYOUT_ANY,
                               mlxc_accepts_fn accepts = nullptr) {
  return mlxc_kernel{sizeof(mlxc_kernel), op, inputs, outputs, layouts, flags, run, accepts};
}

/* Address of a view's first element. The CPU always has one. */
template <class T>
MLXC_INLINE T* data(const mlxc_view* view) {
  return static_cast<T*>(view->host);
}

/* The op's parameter struct. */
template <class P>
MLXC_INLINE const P* params(const mlxc_kernel_call* call) {
  return static_cast<const P*>(call->params);
}

MLXC_INLINE bool is_contiguous(const mlxc_view* view) { return view->flags & MLXC_VIEW_ROW_CONTIGUOUS; }

/* Scratch memory of one call: check `ok()` (or the pointer) before use; freed at the end of the scope. */
class Scratch {
 public:
  explicit Scratch(size_t bytes)
      : bytes_(bytes), pointer_(std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64)) {}
  ~Scratch() { std::free(pointer_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  bool ok() const { return pointer_ != nullptr; }
  template <class T>
  T* as() const {
    return static_cast<T*>(pointer_);
  }
  mlxc_error* error() const { return make_memory_error(bytes_); }

 private:
  size_t bytes_;
  void* pointer_;
};

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
