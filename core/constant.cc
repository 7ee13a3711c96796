// Numbers beside arrays: the 1 of x + 1, the zero of a relu. Most programs use the same few of them again and
// again, so each thread keeps the 0-d arrays of those it met lately, and recording one costs a look-up.
//
// Rule: a constant is shared, so nobody writes to it: its bytes are host memory that no op takes over, and
// callers give it to ops as an input, never to a user as a result.
#include "core/constant.h"

#include <bit>
#include <memory>

#include "core/device.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/value.h"
#include "mlxc/mlxc.h"

namespace mlxc {

namespace {

// What a constant is found by: the number as it was given, and where it is used.
struct Key {
  uint64_t bits = 0;
  int32_t dtype = -1;
  Value::Kind kind{};
  Stream* stream = nullptr;
  bool operator==(const Key&) const = default;
};

constexpr int n_slots = 128;

struct Slot {
  Key key;
  Array array;
};

// Made at a thread's first constant, as a library may have little room for data of each thread. Constants
// that are asked for while the thread's data is being destroyed are not kept.
thread_local Slot* slots = nullptr;
thread_local bool slots_gone = false;
struct SlotsOwner {
  std::unique_ptr<Slot[]> held;
  ~SlotsOwner() {
    slots = nullptr;
    slots_gone = true;
  }
};

Slot* make_slots() {
  thread_local SlotsOwner owner;
  owner.held = std::make_unique<Slot[]>(n_slots);
  return slots = owner.held.get();
}

Array make_constant(const Key& key) {
  const Value value = key.kind == Value::integer ? int_value(static_cast<int64_t>(key.bits))
                                                 : real_value(std::bit_cast<double>(key.bits));
  if (!dtype_valid(key.dtype)) fail(MLXC_ERROR_TYPE, "constant: there is no dtype ", key.dtype);
  if (!fits(value, key.dtype))
    fail(MLXC_ERROR_VALUE, "the integer ", value.i, " does not fit ", dtype_name(key.dtype));
  auto bytes = std::make_unique<char[]>(16);
  store_value(bytes.get(), key.dtype, value);
  Array leaf = Array::adopt(make_node(0, 0, 0));
  auto buffer = std::make_unique<Buffer>();
  buffer->size = buffer->first.capacity = dtype_size(key.dtype);
  buffer->first.host = bytes.get();
  buffer->release = [](void* held) { delete[] static_cast<char*>(held); };
  buffer->release_context = bytes.release();
  leaf->dtype = static_cast<uint8_t>(key.dtype);
  leaf->size = 1;
  leaf->stream = key.stream;
  leaf->buffer = buffer.release();
  leaf->state.store(state_ready, std::memory_order_release);
  return leaf;
}

Array find_constant(uint64_t bits, Value::Kind kind, mlxc_dtype dtype) {
  const Key key{bits, dtype, kind, current_stream()};
  if (slots_gone) return make_constant(key);
  const uint64_t mixed = (bits + static_cast<uint64_t>(dtype)) * 0x9E3779B97F4A7C15u;
  Slot& slot = (slots ? slots : make_slots())[mixed >> 57];
  if (!(slot.key == key)) {
    slot.array = make_constant(key);
    slot.key = key;
  }
  return slot.array;
}

mlxc_error* constant_c(uint64_t bits, Value::Kind kind, mlxc_dtype dtype, mlxc_array** out) {
  return guard([&] {
    if (!out) fail(MLXC_ERROR_VALUE, "constant: out is NULL");
    *out = find_constant(bits, kind, dtype).give_up();
  });
}

}  // namespace

Array constant(double value, mlxc_dtype dtype) {
  return find_constant(std::bit_cast<uint64_t>(value), Value::real, dtype);
}
Array constant_int(int64_t value, mlxc_dtype dtype) {
  return find_constant(static_cast<uint64_t>(value), Value::integer, dtype);
}

}  // namespace mlxc

using namespace mlxc;

extern "C" {

mlxc_error* mlxc_constant_int(int64_t value, mlxc_dtype dtype, mlxc_array** out) {
  return constant_c(static_cast<uint64_t>(value), Value::integer, dtype, out);
}
mlxc_error* mlxc_constant_double(double value, mlxc_dtype dtype, mlxc_array** out) {
  return constant_c(std::bit_cast<uint64_t>(value), Value::real, dtype, out);
}

}  // extern "C"
