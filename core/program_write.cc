// Writes programs into the file format (program_file.h).
#include <cstring>
#include <map>
#include <unordered_map>

#include "core/execute.h"
#include "core/op_params.h"
#include "core/program_file.h"
#include "core/schedule.h"
#include "op_functions.h"

namespace mlxc {

namespace {

class Text {
 public:
  void u8(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void u32(uint64_t value) {
    if (value > UINT32_MAX) fail(MLXC_ERROR_VALUE, "program file: a count of ", value, " is too great");
    number(value, 4);
  }
  void u64(uint64_t value) { number(value, 8); }
  void text(const std::string& value) {
    u32(value.size());
    bytes_ += value;
  }
  void spec(mlxc_dtype dtype, std::span<const int64_t> shape) {
    u8(static_cast<uint8_t>(dtype));
    u8(static_cast<uint8_t>(shape.size()));
    for (int64_t size : shape) u64(static_cast<uint64_t>(size));
  }
  std::string& bytes() { return bytes_; }

 private:
  void number(uint64_t value, int width) {
    for (int i = 0; i < width; i++) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  std::string bytes_;
};

// A constant's bytes, row-major.
Array pack(const Array& constant) {
  Node* const node[] = {constant.node()};
  evaluate(node);
  if (row_contiguous(constant->shape(), constant->strides())) return constant;
  const Array packed = op::contiguous(constant);
  Node* const made[] = {packed.node()};
  evaluate(made);
  return packed;
}

size_t bytes_of(const Array& array) { return static_cast<size_t>(array.size() * dtype_size(array.dtype())); }

class Writer {
 public:
  explicit Writer(std::span<const NamedTrace> traces) : traces_(traces) {}

  void describe(const std::string& metadata) {
    Text body;
    for (const NamedTrace& trace : traces_) describe_trace(trace, &body);
    Text head;
    head.text(metadata);
    head.u32(ops_.size());
    for (const OpInfo* op : ops_) describe_op(*op, &head);
    head.u32(constants_.size());
    size_t offset = 0;
    for (const Array& constant : constants_) {
      head.spec(constant.dtype(), constant.shape());
      head.u64(offset);
      offset += padded(bytes_of(constant));
    }
    data_size_ = offset;
    head.u32(traces_.size());
    description_ = std::move(head.bytes());
    description_ += body.bytes();
  }

  void write(const std::function<void(const void*, size_t)>& put) const {
    const size_t data_at = padded(program_header_size + description_.size());
    std::string front(program_magic, sizeof(program_magic));
    Text header;
    header.u32(program_version);
    header.u32(0);
    header.u64(data_at + data_size_);
    header.u64(data_at);
    header.u64(description_.size());
    header.u64(checksum(description_.data(), description_.size()));
    header.u64(data_checksum());
    front += header.bytes();
    front.resize(program_header_size);
    front += description_;
    front.resize(data_at);
    put(front.data(), front.size());
    static const char zeros[program_alignment] = {};
    for (const Array& constant : constants_) {
      const size_t size = bytes_of(constant);
      if (size) put(host_data(constant.node()), size);
      if (padded(size) > size) put(zeros, padded(size) - size);
    }
  }

 private:
  static size_t padded(size_t size) {
    return (size + program_alignment - 1) / program_alignment * program_alignment;
  }

  // The checksum of each constant's bytes, and of these sums: so that no copy of all bytes is needed.
  uint64_t data_checksum() const {
    Text sums;
    for (const Array& constant : constants_) {
      const size_t size = bytes_of(constant);
      sums.u64(size ? checksum(host_data(constant.node()), size) : 0);
    }
    return checksum(sums.bytes().data(), sums.bytes().size());
  }

  static void describe_op(const OpInfo& op, Text* out) {
    const OpParams& params = params_of(op);
    out->text(op.name);
    out->u32(static_cast<uint64_t>(params.version));
    out->u32(params.fields.size());
    for (const ParamInfo& field : params.fields) {
      out->text(field.name);
      out->u8(static_cast<uint8_t>(field.kind));
    }
  }

  uint32_t take_op(const OpInfo& op) {
    const auto [found, is_new] = op_index_.try_emplace(op.number, static_cast<uint32_t>(ops_.size()));
    if (is_new) ops_.push_back(&op);
    return found->second;
  }

  // Traces of one function share the arrays that it captured.
  uint32_t take_constant(const Array& constant) {
    const auto [found, is_new] =
        constant_index_.try_emplace(constant.node(), static_cast<uint32_t>(constants_.size()));
    if (is_new) constants_.push_back(pack(constant));
    return found->second;
  }

  void describe_trace(const NamedTrace& trace, Text* out) {
    const Program& program = *trace.program;
    out->u8(program.shapeless ? 1 : 0);
    out->text(program.fixed);
    out->u32(trace.n_positional);
    out->u32(trace.keywords.size());
    for (const std::string& keyword : trace.keywords) out->text(keyword);
    for (uint32_t i = 0; i < program.n_inputs; i++)
      out->spec(program.slots[i].dtype, program.slots[i].shape.span());
    out->u32(program.constants.size());
    for (const Array& constant : program.constants) out->u32(take_constant(constant));

    // Slots of the file, which leaves out the steps that only hand arrays on.
    std::vector<uint32_t> slot_of(program.slots.size());
    uint32_t next = program.first_made();
    for (uint32_t i = 0; i < next; i++) slot_of[i] = i;
    Text steps;
    uint32_t n_steps = 0;
    for (const Program::Step& step : program.steps) {
      if (step.op->number == MLXC_OP_DEPENDS) {
        for (uint32_t i = 0; i < step.n_outputs; i++)
          slot_of[step.outputs + i] = slot_of[program.inputs_of(step)[i]];
        continue;
      }
      if (step.op->run)
        fail(MLXC_ERROR_VALUE, "export: ", step.op->name,
             " carries functions or source text of the program that made it, which no file can hold");
      n_steps++;
      steps.u32(take_op(*step.op));
      steps.u32(step.n_inputs);
      for (uint32_t slot : program.inputs_of(step)) steps.u32(slot_of[slot]);
      if (step.op->params_size) append_params(*step.op, program.params_of(step), &steps.bytes());
      for (uint32_t i = 0; i < step.n_outputs; i++) {
        const Program::Slot& slot = program.slots[step.outputs + i];
        steps.spec(slot.dtype, slot.shape.span());
        slot_of[step.outputs + i] = next++;
      }
    }
    out->u32(n_steps);
    out->bytes() += steps.bytes();
    out->u32(program.outputs.size());
    for (uint32_t slot : program.outputs) out->u32(slot_of[slot]);
  }

  std::span<const NamedTrace> traces_;
  std::vector<const OpInfo*> ops_;
  std::unordered_map<int, uint32_t> op_index_;
  std::vector<Array> constants_;
  std::unordered_map<Node*, uint32_t> constant_index_;
  std::string description_;
  size_t data_size_ = 0;
};

}  // namespace

uint64_t checksum(const char* data, size_t size) noexcept {
  uint64_t sum = size;
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word = 0;
    for (size_t k = 0; k < 8 && i + k < size; k++)
      word |= static_cast<uint64_t>(static_cast<unsigned char>(data[i + k])) << (8 * k);
    sum ^= word;
    sum = (sum << 29 | sum >> 35) * UINT64_C(0x9E3779B97F4A7C15);
  }
  return sum;
}

void write_program_file(std::span<const NamedTrace> traces, const std::string& metadata,
                        const std::function<void(const void*, size_t)>& write) {
  Writer writer(traces);
  writer.describe(metadata);
  writer.write(write);
}

}  // namespace mlxc
