// Files of programs in the C ABI: writing, reading, and calling the trace that fits.
#include <algorithm>
#include <memory>
#include <optional>

#include "core/closure.h"
#include "core/program_file.h"
#include "core/program_handle.h"
#include "core/record.h"

struct mlxc_program_file {
  mlxc::ProgramFile file;
  std::vector<mlxc_program> handles;
  std::vector<std::vector<const char*>> keywords;
};

using namespace mlxc;

namespace {

std::vector<NamedTrace> take_traces(const char* name, const mlxc_program_trace* traces, size_t n_traces) {
  if (n_traces && !traces) fail(MLXC_ERROR_VALUE, name, ": traces is NULL");
  std::vector<NamedTrace> taken;
  for (size_t i = 0; i < n_traces; i++) {
    const mlxc_program_trace& given = traces[i];
    if (given.struct_size < sizeof(mlxc_program_trace) || !given.program)
      fail(MLXC_ERROR_VALUE, name, ": trace ", i, " has no program, or its struct_size is not set");
    NamedTrace trace;
    trace.program = given.program->program;
    trace.n_positional = given.n_positional;
    const size_t n_inputs = trace.program->n_inputs;
    if (given.n_positional > n_inputs || (given.n_positional < n_inputs && !given.keywords))
      fail(MLXC_ERROR_VALUE, name, ": trace ", i, " has ", n_inputs, " inputs, of which ", given.n_positional,
           " come by place; the others need names");
    for (size_t k = 0; k < n_inputs - given.n_positional; k++) {
      if (!given.keywords[k]) fail(MLXC_ERROR_VALUE, name, ": a name of trace ", i, " is NULL");
      trace.keywords.push_back(given.keywords[k]);
      if (k && trace.keywords[k] <= trace.keywords[k - 1])
        fail(MLXC_ERROR_VALUE, name, ": the names of trace ", i, " are not in ascending order");
    }
    taken.push_back(std::move(trace));
  }
  return taken;
}

mlxc_program_file* make_file(ProgramFile file) {
  auto made = std::make_unique<mlxc_program_file>();
  made->file = std::move(file);
  made->handles = std::vector<mlxc_program>(made->file.traces.size());
  for (size_t i = 0; i < made->handles.size(); i++) {
    const NamedTrace& trace = made->file.traces[i];
    made->handles[i].program = trace.program;
    made->keywords.emplace_back();
    for (const std::string& keyword : trace.keywords) made->keywords.back().push_back(keyword.c_str());
  }
  return made.release();
}

bool fits(const Program& program, std::span<const Array> inputs) {
  for (size_t i = 0; i < inputs.size(); i++) {
    const Program::Slot& slot = program.slots[i];
    if (inputs[i].dtype() != slot.dtype || inputs[i].ndim() != slot.shape.n) return false;
    if (!program.shapeless && inputs[i].dims() != slot.shape) return false;
  }
  return true;
}

template <class Describe>
std::string list_inputs(size_t n_positional, const std::vector<std::string>& keywords,
                        const Describe& describe) {
  std::string text = "(";
  for (size_t i = 0; i < n_positional + keywords.size(); i++)
    text += cat(i ? ", " : "", i < n_positional ? "" : keywords[i - n_positional] + "=", describe(i));
  return text + ")";
}

std::string describe_spec(mlxc_dtype dtype, std::span<const int64_t> shape) {
  return cat(dtype_name(dtype), shape_text(shape));
}

const NamedTrace& find_trace(const ProgramFile& file, size_t n_positional,
                             const std::vector<std::string>& keywords, std::span<const Array> inputs) {
  for (const NamedTrace& trace : file.traces)
    if (trace.n_positional == n_positional && trace.keywords == keywords && fits(*trace.program, inputs))
      return trace;
  std::string text =
      cat("program file: no trace takes ",
          list_inputs(n_positional, keywords,
                      [&](size_t i) { return describe_spec(inputs[i].dtype(), inputs[i].shape()); }),
          "; there are");
  for (const NamedTrace& trace : file.traces)
    text += "\n  " + list_inputs(trace.n_positional, trace.keywords, [&](size_t i) {
              const Program::Slot& slot = trace.program->slots[i];
              return describe_spec(slot.dtype, slot.shape.span()) +
                     (trace.program->shapeless ? " or like it" : "");
            });
  fail(MLXC_ERROR_VALUE, text);
}

}  // namespace

extern "C" {

mlxc_error* mlxc_program_save(const char* path, const mlxc_program_trace* traces, size_t n_traces,
                              const char* metadata) {
  return guard([&] {
    if (!path) fail(MLXC_ERROR_VALUE, "mlxc_program_save: path is NULL");
    const std::vector<NamedTrace> taken = take_traces("mlxc_program_save", traces, n_traces);
    replace_file(path, [&](const std::function<void(const void*, size_t)>& put) {
      write_program_file(taken, metadata ? metadata : "", put);
    });
  });
}

mlxc_error* mlxc_program_write(mlxc_write_fn write, void* context, const mlxc_program_trace* traces,
                               size_t n_traces, const char* metadata) {
  return guard([&] {
    if (!write) fail(MLXC_ERROR_VALUE, "mlxc_program_write: write is NULL");
    write_program_file(take_traces("mlxc_program_write", traces, n_traces), metadata ? metadata : "",
                       [&](const void* data, size_t size) { throw_error(write(context, data, size)); });
  });
}

mlxc_error* mlxc_program_load(const char* path, mlxc_program_file** out) {
  return guard([&] {
    if (!path || !out) fail(MLXC_ERROR_VALUE, "mlxc_program_load: path or out is NULL");
    const FileBytes bytes = read_file(path);
    *out = make_file(read_program_file(bytes.data.get(), bytes.size, bytes.data));
  });
}

mlxc_error* mlxc_program_read(const void* data, size_t size, mlxc_program_file** out) {
  return guard([&] {
    if (!data || !out) fail(MLXC_ERROR_VALUE, "mlxc_program_read: data or out is NULL");
    *out = make_file(read_program_file(static_cast<const char*>(data), size, nullptr));
  });
}

void mlxc_program_file_free(mlxc_program_file* file) { delete file; }

size_t mlxc_program_file_count(const mlxc_program_file* file) { return file ? file->handles.size() : 0; }

const char* mlxc_program_file_metadata(const mlxc_program_file* file) {
  return file ? file->file.metadata.c_str() : "";
}

mlxc_error* mlxc_program_file_trace(const mlxc_program_file* file, size_t index, mlxc_program_trace* trace) {
  return guard([&] {
    if (!file || !trace || trace->struct_size < sizeof(mlxc_program_trace))
      fail(MLXC_ERROR_VALUE, "mlxc_program_file_trace: file or trace is NULL, or its struct_size is not set");
    if (index >= file->handles.size())
      fail(MLXC_ERROR_INDEX, "mlxc_program_file_trace: there are ", file->handles.size(), " traces, no ",
           index);
    *trace = {sizeof(mlxc_program_trace), &file->handles[index], file->file.traces[index].n_positional,
              file->keywords[index].data()};
  });
}

mlxc_error* mlxc_program_file_call(const mlxc_program_file* file, mlxc_array* const* positional,
                                   size_t n_positional, const char* const* keywords, mlxc_array* const* named,
                                   size_t n_named, mlxc_stream* stream, mlxc_arrays* outputs) {
  return guard([&] {
    const char* name = "mlxc_program_file_call";
    if (!file || !outputs) fail(MLXC_ERROR_VALUE, name, ": file or outputs is NULL");
    std::vector<Array> inputs = take_handles(name, positional, n_positional);
    const std::vector<Array> rest = take_handles(name, named, n_named);
    if (n_named && !keywords) fail(MLXC_ERROR_VALUE, name, ": keywords is NULL");
    std::vector<std::pair<std::string, size_t>> order;
    for (size_t i = 0; i < n_named; i++) {
      if (!keywords[i]) fail(MLXC_ERROR_VALUE, name, ": keyword ", i, " is NULL");
      order.emplace_back(keywords[i], i);
    }
    std::sort(order.begin(), order.end());
    std::vector<std::string> names;
    for (const auto& [keyword, index] : order) {
      names.push_back(keyword);
      inputs.push_back(rest[index]);
    }
    std::optional<StreamScope> scope;
    if (stream) scope.emplace(reinterpret_cast<Stream*>(stream));
    put(outputs, call_program(find_trace(file->file, n_positional, names, inputs).program, inputs));
  });
}

}  // extern "C"
