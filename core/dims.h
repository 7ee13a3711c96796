// Shapes, strides and axes as small lists with inline room for MLXC_MAX_NDIM values. Copies touch
// only the values in use. Axes and Sizes are the same structs that parameter structs of ops hold.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "mlxc/ops.h"

namespace mlxc {

using Axes = mlxc_axes;
using Sizes = mlxc_sizes;

struct Dims {
  int32_t n = 0;
  int64_t v[MLXC_MAX_NDIM];

  Dims() = default;
  Dims(std::span<const int64_t> values);
  Dims(std::initializer_list<int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  Dims(const Dims& other) { *this = other; }
  Dims& operator=(const Dims& other) {
    n = other.n;
    for (int i = 0; i < n; i++) v[i] = other.v[i];
    return *this;
  }
  int64_t& operator[](int i) { return v[i]; }
  int64_t operator[](int i) const { return v[i]; }
  void push(int64_t value);  // fails past MLXC_MAX_NDIM
  std::span<const int64_t> span() const { return {v, static_cast<size_t>(n)}; }
  bool operator==(const Dims& other) const;
};

Axes make_axes(std::span<const int32_t> values);
inline Axes make_axes(std::initializer_list<int32_t> values) {
  return make_axes(std::span(values.begin(), values.size()));
}
Axes all_axes(int ndim);
Sizes make_sizes(std::span<const int64_t> values);
Dims to_dims(const Sizes& sizes);

// Product of the sizes; fails where it, or it times itemsize, passes 2^62.
int64_t checked_size(const char* op, std::span<const int64_t> shape, int64_t itemsize = 16);
// Row-major strides in elements.
Dims row_major_strides(std::span<const int64_t> shape);
// "(2, 3)"
std::string shape_text(std::span<const int64_t> shape);
inline std::string shape_text(const Dims& d) { return shape_text(d.span()); }
// -1 counts from the end; out of range is MLXC_ERROR_AXIS naming the op.
int normalize_axis(const char* op, int64_t axis, int ndim);
// Sorted, non-negative, without repeats (a repeat is MLXC_ERROR_VALUE); count -1 becomes all axes.
void normalize_axes(const char* op, Axes& axes, int ndim);
// NumPy's broadcasting; a mismatch is MLXC_ERROR_VALUE naming the op and both shapes.
Dims broadcast_shapes(const char* op, std::span<const int64_t> a, std::span<const int64_t> b);

}  // namespace mlxc
