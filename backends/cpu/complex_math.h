/* Elementary functions of complex numbers over dense arrays, in double.
 *
 * Called by the loops of unary, binary, reduce and scan kernels for complex64 (which converts) and
 * complex128. Defined in kernels/complex_math.cc, compiled once: the work is in the C library, so an
 * instruction set of our own would gain nothing.
 */
#ifndef MLXC_CPU_COMPLEX_MATH_H
#define MLXC_CPU_COMPLEX_MATH_H

#include <cstdint>

namespace mlxc_cpu {

/* Pairs (re, im). result may be an input. op is one of MLXC_OP_SQRT ... MLXC_OP_ARCTANH. */
void complex_unary(int32_t op, const double* a, double* result, int64_t n);

/* MLXC_OP_DIVIDE, MLXC_OP_POWER or MLXC_OP_LOGADDEXP. */
void complex_binary(int32_t op, const double* a, const double* b, double* result, int64_t n);

}  // namespace mlxc_cpu
#endif
