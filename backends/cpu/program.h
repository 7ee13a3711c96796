/* Element-wise programs on the CPU, one set of functions an instruction set (kernels/program.cc). backend.cc
 * puts the picked one into the table; see backend.h for what each must do.
 */
#ifndef MLXC_CPU_PROGRAM_H
#define MLXC_CPU_PROGRAM_H

#include "kernel.h"

namespace mlxc_cpu {

struct ProgramFunctions {
  mlxc_error* (*make)(mlxc_backend_device*, const mlxc_program_source*, mlxc_backend_program**);
  mlxc_error* (*run)(mlxc_backend_stream*, mlxc_backend_program*, const mlxc_view* const*,
                     const mlxc_view* const*);
  void (*free)(mlxc_backend_device*, mlxc_backend_program*);
};

inline namespace MLXC_ISA {
ProgramFunctions program_functions();
}

}  // namespace mlxc_cpu
#endif
