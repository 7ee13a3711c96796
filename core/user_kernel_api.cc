// The user kernels of the C ABI: checks what was handed over, copies it, and records calls.
#include <cctype>
#include <set>
#include <string>

#include "core/ops/common.h"
#include "core/ops/user_kernel.h"
#include "mlxc/kernel.h"

struct mlxc_user_kernel {
  std::shared_ptr<mlxc::UserKernel> shared;
};

using namespace mlxc;

namespace {

void check_identifier(const std::string& what, const char* text) {
  if (!text) fail(MLXC_ERROR_VALUE, what, " is NULL");
  const std::string name = text;
  bool good = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]));
  for (unsigned char c : name) good = good && (std::isalnum(c) || c == '_');
  if (!good) fail(MLXC_ERROR_VALUE, what, " is \"", name, "\", which is no identifier");
}

std::vector<std::string> take_names(const char* kernel, const char* what, const char* const* names,
                                    size_t count, std::set<std::string>* taken) {
  if (count && !names) fail(MLXC_ERROR_VALUE, kernel, ": the ", what, " names are NULL");
  if (count > 1000) fail(MLXC_ERROR_VALUE, kernel, ": ", count, " ", what, "s are too many");
  std::vector<std::string> result;
  for (size_t i = 0; i < count; i++) {
    check_identifier(cat(kernel, ": the name of ", what, " ", i), names[i]);
    if (!taken->insert(names[i]).second)
      fail(MLXC_ERROR_VALUE, kernel, ": the name ", names[i], " is given twice");
    result.push_back(names[i]);
  }
  return result;
}

std::shared_ptr<UserKernel> make_kernel(const mlxc_user_kernel_desc& desc) {
  check_identifier("user kernel: its name", desc.name);
  auto kernel = std::make_shared<UserKernel>();
  kernel->name = desc.name;
  std::set<std::string> taken;
  kernel->input_names = take_names(desc.name, "input", desc.input_names, desc.n_inputs, &taken);
  kernel->output_names = take_names(desc.name, "output", desc.output_names, desc.n_outputs, &taken);
  if (kernel->output_names.empty()) fail(MLXC_ERROR_VALUE, desc.name, ": a user kernel needs an output");
  if (!desc.n_sources || !desc.backends || !desc.bodies)
    fail(MLXC_ERROR_VALUE, desc.name, ": a user kernel needs a source");
  for (size_t i = 0; i < desc.n_sources; i++) {
    if (!desc.backends[i] || !desc.bodies[i]) fail(MLXC_ERROR_VALUE, desc.name, ": source ", i, " is NULL");
    const char* header = desc.headers ? desc.headers[i] : nullptr;
    kernel->sources.push_back({desc.backends[i], desc.bodies[i], header ? header : ""});
  }
  kernel->options = desc.options ? desc.options : "";
  kernel->any_layout = desc.any_layout != 0;
  kernel->atomic_outputs = desc.atomic_outputs != 0;
  return kernel;
}

void take_constants(UserKernelCall* made, const mlxc_user_kernel_call_desc& call) {
  const char* name = made->kernel->name.c_str();
  if (call.n_constants && !call.constants) fail(MLXC_ERROR_VALUE, name, ": the constants are NULL");
  std::set<std::string> taken(made->kernel->input_names.begin(), made->kernel->input_names.end());
  taken.insert(made->kernel->output_names.begin(), made->kernel->output_names.end());
  const auto names = take_names(name, "constant", call.constant_names, call.n_constants, &taken);
  for (size_t i = 0; i < names.size(); i++) {
    const mlxc_constant& value = call.constants[i];
    const bool good =
        value.kind == MLXC_CONSTANT_INT || value.kind == MLXC_CONSTANT_BOOL ||
        (value.kind == MLXC_CONSTANT_DTYPE && value.value >= 0 && value.value < MLXC_DTYPE_COUNT);
    if (!good) fail(MLXC_ERROR_VALUE, name, ": the constant ", names[i], " is of no known kind or dtype");
    made->constants.push_back({names[i], value});
  }
}

std::vector<OutSpec> take_outputs(const UserKernel& kernel, const mlxc_user_kernel_call_desc& call) {
  if (!call.output_dtypes || !call.output_ndims || !call.output_shapes)
    fail(MLXC_ERROR_VALUE, kernel.name, ": the outputs' dtypes or shapes are NULL");
  std::vector<OutSpec> outputs;
  for (size_t i = 0; i < kernel.output_names.size(); i++) {
    const int32_t ndim = call.output_ndims[i];
    const mlxc_dtype dtype = call.output_dtypes[i];
    if (dtype < 0 || dtype >= MLXC_DTYPE_COUNT)
      fail(MLXC_ERROR_VALUE, kernel.name, ": output ", i, " has the unknown dtype ", dtype);
    if (ndim < 0 || ndim > MLXC_MAX_NDIM || (ndim && !call.output_shapes[i]))
      fail(MLXC_ERROR_VALUE, kernel.name, ": output ", i, " has ", ndim, " axes; 0 to ", MLXC_MAX_NDIM,
           " are possible");
    outputs.push_back({dtype, Dims(std::span(call.output_shapes[i], static_cast<size_t>(ndim)))});
  }
  return outputs;
}

}  // namespace

extern "C" {

mlxc_error* mlxc_user_kernel_new(const mlxc_user_kernel_desc* desc, mlxc_user_kernel** out) {
  return guard([&] {
    if (!desc || desc->struct_size < sizeof(mlxc_user_kernel_desc) || !out)
      fail(MLXC_ERROR_VALUE, "mlxc_user_kernel_new: an argument is NULL or its struct_size is not set");
    *out = new mlxc_user_kernel{make_kernel(*desc)};
  });
}

void mlxc_user_kernel_free(mlxc_user_kernel* kernel) { delete kernel; }

mlxc_error* mlxc_user_kernel_call(mlxc_user_kernel* kernel, mlxc_array* const* inputs, size_t n_inputs,
                                  const mlxc_user_kernel_call_desc* call, mlxc_stream* stream,
                                  mlxc_arrays* outputs) {
  return guard([&] {
    if (!kernel || !call || call->struct_size < sizeof(mlxc_user_kernel_call_desc) || !outputs)
      fail(MLXC_ERROR_VALUE, "mlxc_user_kernel_call: an argument is NULL or its struct_size is not set");
    const UserKernel& shared = *kernel->shared;
    if (n_inputs != shared.input_names.size())
      fail(MLXC_ERROR_VALUE, shared.name, ": takes ", shared.input_names.size(), " input(s), got ", n_inputs);
    if (n_inputs && !inputs) fail(MLXC_ERROR_VALUE, shared.name, ": the inputs are NULL");
    std::vector<Array> arrays;
    for (size_t i = 0; i < n_inputs; i++) {
      if (!inputs[i]) fail(MLXC_ERROR_VALUE, shared.name, ": input ", i, " is NULL");
      arrays.push_back(Array::borrow(inputs[i]));
    }
    auto made = std::make_shared<UserKernelCall>();
    made->kernel = kernel->shared;
    made->launch = {sizeof(mlxc_user_kernel_launch), {}, {}, call->shared_memory};
    for (int i = 0; i < 3; i++) {
      if (!call->grid[i] || !call->threadgroup[i])
        fail(MLXC_ERROR_VALUE, shared.name, ": the grid (", call->grid[0], ", ", call->grid[1], ", ",
             call->grid[2], ") and the threadgroup (", call->threadgroup[0], ", ", call->threadgroup[1], ", ",
             call->threadgroup[2], ") need sizes of at least 1");
      made->launch.grid[i] = call->grid[i];
      made->launch.threadgroup[i] = call->threadgroup[i];
    }
    if (call->init) made->init = *call->init;
    take_constants(made.get(), *call);
    const std::vector<OutSpec> specs = take_outputs(shared, *call);
    std::optional<StreamScope> scope;
    if (stream) scope.emplace(reinterpret_cast<Stream*>(stream));
    for (const Array& array : call_user_kernel(made, arrays, specs))
      throw_error(mlxc_arrays_append(outputs, array.node()));
  });
}

}  // extern "C"
