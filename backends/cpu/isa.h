/* Which instruction set the kernels use: the best this CPU has, or what MLXC_CPU_ISA names.
 *
 * Called once by the backend's entry. An unknown name, or a set this CPU or this build lacks, is an error
 * that says what there is.
 */
#ifndef MLXC_CPU_ISA_PICK_H
#define MLXC_CPU_ISA_PICK_H

#include "mlxc/backend.h"

namespace mlxc_cpu {

enum class Isa { kBase, kV3, kV4 };

/* base, v3 or v4. */
const char* isa_name(Isa isa);

/* NULL and *isa, or an error object. */
mlxc_error* pick_isa(Isa* isa);

/* The CPU's name as its maker gives it, "x86_64" or "aarch64", and instruction-set words. */
void describe_cpu(char* name, size_t name_size, char* architecture, size_t architecture_size);
void describe_features(Isa isa, char* text, size_t text_size);

}  // namespace mlxc_cpu
#endif
