// Rules of fft, rfft and irfft. The axes are explicit and non-negative after the shape rule; their order is
// kept, for the last of them is the one along which rfft and irfft halve and double.
//
// Rule: no op scales by itself. The transforms are linear, and the transpose of each is one of the others:
// fft's is fft with the exponent's sign turned; rfft and irfft meet each frequency between the ends twice, as
// itself and as its conjugate, which their gradients make up for.
#include <algorithm>

#include "core/ops/common.h"

namespace mlxc {

namespace {

mlxc_dtype complex_dtype(mlxc_dtype dtype) {
  return dtype == MLXC_FLOAT64 || dtype == MLXC_COMPLEX128 ? MLXC_COMPLEX128 : MLXC_COMPLEX64;
}

void check_fft_axes(const Recording& rec, Axes& axes) {
  const Node& a = rec.input(0);
  if (axes.count == -1) axes = all_axes(a.ndim);
  for (int i = 0; i < axes.count; i++) {
    axes.items[i] = normalize_axis(rec.name(), axes.items[i], a.ndim);
    if (std::find(axes.items, axes.items + i, axes.items[i]) != axes.items + i) {
      fail(MLXC_ERROR_VALUE, rec.name(), ": axis ", axes.items[i], " is named twice");
    }
    if (a.shape_data()[axes.items[i]] == 0) {
      fail(MLXC_ERROR_VALUE, rec.name(), ": axis ", axes.items[i], " of shape ", shape_text(a.shape()),
           " is empty; a transform needs at least one element");
    }
  }
}

int last_axis(const Recording& rec, const Axes& axes) {
  if (axes.count < 1) fail(MLXC_ERROR_VALUE, rec.name(), ": needs at least one axis");
  return axes.items[axes.count - 1];
}

// One along the axis at frequencies that are their own conjugates (0, and n / 2 for even n), `between`
// elsewhere; of a shape that broadcasts against `like`.
Array frequency_weights(const Array& like, int axis, int64_t n, double between) {
  const mlxc_dtype dtype = real_dtype(like.dtype());
  const int64_t count = n / 2 + 1;
  const Array k = iota(count, axis, like.ndim(), MLXC_INT64);
  Array ends = op::equal(k, scalar(0, MLXC_INT64));
  if (n % 2 == 0) ends = op::logical_or(ends, op::equal(k, scalar(static_cast<double>(n / 2), MLXC_INT64)));
  return op::where(ends, scalar(1, dtype), scalar(between, dtype));
}

// The axes behind the batch.
Axes shift_axes(const Axes& axes) {
  Axes shifted = axes;
  for (int i = 0; i < shifted.count; i++) shifted.items[i]++;
  return shifted;
}

}  // namespace

void infer_fft(Recording& rec) {
  check_fft_axes(rec, rec.params_as<mlxc_fft_params>().axes);
  const Node& a = rec.input(0);
  rec.out[0] = {complex_dtype(a.dtype), Dims(a.shape())};
  rec.cast_input(0, rec.out[0].dtype);
}

void infer_rfft(Recording& rec) {
  auto& params = rec.params_as<mlxc_rfft_params>();
  const Node& a = rec.input(0);
  check_accepts(*rec.op, a.dtype);
  check_fft_axes(rec, params.axes);
  const mlxc_dtype dtype = complex_dtype(a.dtype);
  Dims shape(a.shape());
  const int axis = last_axis(rec, params.axes);
  shape[axis] = shape[axis] / 2 + 1;
  rec.out[0] = {dtype, shape};
  rec.cast_input(0, real_dtype(dtype));
}

void infer_irfft(Recording& rec) {
  auto& params = rec.params_as<mlxc_irfft_params>();
  const Node& a = rec.input(0);
  check_fft_axes(rec, params.axes);
  const mlxc_dtype dtype = complex_dtype(a.dtype);
  Dims shape(a.shape());
  const int axis = last_axis(rec, params.axes);
  if (params.n < 1 || shape[axis] != params.n / 2 + 1) {
    fail(MLXC_ERROR_VALUE, "irfft: a result of size ", params.n, " along axis ", axis, " needs ",
         params.n < 1 ? 1 : params.n / 2 + 1, " frequencies there, got shape ", shape_text(a.shape()));
  }
  shape[axis] = params.n;
  rec.out[0] = {real_dtype(dtype), shape};
  rec.cast_input(0, dtype);
}

void vjp_fft(const Vjp& vjp, Array* grads) {
  const auto& p = vjp.params_as<mlxc_fft_params>();
  grads[0] = op::fft(vjp.cotangent(), p.axes, !p.inverse, p.scale);
}

void vjp_rfft(const Vjp& vjp, Array* grads) {
  const auto& p = vjp.params_as<mlxc_rfft_params>();
  const Array& g = vjp.cotangent();
  const int axis = p.axes.items[p.axes.count - 1];
  const int64_t n = vjp.inputs[0].dim(axis);
  grads[0] = op::irfft(op::multiply(g, frequency_weights(g, axis, n, 0.5)), p.axes, n, p.scale);
}

void vjp_irfft(const Vjp& vjp, Array* grads) {
  const auto& p = vjp.params_as<mlxc_irfft_params>();
  const Array spectrum = op::rfft(vjp.cotangent(), p.axes, p.scale);
  const int axis = p.axes.items[p.axes.count - 1];
  grads[0] = op::multiply(spectrum, frequency_weights(spectrum, axis, p.n, 2));
}

void vmap_fft(const Vmap& vmap, Array* results) {
  const Array& a = vmap.inputs[0];
  if (vmap.op->number == MLXC_OP_FFT) {
    const auto& p = vmap.params_as<mlxc_fft_params>();
    results[0] = op::fft(a, shift_axes(p.axes), p.inverse, p.scale);
  } else if (vmap.op->number == MLXC_OP_RFFT) {
    const auto& p = vmap.params_as<mlxc_rfft_params>();
    results[0] = op::rfft(a, shift_axes(p.axes), p.scale);
  } else {
    const auto& p = vmap.params_as<mlxc_irfft_params>();
    results[0] = op::irfft(a, shift_axes(p.axes), p.n, p.scale);
  }
}

}  // namespace mlxc
