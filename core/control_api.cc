// Control flow for the C ABI.
#include "core/closure.h"
#include "core/control.h"
#include "core/error.h"
#include "mlxc/control.h"

using namespace mlxc;

namespace {

void need_list(const char* name, const mlxc_arrays* outputs) {
  if (!outputs) fail(MLXC_ERROR_VALUE, name, ": the list for the results is NULL");
}

}  // namespace

extern "C" {

mlxc_error* mlxc_cond(mlxc_array* pred, const mlxc_closure* when_true, const mlxc_closure* when_false,
                      mlxc_array* const* operands, size_t n_operands, mlxc_arrays* outputs) {
  return guard([&] {
    const char* name = "mlxc_cond";
    need_list(name, outputs);
    put(outputs, cond(take_handles(name, &pred, 1)[0], wrap_closure(name, when_true),
                      wrap_closure(name, when_false), take_handles(name, operands, n_operands)));
  });
}

mlxc_error* mlxc_while_loop(const mlxc_closure* condition, const mlxc_closure* body, mlxc_array* const* init,
                            size_t n_init, mlxc_arrays* outputs) {
  return guard([&] {
    const char* name = "mlxc_while_loop";
    need_list(name, outputs);
    put(outputs, while_loop(wrap_closure(name, condition), wrap_closure(name, body),
                            take_handles(name, init, n_init)));
  });
}

mlxc_error* mlxc_scan(const mlxc_closure* body, mlxc_array* const* init, size_t n_init, mlxc_array* const* xs,
                      size_t n_xs, int64_t length, int32_t reverse, mlxc_arrays* outputs) {
  return guard([&] {
    const char* name = "mlxc_scan";
    need_list(name, outputs);
    put(outputs, scan_loop(wrap_closure(name, body), take_handles(name, init, n_init),
                           take_handles(name, xs, n_xs), length, reverse != 0));
  });
}

}  // extern "C"
