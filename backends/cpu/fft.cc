/* The FFT library behind fft.h: Eigen's, which is KISS FFT. It takes any length, but for a large prime factor
 * its time grows with the square; such lengths go by way of a convolution (Bluestein 1970) with a transform
 * whose length is a power of two, in double, so that float loses nothing by it. Real lines of even length are
 * complex ones of half the length.
 */
#include "fft.h"

#include <cmath>
#include <complex>
#include <map>
#include <vector>

#define EIGEN_MPL2_ONLY
#include <unsupported/Eigen/FFT>

namespace mlxc_cpu {
namespace {

/* Up to this prime factor the library is faster than the convolution. */
constexpr int64_t kLargestFactor = 61;
/* Numbers in all tables of a thread; beyond, they are made anew. */
constexpr int64_t kTableLimit = INT64_C(1) << 22;
constexpr double kPi = 3.141592653589793238;

int64_t largest_factor(int64_t n) {
  int64_t largest = 1;
  for (int64_t p = 2; p * p <= n; p++) {
    for (; n % p == 0; n /= p) largest = p;
  }
  return n > 1 ? n : largest;
}

/* exp(-2 pi i k / n) for 0 <= k < n, n even. Angles are reduced to an eighth of a turn in whole numbers. */
std::complex<double> turn(int64_t k, int64_t n) {
  const bool below = 2 * k > n; /* the conjugate of a place above the real axis */
  if (below) k = n - k;
  const bool left = 4 * k > n; /* the mirror image of a place to the right */
  if (left) k = n / 2 - k;
  const bool steep = 8 * k > n; /* beyond the diagonal sine and cosine change places */
  const double angle = steep ? kPi * static_cast<double>(n - 4 * k) / static_cast<double>(2 * n)
                             : 2 * kPi * static_cast<double>(k) / static_cast<double>(n);
  const double c = steep ? std::sin(angle) : std::cos(angle), s = steep ? std::cos(angle) : std::sin(angle);
  return {left ? -c : c, below ? s : -s};
}

/* A chirp exp(-pi i j^2 / n), and the transform of its conjugate laid round a circle of `size`. */
struct Chirp {
  int64_t size = 0;
  std::vector<std::complex<double>> wave, filter;
};

}  // namespace

template <class T>
struct FftEngine<T>::Tables {
  Eigen::FFT<T> library;
  std::map<std::pair<int64_t, bool>, bool> met; /* length and direction: whether it takes a chirp */
  std::map<int64_t, Chirp> chirps;
  std::map<int64_t, std::vector<Complex<T>>> turns;
  std::vector<std::complex<double>> first, second;
  std::vector<Complex<T>> line;
  int64_t kept = 0;

  /* Makes room for tables of so many numbers. */
  void reserve(int64_t count) {
    if (kept + count > kTableLimit && kept > 0) {
      library.impl().clear();
      met.clear();
      chirps.clear();
      turns.clear();
      kept = 0;
    }
    kept += count;
  }
};

template <class T>
FftEngine<T>::FftEngine() : tables_(new Tables) {}
template <class T>
FftEngine<T>::~FftEngine() {
  delete tables_;
}

template <class T>
FftEngine<T>& FftEngine<T>::of_thread() {
  thread_local FftEngine engine;
  return engine;
}

template <class T>
void FftEngine<T>::transform(const Complex<T>* source, Complex<T>* result, int64_t n, bool inverse) {
  if (n == 1) {
    result[0] = source[0];
    return;
  }
  auto found = tables_->met.find({n, inverse});
  if (found == tables_->met.end()) {
    const bool chirps = largest_factor(n) > kLargestFactor;
    if (!chirps) tables_->reserve(n);
    found = tables_->met.emplace(std::make_pair(n, inverse), chirps).first;
  }
  if (found->second) {
    transform_chirp(source, result, n, inverse);
    return;
  }
  const auto* from = reinterpret_cast<const std::complex<T>*>(source);
  auto* to = reinterpret_cast<std::complex<T>*>(result);
  if (inverse) {
    tables_->library.impl().inv(to, from, static_cast<int>(n));
  } else {
    tables_->library.impl().fwd(to, from, static_cast<int>(n));
  }
}

/* j k = (j^2 + k^2 - (k - j)^2) / 2 makes the sum a convolution with a chirp. The inverse is the transform of
 * the conjugate, conjugated. */
template <class T>
void FftEngine<T>::transform_chirp(const Complex<T>* source, Complex<T>* result, int64_t n, bool inverse) {
  using Z = std::complex<double>;
  auto& library = FftEngine<double>::of_thread().tables_->library;
  if (tables_->chirps.find(n) == tables_->chirps.end()) {
    int64_t size = 1;
    while (size < 2 * n - 1) size *= 2;
    tables_->reserve(n + 3 * size);
    tables_->met[{n, inverse}] = true;
    Chirp chirp;
    chirp.size = size;
    chirp.wave.resize(static_cast<size_t>(n));
    chirp.filter.resize(static_cast<size_t>(size));
    std::vector<Z> circle(static_cast<size_t>(size));
    int64_t square = 0; /* j^2 modulo 2 n */
    for (int64_t j = 0; j < n; j++) {
      const Z wave = turn(square, 2 * n);
      chirp.wave[static_cast<size_t>(j)] = wave;
      circle[static_cast<size_t>(j)] = circle[static_cast<size_t>(j == 0 ? 0 : size - j)] = std::conj(wave);
      square = (square + 2 * j + 1) % (2 * n);
    }
    library.impl().fwd(chirp.filter.data(), circle.data(), static_cast<int>(size));
    tables_->chirps.emplace(n, std::move(chirp));
  }
  const Chirp& chirp = tables_->chirps.at(n);
  const auto size = static_cast<size_t>(chirp.size);
  auto &first = tables_->first, &second = tables_->second;
  first.assign(size, Z(0));
  second.resize(size);
  const auto multiply = [](Z a, Z b) {
    return Z(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  };
  for (size_t j = 0; j < static_cast<size_t>(n); j++) {
    const Z x(static_cast<double>(source[j].re), static_cast<double>(inverse ? -source[j].im : source[j].im));
    first[j] = multiply(x, chirp.wave[j]);
  }
  library.impl().fwd(second.data(), first.data(), static_cast<int>(size));
  for (size_t j = 0; j < size; j++) second[j] = multiply(second[j], chirp.filter[j]);
  library.impl().inv(first.data(), second.data(), static_cast<int>(size));
  const double scale = 1.0 / static_cast<double>(size);
  for (size_t k = 0; k < static_cast<size_t>(n); k++) {
    const Z y = multiply(first[k], chirp.wave[k]) * scale;
    result[k] = {static_cast<T>(y.real()), static_cast<T>(inverse ? -y.imag() : y.imag())};
  }
}

/* exp(-2 pi i k / n) for k up to n / 4. */
template <class T>
const Complex<T>* FftEngine<T>::half_turns(int64_t n) {
  auto found = tables_->turns.find(n);
  if (found == tables_->turns.end()) {
    const int64_t count = n / 4 + 1;
    tables_->reserve(count);
    std::vector<Complex<T>> turns(static_cast<size_t>(count));
    for (int64_t k = 0; k < count; k++) {
      const std::complex<double> value = turn(k, n);
      turns[static_cast<size_t>(k)] = {static_cast<T>(value.real()), static_cast<T>(value.imag())};
    }
    found = tables_->turns.emplace(n, std::move(turns)).first;
  }
  return found->second.data();
}

template <class T>
void FftEngine<T>::forward_real(T* source, Complex<T>* result, int64_t n) {
  if (n % 2 != 0) {
    auto& line = tables_->line;
    line.resize(static_cast<size_t>(2 * n));
    for (int64_t j = 0; j < n; j++) line[static_cast<size_t>(j)] = {source[j], T(0)};
    transform(line.data(), line.data() + n, n, false);
    for (int64_t k = 0; k <= n / 2; k++) result[k] = line[static_cast<size_t>(n + k)];
    return;
  }
  const int64_t half = n / 2;
  transform(reinterpret_cast<const Complex<T>*>(source), result, half, false);
  const Complex<T>* turns = half_turns(n);
  const Complex<T> start = result[0];
  result[0] = {start.re + start.im, T(0)};
  result[half] = {start.re - start.im, T(0)};
  for (int64_t k = 1; k <= half - k; k++) {
    const Complex<T> a = result[k], b = result[half - k];
    /* spectra of the even and of the odd places */
    const Complex<T> even{(a.re + b.re) / 2, (a.im - b.im) / 2}, odd{(a.im + b.im) / 2, (b.re - a.re) / 2};
    const Complex<T> turned{odd.re * turns[k].re - odd.im * turns[k].im,
                            odd.re * turns[k].im + odd.im * turns[k].re};
    result[k] = {even.re + turned.re, even.im + turned.im};
    result[half - k] = {even.re - turned.re, turned.im - even.im};
  }
}

template <class T>
void FftEngine<T>::inverse_real(Complex<T>* source, T* result, int64_t n) {
  source[0].im = 0;
  if (n % 2 != 0) {
    auto& line = tables_->line;
    line.resize(static_cast<size_t>(2 * n));
    line[0] = source[0];
    for (int64_t k = 1; k <= n / 2; k++) {
      line[static_cast<size_t>(k)] = source[k];
      line[static_cast<size_t>(n - k)] = {source[k].re, -source[k].im};
    }
    transform(line.data(), line.data() + n, n, true);
    for (int64_t j = 0; j < n; j++) result[j] = line[static_cast<size_t>(n + j)].re;
    return;
  }
  const int64_t half = n / 2;
  const Complex<T>* turns = half_turns(n);
  const T low = source[0].re, high = source[half].re;
  source[0] = {low + high, low - high};
  for (int64_t k = 1; k <= half - k; k++) {
    const Complex<T> a = source[k], b = source[half - k];
    const Complex<T> even{a.re + b.re, a.im - b.im}, difference{a.re - b.re, a.im + b.im};
    const Complex<T> odd{difference.re * turns[k].re + difference.im * turns[k].im,
                         difference.im * turns[k].re - difference.re * turns[k].im};
    source[k] = {even.re - odd.im, even.im + odd.re};
    source[half - k] = {even.re + odd.im, odd.re - even.im};
  }
  transform(source, reinterpret_cast<Complex<T>*>(result), half, true);
}

template class FftEngine<float>;
template class FftEngine<double>;

}  // namespace mlxc_cpu
