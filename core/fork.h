// What core/fork.cc needs of other files to carry the core over a fork.
#pragma once

namespace mlxc {

void lock_pool();              // memory.cc
void unlock_pool();            // memory.cc
void forget_stream_workers();  // schedule.cc
void renew_stream_locks();     // stream.cc

}  // namespace mlxc
