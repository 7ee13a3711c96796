/* The tile engine behind unary, binary, compare and select kernels (see elementwise.h).
 *
 * A tile is 1024 elements, so that gathered and converted copies stay in the first-level cache. Inputs that
 * lie transposed are gathered in blocks of rows and columns, because going along a row of the output would
 * touch a new cache line with every element. Outputs are row-major, as the core allocates them.
 */
#include "elementwise.h"
#include "streaming.h"

#include "parallel.h"
#include "strided.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

constexpr int64_t kTile = 1024;
constexpr int kMaxInputs = 3;
constexpr int kMaxOutputs = 2;

/* Block of a transposed gather. */
constexpr int64_t kBlockRows = 16;
constexpr int64_t kBlockColumns = kTile / kBlockRows;

enum class Access { kDense, kScalar, kStrided };

struct Input {
  Access access;
  bool convert; /* half to float32 */
  mlxc_dtype dtype;
  int64_t item_size;
  const char* base;
  Walk<1> walk;
  alignas(16) char scalar[16]; /* the element, converted, where access is kScalar */
};

struct Output {
  bool convert;
  mlxc_dtype dtype;
  int64_t item_size;
  char* base;
};

struct Job {
  LoopEntry entry;
  int n_inputs;
  int n_outputs;
  unsigned scalars;
  Input in[kMaxInputs];
  Output out[kMaxOutputs];
};

struct alignas(64) Buffers {
  char gathered[kMaxInputs][kTile * 16];
  float converted[kMaxInputs][kTile];
  float results[kMaxOutputs][kTile];
};

void gather_items(int64_t item_size, char* result, const char* source, const Walk<1>& walk, int64_t begin,
                  int64_t count) {
  visit_size(item_size, [&](auto tag) {
    using T = typename decltype(tag)::type;
    gather_block(reinterpret_cast<T*>(result), reinterpret_cast<const T*>(source), walk, begin, count);
  });
}

/* Runs the loop on n elements; in[i] holds them densely in the input's own dtype (or is ignored: scalar). */
void run_dense(const Job& job, Buffers& buffers, const char* const* dense, int64_t begin, int64_t n) {
  const void* in[kMaxInputs];
  void* out[kMaxOutputs];
  for (int i = 0; i < job.n_inputs; i++) {
    const Input& input = job.in[i];
    if (input.access == Access::kScalar) {
      in[i] = input.scalar;
    } else if (input.convert) {
      halves_to_floats(input.dtype, dense[i], buffers.converted[i], n);
      in[i] = buffers.converted[i];
    } else {
      in[i] = dense[i];
    }
  }
  for (int k = 0; k < job.n_outputs; k++) {
    const Output& output = job.out[k];
    out[k] = output.convert ? static_cast<void*>(buffers.results[k]) : output.base + begin * output.item_size;
  }
  job.entry.loop(in, out, n, job.scalars);
  for (int k = 0; k < job.n_outputs; k++) {
    const Output& output = job.out[k];
    if (output.convert) {
      floats_to_halves(output.dtype, buffers.results[k], output.base + begin * output.item_size, n);
    }
  }
}

void run_range(const Job& job, int64_t begin, int64_t end) {
  Buffers buffers;
  const char* dense[kMaxInputs];
  for (; begin < end; begin += kTile) {
    int64_t n = end - begin < kTile ? end - begin : kTile;
    for (int i = 0; i < job.n_inputs; i++) {
      const Input& input = job.in[i];
      if (input.access == Access::kStrided) {
        gather_items(input.item_size, buffers.gathered[i], input.base, input.walk, begin, n);
        dense[i] = buffers.gathered[i];
      } else {
        dense[i] = input.base + begin * input.item_size;
      }
    }
    run_dense(job, buffers, dense, begin, n);
  }
}

/* ---- transposed inputs ---- */

template <class T>
void gather_rectangle(T* MLXC_RESTRICT result, const T* source, int64_t rows, int64_t columns,
                      int64_t row_stride, int64_t column_stride) {
  if (row_stride == 1 && rows == kBlockRows) {
    for (int64_t c = 0; c < columns; c++) {
      const T* from = source + c * column_stride;
      for (int64_t r = 0; r < kBlockRows; r++) result[r * columns + c] = from[r];
    }
    return;
  }
  for (int64_t c = 0; c < columns; c++) {
    const T* from = source + c * column_stride;
    for (int64_t r = 0; r < rows; r++) result[r * columns + c] = from[r * row_stride];
  }
}

/* One block of rows of the matrix that the last two axes of `shape` make, over all columns. */
void run_matrix_rows(const Job& job, const Walk<kMaxInputs>& walk, int64_t block_begin, int64_t block_end) {
  Buffers buffers;
  int ndim = walk.ndim;
  int64_t height = walk.shape[ndim - 2];
  int64_t width = walk.inner;
  int64_t blocks = (height + kBlockRows - 1) / kBlockRows;
  for (int64_t block = block_begin; block < block_end; block++) {
    int64_t matrix = block / blocks;
    int64_t row = block % blocks * kBlockRows;
    int64_t rows = height - row < kBlockRows ? height - row : kBlockRows;
    Cursor<kMaxInputs> cursor(walk, matrix * height + row);
    int64_t out_row = (matrix * height + row) * width;
    for (int64_t column = 0; column < width; column += kBlockColumns) {
      int64_t columns = width - column < kBlockColumns ? width - column : kBlockColumns;
      for (int i = 0; i < job.n_inputs; i++) {
        const Input& input = job.in[i];
        if (input.access != Access::kStrided) continue;
        int64_t column_stride = walk.strides[i][ndim - 1];
        visit_size(input.item_size, [&](auto tag) {
          using T = typename decltype(tag)::type;
          gather_rectangle(reinterpret_cast<T*>(buffers.gathered[i]),
                           reinterpret_cast<const T*>(input.base) + cursor.offset[i] + column * column_stride,
                           rows, columns, walk.strides[i][ndim - 2], column_stride);
        });
      }
      for (int64_t r = 0; r < rows; r++) {
        int64_t begin = out_row + r * width + column;
        const char* dense[kMaxInputs];
        for (int i = 0; i < job.n_inputs; i++) {
          const Input& input = job.in[i];
          dense[i] = input.access == Access::kStrided ? buffers.gathered[i] + r * columns * input.item_size
                                                      : input.base + begin * input.item_size;
        }
        run_dense(job, buffers, dense, begin, columns);
      }
    }
  }
}

/* ---- broadcast rows: every input is dense or constant along the innermost axis ---- */

bool is_rowwise(const Job& job, const Walk<kMaxInputs>& walk) {
  if (walk.inner < 128) return false;
  unsigned constant = 0;
  for (int i = 0; i < job.n_inputs; i++) {
    int64_t stride = walk.inner_stride(i);
    if (stride != 0 && stride != 1) return false;
    constant |= (stride == 0 ? 1u : 0u) << i;
  }
  return constant != (1u << job.n_inputs) - 1;
}

void run_rows(const Job& job, const Walk<kMaxInputs>& walk, int64_t begin, int64_t end) {
  unsigned scalars = 0;
  for (int i = 0; i < job.n_inputs; i++) scalars |= (walk.inner_stride(i) == 0 ? 1u : 0u) << i;
  int64_t column = begin % walk.inner;
  Cursor<kMaxInputs> cursor(walk, begin / walk.inner);
  while (begin < end) {
    int64_t n = walk.inner - column < end - begin ? walk.inner - column : end - begin;
    const void* in[kMaxInputs];
    void* out[kMaxOutputs];
    for (int i = 0; i < job.n_inputs; i++) {
      in[i] = job.in[i].base + (cursor.offset[i] + column * walk.inner_stride(i)) * job.in[i].item_size;
    }
    for (int k = 0; k < job.n_outputs; k++) out[k] = job.out[k].base + begin * job.out[k].item_size;
    job.entry.loop(in, out, n, scalars);
    begin += n;
    column = 0;
    cursor.next();
  }
}

int64_t magnitude(int64_t value) { return value < 0 ? -value : value; }

/* True if going down a column is a shorter step than going along a row, for some input. */
bool is_transposed(const Job& job, const Walk<kMaxInputs>& walk) {
  if (walk.ndim < 2 || walk.inner < kBlockColumns || walk.shape[walk.ndim - 2] < kBlockRows) return false;
  for (int i = 0; i < job.n_inputs; i++) {
    if (job.in[i].access != Access::kStrided) continue;
    int64_t down = magnitude(walk.strides[i][walk.ndim - 2]),
            along = magnitude(walk.strides[i][walk.ndim - 1]);
    if (down != 0 && down < along && along * job.in[i].item_size >= 64) return true;
  }
  return false;
}

void describe_input(Job& job, int i, const mlxc_view* view) {
  Input& input = job.in[i];
  input.dtype = view->dtype;
  input.item_size = size_of(view->dtype);
  input.base = static_cast<const char*>(view->host);
  input.convert = job.entry.in_float32 && (view->dtype == MLXC_FLOAT16 || view->dtype == MLXC_BFLOAT16);
  input.access = Access::kDense;
  if (view->flags & MLXC_VIEW_ROW_CONTIGUOUS) return;
  input.walk = make_walk<1>({view});
  if (input.walk.ndim == 1 && input.walk.strides[0][0] == 1) return;
  if (input.walk.ndim > 1 || input.walk.strides[0][0] != 0) {
    input.access = Access::kStrided;
    return;
  }
  input.access = Access::kScalar;
  job.scalars |= 1u << i;
  if (input.convert) {
    halves_to_floats(input.dtype, input.base, reinterpret_cast<float*>(input.scalar), 1);
  } else {
    std::memcpy(input.scalar, input.base, static_cast<size_t>(input.item_size));
  }
}

/* All inputs are one element repeated: compute it once. */
void run_once_and_repeat(Job& job, int64_t n) {
  Buffers buffers;
  const char* dense[kMaxInputs];
  job.scalars = 0;
  for (int i = 0; i < job.n_inputs; i++) {
    job.in[i].access = Access::kDense;
    dense[i] = job.in[i].base;
  }
  run_dense(job, buffers, dense, 0, 1);
  for (int k = 0; k < job.n_outputs; k++) {
    visit_size(job.out[k].item_size, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* result = reinterpret_cast<T*>(job.out[k].base);
      T value = result[0];
      for (int64_t i = 1; i < n; i++) result[i] = value;
    });
  }
}

int64_t grain_of(Cost cost) {
  switch (cost) {
    case Cost::kMemory: return 32 * kTile;
    case Cost::kMath: return 16 * kTile;
    default: return kTile;
  }
}

/* The loop goes over the memory as it is, to `target` or, where that is null, to the output itself. */
void run_loop(const Job& job, int64_t begin, int64_t end, char* target) {
  const void* in[kMaxInputs];
  void* out[kMaxOutputs];
  for (int i = 0; i < job.n_inputs; i++) {
    const Input& input = job.in[i];
    in[i] = input.access == Access::kScalar ? static_cast<const void*>(input.scalar)
                                            : input.base + begin * input.item_size;
  }
  for (int k = 0; k < job.n_outputs; k++) out[k] = job.out[k].base + begin * job.out[k].item_size;
  if (target) out[0] = target;
  job.entry.loop(in, out, end - begin, job.scalars);
}

void run_direct(const Job& job, int64_t begin, int64_t end) { run_loop(job, begin, end, nullptr); }

bool may_stream(const Job& job, int64_t n) {
  const Output& out = job.out[0];
  if (!kHasStreaming || job.entry.cost != Cost::kMemory || job.n_outputs != 1) return false;
  if (n * out.item_size < kStreamingBytes || reinterpret_cast<uintptr_t>(out.base) % out.item_size)
    return false;
  for (int i = 0; i < job.n_inputs; i++)
    if (job.in[i].base == out.base) return false; /* in place: the lines are read anyway */
  return true;
}

/* Small pieces are computed into a buffer that stays in the nearest cache, and streamed from there. */
void run_streaming(const Job& job, int64_t begin, int64_t end) {
  constexpr int64_t kPiece = 4096;
  alignas(kLine) char piece[kPiece];
  const int64_t size = job.out[0].item_size;
  char* base = job.out[0].base;
  const int64_t past_line = static_cast<int64_t>(reinterpret_cast<uintptr_t>(base + begin * size) % kLine);
  int64_t aligned = past_line ? begin + (kLine - past_line) / size : begin;
  if (aligned > end) aligned = end;
  run_direct(job, begin, aligned);
  const int64_t step = kPiece / size, line = kLine / size;
  int64_t at = aligned;
  while (end - at >= line) {
    int64_t n = end - at < step ? (end - at) / line * line : step;
    run_loop(job, at, at + n, piece);
    stream_lines(base + at * size, piece, n * size);
    at += n;
  }
  finish_streaming();
  if (at < end) run_direct(job, at, end);
}

}  // namespace

void halves_to_floats(mlxc_dtype dtype, const char* source, float* result, int64_t n) {
  if (dtype == MLXC_FLOAT16) {
    to_float_array(reinterpret_cast<const Half*>(source), result, n);
  } else {
    to_float_array(reinterpret_cast<const BFloat*>(source), result, n);
  }
}

void floats_to_halves(mlxc_dtype dtype, const float* source, char* result, int64_t n) {
  if (dtype == MLXC_FLOAT16) {
    from_float_array(source, reinterpret_cast<Half*>(result), n);
  } else {
    from_float_array(source, reinterpret_cast<BFloat*>(result), n);
  }
}

mlxc_error* run_tiles(const mlxc_kernel_call* call, const LoopEntry& entry) {
  int64_t n = call->outputs[0]->size;
  if (n == 0) return nullptr;
  Job job;
  job.entry = entry;
  job.n_inputs = call->n_inputs;
  job.n_outputs = call->n_outputs;
  job.scalars = 0;
  bool strided = false;
  for (int i = 0; i < job.n_inputs; i++) {
    describe_input(job, i, call->inputs[i]);
    strided |= job.in[i].access == Access::kStrided;
  }
  bool direct = true; /* the loop can go over the memory as it is */
  for (int i = 0; i < job.n_inputs; i++) direct &= !job.in[i].convert;
  for (int k = 0; k < job.n_outputs; k++) {
    const mlxc_view* view = call->outputs[k];
    bool half = view->dtype == MLXC_FLOAT16 || view->dtype == MLXC_BFLOAT16;
    job.out[k] =
        Output{entry.in_float32 && half, view->dtype, size_of(view->dtype), static_cast<char*>(view->host)};
    direct &= !job.out[k].convert;
  }
  if (job.scalars == (1u << job.n_inputs) - 1 && n > 1) {
    run_once_and_repeat(job, n);
    return nullptr;
  }
  int64_t grain = grain_of(entry.cost);
  if (direct && !strided) {
    bool streams = may_stream(job, n);
    parallel_for(n, grain, [&job, streams](int64_t begin, int64_t end) {
      if (streams)
        run_streaming(job, begin, end);
      else
        run_direct(job, begin, end);
    });
    return nullptr;
  }
  if (strided && n >= 4 * kTile) {
    const mlxc_view* views[kMaxInputs];
    for (int i = 0; i < kMaxInputs; i++) views[i] = call->inputs[i < job.n_inputs ? i : 0];
    Walk<kMaxInputs> walk = make_walk<kMaxInputs>(views);
    if (direct && is_rowwise(job, walk)) {
      parallel_for(n, grain, [&](int64_t begin, int64_t end) { run_rows(job, walk, begin, end); });
      return nullptr;
    }
    if (is_transposed(job, walk)) {
      int64_t height = walk.shape[walk.ndim - 2];
      int64_t blocks = walk.rows / height * ((height + kBlockRows - 1) / kBlockRows);
      int64_t block_grain = grain / (kBlockRows * walk.inner);
      parallel_for(blocks, block_grain > 0 ? block_grain : 1,
                   [&](int64_t begin, int64_t end) { run_matrix_rows(job, walk, begin, end); });
      return nullptr;
    }
  }
  parallel_for(n, grain, [&job](int64_t begin, int64_t end) { run_range(job, begin, end); });
  return nullptr;
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
