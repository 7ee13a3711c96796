// A C++ program that wraps the C ABI in a few lines of RAII and uses what an embedder needs: ops on
// chosen streams, the generic apply, vjp, jvp, and a gradient of a gradient.
//
// Shows that the headers are valid C++20, that ownership maps onto value semantics, and that closures
// of C++ can be differentiated. Rule it keeps: no exception crosses the C border.
#include <mlxc/mlxc.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

class Error : public std::runtime_error {
 public:
  Error(mlxc_code code, const std::string& text) : std::runtime_error(text), code_(code) {}
  mlxc_code code() const { return code_; }

 private:
  mlxc_code code_;
};

void check(mlxc_error* error) {
  if (!error) return;
  Error thrown(mlxc_error_code(error), mlxc_error_text(error));
  mlxc_error_free(error);
  throw thrown;
}

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(std::string("not true: ") + what);
}
#define REQUIRE(condition) require((condition), #condition)

// One reference to an array; copies share it.
class Array {
 public:
  Array() = default;
  explicit Array(mlxc_array* owned) : handle_(owned) {}
  Array(float value) { check(mlxc_array_from_double(double{value}, MLXC_FLOAT32, &handle_)); }
  Array(std::initializer_list<float> values) {
    const int64_t shape[1] = {static_cast<int64_t>(values.size())};
    check(mlxc_array_from_host(values.begin(), MLXC_FLOAT32, 1, shape, &handle_));
  }
  Array(const Array& other) : handle_(other.handle_ ? mlxc_array_retain(other.handle_) : nullptr) {}
  Array(Array&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Array& operator=(Array other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Array() { mlxc_array_release(handle_); }

  mlxc_array* handle() const { return handle_; }
  double item() const {
    double value = 0;
    check(mlxc_array_item_double(handle_, &value));
    return value;
  }
  std::vector<float> values() const {
    std::vector<float> result(static_cast<size_t>(mlxc_array_size(handle_)));
    check(mlxc_array_to_host(handle_, result.data(), result.size() * sizeof(float)));
    return result;
  }

 private:
  mlxc_array* handle_ = nullptr;
};

// Any op by its number, with one output.
Array apply(int32_t op, std::initializer_list<Array> inputs, const void* params = nullptr,
            mlxc_stream* stream = nullptr) {
  std::vector<mlxc_array*> handles;
  for (const Array& input : inputs) handles.push_back(input.handle());
  mlxc_array* out = nullptr;
  check(mlxc_apply(op, handles.data(), handles.size(), params, stream, &out, 1));
  return Array(out);
}

Array operator+(const Array& a, const Array& b) { return apply(MLXC_OP_ADD, {a, b}); }
Array operator*(const Array& a, const Array& b) { return apply(MLXC_OP_MULTIPLY, {a, b}); }
Array sin(const Array& a) { return apply(MLXC_OP_SIN, {a}); }
Array sum(const Array& a) {
  mlxc_array* out = nullptr;
  check(mlxc_sum(a.handle(), nullptr, -1, 0, nullptr, &out));
  return Array(out);
}

// ---- functions of arrays -----------------------------------------------------------------------

using Arrays = std::vector<Array>;
using Function = std::function<Arrays(const Arrays&)>;

class List {
 public:
  List() : handle_(mlxc_arrays_new()) {}
  ~List() { mlxc_arrays_free(handle_); }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  mlxc_arrays* handle() { return handle_; }
  Arrays arrays() const {
    Arrays result;
    for (size_t i = 0; i < mlxc_arrays_count(handle_); i++)
      result.emplace_back(mlxc_array_retain(mlxc_arrays_get(handle_, i)));
    return result;
  }

 private:
  mlxc_arrays* handle_;
};

// What the library calls: exceptions become error objects here.
mlxc_error* call_function(void* context, mlxc_array* const* inputs, size_t count, mlxc_arrays* outputs) {
  try {
    Arrays arguments;
    for (size_t i = 0; i < count; i++) arguments.emplace_back(mlxc_array_retain(inputs[i]));
    for (const Array& result : (*static_cast<const Function*>(context))(arguments))
      check(mlxc_arrays_append(outputs, result.handle()));
    return nullptr;
  } catch (const Error& error) {
    return mlxc_error_make(error.code(), error.what());
  } catch (const std::exception& error) {
    return mlxc_error_make(MLXC_ERROR_RUNTIME, error.what());
  }
}

mlxc_closure closure_of(const Function& fn) {
  return {sizeof(mlxc_closure), call_function, const_cast<Function*>(&fn)};
}

std::vector<mlxc_array*> handles_of(const Arrays& arrays) {
  std::vector<mlxc_array*> handles;
  for (const Array& array : arrays) handles.push_back(array.handle());
  return handles;
}

Arrays gradient(const Function& fn, const Arrays& inputs) {
  List result;
  const mlxc_closure closure = closure_of(fn);
  const auto handles = handles_of(inputs);
  check(mlxc_grad(&closure, handles.data(), handles.size(), nullptr, 0, result.handle()));
  return result.arrays();
}

std::pair<Arrays, Arrays> vjp(const Function& fn, const Arrays& primals, const Arrays& cotangents) {
  List outputs, vjps;
  const mlxc_closure closure = closure_of(fn);
  const auto in = handles_of(primals), seeds = handles_of(cotangents);
  check(
      mlxc_vjp(&closure, in.data(), in.size(), seeds.data(), seeds.size(), outputs.handle(), vjps.handle()));
  return {outputs.arrays(), vjps.arrays()};
}

std::pair<Arrays, Arrays> jvp(const Function& fn, const Arrays& primals, const Arrays& tangents) {
  List outputs, jvps;
  const mlxc_closure closure = closure_of(fn);
  const auto in = handles_of(primals), along = handles_of(tangents);
  check(mlxc_jvp(&closure, in.data(), along.data(), in.size(), outputs.handle(), jvps.handle()));
  return {outputs.arrays(), jvps.arrays()};
}

bool close(std::span<const float> got, std::initializer_list<double> expected) {
  if (got.size() != expected.size()) return false;
  size_t i = 0;
  for (double value : expected)
    if (std::abs(double{got[i++]} - value) > 1e-5 * (1 + std::abs(value))) return false;
  return true;
}

// ---- what is tried -----------------------------------------------------------------------------

const Function sine_times = [](const Arrays& in) { return Arrays{sin(in[0]) * in[1]}; };

void try_vjp() {
  const auto [outputs, vjps] = vjp(sine_times, {{0.5f, 1.0f}, {2.0f, 3.0f}}, {{1.0f, 10.0f}});
  REQUIRE(close(outputs[0].values(), {2 * std::sin(0.5), 3 * std::sin(1.0)}));
  REQUIRE(close(vjps[0].values(), {2 * std::cos(0.5), 30 * std::cos(1.0)}));
  REQUIRE(close(vjps[1].values(), {std::sin(0.5), 10 * std::sin(1.0)}));
}

void try_jvp() {
  const auto [outputs, jvps] = jvp(sine_times, {{0.5f, 1.0f}, {2.0f, 3.0f}}, {{1.0f, 0.0f}, {0.0f, 5.0f}});
  REQUIRE(close(outputs[0].values(), {2 * std::sin(0.5), 3 * std::sin(1.0)}));
  REQUIRE(close(jvps[0].values(), {2 * std::cos(0.5), 5 * std::sin(1.0)}));
}

// d2/dx2 of sum(x * x * x) is 6 x; the third derivative is 6.
void try_higher_orders() {
  const Function cube = [](const Arrays& in) { return Arrays{sum(in[0] * in[0] * in[0])}; };
  const Function slope = [&](const Arrays& in) { return Arrays{sum(gradient(cube, in)[0])}; };
  const Function bend = [&](const Arrays& in) { return Arrays{sum(gradient(slope, in)[0])}; };
  const Array x{1.0f, -2.0f};
  REQUIRE(close(gradient(cube, {x})[0].values(), {3, 12}));
  REQUIRE(close(gradient(slope, {x})[0].values(), {6, -12}));
  REQUIRE(close(gradient(bend, {x})[0].values(), {6, 6}));
  // jvp of a gradient: the Hessian times a vector.
  const Function gradient_of_cube = [&](const Arrays& in) { return gradient(cube, in); };
  REQUIRE(close(jvp(gradient_of_cube, {x}, {{1.0f, 10.0f}}).second[0].values(), {6, -120}));
}

void try_apply_with_parameters() {
  const mlxc_reshape_params params = {sizeof(params), {2, {2, 3}}};
  const Array matrix = apply(MLXC_OP_RESHAPE, {{1, 2, 3, 4, 5, 6}}, &params);
  const mlxc_transpose_params swap = {sizeof(swap), {2, {1, 0}}};
  REQUIRE(close(apply(MLXC_OP_TRANSPOSE, {matrix}, &swap).values(), {1, 4, 2, 5, 3, 6}));
  mlxc_array* parts[2] = {nullptr, nullptr};
  const Array seven(7), two(2);
  mlxc_array* inputs[2] = {seven.handle(), two.handle()};
  check(mlxc_apply(MLXC_OP_DIVMOD, inputs, 2, nullptr, nullptr, parts, 2));
  const Array quotient(parts[0]), remainder(parts[1]);
  REQUIRE(quotient.item() == 3 && remainder.item() == 1);
}

void try_streams() {
  mlxc_stream* streams[2] = {nullptr, nullptr};
  mlxc_stream* before = nullptr;
  for (auto& stream : streams) check(mlxc_stream_new(mlxc_default_device(), &stream));
  REQUIRE(mlxc_stream_index(streams[0]) != mlxc_stream_index(streams[1]));
  Array value(1);
  for (int i = 0; i < 20; i++) value = apply(MLXC_OP_ADD, {value, value}, nullptr, streams[i % 2]);
  mlxc_array* handle = value.handle();
  check(mlxc_async_eval(&handle, 1));
  int32_t done = 0;
  check(mlxc_array_wait(handle, -1, &done));
  REQUIRE(done == 1 && value.item() == 1 << 20);
  check(mlxc_set_thread_stream(streams[1], &before));
  const Array on_second = value + value;
  REQUIRE(mlxc_array_stream(on_second.handle()) == streams[1]);
  check(mlxc_set_thread_stream(before, nullptr));
  for (auto* stream : streams) check(mlxc_synchronize(stream));
}

void try_errors() {
  mlxc_code code = MLXC_OK;
  std::string text;
  try {
    gradient([](const Arrays& in) { return Arrays{in[0] + Array{1.0f, 2.0f}}; }, {{1.0f, 2.0f, 3.0f}});
  } catch (const Error& error) {
    code = error.code();
    text = error.what();
  }
  REQUIRE(code == MLXC_ERROR_VALUE);
  REQUIRE(text.find("add") != std::string::npos && text.find("(3") != std::string::npos);
}

// Host memory is used without a copy and handed back when the last array is gone.
void try_wrapping() {
  float data[4] = {1, 2, 3, 4};
  int released = 0;
  const int64_t shape[2] = {2, 2}, columns[2] = {4, 8};
  {
    mlxc_array* handle = nullptr;
    check(mlxc_array_wrap_host(
        data, MLXC_FLOAT32, 2, shape, columns, [](void* count) { ++*static_cast<int*>(count); }, &released,
        &handle));
    const Array wrapped(handle);
    REQUIRE(close(wrapped.values(), {1, 3, 2, 4}));
    REQUIRE(close((wrapped + wrapped).values(), {2, 6, 4, 8}));
    REQUIRE(released == 0);
  }
  REQUIRE(released == 1);
}

}  // namespace

int main() {
  try {
    check(mlxc_init());
    REQUIRE(mlxc_has_feature("grad") && mlxc_has_feature("jvp") && !mlxc_has_feature("no such feature"));
    try_vjp();
    try_jvp();
    try_higher_orders();
    try_apply_with_parameters();
    try_streams();
    try_errors();
    try_wrapping();
    REQUIRE(mlxc_memory_active() == 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::printf("vjp, jvp, three orders of gradients, streams, wrapped memory: mlxc %s\n", mlxc_version());
  return 0;
}
