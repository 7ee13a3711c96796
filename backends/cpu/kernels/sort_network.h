/* Sorting many short lanes at once: a network of exchanges in which each column of a block is a lane.
 *
 * Used by sort.cc for keys of at most 64 bits. The exchanges do not depend on the data, so a vector
 * instruction makes one of them for all lanes of a block and no branch is mispredicted. The network is
 * Batcher's merge exchange, for any length; it is not stable, which does not matter to keys without a place
 * and to ranks that hold theirs.
 */
#ifndef MLXC_CPU_SORT_NETWORK_H
#define MLXC_CPU_SORT_NETWORK_H

#include "sort_radix.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

/* Lanes of a block: a row of it is a cache line. */
template <class E>
constexpr int64_t kColumns = 64 / static_cast<int64_t>(sizeof(E));

/* Lengths up to which the network is faster than a radix sort of each lane. */
template <class E>
MLXC_INLINE bool is_network_length(int64_t n) {
  return n <= (sizeof(E) == 8 ? 512 : sizeof(E) == 1 ? 64 : 1024);
}

/* Puts the lesser of each pair into the first row. */
template <class E>
MLXC_INLINE void exchange_rows(E* first, E* second) {
  constexpr int64_t W = kColumns<E>;
  E low[W], high[W];
  for (int64_t i = 0; i < W; i++) {
    low[i] = second[i] < first[i] ? second[i] : first[i];
    high[i] = second[i] < first[i] ? first[i] : second[i];
  }
  for (int64_t i = 0; i < W; i++) first[i] = low[i];
  for (int64_t i = 0; i < W; i++) second[i] = high[i];
}

/* Sorts the columns of n rows of kColumns keys. */
template <class E>
MLXC_NOINLINE void sort_columns(E* rows, int64_t n) {
  constexpr int64_t W = kColumns<E>;
  int64_t top = 1;
  while (2 * top < n) top *= 2;
  for (int64_t p = n > 1 ? top : 0; p > 0; p /= 2) {
    int64_t q = top, r = 0, distance = p;
    while (true) {
      /* All i with bit p as r says, in runs of p. */
      for (int64_t start = r; start < n - distance; start += 2 * p) {
        const int64_t end = std::min(start + p, n - distance);
        for (int64_t i = start; i < end; i++) exchange_rows(rows + i * W, rows + (i + distance) * W);
      }
      if (q == p) break;
      distance = q - p;
      q /= 2;
      r = p;
    }
  }
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
