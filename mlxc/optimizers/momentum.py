"""Optimizers that follow the gradient or a running mean of it: SGD and Lion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlxc as mx

from .base import Optimizer
from .moments import check_betas, mix

__all__ = ["SGD", "Lion"]


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum or without:

        v = momentum * v + (1 - dampening) * g
        w = w - learning_rate * v

    The state of a parameter is `v`, with momentum or without.

    Args:
        learning_rate: a number, or a function of the step counter.
        momentum: how much of the earlier direction stays.
        weight_decay: adds `weight_decay * w` to the gradient, an L2 penalty.
        dampening: takes this part of the gradient away, with momentum.
        nesterov: steps by `g + momentum * v`.

    Raises:
        ValueError: for `nesterov` without momentum or with dampening.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optimizer = optim.SGD(learning_rate=1.0, momentum=0.5)
        >>> w = {"w": mx.array(10.0)}
        >>> for _ in range(3):
        ...     w = optimizer.apply_gradients({"w": mx.array(1.0)}, w)
        >>> w
        {'w': array(5.75, dtype=float32)}
    """

    def __init__(
        self,
        learning_rate: float | Callable[[mx.array], mx.array],
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                f"[SGD] nesterov needs a momentum above 0 and no dampening, got momentum {momentum} and dampening "
                f"{dampening}"
            )
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.dampening = dampening
        self.nesterov = nesterov

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]) -> mx.array:
        if self.weight_decay != 0:
            gradient = gradient + self.weight_decay * parameter
        rate = self.learning_rate.astype(gradient.dtype)
        if self.momentum <= 0:
            return parameter - rate * gradient
        velocity = self.momentum * state["v"]
        velocity = velocity + ((1 - self.dampening) * gradient if self.dampening > 0 else gradient)
        state["v"] = velocity
        return parameter - rate * (gradient + self.momentum * velocity if self.nesterov else velocity)


class Lion(Optimizer):
    """Lion: steps of one size, in the direction of the sign of a running mean.

        c = betas[0] * m + (1 - betas[0]) * g
        m = betas[1] * m + (1 - betas[1]) * g
        w = w - learning_rate * (sign(c) + weight_decay * w)

    Its steps are larger than Adam's: take a rate 3 to 10 times smaller, and a decay as many times larger. The state of
    a parameter is `m`.

    Args:
        learning_rate: a number, or a function of the step counter.
        betas: how much of the running mean stays in the step, and in the mean.
        weight_decay: takes this part of the parameter away at each step, times the rate.

    Raises:
        ValueError: if `betas` are not two numbers of at least 0 and less than 1.

    Source:
        Chen et al., Symbolic Discovery of Optimization Algorithms, 2023.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optimizer = optim.Lion(learning_rate=0.5)
        >>> optimizer.apply_gradients({"w": mx.array([3.0, -0.1])}, {"w": mx.array([1.0, 1.0])})
        {'w': array([0.5, 1.5], dtype=float32)}
    """

    def __init__(
        self,
        learning_rate: float | Callable[[mx.array], mx.array],
        betas: Sequence[float] = [0.9, 0.99],
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = check_betas("Lion", betas)
        self.weight_decay = weight_decay

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["m"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]) -> mx.array:
        rate = self.learning_rate.astype(gradient.dtype)
        direction = mx.sign(mix(self.betas[0], state["m"], gradient))
        state["m"] = mix(self.betas[1], state["m"], gradient)
        if self.weight_decay > 0:
            parameter = (1 - rate * self.weight_decay) * parameter
        return parameter - rate * direction
