"""Layers whose weights are divided among the processes of a group.

AllToShardedLinear and ShardedToAllLinear follow each other: the first has a part of the features as its result, which
the second takes and sums up to the whole. In a group of one they are the ordinary layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Self

import mlxc as mx
from mlxc.nn.layers._checks import check_last, check_size
from mlxc.nn.layers.base import Module
from mlxc.nn.layers.fully_sharded import FullyShardedModule, fully_shard
from mlxc.nn.layers.linear import Linear
from mlxc.nn.layers.quantized import QuantizedLinear, _Packed
from mlxc.nn.layers.sharding import (
    Segments,
    cut,
    cut_tree,
    group_or_all,
    rule_of,
    sum_gradients,
    sum_outputs,
)

__all__ = [
    "AllToShardedLinear", "FullyShardedModule", "QuantizedAllToShardedLinear", "QuantizedShardedToAllLinear",
    "ShardedToAllLinear", "fully_shard", "shard_inplace", "shard_linear", "sum_gradients",
]  # fmt: skip


class _Sharded(Module):
    """What the linear layers have in common: the group, and how their parameters are cut."""

    _kind: str
    group: mx.distributed.Group

    def _cut_from(self, parameters: dict[str, mx.array], segments: Segments) -> None:
        for name, value in cut_tree(parameters, rule_of(self._kind, segments), self.group).items():
            self[name] = value

    def _draw(self, input_dims: int, output_dims: int) -> mx.array:
        """All processes draw the whole weight, as Linear does: with one seed they have the parts of one matrix."""
        name = type(self).__name__
        check_size(name, "input_dims", input_dims)
        check_size(name, "output_dims", output_dims)
        count = self.group.size()
        if self._kind == "all-to-sharded" and output_dims % count:
            raise ValueError(f"[{name}] Cannot shard the output of size {output_dims} across {count} devices.")
        if self._kind == "sharded-to-all" and input_dims % count:
            raise ValueError(f"[{name}] The input of size {input_dims} cannot be sharded across {count} devices.")
        bound = math.sqrt(1 / input_dims)
        return mx.random.uniform(-bound, bound, (output_dims, input_dims))

    def _whole(self, rows: int, columns: int) -> tuple[int, int]:
        """The shape of the whole weight, of that of this process's part."""
        count = self.group.size()
        return (rows * count, columns) if self._kind == "all-to-sharded" else (rows, columns * count)


class _ShardedLinear(_Sharded):
    def __init__(
        self, input_dims: int, output_dims: int, bias: bool = True, group: mx.distributed.Group | None = None
    ) -> None:
        super().__init__()
        self.group = group_or_all(group)
        parameters = {"weight": self._draw(input_dims, output_dims)}
        if bias:
            bound = math.sqrt(1 / input_dims)
            parameters["bias"] = mx.random.uniform(-bound, bound, (output_dims,))
        self._cut_from(parameters, 1)

    def _extra_repr(self) -> str:
        output_dims, input_dims = self._whole(*self.weight.shape)
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"

    @classmethod
    def _from_linear(cls, linear_layer: Module, segments: Segments, group: mx.distributed.Group | None) -> Self:
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, "bias" in linear_layer, group)
        layer._cut_from({name: linear_layer[name] for name in ("weight", "bias") if name in linear_layer}, segments)
        return layer.train(linear_layer.training)


class AllToShardedLinear(_ShardedLinear):
    """Linear whose outputs are divided among the processes: all have the input, each computes a part of the result.

    The gradient by the input is summed over the processes.

    Args:
        input_dims: size of the last axis of the input.
        output_dims: size of the last axis of the whole result, a multiple of the number of processes.
        bias: whether to add a bias.
        group: the processes; None is all of them.

    Raises:
        ValueError: if the outputs cannot be divided.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.AllToShardedLinear(64, 32)
        >>> layer
        AllToShardedLinear(input_dims=64, output_dims=32, bias=True)
        >>> layer(mx.ones((2, 64))).shape
        (2, 32)
    """

    _kind = "all-to-sharded"

    def __call__(self, x: mx.array) -> mx.array:
        weight = self["weight"]
        check_last("AllToShardedLinear", x, weight.shape[-1])
        x = sum_gradients(self.group)(x)
        return mx.addmm(self["bias"], x, weight.T) if "bias" in self else x @ weight.T

    @classmethod
    def from_linear(
        cls, linear_layer: Module, *, segments: Segments = 1, group: mx.distributed.Group | None = None
    ) -> AllToShardedLinear:
        """This process's part of a Linear.

        Args:
            linear_layer: the layer, which stays as it is.
            segments: of how many equal segments side by side its outputs consist, or where they are divided: places
                (int) or shares (float).
            group: the processes; None is all of them.

        Returns:
            A new layer.

        Raises:
            ValueError: if a segment cannot be divided among the processes.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.AllToShardedLinear.from_linear(nn.Linear(8, 24), segments=3)
            AllToShardedLinear(input_dims=8, output_dims=24, bias=True)
        """
        return cls._from_linear(linear_layer, segments, group)


class ShardedToAllLinear(_ShardedLinear):
    """Linear whose inputs are divided among the processes: each has a part of them, and all get the whole result.

    Args:
        input_dims: size of the last axis of the whole input, a multiple of the number of processes.
        output_dims: size of the last axis of the result.
        bias: whether to add a bias.
        group: the processes; None is all of them.

    Raises:
        ValueError: if the inputs cannot be divided.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.ShardedToAllLinear(64, 32, bias=False)
        >>> layer
        ShardedToAllLinear(input_dims=64, output_dims=32, bias=False)
        >>> layer(mx.ones((2, 64))).shape
        (2, 32)
    """

    _kind = "sharded-to-all"

    def __call__(self, x: mx.array) -> mx.array:
        weight = self["weight"]
        check_last("ShardedToAllLinear", x, weight.shape[-1])
        y = sum_outputs(self.group)(x @ weight.T)
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_linear(
        cls, linear_layer: Module, *, segments: Segments = 1, group: mx.distributed.Group | None = None
    ) -> ShardedToAllLinear:
        """This process's part of a Linear.

        Args:
            linear_layer: the layer, which stays as it is.
            segments: of how many equal segments side by side its inputs consist, or where they are divided: places
                (int) or shares (float).
            group: the processes; None is all of them.

        Returns:
            A new layer.

        Raises:
            ValueError: if a segment cannot be divided among the processes.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.ShardedToAllLinear.from_linear(nn.Linear(8, 24))
            ShardedToAllLinear(input_dims=8, output_dims=24, bias=True)
        """
        return cls._from_linear(linear_layer, segments, group)


class _QuantizedShardedLinear(_Sharded, _Packed):
    def __init__(  # noqa: PLR0917 (MLX's signature)
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int = 64,
        bits: int = 4,
        mode: str = "affine",
        group: mx.distributed.Group | None = None,
    ) -> None:
        super().__init__()
        self.group = group_or_all(group)
        part = cut("weight", self._draw(input_dims, output_dims), *self._axis(), 1, self.group)
        self._pack(part, group_size, bits, mode)
        if bias:
            self.bias = mx.zeros((self.weight.shape[0],))
        self.freeze()

    @classmethod
    def _axis(cls) -> tuple[int]:
        return (0 if cls._kind == "all-to-sharded" else -1,)

    def unfreeze(self, *args: Any, **kwargs: Any) -> Self:
        """Does nothing for this layer, all of which stays frozen.

        Args:
            *args: as for Module.unfreeze.
            **kwargs: as for Module.unfreeze.

        Returns:
            The module itself.
        """
        super().unfreeze(*args, **kwargs)
        return self.freeze(recurse=False)

    def _extra_repr(self) -> str:
        output_dims, input_dims = self._whole(*self._shape())
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}, {self._packing()}"

    @classmethod
    def _from_quantized_linear(cls, old: Module, segments: Segments, group: mx.distributed.Group | None) -> Self:
        group = group_or_all(group)
        names = ("weight", "scales", "biases", "bias")
        rows, columns = old._shape()
        if cls._kind == "sharded-to-all":
            # Places are features; the packed arrays have fewer columns, of which a process must get whole groups.
            count = group.size()
            if not isinstance(segments, int):
                segments = [Fraction(place, columns) if isinstance(place, int) else place for place in segments]
            if columns // count % old.group_size:
                raise ValueError(
                    f"[{cls.__name__}] {columns} inputs in groups of {old.group_size} cannot be sharded across "
                    f"{count} devices"
                )
        layer = cls(columns, rows, False, old.group_size, old.bits, old.mode, group)
        layer._cut_from({name: old[name] for name in names if name in old}, segments)
        return layer.train(old.training).freeze()


class QuantizedAllToShardedLinear(_QuantizedShardedLinear):
    """AllToShardedLinear with a quantised weight. All of it is frozen.

    Args:
        input_dims: size of the last axis of the input, a multiple of the group size.
        output_dims: size of the last axis of the whole result, a multiple of the number of processes.
        bias: whether to add a bias.
        group_size: how many neighbours share a scale.
        bits: bits an element.
        mode: "affine", "mxfp4", "mxfp8" or "nvfp4", as for mlxc.quantize.
        group: the processes; None is all of them.

    Raises:
        ValueError: if the outputs cannot be divided, or the weight not be quantised so.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.QuantizedAllToShardedLinear(64, 32)(mx.ones((2, 64))).shape
        (2, 32)
    """

    _kind = "all-to-sharded"

    def __call__(self, x: mx.array) -> mx.array:
        y = self._product(sum_gradients(self.group)(x))
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_quantized_linear(
        cls, quantized_linear_layer: Module, *, segments: Segments = 1, group: mx.distributed.Group | None = None
    ) -> QuantizedAllToShardedLinear:
        """This process's part of a QuantizedLinear.

        Args:
            quantized_linear_layer: the layer, which stays as it is.
            segments: as for AllToShardedLinear.from_linear.
            group: the processes; None is all of them.

        Returns:
            A new layer.

        Raises:
            ValueError: if a segment cannot be divided among the processes.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.QuantizedAllToShardedLinear.from_quantized_linear(nn.QuantizedLinear(64, 8, bits=8)).bits
            8
        """
        return cls._from_quantized_linear(quantized_linear_layer, segments, group)


class QuantizedShardedToAllLinear(_QuantizedShardedLinear):
    """ShardedToAllLinear with a quantised weight. All of it is frozen.

    Args:
        input_dims: size of the last axis of the whole input; each process's part is a multiple of the group size.
        output_dims: size of the last axis of the result.
        bias: whether to add a bias.
        group_size: how many neighbours share a scale.
        bits: bits an element.
        mode: "affine", "mxfp4", "mxfp8" or "nvfp4", as for mlxc.quantize.
        group: the processes; None is all of them.

    Raises:
        ValueError: if the inputs cannot be divided, or the weight not be quantised so.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.QuantizedShardedToAllLinear(64, 32)(mx.ones((2, 64))).shape
        (2, 32)
    """

    _kind = "sharded-to-all"

    def __call__(self, x: mx.array) -> mx.array:
        y = sum_outputs(self.group)(self._product(x))
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_quantized_linear(
        cls, quantized_linear_layer: Module, *, segments: Segments = 1, group: mx.distributed.Group | None = None
    ) -> QuantizedShardedToAllLinear:
        """This process's part of a QuantizedLinear.

        Args:
            quantized_linear_layer: the layer, which stays as it is.
            segments: as for ShardedToAllLinear.from_linear.
            group: the processes; None is all of them.

        Returns:
            A new layer.

        Raises:
            ValueError: if the inputs cannot be divided in whole groups of one scale.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.QuantizedShardedToAllLinear.from_quantized_linear(nn.QuantizedLinear(64, 8, mode="mxfp4")).mode
            'mxfp4'
        """
        return cls._from_quantized_linear(quantized_linear_layer, segments, group)


def shard_linear(
    module: Module, sharding: str, *, segments: Segments = 1, group: mx.distributed.Group | None = None
) -> Module:
    """The sharded layer of a Linear or QuantizedLinear: this process's part of it.

    Args:
        module: the layer, which stays as it is.
        sharding: "all-to-sharded" divides the outputs, "sharded-to-all" the inputs.
        segments: of how many equal segments side by side the divided features consist, or where they are divided:
            places (int) or shares (float).
        group: the processes; None is all of them.

    Returns:
        A new layer.

    Raises:
        ValueError: for another kind of sharding, or if a segment cannot be divided among the processes.
        TypeError: for another kind of layer.

    Example:
        >>> import mlxc.nn as nn
        >>> from mlxc.nn.layers.distributed import shard_linear
        >>> shard_linear(nn.Linear(8, 4), "sharded-to-all")
        ShardedToAllLinear(input_dims=8, output_dims=4, bias=True)
    """
    rule_of(sharding, segments)
    to_sharded = sharding == "all-to-sharded"
    if isinstance(module, Linear):
        plain = AllToShardedLinear if to_sharded else ShardedToAllLinear
        return plain.from_linear(module, segments=segments, group=group)
    if isinstance(module, QuantizedLinear):
        packed = QuantizedAllToShardedLinear if to_sharded else QuantizedShardedToAllLinear
        return packed.from_quantized_linear(module, segments=segments, group=group)
    raise TypeError(f"[shard_linear] module is a Linear or a QuantizedLinear, got {type(module).__name__}")


def shard_inplace(
    module: Module,
    sharding: str | Callable[[str, mx.array], Any],
    *,
    segments: Segments = 1,
    group: mx.distributed.Group | None = None,
) -> None:
    """Replaces the parameters of a module by this process's parts. How the module computes does not change.

    Args:
        module: the module.
        sharding: "all-to-sharded" or "sharded-to-all", as for shard_linear; or a function of the path and the array
            of a parameter, that returns the axis to divide, or a tuple of that and segments, or None to leave it whole.
        segments: as for shard_linear, where `sharding` is a string.
        group: the processes; None is all of them.

    Raises:
        ValueError: if a parameter cannot be divided so; nothing is replaced then.

    Example:
        >>> import mlxc.nn as nn
        >>> from mlxc.nn.layers.distributed import shard_inplace
        >>> layer = nn.Linear(8, 4)
        >>> shard_inplace(layer, lambda path, weight: 0)
        >>> layer.weight.shape
        (4, 8)
    """
    rule = sharding if callable(sharding) else rule_of(sharding, segments)
    module.update(cut_tree(module.parameters(), rule, group_or_all(group)))
