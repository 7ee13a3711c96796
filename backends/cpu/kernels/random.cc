/* random_bits: the Threefry-2x32 generator with 20 rounds.
 *
 * Called by the core; everything random is made from these bits. A key and the number of bytes wanted fix the
 * stream, which is MLX's: the output is a row of 32-bit words (the last one cut to the bytes needed), little
 * end first. With h = words / 2 rounded up, block i < words / 2 has the counters (i, i + h) and its two
 * results are words i and i + h; where words is odd, word words / 2 is the first result of counters (words /
 * 2, 0). Values of 8 bytes are a stream of mlxc's own: value i is one block with the counters (low, high half
 * of i), its first result the low word. Counters are 32-bit, so a stream of one key repeats after 2^33 words.
 */
#include <algorithm>
#include <cstring>

#include "parallel.h"
#include "strided.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {
namespace {

/* Blocks hashed together: two buffers of this many words lie on the stack. */
constexpr int64_t kBlocks = 512;

struct Key {
  uint32_t words[3];
  Key(uint32_t first, uint32_t second) : words{first, second, first ^ second ^ 0x1BD11BDAu} {}
};

template <int R>
MLXC_INLINE void mix(uint32_t& x, uint32_t& y) {
  x += y;
  y = (y << R) | (y >> (32 - R));
  y ^= x;
}

template <int R0, int R1, int R2, int R3>
MLXC_INLINE void mix_four(uint32_t& x, uint32_t& y) {
  mix<R0>(x, y);
  mix<R1>(x, y);
  mix<R2>(x, y);
  mix<R3>(x, y);
}

MLXC_INLINE void hash_block(const Key& key, uint32_t& x, uint32_t& y) {
  const uint32_t k0 = key.words[0], k1 = key.words[1], k2 = key.words[2];
  x += k0;
  y += k1;
  mix_four<13, 15, 26, 6>(x, y);
  x += k1;
  y += k2 + 1u;
  mix_four<17, 29, 16, 24>(x, y);
  x += k2;
  y += k0 + 2u;
  mix_four<13, 15, 26, 6>(x, y);
  x += k0;
  y += k1 + 3u;
  mix_four<17, 29, 16, 24>(x, y);
  x += k1;
  y += k2 + 4u;
  mix_four<13, 15, 26, 6>(x, y);
  x += k2;
  y += k0 + 5u;
}

/* Blocks whose counters both run upwards. */
MLXC_NOINLINE void hash_blocks(const Key& key, uint32_t first, uint32_t second, int64_t n,
                               uint32_t* MLXC_RESTRICT left, uint32_t* MLXC_RESTRICT right) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t x = first + static_cast<uint32_t>(i), y = second + static_cast<uint32_t>(i);
    hash_block(key, x, y);
    left[i] = x;
    right[i] = y;
  }
}

/* Blocks whose second counter stands still; their results side by side. */
MLXC_NOINLINE void hash_pairs(const Key& key, uint32_t first, uint32_t second, int64_t n,
                              uint64_t* MLXC_RESTRICT pairs) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t x = first + static_cast<uint32_t>(i), y = second;
    hash_block(key, x, y);
    pairs[i] = static_cast<uint64_t>(x) | (static_cast<uint64_t>(y) << 32);
  }
}

/* Writes words from the given word on; the stream ends after `bytes`, perhaps inside a word, and the output
 * may begin at any address. */
MLXC_INLINE void put_words(char* out, int64_t bytes, int64_t word, const uint32_t* words, int64_t n) {
  const int64_t count = std::min(n * 4, bytes - word * 4);
  if (count > 0) std::memcpy(out + word * 4, words, static_cast<size_t>(count));
}

/* Blocks [begin, end) of the stream of `bytes` bytes. */
void write_words(const Key& key, char* out, int64_t bytes, int64_t begin, int64_t end) {
  uint32_t left[kBlocks], right[kBlocks];
  const int64_t words = (bytes + 3) / 4, half = words / 2, other = words - half;
  for (int64_t i = begin; i < std::min(end, half); i += kBlocks) {
    const int64_t n = std::min(kBlocks, std::min(end, half) - i);
    hash_blocks(key, static_cast<uint32_t>(i), static_cast<uint32_t>(i + other), n, left, right);
    put_words(out, bytes, i, left, n);
    put_words(out, bytes, i + other, right, n);
  }
  if (end == other && other > half) {
    uint32_t x = static_cast<uint32_t>(half), y = 0;
    hash_block(key, x, y);
    put_words(out, bytes, half, &x, 1);
  }
}

/* Values [begin, end) of 8 bytes. */
void write_pairs(const Key& key, char* out, int64_t begin, int64_t end) {
  uint64_t pairs[kBlocks];
  while (begin < end) {
    /* No piece crosses a carry into the second counter. */
    const int64_t carry = (begin / (INT64_C(1) << 32) + 1) * (INT64_C(1) << 32);
    const int64_t n = std::min(std::min(kBlocks, end - begin), carry - begin);
    hash_pairs(key, static_cast<uint32_t>(begin), static_cast<uint32_t>(begin >> 32), n, pairs);
    std::memcpy(out + begin * 8, pairs, static_cast<size_t>(n) * 8);
    begin += n;
  }
}

mlxc_error* run_random_bits(mlxc_backend_stream*, const mlxc_kernel_call* call) {
  const mlxc_view* keys = call->inputs[0];
  const mlxc_view* out = call->outputs[0];
  const int64_t width = params<mlxc_random_bits_params>(call)->width;
  if (width != 1 && width != 2 && width != 4 && width != 8) {
    return make_error(MLXC_ERROR_VALUE, "random_bits: width is %d; 1, 2, 4 and 8 bytes are accepted",
                      static_cast<int>(width));
  }
  if (keys->ndim < 1 || keys->shape[keys->ndim - 1] != 2) {
    return make_error(MLXC_ERROR_VALUE, "random_bits: the last axis of the key has size %lld; it must be 2",
                      keys->ndim < 1 ? 0LL : static_cast<long long>(keys->shape[keys->ndim - 1]));
  }
  if (out->size == 0) return nullptr;
  const int64_t count = keys->size / 2, values = out->size / count, bytes = values * width;
  const int64_t blocks = width == 8 ? values : ((bytes + 3) / 4 + 1) / 2;
  const int64_t* strides[1] = {keys->strides};
  const Walk<1> walk = make_walk<1>(keys->ndim - 1, keys->shape, strides);
  const int64_t key_stride = keys->strides[keys->ndim - 1];
  auto write = [&](int64_t which, int64_t begin, int64_t end) {
    Cursor<1> cursor(walk, which / walk.inner);
    const uint32_t* words =
        data<const uint32_t>(keys) + cursor.offset[0] + which % walk.inner * walk.inner_stride(0);
    const Key key(words[0], words[key_stride]);
    char* target = data<char>(out) + which * bytes;
    if (width == 8) {
      write_pairs(key, target, begin, end);
    } else {
      write_words(key, target, bytes, begin, end);
    }
  };
  /* Hashing a block costs about as much as moving 32 bytes. */
  if (count == 1) {
    parallel_for(blocks, grain_for_bytes(32), [&](int64_t begin, int64_t end) { write(0, begin, end); });
  } else {
    parallel_for(count, grain_for_bytes(blocks * 32), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) write(i, 0, blocks);
    });
  }
  return nullptr;
}

constexpr mlxc_dtype_mask kMaskKey = MLXC_DTYPE_BIT(MLXC_UINT32);
const mlxc_kernel kRows[] = {make_row(MLXC_OP_RANDOM_BITS, kMaskKey, kMaskUnsigned, run_random_bits)};

}  // namespace

KernelRows random_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
