/* The CPU backend's entry and table: one device, host memory, streams that are always up to date.
 *
 * The core calls mlxc_backend_entry once, before anything else. Kernels run to their end on the thread that
 * submits them, so a timeline has reached every value that was ever signalled and there is nothing to wait
 * for; errors are returned at once and never poison a stream.
 */
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <vector>

#include "blas.h"
#include "families.h"
#include "isa.h"
#include "kernel.h"
#include "memory.h"
#include "parallel.h"
#include "program.h"
#include "user_kernel.h"

struct mlxc_backend_device {
  int32_t index;
};
struct mlxc_backend_stream {
  mlxc_backend_device* device;
};

namespace mlxc_cpu {

const mlxc_host* host = nullptr;

#define MLXC_DECLARE_ROWS(family) KernelRows family##_rows();
namespace base {
MLXC_CPU_ISA_FAMILIES(MLXC_DECLARE_ROWS)
MLXC_CPU_ONCE_FAMILIES(MLXC_DECLARE_ROWS)
}  // namespace base
#if defined(MLXC_CPU_X86_VARIANTS)
namespace v3 {
ProgramFunctions program_functions();
MLXC_CPU_ISA_FAMILIES(MLXC_DECLARE_ROWS)
}  // namespace v3
namespace v4 {
ProgramFunctions program_functions();
MLXC_CPU_ISA_FAMILIES(MLXC_DECLARE_ROWS)
}  // namespace v4
#endif
#undef MLXC_DECLARE_ROWS

mlxc_error* make_error(mlxc_code code, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return host->error_make(code, text);
}

mlxc_error* make_memory_error(size_t bytes) {
  return make_error(MLXC_ERROR_MEMORY, "cannot allocate %zu bytes: out of memory", bytes);
}

const char* dtype_name(mlxc_dtype dtype) {
  static const char* const names[MLXC_DTYPE_COUNT] = {
      "bool",  "uint8",   "uint16",   "uint32",  "uint64",  "int8",      "int16",     "int32",
      "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
  return dtype >= 0 && dtype < MLXC_DTYPE_COUNT ? names[dtype] : "unknown dtype";
}

namespace {

mlxc_backend_device the_device{0};
Isa the_isa = Isa::kBase;

std::vector<mlxc_kernel>& kernel_list() {
  static std::vector<mlxc_kernel> list;
  return list;
}

void append_rows(KernelRows rows) {
  kernel_list().insert(kernel_list().end(), rows.rows, rows.rows + rows.count);
}

void join_kernel_lists(Isa isa) {
  kernel_list().clear();
#define MLXC_APPEND_BASE(family) append_rows(base::family##_rows());
#define MLXC_APPEND_V3(family) append_rows(v3::family##_rows());
#define MLXC_APPEND_V4(family) append_rows(v4::family##_rows());
#if defined(MLXC_CPU_X86_VARIANTS)
  if (isa == Isa::kV4) {
    MLXC_CPU_ISA_FAMILIES(MLXC_APPEND_V4)
  } else if (isa == Isa::kV3) {
    MLXC_CPU_ISA_FAMILIES(MLXC_APPEND_V3)
  } else {
    MLXC_CPU_ISA_FAMILIES(MLXC_APPEND_BASE)
  }
#else
  (void)isa;
  MLXC_CPU_ISA_FAMILIES(MLXC_APPEND_BASE)
#endif
  MLXC_CPU_ONCE_FAMILIES(MLXC_APPEND_BASE)
#undef MLXC_APPEND_BASE
#undef MLXC_APPEND_V3
#undef MLXC_APPEND_V4
}

ProgramFunctions pick_program_functions(Isa isa) {
#if defined(MLXC_CPU_X86_VARIANTS)
  if (isa == Isa::kV4) return v4::program_functions();
  if (isa == Isa::kV3) return v3::program_functions();
#else
  (void)isa;
#endif
  return base::program_functions();
}

int32_t device_count(const char** reason) {
  if (reason != nullptr) *reason = nullptr;
  return 1;
}

mlxc_error* device_open(int32_t index, mlxc_backend_device** device) {
  if (index != 0) return make_error(MLXC_ERROR_VALUE, "the cpu backend has one device, asked for %d", index);
  *device = &the_device;
  return nullptr;
}

mlxc_error* device_info(mlxc_backend_device*, mlxc_device_info* info) {
  mlxc_device_info filled{};
  filled.struct_size = sizeof filled;
  filled.flags = MLXC_DEVICE_HOST_VISIBLE | MLXC_DEVICE_SYNCHRONOUS;
  describe_cpu(filled.name, sizeof filled.name, filled.architecture, sizeof filled.architecture);
  describe_features(the_isa, filled.features, sizeof filled.features);
  const size_t used = std::strlen(filled.features);
  std::snprintf(filled.features + used, sizeof filled.features - used, " blas=%s", blas_description());
  filled.memory_size = static_cast<int64_t>(total_memory());
  filled.alignment = 64;
  filled.dtypes = MLXC_DTYPES_ALL;
  *info = filled;
  return nullptr;
}

mlxc_error* alloc_memory(mlxc_backend_device*, size_t size, mlxc_backend_memory** memory) {
  return allocate_memory(size, memory);
}

void release_memory(mlxc_backend_device*, mlxc_backend_memory* memory) { free_memory(memory); }

void* host_pointer(mlxc_backend_memory* memory) { return memory->pointer; }

mlxc_error* wrap_host(mlxc_backend_device*, void* bytes, size_t size, mlxc_backend_memory** memory) {
  return wrap_memory(bytes, size, memory);
}

mlxc_error* stream_create(mlxc_backend_device* device, mlxc_backend_stream** stream) {
  *stream = new (std::nothrow) mlxc_backend_stream{device};
  return *stream == nullptr ? make_memory_error(sizeof(mlxc_backend_stream)) : nullptr;
}

void stream_destroy(mlxc_backend_stream* stream) { delete stream; }

mlxc_error* stream_signal(mlxc_backend_stream*, uint64_t) { return nullptr; }

mlxc_error* stream_await(mlxc_backend_stream*, mlxc_backend_stream*, uint64_t) { return nullptr; }

mlxc_error* stream_wait(mlxc_backend_stream*, uint64_t, int64_t, int32_t* reached) {
  if (reached != nullptr) *reached = 1;
  return nullptr;
}

mlxc_error* copy_bytes(mlxc_backend_stream*, int32_t direction, mlxc_backend_memory* dst, int64_t dst_offset,
                       mlxc_backend_memory* src, int64_t src_offset, void* host_bytes, int64_t size) {
  if (size < 0) return make_error(MLXC_ERROR_VALUE, "copy of %lld bytes", static_cast<long long>(size));
  if (size == 0) return nullptr;
  char* target;
  const char* source;
  switch (direction) {
    case MLXC_COPY_DEVICE_TO_DEVICE:
      target = static_cast<char*>(dst->pointer) + dst_offset;
      source = static_cast<char*>(src->pointer) + src_offset;
      std::memmove(target, source, static_cast<size_t>(size));
      return nullptr;
    case MLXC_COPY_HOST_TO_DEVICE:
      target = static_cast<char*>(dst->pointer) + dst_offset;
      source = static_cast<char*>(host_bytes);
      break;
    case MLXC_COPY_DEVICE_TO_HOST:
      target = static_cast<char*>(host_bytes);
      source = static_cast<char*>(src->pointer) + src_offset;
      break;
    default: return make_error(MLXC_ERROR_VALUE, "unknown copy direction %d", direction);
  }
  parallel_for(size, int64_t(4) << 20, [=](int64_t begin, int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
  });
  return nullptr;
}

mlxc_error* fill_bytes(mlxc_backend_stream*, mlxc_backend_memory* dst, int64_t offset, const void* pattern,
                       int64_t pattern_size, int64_t count) {
  if (pattern_size != 1 && pattern_size != 2 && pattern_size != 4 && pattern_size != 8 &&
      pattern_size != 16) {
    return make_error(MLXC_ERROR_VALUE, "a fill pattern has 1, 2, 4, 8 or 16 bytes, not %lld",
                      static_cast<long long>(pattern_size));
  }
  if (count <= 0) return nullptr;
  char* target = static_cast<char*>(dst->pointer) + offset;
  size_t total = static_cast<size_t>(pattern_size) * static_cast<size_t>(count);
  /* Double what is written until it is all. */
  size_t done = static_cast<size_t>(pattern_size);
  std::memcpy(target, pattern, done);
  while (done < total) {
    size_t step = done < size_t(64) * 1024 ? done : size_t(64) * 1024;
    if (step > total - done) step = total - done;
    std::memcpy(target + done, target, step);
    done += step;
  }
  return nullptr;
}

mlxc_backend the_backend{};

void fill_table() {
  the_backend.struct_size = sizeof the_backend;
  the_backend.abi_major = MLXC_BACKEND_ABI_MAJOR;
  the_backend.abi_minor = MLXC_BACKEND_ABI_MINOR;
  the_backend.name = "cpu";
  the_backend.version = MLXC_CPU_VERSION;
  the_backend.kind = MLXC_CPU;
  the_backend.kernels = kernel_list().data();
  the_backend.n_kernels = kernel_list().size();
  the_backend.kernel_size = sizeof(mlxc_kernel);
  the_backend.device_count = device_count;
  the_backend.device_open = device_open;
  the_backend.device_info = device_info;
  the_backend.alloc = alloc_memory;
  the_backend.free = release_memory;
  the_backend.host_pointer = host_pointer;
  the_backend.wrap = wrap_host;
  the_backend.stream_create = stream_create;
  the_backend.stream_destroy = stream_destroy;
  the_backend.stream_signal = stream_signal;
  the_backend.stream_await = stream_await;
  the_backend.stream_wait = stream_wait;
  the_backend.copy = copy_bytes;
  the_backend.fill = fill_bytes;
  const ProgramFunctions programs = pick_program_functions(the_isa);
  the_backend.program_make = programs.make;
  the_backend.program_run = programs.run;
  the_backend.program_free = programs.free;
  the_backend.user_kernel_make = make_user_kernel;
  the_backend.user_kernel_run = run_user_kernel;
  the_backend.user_kernel_free = free_user_kernel;
}

}  // namespace
}  // namespace mlxc_cpu

extern "C" mlxc_error* mlxc_backend_entry(const mlxc_host* host_table, const mlxc_backend** backend) {
  using namespace mlxc_cpu;
  host = host_table;
  if (mlxc_error* error = pick_isa(&the_isa)) return error;
  try {
    join_kernel_lists(the_isa);
  } catch (const std::bad_alloc&) {
    return make_memory_error(sizeof(mlxc_kernel) * 256);
  }
  fill_table();
  *backend = &the_backend;
  return nullptr;
}
