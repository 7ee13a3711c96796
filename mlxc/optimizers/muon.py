"""Muon: for matrices, the momentum with all its singular values brought near one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlxc as mx

from .base import Optimizer
from .moments import mix

__all__ = ["Muon"]

# The quintic a x + b x^3 + c x^5, applied again and again, takes any singular value in (0, 1] to about 0.7 to 1.2.
QUINTIC = (3.4445, -4.7750, 2.0315)


class Muon(Optimizer):
    """Muon: momentum made orthogonal by Newton-Schulz steps.

    Made for the matrices inside a network. Embeddings, the last layer, and vectors are better left to another optimizer
    (see MultiOptimizer); a vector is moved by the plain momentum. More than two axes count as rows by all the rest.
    The state of a parameter is `v`, the mean of gradients.

    Args:
        learning_rate: a number, or a function of the step counter.
        momentum: how much of the running mean of gradients stays.
        weight_decay: adds `weight_decay * w` to the gradient, an L2 penalty.
        nesterov: whether to mix the gradient once more into the mean before the step.
        ns_steps: how many Newton-Schulz steps to take.

    Source:
        Jordan et al., Muon: An Optimizer for Hidden Layers in Neural Networks, 2024.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optimizer = optim.Muon(learning_rate=0.1)
        >>> w = {"w": mx.zeros((2, 2))}
        >>> w = optimizer.apply_gradients({"w": mx.array([[100.0, 0.0], [0.0, 1.0]])}, w)
        >>> [round(x, 3) for x in mx.diag(w["w"]).tolist()]
        [-0.07, -0.07]
    """

    def __init__(
        self,
        learning_rate: float | Callable[[mx.array], mx.array],
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        nesterov: bool = True,
        ns_steps: int = 5,
    ) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        self.ns_steps = ns_steps

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]) -> mx.array:
        if self.weight_decay != 0:
            gradient = gradient + self.weight_decay * parameter
        mean = state["v"] = mix(self.momentum, state["v"], gradient)
        step = mix(self.momentum, mean, gradient) if self.nesterov else mean
        rate = self.learning_rate.astype(gradient.dtype)
        if step.ndim >= 2:
            matrix = step.reshape(step.shape[0], -1) if step.size else step.reshape(0, 0)
            step = orthogonalise(matrix, self.ns_steps).reshape(step.shape)
            # A tall matrix has as many singular values as columns; this keeps the size of what it does to a vector.
            rate = rate * max(1, matrix.shape[0] / max(1, matrix.shape[1])) ** 0.5
        return parameter - rate * step


def orthogonalise(matrix: mx.array, steps: int) -> mx.array:
    """The matrix with its singular values near one."""
    a, b, c = QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (mx.linalg.norm(x, keepdims=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if tall else x
