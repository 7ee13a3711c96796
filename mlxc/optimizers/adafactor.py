"""Adafactor: mean squares of gradients kept as a row and a column a matrix, and rates relative to the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlxc as mx

from .base import Optimizer
from .moments import SMALLEST_FLOAT16, mix

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Adafactor: like Adam with little memory, as a matrix of squares is kept as the product of a column and a row.

    The state of a parameter is `exp_avg_sq_row` and `exp_avg_sq_col`, the means over its last axis and the one before,
    or `exp_avg_sq` if it has less than two axes; with `beta_1` also `exp_avg`, the mean of steps.

    Args:
        learning_rate: a number or a function of the step counter, for `relative_step=False`; without use otherwise.
        eps: two numbers, added to squared gradients and the least size a parameter counts with.
        clip_threshold: steps of a greater root mean square are scaled down to it, before the rate.
        decay_rate: the running mean of squares keeps `1 - step ** decay_rate`.
        beta_1: how much of a running mean of steps stays; None keeps no such mean.
        weight_decay: takes this part of the parameter away at each step, times the rate.
        scale_parameter: whether to multiply the rate by the root mean square of the parameter.
        relative_step: whether to take as rate the smaller of `1e-2` and `1 / sqrt(step)`.
        warmup_init: whether the `1e-2` there is `1e-6 * step`.

    Raises:
        ValueError: if `eps` are not two numbers, or at the first update without a rate.

    Source:
        Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optimizer = optim.Adafactor()
        >>> optimizer.apply_gradients({"w": mx.array([3.0, -0.01])}, {"w": mx.array([1.0, 1.0])})
        {'w': array([0.99, 1.01], dtype=float32)}
    """

    def __init__(  # noqa: PLR0917 (MLX's signature)
        self,
        learning_rate: float | Callable[[mx.array], mx.array] | None = None,
        eps: tuple[float, float] = (1e-30, 1e-3),
        clip_threshold: float = 1.0,
        decay_rate: float = -0.8,
        beta_1: float | None = None,
        weight_decay: float = 0.0,
        scale_parameter: bool = True,
        relative_step: bool = True,
        warmup_init: bool = False,
    ) -> None:
        super().__init__()
        if learning_rate is not None:
            self._maybe_schedule("learning_rate", learning_rate)
        if len(eps) != 2:
            raise ValueError(f"[Adafactor] eps are two numbers, got {len(eps)}")
        self.eps = eps
        self.clip_threshold = clip_threshold
        self.decay_rate = decay_rate
        self.beta_1 = beta_1
        self.weight_decay = weight_decay
        self.scale_parameter = scale_parameter
        self.relative_step = relative_step
        self.warmup_init = warmup_init

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        shape, dtype = parameter.shape, parameter.dtype
        if parameter.ndim >= 2:
            state["exp_avg_sq_row"] = mx.zeros(shape[:-1], dtype)
            state["exp_avg_sq_col"] = mx.zeros((*shape[:-2], shape[-1]), dtype)
        else:
            state["exp_avg_sq"] = mx.zeros_like(parameter)
        if self.beta_1 is not None:
            state["exp_avg"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]) -> mx.array:
        rate = self._rate(parameter).astype(gradient.dtype)
        if self.scale_parameter:
            rate = rate * mx.maximum(self.eps[1], root_mean_square(parameter))
        step = self._normalise(gradient, state)
        step = rate * (step / mx.maximum(1.0, root_mean_square(step) / self.clip_threshold))
        if self.beta_1 is not None:
            step = state["exp_avg"] = mix(self.beta_1, state["exp_avg"], step)
        if self.weight_decay != 0:
            parameter = parameter + parameter * (-self.weight_decay * rate)
        return parameter - step

    def _rate(self, parameter: mx.array) -> mx.array:
        if self.relative_step:
            return mx.minimum(1e-6 * self.step if self.warmup_init else 1e-2, mx.rsqrt(self.step))
        if "learning_rate" not in self.state:
            raise ValueError("[Adafactor] with relative_step=False it needs a learning_rate")
        return self.learning_rate

    def _normalise(self, gradient: mx.array, state: dict[str, Any]) -> mx.array:
        """The gradient over the root of the mean of its squares."""
        decay = 1.0 - (self.step**self.decay_rate).astype(gradient.dtype)
        square = mx.square(gradient) + self.eps[0]
        if gradient.ndim < 2:
            mean = state["exp_avg_sq"] = decay * state["exp_avg_sq"] + (1 - decay) * square
            return mx.rsqrt(above_zero(mean)) * gradient
        row = state["exp_avg_sq_row"] = decay * state["exp_avg_sq_row"] + (1 - decay) * mx.mean(square, axis=-1)
        column = state["exp_avg_sq_col"] = decay * state["exp_avg_sq_col"] + (1 - decay) * mx.mean(square, axis=-2)
        row_scale = mx.rsqrt(above_zero(row / above_zero(mx.mean(row, axis=-1, keepdims=True))))
        # The product of the two scales alone can leave the range of float16.
        return row_scale[..., None] * (mx.rsqrt(above_zero(column))[..., None, :] * gradient)


def root_mean_square(x: mx.array) -> mx.array:
    return mx.sqrt(mx.mean(mx.square(x)))


def above_zero(x: mx.array) -> mx.array:
    """x as a divisor: eps[0] is 0 in float16, and so are the squares of small gradients."""
    return mx.maximum(x, SMALLEST_FLOAT16) if x.dtype == mx.float16 else x
