// Element types: sizes, names, classes, promotion.
#pragma once

#include <cstdint>

#include "mlxc/types.h"

namespace mlxc {

inline constexpr int8_t dtype_sizes[MLXC_DTYPE_COUNT] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};

inline bool dtype_valid(mlxc_dtype d) { return d >= 0 && d < MLXC_DTYPE_COUNT; }
inline int64_t dtype_size(mlxc_dtype d) { return dtype_sizes[d]; }
inline bool is_unsigned(mlxc_dtype d) { return d >= MLXC_UINT8 && d <= MLXC_UINT64; }
inline bool is_signed(mlxc_dtype d) { return d >= MLXC_INT8 && d <= MLXC_INT64; }
inline bool is_integer(mlxc_dtype d) { return d >= MLXC_UINT8 && d <= MLXC_INT64; }
inline bool is_floating(mlxc_dtype d) { return d >= MLXC_FLOAT16 && d <= MLXC_FLOAT64; }
inline bool is_complex(mlxc_dtype d) { return d >= MLXC_COMPLEX64; }
inline bool is_inexact(mlxc_dtype d) { return d >= MLXC_FLOAT16; }

const char* dtype_name(mlxc_dtype d);
// MLX's promotion; uint64 with a signed integer has no common type and is MLXC_ERROR_TYPE.
mlxc_dtype promote(mlxc_dtype a, mlxc_dtype b);
// Integers and bool become float32, the rest stays.
inline mlxc_dtype to_inexact(mlxc_dtype d) { return is_inexact(d) ? d : MLXC_FLOAT32; }
// complex64 -> float32, complex128 -> float64, the rest stays.
mlxc_dtype real_dtype(mlxc_dtype d);

}  // namespace mlxc
