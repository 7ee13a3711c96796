/* Running sums, products, maxima and minima along one axis.
 *
 * Along a row one value is carried; where another axis has closer neighbours a strip of columns is carried
 * side by side. Sums and products of halves and float32 are carried in double and of complex64 in complex
 * double, integers wrap; a NaN, once met by a maximum or minimum, stays. `reverse` starts at the other end,
 * and without `inclusive` each result leaves its own element out, so that the first is the identity.
 */
#include "elementwise.h"
#include "parallel.h"
#include "reduce_ops.h"
#include "reduce_plan.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr int64_t kStrip = 256;

struct Job {
  const char* input;
  char* output;
  Walk<2> kept; /* strides of input and output */
  int64_t n_kept;
  int64_t n;         /* elements along the axis */
  int64_t in_stride; /* along the axis, in the direction of the scan */
  int64_t out_stride;
  bool inclusive;
};

template <class X, class T>
MLXC_INLINE X read(T value) {
  if constexpr (is_half<T>) {
    return to_float(value);
  } else {
    return value;
  }
}

template <class A, class R>
MLXC_INLINE R result_of(A acc) {
  if constexpr (is_integer<R>) {
    return static_cast<R>(acc);
  } else {
    return cast<R>(acc);
  }
}

template <class Op, class T, class R>
struct Scan {
  using X = typename Op::X;
  using A = typename Op::A;

  static void run(const Job& job) {
    bool columns = job.kept.inner > 1 &&
                   plan_detail::magnitude(job.kept.inner_stride(0)) < plan_detail::magnitude(job.in_stride);
    columns ? by_columns(job) : by_rows(job);
  }

  static void by_rows(const Job& job) {
    const T* input = reinterpret_cast<const T*>(job.input);
    R* output = reinterpret_cast<R*>(job.output);
    parallel_for(job.n_kept, grain_for_bytes(8 * job.n), [&](int64_t begin, int64_t end) {
      Cursor<2> cursor(job.kept, begin / job.kept.inner);
      int64_t column = begin % job.kept.inner;
      for (int64_t i = begin; i < end; i++) {
        const T* x = input + cursor.offset[0] + column * job.kept.inner_stride(0);
        R* result = output + cursor.offset[1] + column * job.kept.inner_stride(1);
        A acc = Op::initial();
        for (int64_t k = 0; k < job.n; k++) {
          A next = Op::add(acc, read<X>(x[k * job.in_stride]), 0.0);
          result[k * job.out_stride] = result_of<A, R>(job.inclusive ? next : acc);
          acc = next;
        }
        if (++column == job.kept.inner) {
          column = 0;
          cursor.next();
        }
      }
    });
  }

  static void by_columns(const Job& job) {
    const T* input = reinterpret_cast<const T*>(job.input);
    R* output = reinterpret_cast<R*>(job.output);
    int64_t width = job.kept.inner;
    int64_t strips = (width + kStrip - 1) / kStrip;
    int64_t in_column = job.kept.inner_stride(0), out_column = job.kept.inner_stride(1);
    int64_t task_bytes = 8 * job.n * (width < kStrip ? width : kStrip);
    parallel_for(job.kept.rows * strips, grain_for_bytes(task_bytes), [&](int64_t begin, int64_t end) {
      A acc[kStrip];
      for (int64_t task = begin; task < end; task++) {
        int64_t left = task % strips * kStrip;
        int64_t count = width - left < kStrip ? width - left : kStrip;
        Cursor<2> cursor(job.kept, task / strips);
        const T* x = input + cursor.offset[0] + left * in_column;
        R* result = output + cursor.offset[1] + left * out_column;
        for (int64_t c = 0; c < count; c++) acc[c] = Op::initial();
        for (int64_t k = 0; k < job.n; k++, x += job.in_stride, result += job.out_stride) {
          if (in_column == 1 && out_column == 1) {
            step<1>(acc, x, result, count, 1, 1, job.inclusive);
          } else {
            step<0>(acc, x, result, count, in_column, out_column, job.inclusive);
          }
        }
      }
    });
  }

  template <int Unit>
  static MLXC_INLINE void step(A* MLXC_RESTRICT acc, const T* x, R* result, int64_t count, int64_t in_column,
                               int64_t out_column, bool inclusive) {
    if (Unit) in_column = out_column = 1;
    if (!inclusive) {
      MLXC_VECTORIZE
      for (int64_t c = 0; c < count; c++) {
        A before = acc[c];
        acc[c] = Op::add(before, read<X>(x[c * in_column]), 0.0);
        result[c * out_column] = result_of<A, R>(before);
      }
    } else {
      MLXC_VECTORIZE
      for (int64_t c = 0; c < count; c++) {
        acc[c] = Op::add(acc[c], read<X>(x[c * in_column]), 0.0);
        result[c * out_column] = result_of<A, R>(acc[c]);
      }
    }
  }
};

/* ---- the table ---- */

using ScanFn = void (*)(const Job&);
enum Row { kSum, kProd, kMax, kMin, kRowCount };

struct Tables {
  ScanFn fn[kRowCount][MLXC_DTYPE_COUNT];
};

/* The result of a bool is int32, of anything else its own type. */
template <class T>
constexpr void set_arithmetic(Tables& t) {
  using R = std::conditional_t<std::is_same_v<T, bool>, int32_t, T>;
  using X = ComputeOf<T>;
  using A = std::conditional_t<is_complex<T>, Complex128,
                               std::conditional_t<std::is_integral_v<T>, uint64_t, double>>;
  t.fn[kSum][DtypeOf<T>::value] = &Scan<SumOp<X, A>, T, R>::run;
  t.fn[kProd][DtypeOf<T>::value] = &Scan<ProdOp<X, A>, T, R>::run;
}

template <class T>
constexpr void set_extremes(Tables& t) {
  using X = ComputeOf<T>;
  t.fn[kMax][DtypeOf<T>::value] = &Scan<ExtremeOp<true, X>, T, T>::run;
  t.fn[kMin][DtypeOf<T>::value] = &Scan<ExtremeOp<false, X>, T, T>::run;
}

template <class... Ts>
constexpr Tables make_tables() {
  Tables t{};
  (set_arithmetic<Ts>(t), ...);
  (set_extremes<Ts>(t), ...);
  return t;
}

constexpr Tables kTables = make_tables<bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>();

template <Row R>
mlxc_error* run(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* in = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  if (out->size == 0) return nullptr;
  /* all scans have the same parameter struct */
  const mlxc_cumsum_params* p = params<mlxc_cumsum_params>(call);
  bool is_scanned[MLXC_MAX_NDIM] = {};
  int64_t shape[MLXC_MAX_NDIM], in_strides[MLXC_MAX_NDIM], out_strides[MLXC_MAX_NDIM];
  Job job{data<const char>(in), data<char>(out), {}, 1, 1, 1, 1, p->inclusive != 0};
  int count = 0;
  if (in->ndim > 0) is_scanned[p->axis] = true;
  for (int axis = 0; axis < in->ndim; axis++) {
    if (is_scanned[axis]) {
      job.n = in->shape[axis];
      job.in_stride = in->strides[axis];
      job.out_stride = out->strides[axis];
    } else {
      shape[count] = in->shape[axis];
      in_strides[count] = in->strides[axis];
      out_strides[count] = out->strides[axis];
      job.n_kept *= in->shape[axis];
      count++;
    }
  }
  job.kept = make_walk<2>(count, shape, {in_strides, out_strides});
  if (p->reverse) {
    job.input += job.in_stride * (job.n - 1) * size_of(in->dtype);
    job.output += job.out_stride * (job.n - 1) * size_of(out->dtype);
    job.in_stride = -job.in_stride;
    job.out_stride = -job.out_stride;
  }
  kTables.fn[R][in->dtype](job);
  return nullptr;
}

constexpr mlxc_dtype_mask kInt32 = MLXC_DTYPE_BIT(MLXC_INT32);
constexpr mlxc_dtype_mask kNumber = kMaskAll & ~kMaskBool;

constexpr mlxc_kernel kRows[] = {
    make_row(MLXC_OP_CUMSUM, kMaskBool, kInt32, run<kSum>),
    make_row(MLXC_OP_CUMSUM, kNumber, kNumber, run<kSum>, MLXC_KERNEL_DONATES_0),
    make_row(MLXC_OP_CUMPROD, kMaskBool, kInt32, run<kProd>),
    make_row(MLXC_OP_CUMPROD, kNumber, kNumber, run<kProd>, MLXC_KERNEL_DONATES_0),
    make_row(MLXC_OP_CUMMAX, kMaskAll, kMaskAll, run<kMax>, MLXC_KERNEL_DONATES_0),
    make_row(MLXC_OP_CUMMIN, kMaskAll, kMaskAll, run<kMin>, MLXC_KERNEL_DONATES_0),
};

}  // namespace

KernelRows scan_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
