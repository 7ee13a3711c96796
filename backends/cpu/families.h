/* The kernel families, one kernels/FAMILY.cc each. backend.cc joins their rows, in this order.
 *
 * Families in the first list are compiled once an instruction set (sources in isa_sources of meson.build),
 * those in the second once (once_sources). A family moves between the lists and meson.build together.
 */
#ifndef MLXC_CPU_FAMILIES_H
#define MLXC_CPU_FAMILIES_H

#define MLXC_CPU_ISA_FAMILIES(X) \
  X(copy)                        \
  X(create)                      \
  X(unary)                       \
  X(binary)                      \
  X(compare)                     \
  X(select)                      \
  X(reduce)                      \
  X(argreduce)                   \
  X(softmax)                     \
  X(norm)                        \
  X(rope)                        \
  X(attention)                   \
  X(attention_grad)              \
  X(cross_entropy)               \
  X(gated_delta)                 \
  X(fft)                         \
  X(scan)                        \
  X(matmul)                      \
  X(conv)                        \
  X(random)                      \
  X(sort)                        \
  X(quantize)                    \
  X(quantized_matmul)            \
  X(grouped_matmul)              \
  X(hadamard)

#define MLXC_CPU_ONCE_FAMILIES(X) \
  X(index)                        \
  X(slice)                        \
  X(join)                         \
  X(linalg_det)                   \
  X(linalg_eigen)                 \
  X(linalg_factor)                \
  X(linalg_solve)                 \
  X(linalg_svd)

#endif
