// Names and promotion of element types. Shape rules ask here for the dtype that two inputs meet in;
// a table keeps that to one load, since it is on the path of every recorded binary op.
//
// Rule: promotion never changes a value silently. A float meets any integer in the float's own type,
// as in MLX, but uint64 and a signed integer have no common integer type and are refused.
#include "core/dtype.h"

#include "core/error.h"

namespace mlxc {

namespace {

constexpr const char* names[MLXC_DTYPE_COUNT] = {"bool",     "uint8",   "uint16",  "uint32",    "uint64",
                                                 "int8",     "int16",   "int32",   "int64",     "float16",
                                                 "bfloat16", "float32", "float64", "complex64", "complex128"};

constexpr int8_t refused = -1;

constexpr int8_t promote_integers(int a, int b) {
  const bool a_signed = a >= MLXC_INT8, b_signed = b >= MLXC_INT8;
  if (a_signed == b_signed) return static_cast<int8_t>(a > b ? a : b);
  const int with_sign = a_signed ? a : b, without = a_signed ? b : a;
  if (without == MLXC_UINT64) return refused;
  // The signed type must be wider than the unsigned one.
  const int needed = MLXC_INT8 + (without - MLXC_UINT8) + 1;
  return static_cast<int8_t>(with_sign > needed ? with_sign : needed);
}

constexpr int8_t promote_pair(int a, int b) {
  if (a == b) return static_cast<int8_t>(a);
  const int low = a < b ? a : b, high = a < b ? b : a;
  if (low == MLXC_BOOL) return static_cast<int8_t>(high);
  if (high == MLXC_COMPLEX64) return low == MLXC_FLOAT64 ? MLXC_COMPLEX128 : MLXC_COMPLEX64;
  if (high > MLXC_INT64) {
    if (low == MLXC_FLOAT16 && high == MLXC_BFLOAT16) return MLXC_FLOAT32;
    return static_cast<int8_t>(high);
  }
  return promote_integers(a, b);
}

struct PromotionTable {
  int8_t to[MLXC_DTYPE_COUNT][MLXC_DTYPE_COUNT];
  constexpr PromotionTable() : to() {
    for (int a = 0; a < MLXC_DTYPE_COUNT; a++)
      for (int b = 0; b < MLXC_DTYPE_COUNT; b++) to[a][b] = promote_pair(a, b);
  }
};

constexpr PromotionTable promotions;

}  // namespace

const char* dtype_name(mlxc_dtype d) { return dtype_valid(d) ? names[d] : "unknown dtype"; }

mlxc_dtype promote(mlxc_dtype a, mlxc_dtype b) {
  const int8_t result = promotions.to[a][b];
  if (result == refused) {
    fail(MLXC_ERROR_TYPE, "no integer type holds both ", dtype_name(a), " and ", dtype_name(b),
         " values; cast one of the arrays first");
  }
  return result;
}

mlxc_dtype real_dtype(mlxc_dtype d) {
  if (d == MLXC_COMPLEX64) return MLXC_FLOAT32;
  if (d == MLXC_COMPLEX128) return MLXC_FLOAT64;
  return d;
}

}  // namespace mlxc
