/* Reductions over any axes: sum, prod, min, max, mean, all, any, logsumexp.
 *
 * One driver for all ops and dtypes (reduce_ops.h has the arithmetic, reduce_plan.h the order of axes). By
 * rows: each output takes in runs of the input. By columns: a strip of outputs takes in one row of the input
 * after the other. Long reductions are cut into pieces of a fixed size whose results are joined in order, so
 * the result does not depend on the number of threads.
 */
#include <cstring>

#include "elementwise.h"
#include "parallel.h"
#include "reduce_ops.h"
#include "reduce_plan.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr int64_t kPiece = 64 * 1024; /* elements of one output that one task takes in */
constexpr int64_t kBlock = 1024;      /* elements gathered at a time */
constexpr int64_t kStrip = 512;       /* outputs accumulated side by side */
constexpr int64_t kRowsJoined = 256;  /* rows taken in before a strip is added to its total */

enum class Finish : uint8_t { kPlain, kMean, kLogSum, kShift };

struct Job {
  ReduceOps ops;
  Finish finish;
  ReducePlan plan;
  mlxc_dtype in_dtype;
  mlxc_dtype out_dtype;
  int64_t item_size;
  bool convert;      /* halves are read as float32 */
  const char* input; /* where the walks start */
  char* output;
  double* shift;      /* kLogSum: one an output; kShift: the result goes here */
  double scale_count; /* kMean: how many elements */
};

/* ---- results ---- */

template <class A, class R>
void store_as(const A* acc, char* output, int64_t stride, int64_t n, double count) {
  R* result = reinterpret_cast<R*>(output);
  for (int64_t i = 0; i < n; i++) {
    if constexpr (is_complex<A>) {
      result[i * stride] = cast<R>(A{acc[i].re / count, acc[i].im / count});
    } else if constexpr (is_integer<R>) {
      result[i * stride] = static_cast<R>(acc[i]);
    } else {
      result[i * stride] = cast<R>(acc[i] / static_cast<A>(count));
    }
  }
}

void store_double(mlxc_dtype dtype, const double* acc, char* output, int64_t stride, int64_t n,
                  double count) {
  switch (dtype) {
    case MLXC_FLOAT16: store_as<double, Half>(acc, output, stride, n, count); break;
    case MLXC_BFLOAT16: store_as<double, BFloat>(acc, output, stride, n, count); break;
    case MLXC_FLOAT32: store_as<double, float>(acc, output, stride, n, count); break;
    default: store_as<double, double>(acc, output, stride, n, count); break;
  }
}

void store_complex(mlxc_dtype dtype, const Complex128* acc, char* output, int64_t stride, int64_t n,
                   double count) {
  if (dtype == MLXC_COMPLEX64) {
    store_as<Complex128, Complex64>(acc, output, stride, n, count);
  } else {
    store_as<Complex128, Complex128>(acc, output, stride, n, count);
  }
}

template <class A>
void store_integer(mlxc_dtype dtype, const A* acc, char* output, int64_t stride, int64_t n) {
  switch (size_of(dtype)) {
    case 1: store_as<A, uint8_t>(acc, output, stride, n, 1); break;
    case 2: store_as<A, uint16_t>(acc, output, stride, n, 1); break;
    case 4: store_as<A, uint32_t>(acc, output, stride, n, 1); break;
    default: store_as<A, uint64_t>(acc, output, stride, n, 1); break;
  }
}

/* max + log(sum) */
void store_log_sum(const Job& job, const void* acc, int64_t at, int64_t stride, int64_t n) {
  char* output = job.output + at * size_of(job.out_dtype);
  for (int64_t i = 0; i < n; i++) {
    double shift = job.shift[at + i * stride];
    char* to = output + i * stride * size_of(job.out_dtype);
    if (job.ops.kind == AccKind::kComplex) {
      Complex128 sum = static_cast<const Complex128*>(acc)[i];
      Complex128 result{shift + std::log(std::hypot(sum.re, sum.im)), std::atan2(sum.im, sum.re)};
      store_complex(job.out_dtype, &result, to, 1, 1, 1);
    } else {
      double result = shift + std::log(static_cast<const double*>(acc)[i]);
      store_double(job.out_dtype, &result, to, 1, 1, 1);
    }
  }
}

/* What to take away before exponentials: the maximum, or 0 where that is not finite. */
void store_shift(const Job& job, const void* acc, int64_t at, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double value;
    switch (job.in_dtype) {
      case MLXC_FLOAT64: value = static_cast<const double*>(acc)[i]; break;
      case MLXC_COMPLEX64: value = static_cast<const Complex64*>(acc)[i].re; break;
      case MLXC_COMPLEX128: value = static_cast<const Complex128*>(acc)[i].re; break;
      default: value = static_cast<const float*>(acc)[i]; break;
    }
    job.shift[at + i * stride] = std::isfinite(value) ? value : 0.0;
  }
}

void store_results(const Job& job, const void* acc, int64_t at, int64_t stride, int64_t n) {
  if (job.finish == Finish::kLogSum) return store_log_sum(job, acc, at, stride, n);
  if (job.finish == Finish::kShift) return store_shift(job, acc, at, stride, n);
  char* output = job.output + at * size_of(job.out_dtype);
  double count = job.finish == Finish::kMean ? job.scale_count : 1.0;
  switch (job.ops.kind) {
    case AccKind::kInteger32:
      store_integer(job.out_dtype, static_cast<const uint32_t*>(acc), output, stride, n);
      break;
    case AccKind::kInteger64:
      store_integer(job.out_dtype, static_cast<const uint64_t*>(acc), output, stride, n);
      break;
    case AccKind::kDouble:
      store_double(job.out_dtype, static_cast<const double*>(acc), output, stride, n, count);
      break;
    case AccKind::kComplex:
      store_complex(job.out_dtype, static_cast<const Complex128*>(acc), output, stride, n, count);
      break;
    case AccKind::kFloat:
      if (job.out_dtype == MLXC_FLOAT16) {
        store_as<float, Half>(static_cast<const float*>(acc), output, stride, n, 1);
      } else {
        store_as<float, BFloat>(static_cast<const float*>(acc), output, stride, n, 1);
      }
      break;
    case AccKind::kSame:
      visit_size(job.ops.acc_size, [&](auto tag) {
        using T = typename decltype(tag)::type;
        T* result = reinterpret_cast<T*>(output);
        for (int64_t i = 0; i < n; i++) result[i * stride] = static_cast<const T*>(acc)[i];
      });
      break;
  }
}

/* ---- reading ---- */

void to_floats(mlxc_dtype dtype, const char* source, float* result, int64_t n) {
  if (dtype == MLXC_FLOAT16) {
    to_float_array(reinterpret_cast<const Half*>(source), result, n);
  } else {
    to_float_array(reinterpret_cast<const BFloat*>(source), result, n);
  }
}

void gather_strided(int64_t item_size, char* result, const char* source, int64_t stride, int64_t n) {
  visit_size(item_size, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = reinterpret_cast<const T*>(source);
    T* to = reinterpret_cast<T*>(result);
    for (int64_t i = 0; i < n; i++) to[i] = from[i * stride];
  });
}

struct alignas(64) Buffers {
  char gathered[kBlock * 16];
  float floats[kBlock];
};

/* n elements from `source` on as the loops want them, n <= kBlock unless they can be used in place. */
const void* read_dense(const Job& job, Buffers& buffers, const char* source, int64_t stride, int64_t n) {
  if (stride != 1) {
    gather_strided(job.item_size, buffers.gathered, source, stride, n);
    source = buffers.gathered;
  }
  if (!job.convert) return source;
  to_floats(job.in_dtype, source, buffers.floats, n);
  return buffers.floats;
}

/* ---- by rows ---- */

/* *acc takes in elements [begin, end) of the reduced axes at `source`. */
void take_in_range(const Job& job, Buffers& buffers, void* acc, const char* source, int64_t begin,
                   int64_t end, const double* shift) {
  if (begin >= end) return;
  const Walk<1>& walk = job.plan.reduced;
  int64_t stride = walk.inner_stride(0);
  if (stride == 1 && (walk.rows == 1 || walk.inner >= 64)) {
    int64_t column = begin % walk.inner;
    Cursor<1> cursor(walk, begin / walk.inner);
    while (begin < end) {
      int64_t n = walk.inner - column < end - begin ? walk.inner - column : end - begin;
      if (job.convert && n > kBlock) n = kBlock;
      const char* from = source + (cursor.offset[0] + column) * job.item_size;
      job.ops.run(acc, read_dense(job, buffers, from, 1, n), n, shift);
      begin += n;
      column += n;
      if (column == walk.inner) {
        column = 0;
        cursor.next();
      }
    }
    return;
  }
  for (; begin < end; begin += kBlock) {
    int64_t n = end - begin < kBlock ? end - begin : kBlock;
    if (walk.rows == 1) {
      const char* from = source + begin * stride * job.item_size;
      job.ops.run(acc, read_dense(job, buffers, from, stride, n), n, shift);
    } else {
      visit_size(job.item_size, [&](auto tag) {
        using T = typename decltype(tag)::type;
        gather_block(reinterpret_cast<T*>(buffers.gathered), reinterpret_cast<const T*>(source), walk, begin,
                     n);
      });
      job.ops.run(acc, read_dense(job, buffers, buffers.gathered, 1, n), n, shift);
    }
  }
}

struct Position {
  int64_t in;
  int64_t out;
};

Position find_output(const Walk<2>& kept, int64_t index) {
  Cursor<2> cursor(kept, index / kept.inner);
  int64_t column = index % kept.inner;
  return {cursor.offset[0] + column * kept.inner_stride(0), cursor.offset[1] + column * kept.inner_stride(1)};
}

/* Outputs [begin, end), each a dense run that can be used in place: many short ones are stored together. */
void reduce_dense_runs(const Job& job, int64_t begin, int64_t end) {
  constexpr int64_t together = 64;
  const Walk<2>& kept = job.plan.kept;
  int64_t acc_size = job.ops.acc_size, n = job.plan.n_reduced;
  int64_t in_stride = kept.inner_stride(0), out_stride = kept.inner_stride(1);
  alignas(16) char acc[together * 16];
  Cursor<2> cursor(kept, begin / kept.inner);
  int64_t column = begin % kept.inner;
  while (begin < end) {
    int64_t count = kept.inner - column < end - begin ? kept.inner - column : end - begin;
    if (count > together) count = together;
    const char* from = job.input + (cursor.offset[0] + column * in_stride) * job.item_size;
    int64_t out = cursor.offset[1] + column * out_stride;
    job.ops.init(acc, count);
    for (int64_t i = 0; i < count; i++) {
      const double* shift = job.shift != nullptr ? job.shift + out + i * out_stride : nullptr;
      job.ops.run(acc + i * acc_size, from + i * in_stride * job.item_size, n, shift);
    }
    store_results(job, acc, out, out_stride, count);
    begin += count;
    column += count;
    if (column == kept.inner) {
      column = 0;
      cursor.next();
    }
  }
}

mlxc_error* reduce_by_rows(const Job& job) {
  const ReducePlan& plan = job.plan;
  int64_t pieces = plan.n_reduced > kPiece ? (plan.n_reduced + kPiece - 1) / kPiece : 1;
  int64_t acc_size = job.ops.acc_size;
  if (pieces == 1) {
    bool dense = plan.reduced.ndim == 1 && plan.reduced.inner_stride(0) == 1 && !job.convert;
    parallel_for(plan.n_kept, grain_for_bytes(job.item_size * (plan.n_reduced + 4)),
                 [&](int64_t begin, int64_t end) {
                   if (dense) return reduce_dense_runs(job, begin, end);
                   Buffers buffers;
                   alignas(16) char acc[16];
                   Cursor<2> cursor(plan.kept, begin / plan.kept.inner);
                   int64_t column = begin % plan.kept.inner;
                   for (int64_t i = begin; i < end; i++) {
                     int64_t in = cursor.offset[0] + column * plan.kept.inner_stride(0);
                     int64_t out = cursor.offset[1] + column * plan.kept.inner_stride(1);
                     job.ops.init(acc, 1);
                     take_in_range(job, buffers, acc, job.input + in * job.item_size, 0, plan.n_reduced,
                                   job.shift != nullptr ? job.shift + out : nullptr);
                     store_results(job, acc, out, 1, 1);
                     if (++column == plan.kept.inner) {
                       column = 0;
                       cursor.next();
                     }
                   }
                 });
    return nullptr;
  }
  Scratch scratch(static_cast<size_t>(plan.n_kept * pieces * acc_size));
  if (!scratch.ok()) return scratch.error();
  char* partial = scratch.as<char>();
  parallel_for(plan.n_kept * pieces, 1, [&](int64_t begin, int64_t end) {
    Buffers buffers;
    for (int64_t task = begin; task < end; task++) {
      Position at = find_output(plan.kept, task / pieces);
      int64_t first = task % pieces * kPiece;
      int64_t last = first + kPiece < plan.n_reduced ? first + kPiece : plan.n_reduced;
      char* acc = partial + task * acc_size;
      job.ops.init(acc, 1);
      take_in_range(job, buffers, acc, job.input + at.in * job.item_size, first, last,
                    job.shift != nullptr ? job.shift + at.out : nullptr);
    }
  });
  for (int64_t i = 0; i < plan.n_kept; i++) {
    char* acc = partial + i * pieces * acc_size;
    for (int64_t step = 1; step < pieces; step *= 2) {
      for (int64_t p = 0; p + step < pieces; p += 2 * step) {
        job.ops.combine(acc + p * acc_size, acc + (p + step) * acc_size, 1);
      }
    }
    store_results(job, acc, find_output(plan.kept, i).out, 1, 1);
  }
  return nullptr;
}

/* ---- by columns ---- */

struct alignas(64) Strip {
  char total[kStrip * 16];
  char block[kStrip * 16];
  Buffers buffers;
};

/* The strip's accumulators take in rows [begin, end) of the reduced axes; `width` columns at `source`. */
void take_in_rows(const Job& job, Strip& strip, const char* source, int64_t column_stride, int64_t width,
                  int64_t begin, int64_t end, const double* shift, int64_t shift_stride) {
  const Walk<1>& walk = job.plan.reduced;
  int64_t row_bytes = walk.inner_stride(0) * job.item_size;
  int64_t column = begin % walk.inner;
  Cursor<1> cursor(walk, begin / walk.inner);
  const char* from = source + cursor.offset[0] * job.item_size + column * row_bytes;
  bool joined = end - begin > kRowsJoined;
  char* acc = joined ? strip.block : strip.total;
  job.ops.init(strip.total, width);
  while (begin < end) {
    int64_t stop = joined && end - begin > kRowsJoined ? begin + kRowsJoined : end;
    if (joined) job.ops.init(acc, width);
    while (begin < stop) {
      int64_t rows = walk.inner - column < stop - begin ? walk.inner - column : stop - begin;
      if (column_stride != 1 || job.convert) rows = 1;
      const void* dense = read_dense(job, strip.buffers, from, column_stride, width);
      job.ops.step(acc, dense, rows, walk.inner_stride(0), width, shift, shift_stride);
      begin += rows;
      column += rows;
      from += rows * row_bytes;
      if (column == walk.inner) {
        column = 0;
        cursor.next();
        from = source + cursor.offset[0] * job.item_size;
      }
    }
    if (joined) job.ops.combine(strip.total, acc, width);
  }
}

/* The same for a narrow matrix without gaps: several of its rows side by side make one wide row. */
void take_in_folded(const Job& job, Strip& strip, const char* source, int64_t width, int64_t begin,
                    int64_t end) {
  int64_t fold = kStrip / width;
  int64_t wide = fold * width;
  const char* from = source + begin * width * job.item_size;
  int64_t acc_size = job.ops.acc_size;
  job.ops.init(strip.total, wide);
  while (end - begin >= fold) {
    int64_t rows = (end - begin) / fold;
    if (rows > kRowsJoined) rows = kRowsJoined;
    job.ops.init(strip.block, wide);
    int64_t together = job.convert ? 1 : rows;
    for (int64_t r = 0; r < rows; r += together) {
      const void* dense = read_dense(job, strip.buffers, from, 1, wide);
      job.ops.step(strip.block, dense, together, wide, wide, nullptr, 0);
      from += together * wide * job.item_size;
    }
    job.ops.combine(strip.total, strip.block, wide);
    begin += rows * fold;
  }
  int64_t rest = (end - begin) * width;
  job.ops.step(strip.total, read_dense(job, strip.buffers, from, 1, rest), 1, 0, rest, nullptr, 0);
  for (; fold > 1; fold = (fold + 1) / 2) {
    int64_t half = (fold + 1) / 2;
    job.ops.combine(strip.total, strip.total + half * width * acc_size, (fold - half) * width);
  }
}

mlxc_error* reduce_by_columns(const Job& job) {
  const ReducePlan& plan = job.plan;
  int64_t width = plan.kept.inner;
  int64_t strips = (width + kStrip - 1) / kStrip;
  int64_t strip_width = width < kStrip ? width : kStrip;
  int64_t rows_each = kPiece * 4 / strip_width;
  int64_t pieces = plan.n_reduced > rows_each ? (plan.n_reduced + rows_each - 1) / rows_each : 1;
  int64_t in_stride = plan.kept.inner_stride(0), out_stride = plan.kept.inner_stride(1);
  int64_t acc_size = job.ops.acc_size;
  bool folds = plan.reduced.ndim == 1 && plan.reduced.inner_stride(0) == width && in_stride == 1 &&
               width * 4 <= kStrip && job.finish != Finish::kLogSum;
  Scratch scratch(pieces > 1 ? static_cast<size_t>(plan.n_kept * pieces * acc_size) : 0);
  if (!scratch.ok()) return scratch.error();
  char* partial = scratch.as<char>(); /* [row of outputs][piece][column] */
  int64_t task_rows = plan.n_reduced < rows_each ? plan.n_reduced : rows_each;
  parallel_for(plan.kept.rows * strips * pieces, grain_for_bytes(job.item_size * task_rows * strip_width),
               [&](int64_t begin, int64_t end) {
                 Strip strip;
                 for (int64_t task = begin; task < end; task++) {
                   int64_t piece = task % pieces, left = task / pieces % strips * kStrip;
                   int64_t row = task / (pieces * strips);
                   Cursor<2> cursor(plan.kept, row);
                   int64_t n = width - left < kStrip ? width - left : kStrip;
                   int64_t first = piece * rows_each;
                   int64_t last = first + rows_each < plan.n_reduced ? first + rows_each : plan.n_reduced;
                   int64_t out = cursor.offset[1] + left * out_stride;
                   const char* source = job.input + (cursor.offset[0] + left * in_stride) * job.item_size;
                   if (folds) {
                     take_in_folded(job, strip, source, n, first, last);
                   } else {
                     take_in_rows(job, strip, source, in_stride, n, first, last,
                                  job.shift != nullptr ? job.shift + out : nullptr, out_stride);
                   }
                   if (pieces == 1) {
                     store_results(job, strip.total, out, out_stride, n);
                   } else {
                     std::memcpy(partial + ((row * pieces + piece) * width + left) * acc_size, strip.total,
                                 static_cast<size_t>(n * acc_size));
                   }
                 }
               });
  if (pieces == 1) return nullptr;
  for (int64_t row = 0; row < plan.kept.rows; row++) {
    Cursor<2> cursor(plan.kept, row);
    char* first = partial + row * pieces * width * acc_size;
    for (int64_t step = 1; step < pieces; step *= 2) {
      for (int64_t p = 0; p + step < pieces; p += 2 * step) {
        job.ops.combine(first + p * width * acc_size, first + (p + step) * width * acc_size, width);
      }
    }
    store_results(job, first, cursor.offset[1], out_stride, width);
  }
  return nullptr;
}

/* ---- the table ---- */

enum Row { kSum32, kSum64, kProd32, kProd64, kMin, kMax, kAll, kAny, kExpSum, kRowCount };

struct Tables {
  ReduceOps ops[kRowCount][MLXC_DTYPE_COUNT];
};

template <class T>
constexpr void set_integer(Tables& t) {
  constexpr mlxc_dtype d = DtypeOf<T>::value;
  t.ops[kSum32][d] = make_ops<SumOp<T, uint32_t>>(AccKind::kInteger32);
  t.ops[kSum64][d] = make_ops<SumOp<T, uint64_t>>(AccKind::kInteger64);
  t.ops[kProd32][d] = make_ops<ProdOp<T, uint32_t>>(AccKind::kInteger32);
  t.ops[kProd64][d] = make_ops<ProdOp<T, uint64_t>>(AccKind::kInteger64);
}

template <class T>
constexpr void set_inexact(Tables& t) {
  constexpr mlxc_dtype d = DtypeOf<T>::value;
  using X = ComputeOf<T>;
  using A = std::conditional_t<is_complex<T>, Complex128, double>;
  constexpr AccKind kind = is_complex<T> ? AccKind::kComplex : AccKind::kDouble;
  t.ops[kSum32][d] = t.ops[kSum64][d] = make_ops<SumOp<X, A>>(kind);
  t.ops[kProd32][d] = t.ops[kProd64][d] = make_ops<ProdOp<X, A>>(kind);
  t.ops[kExpSum][d] = make_ops<ExpSumOp<X>>(kind);
}

template <class T>
constexpr void set_any(Tables& t) {
  constexpr mlxc_dtype d = DtypeOf<T>::value;
  using X = ComputeOf<T>;
  constexpr AccKind kind = is_half<T> ? AccKind::kFloat : AccKind::kSame;
  t.ops[kMin][d] = make_ops<ExtremeOp<false, X>>(kind);
  t.ops[kMax][d] = make_ops<ExtremeOp<true, X>>(kind);
  t.ops[kAll][d] = make_ops<LogicOp<true, X>>(AccKind::kSame);
  t.ops[kAny][d] = make_ops<LogicOp<false, X>>(AccKind::kSame);
}

template <class... Ts>
constexpr void set_integers(Tables& t) {
  (set_integer<Ts>(t), ...);
}
template <class... Ts>
constexpr void set_inexacts(Tables& t) {
  (set_inexact<Ts>(t), ...);
}
template <class... Ts>
constexpr void set_anys(Tables& t) {
  (set_any<Ts>(t), ...);
}

constexpr Tables make_tables() {
  Tables t{};
  set_integers<bool, MLXC_INTEGER_TYPES>(t);
  set_inexacts<MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t);
  set_anys<bool, MLXC_INTEGER_TYPES, MLXC_FLOAT_TYPES, MLXC_COMPLEX_TYPES>(t);
  return t;
}

constexpr Tables kTables = make_tables();

/* ---- kernels ---- */

mlxc_error* run_job(const Job& job) {
  if (job.plan.n_kept == 0) return nullptr;
  return goes_by_columns(job.plan) ? reduce_by_columns(job) : reduce_by_rows(job);
}

mlxc_error* run(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* in = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  /* all reductions have the same parameter struct */
  const mlxc_axes& axes = params<mlxc_sum_params>(call)->axes;
  bool is_reduced[MLXC_MAX_NDIM] = {};
  for (int32_t i = 0; i < axes.count; i++) is_reduced[axes.items[i]] = true;
  Job job;
  job.plan = make_reduce_plan(in, is_reduced);
  job.in_dtype = in->dtype;
  job.out_dtype = out->dtype;
  job.item_size = size_of(in->dtype);
  job.convert = in->dtype == MLXC_FLOAT16 || in->dtype == MLXC_BFLOAT16;
  job.input = data<const char>(in) + job.plan.base * job.item_size;
  job.output = data<char>(out);
  job.shift = nullptr;
  job.scale_count = static_cast<double>(job.plan.n_reduced);
  job.finish = call->op == MLXC_OP_MEAN ? Finish::kMean : Finish::kPlain;
  bool wide = size_of(out->dtype) == 8;
  Row row;
  switch (call->op) {
    case MLXC_OP_SUM: row = wide ? kSum64 : kSum32; break;
    case MLXC_OP_PROD: row = wide ? kProd64 : kProd32; break;
    case MLXC_OP_MIN: row = kMin; break;
    case MLXC_OP_MAX: row = kMax; break;
    case MLXC_OP_ALL: row = kAll; break;
    case MLXC_OP_ANY: row = kAny; break;
    case MLXC_OP_LOGSUMEXP: row = kMax; break;
    default: row = kSum64; break;
  }
  job.ops = kTables.ops[row][in->dtype];
  if (call->op != MLXC_OP_LOGSUMEXP) return run_job(job);
  Scratch shift(static_cast<size_t>(out->size) * sizeof(double));
  if (!shift.ok()) return shift.error();
  job.finish = Finish::kShift;
  job.shift = shift.as<double>();
  if (mlxc_error* error = run_job(job)) return error;
  job.finish = Finish::kLogSum;
  job.ops = kTables.ops[kExpSum][in->dtype];
  return run_job(job);
}

constexpr mlxc_kernel kRows[] = {
    make_row(MLXC_OP_SUM, kMaskBool | kMaskInteger, kMaskInteger, run),
    make_row(MLXC_OP_SUM, kMaskInexact, kMaskInexact, run),
    make_row(MLXC_OP_PROD, kMaskBool | kMaskInteger, kMaskInteger, run),
    make_row(MLXC_OP_PROD, kMaskInexact, kMaskInexact, run),
    make_row(MLXC_OP_MIN, kMaskAll, kMaskAll, run),
    make_row(MLXC_OP_MAX, kMaskAll, kMaskAll, run),
    make_row(MLXC_OP_MEAN, kMaskInexact, kMaskInexact, run),
    make_row(MLXC_OP_ALL, kMaskAll, kMaskBool, run),
    make_row(MLXC_OP_ANY, kMaskAll, kMaskBool, run),
    make_row(MLXC_OP_LOGSUMEXP, kMaskInexact, kMaskInexact, run),
};

}  // namespace

KernelRows reduce_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
