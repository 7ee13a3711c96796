/* Random numbers of the embedding ABI: what is composed of the op random_bits, in few recorded ops.
 *
 * The same key (two uint32) gives the same numbers on every device. Shapes are for one key; a batch of keys,
 * axes before the last one of `key`, comes before them.
 */
#ifndef MLXC_RANDOM_H
#define MLXC_RANDOM_H

#include "mlxc/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers in [0, 1), spread evenly, times `scale` (a power of two, so that nothing is rounded) plus `shift`.
 * dtype: float16, bfloat16, float32 or float64; the former two take a scale of 1 only. */
MLXC_API mlxc_error* mlxc_random_uniform(mlxc_array* key, const int64_t* shape, int32_t n_shape,
                                         mlxc_dtype dtype, double scale, double shift, mlxc_stream* stream,
                                         mlxc_array** out);
/* The same between minus one and one, both left out, of float32 or float64. */
MLXC_API mlxc_error* mlxc_random_open(mlxc_array* key, const int64_t* shape, int32_t n_shape,
                                      mlxc_dtype dtype, mlxc_stream* stream, mlxc_array** out);
/* Numbers of the standard normal distribution, of any of the four dtypes. */
MLXC_API mlxc_error* mlxc_random_normal(mlxc_array* key, const int64_t* shape, int32_t n_shape,
                                        mlxc_dtype dtype, mlxc_stream* stream, mlxc_array** out);

#ifdef __cplusplus
}
#endif

#endif
