"""Gradients by a model's parameters, also over several processes: mlxc.nn.utils, as mlx.nn.utils.

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
from mlxc.utils import tree_flatten, tree_map, tree_unflatten

__all__ = ["average_gradients", "checkpoint", "clip_grad_norm_sharded", "value_and_grad"]


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


def checkpoint(module: Module, fn: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function that does not keep its intermediate results for the gradient, but computes them again when needed.

    Gradients reach the trainable parameters of the module and the arguments. See mlxc.checkpoint.

    Args:
        module: the module that `fn` uses.
        fn: the function; by default the module itself.

    Returns:
        A function of the same arguments.

    Raises:
        TypeError: if `module` is no module or `fn` no function.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.Linear(4, 4)
        >>> nn.utils.checkpoint(layer)(mx.ones((2, 4))).shape
        (2, 4)
    """
    _check("nn.utils.checkpoint", module, module if fn is None else fn)
    called = module if fn is None else fn

    def with_parameters(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        return call_with(module, parameters, called, *args, **kwargs)

    recomputed = mx.checkpoint(with_parameters)

    @wraps(called, updated=())
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        return recomputed(module.trainable_parameters(), *args, **kwargs)

    return checkpointed


def average_gradients(
    gradients: Any,
    group: mx.distributed.Group | None = None,
    all_reduce_size: int = 32 * 1024**2,
    communication_stream: mx.Stream | None = None,
) -> Any:
    """The mean of gradients over the processes of a group.

    Small arrays of one dtype are sent together.

    Args:
        gradients: tree of arrays, of the same form in all processes.
        group: the processes; None is all of them.
        all_reduce_size: how many bytes to send at once; zero or less sends each array by itself.
        communication_stream: the stream to communicate on; None is the default.

    Returns:
        A tree of the same form; the given one in a group of one.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.average_gradients({"weight": mx.ones(2)})
        {'weight': array([1, 1], dtype=float32)}
    """
    group = mx.distributed.init() if group is None else group
    count = group.size()
    if count == 1:
        return gradients

    def mean(x: mx.array) -> mx.array:
        return (mx.distributed.all_sum(x, group=group, stream=communication_stream) / count).astype(x.dtype)

    if all_reduce_size <= 0:
        return tree_map(mean, gradients)
    done: dict[str, mx.array] = {}
    for part in _parts_of_size(tree_flatten(gradients), all_reduce_size):
        together = mean(mx.concatenate([x.reshape(-1) for _, x in part]))
        begin = 0
        for path, x in part:
            done[path] = together[begin : begin + x.size].reshape(x.shape)
            begin += x.size
    return tree_unflatten([(path, done[path]) for path, _ in tree_flatten(gradients)])


def _parts_of_size(arrays: list[tuple[str, mx.array]], size: int) -> list[list[tuple[str, mx.array]]]:
    """The arrays in lists of one dtype, each with at least so many bytes if there are enough."""
    full: list[list[tuple[str, mx.array]]] = []
    open_: dict[mx.Dtype, list[tuple[str, mx.array]]] = {}
    for path, x in arrays:
        part = open_.setdefault(x.dtype, [])
        part.append((path, x))
        if sum(y.nbytes for _, y in part) >= size:
            full.append(open_.pop(x.dtype))
    return full + list(open_.values())


def clip_grad_norm_sharded(
    gradients: Any, max_norm: float, group: mx.distributed.Group | None = None
) -> tuple[Any, mx.array]:
    """Scales gradients down so that their norm over all processes is at most so large.

    Each process has its own part of the gradients, as after nn.fully_shard.

    Args:
        gradients: tree of arrays, this process's part.
        max_norm: the largest norm.
        group: the processes; None is all of them.

    Returns:
        The tree of gradients, multiplied by `max_norm / (norm + 1e-6)` where that is less than one, and the norm that
        they had, a float32 scalar.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.utils.clip_grad_norm_sharded({"weight": mx.array([3.0, 4.0])}, 10.0)
        ({'weight': array([3, 4], dtype=float32)}, array(5, dtype=float32))
    """
    group = mx.distributed.init() if group is None else group
    squares = [mx.square(x.astype(mx.float32)).sum() for _, x in tree_flatten(gradients)]
    total = mx.distributed.all_sum(mx.stack(squares).sum() if squares else mx.array(0.0), group=group)
    norm = mx.sqrt(total)
    factor = mx.minimum(max_norm / (norm + 1e-6), 1.0)
    return tree_map(lambda x: x * factor.astype(x.dtype) if _is_floating(x) else x * factor, gradients), norm


def _is_floating(x: mx.array) -> bool:
    return mx.issubdtype(x.dtype, mx.floating)
