// Implements evaluation (schedule.h).
//
// A batch is claimed in one critical section together with everything it needs that nobody has claimed
// yet. So batches are ordered in time and a batch waits only for earlier ones: no deadlock, however
// many threads evaluate overlapping graphs. Small graphs run on the calling thread.
#include "core/schedule.h"

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

void set_state(Node* node, State state) {
  node->state.store(state, std::memory_order_seq_cst);
  Waiting& w = waiting();
  if (w.count.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard hold(w.lock);
    w.changed.notify_all();
  }
}

// Until the state is no longer `claimed`. False on time-out.
bool wait_claimed(Node* node, int64_t timeout_ns) {
  Waiting& w = waiting();
  const auto start = std::chrono::steady_clock::now();
  w.count.fetch_add(1);
  bool done = false;
  try {
    for (;;) {
      {
        std::unique_lock hold(w.lock);
        done = w.changed.wait_for(hold, std::chrono::milliseconds(20),
                                  [&] { return node->state.load() != state_claimed; });
      }
      if (done) break;
      if (timeout_ns >= 0 && std::chrono::steady_clock::now() - start >= std::chrono::nanoseconds(timeout_ns))
        break;
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
    node->state.store(state_claimed, std::memory_order_relaxed);
    stack.push_back({node, 0});
  };
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
  if (stack.capacity() > 65536) std::vector<Visit>().swap(stack);
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
  const bool keep = node->traced.load(std::memory_order_relaxed) && active_traces.load() > 0;
  set_state(node, state);
  // From here on other threads may use the node, and free it; but a consumer or the caller of this
  // batch still holds it, and nobody else touches the inputs of a node that was pending.
  if (!keep) detach_inputs(node);
}

// Needs of host consumers are known before their producers run, so that copies start early.
void note_host_consumers(const Order& order) {
  std::lock_guard hold(schedule_lock());
  for (Node* node : order) node->mark = 0;
  for (Node* node : order) {
    if (!node->stream->device->synchronous()) continue;
    for (uint32_t i = 0; i < node->n_inputs; i++) node->inputs_data()[i]->mark = 1;
  }
}

void run_batch(const Order& order) {
  bool mixed = false;
  for (Node* node : order) mixed = mixed || !node->stream->device->synchronous();
  if (mixed) {
    note_host_consumers(order);
    for (Node* node : order) {
      try {
        prefetch_inputs(node);
      } catch (const Failure&) {
        // The node itself will meet the same failure and keep it.
      }
    }
  }
  for (size_t i = 0; i < order.size(); i++) {
    Node* node = order[i];
    const bool wanted_on_host = mixed && node->mark == 1 && !node->multi;
    Array hold = mixed ? Array::borrow(node) : Array();
    try {
      if (i % 16 == 15 || node->size >= 1 << 16) check_interrupt();
      run_node(node);
    } catch (const Failure& failure) {
      if (failure.code() == MLXC_ERROR_INTERRUPTED) {
        for (size_t k = i; k < order.size(); k++) set_state(order[k], state_pending);
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
    if (mixed && !node->stream->device->synchronous()) reclaim_in_flight(node->stream);
    if (wanted_on_host && !node->stream->device->synchronous()) {
      try {
        start_host_copy(node);
      } catch (const Failure&) {
        // The consumer will meet it when it asks for the bytes.
      }
    }
  }
}

void throw_failed(Node* node) {
  if (node->state.load(std::memory_order_acquire) == state_failed)
    throw Failure(node->error->code, node->error->text);
}

// Runs batches of one synchronous stream in the order given.
class Worker {
 public:
  struct Batch {
    Order order;
    std::vector<Array> roots;
  };
  Worker() {
    std::thread([this] { run(); }).detach();
  }
  void give(Batch batch) {
    std::lock_guard hold(lock_);
    queue_.push_back(std::move(batch));
    given_++;
    changed_.notify_all();
  }
  void wait_idle() {
    std::unique_lock hold(lock_);
    const uint64_t goal = given_;
    while (!changed_.wait_for(hold, std::chrono::milliseconds(20), [&] { return finished_ >= goal; })) {
      hold.unlock();
      check_interrupt();
      hold.lock();
    }
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
      } catch (const Failure&) {
        // Interrupted: the nodes are pending again, whoever waits for them runs them.
      }
      batch.roots.clear();
      std::lock_guard hold(lock_);
      finished_++;
      changed_.notify_all();
    }
  }
  std::mutex lock_;
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

void claim_roots(std::span<Node* const> roots, Order* order) {
  std::lock_guard hold(schedule_lock());
  for (Node* root : roots) claim(root, order);
}

}  // namespace

void forget_stream_workers() {
  new (&workers().lock) std::mutex;  // its holder does not exist in the child
  workers().of.clear();
  new (&waiting().lock) std::mutex;
  new (&waiting().changed) std::condition_variable;
  waiting().count.store(0);
}

void fail_node(Node* node, mlxc_error* error) {
  std::lock_guard hold(schedule_lock());
  if (node->state.load() == state_failed) return;
  node->error = retain_error(error);
  set_state(node, state_failed);
}

bool wait_node(Node* node, int64_t timeout_ns) {
  for (;;) {
    const uint8_t state = node->state.load(std::memory_order_acquire);
    if (state == state_claimed) {
      if (!wait_claimed(node, timeout_ns)) return false;
    } else if (state == state_pending) {
      Node* const roots[] = {node};
      evaluate(roots);
    } else {
      break;
    }
  }
  throw_failed(node);
  try {
    return wait_bytes(node, timeout_ns);
  } catch (const Failure& failure) {
    if (failure.code() != MLXC_ERROR_INTERRUPTED) {
      mlxc_error* error = make_error(failure.code(), failure.what());
      fail_node(node, error);
      release_error(error);
    }
    throw;
  }
}

void evaluate(std::span<Node* const> roots) {
  bool all_ready = true;
  for (Node* root : roots)
    all_ready = all_ready && root->state.load(std::memory_order_acquire) == state_ready;
  if (!all_ready) {
    Order order;
    claim_roots(roots, &order);
    if (!order.empty()) run_batch(order);
  }
  for (Node* root : roots) wait_node(root);
}

void evaluate_async(std::span<Node* const> roots) {
  Worker::Batch batch;
  claim_roots(roots, &batch.order);
  if (batch.order.empty()) return;
  bool synchronous = false;
  for (Node* node : batch.order) synchronous = synchronous || node->stream->device->synchronous();
  if (!synchronous) {
    run_batch(batch.order);
    for (Node* root : roots)
      if (root->buffer && root->buffer->first.ready.stream)
        signal_stream(root->buffer->first.ready.stream, root->buffer->first.ready.value);
    return;
  }
  for (Node* root : roots) batch.roots.push_back(Array::borrow(root));
  worker_for(batch.order.back()->stream).give(std::move(batch));
}

}  // namespace mlxc

extern "C" mlxc_error* mlxc_synchronize(mlxc_stream* handle) {
  using namespace mlxc;
  return guard([&] {
    Stream* stream = handle ? reinterpret_cast<Stream*>(handle) : current_stream();
    {
      Workers& all = workers();
      Worker* worker = nullptr;
      {
        std::lock_guard hold(all.lock);
        auto found = all.of.find(stream);
        if (found != all.of.end()) worker = found->second;
      }
      if (worker) worker->wait_idle();
    }
    if (stream->device->synchronous()) return;
    Event event;
    {
      std::lock_guard hold(stream->lock);
      event = {stream, stream->signaled.load() + (stream->unsignaled ? 1 : 0)};
    }
    wait_event(event);
  });
}
