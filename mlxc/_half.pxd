# float16 and bfloat16 to and from double, each rounded once to nearest even.
#
# Used where Python numbers meet arrays of these dtypes; kernels have their own, vectorised ones.
from libc.stdint cimport uint16_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint16_t mlxc_double_to_narrow(double x, int exponent_bits, int mantissa_bits) {
      uint64_t bits;
      memcpy(&bits, &x, 8);
      const uint32_t sign = (uint32_t)(bits >> 63) << 15;
      const uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
      const int exponent = (int)((bits >> 52) & 0x7ff);
      const uint32_t infinity = ((UINT32_C(1) << exponent_bits) - 1) << mantissa_bits;
      if (exponent == 0x7ff) {
        return (uint16_t)(sign | infinity | (mantissa ? UINT32_C(1) << (mantissa_bits - 1) : 0));
      }
      int scaled = exponent - 1023 + (1 << (exponent_bits - 1)) - 1;
      int shift = 52 - mantissa_bits;
      if (scaled <= 0) {
        shift += 1 - scaled;
        scaled = 0;
        if (shift > 54 || exponent == 0) return (uint16_t)sign;
      }
      const uint64_t full = mantissa | (UINT64_C(1) << 52);
      const uint64_t rest = full & ((UINT64_C(1) << shift) - 1);
      const uint64_t half = UINT64_C(1) << (shift - 1);
      uint64_t kept = full >> shift;
      if (rest > half || (rest == half && (kept & 1))) kept++;
      uint64_t result = kept;
      if (scaled > 0) result += (uint64_t)(scaled - 1) << mantissa_bits;
      if (result > infinity) result = infinity;
      return (uint16_t)(sign | (uint32_t)result);
    }
    static inline uint16_t mlxc_double_to_half(double x) { return mlxc_double_to_narrow(x, 5, 10); }
    static inline uint16_t mlxc_double_to_bfloat(double x) { return mlxc_double_to_narrow(x, 8, 7); }
    static inline double mlxc_bfloat_to_double(uint16_t h) {
      const uint32_t bits = (uint32_t)h << 16;
      float f;
      memcpy(&f, &bits, 4);
      return f;
    }
    static inline double mlxc_half_to_double(uint16_t h) {
      const uint32_t exponent = (h >> 10) & 31, mantissa = h & 1023;
      uint64_t bits = (uint64_t)(h >> 15) << 63;
      double x;
      if (exponent == 0) {
        x = mantissa * 0x1p-24;
        return h >> 15 ? -x : x;
      }
      bits |= (uint64_t)mantissa << 42;
      bits |= exponent == 31 ? UINT64_C(0x7ff) << 52 : (uint64_t)(exponent + 1008) << 52;
      memcpy(&x, &bits, 8);
      return x;
    }
    """
    uint16_t double_to_half "mlxc_double_to_half"(double x) noexcept nogil
    uint16_t double_to_bfloat "mlxc_double_to_bfloat"(double x) noexcept nogil
    double half_to_double "mlxc_half_to_double"(uint16_t h) noexcept nogil
    double bfloat_to_double "mlxc_bfloat_to_double"(uint16_t h) noexcept nogil
