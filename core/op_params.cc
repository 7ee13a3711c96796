// Implements op_params.h over the generated list of fields.
#include "core/op_params.h"

#include <cstddef>
#include <cstring>

namespace mlxc {

namespace {

#include "op_params.inc"

template <class T>
T field_of(const void* params, const ParamInfo& field) {
  T value;
  std::memcpy(&value, static_cast<const char*>(params) + field.offset, sizeof(value));
  return value;
}

void append_number(uint64_t bits, int width, std::string* bytes) {
  for (int i = 0; i < width; i++) bytes->push_back(static_cast<char>(bits >> (8 * i)));
}

template <class List>
void append_list(const void* params, const ParamInfo& field, int width, std::string* bytes) {
  const auto& list = *reinterpret_cast<const List*>(static_cast<const char*>(params) + field.offset);
  append_number(static_cast<uint64_t>(list.count), 4, bytes);
  for (int64_t i = 0; i < list.count; i++) append_number(static_cast<uint64_t>(list.items[i]), width, bytes);
}

}  // namespace

const OpParams& params_of(const OpInfo& op) { return params_table[op.number]; }

bool holds_sizes(const OpInfo& op) {
  for (const ParamInfo& field : params_of(op).fields)
    if (field.kind == ParamKind::sizes_) return true;
  return false;
}

void append_params(const OpInfo& op, const void* params, std::string* bytes) {
  for (const ParamInfo& field : params_of(op).fields) {
    switch (field.kind) {
      case ParamKind::bool_:
      case ParamKind::i32_:
      case ParamKind::dtype_:
        append_number(static_cast<uint32_t>(field_of<int32_t>(params, field)), 4, bytes);
        break;
      case ParamKind::i64_:
      case ParamKind::f64_: append_number(field_of<uint64_t>(params, field), 8, bytes); break;
      case ParamKind::axes_: append_list<Axes>(params, field, 4, bytes); break;
      case ParamKind::sizes_: append_list<Sizes>(params, field, 8, bytes); break;
    }
  }
}

}  // namespace mlxc
