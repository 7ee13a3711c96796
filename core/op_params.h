// The fields of the ops' parameter structs, as the table describes them: for whatever compares parameters,
// prints them or writes them to a file, and so must neither read padding nor know the ops one by one.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/op.h"

namespace mlxc {

enum class ParamKind : uint8_t { bool_, i32_, i64_, f64_, dtype_, axes_, sizes_ };

struct ParamInfo {
  const char* name;
  ParamKind kind;
  size_t offset;
};

struct OpParams {
  int version;  // of the op's meaning: a file that was written with another one is refused
  std::span<const ParamInfo> fields;
};

const OpParams& params_of(const OpInfo& op);

// Whether a parameter of the op is a shape or sizes that a trace may have taken from its arrays' shapes.
bool holds_sizes(const OpInfo& op);

// Appends the parameters, field by field, little-endian: equal bytes mean equal parameters.
void append_params(const OpInfo& op, const void* params, std::string* bytes);

}  // namespace mlxc
