// Functions with rules of their own and checkpointed functions, for the C ABI.
#include "core/closure.h"
#include "core/custom.h"
#include "core/error.h"

using namespace mlxc;

namespace {

// Owns the context of the caller's functions: released with the last rule that may still be called.
class Custom {
 public:
  explicit Custom(const mlxc_custom& given) : given_(given) {}
  Custom(const Custom&) = delete;
  Custom& operator=(const Custom&) = delete;
  ~Custom() {
    if (given_.release) given_.release(given_.context);
  }

  std::vector<Array> forward(std::span<const Array> inputs) const {
    const auto handles = borrow_handles(inputs);
    mlxc_arrays made;
    throw_error(given_.forward(given_.context, handles.data(), handles.size(), &made));
    return std::move(made.items);
  }
  std::vector<Array> vjp(std::span<const Array> primals, std::span<const Array> cotangents,
                         std::span<const Array> outputs) const {
    const auto in = borrow_handles(primals), seeds = borrow_handles(cotangents),
               out = borrow_handles(outputs);
    mlxc_arrays made;
    throw_error(
        given_.vjp(given_.context, in.data(), in.size(), seeds.data(), out.data(), out.size(), &made));
    return std::move(made.items);
  }
  std::vector<Array> jvp(std::span<const Array> primals, std::span<const Array> tangents) const {
    const auto in = borrow_handles(primals), along = borrow_handles(tangents);
    mlxc_arrays made;
    throw_error(given_.jvp(given_.context, in.data(), along.data(), in.size(), &made));
    return std::move(made.items);
  }
  std::vector<Array> vmap(std::span<const Array> inputs, std::span<const uint8_t> batched) const {
    const auto in = borrow_handles(inputs);
    std::vector<int32_t> axes;
    for (uint8_t is_batched : batched) axes.push_back(is_batched ? 0 : MLXC_NOT_BATCHED);
    mlxc_arrays made;
    throw_error(given_.vmap(given_.context, in.data(), axes.data(), in.size(), &made));
    return std::move(made.items);
  }

 private:
  static std::vector<mlxc_array*> borrow_handles(std::span<const Array> arrays) {
    std::vector<mlxc_array*> handles;
    for (const Array& array : arrays) handles.push_back(array.node());
    return handles;
  }

  mlxc_custom given_;
};

}  // namespace

extern "C" {

mlxc_error* mlxc_custom_call(const mlxc_custom* given, mlxc_array* const* inputs, size_t n_inputs,
                             mlxc_arrays* outputs) {
  return guard([&] {
    const char* name = "mlxc_custom_call";
    if (!given || given->struct_size < sizeof(mlxc_custom))
      fail(MLXC_ERROR_VALUE, name, ": the functions are NULL or their struct_size is not set");
    const auto custom = std::make_shared<const Custom>(*given);
    if (!given->forward) fail(MLXC_ERROR_VALUE, name, ": there is no forward function");
    auto rules = std::make_shared<CustomRules>();
    if (given->vjp)
      rules->vjp = [custom](auto primals, auto cotangents, auto made) {
        return custom->vjp(primals, cotangents, made);
      };
    if (given->jvp)
      rules->jvp = [custom](auto primals, auto tangents) { return custom->jvp(primals, tangents); };
    if (given->vmap) rules->vmap = [custom](auto in, auto batched) { return custom->vmap(in, batched); };
    put(outputs, call_custom([&](std::span<const Array> in) { return custom->forward(in); }, std::move(rules),
                             take_handles(name, inputs, n_inputs)));
  });
}

mlxc_error* mlxc_checkpoint(const mlxc_closure* closure, mlxc_array* const* inputs, size_t n_inputs,
                            mlxc_arrays* outputs) {
  return guard([&] {
    const Function fn = wrap_closure("mlxc_checkpoint", closure);
    put(outputs, call_checkpointed(fn, take_handles("mlxc_checkpoint", inputs, n_inputs)));
  });
}

}  // extern "C"
