// Errors inside the core: functions throw Failure; the C functions turn it into an mlxc_error.
// An mlxc_error is immutable and shared: a failed array and every reader of it hold the same one.
#pragma once

#include <atomic>
#include <exception>
#include <sstream>
#include <string>
#include <utility>

#include "mlxc/types.h"

struct mlxc_error {
  std::atomic<int> refs{1};
  mlxc_code code;
  std::string text;
};

namespace mlxc {

class Failure : public std::exception {
 public:
  Failure(mlxc_code code, std::string text) : code_(code), text_(std::move(text)) {}
  mlxc_code code() const { return code_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  mlxc_code code_;
  std::string text_;
};

// Joins anything that can be streamed.
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(mlxc_code code, const Parts&... parts) {
  throw Failure(code, cat(parts...));
}

mlxc_error* make_error(mlxc_code code, std::string text) noexcept;
mlxc_error* retain_error(mlxc_error* error) noexcept;
void release_error(mlxc_error* error) noexcept;
// The error of the exception being handled; call inside a catch block.
mlxc_error* current_exception_error() noexcept;
// Takes the error over and throws it as a Failure; does nothing for NULL.
void throw_error(mlxc_error* error);

// Runs fn at the C border: exceptions become the returned error.
template <class Fn>
mlxc_error* guard(Fn&& fn) noexcept {
  try {
    fn();
    return nullptr;
  } catch (...) {
    return current_exception_error();
  }
}

}  // namespace mlxc
