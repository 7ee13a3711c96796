/* One-dimensional Fourier transforms of dense lines, from a library: the only place that knows which.
 *
 * Called by kernels/fft.cc. An engine belongs to one thread, for it keeps tables of the lengths it has met;
 * it is got inside the thread that uses it. Functions throw std::bad_alloc and nothing else.
 */
#ifndef MLXC_CPU_FFT_H
#define MLXC_CPU_FFT_H

#include <cstdint>

#include "dtype.h"

namespace mlxc_cpu {

/* The longest line: what the library counts with is 32 bits wide. */
constexpr int64_t kFftLimit = INT64_C(1) << 27;

/* This thread's transforms of float or double. Nothing is scaled; source and result must not overlap. */
template <class T>
class FftEngine {
 public:
  static FftEngine& of_thread();
  /* The sum of source[j] exp(-+ 2 pi i j k / n), minus unless inverse. */
  void transform(const Complex<T>* source, Complex<T>* result, int64_t n, bool inverse);
  /* Real numbers to frequencies 0 .. n / 2. The source is overwritten. */
  void forward_real(T* source, Complex<T>* result, int64_t n);
  /* The way back; imaginary parts of frequency 0 and, for even n, n / 2 do not count. The source is
   * overwritten. */
  void inverse_real(Complex<T>* source, T* result, int64_t n);

  FftEngine(const FftEngine&) = delete;
  FftEngine& operator=(const FftEngine&) = delete;

 private:
  template <class>
  friend class FftEngine;
  struct Tables;
  FftEngine();
  ~FftEngine();
  void transform_chirp(const Complex<T>* source, Complex<T>* result, int64_t n, bool inverse);
  const Complex<T>* half_turns(int64_t n);
  Tables* tables_;
};

}  // namespace mlxc_cpu
#endif
