// Devices and streams as the core sees them. Both live as long as the process.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/memory.h"
#include "mlxc/backend.h"
#include "mlxc/device.h"

namespace mlxc {

struct Backend;

struct Device {
  Backend* backend = nullptr;
  mlxc_device id{};
  mlxc_backend_device* handle = nullptr;
  mlxc_device_info info{};
  bool synchronous() const { return info.flags & MLXC_DEVICE_SYNCHRONOUS; }
  bool host_visible() const { return info.flags & MLXC_DEVICE_HOST_VISIBLE; }
};

// A queue of work on a device. On a synchronous device nothing is ever queued at the backend, and
// work given to async_eval runs on the stream's worker thread (core/schedule.cc).
struct Stream {
  Device* device = nullptr;
  int32_t index = 0;
  mlxc_backend_stream* handle = nullptr;

  std::mutex lock;          // held around every backend call that takes the stream
  bool unsignaled = false;  // work was submitted after the last signal
  std::atomic<uint64_t> signaled{0};
  std::atomic<uint64_t> reached{0};  // known to be done

  // Buffers that queued work uses, released once the timeline has passed the value.
  struct InFlight {
    uint64_t value;
    Buffer* buffer;
  };
  std::deque<InFlight> in_flight;
  size_t reclaim_at = 256;  // so many make reclaim_in_flight look

  // Values whose work failed, so that every later reader of them sees the error. Kept for ever.
  struct Poisoned {
    uint64_t first, last;
    mlxc_error* error;
    bool settled;  // `first` did fail; else the failure is somewhere in the range
  };
  std::mutex poison_lock;  // nothing else is locked under it
  std::vector<Poisoned> poisoned;
};

// Opens the device at first use; throws where it does not exist.
Device* get_device(mlxc_device id);
Device* cpu_device();
Stream* new_stream(Device* device);
Stream* default_stream(Device* device);
// The stream for ops recorded by this thread that name none.
Stream* current_stream();

// ---- timelines of asynchronous streams; callers do not hold stream->lock unless it says so -------

// The event that will mark the end of the work submitted so far; the lock is held.
Event pending_event(Stream* stream);
// Keeps the buffer until the work submitted so far is done; the lock is held.
void keep_in_flight(Stream* stream, Buffer* buffer);
// Releases what queued work no longer uses, if much has piled up because nobody waits. Does not block.
void reclaim_in_flight(Stream* stream);
// Makes sure that the value is signaled.
void signal_stream(Stream* stream, uint64_t value);
// Blocks until the event, a time-out (false) or an interrupt; throws the error of failed work.
bool wait_event(const Event& event, int64_t timeout_ns = -1);
// Whether the event's work is known to have failed; check_event throws its error. They wait only while a
// failure of the stream is being looked into.
bool event_failed(const Event& event);
void check_event(const Event& event);
// Makes `stream` wait for the event: on the device where both are of one backend, else on the host.
void order_after(Stream* stream, const Event& event);

// Takes the stream's lock to submit work. Once the process is exiting, only the thread that exits gets it.
std::unique_lock<std::mutex> lock_for_work(Stream* stream);

// Throws MLXC_ERROR_INTERRUPTED if the interrupt hook says so; asks it at most every 20 ms.
void check_interrupt();

}  // namespace mlxc
