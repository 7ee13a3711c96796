// Keeps a forked child usable: the locks of the core are free in it, and worker threads, which a fork does
// not copy, are started anew at need.
#include "core/fork.h"

#include <pthread.h>

#include "core/schedule.h"

namespace mlxc {

namespace {

// Taken in this order everywhere, so that no thread holds one of them across the fork.
void before_fork() {
  schedule_lock().lock();
  lock_pool();
}
void after_fork_in_parent() {
  unlock_pool();
  schedule_lock().unlock();
}
void after_fork_in_child() {
  unlock_pool();
  schedule_lock().unlock();
  forget_stream_workers();
  renew_stream_locks();
}

[[maybe_unused]] const int registered =
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

}  // namespace

}  // namespace mlxc
