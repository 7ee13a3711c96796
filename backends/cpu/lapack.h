/* The LAPACK routines behind the kernels of linear algebra, found in the library that blas.cc opens.
 *
 * Called by kernels/linalg*.cc. Fortran's calling convention: everything by address, column-major matrices,
 * 32-bit integers, and after the arguments the length of each text. Real and complex routines differ in name
 * and in their work arrays; the overloads here hide that. Rule: no caller hands over an argument that LAPACK
 * would call illegal, for it may then print and end the process.
 */
#ifndef MLXC_CPU_LAPACK_H
#define MLXC_CPU_LAPACK_H

#include "dtype.h"
#include "kernel.h"

namespace mlxc_cpu {

/* The routines of one element type T with real part R. `info` is LAPACK's: positive where the mathematics
 * fails. Those with a `work` argument take lwork = -1 to store the size they want in work[0]. */
template <class T, class R>
struct LapackTable {
  void (*getrf)(const int* m, const int* n, T* a, const int* lda, int* pivots, int* info);
  void (*getri)(const int* n, T* a, const int* lda, const int* pivots, T* work, const int* lwork, int* info);
  void (*getrs)(const char* trans, const int* n, const int* nrhs, const T* a, const int* lda,
                const int* pivots, T* b, const int* ldb, int* info, size_t);
  void (*potrf)(const char* uplo, const int* n, T* a, const int* lda, int* info, size_t);
  void (*trtri)(const char* uplo, const char* diag, const int* n, T* a, const int* lda, int* info, size_t,
                size_t);
  void (*trtrs)(const char* uplo, const char* trans, const char* diag, const int* n, const int* nrhs,
                const T* a, const int* lda, T* b, const int* ldb, int* info, size_t, size_t, size_t);
  void (*geqrf)(const int* m, const int* n, T* a, const int* lda, T* tau, T* work, const int* lwork,
                int* info);
  /* orgqr or ungqr */
  void (*orgqr)(const int* m, const int* n, const int* k, T* a, const int* lda, const T* tau, T* work,
                const int* lwork, int* info);
  /* Complex ones only where the type is complex, and the other way round. */
  void (*gesdd_real)(const char* job, const int* m, const int* n, T* a, const int* lda, R* s, T* u,
                     const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork, int* iwork, int* info,
                     size_t);
  void (*gesdd_complex)(const char* job, const int* m, const int* n, T* a, const int* lda, R* s, T* u,
                        const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork, R* rwork,
                        int* iwork, int* info, size_t);
  void (*syevd)(const char* job, const char* uplo, const int* n, T* a, const int* lda, R* w, T* work,
                const int* lwork, int* iwork, const int* liwork, int* info, size_t, size_t);
  void (*heevd)(const char* job, const char* uplo, const int* n, T* a, const int* lda, R* w, T* work,
                const int* lwork, R* rwork, const int* lrwork, int* iwork, const int* liwork, int* info,
                size_t, size_t);
  void (*geev_real)(const char* left, const char* right, const int* n, T* a, const int* lda, R* wr, R* wi,
                    T* vl, const int* ldvl, T* vr, const int* ldvr, T* work, const int* lwork, int* info,
                    size_t, size_t);
  void (*geev_complex)(const char* left, const char* right, const int* n, T* a, const int* lda, T* w, T* vl,
                       const int* ldvl, T* vr, const int* ldvr, T* work, const int* lwork, R* rwork,
                       int* info, size_t, size_t);
};

struct Lapack {
  LapackTable<float, float> s;
  LapackTable<double, double> d;
  LapackTable<Complex64, float> c;
  LapackTable<Complex128, double> z;
  bool runs_on_caller; /* as in blas.h */
};

/* Gives the routines, opening the library at the first call. Without one, or where it lacks LAPACK:
 * MLXC_ERROR_OS that begins with `op` and says what was looked for where. */
mlxc_error* open_lapack(const char* op, const Lapack** lapack);

inline const LapackTable<float, float>& table_of(const Lapack& lapack, const float*) { return lapack.s; }
inline const LapackTable<double, double>& table_of(const Lapack& lapack, const double*) { return lapack.d; }
inline const LapackTable<Complex64, float>& table_of(const Lapack& lapack, const Complex64*) {
  return lapack.c;
}
inline const LapackTable<Complex128, double>& table_of(const Lapack& lapack, const Complex128*) {
  return lapack.z;
}

}  // namespace mlxc_cpu
#endif
