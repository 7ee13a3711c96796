/* Sort keys: unsigned integers that order as the values do.
 *
 * Used by sort.cc, so that one sorting routine a size serves all dtypes. NaN gets the greatest key whatever
 * its sign and payload, and comes back as the plain NaN. `order_key` keeps -0 below +0, so that a value can
 * be made of its key again; `rank_key` gives both the same key, so that they count as equal.
 */
#ifndef MLXC_CPU_SORT_KEYS_H
#define MLXC_CPU_SORT_KEYS_H

#include "dtype.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

template <int Size>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = uint8_t;
};
template <>
struct UnsignedOf<2> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = uint64_t;
};

/* Real types only; complex numbers are ranked by two keys. */
template <class T>
using KeyOf = typename UnsignedOf<sizeof(T)>::type;

template <class T>
constexpr bool has_nan = is_half<T> || is_native_float<T>;

/* The bits of infinity and of the plain NaN. */
template <class T>
constexpr KeyOf<T> kInfinity =
    std::is_same_v<T, Half>     ? KeyOf<T>(0x7c00)
    : std::is_same_v<T, BFloat> ? KeyOf<T>(0x7f80)
    : std::is_same_v<T, float>  ? static_cast<KeyOf<T>>(0x7f800000)
                                : static_cast<KeyOf<T>>(UINT64_C(0x7ff0000000000000));
template <class T>
constexpr KeyOf<T> kPlainNan =
    std::is_same_v<T, Half>     ? KeyOf<T>(0x7e00)
    : std::is_same_v<T, BFloat> ? KeyOf<T>(0x7fc0)
    : std::is_same_v<T, float>  ? static_cast<KeyOf<T>>(0x7fc00000)
                                : static_cast<KeyOf<T>>(UINT64_C(0x7ff8000000000000));
template <class T>
constexpr KeyOf<T> kSignBit = static_cast<KeyOf<T>>(KeyOf<T>(1) << (8 * sizeof(T) - 1));

/* All ones where the top bit is set, else zero. Signs are random: a branch on them would cost more than the
 * rest of the key. */
template <class K>
MLXC_INLINE K sign_mask(K bits) {
  return static_cast<K>(static_cast<std::make_signed_t<K>>(bits) >> (8 * sizeof(K) - 1));
}

template <class T>
MLXC_INLINE KeyOf<T> order_key(T value) {
  using K = KeyOf<T>;
  const K bits = bit_cast<K>(value);
  if constexpr (has_nan<T>) {
    using Signed = std::make_signed_t<K>;
    const K magnitude = static_cast<K>(bits & static_cast<K>(~kSignBit<T>));
    const K clean = static_cast<Signed>(magnitude) > static_cast<Signed>(kInfinity<T>) ? kPlainNan<T> : bits;
    return static_cast<K>(clean ^ (sign_mask(clean) | kSignBit<T>));
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<K>(bits ^ kSignBit<T>);
  } else {
    return bits;
  }
}

template <class T>
MLXC_INLINE T value_of_key(KeyOf<T> key) {
  using K = KeyOf<T>;
  if constexpr (has_nan<T>) {
    return bit_cast<T>(static_cast<K>(key ^ (sign_mask(static_cast<K>(~key)) | kSignBit<T>)));
  } else if constexpr (std::is_signed_v<T>) {
    return bit_cast<T>(static_cast<K>(key ^ kSignBit<T>));
  } else if constexpr (std::is_same_v<T, bool>) {
    return key != 0;
  } else {
    return key;
  }
}

/* The keys of the two zeros. */
template <class T>
constexpr KeyOf<T> kPositiveZero = kSignBit<T>;
template <class T>
constexpr KeyOf<T> kNegativeZero = static_cast<KeyOf<T>>(kSignBit<T> - 1);

template <class T>
MLXC_INLINE KeyOf<T> rank_key(T value) {
  const KeyOf<T> key = order_key(value);
  if constexpr (has_nan<T>) {
    return key == kNegativeZero<T> ? kPositiveZero<T> : key;
  } else {
    return key;
  }
}

/* A rank with the place it came from, which breaks ties and so makes any sort stable. Ranks of up to 32 bits
 * share a word with their place. */
struct ShortRank {
  uint64_t word;
  uint64_t rank() const { return word >> 32; }
  uint32_t place() const { return static_cast<uint32_t>(word); }
  bool operator<(const ShortRank& other) const { return word < other.word; }
};
struct LongRank {
  uint64_t key;
  uint64_t where;
  uint64_t rank() const { return key; }
  uint32_t place() const { return static_cast<uint32_t>(where); }
  bool operator<(const LongRank& other) const {
    return key != other.key ? key < other.key : where < other.where;
  }
};
struct WideRank {
  uint64_t high;
  uint64_t low;
  uint64_t where;
  uint32_t place() const { return static_cast<uint32_t>(where); }
  bool operator<(const WideRank& other) const {
    if (high != other.high) return high < other.high;
    return low != other.low ? low < other.low : where < other.where;
  }
};

template <class T>
using RankOf = std::conditional_t<std::is_same_v<T, Complex128>, WideRank,
                                  std::conditional_t<sizeof(T) == 8, LongRank, ShortRank>>;

template <class T>
MLXC_INLINE RankOf<T> rank_value(T value, int64_t place) {
  const uint64_t where = static_cast<uint64_t>(place);
  if constexpr (std::is_same_v<T, Complex128>) {
    return WideRank{rank_key(value.re), rank_key(value.im), where};
  } else if constexpr (std::is_same_v<T, Complex64>) {
    return LongRank{(static_cast<uint64_t>(rank_key(value.re)) << 32) | rank_key(value.im), where};
  } else if constexpr (sizeof(T) == 8) {
    return LongRank{rank_key(value), where};
  } else {
    return ShortRank{(static_cast<uint64_t>(rank_key(value)) << 32) | where};
  }
}

/* Bits of a rank that can differ. */
template <class T>
constexpr int kRankBits = 8 * static_cast<int>(sizeof(T));

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu
#endif
