/* Compiles and runs user kernels (user_kernel.h): the body becomes an inline function, called in a loop over
 * the points of the grid, which the core's worker threads share.
 *
 * The product is a shared library. It is kept in the core's disk cache under its whole text and the
 * compiler's words about itself, so a program that starts again compiles nothing.
 *
 * Rule: nothing of the user's text reaches a shell; the compiler is started with a list of arguments.
 */
#include "user_kernel.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "parallel.h"

extern char** environ;

struct mlxc_backend_kernel {
  void* library;
  void (*run)(const void* const* in, void* const* out, const int64_t* const* shapes,
              const int64_t* const* strides, const int32_t* ndims, const uint32_t* grid, int64_t begin,
              int64_t end);
  int32_t n_inputs, n_outputs;
};

namespace mlxc_cpu {

namespace {

/* ---- the text ---- */

constexpr const char* kPreamble = R"(#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>

struct uint3 { uint32_t x, y, z; };

/* 16-bit floats: kept as bits, computed with as float, rounded to the nearest even. */
struct bfloat16_t {
  uint16_t bits;
  bfloat16_t() = default;
  bfloat16_t(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, 4);
    bits = value != value ? uint16_t((wide >> 16) | 64) : uint16_t((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
  operator float() const {
    const uint32_t wide = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  }
};
struct float16_t {
  uint16_t bits;
  float16_t() = default;
  float16_t(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, 4);
    const uint16_t sign = uint16_t((wide >> 16) & 0x8000);
    const float size = std::fabs(value);
    if (!(size <= 3.4028234e38f)) {
      bits = uint16_t(sign | 0x7c00 | (value != value ? 0x200 : 0));
    } else if (size >= 65520.0f) {
      bits = uint16_t(sign | 0x7c00);
    } else if (size < 6.103515625e-5f) {
      bits = uint16_t(sign | uint16_t(std::nearbyint(size * 16777216.0f)));
    } else {
      wide &= 0x7fffffff;
      wide += 0xfff + ((wide >> 13) & 1);
      bits = uint16_t(sign | ((wide - 0x38000000) >> 13));
    }
  }
  operator float() const {
    const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                       : exponent     ? std::ldexp(float(fraction + 1024), exponent - 25)
                                      : std::ldexp(float(fraction), -24);
    return bits & 0x8000 ? -size : size;
  }
};

/* Adds to an element that other points add to as well. */
template <class T>
inline void atomic_add(T* element, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*element).fetch_add(value, std::memory_order_relaxed);
}
)";

constexpr const char* kTypes[MLXC_DTYPE_COUNT] = {"bool",
                                                  "uint8_t",
                                                  "uint16_t",
                                                  "uint32_t",
                                                  "uint64_t",
                                                  "int8_t",
                                                  "int16_t",
                                                  "int32_t",
                                                  "int64_t",
                                                  "float16_t",
                                                  "bfloat16_t",
                                                  "float",
                                                  "double",
                                                  "std::complex<float>",
                                                  "std::complex<double>"};

std::string constant_text(const char* name, const mlxc_constant& constant) {
  if (constant.kind == MLXC_CONSTANT_DTYPE)
    return std::string("using ") + name + " = " + kTypes[constant.value] + ";\n";
  if (constant.kind == MLXC_CONSTANT_BOOL)
    return std::string("constexpr bool ") + name + " = " + (constant.value ? "true" : "false") + ";\n";
  return std::string("constexpr int64_t ") + name + " = INT64_C(" + std::to_string(constant.value) + ");\n";
}

/* Parameters of the body's function, and what the loop hands over for them. */
struct Arguments {
  std::string parameters, values;

  void add(const std::string& parameter, const std::string& value) {
    parameters += (parameters.empty() ? "" : ", ") + parameter;
    values += (values.empty() ? "" : ", ") + value;
  }
  void add_array(const char* name, mlxc_dtype dtype, int32_t ndim, int index, bool output) {
    const std::string n = name, at = "[" + std::to_string(index) + "]";
    const std::string type = std::string(output ? "" : "const ") + kTypes[dtype];
    const std::string pointer = "static_cast<" + type + "*>(" + (output ? "out" : "in") + at + ")";
    if (ndim == 0 && !output)
      add(type + "& " + n, "*" + pointer);
    else
      add(type + "* " + n, pointer);
  }
  void add_layout(const char* name, int place) {
    const std::string n = name, at = "[" + std::to_string(place) + "]";
    add("[[maybe_unused]] const int64_t* " + n + "_shape", "shapes" + at);
    add("[[maybe_unused]] const int64_t* " + n + "_strides", "strides" + at);
    add("[[maybe_unused]] const int32_t " + n + "_ndim", "ndims" + at);
  }
};

std::string write_text(const mlxc_user_kernel_source& source) {
  std::string text = kPreamble;
  for (int i = 0; i < source.n_constants; i++)
    text += constant_text(source.constant_names[i], source.constants[i]);
  text += std::string("#line 1 \"") + source.name + " header\"\n" + source.header + "\n";
  Arguments arguments;
  for (int i = 0; i < source.n_inputs; i++) {
    arguments.add_array(source.input_names[i], source.input_dtypes[i], source.input_ndims[i], i, false);
    arguments.add_layout(source.input_names[i], i);
  }
  for (int i = 0; i < source.n_outputs; i++) {
    arguments.add_array(source.output_names[i], source.output_dtypes[i], source.output_ndims[i], i, true);
    arguments.add_layout(source.output_names[i], source.n_inputs + i);
  }
  arguments.add("[[maybe_unused]] const uint3 thread_position_in_grid", "uint3{x, y, z}");
  arguments.add("[[maybe_unused]] const uint3 threads_per_grid", "uint3{grid[0], grid[1], grid[2]}");
  text +=
      "namespace {\ninline __attribute__((always_inline)) void user_body(" + arguments.parameters + ") {\n";
  text += std::string("#line 1 \"") + source.name + "\"\n" + source.body + "\n}\n}\n";
  text +=
      "extern \"C\" __attribute__((visibility(\"default\"))) void mlxc_user_run(const void* const* in, "
      "void* const* out, const int64_t* const* shapes, const int64_t* const* strides, const int32_t* ndims, "
      "const uint32_t* grid, int64_t begin, int64_t end) {\n"
      "  (void)in, (void)shapes, (void)strides, (void)ndims;\n"
      "  const int64_t row = grid[0];\n"
      "  while (begin < end) {\n"
      "    const int64_t from = begin % row, rest = begin / row;\n"
      "    const uint32_t y = uint32_t(rest % grid[1]), z = uint32_t(rest / grid[1]);\n"
      "    const int64_t to = std::min<int64_t>(row, from + (end - begin));\n"
      "    for (uint32_t x = uint32_t(from); x < to; x++) user_body(" +
      arguments.values +
      ");\n"
      "    begin += to - from;\n  }\n}\n";
  return text;
}

/* ---- the compiler ---- */

struct TemporaryFolder {
  std::string path;
  TemporaryFolder() {
    const char* base = std::getenv("TMPDIR");
    path = std::string(base && base[0] == '/' ? base : "/tmp") + "/mlxc-XXXXXX";
    if (!mkdtemp(path.data())) path.clear();
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    if (path.empty()) return;
    for (const char* name : {"/kernel.cc", "/kernel.so", "/words"}) unlink((path + name).c_str());
    rmdir(path.c_str());
  }
};

bool write_file(const std::string& path, const void* data, size_t size) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (!file) return false;
  const bool good = std::fwrite(data, 1, size, file) == size;
  return std::fclose(file) == 0 && good;
}

std::string read_file(const std::string& path) {
  std::string content;
  if (std::FILE* file = std::fopen(path.c_str(), "rb")) {
    char piece[4096];
    while (size_t got = std::fread(piece, 1, sizeof piece, file)) content.append(piece, got);
    std::fclose(file);
  }
  return content;
}

/* Runs a program found on PATH, its words into a file. Its exit status; -1 if it could not be started. */
int run_program(const std::vector<std::string>& command, const std::string& words) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, words.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return -1;
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  size_t at = 0;
  while ((at = text.find_first_not_of(" \t\n", at)) != std::string::npos) {
    const size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

struct Compiler {
  std::vector<std::string> command; /* empty: there is none */
  std::string version;
};

/* CXX, or the first of the usual names that runs. */
Compiler find_compiler(const std::string& folder) {
  std::vector<std::string> names = {"c++", "g++", "clang++"};
  if (const char* named = std::getenv("CXX"); named && named[0]) names = {named};
  for (const std::string& name : names) {
    std::vector<std::string> command = split_words(name);
    if (command.empty()) continue;
    std::vector<std::string> ask = command;
    ask.push_back("--version");
    if (run_program(ask, folder + "/words") == 0) return {command, read_file(folder + "/words")};
  }
  return {};
}

mlxc_error* compile(const mlxc_user_kernel_source& source, const std::string& folder, const std::string& text,
                    const Compiler& compiler) {
  const std::string file = folder + "/kernel.cc", library = folder + "/kernel.so";
  if (!write_file(file, text.data(), text.size()))
    return make_error(MLXC_ERROR_OS, "%s: cannot write %s: %s", source.name, file.c_str(),
                      std::strerror(errno));
  std::vector<std::string> command = compiler.command;
#if defined(__x86_64__)
  const char* tune = "-march=native";
#else
  const char* tune = "-mcpu=native";
#endif
  for (const char* option : {"-std=c++20", "-O3", tune, "-fno-math-errno", "-fPIC", "-shared", "-w"})
    command.push_back(option);
  for (const std::string& option : split_words(source.options)) command.push_back(option);
  for (const std::string& part : {std::string("-o"), library, file}) command.push_back(part);
  if (run_program(command, folder + "/words") == 0) return nullptr;
  return make_error(MLXC_ERROR_VALUE, "%s: the user kernel does not compile: %.700s", source.name,
                    read_file(folder + "/words").c_str());
}

/* Puts the compiled library into the folder, out of the disk cache or by compiling. */
mlxc_error* provide_library(const mlxc_user_kernel_source& source, const std::string& folder) {
  const Compiler compiler = find_compiler(folder);
  if (compiler.command.empty())
    return make_error(MLXC_ERROR_OS,
                      "%s: a user kernel needs a C++ compiler, and none of CXX, c++, g++ and "
                      "clang++ runs here",
                      source.name);
  const std::string text = write_text(source);
  const std::string key = "cpu user kernel\n" + compiler.version + source.options + "\n" + text;
  void* data = nullptr;
  size_t size = 0;
  /* The cache only saves time: what it cannot do is done without it. */
  host->error_free(host->cache_get(key.c_str(), &data, &size));
  if (data) {
    const bool written = write_file(folder + "/kernel.so", data, size);
    host->cache_free(data);
    if (written) return nullptr;
  }
  if (mlxc_error* error = compile(source, folder, text, compiler)) return error;
  const std::string library = read_file(folder + "/kernel.so");
  host->error_free(host->cache_put(key.c_str(), library.data(), library.size()));
  return nullptr;
}

}  // namespace

mlxc_error* make_user_kernel(mlxc_backend_device*, const mlxc_user_kernel_source* source,
                             mlxc_backend_kernel** kernel) try {
  const TemporaryFolder folder;
  if (folder.path.empty())
    return make_error(MLXC_ERROR_OS, "%s: cannot make a temporary folder: %s", source->name,
                      std::strerror(errno));
  if (mlxc_error* error = provide_library(*source, folder.path)) return error;
  void* library = dlopen((folder.path + "/kernel.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return make_error(MLXC_ERROR_OS, "%s: %s", source->name, dlerror());
  auto* made = new (std::nothrow) mlxc_backend_kernel{library, nullptr, source->n_inputs, source->n_outputs};
  void* symbol = made ? dlsym(library, "mlxc_user_run") : nullptr;
  if (!symbol) {
    mlxc_error* error =
        made ? make_error(MLXC_ERROR_OS, "%s: the compiled library lacks its function", source->name)
             : make_memory_error(sizeof(mlxc_backend_kernel));
    dlclose(library);
    delete made;
    return error;
  }
  std::memcpy(&made->run, &symbol, sizeof symbol);
  *kernel = made;
  return nullptr;
} catch (const std::bad_alloc&) {
  return make_memory_error(sizeof(mlxc_backend_kernel));
}

mlxc_error* run_user_kernel(mlxc_backend_stream*, mlxc_backend_kernel* kernel,
                            const mlxc_user_kernel_launch* launch, const mlxc_view* const* inputs,
                            const mlxc_view* const* outputs) try {
  std::vector<const void*> in;
  std::vector<void*> out;
  std::vector<const int64_t*> shapes, strides;
  std::vector<int32_t> ndims;
  auto describe = [&](const mlxc_view* view) {
    shapes.push_back(view->shape);
    strides.push_back(view->strides);
    ndims.push_back(view->ndim);
  };
  for (int i = 0; i < kernel->n_inputs; i++) {
    in.push_back(inputs[i]->host);
    describe(inputs[i]);
  }
  for (int i = 0; i < kernel->n_outputs; i++) {
    out.push_back(outputs[i]->host);
    describe(outputs[i]);
  }
  const uint64_t plane = uint64_t{launch->grid[0]} * launch->grid[1];
  if (plane > static_cast<uint64_t>(INT64_MAX) / launch->grid[2])
    return make_error(MLXC_ERROR_VALUE, "the grid of a user kernel has too many points");
  constexpr int64_t kGrain = 4096;
  parallel_for(static_cast<int64_t>(plane * launch->grid[2]), kGrain, [&](int64_t begin, int64_t end) {
    kernel->run(in.data(), out.data(), shapes.data(), strides.data(), ndims.data(), launch->grid, begin, end);
  });
  return nullptr;
} catch (const std::bad_alloc&) {
  return make_memory_error(sizeof(void*));
}

void free_user_kernel(mlxc_backend_device*, mlxc_backend_kernel* kernel) {
  dlclose(kernel->library);
  delete kernel;
}

}  // namespace mlxc_cpu
