// Buffers and the caching pool. A Buffer is the memory behind one or more arrays: its first
// allocation, and copies of the same bytes on other devices, all valid until somebody writes (only
// a donated buffer is written, and that drops the copies).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/node.h"
#include "mlxc/backend.h"

namespace mlxc {

struct Device;

// The moment on a stream's timeline at which bytes are complete; stream null: complete now.
struct Event {
  Stream* stream = nullptr;
  uint64_t value = 0;
};

struct Allocation {
  Device* device = nullptr;  // null: host bytes of somebody else
  mlxc_backend_memory* memory = nullptr;
  char* host = nullptr;  // null where the host cannot touch it
  int64_t capacity = 0;  // bytes
  Event ready;
};

struct Buffer {
  std::atomic<int64_t> refs{1};
  int64_t size = 0;  // bytes in use
  Allocation first;
  std::mutex mirror_lock;
  std::vector<Allocation> mirrors;
  void (*release)(void*) = nullptr;  // for host bytes of somebody else
  void* release_context = nullptr;
};

struct MultiResult {
  struct Result {
    mlxc_dtype dtype;
    Dims shape;
    // Once computed:
    Buffer* buffer = nullptr;
    Dims strides;
    int64_t offset = 0;
  };
  std::vector<Result> results;
  std::shared_ptr<Attachment> attachment;
  ~MultiResult();
};

// Memory from the device's pool; fails with MLXC_ERROR_MEMORY after the cache was released and the
// request tried again.
Allocation allocate(Device* device, int64_t bytes);
void deallocate(const Allocation& allocation) noexcept;

// A buffer on the device with room for `bytes`. Data begins at guard_bytes().
Buffer* make_buffer(Device* device, int64_t bytes);
inline void retain_buffer(Buffer* buffer) noexcept { buffer->refs.fetch_add(1, std::memory_order_relaxed); }
void destroy_buffer(Buffer* buffer) noexcept;
inline void release_buffer(Buffer* buffer) noexcept {
  if (buffer->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy_buffer(buffer);
}
// Forgets copies on other devices, before the first allocation is written.
void drop_mirrors(Buffer* buffer) noexcept;

// Where data begins in a buffer of ours: 0, or the size of the guard with MLXC_GUARD=1, which puts
// known bytes round every buffer and checks them when it is released.
int64_t guard_bytes();

class BufferRef {
 public:
  BufferRef() = default;
  explicit BufferRef(Buffer* owned) : buffer_(owned) {}
  BufferRef(BufferRef&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferRef& operator=(BufferRef&& other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferRef() {
    if (buffer_) release_buffer(buffer_);
  }
  Buffer* get() const { return buffer_; }
  Buffer* operator->() const { return buffer_; }
  Buffer* give_up() { return std::exchange(buffer_, nullptr); }

 private:
  Buffer* buffer_ = nullptr;
};

}  // namespace mlxc
