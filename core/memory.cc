// Implements the caching pool and buffers (see pool.h, memory.h).
#include "core/memory.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "core/device.h"
#include "core/error.h"
#include "core/fork.h"
#include "core/pool.h"
#include "core/registry.h"

namespace mlxc {

namespace {

struct Block {
  mlxc_backend_memory* memory;
  char* host;
};

int64_t physical_memory() {
  int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : int64_t{8} << 30;
}

// Classes: multiples of 64 bytes up to 1 KiB, then eight steps a power of two, and from 16 MiB on
// multiples of 2 MiB. At most an eighth of a block is unused.
int64_t round_size(int64_t bytes) {
  if (bytes <= 1024) return std::max<int64_t>(64, (bytes + 63) & ~int64_t{63});
  if (bytes >= int64_t{16} << 20) return (bytes + (int64_t{2} << 20) - 1) & ~((int64_t{2} << 20) - 1);
  int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes))) / 8;
  return (bytes + step - 1) / step * step;
}

struct DeviceCache {
  std::vector<Block> small[17];  // by 64-byte multiples
  std::map<int64_t, std::vector<Block>> large;
};

struct Pool {
  std::mutex lock;
  std::map<Device*, DeviceCache> caches;
  int64_t active = 0, peak = 0, cached = 0;
  int64_t limit = physical_memory() / 20 * 19;
  int64_t cache_limit = physical_memory() / 2;
  mlxc_error* violation = nullptr;
};

Pool& pool() {
  static Pool* instance = new Pool;  // outlives every thread that may still free
  return *instance;
}

void free_block(Device* device, const Block& block) noexcept {
  device->backend->table.free(device->handle, block.memory);
}

// Gives cached blocks back to the devices until at most `keep` bytes are cached; the lock is held.
void trim_cache(Pool& p, int64_t keep) noexcept {
  for (auto& [device, cache] : p.caches) {
    while (p.cached > keep && !cache.large.empty()) {
      auto last = std::prev(cache.large.end());
      while (p.cached > keep && !last->second.empty()) {
        free_block(device, last->second.back());
        last->second.pop_back();
        p.cached -= last->first;
      }
      if (last->second.empty()) cache.large.erase(last);
    }
    for (int i = 16; i >= 1; i--) {
      auto& blocks = cache.small[i];
      while (p.cached > keep && !blocks.empty()) {
        free_block(device, blocks.back());
        blocks.pop_back();
        p.cached -= int64_t{64} * i;
      }
    }
  }
}

bool take_cached(Pool& p, Device* device, int64_t rounded, Block* block, int64_t* capacity) {
  DeviceCache& cache = p.caches[device];
  if (rounded <= 1024) {
    auto& blocks = cache.small[rounded / 64];
    if (blocks.empty()) return false;
    *block = blocks.back();
    blocks.pop_back();
    *capacity = rounded;
  } else {
    auto found = cache.large.lower_bound(rounded);
    while (found != cache.large.end() && found->second.empty()) found = cache.large.erase(found);
    if (found == cache.large.end() || found->first > rounded + rounded / 4) return false;
    *block = found->second.back();
    found->second.pop_back();
    *capacity = found->first;
    if (found->second.empty()) cache.large.erase(found);
  }
  p.cached -= *capacity;
  return true;
}

const bool guards_on = [] {
  const char* value = std::getenv("MLXC_GUARD");
  return value && std::strcmp(value, "1") == 0;
}();
constexpr int64_t guard_size = 64;
constexpr unsigned char guard_byte = 0xA5;

bool guard_intact(const char* guard) {
  return std::all_of(guard, guard + guard_size,
                     [](char c) { return static_cast<unsigned char>(c) == guard_byte; });
}

// Guard bytes lie before the data and right behind its last byte.
void check_guards(const Buffer& buffer) noexcept {
  const char* host = buffer.first.host;
  if (!host || (guard_intact(host) && guard_intact(host + guard_size + buffer.size))) return;
  Pool& p = pool();
  std::lock_guard hold(p.lock);
  if (!p.violation)
    p.violation = make_error(MLXC_ERROR_RUNTIME, cat("memory guard: bytes outside a buffer of ", buffer.size,
                                                     " bytes were written"));
}

}  // namespace

int64_t guard_bytes() { return guards_on ? guard_size : 0; }

Allocation allocate(Device* device, int64_t bytes) {
  const int64_t rounded = round_size(std::max<int64_t>(bytes, 1));
  Pool& p = pool();
  Allocation result;
  result.device = device;
  {
    std::lock_guard hold(p.lock);
    Block block;
    if (take_cached(p, device, rounded, &block, &result.capacity)) {
      result.memory = block.memory;
      result.host = block.host;
      p.active += result.capacity;
      p.peak = std::max(p.peak, p.active);
      return result;
    }
    if (p.active + p.cached + rounded > p.limit)
      trim_cache(p, std::max<int64_t>(0, p.limit - p.active - rounded));
  }
  auto request = [&] {
    return device->backend->table.alloc(device->handle, static_cast<size_t>(rounded), &result.memory);
  };
  mlxc_error* error = request();
  if (error && error->code == MLXC_ERROR_MEMORY) {
    clear_memory_cache();
    release_error(error);
    error = request();
  }
  throw_error(error);
  result.host = static_cast<char*>(device->backend->table.host_pointer(result.memory));
  result.capacity = rounded;
  std::lock_guard hold(p.lock);
  p.active += rounded;
  p.peak = std::max(p.peak, p.active);
  return result;
}

void deallocate(const Allocation& allocation) noexcept {
  if (!allocation.memory) return;
  Pool& p = pool();
  std::lock_guard hold(p.lock);
  p.active -= allocation.capacity;
  const Block block{allocation.memory, allocation.host};
  if (allocation.capacity > p.cache_limit) {
    free_block(allocation.device, block);
    return;
  }
  DeviceCache& cache = p.caches[allocation.device];
  try {
    if (allocation.capacity <= 1024)
      cache.small[allocation.capacity / 64].push_back(block);
    else
      cache.large[allocation.capacity].push_back(block);
    p.cached += allocation.capacity;
  } catch (const std::bad_alloc&) {
    free_block(allocation.device, block);
  }
  if (p.cached > p.cache_limit) trim_cache(p, p.cache_limit);
}

Buffer* make_buffer(Device* device, int64_t bytes) {
  auto buffer = std::make_unique<Buffer>();
  buffer->first = allocate(device, bytes + 2 * guard_bytes());
  buffer->size = bytes;
  if (guards_on && buffer->first.host) {
    std::memset(buffer->first.host, guard_byte, guard_size);
    std::memset(buffer->first.host + guard_size + bytes, guard_byte, guard_size);
  }
  return buffer.release();
}

void drop_mirrors(Buffer* buffer) noexcept {
  std::lock_guard hold(buffer->mirror_lock);
  for (const Allocation& mirror : buffer->mirrors) deallocate(mirror);
  buffer->mirrors.clear();
}

void destroy_buffer(Buffer* buffer) noexcept {
  if (guards_on && buffer->first.memory) check_guards(*buffer);
  for (const Allocation& mirror : buffer->mirrors) deallocate(mirror);
  if (buffer->release)
    buffer->release(buffer->release_context);
  else
    deallocate(buffer->first);
  delete buffer;
}

MultiResult::~MultiResult() {
  for (Result& result : results)
    if (result.buffer) release_buffer(result.buffer);
}

MemoryStatistics memory_statistics() {
  Pool& p = pool();
  std::lock_guard hold(p.lock);
  return {p.active, p.peak, p.cached, p.limit};
}

void reset_peak_memory() {
  Pool& p = pool();
  std::lock_guard hold(p.lock);
  p.peak = p.active;
}

int64_t set_memory_limit(int64_t bytes) {
  Pool& p = pool();
  std::lock_guard hold(p.lock);
  return std::exchange(p.limit, bytes);
}

int64_t set_cache_limit(int64_t bytes) {
  Pool& p = pool();
  std::lock_guard hold(p.lock);
  int64_t old = std::exchange(p.cache_limit, bytes);
  trim_cache(p, bytes);
  return old;
}

void clear_memory_cache() {
  Pool& p = pool();
  std::lock_guard hold(p.lock);
  trim_cache(p, 0);
}

void lock_pool() { pool().lock.lock(); }
void unlock_pool() { pool().lock.unlock(); }

mlxc_error* guard_violation() {
  Pool& p = pool();
  std::lock_guard hold(p.lock);
  return retain_error(p.violation);
}

}  // namespace mlxc

extern "C" {

int64_t mlxc_memory_active(void) { return mlxc::memory_statistics().active; }
int64_t mlxc_memory_peak(void) { return mlxc::memory_statistics().peak; }
void mlxc_memory_reset_peak(void) { mlxc::reset_peak_memory(); }
int64_t mlxc_memory_cache(void) { return mlxc::memory_statistics().cache; }
int64_t mlxc_memory_set_limit(int64_t limit) { return mlxc::set_memory_limit(limit); }
int64_t mlxc_memory_get_limit(void) { return mlxc::memory_statistics().limit; }
int64_t mlxc_memory_set_cache_limit(int64_t limit) { return mlxc::set_cache_limit(limit); }
void mlxc_memory_clear_cache(void) { mlxc::clear_memory_cache(); }
mlxc_error* mlxc_memory_check(void) { return mlxc::guard_violation(); }

}  // extern "C"
