// Programs of the C ABI: making, describing and calling them. (Files are in program_file_api.cc.)
#include <optional>

#include "core/closure.h"
#include "core/program_handle.h"
#include "core/record.h"

using namespace mlxc;

namespace {

const Program& need_program(const char* name, const mlxc_program* handle) {
  if (!handle) fail(MLXC_ERROR_VALUE, name, ": the program is NULL");
  return *handle->program;
}

void describe_value(const char* name, const Program& program, bool there, uint32_t slot,
                    mlxc_program_value* value) {
  if (!value || value->struct_size < sizeof(mlxc_program_value))
    fail(MLXC_ERROR_VALUE, name, ": value is NULL or its struct_size is not set");
  if (!there) fail(MLXC_ERROR_INDEX, name, ": there is no value of that index");
  const Program::Slot& found = program.slots[slot];
  *value = {sizeof(mlxc_program_value), found.dtype, found.shape.n, found.shape.v};
}

}  // namespace

extern "C" {

mlxc_error* mlxc_program_make(const mlxc_closure* closure, mlxc_array* const* examples, size_t n_examples,
                              uint32_t flags, mlxc_program** out) {
  return guard([&] {
    const char* name = "mlxc_program_make";
    if (!out) fail(MLXC_ERROR_VALUE, name, ": out is NULL");
    if (flags & ~uint32_t{MLXC_PROGRAM_SHAPELESS}) fail(MLXC_ERROR_VALUE, name, ": unknown flags ", flags);
    const Function fn = wrap_closure(name, closure);
    std::vector<InputSpec> inputs;
    for (const Array& example : take_handles(name, examples, n_examples))
      inputs.push_back({example.dtype(), example.dims()});
    auto handle = std::make_unique<mlxc_program>();
    handle->program = trace_program(fn, inputs, flags & MLXC_PROGRAM_SHAPELESS);
    *out = handle.release();
  });
}

mlxc_program* mlxc_program_retain(mlxc_program* program) {
  if (program) program->refs.fetch_add(1, std::memory_order_relaxed);
  return program;
}

void mlxc_program_release(mlxc_program* program) {
  if (program && program->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete program;
}

mlxc_error* mlxc_program_get_facts(const mlxc_program* handle, mlxc_program_facts* facts) {
  return guard([&] {
    const Program& program = need_program("mlxc_program_get_facts", handle);
    if (!facts || facts->struct_size < sizeof(mlxc_program_facts))
      fail(MLXC_ERROR_VALUE, "mlxc_program_get_facts: facts is NULL or its struct_size is not set");
    *facts = {sizeof(mlxc_program_facts), program.n_inputs,
              program.outputs.size(),     program.steps.size(),
              program.constants.size(),   program.shapeless ? uint32_t{MLXC_PROGRAM_SHAPELESS} : 0,
              program.fixed.c_str(),      program.borrows};
  });
}

mlxc_error* mlxc_program_input(const mlxc_program* handle, size_t index, mlxc_program_value* value) {
  return guard([&] {
    const Program& program = need_program("mlxc_program_input", handle);
    describe_value("mlxc_program_input", program, index < program.n_inputs, static_cast<uint32_t>(index),
                   value);
  });
}

mlxc_error* mlxc_program_output(const mlxc_program* handle, size_t index, mlxc_program_value* value) {
  return guard([&] {
    const Program& program = need_program("mlxc_program_output", handle);
    const bool there = index < program.outputs.size();
    describe_value("mlxc_program_output", program, there, there ? program.outputs[index] : 0, value);
  });
}

mlxc_error* mlxc_program_step_get(const mlxc_program* handle, size_t index, mlxc_program_step_facts* facts) {
  return guard([&] {
    const Program& program = need_program("mlxc_program_step_get", handle);
    if (!facts || facts->struct_size < sizeof(mlxc_program_step_facts))
      fail(MLXC_ERROR_VALUE, "mlxc_program_step_get: facts is NULL or its struct_size is not set");
    if (index >= program.steps.size())
      fail(MLXC_ERROR_INDEX, "mlxc_program_step_get: there are ", program.steps.size(), " steps, no ", index);
    const Program::Step& step = program.steps[index];
    *facts = {sizeof(mlxc_program_step_facts), step.op->number, step.n_inputs,
              program.inputs_of(step).data(),  step.n_outputs,  step.outputs,
              program.params_of(step)};
  });
}

mlxc_error* mlxc_program_value_get(const mlxc_program* handle, size_t index, mlxc_program_value* value) {
  return guard([&] {
    const Program& program = need_program("mlxc_program_value_get", handle);
    describe_value("mlxc_program_value_get", program, index < program.slots.size(),
                   static_cast<uint32_t>(index), value);
  });
}

mlxc_error* mlxc_program_constant(const mlxc_program* handle, size_t index, mlxc_array** out) {
  return guard([&] {
    const Program& program = need_program("mlxc_program_constant", handle);
    if (!out) fail(MLXC_ERROR_VALUE, "mlxc_program_constant: out is NULL");
    if (index >= program.constants.size())
      fail(MLXC_ERROR_INDEX, "mlxc_program_constant: there are ", program.constants.size(), " constants, no ",
           index);
    *out = Array(program.constants[index]).give_up();
  });
}

mlxc_error* mlxc_program_output_value(const mlxc_program* handle, size_t index, uint32_t* value) {
  return guard([&] {
    const Program& program = need_program("mlxc_program_output_value", handle);
    if (!value) fail(MLXC_ERROR_VALUE, "mlxc_program_output_value: value is NULL");
    if (index >= program.outputs.size())
      fail(MLXC_ERROR_INDEX, "mlxc_program_output_value: there are ", program.outputs.size(), " outputs, no ",
           index);
    *value = program.outputs[index];
  });
}

mlxc_error* mlxc_program_call(const mlxc_program* handle, mlxc_array* const* inputs, size_t n_inputs,
                              mlxc_stream* stream, mlxc_array** outputs, size_t n_outputs) {
  return guard([&] {
    const Program& program = need_program("mlxc_program_call", handle);
    if (n_outputs != program.outputs.size() || (n_outputs && !outputs))
      fail(MLXC_ERROR_VALUE, "mlxc_program_call: the program makes ", program.outputs.size(),
           " array(s), asked for ", n_outputs);
    std::optional<StreamScope> scope;
    if (stream) scope.emplace(reinterpret_cast<Stream*>(stream));
    std::vector<Array> made =
        call_program(handle->program, take_handles("mlxc_program_call", inputs, n_inputs));
    for (size_t i = 0; i < n_outputs; i++) outputs[i] = made[i].give_up();
  });
}

}  // extern "C"
