// Records and runs user kernels. The core runs the op: it looks for the compiled kernel, or has the backend
// compile it, and calls it over views.
//
// Rule: a kernel is compiled once for each device, dtypes, numbers of axes and constants, also when two
// threads ask at the same time; a source that does not compile is tried again.
#include "core/ops/user_kernel.h"

#include "core/device.h"
#include "core/execute.h"
#include "core/ops/common.h"
#include "core/registry.h"
#include "core/value.h"

namespace mlxc {

namespace {

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  for (const std::string& text : texts) result.push_back(text.c_str());
  return result;
}

// What a compiled kernel depends on besides the source.
std::string make_key(const Node& node, const std::vector<UserKernel::Constant>& constants) {
  std::string key;
  for (uint32_t i = 0; i < node.n_inputs; i++) {
    const Node& input = *node.inputs_data()[i];
    key += cat(int{input.dtype}, ".", int{input.ndim}, " ");
  }
  for (const MultiResult::Result& result : node.multi->results)
    key += cat(result.dtype, ".", result.shape.n, " ");
  for (const UserKernel::Constant& constant : constants)
    key += cat(constant.name, "=", constant.value.kind, ":", constant.value.value, " ");
  return key;
}

mlxc_backend_kernel* compile(const UserKernel& kernel, const UserKernel::Source& source, Device* device,
                             const Node& node, const std::vector<UserKernel::Constant>& constants) {
  const std::vector<const char*> input_names = pointers(kernel.input_names),
                                 output_names = pointers(kernel.output_names);
  std::vector<mlxc_dtype> input_dtypes, output_dtypes;
  std::vector<int32_t> input_ndims, output_ndims;
  for (uint32_t i = 0; i < node.n_inputs; i++) {
    input_dtypes.push_back(node.inputs_data()[i]->dtype);
    input_ndims.push_back(node.inputs_data()[i]->ndim);
  }
  for (const MultiResult::Result& result : node.multi->results) {
    output_dtypes.push_back(result.dtype);
    output_ndims.push_back(result.shape.n);
  }
  std::vector<const char*> constant_names;
  std::vector<mlxc_constant> values;
  for (const UserKernel::Constant& constant : constants) {
    constant_names.push_back(constant.name.c_str());
    values.push_back(constant.value);
  }
  const mlxc_user_kernel_source text{sizeof(mlxc_user_kernel_source),
                                     kernel.name.c_str(),
                                     source.header.c_str(),
                                     source.body.c_str(),
                                     kernel.options.c_str(),
                                     static_cast<int32_t>(input_names.size()),
                                     input_names.data(),
                                     input_dtypes.data(),
                                     input_ndims.data(),
                                     static_cast<int32_t>(output_names.size()),
                                     output_names.data(),
                                     output_dtypes.data(),
                                     output_ndims.data(),
                                     static_cast<int32_t>(constants.size()),
                                     constant_names.data(),
                                     values.data(),
                                     kernel.atomic_outputs};
  mlxc_backend_kernel* made = nullptr;
  throw_error(device->backend->table.user_kernel_make(device->handle, &text, &made));
  return made;
}

mlxc_error* fill_outputs(const mlxc_backend& table, mlxc_backend_stream* stream, double value,
                         const mlxc_view* const* outputs, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const mlxc_view& view = *outputs[i];
    alignas(16) char pattern[16];
    store_value(pattern, view.dtype, real_value(value));
    mlxc_error* error =
        table.fill(stream, view.memory, view.offset, pattern, dtype_size(view.dtype), view.size);
    if (error) return error;
  }
  return nullptr;
}

}  // namespace

UserKernel::~UserKernel() {
  for (const auto& [key, kernel] : compiled_)
    key.first->backend->table.user_kernel_free(key.first->handle, kernel);
}

const UserKernel::Source& UserKernel::source_for(Device* device) const {
  std::string there;
  for (const Source& source : sources) {
    if (source.backend == device->backend->name) {
      if (!device->backend->table.user_kernel_make)
        fail(MLXC_ERROR_UNSUPPORTED, name, ": the ", device->backend->name, " backend runs no user kernels");
      return source;
    }
    there += cat(there.empty() ? "" : ", ", source.backend);
  }
  fail(MLXC_ERROR_UNSUPPORTED, name, ": the user kernel has no source for the ", device->backend->name,
       " backend, which the stream belongs to; it has one for ", there.empty() ? "none" : there);
}

mlxc_backend_kernel* UserKernel::compiled_for(Device* device, const Node& node,
                                              const std::vector<Constant>& constants) {
  std::lock_guard hold(lock_);
  const std::pair key(device, make_key(node, constants));
  auto found = compiled_.find(key);
  if (found == compiled_.end())
    found = compiled_.emplace(key, compile(*this, source_for(device), device, node, constants)).first;
  return found->second;
}

std::vector<Array> call_user_kernel(std::shared_ptr<UserKernelCall> call, std::span<const Array> inputs,
                                    std::span<const OutSpec> outputs) {
  call->kernel->source_for(current_stream()->device);
  for (const OutSpec& output : outputs)
    checked_size(call->kernel->name.c_str(), output.shape.span(), dtype_size(output.dtype));
  return record_run(MLXC_OP_USER_KERNEL, inputs, outputs, std::move(call));
}

// What a source computes is not known. A gradient of zero would be wrong without a word.
[[noreturn]] static void refuse(const Attachment* attachment, const char* what) {
  fail(MLXC_ERROR_VALUE, static_cast<const UserKernelCall*>(attachment)->kernel->name,
       ": a user kernel has no ", what, " of its own; custom_function gives it one");
}

void vjp_user_kernel(const Vjp& vjp, Array*) { refuse(vjp.attachment, "gradient"); }
void jvp_user_kernel(const Jvp& jvp, Array*) { refuse(jvp.attachment, "derivative"); }
void vmap_user_kernel(const Vmap& vmap, Array*) { refuse(vmap.attachment, "batching rule"); }

void run_user_kernel(Node* node) {
  auto& call = static_cast<UserKernelCall&>(*node->multi->attachment);
  Device* device = node->stream->device;
  mlxc_backend_kernel* compiled = call.kernel->compiled_for(device, *node, call.constants);
  const mlxc_backend& table = device->backend->table;
  const size_t n_outputs = node->multi->results.size();
  const uint32_t layouts = call.kernel->any_layout ? MLXC_LAYOUT_ANY : MLXC_LAYOUT_CONTIGUOUS;
  run_over_views(node,
                 {false, layouts,
                  [&](mlxc_backend_stream* stream, const mlxc_view* const* in, const mlxc_view* const* out) {
                    mlxc_error* error =
                        call.init ? fill_outputs(table, stream, *call.init, out, n_outputs) : nullptr;
                    return error ? error : table.user_kernel_run(stream, compiled, &call.launch, in, out);
                  }});
}

}  // namespace mlxc
