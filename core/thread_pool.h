// The worker threads behind parallel_for.
#pragma once

#include <cstdint>

#include "mlxc/backend.h"

namespace mlxc {

// Calls fn over [0, n) in pieces of at least `grain` on the workers and the calling thread. Small or
// nested work runs on the calling thread alone.
void parallel_for(int64_t n, int64_t grain, mlxc_range_fn fn, void* context);
// MLXC_NUM_THREADS, else the number of processors this process may use.
int32_t thread_count();

}  // namespace mlxc
