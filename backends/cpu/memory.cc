/* Allocation for the CPU device (see memory.h).
 *
 * Blocks of 2 MiB and more are mapped at 2 MiB boundaries and marked for huge pages, because faulting in
 * small pages costs more than most kernels; smaller ones come from the heap. Any thread may call.
 */
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "kernel.h"

#if defined(__linux__)
#include <sys/sysinfo.h>
#endif

namespace mlxc_cpu {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHuge = size_t(2) << 20;

std::atomic<size_t> live_bytes{0};

size_t read_total_memory() {
  long pages = sysconf(_SC_PHYS_PAGES);
  long page_size = sysconf(_SC_PAGESIZE);
  size_t total = pages > 0 && page_size > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page_size)
                                            : static_cast<size_t>(INT64_MAX);
#if defined(__linux__)
  struct sysinfo info;
  if (sysinfo(&info) == 0) total += static_cast<size_t>(info.totalswap) * info.mem_unit;
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::FILE* file = std::fopen(path, "r");
    if (file == nullptr) continue;
    unsigned long long limit;
    if (std::fscanf(file, "%llu", &limit) == 1 && limit > 0 && limit < total) total = limit;
    std::fclose(file);
  }
#endif
  return total;
}

/* A mapping of `size` bytes (whole pages) that starts at a 2 MiB boundary, or NULL. */
void* map_huge(size_t size) {
  void* raw = mmap(nullptr, size + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  uintptr_t begin = reinterpret_cast<uintptr_t>(raw);
  uintptr_t aligned = (begin + kHuge - 1) & ~(kHuge - 1);
  if (aligned > begin) munmap(raw, aligned - begin);
  uintptr_t end = begin + size + kHuge;
  if (end > aligned + size) munmap(reinterpret_cast<void*>(aligned + size), end - aligned - size);
#if defined(MADV_HUGEPAGE)
  madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);
#endif
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

size_t total_memory() {
  static const size_t total = read_total_memory();
  return total;
}

mlxc_error* allocate_memory(size_t size, mlxc_backend_memory** memory) {
  if (size > total_memory()) {
    return make_error(MLXC_ERROR_MEMORY, "cannot allocate %zu bytes: this machine has %zu in all", size,
                      total_memory());
  }
  size_t live = live_bytes.fetch_add(size) + size;
  if (live > total_memory()) {
    live_bytes.fetch_sub(size);
    return make_error(MLXC_ERROR_MEMORY,
                      "cannot allocate %zu bytes: %zu of the machine's %zu are in use by arrays", size,
                      live - size, total_memory());
  }
  auto* block = new (std::nothrow) mlxc_backend_memory{nullptr, size, 0, true};
  if (block != nullptr) {
    if (size >= kHuge) {
      size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
      block->mapped = (size + page - 1) / page * page;
      block->pointer = map_huge(block->mapped);
    } else {
      block->pointer = std::aligned_alloc(
          kAlignment, size ? (size + kAlignment - 1) / kAlignment * kAlignment : kAlignment);
    }
  }
  if (block == nullptr || block->pointer == nullptr) {
    delete block;
    live_bytes.fetch_sub(size);
    return make_memory_error(size);
  }
  *memory = block;
  return nullptr;
}

mlxc_error* wrap_memory(void* host_bytes, size_t size, mlxc_backend_memory** memory) {
  auto* block = new (std::nothrow) mlxc_backend_memory{host_bytes, size, 0, false};
  if (block == nullptr) return make_memory_error(sizeof(mlxc_backend_memory));
  *memory = block;
  return nullptr;
}

void free_memory(mlxc_backend_memory* memory) {
  if (memory == nullptr) return;
  if (memory->owned) {
    if (memory->mapped) {
      munmap(memory->pointer, memory->mapped);
    } else {
      std::free(memory->pointer);
    }
    live_bytes.fetch_sub(memory->size);
  }
  delete memory;
}

}  // namespace mlxc_cpu
