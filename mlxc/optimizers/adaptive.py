"""Optimizers that divide the gradient by a mean or a sum of its squares: RMSprop, Adagrad and AdaDelta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlxc as mx

from .base import Optimizer
from .moments import check_decay, check_eps, divisor, mix

__all__ = ["AdaDelta", "Adagrad", "RMSprop"]


class RMSprop(Optimizer):
    """RMSprop: the gradient over the root of a running mean of its squares.

        v = alpha * v + (1 - alpha) * g ** 2
        w = w - learning_rate * g / (sqrt(v) + eps)

    The state of a parameter is `v`.

    Args:
        learning_rate: a number, or a function of the step counter.
        alpha: how much of the running mean stays.
        eps: keeps the quotient finite.

    Raises:
        ValueError: if `alpha` is below 0, or `eps` not above 0.

    Source:
        Tieleman and Hinton, lecture 6.5 of Neural Networks for Machine Learning, 2012.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optimizer = optim.RMSprop(learning_rate=0.05)
        >>> optimizer.apply_gradients({"w": mx.array([3.0, -4.0])}, {"w": mx.array([1.0, 1.0])})
        {'w': array([0.5, 1.5], dtype=float32)}
    """

    def __init__(
        self, learning_rate: float | Callable[[mx.array], mx.array], alpha: float = 0.99, eps: float = 1e-8
    ) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.alpha = check_decay("RMSprop", "alpha", alpha)
        self.eps = check_eps("RMSprop", eps)

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]) -> mx.array:
        rate = self.learning_rate.astype(gradient.dtype)
        square = state["v"] = mix(self.alpha, state["v"], mx.square(gradient))
        return parameter - rate * gradient / (mx.sqrt(square) + divisor(self.eps, square.dtype))


class Adagrad(Optimizer):
    """Adagrad: the gradient over the root of the sum of all its squares.

        v = v + g ** 2
        w = w - learning_rate * g / (sqrt(v) + eps)

    The state of a parameter is `v`.

    Args:
        learning_rate: a number, or a function of the step counter.
        eps: keeps the quotient finite.

    Raises:
        ValueError: if `eps` is not above 0.

    Source:
        Duchi, Hazan and Singer, Adaptive Subgradient Methods for Online Learning and Stochastic Optimization, 2011.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optimizer = optim.Adagrad(learning_rate=0.5)
        >>> optimizer.apply_gradients({"w": mx.array([3.0, -0.25])}, {"w": mx.array([1.0, 1.0])})
        {'w': array([0.5, 1.5], dtype=float32)}
    """

    def __init__(self, learning_rate: float | Callable[[mx.array], mx.array], eps: float = 1e-8) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.eps = check_eps("Adagrad", eps)

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]) -> mx.array:
        rate = self.learning_rate.astype(gradient.dtype)
        square = state["v"] = state["v"] + mx.square(gradient)
        return parameter - rate * gradient / (mx.sqrt(square) + divisor(self.eps, square.dtype))


class AdaDelta(Optimizer):
    """AdaDelta: the gradient times the root mean square of earlier steps over that of the gradients.

        v = rho * v + (1 - rho) * g ** 2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d ** 2
        w = w - learning_rate * d

    The state of a parameter is `v` and `u`.

    Args:
        learning_rate: a number, or a function of the step counter.
        rho: how much of the running means stays.
        eps: keeps the quotient finite, and makes the first steps.

    Raises:
        ValueError: if `rho` is below 0, or `eps` not above 0.

    Source:
        Zeiler, ADADELTA: An Adaptive Learning Rate Method, 2012.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optimizer = optim.AdaDelta(learning_rate=1.0)
        >>> optimizer.apply_gradients({"w": mx.array(3.0)}, {"w": mx.array(1.0)})
        {'w': array(0.996838, dtype=float32)}
    """

    def __init__(
        self, learning_rate: float | Callable[[mx.array], mx.array], rho: float = 0.9, eps: float = 1e-6
    ) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.rho = check_decay("AdaDelta", "rho", rho)
        self.eps = check_eps("AdaDelta", eps)

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["v"] = mx.zeros_like(parameter)
        state["u"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]) -> mx.array:
        rate = self.learning_rate.astype(gradient.dtype)
        square = state["v"] = mix(self.rho, state["v"], mx.square(gradient))
        eps = divisor(self.eps, square.dtype)
        step = mx.sqrt(state["u"] + eps) / mx.sqrt(square + eps) * gradient
        state["u"] = mix(self.rho, state["u"], mx.square(step))
        return parameter - rate * step
