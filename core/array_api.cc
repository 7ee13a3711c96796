// Arrays of the C ABI: making them from host data, asking what they are, evaluating, reading values.
#include <algorithm>
#include <cstring>
#include <memory>

#include "core/device.h"
#include "core/error.h"
#include "core/execute.h"
#include "core/program.h"
#include "core/record.h"
#include "core/schedule.h"
#include "core/value.h"
#include "mlxc/mlxc.h"

namespace mlxc {

namespace {

// Copies elements between strided host layouts (strides in bytes).
void copy_strided(char* to, const int64_t* to_strides, const char* from, const int64_t* from_strides,
                  const int64_t* shape, int ndim, int64_t itemsize) {
  if (ndim == 0) {
    std::memcpy(to, from, itemsize);
    return;
  }
  if (ndim == 1 && to_strides[0] == itemsize && from_strides[0] == itemsize) {
    std::memcpy(to, from, shape[0] * itemsize);
    return;
  }
  for (int64_t i = 0; i < shape[0]; i++)
    copy_strided(to + i * to_strides[0], to_strides + 1, from + i * from_strides[0], from_strides + 1,
                 shape + 1, ndim - 1, itemsize);
}

Dims byte_strides(std::span<const int64_t> shape, int64_t itemsize) {
  Dims strides = row_major_strides(shape);
  for (int i = 0; i < strides.n; i++) strides[i] *= itemsize;
  return strides;
}

void check_description(const char* name, mlxc_dtype dtype, int32_t ndim, const int64_t* shape) {
  if (!dtype_valid(dtype)) fail(MLXC_ERROR_TYPE, name, ": there is no dtype ", dtype);
  if (ndim < 0 || ndim > MLXC_MAX_NDIM)
    fail(MLXC_ERROR_VALUE, name, ": ", ndim, " axes; 0 to ", MLXC_MAX_NDIM, " are possible");
  if (ndim && !shape) fail(MLXC_ERROR_VALUE, name, ": shape is NULL");
}

// A leaf whose elements are laid out row-major behind offset.
Array make_leaf(mlxc_dtype dtype, std::span<const int64_t> shape, int64_t size, BufferRef buffer,
                int64_t offset) {
  Array leaf = Array::adopt(make_node(static_cast<int>(shape.size()), 0, 0));
  leaf->dtype = static_cast<uint8_t>(dtype);
  leaf->size = size;
  leaf->stream = current_stream();
  leaf->buffer = buffer.give_up();
  leaf->offset = offset;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    leaf->shape_data()[i] = shape[i];
    leaf->strides_data()[i] = stride;
    stride *= shape[i];
  }
  leaf->state.store(state_ready, std::memory_order_relaxed);
  return leaf;
}

Array make_scalar(const Value& value, mlxc_dtype dtype) {
  if (!dtype_valid(dtype)) fail(MLXC_ERROR_TYPE, "scalar: there is no dtype ", dtype);
  BufferRef buffer(make_buffer(cpu_device(), dtype_size(dtype)));
  store_value(buffer->first.host + guard_bytes(), dtype, value);
  return make_leaf(dtype, {}, 1, std::move(buffer), guard_bytes());
}

mlxc_error* scalar_c(const Value& value, mlxc_dtype dtype, mlxc_array** out) {
  return guard([&] {
    if (!out) fail(MLXC_ERROR_VALUE, "scalar: out is NULL");
    if (dtype_valid(dtype) && !fits(value, dtype)) {
      std::string text = value.kind == Value::integer ? std::to_string(value.i) : std::to_string(value.u);
      fail(MLXC_ERROR_VALUE, "the integer ", text, " does not fit ", dtype_name(dtype));
    }
    *out = make_scalar(value, dtype).give_up();
  });
}

void check_array(const char* name, const mlxc_array* array) {
  if (!array) fail(MLXC_ERROR_VALUE, name, ": array is NULL");
}

void compute(mlxc_array* array) {
  if (array->state.load(std::memory_order_acquire) == state_ready && !array->buffer->first.ready.stream)
    return;
  Node* const roots[] = {array};
  evaluate(roots);
}

Value read_item(const char* name, mlxc_array* array) {
  check_array(name, array);
  if (array->size != 1)
    fail(MLXC_ERROR_VALUE, "only an array with one element can be turned into a number, this one has shape ",
         shape_text(array->shape()));
  compute(array);
  return load_value(host_data(array), array->dtype);
}

template <class Fn>
mlxc_error* over_arrays(const char* name, mlxc_array* const* arrays, size_t count, Fn fn) {
  return guard([&] {
    if (count && !arrays) fail(MLXC_ERROR_VALUE, name, ": arrays is NULL");
    for (size_t i = 0; i < count; i++)
      if (!arrays[i]) fail(MLXC_ERROR_VALUE, name, ": array ", i, " is NULL");
    fn(std::span<Node* const>(arrays, count));
  });
}

}  // namespace

Array scalar(double value, mlxc_dtype dtype) { return make_scalar(real_value(value), dtype); }

}  // namespace mlxc

using namespace mlxc;

extern "C" {

mlxc_array* mlxc_array_retain(mlxc_array* array) {
  if (array) retain_node(array);
  return array;
}
void mlxc_array_release(mlxc_array* array) {
  if (array) release_node(array);
}

mlxc_error* mlxc_array_from_strided(const void* data, mlxc_dtype dtype, int32_t ndim, const int64_t* shape,
                                    const int64_t* strides, mlxc_array** out) {
  return guard([&] {
    constexpr const char* name = "array from host";
    check_description(name, dtype, ndim, shape);
    if (!out) fail(MLXC_ERROR_VALUE, name, ": out is NULL");
    const std::span<const int64_t> dims(shape, ndim);
    const int64_t size = checked_size(name, dims, dtype_size(dtype));
    if (size && !data) fail(MLXC_ERROR_VALUE, name, ": data is NULL");
    BufferRef buffer(make_buffer(cpu_device(), size * dtype_size(dtype)));
    char* to = buffer->first.host + guard_bytes();
    if (size) {
      const Dims dense = byte_strides(dims, dtype_size(dtype));
      if (!strides || std::equal(dense.v, dense.v + ndim, strides))
        std::memcpy(to, data, size * dtype_size(dtype));
      else
        copy_strided(to, dense.v, static_cast<const char*>(data), strides, shape, ndim, dtype_size(dtype));
    }
    *out = make_leaf(dtype, dims, size, std::move(buffer), guard_bytes()).give_up();
  });
}

mlxc_error* mlxc_array_from_host(const void* data, mlxc_dtype dtype, int32_t ndim, const int64_t* shape,
                                 mlxc_array** out) {
  return mlxc_array_from_strided(data, dtype, ndim, shape, nullptr, out);
}

mlxc_error* mlxc_array_wrap_host(void* data, mlxc_dtype dtype, int32_t ndim, const int64_t* shape,
                                 const int64_t* strides, void (*release)(void*), void* context,
                                 mlxc_array** out) {
  return guard([&] {
    constexpr const char* name = "wrap of host memory";
    check_description(name, dtype, ndim, shape);
    if (!out || !release) fail(MLXC_ERROR_VALUE, name, ": out or release is NULL");
    const std::span<const int64_t> dims(shape, ndim);
    const int64_t itemsize = dtype_size(dtype), size = checked_size(name, dims, itemsize);
    if (size && !data) fail(MLXC_ERROR_VALUE, name, ": data is NULL");
    const int64_t alignment = is_complex(dtype) ? itemsize / 2 : itemsize;
    if (size && reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment))
      fail(MLXC_ERROR_VALUE, name, ": the address of ", dtype_name(dtype), " elements must be a multiple of ",
           alignment);
    int64_t low = 0, high = itemsize;  // bytes from data that are reached
    for (int i = 0; i < ndim && size && strides; i++) {
      if (strides[i] % itemsize)
        fail(MLXC_ERROR_VALUE, name, ": stride ", strides[i], " is no multiple of the item size ", itemsize);
      int64_t reach, &edge = strides[i] < 0 ? low : high;
      if (__builtin_mul_overflow(strides[i], shape[i] - 1, &reach) ||
          __builtin_add_overflow(edge, reach, &edge))
        fail(MLXC_ERROR_VALUE, name, ": stride ", strides[i], " of axis ", i, " with ", shape[i],
             " elements reaches past the end of all memory");
    }
    if (!strides) high = size * itemsize;
    auto buffer = std::make_unique<Buffer>();
    buffer->size = size ? high - low : 0;
    static char nothing[1];  // an array without elements has an address too
    buffer->first.host = size ? static_cast<char*>(data) + low : nothing;
    buffer->first.capacity = buffer->size;
    buffer->release = release;
    buffer->release_context = context;
    Array leaf = make_leaf(dtype, dims, size, BufferRef(), -low);
    leaf->buffer = buffer.release();
    if (strides)
      for (int i = 0; i < ndim; i++) leaf->strides_data()[i] = strides[i] / itemsize;
    *out = leaf.give_up();
  });
}

mlxc_error* mlxc_array_from_bool(int32_t value, mlxc_dtype dtype, mlxc_array** out) {
  return scalar_c(int_value(value != 0), dtype, out);
}
mlxc_error* mlxc_array_from_int(int64_t value, mlxc_dtype dtype, mlxc_array** out) {
  return scalar_c(int_value(value), dtype, out);
}
mlxc_error* mlxc_array_from_uint(uint64_t value, mlxc_dtype dtype, mlxc_array** out) {
  return scalar_c(uint_value(value), dtype, out);
}
mlxc_error* mlxc_array_from_double(double value, mlxc_dtype dtype, mlxc_array** out) {
  return scalar_c(real_value(value), dtype, out);
}
mlxc_error* mlxc_array_from_complex(double re, double im, mlxc_dtype dtype, mlxc_array** out) {
  return scalar_c(complex_value(re, im), dtype, out);
}

static void note_shape(const mlxc_array* array) {
  if (array && array->traced.load(std::memory_order_relaxed)) note_shape_read();
}

int32_t mlxc_array_ndim(const mlxc_array* array) { return array ? array->ndim : 0; }
const int64_t* mlxc_array_shape(const mlxc_array* array) {
  note_shape(array);
  return array ? array->shape_data() : nullptr;
}
int64_t mlxc_array_dim(const mlxc_array* array, int32_t axis) {
  note_shape(array);
  if (!array || axis < -int32_t{array->ndim} || axis >= array->ndim) return -1;
  return array->shape_data()[axis < 0 ? axis + array->ndim : axis];
}
int64_t mlxc_array_size(const mlxc_array* array) {
  note_shape(array);
  return array ? array->size : 0;
}
mlxc_dtype mlxc_array_dtype(const mlxc_array* array) { return array ? array->dtype : -1; }
mlxc_stream* mlxc_array_stream(const mlxc_array* array) {
  return array ? reinterpret_cast<mlxc_stream*>(array->stream) : nullptr;
}
int32_t mlxc_array_status(const mlxc_array* array) {
  const uint8_t state = array ? array->state.load(std::memory_order_acquire) : 0;
  return state == state_failed ? -1 : state == state_ready;
}
int32_t mlxc_array_is_traced(const mlxc_array* array) {
  return array && array->traced.load(std::memory_order_relaxed) && active_traces.load() > 0;
}
int32_t mlxc_array_op(const mlxc_array* array) {
  return array && mlxc_array_status(array) != 1 ? array->op : 0;
}
const void* mlxc_array_buffer_id(const mlxc_array* array, int64_t* bytes) {
  const bool there = array && mlxc_array_status(array) == 1 && array->buffer;
  if (bytes) *bytes = there ? array->buffer->size : 0;
  return there ? array->buffer : nullptr;
}

mlxc_error* mlxc_eval(mlxc_array* const* arrays, size_t count) {
  return over_arrays("mlxc_eval", arrays, count, [](std::span<Node* const> roots) { evaluate(roots); });
}
mlxc_error* mlxc_async_eval(mlxc_array* const* arrays, size_t count) {
  return over_arrays("mlxc_async_eval", arrays, count,
                     [](std::span<Node* const> roots) { evaluate_async(roots); });
}
mlxc_error* mlxc_array_wait(mlxc_array* array, int64_t timeout_ns, int32_t* done) {
  return guard([&] {
    check_array("mlxc_array_wait", array);
    const bool reached = wait_node(array, timeout_ns);
    if (done) *done = reached;
  });
}

mlxc_error* mlxc_array_host(mlxc_array* array, const void** data, const int64_t** strides) {
  return guard([&] {
    check_array("mlxc_array_host", array);
    if (!data) fail(MLXC_ERROR_VALUE, "mlxc_array_host: data is NULL");
    compute(array);
    *data = host_data(array);
    if (strides) *strides = array->strides_data();
  });
}

mlxc_error* mlxc_array_to_host(mlxc_array* array, void* data, size_t bytes) {
  return guard([&] {
    check_array("mlxc_array_to_host", array);
    const int64_t itemsize = dtype_size(array->dtype), needed = array->size * itemsize;
    if (static_cast<int64_t>(bytes) < needed)
      fail(MLXC_ERROR_VALUE, "mlxc_array_to_host: room for ", bytes, " bytes, needed are ", needed);
    if (needed && !data) fail(MLXC_ERROR_VALUE, "mlxc_array_to_host: data is NULL");
    compute(array);
    const char* from = host_data(array);
    if (!needed) return;
    if (row_contiguous(array->shape(), array->strides())) {
      std::memcpy(data, from, needed);
      return;
    }
    Dims strides(array->strides());
    for (int i = 0; i < strides.n; i++) strides[i] *= itemsize;
    copy_strided(static_cast<char*>(data), byte_strides(array->shape(), itemsize).v, from, strides.v,
                 array->shape_data(), array->ndim, itemsize);
  });
}

mlxc_error* mlxc_array_item_int(mlxc_array* array, int64_t* value) {
  return guard([&] {
    if (!value) fail(MLXC_ERROR_VALUE, "mlxc_array_item_int: value is NULL");
    *value = to_int(read_item("mlxc_array_item_int", array));
  });
}
mlxc_error* mlxc_array_item_uint(mlxc_array* array, uint64_t* value) {
  return guard([&] {
    if (!value) fail(MLXC_ERROR_VALUE, "mlxc_array_item_uint: value is NULL");
    *value = to_uint(read_item("mlxc_array_item_uint", array));
  });
}
mlxc_error* mlxc_array_item_double(mlxc_array* array, double* value) {
  return guard([&] {
    if (!value) fail(MLXC_ERROR_VALUE, "mlxc_array_item_double: value is NULL");
    *value = to_real(read_item("mlxc_array_item_double", array));
  });
}
mlxc_error* mlxc_array_item_complex(mlxc_array* array, double* re, double* im) {
  return guard([&] {
    if (!re || !im) fail(MLXC_ERROR_VALUE, "mlxc_array_item_complex: re or im is NULL");
    const Value value = read_item("mlxc_array_item_complex", array);
    *re = value.re;
    *im = value.im;
  });
}

size_t mlxc_dtype_size(mlxc_dtype dtype) { return dtype_valid(dtype) ? dtype_size(dtype) : 0; }
const char* mlxc_dtype_name(mlxc_dtype dtype) { return dtype_valid(dtype) ? dtype_name(dtype) : nullptr; }
mlxc_dtype mlxc_dtype_from_name(const char* name) {
  for (int d = 0; name && d < MLXC_DTYPE_COUNT; d++)
    if (std::strcmp(dtype_name(d), name) == 0) return d;
  return -1;
}
mlxc_error* mlxc_promote(mlxc_dtype a, mlxc_dtype b, mlxc_dtype* out) {
  return guard([&] {
    if (!dtype_valid(a) || !dtype_valid(b))
      fail(MLXC_ERROR_TYPE, "mlxc_promote: there is no dtype ", dtype_valid(a) ? b : a);
    if (!out) fail(MLXC_ERROR_VALUE, "mlxc_promote: out is NULL");
    *out = promote(a, b);
  });
}
mlxc_error* mlxc_broadcast_shapes(int32_t ndim_a, const int64_t* a, int32_t ndim_b, const int64_t* b,
                                  int32_t* out_ndim, int64_t* out_shape) {
  return guard([&] {
    check_description("mlxc_broadcast_shapes", MLXC_BOOL, ndim_a, a);
    check_description("mlxc_broadcast_shapes", MLXC_BOOL, ndim_b, b);
    if (!out_ndim || !out_shape) fail(MLXC_ERROR_VALUE, "mlxc_broadcast_shapes: out is NULL");
    const Dims shape = broadcast_shapes("broadcast_shapes", {a, static_cast<size_t>(ndim_a)},
                                        {b, static_cast<size_t>(ndim_b)});
    *out_ndim = shape.n;
    std::copy(shape.v, shape.v + shape.n, out_shape);
  });
}

const char* mlxc_version(void) { return "0.1.0"; }
int32_t mlxc_has_feature(const char* name) {
  static const char* const features[] = {
      "vjp", "jvp", "grad", "vmap", "async_eval", "interrupt_hook", "memory_guard", "programs"};
  for (const char* feature : features)
    if (name && std::strcmp(name, feature) == 0) return 1;
  return 0;
}

}  // extern "C"
