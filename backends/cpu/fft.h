/* Fourier transforms of dense lines, from a library: Eigen's, which is KISS FFT. The only place that knows
 * which.
 *
 * Included by kernels/fft.cc. The library is given vectors for numbers (FftPack), so it transforms several
 * lines at once: short lines beside each other, or the columns of one long line of n1 n2 points, cut into n1
 * rows (Bailey 1990). For a large prime factor the library's time grows with the square; such lengths go by
 * way of a convolution (Bluestein 1970), in double, so that float loses nothing by it. Real lines of even
 * length are complex ones of half the length. Functions throw std::bad_alloc and nothing else.
 */
#ifndef MLXC_CPU_FFT_H
#define MLXC_CPU_FFT_H

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <map>
#include <vector>

#include "dtype.h"

#define EIGEN_MPL2_ONLY
#include <unsupported/Eigen/FFT>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed between functions of this file alone */
#endif

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* N numbers with arithmetic, as std::complex and the library take them for one. */
template <class T, int N>
struct FftPack {
  typedef T Vector __attribute__((vector_size(N * sizeof(T))));
  Vector v;

  FftPack() : v{} {}
  FftPack(Vector x) : v(x) {}
  template <class S>
    requires std::is_arithmetic_v<S>
  explicit FftPack(S x) : v(Vector{} + static_cast<T>(x)) {}
  MLXC_INLINE friend FftPack operator+(FftPack a, FftPack b) { return FftPack(a.v + b.v); }
  MLXC_INLINE friend FftPack operator-(FftPack a, FftPack b) { return FftPack(a.v - b.v); }
  MLXC_INLINE friend FftPack operator*(FftPack a, FftPack b) { return FftPack(a.v * b.v); }
  MLXC_INLINE friend FftPack operator*(FftPack a, int b) { return a * FftPack(b); }
  MLXC_INLINE FftPack operator-() const { return FftPack(-v); }
  MLXC_INLINE FftPack& operator+=(FftPack b) { return *this = *this + b; }
  MLXC_INLINE FftPack& operator-=(FftPack b) { return *this = *this - b; }
  MLXC_INLINE FftPack& operator*=(FftPack b) { return *this = *this * b; }
};

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu

/* Complex packs of our own making: what the standard's template does with other types than floats differs
 * from library to library. Products are the plain formula. */
template <class T, int N>
class std::complex<mlxc_cpu::FftPack<T, N>> {
 public:
  using value_type = mlxc_cpu::FftPack<T, N>;

  complex(value_type real = value_type(), value_type imag = value_type()) : re(real), im(imag) {}
  value_type real() const { return re; }
  value_type imag() const { return im; }
  MLXC_INLINE friend complex operator+(const complex& a, const complex& b) {
    return complex(a.re + b.re, a.im + b.im);
  }
  MLXC_INLINE friend complex operator-(const complex& a, const complex& b) {
    return complex(a.re - b.re, a.im - b.im);
  }
  MLXC_INLINE friend complex operator*(const complex& a, const complex& b) {
    return complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
  }
  MLXC_INLINE friend complex operator*(const complex& a, const value_type& b) {
    return complex(a.re * b, a.im * b);
  }
  MLXC_INLINE complex& operator+=(const complex& b) { return *this = *this + b; }
  MLXC_INLINE complex& operator-=(const complex& b) { return *this = *this - b; }
  MLXC_INLINE complex& operator*=(const complex& b) { return *this = *this * b; }
  MLXC_INLINE complex& operator*=(const value_type& b) { return *this = *this * b; }

 private:
  value_type re, im;
};

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* The longest line: the library counts in 32 bits. */
constexpr int64_t kFftLimit = INT64_C(1) << 27;
/* Up to this prime factor the library is faster than a convolution. */
constexpr int64_t kLargestFactor = 61;
/* Longer lines are cut into rows and columns. */
constexpr int64_t kShortLine = 128;
/* Numbers in all tables of a thread; beyond, they are made anew. */
constexpr int64_t kTableLimit = INT64_C(1) << 22;

#if defined(__AVX512F__)
constexpr int kFftBytes = 64;
#elif defined(__AVX__)
constexpr int kFftBytes = 32;
#else
constexpr int kFftBytes = 16;
#endif

inline int64_t largest_factor(int64_t n) {
  int64_t largest = 1;
  for (int64_t p = 2; p * p <= n; p++) {
    for (; n % p == 0; n /= p) largest = p;
  }
  return n > 1 ? n : largest;
}

/* exp(-2 pi i k / n) for 0 <= k < n, n even. Angles are reduced to an eighth of a turn in whole numbers. */
inline std::complex<double> turn(int64_t k, int64_t n) {
  constexpr double pi = 3.141592653589793238;
  const bool below = 2 * k > n; /* the conjugate of a place above the real axis */
  if (below) k = n - k;
  const bool left = 4 * k > n; /* the mirror image of a place to the right */
  if (left) k = n / 2 - k;
  const bool steep = 8 * k > n; /* beyond the diagonal sine and cosine change places */
  const double angle = steep ? pi * static_cast<double>(n - 4 * k) / static_cast<double>(2 * n)
                             : 2 * pi * static_cast<double>(k) / static_cast<double>(n);
  const double c = steep ? std::sin(angle) : std::cos(angle), s = steep ? std::cos(angle) : std::sin(angle);
  return {left ? -c : c, below ? s : -s};
}

template <class T>
MLXC_INLINE Complex<T> multiply_complex(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* One thread's transforms and their tables. Nothing is scaled; source and result never overlap. */
template <class T>
class FftEngine {
 public:
  static FftEngine& of_thread() {
    thread_local FftEngine engine;
    return engine;
  }

  /* `count` lines of n points beside each other: the sums of source[j] exp(-+ 2 pi i j k / n). */
  void transform(const Complex<T>* source, Complex<T>* result, int64_t count, int64_t n, bool inverse) {
    if (n == 1) {
      std::copy_n(source, count, result);
      return;
    }
    if (takes_chirp(n)) {
      for (int64_t i = 0; i < count; i++) transform_chirp(source + i * n, result + i * n, n, inverse);
    } else if (n <= kShortLine) {
      transform_short(source, result, count, n, inverse);
    } else {
      for (int64_t i = 0; i < count; i++) transform_long(source + i * n, result + i * n, n, inverse);
    }
  }

  /* Real numbers to frequencies 0 .. n / 2. */
  void forward_real(const T* source, Complex<T>* result, int64_t count, int64_t n) {
    const int64_t places = n / 2 + 1;
    if (n % 2 != 0) {
      line_.resize(static_cast<size_t>(2 * n));
      for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < n; j++) line_[static_cast<size_t>(j)] = {source[i * n + j], T(0)};
        transform(line_.data(), line_.data() + n, 1, n, false);
        std::copy_n(line_.data() + n, places, result + i * places);
      }
      return;
    }
    const int64_t half = n / 2;
    const Complex<T>* turns = half_turns(n);
    halves_.resize(static_cast<size_t>(count * half));
    transform(reinterpret_cast<const Complex<T>*>(source), halves_.data(), count, half, false);
    for (int64_t i = 0; i < count; i++) {
      const Complex<T>* from = halves_.data() + i * half;
      Complex<T>* to = result + i * places;
      to[0] = {from[0].re + from[0].im, T(0)};
      to[half] = {from[0].re - from[0].im, T(0)};
      for (int64_t k = 1; k <= half - k; k++) {
        const Complex<T> a = from[k], b = from[half - k];
        /* spectra of the even and of the odd places */
        const Complex<T> even{(a.re + b.re) / 2, (a.im - b.im) / 2},
            odd{(a.im + b.im) / 2, (b.re - a.re) / 2};
        const Complex<T> turned = multiply_complex(odd, turns[k]);
        to[k] = {even.re + turned.re, even.im + turned.im};
        to[half - k] = {even.re - turned.re, turned.im - even.im};
      }
    }
  }

  /* The way back; imaginary parts of frequency 0 and, for even n, n / 2 do not count. */
  void inverse_real(const Complex<T>* source, T* result, int64_t count, int64_t n) {
    const int64_t places = n / 2 + 1;
    if (n % 2 != 0) {
      line_.resize(static_cast<size_t>(2 * n));
      for (int64_t i = 0; i < count; i++) {
        const Complex<T>* from = source + i * places;
        line_[0] = {from[0].re, T(0)};
        for (int64_t k = 1; k <= n / 2; k++) {
          line_[static_cast<size_t>(k)] = from[k];
          line_[static_cast<size_t>(n - k)] = {from[k].re, -from[k].im};
        }
        transform(line_.data(), line_.data() + n, 1, n, true);
        for (int64_t j = 0; j < n; j++) result[i * n + j] = line_[static_cast<size_t>(n + j)].re;
      }
      return;
    }
    const int64_t half = n / 2;
    const Complex<T>* turns = half_turns(n);
    halves_.resize(static_cast<size_t>(count * half));
    for (int64_t i = 0; i < count; i++) {
      const Complex<T>* from = source + i * places;
      Complex<T>* to = halves_.data() + i * half;
      to[0] = {from[0].re + from[half].re, from[0].re - from[half].re};
      for (int64_t k = 1; k <= half - k; k++) {
        const Complex<T> a = from[k], b = from[half - k];
        const Complex<T> even{a.re + b.re, a.im - b.im}, difference{a.re - b.re, a.im + b.im};
        const Complex<T> odd = multiply_complex(difference, Complex<T>{turns[k].re, -turns[k].im});
        to[k] = {even.re - odd.im, even.im + odd.re};
        to[half - k] = {even.re + odd.im, odd.re - even.im};
      }
    }
    transform(halves_.data(), reinterpret_cast<Complex<T>*>(result), count, half, true);
  }

 private:
  static constexpr int kLanes = kFftBytes / static_cast<int>(sizeof(T));
  using Pack = FftPack<T, kLanes>;
  using PackComplex = std::complex<Pack>;

  /* How a long line is cut, and exp(-2 pi i j k / n) for column j and row k. */
  struct Cut {
    int64_t rows = 0, columns = 0;
    std::vector<Complex<T>> turns;
  };
  /* A chirp exp(-pi i j^2 / n), and the transform of its conjugate laid round a circle of `size`. */
  struct Chirp {
    int64_t size = 0;
    std::vector<Complex128> wave, filter;
  };

  /* Makes room for tables of so many numbers. */
  void reserve(int64_t count) {
    if (kept_ + count > kTableLimit && kept_ > 0) {
      library_.impl().clear();
      met_.clear();
      cuts_.clear();
      chirps_.clear();
      turns_.clear();
      kept_ = 0;
    }
    kept_ += count;
  }

  bool takes_chirp(int64_t n) {
    const auto found = met_.find(n);
    if (found != met_.end()) return found->second;
    return met_[n] = largest_factor(n) > kLargestFactor;
  }

  void call_library(int64_t n, bool inverse) {
    result_.resize(static_cast<size_t>(n));
    if (inverse) {
      library_.impl().inv(result_.data(), source_.data(), static_cast<int>(n));
    } else {
      library_.impl().fwd(result_.data(), source_.data(), static_cast<int>(n));
    }
  }

  /* One pack of lines whose points lie `step` apart, from lanes that lie `lane_step` apart. */
  MLXC_INLINE void load_lanes(const Complex<T>* from, int64_t n, int64_t step, int64_t lane_step,
                              int64_t lanes) {
    source_.resize(static_cast<size_t>(n));
    for (int64_t j = 0; j < n; j++) {
      T re[kLanes] = {}, im[kLanes] = {};
      const Complex<T>* at = from + j * step;
      if (lanes == kLanes) {
        for (int l = 0; l < kLanes; l++) {
          re[l] = at[l * lane_step].re;
          im[l] = at[l * lane_step].im;
        }
      } else {
        for (int64_t l = 0; l < lanes; l++) {
          re[l] = at[l * lane_step].re;
          im[l] = at[l * lane_step].im;
        }
      }
      typename Pack::Vector parts[2];
      std::memcpy(&parts[0], re, sizeof re);
      std::memcpy(&parts[1], im, sizeof im);
      source_[static_cast<size_t>(j)] = PackComplex(Pack(parts[0]), Pack(parts[1]));
    }
  }

  MLXC_INLINE void store_lanes(Complex<T>* to, int64_t n, int64_t step, int64_t lane_step,
                               int64_t lanes) const {
    for (int64_t j = 0; j < n; j++) {
      const PackComplex& value = result_[static_cast<size_t>(j)];
      const typename Pack::Vector re = value.real().v, im = value.imag().v;
      Complex<T>* at = to + j * step;
      if (lanes == kLanes) {
        for (int l = 0; l < kLanes; l++) at[l * lane_step] = {re[l], im[l]};
      } else {
        for (int64_t l = 0; l < lanes; l++) at[l * lane_step] = {re[l], im[l]};
      }
    }
  }

  void transform_short(const Complex<T>* source, Complex<T>* result, int64_t count, int64_t n, bool inverse) {
    for (int64_t i = 0; i < count; i += kLanes) {
      const int64_t lanes = count - i < kLanes ? count - i : kLanes;
      load_lanes(source + i * n, n, 1, n, lanes);
      call_library(n, inverse);
      store_lanes(result + i * n, n, 1, n, lanes);
    }
  }

  const Cut& cut_line(int64_t n) {
    const auto found = cuts_.find(n);
    if (found != cuts_.end()) return found->second;
    Cut cut;
    for (int64_t rows = 1; rows * rows <= n; rows++) {
      if (n % rows == 0) cut.rows = rows;
    }
    cut.columns = n / cut.rows;
    reserve(n + cut.columns);
    cut.turns.resize(static_cast<size_t>(n));
    for (int64_t k = 0; k < cut.rows; k++) {
      for (int64_t j = 0; j < cut.columns; j++) {
        const std::complex<double> value = turn(2 * j * k, 2 * n);
        cut.turns[static_cast<size_t>(k * cut.columns + j)] = {static_cast<T>(value.real()),
                                                               static_cast<T>(value.imag())};
      }
    }
    return cuts_.emplace(n, std::move(cut)).first->second;
  }

  /* Point j of the line stands in row j / columns. Columns are transformed, turned, then rows; frequency k of
   * a row r is frequency r + rows k of the line. */
  void transform_long(const Complex<T>* source, Complex<T>* result, int64_t n, bool inverse) {
    const Cut& cut = cut_line(n);
    const int64_t rows = cut.rows, columns = cut.columns;
    table_.resize(static_cast<size_t>(n));
    Complex<T>* table = table_.data();
    for (int64_t j = 0; j < columns; j += kLanes) {
      const int64_t lanes = columns - j < kLanes ? columns - j : kLanes;
      load_lanes(source + j, rows, columns, 1, lanes);
      call_library(rows, inverse);
      store_lanes(table + j, rows, columns, 1, lanes);
    }
    const Complex<T>* turns = cut.turns.data();
    if (inverse) {
      for (int64_t i = 0; i < n; i++) {
        table[i] = multiply_complex(table[i], Complex<T>{turns[i].re, -turns[i].im});
      }
    } else {
      for (int64_t i = 0; i < n; i++) table[i] = multiply_complex(table[i], turns[i]);
    }
    for (int64_t r = 0; r < rows; r += kLanes) {
      const int64_t lanes = rows - r < kLanes ? rows - r : kLanes;
      load_lanes(table + r * columns, columns, 1, columns, lanes);
      call_library(columns, inverse);
      store_lanes(result + r, columns, rows, 1, lanes);
    }
  }

  /* j k = (j^2 + k^2 - (k - j)^2) / 2 makes the sum a convolution with a chirp. The inverse is the transform
   * of the conjugate, conjugated. */
  void transform_chirp(const Complex<T>* source, Complex<T>* result, int64_t n, bool inverse) {
    FftEngine<double>& wide = FftEngine<double>::of_thread();
    const Chirp& chirp = make_chirp(n, wide);
    const auto size = static_cast<size_t>(chirp.size);
    first_.assign(size, Complex128{0, 0});
    second_.resize(size);
    for (size_t j = 0; j < static_cast<size_t>(n); j++) {
      const Complex128 x{static_cast<double>(source[j].re),
                         static_cast<double>(inverse ? -source[j].im : source[j].im)};
      first_[j] = multiply_complex(x, chirp.wave[j]);
    }
    wide.transform(first_.data(), second_.data(), 1, chirp.size, false);
    for (size_t j = 0; j < size; j++) first_[j] = multiply_complex(second_[j], chirp.filter[j]);
    wide.transform(first_.data(), second_.data(), 1, chirp.size, true);
    const double scale = 1.0 / static_cast<double>(size);
    for (size_t k = 0; k < static_cast<size_t>(n); k++) {
      const Complex128 y = multiply_complex(second_[k], chirp.wave[k]);
      result[k] = {static_cast<T>(y.re * scale), static_cast<T>(inverse ? -y.im * scale : y.im * scale)};
    }
  }

  const Chirp& make_chirp(int64_t n, FftEngine<double>& wide) {
    const auto found = chirps_.find(n);
    if (found != chirps_.end()) return found->second;
    Chirp chirp;
    chirp.size = 2 * n - 1;
    while (largest_factor(chirp.size) > 7) chirp.size++;
    reserve(n + chirp.size);
    chirp.wave.resize(static_cast<size_t>(n));
    chirp.filter.resize(static_cast<size_t>(chirp.size));
    std::vector<Complex128> circle(static_cast<size_t>(chirp.size), Complex128{0, 0});
    int64_t square = 0; /* j^2 modulo 2 n */
    for (int64_t j = 0; j < n; j++) {
      const std::complex<double> wave = turn(square, 2 * n);
      chirp.wave[static_cast<size_t>(j)] = {wave.real(), wave.imag()};
      circle[static_cast<size_t>(j)] =
          circle[static_cast<size_t>(j == 0 ? 0 : chirp.size - j)] = {wave.real(), -wave.imag()};
      square = (square + 2 * j + 1) % (2 * n);
    }
    wide.transform(circle.data(), chirp.filter.data(), 1, chirp.size, false);
    return chirps_.emplace(n, std::move(chirp)).first->second;
  }

  /* exp(-2 pi i k / n) for k up to n / 4. */
  const Complex<T>* half_turns(int64_t n) {
    auto found = turns_.find(n);
    if (found == turns_.end()) {
      const int64_t count = n / 4 + 1;
      reserve(count);
      std::vector<Complex<T>> turns(static_cast<size_t>(count));
      for (int64_t k = 0; k < count; k++) {
        const std::complex<double> value = turn(k, n);
        turns[static_cast<size_t>(k)] = {static_cast<T>(value.real()), static_cast<T>(value.imag())};
      }
      found = turns_.emplace(n, std::move(turns)).first;
    }
    return found->second.data();
  }

  Eigen::FFT<Pack> library_;
  std::map<int64_t, bool> met_; /* whether a length takes a chirp */
  std::map<int64_t, Cut> cuts_;
  std::map<int64_t, Chirp> chirps_;
  std::map<int64_t, std::vector<Complex<T>>> turns_;
  int64_t kept_ = 0;
  std::vector<PackComplex> source_, result_;
  std::vector<Complex<T>> line_, halves_, table_;
  std::vector<Complex128> first_, second_;
};

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
