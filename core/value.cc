// Implements value.h.
#include "core/value.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace mlxc {

namespace {

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0)
    return std::bit_cast<float>(sign |
                                std::bit_cast<uint32_t>(std::ldexp(static_cast<float>(mantissa), -24)));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Rounds a double once, to nearest even, to a float with `mantissa` bits and the exponent range given.
double round_to(double x, int mantissa, int least_exponent) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent;
  std::frexp(x, &exponent);
  const int unit = std::max(exponent - 1, least_exponent) - mantissa;
  return std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
}

uint16_t double_to_half(double x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | 0x7e00;
  const double r = std::fabs(round_to(x, 10, -14));
  if (r > 65504) return sign | 0x7c00;
  int exponent;
  if (r == 0) return sign;
  std::frexp(r, &exponent);
  if (exponent - 1 < -14) return sign | static_cast<uint16_t>(std::ldexp(r, 24));
  return sign | static_cast<uint16_t>(((exponent - 1 + 15) << 10) |
                                      (static_cast<int>(std::ldexp(r, 10 - (exponent - 1))) & 1023));
}

uint16_t double_to_bfloat(double x) {
  if (std::isnan(x)) return std::signbit(x) ? 0xffc0 : 0x7fc0;
  const auto r = static_cast<float>(round_to(x, 7, -126));
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(r) >> 16);
}

template <class T>
T read(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
void write(void* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace

// Out of range and NaN give what a cast on the CPU gives: the least integer; conversions stay defined.
int64_t to_int(const Value& value) {
  if (value.kind == Value::integer || value.kind == Value::unsigned_integer)
    return static_cast<int64_t>(value.u);
  if (!(value.re > -9.3e18 && value.re < 9.2233720368547748e18)) {
    if (value.re >= 9.2e18 && value.re < 1.8446744073709552e19)
      return static_cast<int64_t>(static_cast<uint64_t>(value.re));
    return INT64_MIN;
  }
  return value.re < -9.2233720368547758e18 ? INT64_MIN : static_cast<int64_t>(value.re);
}

uint64_t to_uint(const Value& value) { return static_cast<uint64_t>(to_int(value)); }

Value load_value(const void* from, mlxc_dtype dtype) {
  switch (dtype) {
    case MLXC_BOOL: return int_value(read<uint8_t>(from) != 0);
    case MLXC_UINT8: return int_value(read<uint8_t>(from));
    case MLXC_UINT16: return int_value(read<uint16_t>(from));
    case MLXC_UINT32: return int_value(read<uint32_t>(from));
    case MLXC_UINT64: return uint_value(read<uint64_t>(from));
    case MLXC_INT8: return int_value(read<int8_t>(from));
    case MLXC_INT16: return int_value(read<int16_t>(from));
    case MLXC_INT32: return int_value(read<int32_t>(from));
    case MLXC_INT64: return int_value(read<int64_t>(from));
    case MLXC_FLOAT16: return real_value(half_to_float(read<uint16_t>(from)));
    case MLXC_BFLOAT16:
      return real_value(std::bit_cast<float>(static_cast<uint32_t>(read<uint16_t>(from)) << 16));
    case MLXC_FLOAT32: return real_value(read<float>(from));
    case MLXC_FLOAT64: return real_value(read<double>(from));
    case MLXC_COMPLEX64: {
      const auto* parts = static_cast<const char*>(from);
      return complex_value(read<float>(parts), read<float>(parts + 4));
    }
    default: {
      const auto* parts = static_cast<const char*>(from);
      return complex_value(read<double>(parts), read<double>(parts + 8));
    }
  }
}

void store_value(void* to, mlxc_dtype dtype, const Value& value) {
  switch (dtype) {
    case MLXC_BOOL: {
      const bool truth = value.kind == Value::integer || value.kind == Value::unsigned_integer
                             ? value.u != 0
                             : value.re != 0 || value.im != 0;
      return write<uint8_t>(to, truth);
    }
    case MLXC_UINT8: return write(to, static_cast<uint8_t>(to_int(value)));
    case MLXC_UINT16: return write(to, static_cast<uint16_t>(to_int(value)));
    case MLXC_UINT32: return write(to, static_cast<uint32_t>(to_int(value)));
    case MLXC_UINT64: return write(to, to_uint(value));
    case MLXC_INT8: return write(to, static_cast<int8_t>(to_int(value)));
    case MLXC_INT16: return write(to, static_cast<int16_t>(to_int(value)));
    case MLXC_INT32: return write(to, static_cast<int32_t>(to_int(value)));
    case MLXC_INT64: return write(to, to_int(value));
    case MLXC_FLOAT16: return write(to, double_to_half(value.re));
    case MLXC_BFLOAT16: return write(to, double_to_bfloat(value.re));
    case MLXC_FLOAT32: return write(to, static_cast<float>(value.re));
    case MLXC_FLOAT64: return write(to, value.re);
    case MLXC_COMPLEX64: {
      auto* parts = static_cast<char*>(to);
      write(parts, static_cast<float>(value.re));
      return write(parts + 4, static_cast<float>(value.im));
    }
    default: {
      auto* parts = static_cast<char*>(to);
      write(parts, value.re);
      return write(parts + 8, value.im);
    }
  }
}

bool fits(const Value& value, mlxc_dtype dtype) {
  if (dtype == MLXC_BOOL || dtype >= MLXC_FLOAT16 || value.kind == Value::real ||
      value.kind == Value::complex)
    return true;
  const bool negative = value.kind == Value::integer && value.i < 0;
  if (dtype >= MLXC_UINT8 && dtype <= MLXC_UINT64) {
    const int bits = 8 << (dtype - MLXC_UINT8);
    return !negative && (bits == 64 || value.u < (uint64_t{1} << bits));
  }
  const int bits = 8 << (dtype - MLXC_INT8);
  const uint64_t limit = uint64_t{1} << (bits - 1);
  return negative ? static_cast<uint64_t>(-(value.i + 1)) < limit : value.u < limit;
}

}  // namespace mlxc
