// What the rules of custom functions share; see custom.cc and custom_batch.cc.
#pragma once

#include "core/custom.h"
#include "core/op.h"

namespace mlxc {

inline const CustomRules& rules_of(const Attachment* attachment) {
  return *static_cast<const CustomRules*>(attachment);
}
// MLXC_ERROR_VALUE naming the rule, if what it gave does not fit.
void check_rule_count(const char* rule, const char* what, size_t given, size_t needed);
void check_rule_shape(const char* rule, const char* what, size_t i, const Array& given, const Array& like);
// The node that hands the results on.
std::vector<Array> record_custom(std::span<const Array> inputs, std::span<const Array> results,
                                 std::shared_ptr<Attachment> rules);

}  // namespace mlxc
