// Whole files for the core (program_file.h): read into memory that any dtype may lie in, replaced in one step
// so that a failed write leaves the old file as it was.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "core/error.h"
#include "core/program_file.h"

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <unistd.h>
#endif

namespace mlxc {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_os(const std::string& path, const char* what, int code) {
  fail(MLXC_ERROR_OS, path, ": ", what, code ? cat(" (", std::strerror(code), ")") : "");
}

fs::path path_of(const std::string& path) { return fs::path(reinterpret_cast<const char8_t*>(path.c_str())); }

std::string random_name() {
  std::random_device random;
  char text[24];
  std::snprintf(text, sizeof(text), "%08x%08x", random(), random());
  return text;
}

// Makes what was written outlast a loss of power, where the system has a way.
void flush_to_disk(const fs::path& path) {
#if defined(__unix__) || defined(__APPLE__)
  const int handle = ::open(path.c_str(), O_RDONLY);
  if (handle < 0) return;
  ::fsync(handle);
  ::close(handle);
#else
  (void)path;
#endif
}

class Beside {
 public:
  explicit Beside(const fs::path& target)
      : path_(target.parent_path() /
              fs::path("." + target.filename().string().substr(0, 200) + "." + random_name() + ".tmp")) {}
  ~Beside() {
    std::error_code ignored;
    if (!kept_) fs::remove(path_, ignored);
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  const fs::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  fs::path path_;
  bool kept_ = false;
};

}  // namespace

void replace_file(const std::string& name,
                  const std::function<void(const std::function<void(const void*, size_t)>&)>& write) {
  std::error_code code;
  fs::path target = path_of(name);
  const fs::path real = fs::canonical(target, code);  // a link stays one
  if (!code) target = real;
  const fs::file_status status = fs::status(target, code);
  const bool there = fs::exists(status);
  if (there && !fs::is_regular_file(status)) fail_os(name, "is no regular file", 0);
  if (there && (status.permissions() & fs::perms::owner_write) == fs::perms::none)
    fail_os(name, "is write-protected", 0);
  Beside beside(target);
  {
    errno = 0;
    std::ofstream out(beside.path(), std::ios::binary | std::ios::trunc);
    if (!out) fail_os(name, "cannot be written", errno);
    write([&](const void* data, size_t size) {
      errno = 0;
      out.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
      if (!out) fail_os(name, "cannot be written", errno);
    });
    out.close();
    if (!out) fail_os(name, "cannot be written", errno);
  }
  flush_to_disk(beside.path());
  if (there) fs::permissions(beside.path(), status.permissions(), code);
  fs::rename(beside.path(), target, code);
  if (code) fail_os(name, "cannot be replaced", code.value());
  beside.keep();
  flush_to_disk(target.parent_path().empty() ? fs::path(".") : target.parent_path());
}

FileBytes read_file(const std::string& name) {
  std::error_code code;
  const fs::path path = path_of(name);
  const fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) fail_os(name, "there is no such file", 0);
  if (!fs::is_regular_file(status)) fail_os(name, "is no regular file", 0);
  const auto size = static_cast<size_t>(fs::file_size(path, code));
  if (code) fail_os(name, "cannot be read", code.value());
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) fail_os(name, "cannot be opened", errno);
  FileBytes bytes;
  const size_t room = (size + program_alignment) / program_alignment * program_alignment;
  char* data = static_cast<char*>(std::aligned_alloc(program_alignment, room));
  if (!data) throw std::bad_alloc();
  bytes.data = std::shared_ptr<char>(data, [](char* p) { std::free(p); });
  bytes.size = size;
  in.read(data, static_cast<std::streamsize>(size));
  if (static_cast<size_t>(in.gcount()) != size) fail_os(name, "became shorter while it was read", 0);
  return bytes;
}

}  // namespace mlxc
