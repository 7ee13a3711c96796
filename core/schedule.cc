// Implements evaluation (schedule.h).
//
// A batch is claimed in one critical section together with everything it needs that nobody has claimed
// yet. So batches are ordered in time and a batch waits only for earlier ones: no deadlock, however
// many threads evaluate overlapping graphs. Small graphs run on the calling thread.
#include "core/schedule.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/device.h"
#include "core/error.h"
#include "core/execute.h"
#include "core/fork.h"
#include "core/op.h"

namespace mlxc {

std::atomic<int> active_traces{0};

std::mutex& schedule_lock() {
  static std::mutex* lock = new std::mutex;
  return *lock;
}

namespace {

// Threads that wait for a node of somebody else's batch.
struct Waiting {
  std::mutex lock;
  std::condition_variable changed;
  std::atomic<int> count{0};
};
Waiting& waiting() {
  static Waiting* instance = new Waiting;
  return *instance;
}

// Batches that were claimed and have not ended, and those of this thread. A node that is claimed while no
// other batch exists was another thread's when the process forked: in the child nobody will run it.
std::atomic<int> batches{0};
thread_local int own_batches = 0;

void check_orphan(Node* node) {
  std::lock_guard hold(schedule_lock());
  if (batches.load() == own_batches && node->state.load() == state_claimed)
    fail(
        MLXC_ERROR_RUNTIME, op_table[node->op].name,
        ": the array was being computed by another thread when the process forked; the child cannot have it");
}

void set_state(Node* node, State state) {
  node->state.store(state, std::memory_order_seq_cst);
  Waiting& w = waiting();
  if (w.count.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard hold(w.lock);
    w.changed.notify_all();
  }
}

// What is left of a time-out that began at `start`; negative: for ever.
int64_t time_left(std::chrono::steady_clock::time_point start, int64_t timeout_ns) {
  if (timeout_ns < 0) return timeout_ns;
  const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - start;
  return std::max<int64_t>(0, timeout_ns - passed.count());
}

// Until the state is no longer `claimed`. False on time-out.
bool wait_claimed(Node* node, int64_t timeout_ns) {
  constexpr int64_t slice_ns = 20'000'000;
  Waiting& w = waiting();
  const auto start = std::chrono::steady_clock::now();
  w.count.fetch_add(1);
  bool done = false;
  try {
    for (;;) {
      const int64_t left = time_left(start, timeout_ns);
      {
        std::unique_lock hold(w.lock);
        done =
            w.changed.wait_for(hold, std::chrono::nanoseconds(left < 0 ? slice_ns : std::min(left, slice_ns)),
                               [&] { return node->state.load() != state_claimed; });
      }
      if (done || left == 0) break;
      check_orphan(node);
      check_interrupt();
    }
  } catch (...) {
    w.count.fetch_sub(1);
    throw;
  }
  w.count.fetch_sub(1);
  return done;
}

using Order = std::vector<Node*>;

// Nodes of the order from `first` on wait again for somebody to run them.
void unclaim(const Order& order, size_t first) {
  for (size_t i = first; i < order.size(); i++) set_state(order[i], state_pending);
}

[[noreturn]] void fail_placeholder() {
  fail(MLXC_ERROR_VALUE,
       "this array has no value that could be read: it depends on an input of a function that is traced by ",
       "vmap or compile, and while a function is traced only its operations are recorded. Return the array ",
       "from the function and read the result; choose between values with where() instead of if");
}

// Appends to `order` what the root needs, inputs first; everything appended is claimed. The lock is held.
// An explicit stack, so that depth costs heap and not stack.
void claim(Node* root, Order* order) {
  struct Visit {
    Node* node;
    uint32_t next;
  };
  thread_local std::vector<Visit> stack;
  auto push = [&](Node* node) {
    if (node->state.load(std::memory_order_relaxed) != state_pending) return;
    if (node->op == 0) fail_placeholder();
    stack.push_back({node, 0});
    node->state.store(state_claimed, std::memory_order_relaxed);
  };
  try {
    push(root);
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next < top.node->n_inputs) {
        push(top.node->inputs_data()[top.next++]);
      } else {
        order->push_back(top.node);
        stack.pop_back();
      }
    }
  } catch (...) {  // no memory, or a placeholder
    for (const Visit& visit : stack) set_state(visit.node, state_pending);
    stack.clear();
    throw;
  }
  if (stack.capacity() > 65536) std::vector<Visit>().swap(stack);
}

// Claims what the roots need, or nothing if it throws; unless that is nothing it is a batch, which run_batch
// ends. The lock is held.
void claim_roots(std::span<Node* const> roots, Order* order) {
  try {
    for (Node* root : roots) claim(root, order);
  } catch (...) {
    unclaim(*order, 0);
    throw;
  }
  if (!order->empty()) batches.fetch_add(1);
}

void run_node(Node* node) {
  for (uint32_t i = 0; i < node->n_inputs; i++) {
    Node* input = node->inputs_data()[i];
    uint8_t state = input->state.load(std::memory_order_acquire);
    while (state != state_ready && state != state_failed) {
      if (state == state_pending) {  // its own batch was interrupted
        Node* const again[] = {input};
        evaluate(again);
      } else {
        wait_claimed(input, -1);
      }
      state = input->state.load(std::memory_order_acquire);
    }
    if (state == state_failed) throw Failure(input->error->code, input->error->text);
  }
  execute_node(node);
}

void settle(Node* node, State state) {
  bool keep = false;
  if (node->traced.load(std::memory_order_acquire)) {
    // The transform that follows the node may be ending: it gives up the inputs of those that are computed
    // and still traced.
    std::lock_guard hold(schedule_lock());
    keep = node->traced.load(std::memory_order_relaxed) && active_traces.load() > 0;
    if (!keep) node->traced.store(0, std::memory_order_relaxed);
    set_state(node, state);
  } else {
    set_state(node, state);
  }
  // From here on other threads may use the node, and free it; but a consumer or the caller of this
  // batch still holds it, and nobody else touches the inputs of a node that was pending.
  if (!keep) detach_inputs(node);
}

// Which nodes of the order have a consumer on the host: known before they run, so that copies start early.
std::vector<bool> find_host_consumers(const Order& order) {
  std::lock_guard hold(schedule_lock());
  for (Node* node : order) node->mark = 0;
  for (Node* node : order) {
    if (!node->stream->device->synchronous()) continue;
    for (uint32_t i = 0; i < node->n_inputs; i++) node->inputs_data()[i]->mark = 1;
  }
  std::vector<bool> wanted(order.size());
  for (size_t i = 0; i < order.size(); i++) wanted[i] = order[i]->mark == 1 && !order[i]->multi;
  return wanted;
}

void prefetch_all(const Order& order) {
  for (Node* node : order) {
    try {
      prefetch_inputs(node);
    } catch (const Failure& failure) {
      if (failure.code() == MLXC_ERROR_INTERRUPTED) throw;
      // The node itself will meet the same failure and keep it.
    }
  }
}

// Runs what was claimed. It throws only where nodes could not be run, and those are pending again.
void run_batch(const Order& order) {
  struct Running {
    Running() { own_batches++; }
    ~Running() {
      own_batches--;
      batches.fetch_sub(1);
    }
  } running;
  bool mixed = false;
  for (Node* node : order) mixed = mixed || !node->stream->device->synchronous();
  std::vector<bool> wanted_on_host;
  if (mixed) {
    try {
      wanted_on_host = find_host_consumers(order);
      prefetch_all(order);
    } catch (...) {
      unclaim(order, 0);
      throw;
    }
  }
  for (size_t i = 0; i < order.size(); i++) {
    Node* node = order[i];
    Array hold = mixed ? Array::borrow(node) : Array();
    try {
      if (i % 16 == 15 || node->size >= 1 << 16) check_interrupt();
      run_node(node);
    } catch (const Failure& failure) {
      if (failure.code() == MLXC_ERROR_INTERRUPTED) {
        unclaim(order, i);
        throw;
      }
      mlxc_error* error = make_error(failure.code(), failure.what());
      node->error = error;
      settle(node, state_failed);
      continue;
    } catch (...) {
      node->error = current_exception_error();
      settle(node, state_failed);
      continue;
    }
    settle(node, state_ready);
    if (mixed && !node->stream->device->synchronous()) {
      try {
        reclaim_in_flight(node->stream);
        if (wanted_on_host[i]) start_host_copy(node);
      } catch (const std::exception&) {
        // Both only go ahead of need: whoever waits for the work or asks for the bytes meets the failure.
      }
    }
  }
}

void throw_failed(Node* node) {
  if (node->state.load(std::memory_order_acquire) == state_failed)
    throw Failure(node->error->code, node->error->text);
}

// Runs batches in the order given: those whose last node is of one stream. Nodes of other streams may be
// among them.
class Worker {
 public:
  struct Batch {
    Order order;
    std::vector<Array> roots;
    std::vector<Stream*> streams;
  };
  Worker() {
    std::thread([this] { run(); }).detach();
  }
  void give(Batch& batch) {
    std::lock_guard hold(lock_);
    for (Stream* stream : batch.streams) work_of_[stream].last = given_ + 1;
    queue_.emplace_back();
    queue_.back() = std::move(batch);
    given_++;
    changed_.notify_all();
  }
  // Waits for the batches so far that have work of the stream. Returns the first error among them that was
  // not told before; the caller owns it.
  mlxc_error* wait_for(Stream* stream) {
    std::unique_lock hold(lock_);
    auto found = work_of_.find(stream);
    if (found == work_of_.end()) return nullptr;
    const uint64_t goal = std::min(found->second.last, given_);
    while (!changed_.wait_for(hold, std::chrono::milliseconds(20), [&] { return finished_ >= goal; })) {
      hold.unlock();
      check_interrupt();
      hold.lock();
    }
    return std::exchange(found->second.error, nullptr);
  }

 private:
  void run() {
    for (;;) {
      Batch batch;
      {
        std::unique_lock hold(lock_);
        changed_.wait(hold, [&] { return !queue_.empty(); });
        batch = std::move(queue_.front());
        queue_.pop_front();
      }
      try {
        run_batch(batch.order);
      } catch (const std::exception&) {
        // Interrupted, or no memory: the nodes are pending again, whoever waits for them runs them.
      }
      mlxc_error* error = nullptr;
      for (const Array& root : batch.roots)
        if (!error && root->state.load(std::memory_order_acquire) == state_failed) error = root->error;
      {
        std::lock_guard hold(lock_);
        for (Stream* stream : batch.streams) {
          mlxc_error*& kept = work_of_[stream].error;
          if (!kept) kept = retain_error(error);
        }
      }
      batch.roots.clear();
      std::lock_guard hold(lock_);
      finished_++;
      changed_.notify_all();
    }
  }
  struct Work {
    uint64_t last = 0;            // number of the last batch with work of the stream
    mlxc_error* error = nullptr;  // the first that nobody was told
  };
  std::mutex lock_;
  std::map<Stream*, Work> work_of_;
  std::condition_variable changed_;
  std::deque<Batch> queue_;
  uint64_t given_ = 0, finished_ = 0;
};

struct Workers {
  std::mutex lock;
  std::map<Stream*, Worker*> of;
};
Workers& workers() {
  static Workers* instance = new Workers;
  return *instance;
}

Worker& worker_for(Stream* stream) {
  Workers& all = workers();
  std::lock_guard hold(all.lock);
  Worker*& worker = all.of[stream];
  if (!worker) worker = new Worker;
  return *worker;
}

std::vector<Stream*> streams_of(const Order& order) {
  std::vector<Stream*> streams;
  for (Node* node : order)
    if (std::find(streams.rbegin(), streams.rend(), node->stream) == streams.rend())
      streams.push_back(node->stream);
  return streams;
}

}  // namespace

void forget_stream_workers() {
  new (&workers().lock) std::mutex;  // its holder does not exist in the child
  workers().of.clear();
  new (&waiting().lock) std::mutex;
  new (&waiting().changed) std::condition_variable;
  waiting().count.store(0);
  batches.store(own_batches);
}

void fail_node(Node* node, mlxc_error* error) {
  std::lock_guard hold(schedule_lock());
  if (node->state.load() == state_failed) return;
  node->error = retain_error(error);
  set_state(node, state_failed);
}

bool wait_node(Node* node, int64_t timeout_ns) {
  std::chrono::steady_clock::time_point start;
  if (timeout_ns >= 0) start = std::chrono::steady_clock::now();
  for (;;) {
    const uint8_t state = node->state.load(std::memory_order_acquire);
    if (state == state_claimed) {
      if (!wait_claimed(node, time_left(start, timeout_ns))) return false;
    } else if (state == state_pending) {
      Node* const roots[] = {node};
      evaluate(roots);
    } else {
      break;
    }
  }
  throw_failed(node);
  try {
    return wait_bytes(node, time_left(start, timeout_ns));
  } catch (const Failure& failure) {
    if (failure.code() != MLXC_ERROR_INTERRUPTED) {
      mlxc_error* error = make_error(failure.code(), failure.what());
      fail_node(node, error);
      release_error(error);
    }
    throw;
  }
}

void run_nested(Node* root) {
  Order order;
  Node* const roots[] = {root};
  {
    std::lock_guard hold(schedule_lock());
    claim_roots(roots, &order);
  }
  if (!order.empty()) run_batch(order);
  throw_failed(root);
}

void evaluate(std::span<Node* const> roots) {
  bool all_ready = true;
  for (Node* root : roots)
    all_ready = all_ready && root->state.load(std::memory_order_acquire) == state_ready;
  if (!all_ready) {
    Order order;
    {
      std::lock_guard hold(schedule_lock());
      claim_roots(roots, &order);
    }
    if (!order.empty()) run_batch(order);
  }
  for (Node* root : roots) wait_node(root);
}

void evaluate_async(std::span<Node* const> roots) {
  Worker::Batch batch;
  for (Node* root : roots) batch.roots.push_back(Array::borrow(root));
  {
    // A batch is given while the lock is held: it must not queue up behind one that needs it.
    std::lock_guard hold(schedule_lock());
    claim_roots(roots, &batch.order);
    if (batch.order.empty()) return;
    try {
      batch.streams = streams_of(batch.order);
      for (Stream* stream : batch.streams)
        if (stream->device->synchronous()) return worker_for(batch.order.back()->stream).give(batch);
    } catch (...) {  // no memory, or no thread
      unclaim(batch.order, 0);
      batches.fetch_sub(1);
      throw;
    }
  }
  run_batch(batch.order);
  for (Node* root : roots) {
    if (root->state.load(std::memory_order_acquire) != state_ready) continue;
    const Event& ready = root->buffer->first.ready;
    if (ready.stream) signal_stream(ready.stream, ready.value);
  }
}

}  // namespace mlxc

extern "C" mlxc_error* mlxc_synchronize(mlxc_stream* handle) {
  using namespace mlxc;
  return guard([&] {
    Stream* stream = handle ? reinterpret_cast<Stream*>(handle) : current_stream();
    std::vector<Worker*> running;
    {
      Workers& all = workers();
      std::lock_guard hold(all.lock);
      for (const auto& [of, worker] : all.of) running.push_back(worker);
    }
    std::unique_ptr<mlxc_error, decltype(&release_error)> first(nullptr, &release_error);
    for (Worker* worker : running) {
      mlxc_error* error = worker->wait_for(stream);
      if (first)
        release_error(error);
      else
        first.reset(error);
    }
    if (!stream->device->synchronous()) {
      Event event;
      {
        std::lock_guard hold(stream->lock);
        event = {stream, stream->signaled.load() + (stream->unsignaled ? 1 : 0)};
      }
      wait_event(event);
    }
    throw_error(first.release());
  });
}
