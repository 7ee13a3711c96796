// The graph node: one flat allocation that holds an array's shape, the op that makes it, its inputs
// and parameters, and, once computed, its buffer. `mlxc_array` of the C ABI is this struct.
//
// Rule: shape, dtype, op, stream and params never change after recording. Inputs are given up when
// the node is computed, unless a transform follows it (traced). Buffer, strides and offset
// are written by the thread that claimed the node, before it stores the state with release order.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "core/dims.h"
#include "core/dtype.h"
#include "mlxc/array.h"

namespace mlxc {

struct Buffer;
struct Stream;
struct MultiResult;

// What a node carries beside its inputs and parameters, where an op has more to it than a C struct can say:
// closures, programs. Shared by the nodes of one meaning, immutable, destroyed on any thread without a lock.
class Attachment : public std::enable_shared_from_this<Attachment> {
 public:
  Attachment() = default;
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  virtual ~Attachment() = default;
};

enum State : uint8_t {
  state_pending = 0,  // recorded
  state_claimed = 1,  // in a batch that a thread runs or will run
  state_ready = 2,    // has its buffer, whose bytes are complete at the buffer's event
  state_failed = 3    // has its error
};

}  // namespace mlxc

struct mlxc_array {
  std::atomic<int64_t> refs;
  std::atomic<uint8_t> state;
  std::atomic<uint8_t> traced;  // a transform follows it
  uint8_t dtype;
  uint8_t ndim;
  uint16_t op;         // 0: a leaf; one that is pending is a placeholder (core/tape.h)
  uint8_t is_output;   // of an op with several outputs; such a node's one input is the op's node
  uint8_t size_class;  // of the allocation
  uint32_t n_inputs;
  uint32_t params_size;
  uint32_t output_index;
  uint32_t mark;  // scratch for the scheduler, under its lock
  int64_t size;
  int64_t offset;  // bytes into the buffer
  mlxc::Stream* stream;
  mlxc::Buffer* buffer;
  mlxc_error* error;
  mlxc::MultiResult* multi;  // only on the op's node of an op with several outputs or an attachment
  // then: int64_t shape[ndim], strides[ndim] (in elements); mlxc_array* inputs[n_inputs]; params

  int64_t* shape_data() { return reinterpret_cast<int64_t*>(this + 1); }
  const int64_t* shape_data() const { return reinterpret_cast<const int64_t*>(this + 1); }
  int64_t* strides_data() { return shape_data() + ndim; }
  const int64_t* strides_data() const { return shape_data() + ndim; }
  mlxc_array** inputs_data() { return reinterpret_cast<mlxc_array**>(shape_data() + 2 * ndim); }
  mlxc_array* const* inputs_data() const {
    return reinterpret_cast<mlxc_array* const*>(shape_data() + 2 * ndim);
  }
  void* params_data() { return inputs_data() + n_inputs; }
  const void* params_data() const { return inputs_data() + n_inputs; }
  std::span<const int64_t> shape() const { return {shape_data(), ndim}; }
  std::span<const int64_t> strides() const { return {strides_data(), ndim}; }
};

namespace mlxc {

using Node = ::mlxc_array;

// A node with room for its shape, inputs and params; one reference, state pending, fields zero. The
// caller fills shape and inputs (whose references it takes over).
Node* make_node(int ndim, int n_inputs, uint32_t params_size);
// Frees the node and, without recursion, whatever only it held. Attachments may call back into the program
// that embeds the core when they go, so no lock is held.
void destroy_node(Node* node) noexcept;
inline void retain_node(Node* node) noexcept { node->refs.fetch_add(1, std::memory_order_relaxed); }
// Gives a reference up; true if it was the last. Who holds the only reference need not count down: nobody
// else can take one, and a plain load costs a fraction of an atomic subtraction.
inline bool drop_reference(Node* node) noexcept {
  return node->refs.load(std::memory_order_acquire) == 1 ||
         node->refs.fetch_sub(1, std::memory_order_acq_rel) == 1;
}
inline void release_node(Node* node) noexcept {
  if (drop_reference(node)) destroy_node(node);
}

// Gives up the inputs of a computed node, and its attachment.
void detach_inputs(Node* node) noexcept;
// Whether every stride is what row-major order without gaps asks for (axes of size 1 do not count).
bool row_contiguous(std::span<const int64_t> shape, std::span<const int64_t> strides);

// One reference to a node. A default-made Array is null; for cotangents null means zero.
class Array {
 public:
  Array() = default;
  Array(const Array& other) : node_(other.node_) {
    if (node_) retain_node(node_);
  }
  Array(Array&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Array& operator=(Array other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Array() {
    if (node_) release_node(node_);
  }
  static Array borrow(Node* node) {  // adds a reference
    if (node) retain_node(node);
    return adopt(node);
  }
  static Array adopt(Node* node) {  // takes the caller's reference over
    Array array;
    array.node_ = node;
    return array;
  }
  Node* give_up() noexcept { return std::exchange(node_, nullptr); }

  explicit operator bool() const { return node_ != nullptr; }
  Node* node() const { return node_; }
  Node* operator->() const { return node_; }
  int ndim() const { return node_->ndim; }
  int64_t size() const { return node_->size; }
  int64_t dim(int axis) const { return node_->shape_data()[axis < 0 ? axis + node_->ndim : axis]; }
  mlxc_dtype dtype() const { return node_->dtype; }
  std::span<const int64_t> shape() const { return node_->shape(); }
  Dims dims() const { return Dims(shape()); }
  Sizes sizes() const { return make_sizes(shape()); }

 private:
  Node* node_ = nullptr;
};

}  // namespace mlxc
