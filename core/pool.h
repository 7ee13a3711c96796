// The caching pool: freed blocks stay mapped and are handed out again, because fresh pages cost more
// than the arithmetic done on them. Sizes are rounded to classes so that blocks fit again.
#pragma once

#include <cstdint>

#include "core/memory.h"

namespace mlxc {

struct MemoryStatistics {
  int64_t active, peak, cache, limit;
};

MemoryStatistics memory_statistics();
void reset_peak_memory();
int64_t set_memory_limit(int64_t bytes);
int64_t set_cache_limit(int64_t bytes);
void clear_memory_cache();
// The first damaged guard found so far, as an error to pass on; null if none.
mlxc_error* guard_violation();

}  // namespace mlxc
