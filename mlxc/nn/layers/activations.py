"""Activations: functions that layers apply to each element, or along one axis. Those made of lines are in piecewise.py.

Called by activation_layers.py, by recurrent.py, transformer.py and models. Half precision is computed in float32 and
rounded once. Values and gradients are finite wherever the function and a subgradient are. Longer chains are compiled
once for all shapes: a call records one node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import mlxc as mx
from mlxc.nn.layers._fusing import fused, in_float32
from mlxc.nn.layers.piecewise import (
    hard_shrink,
    hard_tanh,
    hardswish,
    leaky_relu,
    prelu,
    relu,
    relu2,
    relu6,
    softshrink,
    step,
)

__all__ = [
    "celu", "elu", "gelu", "gelu_approx", "gelu_fast_approx", "glu", "hard_shrink", "hard_tanh", "hardswish",
    "leaky_relu", "log_sigmoid", "log_softmax", "mish", "prelu", "relu", "relu2", "relu6", "selu", "sigmoid", "silu",
    "softmax", "softmin", "softplus", "softshrink", "softsign", "step", "tanh",
]  # fmt: skip

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


# ---- exponential below 0 ---------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _exponential_below(alpha: float, width: float, scale: float) -> Callable[[mx.array], mx.array]:
    @fused
    def apply(x: mx.array) -> mx.array:
        positive = x > 0
        # What is not taken must not overflow: its gradient would be infinity times zero.
        low = mx.where(positive, 0.0, x)
        return mx.where(positive, scale * x, (scale * alpha) * mx.expm1(low * (1.0 / width)))

    return apply


def elu(x: mx.array, alpha: float = 1.0) -> mx.array:
    """Exponential linear unit: `x` where it is positive, else `alpha * (exp(x) - 1)`.

    Args:
        x: array of any shape; integers give float32.
        alpha: minus the limit far below 0.

    Returns:
        Array of the shape of `x`.

    Source:
        Clevert et al. 2015, arXiv 1511.07289.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.elu(mx.array([-1.0, 2.0]))
        array([-0.632121, 2], dtype=float32)
    """
    return _exponential_below(float(alpha), 1.0, 1.0)(x)


def celu(x: mx.array, alpha: float = 1.0) -> mx.array:
    """Elu with a continuous derivative: `x` where it is positive, else `alpha * (exp(x / alpha) - 1)`.

    Args:
        x: array of any shape; integers give float32.
        alpha: minus the limit far below 0.

    Returns:
        Array of the shape of `x`.

    Raises:
        ValueError: if `alpha` is 0.

    Source:
        Barron 2017, arXiv 1704.07483.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.celu(mx.array([-1.0, 2.0]), 0.5)
        array([-0.432332, 2], dtype=float32)
    """
    if alpha == 0:
        raise ValueError("[celu] alpha must not be 0")
    return _exponential_below(float(alpha), float(alpha), 1.0)(x)


def selu(x: mx.array) -> mx.array:
    """Elu scaled so that activations keep mean 0 and variance 1: 1.0507 elu(x, 1.67326).

    The two constants are those of the source in full.

    Args:
        x: array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`.

    Source:
        Klambauer et al. 2017, arXiv 1706.02515.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.selu(mx.array([-1.0, 1.0]))
        array([-1.11133, 1.0507], dtype=float32)
    """
    return _exponential_below(_SELU_ALPHA, 1.0, _SELU_SCALE)(x)


# ---- smooth ----------------------------------------------------------------------------------------


def sigmoid(x: mx.array) -> mx.array:
    """Logistic function, `1 / (1 + exp(-x))`.

    Args:
        x: real array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.sigmoid(mx.array([0.0, 1.0]))
        array([0.5, 0.731059], dtype=float32)
    """
    return mx.sigmoid(x)


def tanh(x: mx.array) -> mx.array:
    """Hyperbolic tangent.

    Args:
        x: array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.tanh(mx.array([0.0, 1.0]))
        array([0, 0.761594], dtype=float32)
    """
    return mx.tanh(x)


def softsign(x: mx.array) -> mx.array:
    """`x / (1 + |x|)`.

    Args:
        x: array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.softsign(mx.array([-1.0, 3.0]))
        array([-0.5, 0.75], dtype=float32)
    """
    return _softsign(x)


@fused
def _softsign(x: mx.array) -> mx.array:
    return x / (1 + mx.abs(x))


def softplus(x: mx.array) -> mx.array:
    """`log(1 + exp(x))`, a smooth relu, without overflow.

    Args:
        x: real array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.softplus(mx.array([-1.0, 0.0, 100.0]))
        array([0.313262, 0.693147, 100], dtype=float32)
    """
    return _softplus(x)


@fused
def _softplus(x: mx.array) -> mx.array:
    # Not |x|: its derivative of 0 at 0 would lose half of the gradient there.
    negative = x < 0
    return mx.where(negative, 0.0, x) + mx.log1p(mx.exp(mx.where(negative, x, -x)))


def log_sigmoid(x: mx.array) -> mx.array:
    """Logarithm of the logistic function, `-log(1 + exp(-x))`, without overflow.

    Args:
        x: real array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.log_sigmoid(mx.array([-100.0, 0.0]))
        array([-100, -0.693147], dtype=float32)
    """
    return -_softplus(-x)


def silu(x: mx.array) -> mx.array:
    """`x * sigmoid(x)`, also called swish.

    Args:
        x: real array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`.

    Source:
        Elfwing et al. 2017, arXiv 1702.03118.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.silu(mx.array([-1.0, 2.0]))
        array([-0.268941, 1.76159], dtype=float32)
    """
    return _silu(x)


@fused
def _silu(x: mx.array) -> mx.array:
    return x * mx.sigmoid(x)


def mish(x: mx.array) -> mx.array:
    """`x * tanh(softplus(x))`.

    Args:
        x: real array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`.

    Source:
        Misra 2019, arXiv 1908.08681.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.mish(mx.array([-1.0, 2.0]))
        array([-0.303401, 1.94396], dtype=float32)
    """
    return _mish(x)


@fused
def _mish(x: mx.array) -> mx.array:
    # With u = exp(-|x|), tanh(softplus(x)) is u(u + 2) / (u(u + 2) + 2) below 0, 1 - 2u² / (1 + 2u + 2u²) above:
    # one exponential, and no difference of large numbers in the gradient.
    negative = x < 0
    u = mx.exp(mx.where(negative, x, -x))
    low, high = u * (u + 2), 2 * u * u
    return x * mx.where(negative, low / (low + 2), 1 - high / (1 + 2 * u + high))


def gelu(x: mx.array) -> mx.array:
    """Gaussian error linear unit: `x` times the normal distribution's cumulative function.

    Args:
        x: real array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`.

    Source:
        Hendrycks and Gimpel 2016, arXiv 1606.08415.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.gelu(mx.array([-1.0, 2.0]))
        array([-0.158655, 1.9545], dtype=float32)
    """
    return _gelu(x)


@fused
def _gelu(x: mx.array) -> mx.array:
    return x * (1 + mx.erf(x * math.sqrt(0.5))) * 0.5


def gelu_approx(x: mx.array) -> mx.array:
    """Gelu by a hyperbolic tangent, to 0.0005: `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))`.

    Args:
        x: real array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`.

    Source:
        Hendrycks and Gimpel 2016, arXiv 1606.08415.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.gelu_approx(mx.array([-1.0, 2.0]))
        array([-0.158808, 1.9546], dtype=float32)
    """
    return _gelu_approx(x)


@fused
def _gelu_approx(x: mx.array) -> mx.array:
    # (1 + tanh(t)) / 2 is sigmoid(2 t), which is 0 or 1 in every dtype long before |x| is 30.
    near = mx.clip(x, -30, 30)
    scale = math.sqrt(8 / math.pi)
    return x * mx.sigmoid(near * (scale + (0.044715 * scale) * mx.square(near)))


def gelu_fast_approx(x: mx.array) -> mx.array:
    """Gelu by a logistic function, to 0.015: `x * sigmoid(1.702 * x)`.

    Args:
        x: real array of any shape; integers give float32.

    Returns:
        Array of the shape of `x`.

    Source:
        Hendrycks and Gimpel 2016, arXiv 1606.08415.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.gelu_fast_approx(mx.array([-1.0, 2.0]))
        array([-0.154204, 1.93566], dtype=float32)
    """
    return _gelu_fast_approx(x)


@fused
def _gelu_fast_approx(x: mx.array) -> mx.array:
    return x * mx.sigmoid(1.702 * x)


# ---- along an axis ---------------------------------------------------------------------------------


def glu(x: mx.array, axis: int = -1) -> mx.array:
    """Gated linear unit: the first half of an axis times the sigmoid of the second.

    Args:
        x: real array; integers give float32.
        axis: the axis to halve.

    Returns:
        Array with half the size along the axis.

    Raises:
        ValueError: if the size along the axis is odd, or there is no such axis.

    Source:
        Dauphin et al. 2016, arXiv 1612.08083.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.glu(mx.array([1.0, 2.0, 0.0, 100.0]))
        array([0.5, 2], dtype=float32)
    """
    if -x.ndim <= axis < x.ndim and x.shape[axis] % 2:
        raise ValueError(f"[glu] axis {axis} of shape {x.shape} has no two halves")
    return _glu(x, axis)


@in_float32
def _glu(x: mx.array, axis: int) -> mx.array:
    first, second = mx.split(x, 2, axis=axis)
    return first * mx.sigmoid(second)


def softmax(x: mx.array, axis: int = -1) -> mx.array:
    """`exp(x)` over its sum along an axis, without overflow.

    Args:
        x: real array; integers give float32.
        axis: the axis, or several.

    Returns:
        Array of the shape of `x`, whose values along the axis have the sum 1.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.softmax(mx.array([1000.0, 1000.0]))
        array([0.5, 0.5], dtype=float32)
    """
    return mx.softmax(x, axis=axis)


def softmin(x: mx.array, axis: int = -1) -> mx.array:
    """Softmax of minus `x`.

    Args:
        x: real array; integers give float32.
        axis: the axis, or several.

    Returns:
        Array of the shape of `x`, whose values along the axis have the sum 1.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.softmin(mx.array([1.0, 2.0]))
        array([0.731059, 0.268941], dtype=float32)
    """
    return mx.softmax(-x, axis=axis)


def log_softmax(x: mx.array, axis: int = -1) -> mx.array:
    """Logarithm of softmax: `x - logsumexp(x)` along an axis.

    Args:
        x: real array; integers give float32.
        axis: the axis, or several.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.log_softmax(mx.array([1000.0, 1000.0]))
        array([-0.693147, -0.693147], dtype=float32)
    """
    return _log_softmax(x, axis)


@in_float32
def _log_softmax(x: mx.array, axis: int) -> mx.array:
    # Less the largest first: the sum of two large numbers would lose the digits of the small difference.
    x = x - mx.stop_gradient(mx.max(x, axis=axis, keepdims=True))
    return x - mx.logsumexp(x, axis=axis, keepdims=True)
