"""Sequential: layers called one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlxc.nn.layers.base import Module

__all__ = ["Sequential"]


class Sequential(Module):
    """Calls layers or functions one after the other, each with the result of the one before.

    Args:
        *modules: modules, or other callables of one argument.

    Example:
        >>> import mlxc.nn as nn
        >>> model = nn.Sequential(nn.Linear(2, 8), mx.tanh, nn.Linear(8, 1))
        >>> model(mx.ones((4, 2))).shape
        (4, 1)
    """

    def __init__(self, *modules: Callable[[Any], Any]) -> None:
        super().__init__()
        self.layers = list(modules)

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x
