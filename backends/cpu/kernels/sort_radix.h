/* Sorting keys or ranks that lie dense: a radix sort for long rows, std::sort for short ones.
 *
 * Used by sort.cc. The radix sort goes from the low digits to the high ones, each pass stable; a digit that
 * is the same everywhere costs one reading pass and no moves. On several threads each counts and moves a
 * chunk of its own, in the order of the chunks, so the result does not depend on their number.
 */
#ifndef MLXC_CPU_SORT_RADIX_H
#define MLXC_CPU_SORT_RADIX_H

#include <algorithm>

#include "parallel.h"
#include "sort_keys.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

constexpr int kMostDigitBits = 11;
constexpr int kMostChunks = 16;
/* Elements that are worth a second thread. */
constexpr int64_t kChunkElements = INT64_C(1) << 16;

MLXC_INLINE uint64_t radix_key(uint8_t key) { return key; }
MLXC_INLINE uint64_t radix_key(uint16_t key) { return key; }
MLXC_INLINE uint64_t radix_key(uint32_t key) { return key; }
MLXC_INLINE uint64_t radix_key(uint64_t key) { return key; }
MLXC_INLINE uint64_t radix_key(const ShortRank& rank) { return rank.rank(); }
MLXC_INLINE uint64_t radix_key(const LongRank& rank) { return rank.rank(); }

/* How many of a row's chunks are sorted at once, and how many counters that takes. */
MLXC_INLINE int64_t count_chunks(int64_t n, bool threaded) {
  if (!threaded) return 1;
  return std::max<int64_t>(1, std::min<int64_t>({host->thread_count(), kMostChunks, n / kChunkElements}));
}

/* Where radix sorting begins to be faster, for keys of this many bits. */
MLXC_INLINE bool is_radix_length(int64_t n, int bits) {
  return n >= std::max(64, 2 * bits) && n <= INT64_C(0xffffffff);
}

/* Sorts by the low `bits` bits of the keys. Gives whichever of the two buffers holds the result. `counts` has
 * room for chunks << kMostDigitBits counters. */
template <class E>
E* sort_radix(E* from, E* to, int64_t n, int bits, int64_t chunks, uint32_t* counts) {
  const int digit_bits = n < 8192 || bits <= 16 ? 8 : kMostDigitBits;
  const int64_t digits = INT64_C(1) << digit_bits;
  const uint64_t mask = static_cast<uint64_t>(digits - 1);
  const int64_t chunk = (n + chunks - 1) / chunks;
  for (int shift = 0; shift < bits; shift += digit_bits) {
    parallel_for(chunks, 1, [&](int64_t first, int64_t last) {
      for (int64_t c = first; c < last; c++) {
        uint32_t* count = counts + (c << kMostDigitBits);
        for (int64_t d = 0; d < digits; d++) count[d] = 0;
        const int64_t end = std::min(n, (c + 1) * chunk);
        for (int64_t i = c * chunk; i < end; i++) count[(radix_key(from[i]) >> shift) & mask]++;
      }
    });
    /* Counts become the places where each chunk's elements of a digit begin. */
    uint64_t place = 0;
    bool one_digit = false;
    for (int64_t d = 0; d < digits; d++) {
      const uint64_t before = place;
      for (int64_t c = 0; c < chunks; c++) {
        uint32_t& count = counts[(c << kMostDigitBits) + d];
        const uint32_t here = count;
        count = static_cast<uint32_t>(place);
        place += here;
      }
      one_digit = one_digit || place - before == static_cast<uint64_t>(n);
    }
    if (one_digit) continue;
    parallel_for(chunks, 1, [&](int64_t first, int64_t last) {
      for (int64_t c = first; c < last; c++) {
        uint32_t* next = counts + (c << kMostDigitBits);
        const int64_t end = std::min(n, (c + 1) * chunk);
        for (int64_t i = c * chunk; i < end; i++) {
          const E element = from[i];
          to[next[(radix_key(element) >> shift) & mask]++] = element;
        }
      }
    });
    std::swap(from, to);
  }
  return from;
}

/* Sorts bytes by counting them. */
MLXC_INLINE void sort_bytes(uint8_t* keys, int64_t n) {
  int64_t counts[256] = {};
  for (int64_t i = 0; i < n; i++) counts[keys[i]]++;
  for (int value = 0; value < 256; value++) {
    for (int64_t i = 0; i < counts[value]; i++) *keys++ = static_cast<uint8_t>(value);
  }
}

/* Room for one lane of n elements of type E: two buffers and counters. */
template <class E>
struct SortRoom {
  E* elements;
  E* other;
  uint32_t* counts;

  static size_t bytes(int64_t n, int64_t chunks) {
    return 2 * round(n) + (static_cast<size_t>(chunks) << kMostDigitBits) * sizeof(uint32_t);
  }
  SortRoom(void* memory, int64_t n)
      : elements(static_cast<E*>(memory)),
        other(reinterpret_cast<E*>(static_cast<char*>(memory) + round(n))),
        counts(reinterpret_cast<uint32_t*>(static_cast<char*>(memory) + 2 * round(n))) {}

 private:
  static size_t round(int64_t n) { return (static_cast<size_t>(n) * sizeof(E) + 63) / 64 * 64; }
};

/* Sorts the elements of the room; gives where the result is. */
template <class E>
E* sort_dense(const SortRoom<E>& room, int64_t n, int bits, int64_t chunks) {
  if constexpr (std::is_same_v<E, uint8_t>) {
    if (n >= 64) {
      sort_bytes(room.elements, n);
      return room.elements;
    }
  }
  if constexpr (!std::is_same_v<E, WideRank>) {
    if (is_radix_length(n, bits)) return sort_radix(room.elements, room.other, n, bits, chunks, room.counts);
  }
  std::sort(room.elements, room.elements + n);
  return room.elements;
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
