// The op table: generated rows that tie op numbers to their rules in core/ops.
#include "core/op.h"

namespace mlxc {

#include "op_table.inc"

}  // namespace mlxc
