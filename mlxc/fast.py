"""Fused ops of neural networks and ops of one's own: mlxc.fast, as mlx.core.fast. They are in compiled modules."""

from ._fast import (
    cross_entropy,
    gated_delta_update,
    layer_norm,
    rms_norm,
    rope,
    scaled_dot_product_attention,
)
from ._user_kernel import cuda_kernel, kernel, metal_kernel

__all__ = [
    "cross_entropy",
    "cuda_kernel",
    "gated_delta_update",
    "kernel",
    "layer_norm",
    "metal_kernel",
    "rms_norm",
    "rope",
    "scaled_dot_product_attention",
]
