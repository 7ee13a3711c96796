// Devices, streams and their timelines.
#include "core/device.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "core/error.h"
#include "core/fork.h"
#include "core/registry.h"

namespace mlxc {

namespace {

constexpr int64_t wait_slice_ns = 20'000'000;

struct DeviceState {
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Stream>> streams;
  std::atomic<Stream*> default_stream{nullptr};
};

struct Devices {
  std::mutex lock;
  std::map<std::pair<int, int>, DeviceState> states;
  std::atomic<Device*> cpu{nullptr};
  std::atomic<Stream*> process_default{nullptr};  // default stream of the default device
  mlxc_device default_device{MLXC_CPU, 0};
  bool default_chosen = false;
};

Devices& devices() {
  static Devices* instance = new Devices;
  return *instance;
}

thread_local Stream* thread_stream = nullptr;
std::atomic<mlxc_interrupt_fn> interrupt_hook{nullptr};

// The lock is held.
DeviceState& open_locked(Devices& all, mlxc_device id) {
  if (id.kind != MLXC_CPU && id.kind != MLXC_GPU) fail(MLXC_ERROR_VALUE, "unknown device kind ", id.kind);
  auto found = all.states.find({id.kind, id.index});
  if (found != all.states.end()) return found->second;
  Backend* backend = id.kind == MLXC_CPU ? cpu_backend() : gpu_backend();
  if (!backend)
    fail(id.kind == MLXC_CPU ? MLXC_ERROR_OS : MLXC_ERROR_VALUE,
         id.kind == MLXC_CPU
             ? "no CPU backend is loaded; see python -m mlxc.info"
             : "there is no GPU: no GPU backend with a device is loaded; see python -m mlxc.info");
  if (id.index < 0 || id.index >= backend->device_count)
    fail(MLXC_ERROR_VALUE, "device index ", id.index, " is out of range: ", backend->name, " has ",
         backend->device_count, " device(s)");
  auto device = std::make_unique<Device>();
  device->backend = backend;
  device->id = id;
  throw_error(backend->table.device_open(id.index, &device->handle));
  mlxc_device_info info{};
  info.struct_size = sizeof(info);
  throw_error(backend->table.device_info(device->handle, &info));
  info.name[sizeof(info.name) - 1] = info.architecture[sizeof(info.architecture) - 1] = 0;
  info.features[sizeof(info.features) - 1] = 0;
  device->info = info;
  DeviceState& state = all.states[{id.kind, id.index}];
  state.device = std::move(device);
  return state;
}

// The thread that ends the process, once it does: kernels of other threads must have ended before the
// libraries that they run in, OpenBLAS above all, give up their memory.
std::atomic<bool> exiting{false};
std::thread::id exiting_thread;

void wait_for_kernels_at_exit() {
  exiting_thread = std::this_thread::get_id();
  exiting.store(true);
  Devices& all = devices();
  std::lock_guard hold(all.lock);
  for (auto& [id, state] : all.states)
    for (auto& stream : state.streams) std::lock_guard wait(stream->lock);
}

// The lock is held.
Stream* new_stream_locked(DeviceState& state) {
  [[maybe_unused]] static const int registered = std::atexit(wait_for_kernels_at_exit);
  auto stream = std::make_unique<Stream>();
  stream->device = state.device.get();
  stream->index = static_cast<int32_t>(state.streams.size());
  throw_error(state.device->backend->table.stream_create(state.device->handle, &stream->handle));
  state.streams.push_back(std::move(stream));
  return state.streams.back().get();
}

Stream* default_stream_locked(DeviceState& state) {
  Stream* stream = state.default_stream.load();
  if (!stream) {
    stream = new_stream_locked(state);
    state.default_stream.store(stream);
  }
  return stream;
}

mlxc_device default_device_locked(Devices& all) {
  if (!all.default_chosen) {
    all.default_device = {default_is_gpu() ? MLXC_GPU : MLXC_CPU, 0};
    all.default_chosen = true;
  }
  return all.default_device;
}

// The error of the value's work, borrowed; null unless it is known to have failed. Before it is known where
// a failure began only the backend can tell.
mlxc_error* find_poison(Stream* stream, uint64_t value) {
  mlxc_error* suspected = nullptr;
  {
    std::lock_guard hold(stream->poison_lock);
    for (const auto& range : stream->poisoned) {
      if (value < range.first || value > range.last) continue;
      if (range.settled) return range.error;
      suspected = range.error;
    }
  }
  if (!suspected) return nullptr;
  int32_t reached = 0;
  mlxc_error* error = stream->device->backend->table.stream_wait(stream->handle, value, -1, &reached);
  release_error(error);
  return error ? suspected : nullptr;
}

// The lock is held.
void signal_locked(Stream* stream) {
  if (!stream->unsignaled) return;
  uint64_t next = stream->signaled.load() + 1;
  throw_error(stream->device->backend->table.stream_signal(stream->handle, next));
  stream->signaled.store(next);
  stream->unsignaled = false;
}

void release_passed(Stream* stream) {
  std::vector<Buffer*> done;
  {
    std::lock_guard hold(stream->lock);
    uint64_t reached = stream->reached.load();
    while (!stream->in_flight.empty() && stream->in_flight.front().value <= reached) {
      done.push_back(stream->in_flight.front().buffer);
      stream->in_flight.pop_front();
    }
  }
  for (Buffer* buffer : done) release_buffer(buffer);
}

void note_reached(Stream* stream, uint64_t value) {
  uint64_t known = stream->reached.load();
  while (known < value && !stream->reached.compare_exchange_weak(known, value)) {
  }
}

// A wait of the stream failed. Everything not known to be done is suspect, until the backend, asked value
// by value, says which was the first that failed. Work that another thread submits meanwhile either is
// below `last` or sees the range.
void settle_failure(Stream* stream, mlxc_error* error) {
  const mlxc_backend& table = stream->device->backend->table;
  const uint64_t before = stream->reached.load();
  uint64_t last;
  size_t entry;
  {
    std::lock_guard hold(stream->lock);
    signal_locked(stream);
    last = stream->signaled.load();
    std::lock_guard hold_poison(stream->poison_lock);
    entry = stream->poisoned.size();
    stream->poisoned.push_back({before + 1, last, error, false});
  }
  int32_t reached = 0;
  uint64_t first = before + 1;
  for (uint64_t value = first; value <= last; value++) {
    if (mlxc_error* again = table.stream_wait(stream->handle, value, -1, &reached)) {
      release_error(again);
      first = value;
      break;
    }
  }
  {
    std::lock_guard hold(stream->poison_lock);
    stream->poisoned[entry].first = first;
    stream->poisoned[entry].settled = true;
  }
  release_error(table.stream_wait(stream->handle, last, -1, &reached));
  note_reached(stream, last);
  release_passed(stream);
}

}  // namespace

Device* get_device(mlxc_device id) {
  ensure_backends();
  Devices& all = devices();
  std::lock_guard hold(all.lock);
  return open_locked(all, id).device.get();
}

Device* cpu_device() {
  Devices& all = devices();
  Device* device = all.cpu.load(std::memory_order_acquire);
  if (!device) {
    device = get_device({MLXC_CPU, 0});
    all.cpu.store(device, std::memory_order_release);
  }
  return device;
}

Stream* new_stream(Device* device) {
  Devices& all = devices();
  std::lock_guard hold(all.lock);
  return new_stream_locked(open_locked(all, device->id));
}

Stream* default_stream(Device* device) {
  Devices& all = devices();
  std::lock_guard hold(all.lock);
  return default_stream_locked(open_locked(all, device->id));
}

Stream* current_stream() {
  if (thread_stream) return thread_stream;
  Devices& all = devices();
  if (Stream* stream = all.process_default.load(std::memory_order_acquire)) return stream;
  ensure_backends();
  std::lock_guard hold(all.lock);
  Stream* stream = default_stream_locked(open_locked(all, default_device_locked(all)));
  all.process_default.store(stream, std::memory_order_release);
  return stream;
}

Stream* exchange_thread_stream(Stream* stream) { return std::exchange(thread_stream, stream); }

std::unique_lock<std::mutex> lock_for_work(Stream* stream) {
  std::unique_lock hold(stream->lock);
  while (exiting.load() && std::this_thread::get_id() != exiting_thread) {
    hold.unlock();
    std::this_thread::sleep_for(std::chrono::hours(1));  // the process ends meanwhile
    hold.lock();
  }
  return hold;
}

Event pending_event(Stream* stream) {
  stream->unsignaled = true;
  return {stream, stream->signaled.load() + 1};
}

void keep_in_flight(Stream* stream, Buffer* buffer) {
  retain_buffer(buffer);
  stream->in_flight.push_back({stream->signaled.load() + 1, buffer});
}

void reclaim_in_flight(Stream* stream) {
  uint64_t low, high;
  {
    std::lock_guard hold(stream->lock);
    if (stream->in_flight.size() < stream->reclaim_at) return;
    signal_locked(stream);
    low = stream->in_flight.front().value;
    high = stream->signaled.load();
  }
  // The greatest value that the timeline has reached, by bisection; the last one is the likeliest.
  for (uint64_t value = high; low <= high; value = low + (high - low) / 2) {
    int32_t reached = 0;
    if (mlxc_error* error = stream->device->backend->table.stream_wait(stream->handle, value, 0, &reached)) {
      settle_failure(stream, error);
      break;
    }
    if (reached) {
      note_reached(stream, value);
      low = value + 1;
    } else {
      high = value - 1;
    }
  }
  release_passed(stream);
  std::lock_guard hold(stream->lock);
  stream->reclaim_at = std::max<size_t>(256, 2 * stream->in_flight.size());
}

void signal_stream(Stream* stream, uint64_t value) {
  std::lock_guard hold(stream->lock);
  if (stream->signaled.load() < value) signal_locked(stream);
}

bool event_failed(const Event& event) {
  return event.stream && find_poison(event.stream, event.value) != nullptr;
}

void check_event(const Event& event) {
  if (!event.stream) return;
  if (mlxc_error* error = find_poison(event.stream, event.value)) throw Failure(error->code, error->text);
}

bool wait_event(const Event& event, int64_t timeout_ns) {
  Stream* stream = event.stream;
  if (!stream) return true;
  if (stream->reached.load(std::memory_order_acquire) < event.value) {
    signal_stream(stream, event.value);
    const mlxc_backend& table = stream->device->backend->table;
    int64_t left = timeout_ns;
    for (;;) {
      int64_t slice = timeout_ns < 0 ? wait_slice_ns : std::min(left, wait_slice_ns);
      int32_t reached = 0;
      if (mlxc_error* error = table.stream_wait(stream->handle, event.value, slice, &reached)) {
        settle_failure(stream, error);
        break;
      }
      if (reached) {
        note_reached(stream, event.value);
        break;
      }
      if (timeout_ns >= 0 && (left -= slice) <= 0) return false;
      check_interrupt();
    }
    release_passed(stream);
  }
  check_event(event);
  return true;
}

void order_after(Stream* stream, const Event& event) {
  if (!event.stream || event.stream == stream || event.stream->reached.load() >= event.value) return;
  if (event.stream->device->backend == stream->device->backend && !stream->device->synchronous()) {
    signal_stream(event.stream, event.value);
    std::lock_guard hold(stream->lock);
    throw_error(
        stream->device->backend->table.stream_await(stream->handle, event.stream->handle, event.value));
    return;
  }
  wait_event(event);
}

void renew_stream_locks() {
  Devices& all = devices();
  new (&all.lock) std::mutex;  // its holder, if any, does not exist in the child
  for (auto& [id, state] : all.states) {
    for (auto& stream : state.streams) {
      new (&stream->lock) std::mutex;
      new (&stream->poison_lock) std::mutex;
    }
  }
}

void check_interrupt() {
  mlxc_interrupt_fn hook = interrupt_hook.load(std::memory_order_acquire);
  if (!hook) return;
  thread_local auto last = std::chrono::steady_clock::now();
  auto now = std::chrono::steady_clock::now();
  if (now - last < std::chrono::milliseconds(20)) return;
  last = now;
  if (hook()) fail(MLXC_ERROR_INTERRUPTED, "interrupted");
}

}  // namespace mlxc

using namespace mlxc;

namespace {

// The handles of the C ABI are the core's own streams.
Stream* from_handle(mlxc_stream* stream) { return reinterpret_cast<Stream*>(stream); }
const Stream* from_handle(const mlxc_stream* stream) { return reinterpret_cast<const Stream*>(stream); }
mlxc_stream* to_handle(Stream* stream) { return reinterpret_cast<mlxc_stream*>(stream); }

template <size_t N>
void copy_text(char (&to)[N], const char* from) {
  std::snprintf(to, N, "%s", from);
}

}  // namespace

extern "C" {

int32_t mlxc_device_count(mlxc_device_kind kind) {
  Backend* backend = kind == MLXC_CPU ? cpu_backend() : kind == MLXC_GPU ? gpu_backend() : nullptr;
  return backend ? backend->device_count : 0;
}

mlxc_error* mlxc_device_get_facts(mlxc_device id, mlxc_device_facts* facts) {
  return guard([&] {
    if (!facts || facts->struct_size < sizeof(size_t))
      fail(MLXC_ERROR_VALUE, "mlxc_device_get_facts: facts is NULL or its struct_size is not set");
    Device* device = get_device(id);
    mlxc_device_facts filled{};
    copy_text(filled.backend, device->backend->name.c_str());
    copy_text(filled.name, device->info.name);
    copy_text(filled.architecture, device->info.architecture);
    copy_text(filled.features, device->info.features);
    filled.memory_size = device->info.memory_size;
    filled.flags = device->info.flags;
    filled.struct_size = facts->struct_size;
    std::memcpy(facts, &filled, std::min(facts->struct_size, sizeof(filled)));
  });
}

mlxc_device mlxc_default_device(void) {
  Devices& all = devices();
  if (thread_stream) return thread_stream->device->id;
  ensure_backends();
  std::lock_guard hold(all.lock);
  return default_device_locked(all);
}

mlxc_error* mlxc_set_default_device(mlxc_device id) {
  return guard([&] {
    ensure_backends();
    Devices& all = devices();
    std::lock_guard hold(all.lock);
    Stream* stream = default_stream_locked(open_locked(all, id));
    all.default_device = id;
    all.default_chosen = true;
    all.process_default.store(stream);
  });
}

mlxc_error* mlxc_default_stream(mlxc_device id, mlxc_stream** stream) {
  return guard([&] {
    if (!stream) fail(MLXC_ERROR_VALUE, "mlxc_default_stream: stream is NULL");
    if (thread_stream && thread_stream->device->id.kind == id.kind &&
        thread_stream->device->id.index == id.index)
      *stream = to_handle(thread_stream);
    else
      *stream = to_handle(default_stream(get_device(id)));
  });
}

mlxc_error* mlxc_set_default_stream(mlxc_stream* stream) {
  return guard([&] {
    if (!stream) fail(MLXC_ERROR_VALUE, "mlxc_set_default_stream: stream is NULL");
    Stream* s = from_handle(stream);
    Devices& all = devices();
    std::lock_guard hold(all.lock);
    open_locked(all, s->device->id).default_stream.store(s);
    mlxc_device id = default_device_locked(all);
    if (id.kind == s->device->id.kind && id.index == s->device->id.index) all.process_default.store(s);
  });
}

mlxc_error* mlxc_set_thread_stream(mlxc_stream* stream, mlxc_stream** previous) {
  Stream* before = exchange_thread_stream(from_handle(stream));
  if (previous) *previous = to_handle(before);
  return nullptr;
}

mlxc_error* mlxc_stream_new(mlxc_device id, mlxc_stream** stream) {
  return guard([&] {
    if (!stream) fail(MLXC_ERROR_VALUE, "mlxc_stream_new: stream is NULL");
    *stream = to_handle(new_stream(get_device(id)));
  });
}

mlxc_device mlxc_stream_device(const mlxc_stream* stream) {
  return stream ? from_handle(stream)->device->id : mlxc_default_device();
}

int32_t mlxc_stream_index(const mlxc_stream* stream) { return stream ? from_handle(stream)->index : -1; }

void mlxc_set_interrupt_hook(mlxc_interrupt_fn hook) { interrupt_hook.store(hook); }

}  // extern "C"
