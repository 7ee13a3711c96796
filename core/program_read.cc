// Reads programs from the file format (program_file.h); see the rule there.
#include <cstring>

#include "core/op_params.h"
#include "core/program_file.h"
#include "mlxc/array.h"
#include "mlxc/ops.h"

namespace mlxc {

namespace {

[[noreturn]] void fail_file(const std::string& what) { fail(MLXC_ERROR_VALUE, "program file: ", what); }

class Reader {
 public:
  Reader(const char* data, size_t size) : data_(data), left_(size) {}

  size_t left() const { return left_; }
  const char* take(size_t size) {
    if (size > left_) fail_file("truncated");
    const char* at = data_;
    data_ += size;
    left_ -= size;
    return at;
  }
  uint8_t u8() { return static_cast<uint8_t>(*take(1)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  // A count of things that take at least so many bytes each.
  uint32_t count(size_t least_bytes) {
    const uint32_t n = u32();
    if (n > left_ / least_bytes) fail_file(cat("a count of ", n, " is more than its bytes can hold"));
    return n;
  }
  std::string text() {
    const uint32_t size = count(1);
    const char* at = take(size);
    std::string value(at, size);
    if (std::memchr(at, 0, size)) fail_file("a text holds a zero byte");
    return value;
  }
  OutSpec spec() {
    OutSpec spec;
    spec.dtype = u8();
    if (!dtype_valid(spec.dtype)) fail_file(cat("there is no dtype ", spec.dtype));
    const int ndim = u8();
    if (ndim > MLXC_MAX_NDIM) fail_file(cat("an array of ", ndim, " axes"));
    for (int i = 0; i < ndim; i++) {
      const auto size = static_cast<int64_t>(u64());
      if (size < 0) fail_file(cat("a size of ", size));
      spec.shape.push(size);
    }
    checked_size("program file", spec.shape.span(), dtype_size(spec.dtype));
    return spec;
  }

 private:
  uint64_t number(int width) {
    const char* at = take(static_cast<size_t>(width));
    uint64_t value = 0;
    for (int i = 0; i < width; i++)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(at[i])) << (8 * i);
    return value;
  }
  const char* data_;
  size_t left_;
};

bool same_spec(const OutSpec& spec, const Array& array) {
  return spec.dtype == array.dtype() && spec.shape == array.dims();
}

class FileReader {
 public:
  FileReader(const char* data, size_t size, std::shared_ptr<const void> owner)
      : data_(data), size_(size), owner_(std::move(owner)) {}

  ProgramFile read() {
    Reader header(data_, size_);
    if (size_ < program_header_size || std::memcmp(header.take(8), program_magic, 8) != 0)
      fail_file("these are not the bytes of one");
    const uint32_t version = header.u32();
    if (version != program_version)
      fail_file(cat("its version is ", version, ", this library reads ", program_version));
    if (header.u32() != 0) fail_file("a reserved field is set");
    if (header.u64() != size_) fail_file("truncated, or longer than it says");
    const uint64_t data_at = header.u64(), description_size = header.u64(), sum = header.u64();
    data_sum_ = header.u64();
    if (data_at > size_ || data_at < program_header_size || data_at % program_alignment ||
        description_size > data_at - program_header_size)
      fail_file("its parts do not fit its size");
    const char* description = data_ + program_header_size;
    if (checksum(description, description_size) != sum) fail_file("corrupt: its checksum is another");
    Reader reader(description, description_size);
    ProgramFile file;
    file.metadata = reader.text();
    read_ops(reader);
    read_constants(reader, data_at);
    const uint32_t n_traces = reader.count(22);
    for (uint32_t i = 0; i < n_traces; i++) file.traces.push_back(read_trace(reader));
    if (reader.left()) fail_file("it goes on behind its end");
    return file;
  }

 private:
  void read_ops(Reader& reader) {
    const uint32_t n = reader.count(12);
    for (uint32_t i = 0; i < n; i++) {
      const std::string name = reader.text();
      const int number = mlxc_op_from_name(name.c_str());
      if (!number || op_table[number].run) fail_file(cat("this library has no op ", name));
      const OpInfo& op = op_table[number];
      const OpParams& params = params_of(op);
      const uint32_t version = reader.u32();
      if (version != static_cast<uint32_t>(params.version))
        fail_file(cat("version ", version, " of the op ", name, ", this library has ", params.version));
      if (reader.count(5) != params.fields.size()) fail_file(cat("other parameters for ", name));
      for (const ParamInfo& field : params.fields)
        if (reader.text() != field.name || reader.u8() != static_cast<uint8_t>(field.kind))
          fail_file(cat("other parameters for ", name));
      ops_.push_back(&op);
    }
  }

  void read_constants(Reader& reader, size_t data_at) {
    const uint32_t n = reader.count(10);
    std::string sums;
    for (uint32_t i = 0; i < n; i++) {
      const OutSpec spec = reader.spec();
      const uint64_t offset = reader.u64();
      int64_t bytes = dtype_size(spec.dtype);
      for (int k = 0; k < spec.shape.n; k++) bytes *= spec.shape[k];
      const uint64_t room = size_ - data_at;
      if (offset > room || offset % program_alignment || static_cast<uint64_t>(bytes) > room - offset)
        fail_file("a constant lies outside of it");
      const char* at = data_ + data_at + offset;
      const uint64_t sum = bytes ? checksum(at, static_cast<size_t>(bytes)) : 0;
      for (int k = 0; k < 8; k++) sums.push_back(static_cast<char>(sum >> (8 * k)));
      if (spec.dtype == MLXC_BOOL)
        for (int64_t k = 0; k < bytes; k++)
          if (static_cast<unsigned char>(at[k]) > 1) fail_file("a bool that is neither 0 nor 1");
      constants_.push_back(make_constant(spec, at));
    }
    if (checksum(sums.data(), sums.size()) != data_sum_)
      fail_file("corrupt: a constant's checksum is another");
  }

  Array make_constant(const OutSpec& spec, const char* at) {
    Node* made = nullptr;
    if (!owner_ || spec.shape.n == 0) {
      throw_error(mlxc_array_from_host(at, spec.dtype, spec.shape.n, spec.shape.v, &made));
      return Array::adopt(made);
    }
    auto keep = std::make_unique<std::shared_ptr<const void>>(owner_);
    throw_error(mlxc_array_wrap_host(
        const_cast<char*>(at), spec.dtype, spec.shape.n, spec.shape.v, nullptr,
        [](void* context) { delete static_cast<std::shared_ptr<const void>*>(context); }, keep.get(), &made));
    keep.release();
    return Array::adopt(made);
  }

  NamedTrace read_trace(Reader& reader) {
    NamedTrace trace;
    const uint8_t flags = reader.u8();
    if (flags > 1) fail_file(cat("unknown flags ", int{flags}));
    const std::string fixed = reader.text();
    trace.n_positional = reader.count(2);
    const uint32_t n_keywords = reader.count(6);
    for (uint32_t i = 0; i < n_keywords; i++) {
      trace.keywords.push_back(reader.text());
      if (i && trace.keywords[i] <= trace.keywords[i - 1]) fail_file("names of inputs are not in order");
    }
    std::vector<InputSpec> inputs;
    for (size_t i = 0; i < trace.n_positional + n_keywords; i++) inputs.push_back(reader.spec());
    const ProgramPtr made =
        trace_program([&](std::span<const Array> placeholders) { return record_steps(reader, placeholders); },
                      inputs, flags & 1);
    if (flags & 1 && made->fixed.empty() && !fixed.empty()) {
      // Nobody else has the program yet.
      const_cast<Program&>(*made).fixed = fixed;
    }
    trace.program = made;
    return trace;
  }

  std::vector<Array> record_steps(Reader& reader, std::span<const Array> placeholders) {
    std::vector<Array> values(placeholders.begin(), placeholders.end());
    const uint32_t n_constants = reader.count(4);
    for (uint32_t i = 0; i < n_constants; i++) {
      const uint32_t index = reader.u32();
      if (index >= constants_.size()) fail_file("a trace uses a constant that is not there");
      values.push_back(constants_[index]);
    }
    auto value_at = [&](uint32_t slot) -> const Array& {
      if (slot >= values.size()) fail_file("a step uses a value that comes later, or never");
      return values[slot];
    };
    const uint32_t n_steps = reader.count(10);
    std::vector<Node*> inputs;
    for (uint32_t i = 0; i < n_steps; i++) {
      const uint32_t op_index = reader.u32();
      if (op_index >= ops_.size()) fail_file("a step's op is not in the list of ops");
      const OpInfo& op = *ops_[op_index];
      inputs.clear();
      const uint32_t n_inputs = reader.count(4);
      for (uint32_t k = 0; k < n_inputs; k++) inputs.push_back(value_at(reader.u32()).node());
      alignas(8) char params[max_params_size] = {};
      if (op.params_size) read_params(reader, op, params);
      std::vector<Node*> made(static_cast<size_t>(op.n_outputs));
      throw_error(mlxc_apply(op.number, inputs.data(), inputs.size(), op.params_size ? params : nullptr,
                             nullptr, made.data(), made.size()));
      const size_t first = values.size();
      for (Node* node : made) values.push_back(Array::adopt(node));
      for (size_t k = first; k < values.size(); k++)
        if (!same_spec(reader.spec(), values[k]))
          fail_file(cat("a step (", op.name, ") makes another dtype or shape than it says"));
    }
    std::vector<Array> outputs;
    const uint32_t n_outputs = reader.count(4);
    for (uint32_t i = 0; i < n_outputs; i++) outputs.push_back(value_at(reader.u32()));
    return outputs;
  }

  static constexpr size_t max_params_size = 1024;

  static void read_params(Reader& reader, const OpInfo& op, char* params) {
    const size_t size = op.params_size;
    std::memcpy(params, &size, sizeof(size));
    auto store = [&](const ParamInfo& field, const auto& value) {
      std::memcpy(params + field.offset, &value, sizeof(value));
    };
    for (const ParamInfo& field : params_of(op).fields) {
      switch (field.kind) {
        case ParamKind::bool_:
        case ParamKind::i32_:
        case ParamKind::dtype_: store(field, reader.u32()); break;
        case ParamKind::i64_:
        case ParamKind::f64_: store(field, reader.u64()); break;
        case ParamKind::axes_: read_list<Axes>(reader, params + field.offset, 4); break;
        case ParamKind::sizes_: read_list<Sizes>(reader, params + field.offset, 8); break;
      }
    }
  }

  template <class List>
  static void read_list(Reader& reader, char* at, int width) {
    List list{};
    const auto count = static_cast<int32_t>(reader.u32());
    if (count < -1 || count > MLXC_MAX_NDIM)
      fail_file(cat("a list of ", count, " in the parameters of an op"));
    list.count = count;
    for (int32_t i = 0; i < count; i++) {
      const uint64_t item = width == 4 ? reader.u32() : reader.u64();
      list.items[i] = static_cast<std::remove_reference_t<decltype(list.items[0])>>(item);
    }
    std::memcpy(at, &list, sizeof(list));
  }

  const char* data_;
  size_t size_;
  std::shared_ptr<const void> owner_;
  uint64_t data_sum_ = 0;
  std::vector<const OpInfo*> ops_;
  std::vector<Array> constants_;
};

}  // namespace

ProgramFile read_program_file(const char* data, size_t size, const std::shared_ptr<const void>& owner) {
  try {
    return FileReader(data, size, owner).read();
  } catch (const Failure& failure) {
    // What an op refuses, by whatever code, is a fault of the file.
    const mlxc_code code = failure.code();
    if (code == MLXC_ERROR_VALUE || code == MLXC_ERROR_MEMORY || code == MLXC_ERROR_INTERRUPTED) throw;
    fail_file(failure.what());
  }
}

}  // namespace mlxc
