// Shapes, strides and axes: checked construction, sizes, broadcasting and how they read in messages.
// Shape rules and the C functions call these with values that come from users.
//
// Rule: everything is checked here once, so that later code may multiply sizes without overflow and
// index by axes without a bound check.
#include "core/dims.h"

#include <algorithm>

#include "core/error.h"

namespace mlxc {

namespace {

void check_ndim(size_t count) {
  if (count > MLXC_MAX_NDIM) {
    fail(MLXC_ERROR_VALUE, "arrays have at most ", MLXC_MAX_NDIM, " axes, not ", count);
  }
}

}  // namespace

Dims::Dims(std::span<const int64_t> values) {
  check_ndim(values.size());
  n = static_cast<int32_t>(values.size());
  for (int i = 0; i < n; i++) v[i] = values[i];
}

void Dims::push(int64_t value) {
  check_ndim(static_cast<size_t>(n) + 1);
  v[n++] = value;
}

bool Dims::operator==(const Dims& other) const { return n == other.n && std::equal(v, v + n, other.v); }

// The unused places are zeroed here; callers from C may leave anything in them, and nothing reads them.
Axes make_axes(std::span<const int32_t> values) {
  check_ndim(values.size());
  Axes axes{};
  axes.count = static_cast<int32_t>(values.size());
  std::copy(values.begin(), values.end(), axes.items);
  return axes;
}

Axes all_axes(int ndim) {
  check_ndim(static_cast<size_t>(ndim));
  Axes axes{};
  axes.count = ndim;
  for (int i = 0; i < ndim; i++) axes.items[i] = i;
  return axes;
}

Sizes make_sizes(std::span<const int64_t> values) {
  check_ndim(values.size());
  Sizes sizes{};
  sizes.count = static_cast<int64_t>(values.size());
  std::copy(values.begin(), values.end(), sizes.items);
  return sizes;
}

Dims to_dims(const Sizes& sizes) {
  if (sizes.count < 0) fail(MLXC_ERROR_VALUE, "a list of sizes cannot have ", sizes.count, " entries");
  return Dims(std::span(sizes.items, static_cast<size_t>(std::min<int64_t>(sizes.count, MLXC_MAX_NDIM + 1))));
}

// On the path of every recorded op: small sizes take no division.
int64_t checked_size(const char* op, std::span<const int64_t> shape, int64_t itemsize) {
  constexpr int64_t limit = int64_t{1} << 62, small = int64_t{1} << 31;
  // Zeros are left out of the bound, so that strides computed from the other sizes fit too.
  int64_t count = 1;
  bool empty = false, fits = true;
  for (const int64_t size : shape) {
    if (size < 0) fail(MLXC_ERROR_VALUE, op, ": negative size in the shape ", shape_text(shape));
    empty = empty || size == 0;
    if (size == 0) continue;
    if ((size >= small || count >= small) && count > limit / size) {
      fits = false;
      break;
    }
    count *= size;
  }
  if (!fits || (count >= small && count > limit / itemsize)) {
    fail(MLXC_ERROR_VALUE, op, ": an array of shape ", shape_text(shape), " is too large");
  }
  return empty ? 0 : count;
}

Dims row_major_strides(std::span<const int64_t> shape) {
  Dims strides(shape);
  int64_t step = 1;
  for (int i = strides.n - 1; i >= 0; i--) {
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); i++) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  if (shape.size() == 1) text += ",";
  return text + ")";
}

int normalize_axis(const char* op, int64_t axis, int ndim) {
  if (axis < -ndim || axis >= ndim) {
    fail(MLXC_ERROR_AXIS, op, ": axis ", axis, " is out of range for an array of ", ndim,
         ndim == 1 ? " axis" : " axes");
  }
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

void normalize_axes(const char* op, Axes& axes, int ndim) {
  if (axes.count == -1) {
    axes = all_axes(ndim);
    return;
  }
  if (axes.count < -1 || axes.count > MLXC_MAX_NDIM) {
    fail(MLXC_ERROR_VALUE, op, ": ", axes.count, " axes given; an array has at most ", MLXC_MAX_NDIM);
  }
  for (int i = 0; i < axes.count; i++) axes.items[i] = normalize_axis(op, axes.items[i], ndim);
  std::sort(axes.items, axes.items + axes.count);
  for (int i = 1; i < axes.count; i++) {
    if (axes.items[i] == axes.items[i - 1]) {
      fail(MLXC_ERROR_VALUE, op, ": axis ", axes.items[i], " is named twice");
    }
  }
}

Dims broadcast_shapes(const char* op, std::span<const int64_t> a, std::span<const int64_t> b) {
  const std::span<const int64_t> longer = a.size() >= b.size() ? a : b;
  const std::span<const int64_t> shorter = a.size() >= b.size() ? b : a;
  Dims shape(longer);
  const size_t lead = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); i++) {
    const int64_t size = longer[lead + i], other = shorter[i];
    if (size == other || other == 1) continue;
    if (size != 1) {
      fail(MLXC_ERROR_VALUE, op, ": shapes ", shape_text(a), " and ", shape_text(b),
           " do not broadcast together");
    }
    shape[static_cast<int>(lead + i)] = other;
  }
  return shape;
}

}  // namespace mlxc
