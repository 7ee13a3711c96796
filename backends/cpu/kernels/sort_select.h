/* Selecting by rank: the ranks of a lane are partitioned round the one that sorting would put at a place.
 *
 * Used by sort.cc for partition and argpartition. Digit by digit, from the highest: one pass counts, the next
 * parts what is less, equal and greater, keeping the order of each, and only the equal ones go on. So the
 * work is linear, whatever the values, and the result does not depend on the routine's mood: ranks differ by
 * their places.
 */
#ifndef MLXC_CPU_SORT_SELECT_H
#define MLXC_CPU_SORT_SELECT_H

#include "sort_radix.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* So few are simply sorted. */
constexpr int64_t kSelectBySorting = 256;

/* Partitions the elements [0, n) round place k. `bits` is the number of bits of a rank, `other` room for n.
 */
template <class E>
void select_place(E* elements, E* other, int64_t n, int64_t k, int bits) {
  if constexpr (std::is_same_v<E, WideRank>) {
    std::nth_element(elements, elements + k, elements + n);
  } else {
    int64_t low = 0, high = n;
    int shift = bits;
    uint32_t counts[1 << kMostDigitBits];
    while (high - low > kSelectBySorting && shift > 0) {
      const int digit_bits = std::min(shift, kMostDigitBits);
      shift -= digit_bits;
      const uint64_t digits = UINT64_C(1) << digit_bits, mask = digits - 1;
      for (uint64_t d = 0; d < digits; d++) counts[d] = 0;
      for (int64_t i = low; i < high; i++) counts[(radix_key(elements[i]) >> shift) & mask]++;
      int64_t before = low;
      uint64_t digit = 0;
      while (before + counts[digit] <= k) before += counts[digit++];
      const int64_t equal = counts[digit];
      if (equal == high - low) continue;
      E* next[3] = {other + low, other + before, other + before + equal};
      for (int64_t i = low; i < high; i++) {
        const uint64_t own = (radix_key(elements[i]) >> shift) & mask;
        *next[(own >= digit) + (own > digit)]++ = elements[i];
      }
      std::memcpy(static_cast<void*>(elements + low), other + low,
                  static_cast<size_t>(high - low) * sizeof(E));
      low = before;
      high = before + equal;
    }
    /* Equal ranks are in the order of their places already. */
    if (shift > 0) std::sort(elements + low, elements + high);
  }
}

/* Gives the places 0 to n - 1 of a lane partitioned round place k. read(i) is the rank of element i. */
template <class E, class Read>
void select_places(const SortRoom<E>& room, int64_t n, int64_t k, int bits, const Read& read,
                   uint32_t* places) {
  E* ranks = room.elements;
  int64_t first = 0, count = n;
  int rest = bits;
  if constexpr (!std::is_same_v<E, WideRank>) {
    if (n > kSelectBySorting) {
      const int digit_bits = std::min(bits, kMostDigitBits);
      rest = bits - digit_bits;
      const uint64_t mask = (UINT64_C(1) << digit_bits) - 1;
      uint32_t counts[1 << kMostDigitBits] = {};
      for (int64_t i = 0; i < n; i++) counts[(radix_key(read(i)) >> rest) & mask]++;
      uint64_t digit = 0;
      while (first + counts[digit] <= k) first += counts[digit++];
      count = counts[digit];
      uint32_t* next[3] = {places, places + first, places + first + count};
      for (int64_t i = 0; i < n; i++) {
        const uint64_t own = (radix_key(read(i)) >> rest) & mask;
        *next[(own >= digit) + (own > digit)]++ = static_cast<uint32_t>(i);
      }
      if (rest == 0) return;
      for (int64_t i = 0; i < count; i++) ranks[i] = read(places[first + i]);
      select_place(ranks, room.other, count, k - first, rest);
      for (int64_t i = 0; i < count; i++) places[first + i] = ranks[i].place();
      return;
    }
  }
  for (int64_t i = 0; i < n; i++) ranks[i] = read(i);
  select_place(ranks, room.other, n, k, bits);
  for (int64_t i = 0; i < n; i++) places[i] = ranks[i].place();
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
