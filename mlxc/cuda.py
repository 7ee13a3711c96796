"""What is particular to NVIDIA's CUDA: mlxc.cuda, as mlx.core.cuda. Called by programs that choose a device."""

from __future__ import annotations

from mlxc import _registry

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether a CUDA backend is loaded and has a device.

    Example:
        >>> import mlxc as mx
        >>> device = mx.gpu if mx.cuda.is_available() else mx.cpu
    """
    return _registry.has_backend("cuda")
