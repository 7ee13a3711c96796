/* Finds and opens the BLAS library: see blas.h.
 *
 * The file named by MLXC_OPENBLAS and no other; without it, in this order, the scipy-openblas32 wheel beside
 * the mlxc package, the path known when mlxc was built, the system's own (Accelerate on a Mac, else a plain
 * soname). All have 32-bit integers; the wheel's symbols carry the prefix scipy_.
 */
#include "blas.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "blas_path.h"

namespace mlxc_cpu {
namespace {

struct Library {
  Blas blas{};
  bool opened = false;
  void* handle = nullptr;
  const char* prefix = "";
  std::string description; /* of the library, or of every attempt */
};

/* Sets an environment variable for the life of the object, unless the user has set it. */
class EnvironmentDefault {
 public:
  EnvironmentDefault(const char* name, const char* value) : name_(name), set_(std::getenv(name) == nullptr) {
    if (set_) setenv(name, value, 0);
  }
  ~EnvironmentDefault() {
    if (set_) unsetenv(name_);
  }
  EnvironmentDefault(const EnvironmentDefault&) = delete;
  EnvironmentDefault& operator=(const EnvironmentDefault&) = delete;

 private:
  const char* name_;
  bool set_;
};

void* open_file(const char* path) {
  /* Read once, by the library's constructor, which else starts a thread for every processor. */
  EnvironmentDefault threads("OPENBLAS_NUM_THREADS", "1");
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

template <class F>
bool find_symbol(void* handle, const char* prefix, const char* name, F* function) {
  std::string full = std::string(prefix) + name;
  *function = reinterpret_cast<F>(dlsym(handle, full.c_str()));
  return *function != nullptr;
}

/* The loader's own words mostly begin with the path. */
void add_attempt(std::string* attempts, const std::string& path, const std::string& reason) {
  if (!attempts->empty()) *attempts += "; ";
  if (reason.find(path) == std::string::npos) *attempts += path + ": ";
  *attempts += reason;
}

/* Tries one file; on failure adds to `attempts`. */
bool try_open(const std::string& path, Library* library, std::string* attempts) {
  void* existing = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  void* handle = existing ? existing : open_file(path.c_str());
  if (!handle) {
    const char* reason = dlerror();
    add_attempt(attempts, path, reason ? reason : "cannot be opened");
    return false;
  }
  for (const char* prefix : {"scipy_", ""}) {
    Blas& blas = library->blas;
    if (!find_symbol(handle, prefix, "cblas_sgemm", &blas.sgemm) ||
        !find_symbol(handle, prefix, "cblas_dgemm", &blas.dgemm) ||
        !find_symbol(handle, prefix, "cblas_cgemm", &blas.cgemm) ||
        !find_symbol(handle, prefix, "cblas_zgemm", &blas.zgemm)) {
      continue;
    }
    void (*set_num_threads)(int) = nullptr;
    const char* (*get_config)() = nullptr;
    const char* (*get_corename)() = nullptr;
    find_symbol(handle, prefix, "openblas_set_num_threads", &set_num_threads);
    find_symbol(handle, prefix, "openblas_get_config", &get_config);
    find_symbol(handle, prefix, "openblas_get_corename", &get_corename);
    blas.runs_on_caller = !existing && set_num_threads;
    if (blas.runs_on_caller) set_num_threads(1);
    library->opened = true;
    library->handle = handle;
    library->prefix = prefix;
    std::string text;
    if (get_config) {
      /* "OpenBLAS 0.3.34 ..." names a core of its own, which is the build's, not the one that runs. */
      const char* config = get_config();
      const char* end = std::strchr(config, ' ');
      end = end ? std::strchr(end + 1, ' ') : nullptr;
      text.assign(config, end ? static_cast<size_t>(end - config) : std::strlen(config));
    } else {
      text = "BLAS";
    }
    if (get_corename) text += std::string(" ") + get_corename();
    library->description = text + " " + path;
    return true;
  }
  add_attempt(attempts, path, "has no cblas_sgemm, cblas_dgemm, cblas_cgemm and cblas_zgemm");
  dlclose(handle);
  return false;
}

std::string directory_of(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

Library find_library() {
  Library library;
  std::string attempts;
#if defined(__APPLE__)
  const char* file = "libscipy_openblas.dylib";
#else
  const char* file = "libscipy_openblas.so";
#endif
  const char* named = std::getenv("MLXC_OPENBLAS");
  if (named && named[0]) {
    /* Whoever names a file wants that one and no other. */
    if (named[0] != '/') {
      add_attempt(&attempts, std::string("MLXC_OPENBLAS=") + named, "is not an absolute path");
    } else if (try_open(named, &library, &attempts)) {
      return library;
    }
    library.description = "no BLAS library could be opened; tried " + attempts;
    return library;
  }
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&open_blas), &self) && self.dli_fname && self.dli_fname[0] == '/') {
    std::string site = directory_of(directory_of(directory_of(self.dli_fname)));
    if (try_open(site + "/scipy_openblas32/lib/" + file, &library, &attempts)) return library;
  }
  const std::string build_path = MLXC_OPENBLAS_BUILD_PATH;
  if (!build_path.empty() && try_open(build_path, &library, &attempts)) return library;
#if defined(__APPLE__)
  const char* const system[] = {"/System/Library/Frameworks/Accelerate.framework/Accelerate"};
#else
  const char* const system[] = {"libscipy_openblas.so", "libopenblas.so.0"};
#endif
  for (const char* name : system) {
    if (try_open(name, &library, &attempts)) return library;
  }
  library.description = "no BLAS library could be opened; tried " + attempts;
  return library;
}

/* Never destroyed: kernels may still run while the process exits. */
const Library& get_library() {
  static const Library* library = new Library(find_library());
  return *library;
}

}  // namespace

mlxc_error* open_blas(const char* op, const Blas** blas) {
  try {
    const Library& library = get_library();
    if (!library.opened)
      return host->error_make(MLXC_ERROR_OS, (std::string(op) + ": " + library.description).c_str());
    *blas = &library.blas;
    return nullptr;
  } catch (const std::bad_alloc&) {
    return make_memory_error(0);
  }
}

void* find_blas_symbol(const char* name) {
  const Library& library = get_library();
  void* symbol = nullptr;
  if (library.opened) find_symbol(library.handle, library.prefix, name, &symbol);
  return symbol;
}

const char* blas_description() {
  try {
    return get_library().description.c_str();
  } catch (const std::bad_alloc&) {
    return "no BLAS: out of memory";
  }
}

}  // namespace mlxc_cpu
