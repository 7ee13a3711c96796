// Loaded backends: their tables, their kernel lists turned into dense tables, and the record of every
// attempt to load one.
#pragma once

#include <string>
#include <vector>

#include "mlxc/backend.h"
#include "mlxc/device.h"
#include "mlxc/ops.h"

namespace mlxc {

struct Backend {
  mlxc_backend table{};  // the backend's own, copied once into ours
  std::string name, version, path;
  int32_t device_count = 0;
  std::string reason;  // why there is no device

  std::vector<mlxc_kernel> rows;
  // first[op][dtype]: the first row of the op that admits the dtype as first input (or, for ops
  // without inputs, as output).
  const mlxc_kernel* first[MLXC_OP_COUNT][MLXC_DTYPE_COUNT] = {};

  // The kernel for a call, or null. Only dtypes, shapes, strides and params are looked at.
  const mlxc_kernel* find_kernel(const mlxc_kernel_call& call) const;
};

enum class Fallback { error, warn, allow };

// Loads the backends on first call. Never throws: what went wrong is in the attempts.
void ensure_backends();
Backend* cpu_backend();  // null if it could not be loaded
Backend* gpu_backend();  // the one chosen for mx.gpu, or null
bool default_is_gpu();
Fallback fallback_policy();
// Throws with the loader's words.
Backend* load_backend(const std::string& path);

// The table of functions that backends get (core/host.cc).
const mlxc_host* host_table();
void log_message(int32_t level, const std::string& text);

}  // namespace mlxc
