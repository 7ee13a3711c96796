// Random numbers of the C ABI (random.h): floats made of the op random_bits.
//
// Rule: the same key gives the same float32 and half-precision numbers as MLX: 32 bits / 2^32, rounded to
// nearest and kept below one. A factor that is a power of two may come first, as it rounds nothing.
#include <cmath>
#include <optional>
#include <span>

#include "core/constant.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/record.h"
#include "mlxc/mlxc.h"
#include "op_functions.h"

namespace mlxc {

namespace {

// The greatest number below one of the dtype.
double below_one(mlxc_dtype dtype) {
  switch (dtype) {
    case MLXC_FLOAT16: return 1 - 0x1p-11;
    case MLXC_BFLOAT16: return 1 - 0x1p-8;
    case MLXC_FLOAT32: return 1 - 0x1p-24;
    default: return 1 - 0x1p-53;
  }
}

// What to draw, as the C functions are given it.
struct Draw {
  const char* name;
  mlxc_array* key;
  const int64_t* shape;
  int32_t n_shape;
  mlxc_dtype dtype;
};

Array draw_uniform(const Draw& draw, mlxc_dtype dtype, double scale, double shift) {
  const Array key = Array::borrow(draw.key);
  const Sizes shape = make_sizes(std::span(draw.shape, static_cast<size_t>(draw.n_shape)));
  Array u;
  if (dtype == MLXC_FLOAT64) {
    u = op::right_shift(op::random_bits(key, shape, 8), constant_int(11, MLXC_UINT64));
    u = apply_number(MLXC_OP_MULTIPLY, op::astype(u, dtype), scale * 0x1p-53);
  } else {
    u = op::astype(op::random_bits(key, shape, 4), MLXC_FLOAT32);
    u = apply_number(MLXC_OP_MULTIPLY, std::move(u), scale * 0x1p-32);
    if (dtype != MLXC_FLOAT32) u = op::astype(u, dtype);
    u = apply_number(MLXC_OP_MINIMUM, std::move(u), scale * below_one(dtype));
  }
  return shift == 0 ? u : apply_number(MLXC_OP_ADD, std::move(u), shift);
}

// u * 2 - below_one, where the span of the interval, 1 + below_one, rounds to 2.
Array draw_open(const Draw& draw) {
  const mlxc_dtype dtype = draw.dtype == MLXC_FLOAT64 ? MLXC_FLOAT64 : MLXC_FLOAT32;
  return draw_uniform(draw, dtype, 2, -below_one(dtype));
}

template <class Fn>
mlxc_error* draw_c(const Draw& draw, mlxc_stream* stream, mlxc_array** out, Fn make) {
  return guard([&] {
    if (!draw.key || !out || (draw.n_shape > 0 && !draw.shape))
      fail(MLXC_ERROR_VALUE, draw.name, ": key, shape or out is NULL");
    if (draw.n_shape < 0) fail(MLXC_ERROR_VALUE, draw.name, ": the shape has ", draw.n_shape, " sizes");
    if (!dtype_valid(draw.dtype) || !is_floating(draw.dtype))
      fail(MLXC_ERROR_TYPE, draw.name, ": makes real floating-point numbers");
    std::optional<StreamScope> scope;
    if (stream) scope.emplace(reinterpret_cast<Stream*>(stream));
    *out = make().give_up();
  });
}

}  // namespace

}  // namespace mlxc

using namespace mlxc;

extern "C" {

mlxc_error* mlxc_random_uniform(mlxc_array* key, const int64_t* shape, int32_t n_shape, mlxc_dtype dtype,
                                double scale, double shift, mlxc_stream* stream, mlxc_array** out) {
  const Draw draw{"random_uniform", key, shape, n_shape, dtype};
  return draw_c(draw, stream, out, [&] {
    int exponent;
    if (std::frexp(scale, &exponent) != 0.5)
      fail(MLXC_ERROR_VALUE, draw.name, ": scale must be a power of two");
    if (scale != 1 && dtype != MLXC_FLOAT32 && dtype != MLXC_FLOAT64)
      fail(MLXC_ERROR_VALUE, draw.name, ": scale must be 1 in ", dtype_name(dtype));
    return draw_uniform(draw, dtype, scale, shift);
  });
}

mlxc_error* mlxc_random_open(mlxc_array* key, const int64_t* shape, int32_t n_shape, mlxc_dtype dtype,
                             mlxc_stream* stream, mlxc_array** out) {
  const Draw draw{"random_open", key, shape, n_shape, dtype};
  return draw_c(draw, stream, out, [&] {
    if (dtype != MLXC_FLOAT32 && dtype != MLXC_FLOAT64)
      fail(MLXC_ERROR_TYPE, draw.name, ": makes float32 or float64, not ", dtype_name(dtype));
    return draw_open(draw);
  });
}

mlxc_error* mlxc_random_normal(mlxc_array* key, const int64_t* shape, int32_t n_shape, mlxc_dtype dtype,
                               mlxc_stream* stream, mlxc_array** out) {
  const Draw draw{"random_normal", key, shape, n_shape, dtype};
  return draw_c(draw, stream, out, [&] {
    Array z = op::erfinv(draw_open(draw));
    if (z.dtype() != dtype) z = op::astype(z, dtype);
    return apply_number(MLXC_OP_MULTIPLY, std::move(z), std::sqrt(2.0));
  });
}

}  // extern "C"
