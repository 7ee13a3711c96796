/* fft, rfft and irfft over any axes: one axis after the other, line by line, several lines at a time where
 * they lie beside each other in memory. Lines are spread over the threads; each is handed to the library
 * (fft.h) in dense memory.
 *
 * The first axis reads the input, whatever its layout; the others work in the result, or for irfft, whose
 * complex part comes first, in a copy.
 */
#include "fft.h"

#include <atomic>
#include <new>

#include "copy.h"
#include "parallel.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

/* Lines that are gathered together where neighbours share cache lines. */
constexpr int64_t kTogether = 16;

/* A strided array of which one axis is transformed. */
struct Side {
  void* data;
  const int64_t* strides;
};

/* One axis of one call: `sizes` are those of the lines' places (the axis itself counts as one). */
struct AxisPass {
  const char* op;
  int ndim;
  int axis;
  int64_t sizes[MLXC_MAX_NDIM];
  int64_t lines;
  int64_t n; /* of the real or longer side */

  AxisPass(const char* name, int axes, const int64_t* shape, int which, int64_t length)
      : op(name), ndim(axes), axis(which), lines(1), n(length) {
    for (int i = 0; i < ndim; i++) {
      sizes[i] = i == axis ? 1 : shape[i];
      lines *= sizes[i];
    }
  }
  int64_t offset(int64_t line, const int64_t* strides) const {
    int64_t at = 0;
    for (int i = ndim - 1; i >= 0; i--) {
      at += line % sizes[i] * strides[i];
      line /= sizes[i];
    }
    return at;
  }
};

/* Runs `fn(engine, from, to, count)` for all lines, `count` of them at a time beside each other: in_count
 * elements of In each, to out_count of Out. Each result is scaled. Lines that lie dense are neither gathered
 * nor copied. */
template <class T, class In, class Out, class F>
mlxc_error* run_lines(const AxisPass& pass, const Side& in, const Side& out, int64_t in_count,
                      int64_t out_count, double scale, const F& fn) {
  const int64_t in_stride = in.strides[pass.axis], out_stride = out.strides[pass.axis];
  const bool dense_lines = in_stride == 1 && out_stride == 1;
  const bool direct = dense_lines && in.data != out.data;
  const int64_t together = dense_lines && pass.n > 2 * kShortLine ? 1 : kTogether;
  const int64_t blocks = (pass.lines + together - 1) / together;
  const int64_t each = together * (in_count * static_cast<int64_t>(sizeof(In)) +
                                   out_count * static_cast<int64_t>(sizeof(Out)) + 64);
  int64_t workers = host->thread_count() > 0 ? host->thread_count() : 1;
  if (workers > blocks) workers = blocks;
  if (pass.lines * pass.n < 4096) workers = 1;
  Scratch scratch(static_cast<size_t>(workers * each));
  if (!scratch.ok()) return scratch.error();
  std::atomic<bool> out_of_memory{false};
  const T factor = static_cast<T>(scale);
  const In* source = static_cast<const In*>(in.data);
  Out* target = static_cast<Out*>(out.data);
  parallel_for(workers, 1, [&](int64_t first, int64_t last) {
    for (int64_t worker = first; worker < last; worker++) {
      In* dense = reinterpret_cast<In*>(scratch.as<char>() + worker * each);
      Out* made = reinterpret_cast<Out*>(dense + together * in_count);
      try {
        FftEngine<T>& engine = FftEngine<T>::of_thread();
        for (int64_t block = blocks * worker / workers; block < blocks * (worker + 1) / workers; block++) {
          const int64_t begin = block * together;
          const int64_t count = pass.lines - begin < together ? pass.lines - begin : together;
          int64_t from[kTogether], to[kTogether];
          for (int64_t c = 0; c < count; c++) {
            from[c] = pass.offset(begin + c, in.strides);
            to[c] = pass.offset(begin + c, out.strides);
          }
          const bool in_place = direct && count == 1;
          Out* result = in_place ? target + to[0] : made;
          if (!in_place) {
            for (int64_t j = 0; j < in_count; j++) {
              for (int64_t c = 0; c < count; c++) dense[c * in_count + j] = source[from[c] + j * in_stride];
            }
          }
          fn(engine, in_place ? source + from[0] : dense, result, count);
          T* parts = reinterpret_cast<T*>(result);
          if (factor != T(1)) {
            const int64_t numbers = count * out_count * static_cast<int64_t>(sizeof(Out) / sizeof(T));
            for (int64_t i = 0; i < numbers; i++) parts[i] *= factor;
          }
          if (!in_place) {
            for (int64_t j = 0; j < out_count; j++) {
              for (int64_t c = 0; c < count; c++) target[to[c] + j * out_stride] = made[c * out_count + j];
            }
          }
        }
      } catch (const std::bad_alloc&) {
        out_of_memory.store(true, std::memory_order_relaxed);
      }
    }
  });
  return out_of_memory.load() ? make_memory_error(static_cast<size_t>(pass.n) * sizeof(Out)) : nullptr;
}

template <class T>
mlxc_error* transform_axis(const AxisPass& pass, const Side& in, const Side& out, bool inverse,
                           double scale) {
  using Z = Complex<T>;
  return run_lines<T, Z, Z>(pass, in, out, pass.n, pass.n, scale,
                            [&](FftEngine<T>& engine, const Z* from, Z* to, int64_t count) {
                              engine.transform(from, to, count, pass.n, inverse);
                            });
}

mlxc_error* check_lengths(const char* op, const mlxc_view* view, const mlxc_axes& axes) {
  for (int32_t i = 0; i < axes.count; i++) {
    const int64_t n = view->shape[axes.items[i]];
    if (n > kFftLimit) {
      return make_error(MLXC_ERROR_VALUE, "%s: axis %d has %lld elements; the CPU transforms up to %lld", op,
                        axes.items[i], static_cast<long long>(n), static_cast<long long>(kFftLimit));
    }
  }
  return nullptr;
}

/* All axes but the last `skipped` of the list, in place but for the first, which reads `in`. */
template <class T>
mlxc_error* transform_axes(const char* op, const mlxc_axes& axes, int32_t skipped, const int64_t* shape,
                           int ndim, Side in, const Side& out, bool inverse, double scale) {
  for (int32_t i = axes.count - 1 - skipped; i >= 0; i--) {
    const AxisPass pass(op, ndim, shape, axes.items[i], shape[axes.items[i]]);
    if (mlxc_error* error = transform_axis<T>(pass, in, out, inverse, i == 0 ? scale : 1.0)) return error;
    in = out;
  }
  return nullptr;
}

template <class T>
mlxc_error* run_complex(const mlxc_kernel_call* call) {
  using Z = Complex<T>;
  const auto* p = params<mlxc_fft_params>(call);
  const mlxc_view *in = call->inputs[0], *out = call->outputs[0];
  if (mlxc_error* error = check_lengths("fft", in, p->axes)) return error;
  if (p->axes.count == 0) {
    copy_strided(out->host, out->strides, in->host, in->strides, in->shape, in->ndim, sizeof(Z));
    T* parts = data<T>(out);
    if (p->scale != 1) {
      for (int64_t i = 0; i < 2 * out->size; i++) parts[i] *= static_cast<T>(p->scale);
    }
    return nullptr;
  }
  return transform_axes<T>("fft", p->axes, 0, in->shape, in->ndim, {in->host, in->strides},
                           {out->host, out->strides}, p->inverse != 0, p->scale);
}

template <class T>
mlxc_error* run_forward_real(const mlxc_kernel_call* call) {
  using Z = Complex<T>;
  const auto* p = params<mlxc_rfft_params>(call);
  const mlxc_view *in = call->inputs[0], *out = call->outputs[0];
  if (mlxc_error* error = check_lengths("rfft", in, p->axes)) return error;
  const int axis = p->axes.items[p->axes.count - 1];
  const int64_t n = in->shape[axis];
  const AxisPass pass("rfft", in->ndim, in->shape, axis, n);
  const Side result{out->host, out->strides};
  mlxc_error* error = run_lines<T, T, Z>(pass, {in->host, in->strides}, result, n, n / 2 + 1,
                                         p->axes.count == 1 ? p->scale : 1.0,
                                         [&](FftEngine<T>& engine, const T* from, Z* to, int64_t count) {
                                           engine.forward_real(from, to, count, n);
                                         });
  if (error) return error;
  return transform_axes<T>("rfft", p->axes, 1, out->shape, out->ndim, result, result, false, p->scale);
}

template <class T>
mlxc_error* run_inverse_real(const mlxc_kernel_call* call) {
  using Z = Complex<T>;
  const auto* p = params<mlxc_irfft_params>(call);
  const mlxc_view *in = call->inputs[0], *out = call->outputs[0];
  if (mlxc_error* error = check_lengths("irfft", out, p->axes)) return error;
  Side source{in->host, in->strides};
  int64_t strides[MLXC_MAX_NDIM];
  const bool several = p->axes.count > 1;
  Scratch scratch(several ? static_cast<size_t>(in->size) * sizeof(Z) : 0);
  if (!scratch.ok()) return scratch.error();
  if (several) {
    int64_t step = 1;
    for (int i = in->ndim - 1; i >= 0; i--) {
      strides[i] = step;
      step *= in->shape[i];
    }
    const Side middle{scratch.as<void>(), strides};
    mlxc_error* error =
        transform_axes<T>("irfft", p->axes, 1, in->shape, in->ndim, source, middle, true, 1.0);
    if (error) return error;
    source = middle;
  }
  const int axis = p->axes.items[p->axes.count - 1];
  const AxisPass pass("irfft", in->ndim, in->shape, axis, p->n);
  return run_lines<T, Z, T>(pass, source, {out->host, out->strides}, p->n / 2 + 1, p->n, p->scale,
                            [&](FftEngine<T>& engine, const Z* from, T* to, int64_t count) {
                              engine.inverse_real(from, to, count, p->n);
                            });
}

mlxc_error* run_fft(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  if (call->outputs[0]->size == 0) return nullptr;
  return call->outputs[0]->dtype == MLXC_COMPLEX64 ? run_complex<float>(call) : run_complex<double>(call);
}
mlxc_error* run_rfft(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  if (call->outputs[0]->size == 0) return nullptr;
  return call->outputs[0]->dtype == MLXC_COMPLEX64 ? run_forward_real<float>(call)
                                                   : run_forward_real<double>(call);
}
mlxc_error* run_irfft(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  if (call->outputs[0]->size == 0) return nullptr;
  return call->outputs[0]->dtype == MLXC_FLOAT32 ? run_inverse_real<float>(call)
                                                 : run_inverse_real<double>(call);
}

constexpr mlxc_dtype_mask kRealParts = MLXC_DTYPE_BIT(MLXC_FLOAT32) | MLXC_DTYPE_BIT(MLXC_FLOAT64);
const mlxc_kernel kRows[] = {
    make_row(MLXC_OP_FFT, kMaskComplex, kMaskComplex, run_fft),
    make_row(MLXC_OP_RFFT, kRealParts, kMaskComplex, run_rfft),
    make_row(MLXC_OP_IRFFT, kMaskComplex, kRealParts, run_irfft),
};

}  // namespace

KernelRows fft_rows() { return {kRows, sizeof kRows / sizeof kRows[0]}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
