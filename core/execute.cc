// Implements the running of one node (execute.h).
#include "core/execute.h"

#include <cstring>

#include "core/decompose.h"
#include "core/error.h"
#include "core/op.h"
#include "core/registry.h"
#include "core/schedule.h"

namespace mlxc {

namespace {

std::string describe(const Node& node) { return cat(dtype_name(node.dtype), shape_text(node.shape())); }

// ---- where bytes are ---------------------------------------------------------------------------

bool usable_on(const Allocation& a, Device* device) {
  return a.device == device || (device->id.kind == MLXC_CPU && a.host);
}

// Where the bytes of the buffer are on the device, if they are.
bool find_allocation(Buffer* buffer, Device* device, Allocation* found) {
  if (usable_on(buffer->first, device)) {
    *found = buffer->first;
    return true;
  }
  std::lock_guard hold(buffer->mirror_lock);
  for (const Allocation& mirror : buffer->mirrors) {
    if (usable_on(mirror, device) && !event_failed(mirror.ready)) {  // a copy that failed is made again
      *found = mirror;
      return true;
    }
  }
  return false;
}

Allocation add_mirror(Buffer* buffer, const Allocation& made) {
  std::lock_guard hold(buffer->mirror_lock);
  buffer->mirrors.push_back(made);
  return made;
}

// Host bytes come from the CPU's pool, so that any CPU kernel may use them.
Allocation copy_to_host(Buffer* buffer) {
  const Allocation source = buffer->first;
  Device* device = source.device;
  const int64_t bytes = buffer->size + 2 * guard_bytes();
  Allocation made = allocate(cpu_device(), bytes);
  Stream* stream = source.ready.stream ? source.ready.stream : default_stream(device);
  std::lock_guard hold(stream->lock);
  mlxc_error* error = device->backend->table.copy(stream->handle, MLXC_COPY_DEVICE_TO_HOST, nullptr, 0,
                                                  source.memory, 0, made.host, bytes);
  if (error) deallocate(made);
  throw_error(error);
  made.ready = pending_event(stream);
  keep_in_flight(stream, buffer);
  return add_mirror(buffer, made);
}

// The host side must be complete before a device may read it.
Allocation copy_to_device(Buffer* buffer, Device* device, Stream* stream) {
  Allocation source;
  if (!find_allocation(buffer, cpu_device(), &source)) source = copy_to_host(buffer);
  wait_event(source.ready);
  const int64_t bytes = buffer->size + (buffer->release ? 0 : 2 * guard_bytes());
  Allocation made = allocate(device, bytes);
  std::lock_guard hold(stream->lock);
  mlxc_error* error = device->backend->table.copy(stream->handle, MLXC_COPY_HOST_TO_DEVICE, made.memory, 0,
                                                  nullptr, 0, source.host, bytes);
  if (error) deallocate(made);
  throw_error(error);
  made.ready = pending_event(stream);
  keep_in_flight(stream, buffer);
  return add_mirror(buffer, made);
}

Allocation ensure_on(Buffer* buffer, Device* device, Stream* stream) {
  check_event(buffer->first.ready);
  Allocation there;
  if (find_allocation(buffer, device, &there)) return there;
  return device->id.kind == MLXC_CPU ? copy_to_host(buffer) : copy_to_device(buffer, device, stream);
}

// ---- one kernel call ---------------------------------------------------------------------------

struct Operand {
  Node* node = nullptr;
  BufferRef packed;  // a row-major copy, where the kernel does not take the layout
  Dims shape, strides;
  mlxc_view view{};
};

// Small calls need no allocation of their own.
constexpr int inline_operands = 4;

struct Call {
  mlxc_kernel_call c_call{};
  int n_inputs, n_outputs;
  std::vector<Operand> operands;
  std::vector<const mlxc_view*> in_views;
  Operand inline_storage[inline_operands];
  const mlxc_view* inline_in[inline_operands];
  Operand* inputs = inline_storage;
  SmallArray<Dims, 2> out_shapes, out_strides;
  SmallArray<mlxc_view, 2> out_views;
  SmallArray<const mlxc_view*, 2> out;

  Call(int n_in, int n_out)
      : n_inputs(n_in),
        n_outputs(n_out),
        out_shapes(n_out),
        out_strides(n_out),
        out_views(n_out),
        out(n_out) {
    if (n_inputs > inline_operands) {
      operands.resize(n_inputs);
      inputs = operands.data();
      in_views.resize(n_inputs);
    }
  }
  const mlxc_view** in() { return in_views.empty() ? inline_in : in_views.data(); }
};

uint32_t view_flags(const Dims& shape, const Dims& strides) {
  uint32_t flags = row_contiguous(shape.span(), strides.span()) ? MLXC_VIEW_ROW_CONTIGUOUS : 0;
  bool scalar = true;
  for (int i = 0; i < shape.n; i++) scalar = scalar && (strides[i] == 0 || shape[i] == 1);
  return flags | (scalar ? MLXC_VIEW_SCALAR : 0);
}

void describe_view(mlxc_view* view, Node* node, const Dims& shape, const Dims& strides, int64_t size) {
  view->struct_size = sizeof(mlxc_view);
  view->dtype = node->dtype;
  view->ndim = shape.n;
  view->shape = shape.v;
  view->strides = strides.v;
  view->size = size;
  view->offset = node->offset;
  view->flags = view_flags(shape, strides);
}

// Element-wise ops read their inputs stretched to the output's shape.
void prepare_operand(Operand* operand, Node* input, const Node& node, bool stretch) {
  operand->node = input;
  const int lead = stretch ? node.ndim - input->ndim : 0;
  if (stretch) {
    operand->shape.n = operand->strides.n = node.ndim;
    for (int i = 0; i < node.ndim; i++) {
      operand->shape[i] = node.shape_data()[i];
      const bool own = i >= lead && (input->shape_data()[i - lead] != 1 || node.shape_data()[i] == 1);
      operand->strides[i] = own ? input->strides_data()[i - lead] : 0;
    }
  } else {
    operand->shape = Dims(input->shape());
    operand->strides = Dims(input->strides());
  }
  describe_view(&operand->view, input, operand->shape, operand->strides, stretch ? node.size : input->size);
}

uint32_t needed_layouts(const mlxc_view& view) {
  if (view.flags & MLXC_VIEW_ROW_CONTIGUOUS) return 0;
  uint32_t needed = 0;
  bool dense = true;
  for (int i = 0; i < view.ndim; i++) {
    if (view.shape[i] == 1) continue;
    if (view.strides[i] == 0) needed |= MLXC_LAYOUT_BROADCAST;
    if (view.strides[i] < 0) needed |= MLXC_LAYOUT_NEGATIVE;
    dense = dense && view.strides[i] == 0;
  }
  return dense ? needed : needed | MLXC_LAYOUT_STRIDED;
}

void point_at(mlxc_view* view, const Allocation& allocation) {
  view->memory = allocation.memory;
  view->host = allocation.host ? allocation.host + view->offset : nullptr;
}

const mlxc_kernel* contiguous_kernel(Device* device, const mlxc_view& from, const mlxc_view& to) {
  const mlxc_view* in[] = {&from};
  const mlxc_view* out[] = {&to};
  mlxc_kernel_call call{sizeof(call), MLXC_OP_CONTIGUOUS, 1, 1, in, out, nullptr, 0};
  const mlxc_kernel* row = device->backend->find_kernel(call);
  return row && (needed_layouts(from) & ~row->layouts) == 0 ? row : nullptr;
}

// Runs the work. On an asynchronous device the buffers that it uses are kept until it is done, which the
// event tells. All under one lock: the event is that of this work and no later one, so that a failure of
// the work is one of the event.
template <class Run>
Event submit(Stream* stream, std::span<Buffer* const> used, Run&& run) {
  std::unique_lock hold = lock_for_work(stream);
  throw_error(run());
  if (stream->device->synchronous()) return {};
  const Event done = pending_event(stream);
  for (Buffer* buffer : used) keep_in_flight(stream, buffer);
  return done;
}

// A row-major copy of the operand's view on the device, made by the device's own copy kernel or, where
// it has none for the layout, by the CPU's.
void pack_operand(Operand* operand, Device* device, Stream* stream) {
  Dims dense = row_major_strides(operand->shape.span());
  const int64_t bytes = operand->view.size * dtype_size(operand->view.dtype);
  mlxc_view to = operand->view;
  to.strides = dense.v;
  to.flags = MLXC_VIEW_ROW_CONTIGUOUS;
  to.offset = guard_bytes();
  const mlxc_kernel* row = contiguous_kernel(device, operand->view, to);
  Device* where = device;
  if (!row) {
    where = cpu_device();
    row = contiguous_kernel(where, operand->view, to);
    if (!row) fail(MLXC_ERROR_UNSUPPORTED, "contiguous: no kernel for ", dtype_name(operand->view.dtype));
  }
  const bool here = where == device;
  Stream* on = here ? stream : default_stream(where);
  Allocation source = ensure_on(operand->node->buffer, where, on);
  if (on->device->synchronous())
    wait_event(source.ready);
  else
    order_after(on, source.ready);
  BufferRef packed(make_buffer(where, bytes));
  point_at(&operand->view, source);
  point_at(&to, packed->first);
  const mlxc_view* in[] = {&operand->view};
  const mlxc_view* out[] = {&to};
  mlxc_kernel_call call{sizeof(call), MLXC_OP_CONTIGUOUS, 1, 1, in, out, nullptr, 0};
  Buffer* const used[] = {operand->node->buffer, packed.get()};
  packed->first.ready = submit(on, used, [&] { return row->run(on->handle, &call); });
  operand->strides = dense;
  operand->view.offset = guard_bytes();
  operand->view.flags = view_flags(operand->shape, operand->strides);
  operand->packed = std::move(packed);
}

// Whether the kernel may write over the input: nobody else can see its bytes.
bool may_donate(const Operand& operand, const Node& out, Device* device) {
  Node* input = operand.node;
  // A transform may ask for the inputs of what it follows.
  if (out.traced.load(std::memory_order_relaxed) && active_traces.load() > 0) return false;
  if (operand.packed.get() || input->refs.load(std::memory_order_acquire) != 1) return false;
  if (input->dtype != out.dtype || input->size != out.size ||
      !(operand.view.flags & MLXC_VIEW_ROW_CONTIGUOUS))
    return false;
  Buffer* buffer = input->buffer;
  return buffer->refs.load(std::memory_order_acquire) == 1 && !buffer->release &&
         buffer->first.device == device && input->offset == guard_bytes() &&
         buffer->size == out.size * dtype_size(out.dtype) && out.size > 0;
}

[[noreturn]] void fail_unsupported(const Node& node, const OpInfo& info, Device* device) {
  std::string given;
  for (uint32_t i = 0; i < node.n_inputs; i++) given += cat(i ? ", " : "", describe(*node.inputs_data()[i]));
  fail(MLXC_ERROR_UNSUPPORTED, info.name, ": the ", device->backend->name, " backend has no kernel for (",
       given, ")");
}

// Fills in the views, but for where their bytes are.
void describe_call(Call* call, Node* node, bool stretch) {
  for (int i = 0; i < call->n_inputs; i++) {
    prepare_operand(&call->inputs[i], node->inputs_data()[i], *node, stretch);
    call->in()[i] = &call->inputs[i].view;
  }
  for (int i = 0; i < call->n_outputs; i++) {
    Dims &shape = call->out_shapes[i], &strides = call->out_strides[i];
    shape = node->multi ? node->multi->results[i].shape : Dims(node->shape());
    strides = row_major_strides(shape.span());
    int64_t size = 1;
    for (int k = 0; k < shape.n; k++) size *= shape[k];
    mlxc_view& view = call->out_views[i];
    view = {};
    view.struct_size = sizeof(mlxc_view);
    view.dtype = node->multi ? node->multi->results[i].dtype : node->dtype;
    view.ndim = shape.n;
    view.shape = shape.v;
    view.strides = strides.v;
    view.size = size;
    view.offset = guard_bytes();
    view.flags = view_flags(shape, strides) | MLXC_VIEW_ROW_CONTIGUOUS;
    call->out[i] = &view;
  }
}

// Makes the inputs' bytes available on the device, in a layout that is taken there.
void bring_inputs(Call* call, uint32_t layouts, Device* device, Stream* stream) {
  for (int i = 0; i < call->n_inputs; i++) {
    Operand& operand = call->inputs[i];
    if (needed_layouts(operand.view) & ~layouts) pack_operand(&operand, device, stream);
    Buffer* buffer = operand.packed.get() ? operand.packed.get() : operand.node->buffer;
    Allocation there = ensure_on(buffer, device, stream);
    if (device->synchronous())
      wait_event(there.ready);
    else
      order_after(stream, there.ready);
    point_at(&operand.view, there);
  }
}

// Makes buffers for the outputs that have none yet.
void allocate_outputs(Call* call, Device* device, BufferRef* made) {
  for (int i = 0; i < call->n_outputs; i++) {
    const mlxc_view& view = call->out_views[i];
    if (!made[i].get()) made[i] = BufferRef(make_buffer(device, view.size * dtype_size(view.dtype)));
    point_at(&call->out_views[i], made[i]->first);
  }
}

template <class Run>
Event submit_call(Call* call, Stream* stream, BufferRef* made, Run&& run) {
  if (stream->device->synchronous()) return submit(stream, {}, run);
  std::vector<Buffer*> used;
  for (int i = 0; i < call->n_inputs; i++) {
    const Operand& operand = call->inputs[i];
    used.push_back(operand.packed.get() ? operand.packed.get() : operand.node->buffer);
  }
  for (int i = 0; i < call->n_outputs; i++) used.push_back(made[i].get());
  const Event ready = submit(stream, used, run);
  // An input may have failed, and its stream recovered, between the first check and the submission.
  for (int i = 0; i < call->n_inputs; i++) check_event(call->inputs[i].node->buffer->first.ready);
  return ready;
}

// Runs the op on a device; the outputs' buffers are stored in `made`. False: no kernel there.
bool run_kernel(Node* node, const OpInfo& info, Device* device, Stream* stream, BufferRef* made,
                Event* ready) {
  Call call(static_cast<int>(node->n_inputs), info.n_outputs);
  describe_call(&call, node, info.elementwise);
  call.c_call = {sizeof(mlxc_kernel_call),
                 node->op,
                 call.n_inputs,
                 call.n_outputs,
                 call.in(),
                 call.out.data(),
                 node->params_size ? node->params_data() : nullptr,
                 node->params_size};
  const mlxc_kernel* row = device->backend->find_kernel(call.c_call);
  if (!row) return false;
  bring_inputs(&call, row->layouts, device, stream);
  for (int i = 0; i < call.n_inputs && i < 3 && call.n_outputs == 1; i++) {
    if (!(row->flags & (MLXC_KERNEL_DONATES_0 << i)) || !may_donate(call.inputs[i], *node, device)) continue;
    Buffer* buffer = call.inputs[i].node->buffer;
    drop_mirrors(buffer);
    retain_buffer(buffer);
    made[0] = BufferRef(buffer);
    call.inputs[i].view.flags |= MLXC_VIEW_DONATED;
    break;
  }
  allocate_outputs(&call, device, made);
  *ready = submit_call(&call, stream, made, [&] { return row->run(stream->handle, &call.c_call); });
  return true;
}

void fall_back(const Node& node, const OpInfo& info, Device* device) {
  if (device->id.kind == MLXC_CPU || fallback_policy() == Fallback::error)
    fail_unsupported(node, info, device);
  if (fallback_policy() == Fallback::warn) {
    const mlxc_dtype dtype = node.n_inputs ? node.inputs_data()[0]->dtype : node.dtype;
    log_message(MLXC_LOG_WARNING, cat(info.name, " of ", dtype_name(dtype), ": not on the ",
                                      device->backend->name, " backend, computed on the CPU"));
  }
}

}  // namespace

bool lay_view(Node* node) {
  const OpInfo& info = op_table[node->op];
  Node* input = node->inputs_data()[0];
  Layout layout;
  layout.offset = input->offset;
  if (!info.view(*input, *node, &layout)) return false;
  for (int i = 0; i < node->ndim; i++) node->strides_data()[i] = layout.strides[i];
  node->offset = layout.offset;
  retain_buffer(input->buffer);
  node->buffer = input->buffer;
  return true;
}

namespace {

// A view that no strides can express: the input is packed first, on the node's own device.
void copy_view(Node* node) {
  Node* input = node->inputs_data()[0];
  Operand operand;
  prepare_operand(&operand, input, *node, false);
  Device* device = node->stream->device;
  pack_operand(&operand, device, node->stream);
  Array packed = Array::adopt(make_node(input->ndim, 0, 0));
  packed->dtype = input->dtype;
  packed->size = input->size;
  packed->stream = node->stream;
  packed->offset = guard_bytes();
  for (int i = 0; i < input->ndim; i++) {
    packed->shape_data()[i] = input->shape_data()[i];
    packed->strides_data()[i] = operand.strides[i];
  }
  packed->buffer = operand.packed.give_up();
  Layout layout;
  layout.offset = packed->offset;
  const OpInfo& info = op_table[node->op];
  if (!info.view(*packed.node(), *node, &layout))
    fail(MLXC_ERROR_RUNTIME, info.name, ": no view of a row-major ", describe(*input));
  for (int i = 0; i < node->ndim; i++) node->strides_data()[i] = layout.strides[i];
  node->offset = layout.offset;
  retain_buffer(packed->buffer);
  node->buffer = packed->buffer;
}

void take_output(Node* node) {
  MultiResult::Result& result = node->inputs_data()[0]->multi->results[node->output_index];
  retain_buffer(result.buffer);
  node->buffer = result.buffer;
  node->offset = result.offset;
  for (int i = 0; i < node->ndim; i++) node->strides_data()[i] = result.strides[i];
}

}  // namespace

void lay_result(Node* node, size_t index, const Node& over) {
  MultiResult::Result& result = node->multi->results[index];
  retain_buffer(over.buffer);
  if (result.buffer) release_buffer(result.buffer);
  result.buffer = over.buffer;
  result.strides = Dims(over.strides());
  result.offset = over.offset;
}

void run_over_views(Node* node, const ViewsRun& how) {
  Stream* stream = node->stream;
  Call call(static_cast<int>(node->n_inputs), static_cast<int>(node->multi->results.size()));
  describe_call(&call, node, how.stretch);
  bring_inputs(&call, how.layouts, stream->device, stream);
  SmallArray<BufferRef, 2> made(call.n_outputs);
  allocate_outputs(&call, stream->device, made.data());
  const Event ready = submit_call(&call, stream, made.data(),
                                  [&] { return how.run(stream->handle, call.in(), call.out.data()); });
  for (int i = 0; i < call.n_outputs; i++) {
    MultiResult::Result& result = node->multi->results[i];
    made[i]->first.ready = ready;
    if (result.buffer) release_buffer(result.buffer);
    result.buffer = made[i].give_up();
    result.strides = call.out_strides[i];
    result.offset = guard_bytes();
  }
}

void execute_node(Node* node) {
  if (node->is_output) return take_output(node);
  const OpInfo& info = op_table[node->op];
  if (info.run) return info.run(node);
  if (info.view) {
    if (!lay_view(node)) copy_view(node);
    return;
  }
  SmallArray<BufferRef, 2> made(info.n_outputs);
  Event ready;
  Stream* stream = node->stream;
  Device* device = stream->device;
  if (prefers_decompositions() && execute_decomposed(node)) return;
  if (!run_kernel(node, info, device, stream, made.data(), &ready)) {
    if (execute_decomposed(node)) return;
    fall_back(*node, info, device);
    device = cpu_device();
    if (!run_kernel(node, info, device, default_stream(device), made.data(), &ready))
      fail_unsupported(*node, info, device);
  }
  for (int i = 0; i < info.n_outputs; i++) made[i]->first.ready = ready;
  if (node->multi) {
    for (int i = 0; i < info.n_outputs; i++) {
      MultiResult::Result& result = node->multi->results[i];
      result.buffer = made[i].give_up();
      result.strides = row_major_strides(result.shape.span());
      result.offset = guard_bytes();
    }
    return;
  }
  int64_t stride = 1;
  for (int i = node->ndim; i-- > 0;) {
    node->strides_data()[i] = stride;
    stride *= node->shape_data()[i];
  }
  node->offset = guard_bytes();
  node->buffer = made[0].give_up();
}

void prefetch_inputs(Node* node) {
  Device* device = node->stream->device;
  if (device->synchronous() || node->is_output || op_table[node->op].view || !node->n_inputs) return;
  const bool kernel = device->backend->first[node->op][node->inputs_data()[0]->dtype];
  if (!kernel && !op_table[node->op].decompose) return;  // will run on the CPU
  for (uint32_t i = 0; i < node->n_inputs; i++) {
    Node* input = node->inputs_data()[i];
    if (input->state.load(std::memory_order_acquire) == state_ready && !input->multi)
      ensure_on(input->buffer, device, node->stream);
  }
}

void start_host_copy(Node* node) {
  Allocation there;
  if (node->buffer && !find_allocation(node->buffer, cpu_device(), &there)) copy_to_host(node->buffer);
}

bool wait_bytes(Node* node, int64_t timeout_ns) {
  return !node->buffer || wait_event(node->buffer->first.ready, timeout_ns);
}

const char* host_data(Node* node) {
  for (bool again = false;; again = true) {
    Allocation allocation;
    if (!find_allocation(node->buffer, cpu_device(), &allocation)) allocation = copy_to_host(node->buffer);
    wait_event(node->buffer->first.ready);
    try {
      wait_event(allocation.ready);
      return allocation.host + node->offset;
    } catch (const Failure&) {
      // Other work on the stream failed before the copy: the stream has recovered, the values are there.
      if (again || !event_failed(allocation.ready)) throw;
    }
  }
}

}  // namespace mlxc
