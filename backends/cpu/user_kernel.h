/* User kernels on the CPU: C++ text, compiled by the machine's own compiler. backend.cc puts the functions
 * into the table; see backend.h for what each must do, and docs/user-kernels.md for what a body finds.
 */
#ifndef MLXC_CPU_USER_KERNEL_H
#define MLXC_CPU_USER_KERNEL_H

#include "kernel.h"

namespace mlxc_cpu {

mlxc_error* make_user_kernel(mlxc_backend_device* device, const mlxc_user_kernel_source* source,
                             mlxc_backend_kernel** kernel);
mlxc_error* run_user_kernel(mlxc_backend_stream* stream, mlxc_backend_kernel* kernel,
                            const mlxc_user_kernel_launch* launch, const mlxc_view* const* inputs,
                            const mlxc_view* const* outputs);
void free_user_kernel(mlxc_backend_device* device, mlxc_backend_kernel* kernel);

}  // namespace mlxc_cpu
#endif
