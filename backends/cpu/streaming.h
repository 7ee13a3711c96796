/* Stores that go past the caches, for results too large to be found there again.
 *
 * Called by the element-wise engine for memory-bound ops. An ordinary store first reads the line it
 * overwrites; a streaming one does not, which saves a third of the traffic of an addition.
 */
#ifndef MLXC_CPU_STREAMING_H
#define MLXC_CPU_STREAMING_H

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "dtype.h"

namespace mlxc_cpu {
inline namespace MLXC_ISA {

#if defined(__x86_64__)
constexpr bool kHasStreaming = true;
#else
constexpr bool kHasStreaming = false;
#endif

/* From this many bytes on a result is not kept in the caches of the machines we know. */
constexpr int64_t kStreamingBytes = 24 << 20;
constexpr int64_t kLine = 64;

/* Copies whole lines to a line boundary. */
MLXC_INLINE void stream_lines(char* to, const char* from, int64_t bytes) {
#if defined(__AVX512F__)
  for (int64_t i = 0; i < bytes; i += 64)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_load_si512(from + i));
#elif defined(__AVX__)
  for (int64_t i = 0; i < bytes; i += 32)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i)));
#elif defined(__x86_64__)
  for (int64_t i = 0; i < bytes; i += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
#else
  (void)to, (void)from, (void)bytes;
#endif
}

/* Streamed stores become visible to other threads in order with what follows. */
MLXC_INLINE void finish_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace MLXC_ISA
}  // namespace mlxc_cpu

#endif
