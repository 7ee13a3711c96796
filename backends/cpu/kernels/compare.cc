/* Comparisons and logic of two arrays; the result is bool.
 *
 * The core calls `run` with both inputs in one dtype and broadcast to one shape. NaN is unequal to everything
 * and unordered; complex numbers order by real, then imaginary part; anything but zero is true.
 */
#include <initializer_list>

#include "elementwise.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

/* Comparisons swap sides instead of having a loop for >, >=. */
template <class Op, bool Swapped>
struct Compare {
  template <class T>
  struct Of {
    static void run(const void* const* in, void* const* out, int64_t n, unsigned scalars) {
      const T* a = static_cast<const T*>(in[Swapped ? 1 : 0]);
      const T* b = static_cast<const T*>(in[Swapped ? 0 : 1]);
      uint8_t* result = static_cast<uint8_t*>(out[0]);
      if constexpr (Swapped) scalars = ((scalars & 1) << 1) | (scalars >> 1);
      if (scalars == 0) {
        MLXC_VECTORIZE
        for (int64_t i = 0; i < n; i++) result[i] = Op::apply(a[i], b[i]);
      } else if (scalars == 1) {
        T x = *a;
        MLXC_VECTORIZE
        for (int64_t i = 0; i < n; i++) result[i] = Op::apply(x, b[i]);
      } else {
        T y = *b;
        MLXC_VECTORIZE
        for (int64_t i = 0; i < n; i++) result[i] = Op::apply(a[i], y);
      }
    }
  };
};

struct Equal {
  template <class T>
  static MLXC_INLINE bool apply(T a, T b) {
    if constexpr (is_complex<T>) {
      return (a.re == b.re) & (a.im == b.im);
    } else {
      return a == b;
    }
  }
};
struct NotEqual {
  template <class T>
  static MLXC_INLINE bool apply(T a, T b) {
    return !Equal::apply(a, b);
  }
};
struct Less {
  template <class T>
  static MLXC_INLINE bool apply(T a, T b) {
    if constexpr (is_complex<T>) {
      return (a.re < b.re) | ((a.re == b.re) & (a.im < b.im));
    } else {
      return a < b;
    }
  }
};
struct LessEqual {
  template <class T>
  static MLXC_INLINE bool apply(T a, T b) {
    if constexpr (is_complex<T>) {
      return (a.re < b.re) | ((a.re == b.re) & (a.im <= b.im));
    } else {
      return a <= b;
    }
  }
};

template <class T>
MLXC_INLINE bool truth(T a) {
  if constexpr (is_complex<T>) {
    return (a.re != 0) | (a.im != 0);
  } else {
    return a != 0;
  }
}
struct LogicalAnd {
  template <class T>
  static MLXC_INLINE bool apply(T a, T b) {
    return truth(a) & truth(b);
  }
};
struct LogicalOr {
  template <class T>
  static MLXC_INLINE bool apply(T a, T b) {
    return truth(a) | truth(b);
  }
};
struct LogicalXor {
  template <class T>
  static MLXC_INLINE bool apply(T a, T b) {
    return truth(a) != truth(b);
  }
};

constexpr int kFirst = MLXC_OP_EQUAL;
/* Ops get the next free number, so a family has its first ones in a row and later ones anywhere behind. */
constexpr int kLast = MLXC_OP_COUNT - 1;

struct Tables {
  LoopTable table[kLast - kFirst + 1];
};

template <class Op, bool Swapped = false>
constexpr void set(Tables& tables, int op) {
  set_loops<Compare<Op, Swapped>::template Of, bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES,
            MLXC_COMPLEX_TYPES>(tables.table[op - kFirst], Cost::kMemory);
}

constexpr Tables make_tables() {
  Tables t{};
  set<Equal>(t, MLXC_OP_EQUAL);
  set<NotEqual>(t, MLXC_OP_NOT_EQUAL);
  set<Less>(t, MLXC_OP_LESS);
  set<LessEqual>(t, MLXC_OP_LESS_EQUAL);
  set<Less, true>(t, MLXC_OP_GREATER);
  set<LessEqual, true>(t, MLXC_OP_GREATER_EQUAL);
  set<LogicalAnd>(t, MLXC_OP_LOGICAL_AND);
  set<LogicalOr>(t, MLXC_OP_LOGICAL_OR);
  set<LogicalXor>(t, MLXC_OP_LOGICAL_XOR);
  return t;
}

constexpr Tables kTables = make_tables();

mlxc_error* run(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  return run_elementwise(call, kTables.table[call->op - kFirst].entries[call->inputs[0]->dtype]);
}

struct Rows {
  mlxc_kernel rows[kLast - kFirst + 1];
};

constexpr Rows make_rows() {
  Rows r{};
  for (int op = kFirst; op <= kLast; op++) {
    mlxc_dtype_mask mask = kTables.table[op - kFirst].entries[MLXC_FLOAT32].exists ? kMaskAll : 0;
    r.rows[op - kFirst] = make_row(op, mask, kMaskBool, run, MLXC_KERNEL_DONATES_0 | MLXC_KERNEL_DONATES_1);
  }
  return r;
}

constexpr Rows kRows = make_rows();

}  // namespace

LoopEntry compare_loop(int32_t op, mlxc_dtype dtype) {
  return op < kFirst || op > kLast ? LoopEntry{} : kTables.table[op - kFirst].entries[dtype];
}

KernelRows compare_rows() { return {kRows.rows, sizeof kRows.rows / sizeof kRows.rows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
