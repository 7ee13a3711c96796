// Error objects of the C ABI and their exchange with exceptions.
#include "core/error.h"

#include <new>

#include "mlxc/device.h"

namespace mlxc {

namespace {
// Handed out when there is no memory for an error object; never freed.
mlxc_error out_of_memory_error{{1 << 30}, MLXC_ERROR_MEMORY, "out of memory"};
}  // namespace

mlxc_error* make_error(mlxc_code code, std::string text) noexcept {
  auto* error = new (std::nothrow) mlxc_error;
  if (!error) return retain_error(&out_of_memory_error);
  error->code = code;
  error->text = std::move(text);
  return error;
}

mlxc_error* retain_error(mlxc_error* error) noexcept {
  if (error) error->refs.fetch_add(1, std::memory_order_relaxed);
  return error;
}

void release_error(mlxc_error* error) noexcept {
  if (error && error->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete error;
}

mlxc_error* current_exception_error() noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    return make_error(failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return retain_error(&out_of_memory_error);
  } catch (const std::exception& other) {
    return make_error(MLXC_ERROR_RUNTIME, other.what());
  } catch (...) {
    return make_error(MLXC_ERROR_RUNTIME, "unknown exception");
  }
}

void throw_error(mlxc_error* error) {
  if (!error) return;
  Failure failure(error->code, error->text);
  release_error(error);
  throw failure;
}

}  // namespace mlxc

extern "C" {

mlxc_error* mlxc_error_make(mlxc_code code, const char* text) {
  return mlxc::make_error(code == MLXC_OK ? MLXC_ERROR_RUNTIME : code, text ? text : "");
}
mlxc_code mlxc_error_code(const mlxc_error* error) { return error ? error->code : MLXC_OK; }
const char* mlxc_error_text(const mlxc_error* error) { return error ? error->text.c_str() : ""; }
void mlxc_error_free(mlxc_error* error) { mlxc::release_error(error); }

}  // extern "C"
