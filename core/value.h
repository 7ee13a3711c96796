// Single elements of any dtype, read and written on the host. For whole arrays the kernels are used.
#pragma once

#include <cstdint>

#include "mlxc/types.h"

namespace mlxc {

// A number in its widest form.
struct Value {
  enum Kind { integer, unsigned_integer, real, complex } kind;
  int64_t i = 0;
  uint64_t u = 0;
  double re = 0, im = 0;
};

Value load_value(const void* from, mlxc_dtype dtype);
// Converts as a cast does: floats truncate towards zero, integers wrap, complex loses its imaginary part.
void store_value(void* to, mlxc_dtype dtype, const Value& value);
// Whether an integer can be held by the dtype (floats: always).
bool fits(const Value& value, mlxc_dtype dtype);

inline Value int_value(int64_t i) {
  return {Value::integer, i, static_cast<uint64_t>(i), static_cast<double>(i), 0};
}
inline Value uint_value(uint64_t u) {
  return {Value::unsigned_integer, static_cast<int64_t>(u), u, static_cast<double>(u), 0};
}
inline Value real_value(double x) { return {Value::real, 0, 0, x, 0}; }
inline Value complex_value(double re, double im) { return {Value::complex, 0, 0, re, im}; }
int64_t to_int(const Value& value);
uint64_t to_uint(const Value& value);
inline double to_real(const Value& value) { return value.re; }

}  // namespace mlxc
