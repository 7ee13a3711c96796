/* Loops over the core's worker threads.
 *
 * `parallel_for(n, grain, fn)` calls fn(begin, end) over pieces of [0, n) of at least `grain`; a loop that is
 * no longer than one grain runs here without touching the pool. fn must not throw and must not return early
 * on failure of shared state: what can fail is done before the loop.
 */
#ifndef MLXC_CPU_PARALLEL_H
#define MLXC_CPU_PARALLEL_H

#include <atomic>

#include "kernel.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* Bytes of traffic that are worth a second thread. */
constexpr int64_t kParallelBytes = 128 * 1024;

/* A grain, in items, so that a piece moves at least kParallelBytes when an item moves `bytes_each`. */
MLXC_INLINE int64_t grain_for_bytes(int64_t bytes_each) {
  return bytes_each >= kParallelBytes ? 1 : kParallelBytes / (bytes_each > 0 ? bytes_each : 1);
}

template <class F>
MLXC_INLINE void parallel_for(int64_t n, int64_t grain, const F& fn) {
  if (n <= 0) return;
  if (n <= grain) {
    fn(static_cast<int64_t>(0), n);
    return;
  }
  host->parallel_for(
      n, grain > 0 ? grain : 1,
      [](void* context, int64_t begin, int64_t end) { (*static_cast<const F*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&fn)));
}

/* The first error of several threads. */
class FirstError {
 public:
  void set(mlxc_error* error) {
    mlxc_error* none = nullptr;
    if (error && !first_.compare_exchange_strong(none, error)) host->error_free(error);
  }
  mlxc_error* take() { return first_.exchange(nullptr); }

 private:
  std::atomic<mlxc_error*> first_{nullptr};
};

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
