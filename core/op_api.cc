// The ops of the C ABI: the generated typed functions, and mlxc_apply for any op by number.
#include <cstring>
#include <vector>

#include "core/record.h"
#include "mlxc/mlxc.h"

namespace mlxc {
namespace {

void check_count(const char* op, const char* name, int64_t count) {
  if (count < -1 || count > MLXC_MAX_NDIM)
    fail(MLXC_ERROR_VALUE, op, ": ", name, " has ", count, " entries; -1 to ", MLXC_MAX_NDIM,
         " are possible");
}

// A count of -1 means "all axes" and needs no items.
template <class List, class Item>
void fill_list(List& list, const Item* items, int32_t count, const char* op, const char* name) {
  check_count(op, name, count);
  if (count > 0 && !items) fail(MLXC_ERROR_VALUE, op, ": ", name, " is NULL");
  list.count = count;
  for (int32_t i = 0; i < count; i++) list.items[i] = items[i];
}

class InputList {
 public:
  InputList(const char* op, std::initializer_list<mlxc_array*> fixed, mlxc_array* const* arrays, size_t count)
      : inputs_(fixed) {
    if (count > 0 && !arrays) fail(MLXC_ERROR_VALUE, op, ": arrays is NULL");
    if (count > 1000000) fail(MLXC_ERROR_VALUE, op, ": ", count, " arrays are too many");
    inputs_.insert(inputs_.end(), arrays, arrays + count);
  }
  mlxc_array* const* data() const { return inputs_.data(); }
  size_t size() const { return inputs_.size(); }

 private:
  std::vector<mlxc_array*> inputs_;
};

void record_c(int op, mlxc_array* const* inputs, size_t n_inputs, void* params, mlxc_stream* stream,
              mlxc_array** const* outs) {
  const int n_outputs = op_table[op].n_outputs;
  for (int i = 0; i < n_outputs; i++)
    if (!outs[i]) fail(MLXC_ERROR_VALUE, op_table[op].name, ": the pointer for the result is NULL");
  SmallArray<Node*, 2> made(n_outputs);
  record_own(op, inputs, static_cast<int>(n_inputs), params, reinterpret_cast<Stream*>(stream), made.data());
  for (int i = 0; i < n_outputs; i++) *outs[i] = made[i];
}

}  // namespace
}  // namespace mlxc

using namespace mlxc;

static void validate_params(int op, const void* params);

extern "C" {

const char* mlxc_op_name(int32_t op) { return op > 0 && op < MLXC_OP_COUNT ? op_table[op].name : nullptr; }

int32_t mlxc_op_from_name(const char* name) {
  if (name)
    for (int i = 1; i < MLXC_OP_COUNT; i++)
      if (op_table[i].name && std::strcmp(op_table[i].name, name) == 0) return i;
  return 0;
}

int32_t mlxc_op_output_count(int32_t op) { return mlxc_op_name(op) ? op_table[op].n_outputs : 0; }

mlxc_error* mlxc_apply(int32_t op, mlxc_array* const* inputs, size_t n_inputs, const void* params,
                       mlxc_stream* stream, mlxc_array** outputs, size_t n_outputs) {
  return guard([&] {
    if (!mlxc_op_name(op)) fail(MLXC_ERROR_VALUE, "mlxc_apply: there is no op ", op);
    const OpInfo& info = op_table[op];
    if (info.run) fail(MLXC_ERROR_VALUE, "mlxc_apply: ", info.name, " is recorded by its own function only");
    if (!outputs || n_outputs != static_cast<size_t>(info.n_outputs))
      fail(MLXC_ERROR_VALUE, info.name, ": makes ", int{info.n_outputs}, " array(s), asked for ", n_outputs);
    if (n_inputs && !inputs) fail(MLXC_ERROR_VALUE, info.name, ": inputs is NULL");
    if (n_inputs > 1000000) fail(MLXC_ERROR_VALUE, info.name, ": ", n_inputs, " arrays are too many");
    alignas(8) char copy[1024] = {};
    if (info.params_size) {
      if (!params) fail(MLXC_ERROR_VALUE, info.name, ": params is NULL");
      size_t given;
      std::memcpy(&given, params, sizeof(given));
      if (given < sizeof(size_t) || given > 65536)
        fail(MLXC_ERROR_VALUE, info.name, ": struct_size of the params is ", given);
      std::memcpy(copy, params, std::min<size_t>(given, info.params_size));
      validate_params(op, copy);
    }
    SmallArray<mlxc_array**, 2> outs(info.n_outputs);
    for (int i = 0; i < info.n_outputs; i++) outs[i] = &outputs[i];
    record_c(op, inputs, n_inputs, copy, stream, outs.data());
  });
}

}  // extern "C"

#include "op_api.inc"
