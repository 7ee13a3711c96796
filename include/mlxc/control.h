/* Control flow that a trace can hold: cond, while_loop, scan over closures.
 *
 * Each function calls its closures once, on the calling thread, with stand-ins that have no value, and
 * records one node, which computes when it is evaluated: transforms and programs see one operation. The
 * closures may use arrays that they did not get as inputs; transforms follow those too. They are not called
 * again.
 */
#ifndef MLXC_CONTROL_H
#define MLXC_CONTROL_H

#include "mlxc/transform.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends what when_true or when_false gives for the operands, as the scalar `pred` says. Both must give
 * arrays of the same number, shapes (MLXC_ERROR_VALUE) and dtypes (MLXC_ERROR_TYPE). */
MLXC_API mlxc_error* mlxc_cond(mlxc_array* pred, const mlxc_closure* when_true,
                               const mlxc_closure* when_false, mlxc_array* const* operands, size_t n_operands,
                               mlxc_arrays* outputs);

/* Replaces the carry by what the body gives for it, as long as the condition gives a true scalar, and appends
 * the last carry. Its arrays keep their shapes and dtypes. It has no gradient in reverse mode. */
MLXC_API mlxc_error* mlxc_while_loop(const mlxc_closure* condition, const mlxc_closure* body,
                                     mlxc_array* const* init, size_t n_init, mlxc_arrays* outputs);

/* For each of `length` steps calls the body with the carry and one element of the first axis of each of the
 * xs (the last one first if `reverse`). The body appends the next carry, then any number of results. Appends
 * the last carry, then the results of all steps, stacked along a new first axis in the order of the xs. */
MLXC_API mlxc_error* mlxc_scan(const mlxc_closure* body, mlxc_array* const* init, size_t n_init,
                               mlxc_array* const* xs, size_t n_xs, int64_t length, int32_t reverse,
                               mlxc_arrays* outputs);

#ifdef __cplusplus
}
#endif
#endif
