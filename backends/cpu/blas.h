/* The BLAS library behind matmul, convolution and linear algebra, opened with dlopen at first use and never
 * linked.
 *
 * Called by kernels/gemm.h for products too large for the own kernels. A library that mlxc is the first to
 * open is kept to one thread: callers split the work over the core's threads themselves. One that somebody
 * else already opened (NumPy may share a system OpenBLAS) keeps its own threads, and is called whole.
 */
#ifndef MLXC_CPU_BLAS_H
#define MLXC_CPU_BLAS_H

#include "kernel.h"

namespace mlxc_cpu {

/* Values of the C interface's enumerations. */
enum { kBlasRowMajor = 101, kBlasNoTrans = 111, kBlasTrans = 112 };

/* gemm of one type. The scalars of real types are passed by value, those of complex types by address. */
template <class T>
using RealGemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, T alpha, const T* a,
                          int lda, const T* b, int ldb, T beta, T* c, int ldc);
using ComplexGemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, const void* alpha,
                             const void* a, int lda, const void* b, int ldb, const void* beta, void* c,
                             int ldc);

struct Blas {
  RealGemm<float> sgemm;
  RealGemm<double> dgemm;
  ComplexGemm cgemm;
  ComplexGemm zgemm;
  bool runs_on_caller; /* no threads of its own: safe and wise inside parallel_for */
};

/* Gives the library, opening it at the first call. Without one: MLXC_ERROR_OS that begins with `op` and
 * names every path tried. */
mlxc_error* open_blas(const char* op, const Blas** blas);

/* The address of another symbol of the library, named without its prefix; NULL where there is none. May throw
 * std::bad_alloc. */
void* find_blas_symbol(const char* name);

/* For device_info: configuration, core and path of the library, or why there is none. Opens it. The text
 * lives as long as this library. */
const char* blas_description();

}  // namespace mlxc_cpu
#endif
