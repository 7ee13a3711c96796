"""Activations made of pieces of lines and parabolas, which cut off or bend what is small, negative or large.

Called by activation_layers.py, by models and by losses.py. At a kink the gradient is the one from below, as PyTorch and
MLX have it. NaN stays NaN.
"""

from __future__ import annotations

import mlxc as mx
from mlxc.nn.layers._fusing import fused

__all__ = [
    "hard_shrink", "hard_tanh", "hardswish", "leaky_relu", "prelu", "relu", "relu2", "relu6", "softshrink", "step",
]  # fmt: skip


def relu(x: mx.array) -> mx.array:
    """Rectified linear unit: `x` where it is positive, else 0.

    Args:
        x: array of any shape and dtype.

    Returns:
        Array of the shape and dtype of `x`. The gradient at 0 is 0.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.relu(mx.array([-1.0, 0.0, 2.0]))
        array([0, 0, 2], dtype=float32)
    """
    # A maximum would share the gradient at 0 between x and 0, and a dead unit would learn.
    return mx.where(x <= 0, 0, x)


def relu2(x: mx.array) -> mx.array:
    """The square of relu.

    Args:
        x: array of any shape and dtype.

    Returns:
        Array of the shape and dtype of `x`.

    Source:
        So et al. 2021, Primer, arXiv 2109.08668.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.relu2(mx.array([-1.0, 3.0]))
        array([0, 9], dtype=float32)
    """
    return mx.square(relu(x))


def relu6(x: mx.array) -> mx.array:
    """Relu that stops at 6.

    Args:
        x: array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`. The gradient is 0 at 0 and at 6.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.relu6(mx.array([-1.0, 3.0, 7.0]))
        array([0, 3, 6], dtype=float32)
    """
    return hard_tanh(x, 0.0, 6.0)


def leaky_relu(x: mx.array, negative_slope: float = 0.01) -> mx.array:
    """`x` where it is not negative, else `negative_slope * x`.

    Args:
        x: array of any shape; integers give float32.
        negative_slope: slope below 0.

    Returns:
        Array of the shape of `x`. The gradient at 0 is 1.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.leaky_relu(mx.array([-2.0, 3.0]), 0.5)
        array([-1, 3], dtype=float32)
    """
    return mx.where(x < 0, negative_slope * x, x)


def prelu(x: mx.array, alpha: mx.array) -> mx.array:
    """Leaky relu whose slope below 0 is an array, mostly a parameter.

    Args:
        x: array of any shape.
        alpha: the slopes, of a shape that broadcasts with that of `x`.

    Returns:
        Array of the shape that the two broadcast to.

    Source:
        He et al. 2015, arXiv 1502.01852.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.prelu(mx.array([-2.0, 3.0]), mx.array(0.25))
        array([-0.5, 3], dtype=float32)
    """
    return mx.where(x > 0, x, alpha * x)


def hard_tanh(x: mx.array, min_val: float = -1.0, max_val: float = 1.0) -> mx.array:
    """`x`, but no less than `min_val` and no more than `max_val`.

    Args:
        x: array of any shape; integers give float32 with bounds that are floats.
        min_val: lower bound.
        max_val: upper bound.

    Returns:
        Array of the shape of `x`. The gradient is 0 at the bounds.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.hard_tanh(mx.array([-3.0, 0.5, 3.0]))
        array([-1, 0.5, 1], dtype=float32)
    """
    return mx.where(x >= max_val, max_val, mx.where(x <= min_val, min_val, x))


def hardswish(x: mx.array) -> mx.array:
    """`x * relu6(x + 3) / 6`, a piecewise polynomial near silu.

    Args:
        x: array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`.

    Source:
        Howard et al. 2019, MobileNetV3, arXiv 1905.02244.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.hardswish(mx.array([0.0, 1.0, 4.0]))
        array([0, 0.666667, 4], dtype=float32)
    """
    return _hardswish(x)


@fused
def _hardswish(x: mx.array) -> mx.array:
    return x * (hard_tanh(x + 3, 0.0, 6.0) * (1 / 6))


def hard_shrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """`x`, but 0 where its magnitude is at most `lambd`.

    Args:
        x: array of any shape and dtype.
        lambd: the half width of what becomes 0.

    Returns:
        Array of the shape and dtype of `x`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.hard_shrink(mx.array([-2.0, 0.3, 0.7]))
        array([-2, 0, 0.7], dtype=float32)
    """
    return mx.where(mx.abs(x) <= lambd, 0, x)


def softshrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """`x` moved towards 0 by `lambd`, 0 where it would pass it.

    Args:
        x: array of any shape; integers give float32.
        lambd: how far.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.softshrink(mx.array([-2.0, 0.3, 0.75]))
        array([-1.5, 0, 0.25], dtype=float32)
    """
    return mx.where(mx.abs(x) <= lambd, 0.0, x - mx.sign(x) * lambd)


def step(x: mx.array, threshold: float = 0.0) -> mx.array:
    """1 from the threshold on, else 0.

    Args:
        x: array of any shape and dtype.
        threshold: where the step is.

    Returns:
        int32 array of the shape of `x`; it has no gradient.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.step(mx.array([-1.0, 0.0, 2.0]))
        array([0, 1, 1], dtype=int32)
    """
    return mx.where(x >= threshold, 1, 0)
