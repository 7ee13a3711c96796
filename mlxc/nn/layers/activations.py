"""Activations: functions that layers apply to each element, or along one axis.

Called by the layers of activation_layers.py, by transformer.py, recurrent.py and users. Half precision is computed in
float32 and rounded once. Values and gradients are finite wherever the function and a subgradient are; at a kink the
gradient is the one from below, as PyTorch and MLX have it. Longer chains are compiled once for all shapes: a call
records one node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import mlxc as mx

__all__ = [
    "celu", "elu", "gelu", "gelu_approx", "gelu_fast_approx", "glu", "hard_shrink", "hard_tanh", "hardswish",
    "leaky_relu", "log_sigmoid", "log_softmax", "mish", "prelu", "relu", "relu2", "relu6", "selu", "sigmoid", "silu",
    "softmax", "softmin", "softplus", "softshrink", "softsign", "step", "tanh",
]  # fmt: skip

_HALF = (mx.float16, mx.bfloat16)
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def _in_float32(fn: Callable[..., mx.array]) -> Callable[..., mx.array]:
    """The function with half-precision arrays computed in float32, the result rounded to the array's dtype."""

    @wraps(fn)
    def wide(x: mx.array, *args: Any) -> mx.array:
        # A plain number has no dtype.
        dtype = getattr(x, "dtype", None)
        return fn(x.astype(mx.float32), *args).astype(dtype) if dtype in _HALF else fn(x, *args)

    return wide


def _fused(fn: Callable[[mx.array], mx.array]) -> Callable[[mx.array], mx.array]:
    """The same in one recorded node, whatever the shape."""
    return mx.compile(_in_float32(fn), shapeless=True)


# ---- cut and bent lines ---------------------------------------------------------------------------


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


@_fused
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


# ---- exponential below 0 ---------------------------------------------------------------------------


@_in_float32
def _exponential_below(x: mx.array, alpha: float, width: float, scale: float) -> mx.array:
    positive = x > 0
    # What is not taken must not overflow: its gradient would be infinity times zero.
    low = mx.where(positive, 0.0, x)
    return mx.where(positive, scale * x, (scale * alpha) * mx.expm1(low * (1.0 / width)))


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
    return _exponential_below(x, alpha, 1.0, 1.0)


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
    return _exponential_below(x, alpha, alpha, 1.0)


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
    return _exponential_below(x, _SELU_ALPHA, 1.0, _SELU_SCALE)


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


@_fused
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


@_fused
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


@_fused
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


@_fused
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


@_fused
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


@_fused
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


@_fused
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


@_in_float32
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


@_in_float32
def _log_softmax(x: mx.array, axis: int) -> mx.array:
    # Less the largest first: the sum of two large numbers would lose the digits of the small difference.
    x = x - mx.stop_gradient(mx.max(x, axis=axis, keepdims=True))
    return x - mx.logsumexp(x, axis=axis, keepdims=True)
