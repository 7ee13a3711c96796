"""LoRA: low-rank additions to frozen layers, which are all that tuning trains. The layers, and putting them in.

Called by tune.py and the command line; adapters.py keeps what was trained in files. A layer's own weights stay as they
are, also packed ones; fuse adds what was learned to them. Names of parameters are those of MLX's adapters.

E. J. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021. S.-Y. Liu et al., "DoRA: Weight-Decomposed
Low-Rank Adaptation", 2024.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import mlxc as mx
from mlxc import nn
from mlxc.utils import tree_unflatten

__all__ = [
    "DoRALinear",
    "LoRAEmbedding",
    "LoRALinear",
    "fuse_lora_layers",
    "linear_to_lora_layers",
    "remove_lora_layers",
]

KEYS = ("self_attn.q_proj", "self_attn.v_proj")


def check_parameters(layer: str, r: Any, dropout: Any, scale: Any) -> None:
    if isinstance(r, bool) or not isinstance(r, int) or r < 1:
        raise ValueError(f"[{layer}] the rank is {r!r}, a positive whole number is needed")
    if not isinstance(dropout, (int, float)) or not 0.0 <= dropout < 1.0:
        raise ValueError(f"[{layer}] dropout is {dropout!r}, it is from 0 to less than 1")
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not math.isfinite(scale):
        raise ValueError(f"[{layer}] scale is {scale!r}, a finite number is needed")


def dense_weight(layer: nn.Module, dtype: mx.Dtype) -> mx.array:
    """The weight of a layer, expanded if it is packed."""
    if "scales" not in layer:
        return layer.weight.astype(dtype)
    how = {"group_size": layer.group_size, "bits": layer.bits, "mode": layer.mode}
    return mx.dequantize(layer.weight, layer.scales, layer.get("biases"), **how, dtype=dtype)


def float_dtype(layer: nn.Module) -> mx.Dtype:
    """The dtype of a layer's numbers; of packed ones that of the scales, or bfloat16 where these are codes."""
    dtype = layer["scales" if "scales" in layer else "weight"].dtype
    return dtype if mx.issubdtype(dtype, mx.floating) else mx.bfloat16


def dense_shape(layer: nn.Module) -> tuple[int, int]:
    """The shape of dense_weight."""
    rows, words = layer.weight.shape
    return rows, words * 32 // layer.bits if "scales" in layer else words


def with_weight(layer: nn.Module, weight: mx.array, dense: nn.Module, dequantize: bool) -> nn.Module:
    """A layer like another one, but with this weight: packed as the other is, or dense."""
    dense.weight = weight
    if "bias" in layer:
        dense.bias = layer.bias
    if "scales" in layer and not dequantize:
        dense = dense.to_quantized(layer.group_size, layer.bits, layer.mode)
    return dense.train(layer.training)


class LoRALinear(nn.Module):
    """A Linear, also a quantised one, with a low-rank addition: `linear(x) + scale * (dropout(x) @ lora_a) @ lora_b`.

    `lora_a` has shape (input_dims, r) and begins uniform in [-1/sqrt(input_dims), 1/sqrt(input_dims)); `lora_b` has
    shape (r, output_dims) and begins as zeros, so that the layer begins as what it was.

    Args:
        input_dims: size of the last axis of the input.
        output_dims: size of the last axis of the result.
        r: rank of the addition.
        dropout: how likely a number of the input is left out of the addition in training.
        scale: factor of the addition.
        bias: whether the linear layer has a bias.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> from mlxc.models.lora import LoRALinear
        >>> layer = LoRALinear(8, 4, r=2)
        >>> layer.lora_a.shape, layer.lora_b.shape, layer(mx.ones((3, 8))).shape
        ((8, 2), (2, 4), (3, 4))
    """

    def __init__(  # noqa: PLR0917 (MLX's signature)
        self,
        input_dims: int,
        output_dims: int,
        r: int = 8,
        dropout: float = 0.0,
        scale: float = 20.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        check_parameters("LoRALinear", r, dropout, scale)
        self.linear = nn.Linear(input_dims, output_dims, bias=bias)
        self._add(input_dims, output_dims, r, dropout, scale)

    def _add(self, input_dims: int, output_dims: int, r: int, dropout: float, scale: float) -> None:
        self.dropout = nn.Dropout(p=dropout)
        self.scale = scale
        bound = 1 / math.sqrt(input_dims)
        self.lora_a = mx.random.uniform(-bound, bound, (input_dims, r))
        self.lora_b = mx.zeros((r, output_dims))

    @classmethod
    def from_base(cls, linear: nn.Module, r: int = 8, dropout: float = 0.0, scale: float = 20.0) -> LoRALinear:
        """Puts an addition beside a layer.

        Args:
            linear: a Linear or QuantizedLinear, which becomes a part of the new layer.
            r: as for the class.
            dropout: as for the class.
            scale: as for the class.

        Returns:
            A new layer.

        Raises:
            TypeError: if it is another kind of layer.
            ValueError: if an argument is out of range.

        Example:
            >>> import mlxc.nn as nn
            >>> from mlxc.models.lora import LoRALinear
            >>> LoRALinear.from_base(nn.Linear(64, 8).to_quantized(), r=4).lora_a.shape
            (64, 4)
        """
        if not isinstance(linear, (nn.Linear, nn.QuantizedLinear)):
            raise TypeError(f"[LoRALinear.from_base] takes a Linear or QuantizedLinear, got {type(linear).__name__}")
        check_parameters("LoRALinear", r, dropout, scale)
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer.linear = linear
        output_dims, input_dims = dense_shape(linear)
        layer._add(input_dims, output_dims, r, dropout, scale)
        return layer.train(linear.training)

    def __call__(self, x: mx.array) -> mx.array:
        y = self["linear"](x)
        # The scale goes to the narrow product, which costs least.
        addition = (self.scale * (self.dropout(x) @ self["lora_a"])) @ self["lora_b"]
        return y + addition.astype(y.dtype)

    def fuse(self, dequantize: bool = False) -> nn.Module:
        """The layer without an addition, which is added to its weight.

        Args:
            dequantize: leaves the weight of a quantised layer expanded; else it is packed again as it was.

        Returns:
            A new Linear or QuantizedLinear.

        Example:
            >>> from mlxc.models.lora import LoRALinear
            >>> LoRALinear(8, 4, r=2).fuse()
            Linear(input_dims=8, output_dims=4, bias=False)
        """
        weight = dense_weight(self.linear, mx.float32)
        addition = self.scale * (self.lora_b.T.astype(mx.float32) @ self.lora_a.T.astype(mx.float32))
        weight = (weight + addition).astype(float_dtype(self.linear))
        return with_weight(self.linear, weight, nn.Linear(1, 1, bias=False), dequantize)


def product(layer: nn.Module, x: mx.array) -> mx.array:
    """What a layer makes of x, without its bias."""
    if "scales" not in layer:
        return x @ layer["weight"].T
    how = {"group_size": layer.group_size, "bits": layer.bits, "mode": layer.mode}
    return mx.quantized_matmul(x, layer["weight"], layer["scales"], layer.get("biases"), True, **how)


class DoRALinear(LoRALinear):
    """A LoRALinear whose sum of weight and addition keeps its direction, and has learned lengths: each row of it is
    scaled to the length that `m`, of shape (output_dims,), has for it. `m` begins as the lengths of the weight's rows.

    Gradients take the lengths of the sum as constants, as the paper does.

    Args:
        input_dims: size of the last axis of the input.
        output_dims: size of the last axis of the result.
        r: rank of the addition.
        dropout: how likely a number of the input is left out of the addition in training.
        scale: factor of the addition.
        bias: whether the linear layer has a bias.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> from mlxc.models.lora import DoRALinear
        >>> layer = DoRALinear(8, 4, r=2)
        >>> layer.m.shape, layer(mx.ones((3, 8))).shape
        ((4,), (3, 4))
    """

    def _add(self, input_dims: int, output_dims: int, r: int, dropout: float, scale: float) -> None:
        super()._add(input_dims, output_dims, r, dropout, scale)
        self.m = mx.linalg.norm(dense_weight(self.linear, mx.float32), axis=1)

    def _sum(self) -> mx.array:
        """Weight and addition together, in float32."""
        addition = self["lora_b"].T.astype(mx.float32) @ self["lora_a"].T.astype(mx.float32)
        return dense_weight(self["linear"], mx.float32) + self.scale * addition

    def __call__(self, x: mx.array) -> mx.array:
        linear = self["linear"]
        y = product(linear, x)
        addition = (self.scale * (self.dropout(x) @ self["lora_a"])) @ self["lora_b"]
        lengths = mx.stop_gradient(mx.linalg.norm(self._sum(), axis=1))
        y = (y + addition.astype(y.dtype)) * (self["m"] / lengths).astype(y.dtype)
        return y + linear["bias"] if "bias" in linear else y

    def fuse(self, dequantize: bool = False) -> nn.Module:
        """The layer without an addition, which is put into its weight.

        Args:
            dequantize: leaves the weight of a quantised layer expanded; else it is packed again as it was.

        Returns:
            A new Linear or QuantizedLinear.

        Example:
            >>> from mlxc.models.lora import DoRALinear
            >>> DoRALinear(8, 4, r=2).fuse()
            Linear(input_dims=8, output_dims=4, bias=False)
        """
        total = self._sum()
        weight = (total * (self.m / mx.linalg.norm(total, axis=1))[:, None]).astype(float_dtype(self.linear))
        return with_weight(self.linear, weight, nn.Linear(1, 1, bias=False), dequantize)


class LoRAEmbedding(nn.Module):
    """An Embedding, also a quantised one, with a low-rank addition.

    `lora_a` has shape (num_embeddings, r) and begins uniform in [-1/sqrt(num_embeddings), 1/sqrt(num_embeddings));
    `lora_b` has shape (r, dims) and begins as zeros.

    Args:
        num_embeddings: how many vectors there are.
        dims: their size.
        r: rank of the addition.
        dropout: how likely a number of the addition is left out in training.
        scale: factor of the addition.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> from mlxc.models.lora import LoRAEmbedding
        >>> LoRAEmbedding(100, 8, r=2)(mx.array([3, 4])).shape
        (2, 8)
    """

    def __init__(self, num_embeddings: int, dims: int, r: int = 8, dropout: float = 0.0, scale: float = 20.0) -> None:
        super().__init__()
        check_parameters("LoRAEmbedding", r, dropout, scale)
        self.embedding = nn.Embedding(num_embeddings, dims)
        self._add(num_embeddings, dims, r, dropout, scale)

    def _add(self, num_embeddings: int, dims: int, r: int, dropout: float, scale: float) -> None:
        self.dropout = nn.Dropout(p=dropout)
        self.scale = scale
        bound = 1 / math.sqrt(num_embeddings)
        self.lora_a = mx.random.uniform(-bound, bound, (num_embeddings, r))
        self.lora_b = mx.zeros((r, dims))

    @classmethod
    def from_base(cls, embedding: nn.Module, r: int = 8, dropout: float = 0.0, scale: float = 20.0) -> LoRAEmbedding:
        """Puts an addition beside an embedding.

        Args:
            embedding: an Embedding or QuantizedEmbedding, which becomes a part of the new layer.
            r: as for the class.
            dropout: as for the class.
            scale: as for the class.

        Returns:
            A new layer.

        Raises:
            TypeError: if it is another kind of layer.
            ValueError: if an argument is out of range.

        Example:
            >>> import mlxc.nn as nn
            >>> from mlxc.models.lora import LoRAEmbedding
            >>> LoRAEmbedding.from_base(nn.Embedding(10, 4), r=2).lora_b.shape
            (2, 4)
        """
        if not isinstance(embedding, (nn.Embedding, nn.QuantizedEmbedding)):
            raise TypeError(
                f"[LoRAEmbedding.from_base] takes an Embedding or QuantizedEmbedding, got {type(embedding).__name__}"
            )
        check_parameters("LoRAEmbedding", r, dropout, scale)
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer.embedding = embedding
        layer._add(*dense_shape(embedding), r, dropout, scale)
        return layer.train(embedding.training)

    def __call__(self, x: mx.array) -> mx.array:
        y = self["embedding"](x)
        return y + (self.scale * self.dropout(self["lora_a"][x] @ self["lora_b"])).astype(y.dtype)

    def as_linear(self, x: mx.array) -> mx.array:
        """Uses the table, addition included, as the weight of a linear map.

        Args:
            x: array whose last axis has size dims.

        Returns:
            An array whose last axis has size num_embeddings.

        Example:
            >>> from mlxc.models.lora import LoRAEmbedding
            >>> LoRAEmbedding(100, 8).as_linear(mx.ones((2, 8))).shape
            (2, 100)
        """
        y = self["embedding"].as_linear(x)
        addition = (self.scale * (self.dropout(x) @ self["lora_b"].T)) @ self["lora_a"].T
        return y + addition.astype(y.dtype)

    def fuse(self, dequantize: bool = False) -> nn.Module:
        """The embedding without an addition, which is added to its table.

        Args:
            dequantize: leaves the table of a quantised embedding expanded; else it is packed again as it was.

        Returns:
            A new Embedding or QuantizedEmbedding.

        Example:
            >>> from mlxc.models.lora import LoRAEmbedding
            >>> LoRAEmbedding(100, 8).fuse()
            Embedding(100, 8)
        """
        weight = dense_weight(self.embedding, mx.float32)
        addition = self.scale * (self.lora_a.astype(mx.float32) @ self.lora_b.astype(mx.float32))
        weight = (weight + addition).astype(float_dtype(self.embedding))
        return with_weight(self.embedding, weight, nn.Embedding(1, 1), dequantize)


ADDED = (LoRALinear, LoRAEmbedding)


def with_addition(layer: nn.Module, path: str, *, rank: int, dropout: float, scale: float, use_dora: bool) -> nn.Module:
    """A LoRA or DoRA layer on any layer that can have one."""
    if isinstance(layer, (nn.Linear, nn.QuantizedLinear)):
        return (DoRALinear if use_dora else LoRALinear).from_base(layer, rank, dropout, scale)
    if use_dora and isinstance(layer, (nn.Embedding, nn.QuantizedEmbedding)):
        raise ValueError(f"[linear_to_lora_layers] {path} is {type(layer).__name__}, which has no DoRA form")
    if isinstance(layer, (nn.Embedding, nn.QuantizedEmbedding)):
        return LoRAEmbedding.from_base(layer, rank, dropout, scale)
    if isinstance(layer, ADDED):
        raise ValueError(f"[linear_to_lora_layers] {path} has an addition already")
    raise ValueError(f"[linear_to_lora_layers] {path} is {type(layer).__name__}, which can't have a low-rank addition")


def layers_in_order(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The modules of a model by path, blocks in their order."""
    by_number = [
        ([(part.isdecimal(), int(part) if part.isdecimal() else part) for part in path.split(".")], path, module)
        for path, module in model.named_modules()
    ]
    return [(path, module) for _, path, module in sorted(by_number, key=lambda entry: entry[0])]


def replace(model: nn.Module, layers: Iterable[tuple[str, nn.Module]]) -> None:
    """Puts layers in at their paths."""
    layers = list(layers)
    if layers:
        model.update_modules(tree_unflatten(layers))


def linear_to_lora_layers(
    model: nn.Module, num_layers: int = -1, config: Mapping[str, Any] | None = None, use_dora: bool = False
) -> list[str]:
    """Puts low-rank additions into the last blocks of a model: in all layers that are asked for or, after an error,
    in none. Freeze the model before, so that the additions alone are trained.

    Args:
        model: has `layers`, the list of its blocks.
        num_layers: how many of the last blocks; -1 for all.
        config: "rank" (8), "scale" (20.0), "dropout" (0.0), and "keys", the paths within a block of the layers that get
            one ("self_attn.q_proj" and "self_attn.v_proj").
        use_dora: learns the lengths of rows too (DoRALinear).

    Returns:
        The paths of the layers in the model.

    Raises:
        ValueError: if the model has fewer blocks, a block has no such layer, or a value is out of range.

    Example:
        >>> from mlxc.models.lora import linear_to_lora_layers
        >>> linear_to_lora_layers(model, 4, {"rank": 8, "scale": 20.0})  # doctest: +SKIP
    """
    options = {"rank": 8, "scale": 20.0, "dropout": 0.0, "keys": KEYS} | dict(config or {})
    unknown = sorted(set(options) - {"rank", "scale", "dropout", "keys"})
    if unknown:
        raise ValueError(f"[linear_to_lora_layers] {', '.join(unknown)} in config is not understood")
    blocks = model.layers
    if isinstance(num_layers, bool) or not isinstance(num_layers, int) or not -1 <= num_layers <= len(blocks):
        raise ValueError(f"[linear_to_lora_layers] num_layers is {num_layers!r}, the model has {len(blocks)} blocks")
    count = len(blocks) if num_layers == -1 else num_layers
    chosen = {id(block) for block in blocks[len(blocks) - count :]}
    named = dict(layers_in_order(model))
    prefixes = [path for path, module in named.items() if id(module) in chosen]
    keys = tuple(options["keys"] or KEYS)
    made = []
    for path in (f"{prefix}.{key}" for prefix in prefixes for key in keys):
        if path not in named:
            raise ValueError(f"[linear_to_lora_layers] the model has no layer {path}")
        how = {name: options[name] for name in ("rank", "dropout", "scale")}
        made.append((path, with_addition(named[path], path, **how, use_dora=use_dora)))
    replace(model, made)
    return [path for path, _ in made]


def fuse_lora_layers(model: nn.Module, dequantize: bool = False) -> list[str]:
    """Adds what was learned to the weights; the model then has its own kinds of layers again.

    Args:
        model: the model.
        dequantize: leaves the weights of quantised layers expanded; else they are packed again as they were.

    Returns:
        The paths of the layers that had additions.

    Example:
        >>> from mlxc.models.lora import fuse_lora_layers
        >>> fuse_lora_layers(model)  # doctest: +SKIP
    """
    fused = [(path, layer.fuse(dequantize)) for path, layer in layers_in_order(model) if isinstance(layer, ADDED)]
    replace(model, fused)
    return [path for path, _ in fused]


def remove_lora_layers(model: nn.Module) -> list[str]:
    """Takes the additions away; the model is then what it was before.

    Args:
        model: the model.

    Returns:
        The paths of the layers that had additions.

    Example:
        >>> from mlxc.models.lora import remove_lora_layers
        >>> remove_lora_layers(model)  # doctest: +SKIP
    """
    bare = [
        (path, layer.linear if isinstance(layer, LoRALinear) else layer.embedding)
        for path, layer in layers_in_order(model)
        if isinstance(layer, ADDED)
    ]
    replace(model, bare)
    return [path for path, _ in bare]
