// A program of the C ABI: a counted handle on the core's own.
#pragma once

#include <atomic>

#include "core/program.h"
#include "mlxc/program.h"

struct mlxc_program {
  std::atomic<int64_t> refs{1};
  mlxc::ProgramPtr program;
};
