"""Fused ops of neural networks: mlxc.fast, as mlx.core.fast. They are in the compiled module _fast."""

from ._fast import (
    cross_entropy,
    gated_delta_update,
    layer_norm,
    rms_norm,
    rope,
    scaled_dot_product_attention,
)

__all__ = ["cross_entropy", "gated_delta_update", "layer_norm", "rms_norm", "rope", "scaled_dot_product_attention"]
