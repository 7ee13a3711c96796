// Finds, opens and checks backend libraries. Every attempt is recorded with the loader's own words;
// a library that fails never takes the process or the other backends down.
#include "core/registry.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>

#include "core/error.h"
#include "core/library_file.h"

namespace mlxc {

namespace {

struct Attempt {
  std::string path, name, version, message, reason;
  bool loaded = false;
  mlxc_device_kind kind = MLXC_CPU;
  int32_t device_count = 0;
};

struct Registry {
  std::mutex lock;               // held while a library is being loaded
  std::deque<Attempt> attempts;  // addresses stay, so that texts can be lent out
  std::vector<std::unique_ptr<Backend>> backends;
  std::atomic<Backend*> cpu{nullptr}, gpu{nullptr};
};

Registry& registry() {
  static Registry* instance = new Registry;
  return *instance;
}

#if defined(__APPLE__)
constexpr const char* library_suffix = ".dylib";
#else
constexpr const char* library_suffix = ".so";
#endif

std::string own_directory() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void*>(&ensure_backends), &info) || !info.dli_fname) return "";
  std::unique_ptr<char, decltype(&std::free)> path(realpath(info.dli_fname, nullptr), &std::free);
  std::string full = path ? path.get() : info.dli_fname;
  size_t slash = full.rfind('/');
  return slash == std::string::npos ? "" : full.substr(0, slash);
}

bool file_exists(const std::string& path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0;
}

// A struct that says its own size is copied into a zeroed one of ours: no more than either knows.
template <class T>
void copy_versioned(T* to, const T* from, size_t given) {
  std::memset(to, 0, sizeof(T));
  std::memcpy(to, from, std::min(given, sizeof(T)));
  to->struct_size = sizeof(T);
}

void check_table(const mlxc_backend& table, const std::string& path) {
  if (table.abi_major != MLXC_BACKEND_ABI_MAJOR || table.abi_minor > MLXC_BACKEND_ABI_MINOR)
    fail(MLXC_ERROR_OS, path, ": built for backend ABI ", table.abi_major, ".", table.abi_minor,
         ", this mlxc speaks ", MLXC_BACKEND_ABI_MAJOR, ".", MLXC_BACKEND_ABI_MINOR,
         table.abi_major == MLXC_BACKEND_ABI_MAJOR ? " (update mlxc)" : "");
}

void check_functions(const mlxc_backend& table, const std::string& path) {
  const char* missing =
      !table.name             ? "name"
      : !table.device_count   ? "device_count"
      : !table.device_open    ? "device_open"
      : !table.device_info    ? "device_info"
      : !table.alloc          ? "alloc"
      : !table.free           ? "free"
      : !table.host_pointer   ? "host_pointer"
      : !table.stream_create  ? "stream_create"
      : !table.stream_destroy ? "stream_destroy"
      : !table.stream_signal  ? "stream_signal"
      : !table.stream_await   ? "stream_await"
      : !table.stream_wait    ? "stream_wait"
      : !table.copy           ? "copy"
      : !table.fill           ? "fill"
      : !table.program_make != !table.program_run || !table.program_make != !table.program_free
          ? "complete set of program functions"
          : nullptr;
  if (!missing && (!table.user_kernel_make != !table.user_kernel_run ||
                   !table.user_kernel_make != !table.user_kernel_free))
    missing = "complete set of user kernel functions";
  if (missing) fail(MLXC_ERROR_OS, path, ": the backend table has no ", missing);
  if (table.kind != MLXC_CPU && table.kind != MLXC_GPU)
    fail(MLXC_ERROR_OS, path, ": unknown device kind ", table.kind);
  if (table.n_kernels && (!table.kernels || table.kernel_size < offsetof(mlxc_kernel, accepts)))
    fail(MLXC_ERROR_OS, path, ": kernel rows of ", table.kernel_size, " bytes are too short");
}

void read_kernels(Backend& backend) {
  const auto* bytes = reinterpret_cast<const char*>(backend.table.kernels);
  backend.rows.reserve(backend.table.n_kernels);
  for (size_t i = 0; i < backend.table.n_kernels; i++) {
    mlxc_kernel row;
    copy_versioned(&row, reinterpret_cast<const mlxc_kernel*>(bytes + i * backend.table.kernel_size),
                   backend.table.kernel_size);
    if (!row.run) fail(MLXC_ERROR_OS, backend.path, ": kernel row ", i, " (op ", row.op, ") has no run");
    // Ops this core does not know yet are of no use to it.
    if (row.op <= 0 || row.op >= MLXC_OP_COUNT) continue;
    backend.rows.push_back(row);
  }
  for (const mlxc_kernel& row : backend.rows) {
    for (int d = 0; d < MLXC_DTYPE_COUNT; d++) {
      mlxc_dtype_mask key = row.op == MLXC_OP_ARANGE ? row.output_dtypes : row.input_dtypes;
      if ((key & MLXC_DTYPE_BIT(d)) && !backend.first[row.op][d]) backend.first[row.op][d] = &row;
    }
  }
}

// `attempt` is filled in as far as things went; throws where they went wrong.
std::unique_ptr<Backend> open_backend(const std::string& path, Attempt& attempt) {
  if (path.empty() || path[0] != '/') fail(MLXC_ERROR_OS, path, ": not an absolute path");
  check_library_file(path);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* words = dlerror();
    fail(MLXC_ERROR_OS, words ? words : path + ": cannot be opened");
  }
  auto entry = reinterpret_cast<mlxc_backend_entry_fn>(dlsym(library, "mlxc_backend_entry"));
  if (!entry) fail(MLXC_ERROR_OS, path, ": does not export mlxc_backend_entry");
  const mlxc_backend* given = nullptr;
  if (mlxc_error* error = entry(host_table(), &given)) {
    Failure failure(error->code, cat(path, ": ", error->text));
    release_error(error);
    throw failure;
  }
  if (!given) fail(MLXC_ERROR_OS, path, ": the entry gave no table");
  if (given->struct_size < offsetof(mlxc_backend, name))
    fail(MLXC_ERROR_OS, path, ": the table's struct_size is ", given->struct_size);
  auto backend = std::make_unique<Backend>();
  backend->path = path;
  copy_versioned(&backend->table, given, given->struct_size);
  check_table(backend->table, path);
  check_functions(backend->table, path);
  backend->name = attempt.name = backend->table.name;
  backend->version = attempt.version = backend->table.version ? backend->table.version : "";
  attempt.kind = backend->table.kind;
  read_kernels(*backend);
  const char* reason = nullptr;
  backend->device_count = attempt.device_count = std::max(0, backend->table.device_count(&reason));
  if (backend->device_count == 0) backend->reason = attempt.reason = reason ? reason : "no device";
  return backend;
}

// The lock is held.
Backend* load_locked(Registry& r, const std::string& path) {
  for (auto& loaded : r.backends)
    if (loaded->path == path) return loaded.get();
  Attempt& attempt = r.attempts.emplace_back();
  attempt.path = path;
  try {
    auto backend = open_backend(path, attempt);
    if (backend->table.kind == MLXC_CPU && backend->device_count == 0)
      fail(MLXC_ERROR_OS, path, ": a CPU backend without a device: ", backend->reason);
    Backend* result = backend.get();
    r.backends.push_back(std::move(backend));
    attempt.loaded = true;
    attempt.message = "loaded";
    return result;
  } catch (const std::exception& error) {
    attempt.message = error.what();
    throw;
  }
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

// One GPU backend is used: the one MLXC_BACKEND names, else the first with a device.
void choose_backends(Registry& r) {
  const char* wanted = environment("MLXC_BACKEND");
  Backend* gpu = r.gpu.load();
  for (auto& backend : r.backends) {
    if (backend->table.kind == MLXC_CPU) {
      if (!r.cpu.load()) r.cpu.store(backend.get());
    } else if (backend->device_count > 0 &&
               (!gpu || (wanted && backend->name == wanted && gpu->name != wanted))) {
      gpu = backend.get();
    }
  }
  r.gpu.store(gpu);
}

void load_all(Registry& r) {
  std::lock_guard hold(r.lock);
  std::vector<std::string> paths;
  if (const char* extra = environment("MLXC_BACKEND_PATH")) {
    std::string all = extra;
    for (size_t begin = 0; begin <= all.size();) {
      size_t end = std::min(all.find(':', begin), all.size());
      if (end > begin) paths.push_back(all.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  const std::string directory = own_directory();
  for (const char* name : {"cpu", "metal", "cuda"}) {
    const std::string beside = cat(directory, "/libmlxc_", name, library_suffix);
    // In a build tree each library is in the folder of its sources.
    const std::string built = cat(directory, "/../backends/", name, "/libmlxc_", name, library_suffix);
    if (file_exists(beside) || (std::strcmp(name, "cpu") == 0 && !file_exists(built)))
      paths.push_back(beside);
    else if (file_exists(built))
      paths.push_back(built);
  }
  for (const std::string& path : paths) {
    try {
      load_locked(r, path);
    } catch (const std::exception&) {
      // Its words are in the attempt, which mlxc.info shows.
    }
  }
  choose_backends(r);
  const char* wanted = environment("MLXC_BACKEND");
  if (wanted && !(r.cpu.load() && r.cpu.load()->name == wanted) &&
      !(r.gpu.load() && r.gpu.load()->name == wanted))
    log_message(MLXC_LOG_WARNING, cat("MLXC_BACKEND=", wanted, ": no such backend with a device is loaded"));
}

}  // namespace

const mlxc_kernel* Backend::find_kernel(const mlxc_kernel_call& call) const {
  const mlxc_view& key = call.n_inputs ? *call.inputs[0] : *call.outputs[0];
  const mlxc_kernel* row = first[call.op][key.dtype];
  if (!row) return nullptr;
  for (const mlxc_kernel* end = rows.data() + rows.size(); row != end; row++) {
    if (row->op != call.op) continue;
    bool admitted = true;
    for (int i = 0; i < call.n_inputs && admitted; i++)
      admitted = row->input_dtypes & MLXC_DTYPE_BIT(call.inputs[i]->dtype);
    for (int i = 0; i < call.n_outputs && admitted; i++)
      admitted = row->output_dtypes & MLXC_DTYPE_BIT(call.outputs[i]->dtype);
    if (admitted && (!row->accepts || row->accepts(&call))) return row;
  }
  return nullptr;
}

void ensure_backends() {
  // Not std::call_once: its thread-local variables are libstdc++'s, and with the initial-exec model they
  // would have to be in the static block, where they are not if an earlier library has used them (PyTorch
  // does).
  static const bool loaded = (load_all(registry()), true);
  static_cast<void>(loaded);
}

Backend* cpu_backend() {
  ensure_backends();
  return registry().cpu.load();
}

Backend* gpu_backend() {
  ensure_backends();
  return registry().gpu.load();
}

bool default_is_gpu() {
  Backend* gpu = gpu_backend();
  if (!gpu) return false;
  const char* wanted = environment("MLXC_BACKEND");
  Backend* cpu = cpu_backend();
  return !wanted || !cpu || cpu->name != wanted;
}

Fallback fallback_policy() {
  static const Fallback policy = [] {
    const char* value = environment("MLXC_FALLBACK");
    if (value && std::strcmp(value, "error") == 0) return Fallback::error;
    if (value && std::strcmp(value, "allow") == 0) return Fallback::allow;
    return Fallback::warn;
  }();
  return policy;
}

Backend* load_backend(const std::string& path) {
  ensure_backends();
  Registry& r = registry();
  std::lock_guard hold(r.lock);
  Backend* backend = load_locked(r, path);
  choose_backends(r);
  return backend;
}

}  // namespace mlxc

extern "C" {

mlxc_error* mlxc_init(void) {
  return mlxc::guard([] {
    if (mlxc::cpu_backend()) return;
    mlxc::Registry& r = mlxc::registry();
    std::lock_guard hold(r.lock);
    std::string words;
    for (const auto& attempt : r.attempts) words += "\n  " + attempt.message;
    mlxc::fail(MLXC_ERROR_OS, "no CPU backend could be loaded:", words);
  });
}

mlxc_error* mlxc_backend_load(const char* path) {
  return mlxc::guard([&] {
    if (!path) mlxc::fail(MLXC_ERROR_VALUE, "mlxc_backend_load: path is NULL");
    mlxc::load_backend(path);
  });
}

size_t mlxc_backend_attempt_count(void) {
  mlxc::ensure_backends();
  mlxc::Registry& r = mlxc::registry();
  std::lock_guard hold(r.lock);
  return r.attempts.size();
}

mlxc_error* mlxc_backend_attempt_get(size_t index, mlxc_backend_attempt* attempt) {
  return mlxc::guard([&] {
    mlxc::ensure_backends();
    mlxc::Registry& r = mlxc::registry();
    std::lock_guard hold(r.lock);
    if (!attempt) mlxc::fail(MLXC_ERROR_VALUE, "mlxc_backend_attempt_get: attempt is NULL");
    if (index >= r.attempts.size())
      mlxc::fail(MLXC_ERROR_INDEX, "mlxc_backend_attempt_get: index ", index, " of ", r.attempts.size());
    const mlxc::Attempt& a = r.attempts[index];
    mlxc_backend_attempt filled{sizeof(mlxc_backend_attempt),
                                a.path.c_str(),
                                a.name.c_str(),
                                a.version.c_str(),
                                a.message.c_str(),
                                a.loaded,
                                a.kind,
                                a.device_count,
                                a.reason.c_str()};
    size_t room = attempt->struct_size;
    if (room < sizeof(size_t))
      mlxc::fail(MLXC_ERROR_VALUE, "mlxc_backend_attempt_get: struct_size is not set");
    std::memcpy(attempt, &filled, std::min(room, sizeof(filled)));
    attempt->struct_size = room;
  });
}

int32_t mlxc_kernel_exists(mlxc_device_kind kind, int32_t op, mlxc_dtype dtype) {
  mlxc::Backend* backend = kind == MLXC_CPU   ? mlxc::cpu_backend()
                           : kind == MLXC_GPU ? mlxc::gpu_backend()
                                              : nullptr;
  if (!backend || op <= 0 || op >= MLXC_OP_COUNT || dtype < 0 || dtype >= MLXC_DTYPE_COUNT) return 0;
  return backend->first[op][dtype] != nullptr;
}

}  // extern "C"
