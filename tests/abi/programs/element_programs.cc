// Judges a backend's element-wise programs by its own kernels: random programs over arrays of many layouts
// must give the very bits that the ops give when their kernels run one by one.
//
//   element_programs BACKEND_FILE
//
// Opens the backend as the core would, with a host table of its own, so nothing of libmlxc takes part.
#include <dlfcn.h>
#include <mlxc/backend.h>
#include <mlxc/ops.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

void ok(mlxc_error* error, const char* what) {
  if (error) give_up(std::string(what) + ": " + reinterpret_cast<const char*>(error));
}

// ---- the host table: an error is its text -----------------------------------------------------------

mlxc_error* make_error(mlxc_code, const char* text) { return reinterpret_cast<mlxc_error*>(strdup(text)); }
void free_error(mlxc_error* error) { std::free(error); }
void log_nothing(int32_t, const char*) {}
int32_t count_threads() { return 2; }
void two_halves(int64_t n, int64_t, mlxc_range_fn fn, void* context) {
  std::thread other([&] { fn(context, 0, n / 2); });
  fn(context, n / 2, n);
  other.join();
}

mlxc_host make_host() {
  mlxc_host host{};
  host.struct_size = sizeof host;
  host.abi_major = MLXC_BACKEND_ABI_MAJOR;
  host.abi_minor = MLXC_BACKEND_ABI_MINOR;
  host.error_make = make_error;
  host.error_free = free_error;
  host.log = log_nothing;
  host.parallel_for = two_halves;
  host.thread_count = count_threads;
  return host;
}

// ---- arrays -----------------------------------------------------------------------------------------

int64_t size_of(mlxc_dtype dtype) {
  const int64_t sizes[MLXC_DTYPE_COUNT] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return sizes[dtype];
}

using Shape = std::vector<int64_t>;

int64_t count(const Shape& shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

Shape row_major(const Shape& shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) strides[i] = stride;
  return strides;
}

struct Array {
  mlxc_dtype dtype;
  Shape shape, strides;
  std::vector<char> bytes;
  int64_t first = 0;  // element

  mlxc_view view() {
    const bool dense = strides == row_major(shape);
    const bool repeated = std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 0; });
    mlxc_view made{};
    made.struct_size = sizeof made;
    made.host = bytes.data() + first * size_of(dtype);
    made.dtype = dtype;
    made.ndim = static_cast<int32_t>(shape.size());
    made.shape = shape.data();
    made.strides = strides.data();
    made.size = count(shape);
    if (dense) made.flags |= MLXC_VIEW_ROW_CONTIGUOUS;
    if (repeated) made.flags |= MLXC_VIEW_SCALAR;
    return made;
  }
};

Array make_dense(mlxc_dtype dtype, const Shape& shape) {
  return {dtype, shape, row_major(shape),
          std::vector<char>(static_cast<size_t>(count(shape) * size_of(dtype))), 0};
}

using Random = std::mt19937;

int pick(Random& random, int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

// Small numbers of either sign, some of them zero.
void fill(Array* array, Random& random) {
  const size_t n = array->bytes.size() / static_cast<size_t>(size_of(array->dtype));
  for (size_t i = 0; i < n; i++) {
    const float value = static_cast<float>(pick(random, 129) - 64) / 16;
    char* to = array->bytes.data() + i * static_cast<size_t>(size_of(array->dtype));
    if (array->dtype == MLXC_FLOAT32) {
      std::memcpy(to, &value, 4);
    } else if (array->dtype == MLXC_BFLOAT16) {
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      const auto high = static_cast<uint16_t>(bits >> 16);
      std::memcpy(to, &high, 2);
    } else if (array->dtype == MLXC_INT32) {
      const auto whole = static_cast<int32_t>(value);
      std::memcpy(to, &whole, 4);
    } else {
      *to = value > 0;
    }
  }
}

// An input of the shape in one of the layouts that a kernel may meet.
Array make_input(mlxc_dtype dtype, const Shape& shape, Random& random) {
  Array array = make_dense(dtype, shape);
  const size_t ndim = shape.size();
  switch (pick(random, 6)) {
    case 0:  // one element repeated
      array.strides.assign(ndim, 0);
      break;
    case 1:  // a row repeated
      for (size_t i = 0; i + 1 < ndim; i++) array.strides[i] = 0;
      break;
    case 2:  // transposed
      std::reverse(array.shape.begin(), array.shape.end());
      array.strides = row_major(array.shape);
      std::reverse(array.shape.begin(), array.shape.end());
      std::reverse(array.strides.begin(), array.strides.end());
      break;
    case 3:  // backwards
      for (int64_t& stride : array.strides) stride = -stride;
      array.first = std::max<int64_t>(count(shape) - 1, 0);
      break;
    default: break;
  }
  fill(&array, random);
  return array;
}

// ---- the backend ------------------------------------------------------------------------------------

struct Backend {
  const mlxc_backend* table = nullptr;
  mlxc_backend_device* device = nullptr;
  mlxc_backend_stream* stream = nullptr;

  explicit Backend(const char* path, const mlxc_host* host) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) give_up(dlerror());
    void* symbol = dlsym(library, "mlxc_backend_entry");
    if (!symbol) give_up(dlerror());
    mlxc_backend_entry_fn entry;
    std::memcpy(&entry, &symbol, sizeof entry);
    ok(entry(host, &table), "entry");
    if (!table->program_make || !table->program_run || !table->program_free) give_up("no programs");
    ok(table->device_open(0, &device), "device_open");
    ok(table->stream_create(device, &stream), "stream_create");
  }

  void run_kernel(int32_t op, std::vector<mlxc_view> in, mlxc_view out, const void* params,
                  size_t params_size) {
    std::vector<const mlxc_view*> inputs;
    for (const mlxc_view& view : in) inputs.push_back(&view);
    const mlxc_view* outputs[] = {&out};
    const mlxc_kernel_call call{
        sizeof call, op, static_cast<int32_t>(in.size()), 1, inputs.data(), outputs, params, params_size};
    for (size_t i = 0; i < table->n_kernels; i++) {
      mlxc_kernel row;
      std::memcpy(&row, reinterpret_cast<const char*>(table->kernels) + i * table->kernel_size, sizeof row);
      if (row.op != op || !(row.input_dtypes >> in.back().dtype & 1) || !(row.output_dtypes >> out.dtype & 1))
        continue;
      if (row.accepts && !row.accepts(&call)) continue;
      return ok(row.run(stream, &call), "a kernel");
    }
    give_up("no kernel for op " + std::to_string(op));
  }
};

// ---- programs ---------------------------------------------------------------------------------------

struct Step {
  int32_t op;
  mlxc_dtype dtype;
  std::vector<int32_t> inputs;
  mlxc_astype_params cast;
};

struct Graph {
  std::vector<mlxc_dtype> dtypes;  // of all values
  int n_inputs;
  std::vector<Step> steps;
  std::vector<int32_t> outputs;
};

constexpr mlxc_dtype kDtypes[] = {MLXC_FLOAT32, MLXC_BFLOAT16, MLXC_INT32, MLXC_BOOL};

// A value of the dtype, one of the latest if there is a choice; -1 if there is none.
int32_t find_value(const Graph& graph, mlxc_dtype dtype, Random& random) {
  std::vector<int32_t> found;
  for (size_t i = 0; i < graph.dtypes.size(); i++)
    if (graph.dtypes[i] == dtype) found.push_back(static_cast<int32_t>(i));
  if (found.empty()) return -1;
  const size_t from = found.size() > 4 && pick(random, 3) ? found.size() - 4 : 0;
  return found[from + random() % (found.size() - from)];
}

Step make_step(const Graph& graph, Random& random) {
  for (;;) {
    const mlxc_dtype dtype = kDtypes[pick(random, 4)];
    const int32_t a = find_value(graph, dtype, random), b = find_value(graph, dtype, random);
    if (a < 0) continue;
    const bool is_float = dtype == MLXC_FLOAT32 || dtype == MLXC_BFLOAT16;
    switch (pick(random, 5)) {
      case 0: {
        const int32_t ops[] = {MLXC_OP_ADD, MLXC_OP_MULTIPLY, MLXC_OP_MAXIMUM, MLXC_OP_SUBTRACT};
        return {ops[pick(random, 4)], dtype, {a, b}, {}};
      }
      case 1: {
        const int32_t ops[] = {MLXC_OP_SIN, MLXC_OP_TANH, MLXC_OP_SQUARE, MLXC_OP_NEGATIVE};
        if (is_float) return {ops[pick(random, 4)], dtype, {a}, {}};
        break;
      }
      case 2: return {MLXC_OP_LESS, MLXC_BOOL, {a, b}, {}};
      case 3: {
        const int32_t condition = find_value(graph, MLXC_BOOL, random);
        if (condition >= 0) return {MLXC_OP_WHERE, dtype, {condition, a, b}, {}};
        break;
      }
      default: {
        // A float may be too large for an integer, and then the bits depend on the loop.
        const mlxc_dtype to = is_float ? kDtypes[pick(random, 2)] : kDtypes[pick(random, 4)];
        if (to != dtype) return {MLXC_OP_ASTYPE, to, {a}, {sizeof(mlxc_astype_params), to}};
      }
    }
  }
}

Graph make_graph(Random& random) {
  Graph graph;
  graph.n_inputs = 1 + pick(random, 5);
  for (int i = 0; i < graph.n_inputs; i++) graph.dtypes.push_back(kDtypes[pick(random, 4)]);
  const int n_steps = 1 + pick(random, 24);
  for (int k = 0; k < n_steps; k++) {
    graph.steps.push_back(make_step(graph, random));
    graph.dtypes.push_back(graph.steps.back().dtype);
  }
  const auto last = static_cast<int32_t>(graph.dtypes.size()) - 1;
  graph.outputs = {last};
  if (n_steps > 3 && pick(random, 2)) graph.outputs.push_back(last - 2);
  return graph;
}

mlxc_backend_program* compile(const Backend& backend, const Graph& graph) {
  std::vector<mlxc_program_step> steps;
  for (const Step& step : graph.steps)
    steps.push_back({sizeof(mlxc_program_step), step.op, step.dtype, static_cast<int32_t>(step.inputs.size()),
                     step.inputs.data(), step.op == MLXC_OP_ASTYPE ? &step.cast : nullptr,
                     step.op == MLXC_OP_ASTYPE ? sizeof step.cast : 0});
  std::vector<const mlxc_program_step*> rows;
  for (const mlxc_program_step& step : steps) rows.push_back(&step);
  const mlxc_program_source source{sizeof source,       graph.n_inputs,
                                   graph.dtypes.data(), static_cast<int32_t>(rows.size()),
                                   rows.data(),         static_cast<int32_t>(graph.outputs.size()),
                                   graph.outputs.data()};
  mlxc_backend_program* program = nullptr;
  ok(backend.table->program_make(backend.device, &source, &program), "program_make");
  if (!program) give_up("the backend refuses the program");
  return program;
}

void check_graph(Backend& backend, unsigned seed) {
  Random random(seed);
  const Graph graph = make_graph(random);
  const Shape shapes[] = {{}, {1}, {5}, {3, 7}, {33, 130}, {4, 9, 31}, {300, 700}, {2, 0, 3}};
  const Shape& shape = shapes[pick(random, 8)];
  std::vector<Array> values;
  for (int i = 0; i < graph.n_inputs; i++)
    values.push_back(make_input(graph.dtypes[static_cast<size_t>(i)], shape, random));
  for (const Step& step : graph.steps) {
    Array made = make_dense(step.dtype, shape);
    std::vector<mlxc_view> in;
    for (int32_t input : step.inputs) in.push_back(values[static_cast<size_t>(input)].view());
    const bool cast = step.op == MLXC_OP_ASTYPE;
    backend.run_kernel(step.op, in, made.view(), cast ? &step.cast : nullptr, cast ? sizeof step.cast : 0);
    values.push_back(std::move(made));
  }
  mlxc_backend_program* program = compile(backend, graph);
  std::vector<mlxc_view> in, out;
  std::vector<Array> results;
  for (int32_t index : graph.outputs)
    results.push_back(make_dense(graph.dtypes[static_cast<size_t>(index)], shape));
  for (int i = 0; i < graph.n_inputs; i++) in.push_back(values[static_cast<size_t>(i)].view());
  for (Array& result : results) out.push_back(result.view());
  std::vector<const mlxc_view*> inputs, outputs;
  for (const mlxc_view& view : in) inputs.push_back(&view);
  for (const mlxc_view& view : out) outputs.push_back(&view);
  ok(backend.table->program_run(backend.stream, program, inputs.data(), outputs.data()), "program_run");
  backend.table->program_free(backend.device, program);
  for (size_t i = 0; i < results.size(); i++)
    if (results[i].bytes != values[static_cast<size_t>(graph.outputs[i])].bytes)
      give_up("seed " + std::to_string(seed) + ": output " + std::to_string(i) +
              " differs from its kernels'");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) give_up("usage: element_programs BACKEND_FILE");
  const mlxc_host host = make_host();
  Backend backend(argv[1], &host);
  for (unsigned seed = 0; seed < 1000; seed++) check_graph(backend, seed);
  backend.table->stream_destroy(backend.stream);
  std::printf("1000 random programs: bit for bit what their kernels give\n");
  return 0;
}
