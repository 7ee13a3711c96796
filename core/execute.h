// Runs one node: makes its inputs available on its device, allocates the output (or takes over an
// input's buffer), and calls the kernel; or lays a view.
#pragma once

#include <functional>

#include "core/device.h"
#include "core/node.h"

namespace mlxc {

// Fills in the node's buffer. Inputs are ready (their bytes perhaps still on the way). Throws; the
// caller records the failure. The node is claimed by the calling thread.
void execute_node(Node* node);

// For ops that the core runs: a call of the backend on the node's stream over views of its inputs (in one of
// the layouts given; stretched to the shape of the first output, if that is asked for) and of new outputs,
// which become the node's results.
struct ViewsRun {
  bool stretch;
  uint32_t layouts;
  std::function<mlxc_error*(mlxc_backend_stream*, const mlxc_view* const* inputs,
                            const mlxc_view* const* outputs)>
      run;
};
void run_over_views(Node* node, const ViewsRun& how);

// Lays an evaluated view-op's node over its ready input without a kernel; false if it takes a copy.
bool lay_view(Node* node);

// Makes an output of a node that the core runs itself share the values of a ready array of its shape and
// dtype.
void lay_result(Node* node, size_t index, const Node& over);

// Starts the copies that the node's inputs will need on an asynchronous device.
void prefetch_inputs(Node* node);

// The host address of the node's first element; copies from the device and waits where needed.
const char* host_data(Node* node);
// Waits until the bytes are there; throws the error of failed work. False on time-out.
bool wait_bytes(Node* node, int64_t timeout_ns = -1);
// Starts copying the bytes to the host where it cannot touch them.
void start_host_copy(Node* node);

}  // namespace mlxc
