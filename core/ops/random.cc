// Shape rule of random_bits: unsigned integers of a given width for each key. Everything random is composed
// of it. Random bits have no gradient.
#include "core/ops/common.h"

namespace mlxc {

namespace {

mlxc_dtype dtype_of_width(int32_t width) {
  switch (width) {
    case 1: return MLXC_UINT8;
    case 2: return MLXC_UINT16;
    case 4: return MLXC_UINT32;
    case 8: return MLXC_UINT64;
    default: fail(MLXC_ERROR_VALUE, "random_bits: width must be 1, 2, 4 or 8 bytes, got ", width);
  }
}

}  // namespace

void infer_random_bits(Recording& rec) {
  const Node& key = rec.input(0);
  const auto& params = rec.params_as<mlxc_random_bits_params>();
  check_accepts(*rec.op, key.dtype);
  if (key.ndim == 0 || key.shape_data()[key.ndim - 1] != 2) {
    fail(MLXC_ERROR_VALUE, "random_bits: the last axis of the key must have size 2, got shape ",
         shape_text(key.shape()));
  }
  const mlxc_dtype dtype = dtype_of_width(params.width);
  const Dims wanted = to_dims(params.shape);
  Dims shape(key.shape().first(static_cast<size_t>(key.ndim - 1)));
  for (int i = 0; i < wanted.n; i++) shape.push(wanted[i]);
  checked_size("random_bits", shape.span(), dtype_size(dtype));
  rec.out[0] = {dtype, shape};
}

}  // namespace mlxc
