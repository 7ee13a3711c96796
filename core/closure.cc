// Implements closure.h.
#include "core/closure.h"

#include "core/error.h"

namespace mlxc {

Function wrap_closure(const char* name, const mlxc_closure* closure) {
  if (!closure || closure->struct_size < sizeof(mlxc_closure) || !closure->call)
    fail(MLXC_ERROR_VALUE, name, ": the closure is NULL, has no call, or its struct_size is not set");
  return [closure](std::span<const Array> inputs) {
    std::vector<mlxc_array*> handles;
    for (const Array& input : inputs) handles.push_back(input.node());
    mlxc_arrays outputs;
    throw_error(closure->call(closure->context, handles.data(), handles.size(), &outputs));
    return std::move(outputs.items);
  };
}

std::vector<Array> take_handles(const char* name, mlxc_array* const* handles, size_t count) {
  if (count && !handles) fail(MLXC_ERROR_VALUE, name, ": the list of arrays is NULL");
  std::vector<Array> arrays;
  for (size_t i = 0; i < count; i++) {
    if (!handles[i]) fail(MLXC_ERROR_VALUE, name, ": array ", i, " is NULL");
    arrays.push_back(Array::borrow(handles[i]));
  }
  return arrays;
}

void put(mlxc_arrays* list, const std::vector<Array>& arrays) {
  if (list) list->items.insert(list->items.end(), arrays.begin(), arrays.end());
}

}  // namespace mlxc
