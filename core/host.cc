// The functions that backends get from the core: errors, log, worker threads, the disk cache.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>

#include "core/error.h"
#include "core/registry.h"
#include "core/thread_pool.h"

namespace mlxc {

namespace {

struct Log {
  std::mutex lock;
  std::deque<std::string> lines;
};

Log& log_ring() {
  static Log* instance = new Log;
  return *instance;
}

std::string cache_directory() {
  if (const char* path = std::getenv("MLXC_CACHE_DIR")) return path;
  if (const char* path = std::getenv("XDG_CACHE_HOME")) return std::string(path) + "/mlxc";
  if (const char* home = std::getenv("HOME")) return std::string(home) + "/.cache/mlxc";
  return "";
}

// FNV-1a, twice with different seeds: a file name; the key itself is stored and compared.
std::string cache_file(const std::string& key) {
  uint64_t hash[2] = {14695981039346656037ull, 0x9E3779B97F4A7C15ull};
  for (uint64_t& h : hash)
    for (unsigned char c : key) h = (h ^ c) * 1099511628211ull;
  char name[40];
  std::snprintf(name, sizeof(name), "/%016llx%016llx", static_cast<unsigned long long>(hash[0]),
                static_cast<unsigned long long>(hash[1]));
  return cache_directory() + name;
}

void make_directories(const std::string& path) {
  for (size_t i = 1; i <= path.size(); i++)
    if (i == path.size() || path[i] == '/') mkdir(path.substr(0, i).c_str(), 0777);
}

mlxc_error* cache_get(const char* key, void** data, size_t* size) {
  *data = nullptr;
  *size = 0;
  return guard([&] {
    std::string directory = cache_directory();
    if (directory.empty()) return;
    FILE* file = std::fopen(cache_file(key).c_str(), "rb");
    if (!file) return;
    std::string content;
    char piece[65536];
    while (size_t got = std::fread(piece, 1, sizeof(piece), file)) content.append(piece, got);
    std::fclose(file);
    size_t key_size = std::strlen(key) + 1;
    if (content.size() < key_size || std::memcmp(content.data(), key, key_size) != 0) return;
    *size = content.size() - key_size;
    *data = std::malloc(*size + 1);
    if (!*data) fail(MLXC_ERROR_MEMORY, "disk cache: no memory for ", *size, " bytes");
    std::memcpy(*data, content.data() + key_size, *size);
  });
}

// Written beside and renamed, so that a reader never sees half a file.
mlxc_error* cache_put(const char* key, const void* data, size_t size) {
  return guard([&] {
    std::string directory = cache_directory();
    if (directory.empty()) return;
    make_directories(directory);
    std::string path = cache_file(key), fresh = cat(path, ".", getpid());
    FILE* file = std::fopen(fresh.c_str(), "wb");
    if (!file) fail(MLXC_ERROR_OS, "disk cache: cannot write ", fresh, ": ", std::strerror(errno));
    size_t key_size = std::strlen(key) + 1;
    bool good = std::fwrite(key, 1, key_size, file) == key_size && std::fwrite(data, 1, size, file) == size;
    good = std::fclose(file) == 0 && good;
    if (!good || std::rename(fresh.c_str(), path.c_str()) != 0) {
      std::remove(fresh.c_str());
      fail(MLXC_ERROR_OS, "disk cache: cannot write ", path, ": ", std::strerror(errno));
    }
  });
}

}  // namespace

void log_message(int32_t level, const std::string& text) {
  static const char* const names[] = {"debug: ", "info: ", "warning: "};
  Log& log = log_ring();
  std::lock_guard hold(log.lock);
  if (log.lines.size() >= 200) log.lines.pop_front();
  log.lines.push_back(names[level < 0 ? 0 : level > 2 ? 2 : level] + text);
}

const mlxc_host* host_table() {
  static const mlxc_host table = {
      sizeof(mlxc_host),
      MLXC_BACKEND_ABI_MAJOR,
      MLXC_BACKEND_ABI_MINOR,
      mlxc_error_make,
      mlxc_error_free,
      [](int32_t level, const char* text) { log_message(level, text ? text : ""); },
      parallel_for,
      thread_count,
      cache_get,
      cache_put,
      [](void* data) { std::free(data); },
  };
  return &table;
}

}  // namespace mlxc

extern "C" size_t mlxc_log_read(char* text, size_t size) {
  mlxc::Log& log = mlxc::log_ring();
  std::lock_guard hold(log.lock);
  std::string all;
  for (const std::string& line : log.lines) all += line + "\n";
  if (text && size) {
    size_t n = all.size() < size - 1 ? all.size() : size - 1;
    std::memcpy(text, all.data(), n);
    text[n] = 0;
  }
  return all.size();
}
