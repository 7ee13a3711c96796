"""clip_grad_norm: keeps a tree of gradients from being too long a vector."""

from __future__ import annotations

from typing import Any

import mlxc as mx
from mlxc.utils import tree_map, tree_reduce

__all__ = ["clip_grad_norm"]


def clip_grad_norm(grads: Any, max_norm: float) -> tuple[Any, mx.array]:
    """Scales gradients down, all by the same number, to a largest norm of all of them together.

    Args:
        grads: tree of arrays.
        max_norm: the largest norm, at least 0.

    Returns:
        The tree, with the dtypes it had, and the norm from before: a float32 array (float64 for float64 gradients).

    Raises:
        ValueError: if `max_norm` is below 0.

    Example:
        >>> import mlxc as mx
        >>> from mlxc.optimizers import clip_grad_norm
        >>> grads, norm = clip_grad_norm({"a": mx.array([3.0, 0.0]), "b": mx.array(4.0)}, max_norm=1.0)
        >>> norm
        array(5, dtype=float32)
        >>> grads["b"]
        array(0.8, dtype=float32)
    """
    if not max_norm >= 0:
        raise ValueError(f"[clip_grad_norm] max_norm is at least 0, got {max_norm}")

    def add_squares(total: mx.array, gradient: mx.array) -> mx.array:
        # Squares and their sum leave the range of half precision early.
        wide = mx.float64 if gradient.dtype == mx.float64 else mx.float32
        return total + mx.sum(mx.square(gradient.astype(wide)))

    norm = mx.sqrt(tree_reduce(add_squares, grads, mx.array(0.0)))
    scale = mx.minimum(max_norm / (norm + 1e-6), 1.0)
    return tree_map(lambda gradient: (gradient * scale).astype(_float_of(gradient)), grads), norm


def _float_of(gradient: mx.array) -> mx.Dtype:
    return gradient.dtype if mx.issubdtype(gradient.dtype, mx.floating) else mx.float32
