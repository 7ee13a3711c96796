"""Adam and its variants: a running mean of gradients over a running size of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlxc as mx

from .base import Optimizer
from .moments import check_betas, check_eps, divisor, mix, weight_so_far

__all__ = ["Adam", "AdamW", "Adamax"]


class Adam(Optimizer):
    """Adam:

        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g ** 2
        w = w - learning_rate * m / (sqrt(v) + eps)

    With `bias_correction`, `m` and `v` are divided by `1 - betas[i] ** step` there, as in the paper and in PyTorch.
    The state of a parameter is `m` and `v`.

    Args:
        learning_rate: a number, or a function of the step counter.
        betas: how much of the two running means stays.
        eps: keeps the quotient finite.
        bias_correction: whether to make up for means that began at zero.

    Raises:
        ValueError: if `betas` are not two numbers of at least 0 and less than 1, or `eps` is below 0.

    Source:
        Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optimizer = optim.Adam(learning_rate=0.5, bias_correction=True)
        >>> optimizer.apply_gradients({"w": mx.array([3.0, -4.0])}, {"w": mx.array([1.0, 1.0])})
        {'w': array([0.5, 1.5], dtype=float32)}
    """

    def __init__(
        self,
        learning_rate: float | Callable[[mx.array], mx.array],
        betas: Sequence[float] = [0.9, 0.999],
        eps: float = 1e-8,
        bias_correction: bool = False,
    ) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = check_betas(type(self).__name__, betas)
        self.eps = check_eps(type(self).__name__, eps, zero=True)
        self.bias_correction = bias_correction

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["m"] = mx.zeros_like(parameter)
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]) -> mx.array:
        rate = self.learning_rate.astype(gradient.dtype)
        mean = state["m"] = mix(self.betas[0], state["m"], gradient)
        square = state["v"] = mix(self.betas[1], state["v"], mx.square(gradient))
        eps = divisor(self.eps, square.dtype)
        if not self.bias_correction:
            return parameter - rate * mean / (mx.sqrt(square) + eps)
        mean_scale = (rate / weight_so_far(self.betas[0], self.step)).astype(gradient.dtype)
        square_scale = mx.rsqrt(weight_so_far(self.betas[1], self.step)).astype(gradient.dtype)
        return parameter - mean_scale * mean / (mx.sqrt(square) * square_scale + eps)


class AdamW(Adam):
    """Adam with weight decay of its own, which the running means do not see:

        w = w - learning_rate * (m / (sqrt(v) + eps) + weight_decay * w)

    The state of a parameter is `m` and `v`, as Adam's.

    Args:
        learning_rate: a number, or a function of the step counter.
        betas: how much of the two running means stays.
        eps: keeps the quotient finite.
        weight_decay: takes this part of the parameter away at each step, times the rate.
        bias_correction: whether to make up for means that began at zero.

    Raises:
        ValueError: if `betas` are not two numbers of at least 0 and less than 1, or `eps` is below 0.

    Source:
        Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optimizer = optim.AdamW(learning_rate=0.5, weight_decay=0.1, bias_correction=True)
        >>> optimizer.apply_gradients({"w": mx.array([3.0, -4.0])}, {"w": mx.array([1.0, 1.0])})
        {'w': array([0.45, 1.45], dtype=float32)}
    """

    def __init__(
        self,
        learning_rate: float | Callable[[mx.array], mx.array],
        betas: Sequence[float] = [0.9, 0.999],
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
    ) -> None:
        super().__init__(learning_rate, betas, eps, bias_correction)
        self.weight_decay = weight_decay

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]) -> mx.array:
        rate = self.learning_rate.astype(gradient.dtype)
        return super().apply_single(gradient, parameter * (1 - rate * self.weight_decay), state)


class Adamax(Adam):
    """Adam with a slowly falling maximum in place of the mean of squares, without bias correction:

        m = betas[0] * m + (1 - betas[0]) * g
        v = max(betas[1] * v, abs(g))
        w = w - learning_rate * m / (v + eps)

    The state of a parameter is `m` and `v`.

    Args:
        learning_rate: a number, or a function of the step counter.
        betas: how much of the running mean and of the maximum stays.
        eps: keeps the quotient finite.

    Raises:
        ValueError: if `betas` are not two numbers of at least 0 and less than 1, or `eps` is below 0.

    Source:
        Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, section 7.1.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optimizer = optim.Adamax(learning_rate=1.0)
        >>> optimizer.apply_gradients({"w": mx.array([3.0, -4.0])}, {"w": mx.array([1.0, 1.0])})
        {'w': array([0.9, 1.1], dtype=float32)}
    """

    def __init__(
        self,
        learning_rate: float | Callable[[mx.array], mx.array],
        betas: Sequence[float] = [0.9, 0.999],
        eps: float = 1e-8,
    ) -> None:
        super().__init__(learning_rate, betas, eps)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]) -> mx.array:
        rate = self.learning_rate.astype(gradient.dtype)
        mean = state["m"] = mix(self.betas[0], state["m"], gradient)
        largest = state["v"] = mx.maximum(self.betas[1] * state["v"], mx.abs(gradient))
        return parameter - rate * mean / (largest + divisor(self.eps, largest.dtype))
