"""Gradients by a model's parameters: mlxc.nn.utils, as mlx.nn.utils.

Called by training loops. A model holds its parameters itself, so a transform of a function of the model puts the
arrays that it traces into the model, and takes them out again, also after an error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import mlxc as mx
from mlxc.nn.layers._tree import commit, plan_parameters
from mlxc.nn.layers.base import Module
from mlxc.utils import tree_flatten

__all__ = ["value_and_grad"]


def _check(function: str, model: Any, fn: Any) -> None:
    if not isinstance(model, Module):
        raise TypeError(f"[{function}] model is a Module, got {type(model).__name__}")
    if not callable(fn):
        raise TypeError(f"[{function}] fn is a function, got {type(fn).__name__}")


def call_with(model: Module, parameters: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a function while the model has other parameters. What the function itself puts into the model stays."""
    plan = plan_parameters(model, parameters, True)
    before = [(container, key, container[key]) for container, key, _ in plan]
    commit(plan)
    try:
        return fn(*args, **kwargs)
    finally:
        for (container, key, lent), (_, _, old) in zip(reversed(plan), reversed(before), strict=True):
            if container[key] is lent:
                container[key] = old


def value_and_grad(model: Module, fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns the value of another one and its gradient by the trainable parameters of a model.

    Args:
        model: the model whose trainable_parameters() the gradient is by.
        fn: function that uses the model and returns a scalar array, or a tuple that begins with one.

    Returns:
        A function of the same arguments that returns (value, gradients). The gradients have the form of
        `model.trainable_parameters()`, as optimizers take them.

    Raises:
        TypeError: if `model` is no module or `fn` no function.
        ValueError: on call, if all parameters are frozen or `fn` returns no scalar.

    Example:
        >>> import mlxc.nn as nn
        >>> model = nn.Linear(2, 1, bias=False)
        >>> loss, grads = nn.value_and_grad(model, lambda x: model(x).sum())(mx.array([[1.0, 2.0]]))
        >>> grads
        {'weight': array([[1, 2]], dtype=float32)}
    """
    _check("nn.value_and_grad", model, fn)

    def by_parameters(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        return call_with(model, parameters, fn, *args, **kwargs)

    differentiated = mx.value_and_grad(by_parameters)

    @wraps(fn, updated=())
    def value_and_grad_of(*args: Any, **kwargs: Any) -> Any:
        parameters = model.trainable_parameters()
        if not tree_flatten(parameters):
            raise ValueError(f"[nn.value_and_grad] this {type(model).__name__} has no parameter that is not frozen")
        return differentiated(parameters, *args, **kwargs)

    return value_and_grad_of
