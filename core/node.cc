// Allocation and release of nodes. Freed nodes are kept in small per-thread lists by size, so that
// recording costs no trip to the system allocator.
#include "core/node.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "core/error.h"
#include "core/memory.h"

namespace mlxc {

namespace {

constexpr size_t class_bytes = 32;
constexpr uint8_t class_count = 32;  // up to 1 KiB; greater blocks are all of class 32
constexpr int kept_per_class = 4096;

struct FreeList {
  void* head[class_count] = {};
  int count[class_count] = {};
  ~FreeList() {
    for (void* block : head) {
      while (block) {
        void* next = *static_cast<void**>(block);
        std::free(block);
        block = next;
      }
    }
  }
};

// The list outlives nothing: after its thread-exit destructor ran, `list_alive` is false and blocks
// go straight to the system.
thread_local bool list_alive = true;
struct ListOwner {
  FreeList list;
  ~ListOwner() { list_alive = false; }
};
thread_local ListOwner owner;

void* take_block(size_t bytes, uint8_t* size_class) {
  const size_t index = (bytes + class_bytes - 1) / class_bytes;
  *size_class = static_cast<uint8_t>(std::min<size_t>(index, class_count));
  if (index < class_count && list_alive) {
    FreeList& list = owner.list;
    if (void* block = list.head[index]) {
      list.head[index] = *static_cast<void**>(block);
      list.count[index]--;
      return block;
    }
  }
  void* block = std::malloc(index * class_bytes);
  if (!block) throw std::bad_alloc();
  return block;
}

void give_block(void* block, uint8_t index) noexcept {
  if (index < class_count && list_alive) {
    FreeList& list = owner.list;
    if (list.count[index] < kept_per_class) {
      *static_cast<void**>(block) = list.head[index];
      list.head[index] = block;
      list.count[index]++;
      return;
    }
  }
  std::free(block);
}

// An attachment may hold arrays whose nodes hold attachments, and so on: the outermost release on a thread
// lets go of them one by one.
void release_attachment(std::shared_ptr<Attachment> attachment) noexcept {
  thread_local std::vector<std::shared_ptr<Attachment>>* waiting = nullptr;
  if (!attachment || attachment.use_count() > 1) return;
  if (waiting) {
    try {
      waiting->push_back(std::move(attachment));
    } catch (const std::bad_alloc&) {
      // Then it is released right here.
    }
    return;
  }
  std::vector<std::shared_ptr<Attachment>> list;
  waiting = &list;
  attachment.reset();
  while (!list.empty()) {
    attachment = std::move(list.back());
    list.pop_back();
    attachment.reset();
  }
  waiting = nullptr;
}

}  // namespace

Node* make_node(int ndim, int n_inputs, uint32_t params_size) {
  size_t bytes = sizeof(Node) + 2 * sizeof(int64_t) * ndim + sizeof(Node*) * n_inputs + params_size;
  uint8_t size_class;
  void* block = take_block(bytes, &size_class);
  std::memset(block, 0, sizeof(Node));
  Node* node = new (block) Node;
  node->refs.store(1, std::memory_order_relaxed);
  node->state.store(state_pending, std::memory_order_relaxed);
  node->traced.store(0, std::memory_order_relaxed);
  node->ndim = static_cast<uint8_t>(ndim);
  node->n_inputs = static_cast<uint32_t>(n_inputs);
  node->params_size = params_size;
  node->size_class = size_class;
  node->buffer = nullptr;
  node->error = nullptr;
  node->multi = nullptr;
  node->op = 0;
  node->is_output = 0;
  node->output_index = 0;
  node->mark = 0;
  node->offset = 0;
  return node;
}

void destroy_node(Node* node) noexcept {
  // The nodes to free are chained through their stream field, which nobody reads any more.
  auto chain = [](Node* n, Node* next) { n->stream = reinterpret_cast<Stream*>(next); };
  chain(node, nullptr);
  Node* first = node;
  while (first) {
    Node* dead = first;
    first = reinterpret_cast<Node*>(dead->stream);
    if (dead->buffer) release_buffer(dead->buffer);
    if (dead->error) release_error(dead->error);
    if (dead->multi) {
      std::shared_ptr<Attachment> attachment = std::move(dead->multi->attachment);
      delete dead->multi;
      release_attachment(std::move(attachment));
    }
    Node** inputs = dead->inputs_data();
    for (uint32_t i = 0; i < dead->n_inputs; i++) {
      Node* input = inputs[i];
      if (input && drop_reference(input)) {
        chain(input, first);
        first = input;
      }
    }
    const uint8_t size_class = dead->size_class;
    dead->~Node();
    give_block(dead, size_class);
  }
}

void detach_inputs(Node* node) noexcept {
  Node** inputs = node->inputs_data();
  for (uint32_t i = 0; i < node->n_inputs; i++) {
    if (Node* input = std::exchange(inputs[i], nullptr)) release_node(input);
  }
  if (node->multi) release_attachment(std::move(node->multi->attachment));
}

bool row_contiguous(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

}  // namespace mlxc
