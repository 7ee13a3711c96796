// Which values of one element-wise stretch a later one computes anew, instead of reading them from memory.
//
// Called by program_plan.cc when all stretches of a program are known. A backward pass reads many steps of
// the forward one: sums and products that take less time to compute than to write and read back.
//
// Rule: a stretch never reads more full-sized values than before, and the steps, so the bits, are the same.
#pragma once

#include <vector>

#include "core/program.h"

namespace mlxc {

// Steps that run together, in their order. Fused ones are element-wise, all of one shape and stream.
struct Stretch {
  std::vector<uint32_t> steps;
  bool fused = false;
};

// Adds steps of earlier stretches to later fused ones.
void recompute_cheap_values(const Program& program, std::vector<Stretch>* stretches);

}  // namespace mlxc
