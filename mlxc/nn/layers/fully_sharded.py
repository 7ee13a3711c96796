"""Modules of whose parameters each process stores a part only: FullyShardedModule, fully_shard.

Called by training programs that divide the batch among processes and whose model is too large for one. mlxc.nn and
mlxc.nn.layers.distributed have the names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlxc as mx
from mlxc.nn.layers.base import Module
from mlxc.nn.layers.sharding import cut, group_or_all
from mlxc.utils import tree_flatten, tree_map_with_path, tree_unflatten

__all__ = ["FullyShardedModule", "fully_shard"]


class FullyShardedModule(Module):
    """A module of whose parameters each process stores a part, though it computes with the whole.

    The whole parameters are gathered for each call and dropped after it. In the backward pass the gradients are
    averaged over the processes and each gets its part: the batch is expected to be divided among the processes.
    Parameters are divided along their first axis. Modules within that are wrapped themselves are left to their wrapper.

    Args:
        module: the module to wrap; its parameters are replaced by this process's parts.
        group: the processes; None is all of them.
        compute_dtype: dtype to which the gathered floating-point parameters are cast.

    Raises:
        ValueError: if the first axis of a parameter cannot be divided among the processes.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.FullyShardedModule(nn.Linear(4, 2))
        FullyShardedModule(num_sharded_params=2
          (module): Linear(input_dims=4, output_dims=2, bias=True)
        )
    """

    def __init__(
        self,
        module: Module,
        group: mx.distributed.Group | None = None,
        compute_dtype: mx.Dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise TypeError(f"[FullyShardedModule] module is a Module, got {type(module).__name__}")
        self.group = group_or_all(group)
        self.compute_dtype = compute_dtype
        self.module = module
        count = self.group.size()

        def part(path: str, weight: mx.array) -> mx.array:
            if weight.ndim == 0 or weight.shape[0] % count:
                raise ValueError(
                    f"[FullyShardedModule] Cannot shard parameter {path!r} with shape {weight.shape} across {count} "
                    f"devices: axis 0 must be divisible by {count}."
                )
            return cut(path, weight, 0, 1, self.group)

        module.update(tree_map_with_path(part, self._shards()))

    def _shards(self) -> Any:
        """The tree of the parameters that this wrapper is responsible for."""

        def is_own(module: Module, key: str, value: Any) -> bool:
            return not isinstance(value, FullyShardedModule) and Module.valid_parameter_filter(module, key, value)

        return self.module.filter_and_map(is_own)

    def _extra_repr(self) -> str:
        return f"num_sharded_params={len(tree_flatten(self._shards()))}"

    def _gathered_call(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        from mlxc.nn.utils import call_with

        flat = tree_flatten(self._shards())
        whole = [_gather(self.group)(shard) for _, shard in flat]
        if self.compute_dtype is not None:
            whole = [w.astype(self.compute_dtype) if mx.issubdtype(w.dtype, mx.floating) else w for w in whole]
        parameters = tree_unflatten([(path, w) for (path, _), w in zip(flat, whole, strict=True)]) if flat else {}
        return call_with(self.module, parameters, fn, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._gathered_call(self.module, args, kwargs)

    def as_linear(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the wrapped module's as_linear with the gathered parameters.

        Args:
            *args: handed on.
            **kwargs: handed on.

        Returns:
            What the wrapped module's method returns.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.FullyShardedModule(nn.Embedding(8, 4)).as_linear(mx.ones((2, 4))).shape
            (2, 8)
        """
        return self._gathered_call(self.module.as_linear, args, kwargs)


def _gather(group: mx.distributed.Group) -> Callable[[mx.array], mx.array]:
    """All parts along the first axis; its gradient is this process's part of the mean."""
    if group.size() == 1:
        return lambda x: x

    @mx.custom_function
    def gather(shard: mx.array) -> mx.array:
        return mx.distributed.all_gather(shard, group=group)

    @gather.vjp
    def scatter(shard: mx.array, cotangent: mx.array, _: mx.array) -> mx.array:
        return mx.distributed.sum_scatter(cotangent, group=group) / group.size()

    return gather


def fully_shard(
    module: Module, *, group: mx.distributed.Group | None = None, compute_dtype: mx.Dtype | None = None
) -> Module:
    """Wraps a module in a FullyShardedModule; in a group of one it gives back the module as it is.

    Args:
        module: the module.
        group: the processes; None is all of them.
        compute_dtype: dtype to which the gathered floating-point parameters are cast.

    Returns:
        The wrapper or the module.

    Raises:
        ValueError: if the first axis of a parameter cannot be divided among the processes.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.fully_shard(nn.Linear(4, 2))
        Linear(input_dims=4, output_dims=2, bias=True)
    """
    group = group_or_all(group)
    return module if group.size() == 1 else FullyShardedModule(module, group, compute_dtype)
