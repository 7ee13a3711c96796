// Implements op_params.h over the generated list of fields.
#include "core/op_params.h"

#include <cstddef>
#include <cstring>

#include "mlxc/program.h"

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

using namespace mlxc;

namespace {

void read_param(const void* params, const ParamInfo& field, mlxc_op_param* out) {
  switch (field.kind) {
    case ParamKind::bool_:
    case ParamKind::i32_:
    case ParamKind::dtype_: {
      out->integer = field_of<int32_t>(params, field);
      out->kind = field.kind == ParamKind::bool_  ? MLXC_PARAM_BOOL
                  : field.kind == ParamKind::i32_ ? MLXC_PARAM_INT
                                                  : MLXC_PARAM_DTYPE;
      return;
    }
    case ParamKind::i64_:
      out->kind = MLXC_PARAM_INT;
      out->integer = field_of<int64_t>(params, field);
      return;
    case ParamKind::f64_:
      out->kind = MLXC_PARAM_FLOAT;
      out->real = field_of<double>(params, field);
      return;
    case ParamKind::axes_:
    case ParamKind::sizes_: {
      out->kind = MLXC_PARAM_LIST;
      const char* at = static_cast<const char*>(params) + field.offset;
      const bool axes = field.kind == ParamKind::axes_;
      const auto* small = reinterpret_cast<const Axes*>(at);
      const auto* large = reinterpret_cast<const Sizes*>(at);
      out->integer = axes ? small->count : large->count;
      if (out->integer > MLXC_MAX_NDIM) fail(MLXC_ERROR_VALUE, "mlxc_op_param_get: a list of ", out->integer);
      for (int64_t i = 0; i < out->integer; i++) out->items[i] = axes ? small->items[i] : large->items[i];
      return;
    }
  }
}

}  // namespace

extern "C" {

size_t mlxc_op_param_count(int32_t op) {
  return op > 0 && op < MLXC_OP_COUNT && op_table[op].name ? params_table[op].fields.size() : 0;
}

mlxc_error* mlxc_op_param_get(int32_t op, const void* params, size_t index, mlxc_op_param* param) {
  return guard([&] {
    if (!params || !param || param->struct_size < sizeof(mlxc_op_param))
      fail(MLXC_ERROR_VALUE, "mlxc_op_param_get: params or param is NULL, or its struct_size is not set");
    if (index >= mlxc_op_param_count(op))
      fail(MLXC_ERROR_INDEX, "mlxc_op_param_get: the op has ", mlxc_op_param_count(op), " parameters, no ",
           index);
    const ParamInfo& field = params_table[op].fields[index];
    *param = {};
    param->struct_size = sizeof(mlxc_op_param);
    param->name = field.name;
    read_param(params, field, param);
  });
}

}  // extern "C"
