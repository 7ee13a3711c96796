// Evaluation: orders what is needed, claims it, runs it.
#pragma once

#include <span>

#include "core/node.h"

namespace mlxc {

// Computes the nodes and waits for their bytes; throws the first error.
void evaluate(std::span<Node* const> roots);
// Runs what the node needs and the node; its bytes may still be on the way. For use within a running batch.
void run_nested(Node* root);
// Starts computing them. On a synchronous device the work runs on the worker thread of its stream.
void evaluate_async(std::span<Node* const> roots);
// Waits until the node is ready or failed; throws its error. False on time-out (negative: for ever).
bool wait_node(Node* node, int64_t timeout_ns = -1);

// How many transforms are tracing now, in the whole process. While any is, traced nodes keep their
// inputs when they are computed.
extern std::atomic<int> active_traces;

// The lock under which nodes are claimed, and under which `mark` may be used.
std::mutex& schedule_lock();

// Marks the node failed; it keeps a reference to the error.
void fail_node(Node* node, mlxc_error* error);

}  // namespace mlxc
