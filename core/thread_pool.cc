// Implements parallel_for. Several threads may call it at once; workers take pieces of whatever job is
// oldest. A worker spins for some microseconds after a job, because kernels tend to follow one another,
// and then sleeps.
#include "core/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace mlxc {

namespace {

struct Job {
  mlxc_range_fn fn;
  void* context;
  int64_t n, piece;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> done{0};  // elements
  std::atomic<int> users{0};     // workers inside
};

struct Workers {
  std::mutex lock;
  std::condition_variable wake;
  std::vector<Job*> jobs;
  std::atomic<uint64_t> generation{0};  // grows with each job
};

thread_local bool inside_job = false;
std::atomic<Workers*> workers{nullptr};

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void run_pieces(Job& job) {
  inside_job = true;
  for (;;) {
    int64_t begin = job.next.fetch_add(job.piece, std::memory_order_relaxed);
    if (begin >= job.n) break;
    int64_t end = std::min(begin + job.piece, job.n);
    job.fn(job.context, begin, end);
    job.done.fetch_add(end - begin, std::memory_order_acq_rel);
  }
  inside_job = false;
}

void work(Workers* pool) {
  uint64_t seen = 0;
  for (;;) {
    Job* job = nullptr;
    {
      std::unique_lock hold(pool->lock);
      pool->wake.wait(hold, [&] { return !pool->jobs.empty() || pool->generation.load() != seen; });
      seen = pool->generation.load();
      for (Job* candidate : pool->jobs) {
        if (candidate->next.load(std::memory_order_relaxed) < candidate->n) {
          job = candidate;
          job->users.fetch_add(1, std::memory_order_relaxed);
          break;
        }
      }
    }
    if (job) {
      run_pieces(*job);
      job->users.fetch_sub(1, std::memory_order_release);
    }
    for (int i = 0; i < 4000 && pool->generation.load(std::memory_order_relaxed) == seen; i++) pause_cpu();
    std::unique_lock hold(pool->lock);
    if (pool->generation.load() == seen)
      pool->wake.wait(hold, [&] { return pool->generation.load() != seen; });
  }
}

// After a fork only the forking thread exists; the child starts workers of its own at first need.
void forget_workers() { workers.store(nullptr); }

Workers* start_workers() {
  static std::mutex starting;
  std::lock_guard hold(starting);
  if (Workers* running = workers.load()) return running;
  static const int once = pthread_atfork(nullptr, nullptr, forget_workers);
  (void)once;
  auto* pool = new Workers;
  try {
    for (int i = 1; i < thread_count(); i++) std::thread(work, pool).detach();
  } catch (const std::system_error&) {
    // The system has no more threads for us: those there are do the work.
  }
  workers.store(pool);
  return pool;
}

}  // namespace

int32_t thread_count() {
  static const int32_t count = [] {
    if (const char* text = std::getenv("MLXC_NUM_THREADS")) {
      int value = std::atoi(text);
      if (value >= 1 && value <= 1024) return value;
    }
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }();
  return count;
}

void parallel_for(int64_t n, int64_t grain, mlxc_range_fn fn, void* context) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (n <= grain || inside_job || thread_count() == 1) {
    fn(context, 0, n);
    return;
  }
  Workers* pool = workers.load(std::memory_order_acquire);
  if (!pool) pool = start_workers();
  Job job;
  job.fn = fn;
  job.context = context;
  job.n = n;
  // About four pieces a thread evens out unequal speeds.
  int64_t pieces = std::min<int64_t>((n + grain - 1) / grain, int64_t{4} * thread_count());
  job.piece = (n + pieces - 1) / pieces;
  {
    std::lock_guard hold(pool->lock);
    pool->jobs.push_back(&job);
    pool->generation.fetch_add(1);
  }
  pool->wake.notify_all();
  run_pieces(job);
  {
    std::lock_guard hold(pool->lock);
    pool->jobs.erase(std::find(pool->jobs.begin(), pool->jobs.end(), &job));
  }
  // A worker that takes long may have lost its core to this wait.
  for (int i = 0;
       job.done.load(std::memory_order_acquire) < n || job.users.load(std::memory_order_acquire) > 0; i++) {
    if (i < 2000)
      pause_cpu();
    else
      sched_yield();
  }
}

}  // namespace mlxc
