// The transforms of the C ABI: lists of arrays, closures, and mlxc_vjp, mlxc_jvp, mlxc_grad and mlxc_vmap
// over them.
#include "core/transform.h"

#include <algorithm>
#include <new>
#include <vector>

#include "core/closure.h"
#include "core/op.h"
#include "core/ops/depends.h"
#include "core/record.h"
#include "core/vmap.h"
#include "mlxc/transform.h"
#include "op_functions.h"

using namespace mlxc;

namespace {

Differentiated value_and_grad(const char* name, const mlxc_closure* closure, mlxc_array* const* inputs,
                              size_t n_inputs, const size_t* argnums, size_t n_argnums) {
  const Function fn = wrap_closure(name, closure);
  const std::vector<Array> all = take_handles(name, inputs, n_inputs);
  std::vector<size_t> chosen;
  if (argnums) {
    chosen.assign(argnums, argnums + n_argnums);
  } else {
    for (size_t i = 0; i < n_inputs; i++) chosen.push_back(i);
  }
  std::vector<Array> primals;
  std::vector<bool> seen(n_inputs);
  for (size_t index : chosen) {
    if (index >= n_inputs) fail(MLXC_ERROR_VALUE, name, ": argnum ", index, " of ", n_inputs, " inputs");
    if (seen[index]) fail(MLXC_ERROR_VALUE, name, ": argnum ", index, " is named twice");
    seen[index] = true;
    primals.push_back(all[index]);
  }
  return vjp(
      [&](std::span<const Array> stand_ins) {
        std::vector<Array> arguments = all;
        for (size_t i = 0; i < chosen.size(); i++) arguments[chosen[i]] = stand_ins[i];
        return fn(arguments);
      },
      primals,
      [&](std::span<const Array> outputs) {
        if (outputs.empty()) fail(MLXC_ERROR_VALUE, name, ": the function gave no output");
        if (outputs[0].size() != 1)
          fail(MLXC_ERROR_VALUE, name, ": the first output must have one element, its shape is ",
               shape_text(outputs[0].shape()));
        std::vector<Array> seeds(outputs.size());
        seeds[0] = op::full(scalar(1, outputs[0].dtype()), outputs[0].sizes());
        return seeds;
      });
}

mlxc_batch_axes read_batch_axes(const mlxc_batch_axes* axes) {
  if (!axes) return {};
  if (axes->struct_size < sizeof(mlxc_batch_axes))
    fail(MLXC_ERROR_VALUE, "mlxc_vmap: struct_size of the axes is ", axes->struct_size);
  return *axes;
}

}  // namespace

extern "C" {

mlxc_arrays* mlxc_arrays_new(void) { return new (std::nothrow) mlxc_arrays; }
void mlxc_arrays_free(mlxc_arrays* list) { delete list; }
size_t mlxc_arrays_count(const mlxc_arrays* list) { return list ? list->items.size() : 0; }
mlxc_array* mlxc_arrays_get(const mlxc_arrays* list, size_t index) {
  return list && index < list->items.size() ? list->items[index].node() : nullptr;
}
mlxc_error* mlxc_arrays_append(mlxc_arrays* list, mlxc_array* array) {
  return guard([&] {
    if (!list || !array) fail(MLXC_ERROR_VALUE, "mlxc_arrays_append: list or array is NULL");
    list->items.push_back(Array::borrow(array));
  });
}

mlxc_error* mlxc_depends(mlxc_array* const* inputs, size_t n_inputs, mlxc_array* const* dependencies,
                         size_t n_dependencies, mlxc_arrays* outputs) {
  return guard([&] {
    if (!outputs) fail(MLXC_ERROR_VALUE, "mlxc_depends: the list for the results is NULL");
    std::vector<Array> made = depends(take_handles("mlxc_depends", inputs, n_inputs),
                                      take_handles("mlxc_depends", dependencies, n_dependencies));
    put(outputs, made);
  });
}

mlxc_error* mlxc_vjp(const mlxc_closure* closure, mlxc_array* const* primals, size_t n_primals,
                     mlxc_array* const* cotangents, size_t n_cotangents, mlxc_arrays* outputs,
                     mlxc_arrays* vjps) {
  return guard([&] {
    const Function fn = wrap_closure("mlxc_vjp", closure);
    const std::vector<Array> given = take_handles("mlxc_vjp", cotangents, n_cotangents);
    Differentiated result =
        vjp(fn, take_handles("mlxc_vjp", primals, n_primals), [&](std::span<const Array> made) {
          if (made.size() != given.size())
            fail(MLXC_ERROR_VALUE, "mlxc_vjp: the function gave ", made.size(), " outputs, there are ",
                 given.size(), " cotangents");
          for (size_t i = 0; i < given.size(); i++) check_like("mlxc_vjp: cotangent", i, given[i], made[i]);
          return given;
        });
    put(outputs, result.outputs);
    put(vjps, result.results);
  });
}

mlxc_error* mlxc_jvp(const mlxc_closure* closure, mlxc_array* const* primals, mlxc_array* const* tangents,
                     size_t n_primals, mlxc_arrays* outputs, mlxc_arrays* jvps) {
  return guard([&] {
    const Function fn = wrap_closure("mlxc_jvp", closure);
    Differentiated result =
        jvp(fn, take_handles("mlxc_jvp", primals, n_primals), take_handles("mlxc_jvp", tangents, n_primals));
    put(outputs, result.outputs);
    put(jvps, result.results);
  });
}

mlxc_error* mlxc_value_and_grad(const mlxc_closure* closure, mlxc_array* const* inputs, size_t n_inputs,
                                const size_t* argnums, size_t n_argnums, mlxc_arrays* outputs,
                                mlxc_arrays* gradients) {
  return guard([&] {
    Differentiated result =
        value_and_grad("mlxc_value_and_grad", closure, inputs, n_inputs, argnums, n_argnums);
    put(outputs, result.outputs);
    put(gradients, result.results);
  });
}

mlxc_error* mlxc_grad(const mlxc_closure* closure, mlxc_array* const* inputs, size_t n_inputs,
                      const size_t* argnums, size_t n_argnums, mlxc_arrays* gradients) {
  return guard([&] {
    Differentiated result = value_and_grad("mlxc_grad", closure, inputs, n_inputs, argnums, n_argnums);
    put(gradients, result.results);
  });
}

mlxc_error* mlxc_vmap(const mlxc_closure* closure, mlxc_array* const* inputs, size_t n_inputs,
                      const mlxc_batch_axes* axes, mlxc_arrays* outputs) {
  return guard([&] {
    const Function fn = wrap_closure("mlxc_vmap", closure);
    const std::vector<Array> all = take_handles("mlxc_vmap", inputs, n_inputs);
    std::vector<int32_t> in_axes(n_inputs);
    if (const int32_t* given = read_batch_axes(axes).in_axes) in_axes.assign(given, given + n_inputs);
    std::vector<Array> result = vmap(fn, all, in_axes, [&](size_t n_outputs) {
      const mlxc_batch_axes now = read_batch_axes(axes);
      std::vector<int32_t> out_axes(n_outputs);
      if (!now.out_axes) return out_axes;
      if (now.n_out_axes != n_outputs)
        fail(MLXC_ERROR_VALUE, "mlxc_vmap: the function gave ", n_outputs, " outputs, there are ",
             now.n_out_axes, " out_axes");
      out_axes.assign(now.out_axes, now.out_axes + n_outputs);
      return out_axes;
    });
    put(outputs, result);
  });
}

}  // extern "C"
