"""Layers with quantised weights, and quantize, which exchanges a model's layers for them.

Called by Linear.to_quantized and Embedding.to_quantized too. Packed weights are whole numbers and are never trained;
they stay frozen whatever unfreeze is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import mlxc as mx
from mlxc.nn.layers._checks import check_last, check_size
from mlxc.nn.layers.base import Module
from mlxc.utils import tree_map_with_path

__all__ = ["QQLinear", "QuantizedEmbedding", "QuantizedLinear", "quantize"]

# Group size and bits of a mode, where they are not given.
DEFAULTS = {"affine": (64, 4), "mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}
BOTH_QUANTIZED = ("nvfp4", "mxfp8")


def resolve_mode(layer: str, group_size: int | None, bits: int | None, mode: str) -> tuple[int, int]:
    """Group size and bits, with the mode's own for None."""
    if mode not in DEFAULTS:
        raise ValueError(f"[{layer}] Invalid quantization mode {mode!r}. Valid modes are: {', '.join(DEFAULTS)}.")
    return DEFAULTS[mode][0] if group_size is None else group_size, DEFAULTS[mode][1] if bits is None else bits


class _Packed(Module):
    """What has a quantised `weight` with `scales`, and `biases` where the mode has them (affine)."""

    def _pack(self, weight: mx.array, group_size: int | None, bits: int | None, mode: str) -> None:
        self.group_size, self.bits = resolve_mode(type(self).__name__, group_size, bits, mode)
        self.mode = mode
        self.weight, self.scales, *biases = mx.quantize(weight, self.group_size, self.bits, mode)
        self.biases = biases[0] if biases else None

    def _packing(self) -> str:
        return f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"

    def _shape(self) -> tuple[int, int]:
        """The shape of the weight that is packed."""
        rows, words = self.weight.shape
        return rows, words * 32 // self.bits

    def _product(self, x: mx.array) -> mx.array:
        """`x` times the transposed weight."""
        check_last(type(self).__name__, x, self._shape()[1])
        return mx.quantized_matmul(
            x, self["weight"], self["scales"], self.get("biases"), True, self.group_size, self.bits, self.mode
        )

    def unfreeze(self, *, recurse: bool = True, keys: str | Sequence[str] | None = None, strict: bool = False) -> Self:
        """Takes back freeze, but for what is packed in whole numbers: the weight, and scales that are no floats.

        Args:
            recurse: as for Module.unfreeze.
            keys: as for Module.unfreeze.
            strict: as for Module.unfreeze.

        Returns:
            The module itself.

        Example:
            >>> import mlxc.nn as nn
            >>> sorted(nn.QuantizedLinear(64, 8).unfreeze().trainable_parameters())
            ['bias', 'biases', 'scales']
            >>> sorted(nn.QuantizedLinear(64, 8, mode="mxfp4").unfreeze().trainable_parameters())
            ['bias']
        """
        super().unfreeze(recurse=recurse, keys=keys, strict=strict)
        packed = [name for name in ("weight", "scales") if name in self and not _is_floating(self[name])]
        return self.freeze(keys=packed, recurse=False)


def _is_floating(a: mx.array) -> bool:
    return mx.issubdtype(a.dtype, mx.floating)


class QuantizedLinear(_Packed):
    """Linear with a quantised weight: `x @ dequantize(weight).T + bias`. All of it begins frozen.

    `weight` has shape (output_dims, input_dims * bits / 32) and dtype uint32, `scales` (and `biases`, for mode affine)
    (output_dims, input_dims / group_size), `bias` (output_dims,).

    Args:
        input_dims: size of the last axis of the input, a multiple of the group size.
        output_dims: size of the last axis of the result.
        bias: whether to add a bias.
        group_size: how many neighbours share a scale; by default 64 for affine, 32 for mxfp4 and mxfp8, 16 for nvfp4.
        bits: bits an element; by default 4, for mxfp8 8.
        mode: "affine", "mxfp4", "mxfp8" or "nvfp4", as for mlxc.quantize.

    Raises:
        ValueError: if sizes, group size, bits and mode do not fit each other.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.QuantizedLinear(64, 8)
        >>> layer
        QuantizedLinear(input_dims=64, output_dims=8, bias=True, group_size=64, bits=4, mode=affine)
        >>> layer(mx.ones((2, 64))).shape
        (2, 8)
    """

    def __init__(  # noqa: PLR0917 (MLX's signature)
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> None:
        super().__init__()
        input_dims = check_size("QuantizedLinear", "input_dims", input_dims)
        output_dims = check_size("QuantizedLinear", "output_dims", output_dims)
        bound = math.sqrt(1 / input_dims)
        self._pack(mx.random.uniform(-bound, bound, (output_dims, input_dims)), group_size, bits, mode)
        if bias:
            self.bias = mx.zeros((output_dims,))
        self.freeze()

    def _extra_repr(self) -> str:
        output_dims, input_dims = self._shape()
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}, {self._packing()}"

    def __call__(self, x: mx.array) -> mx.array:
        y = self._product(x)
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_linear(
        cls, linear_layer: Module, group_size: int | None = None, bits: int | None = None, mode: str = "affine"
    ) -> QuantizedLinear:
        """Quantises a Linear.

        Args:
            linear_layer: the layer, which stays as it is.
            group_size: as for the class.
            bits: as for the class.
            mode: as for the class.

        Returns:
            A new layer.

        Raises:
            ValueError: if sizes, group size, bits and mode do not fit each other.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.QuantizedLinear.from_linear(nn.Linear(64, 8, bias=False), bits=8)
            QuantizedLinear(input_dims=64, output_dims=8, bias=False, group_size=64, bits=8, mode=affine)
        """
        # Draws a weight that nobody computes, as MLX does: what is drawn afterwards is then the same.
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, False, group_size, bits, mode)
        layer._pack(linear_layer.weight, group_size, bits, mode)
        if "bias" in linear_layer:
            layer.bias = linear_layer.bias
        layer.train(linear_layer.training)
        return layer.freeze()


class QuantizedEmbedding(_Packed):
    """Embedding with a quantised table; rows are dequantised as they are looked up. All of it begins frozen.

    Args:
        num_embeddings: how many vectors there are.
        dims: their size, a multiple of the group size.
        group_size: how many neighbours share a scale; by default 64 for affine, 32 for mxfp4 and mxfp8, 16 for nvfp4.
        bits: bits an element; by default 4, for mxfp8 8.
        mode: "affine", "mxfp4", "mxfp8" or "nvfp4", as for mlxc.quantize.

    Raises:
        ValueError: if sizes, group size, bits and mode do not fit each other.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.QuantizedEmbedding(100, 64, bits=8)
        >>> layer
        QuantizedEmbedding(100, 64, group_size=64, bits=8, mode=affine)
        >>> layer(mx.array([[3, 4]])).shape
        (1, 2, 64)
    """

    def __init__(
        self,
        num_embeddings: int,
        dims: int,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> None:
        super().__init__()
        self.num_embeddings = check_size("QuantizedEmbedding", "num_embeddings", num_embeddings)
        self.dims = check_size("QuantizedEmbedding", "dims", dims)
        weight = mx.random.normal((self.num_embeddings, self.dims), scale=math.sqrt(1 / self.dims))
        self._pack(weight, group_size, bits, mode)
        self.freeze()

    def _extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.dims}, {self._packing()}"

    def __call__(self, x: mx.array) -> mx.array:
        rows = [self[name][x] for name in ("weight", "scales", "biases") if name in self]
        one = rows[0].ndim == 1
        if one:
            rows = [row[None] for row in rows]
        weight, scales, *biases = rows
        y = mx.dequantize(weight, scales, biases[0] if biases else None, self.group_size, self.bits, self.mode)
        return y[0] if one else y

    def as_linear(self, x: mx.array) -> mx.array:
        """Uses the table as the weight of a linear map, as language models do for their output.

        Args:
            x: array whose last axis has size dims.

        Returns:
            An array whose last axis has size num_embeddings.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.QuantizedEmbedding(100, 64).as_linear(mx.ones((2, 64))).shape
            (2, 100)
        """
        return self._product(x)

    @classmethod
    def from_embedding(
        cls, embedding_layer: Module, group_size: int | None = None, bits: int | None = None, mode: str = "affine"
    ) -> QuantizedEmbedding:
        """Quantises an Embedding.

        Args:
            embedding_layer: the layer, which stays as it is.
            group_size: as for the class.
            bits: as for the class.
            mode: as for the class.

        Returns:
            A new layer.

        Raises:
            ValueError: if sizes, group size, bits and mode do not fit each other.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.QuantizedEmbedding.from_embedding(nn.Embedding(10, 64))
            QuantizedEmbedding(10, 64, group_size=64, bits=4, mode=affine)
        """
        layer = cls(*embedding_layer.weight.shape, group_size, bits, mode)
        layer._pack(embedding_layer.weight, group_size, bits, mode)
        layer.train(embedding_layer.training)
        return layer.freeze()


class QQLinear(_Packed):
    """Linear that rounds its input as well as its weight to codes.

    In training the weight is kept in floating point and rounded on each call, so it can be trained; outside of
    training it is packed, and frozen. train and eval change between the two. In exact arithmetic both give the same.

    Args:
        input_dims: size of the last axis of the input, a multiple of the group size.
        output_dims: size of the last axis of the result.
        group_size: how many neighbours share a scale; by default 16 for nvfp4, 32 for mxfp8.
        bits: bits an element; by default 4 for nvfp4, 8 for mxfp8.
        mode: "nvfp4" or "mxfp8".

    Raises:
        ValueError: if sizes, group size, bits and mode do not fit each other.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.QQLinear(64, 8)
        >>> layer(mx.ones((2, 64))).shape, layer.weight.dtype
        ((2, 8), mlxc.float32)
        >>> layer.eval().weight.dtype
        mlxc.uint32
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "nvfp4",
    ) -> None:
        super().__init__()
        input_dims = check_size("QQLinear", "input_dims", input_dims)
        output_dims = check_size("QQLinear", "output_dims", output_dims)
        bound = math.sqrt(1 / input_dims)
        self._set_weight(mx.random.uniform(-bound, bound, (output_dims, input_dims)), group_size, bits, mode)

    def _set_weight(self, weight: mx.array, group_size: int | None, bits: int | None, mode: str) -> None:
        if mode not in BOTH_QUANTIZED:
            raise ValueError(
                f"[QQLinear] Quantized activations are only supported for 'nvfp4' and 'mxfp8' modes, got {mode}."
            )
        self.group_size, self.bits = resolve_mode("QQLinear", group_size, bits, mode)
        if weight.shape[-1] % self.group_size:
            raise ValueError(
                f"[QQLinear] input_dims should be a multiple of the group size {self.group_size}, got "
                f"{weight.shape[-1]}"
            )
        self.mode = mode
        self.weight = weight
        self._quantized = False

    def _extra_repr(self) -> str:
        output_dims, width = self.weight.shape
        input_dims = width * 32 // self.bits if self._quantized else width
        bias = ", bias=True" if "bias" in self else ""
        return f"input_dims={input_dims}, output_dims={output_dims}{bias}, {self._packing()}"

    def quantize(self) -> None:
        """Packs the weight; nothing to do where it is packed already.

        Example:
            >>> import mlxc.nn as nn
            >>> layer = nn.QQLinear(64, 8)
            >>> layer.quantize()
            >>> layer.weight.shape, layer.scales.shape
            ((8, 8), (8, 4))
        """
        if self._quantized:
            return
        self._float_dtype, self._was_frozen = self.weight.dtype, "weight" in self._no_grad
        self.weight, self.scales = mx.quantize(self.weight, self.group_size, self.bits, self.mode)
        self._quantized = True
        self.freeze(keys=["weight", "scales"], recurse=False)

    def dequantize(self) -> None:
        """Unpacks the weight, to the dtype that it had; nothing to do where it is not packed.

        Example:
            >>> import mlxc.nn as nn
            >>> layer = nn.QQLinear(64, 8).eval()
            >>> layer.dequantize()
            >>> layer.weight.shape, layer.weight.dtype
            ((8, 64), mlxc.float32)
        """
        if not self._quantized:
            return
        self.weight = mx.dequantize(
            self.weight, self.scales, None, self.group_size, self.bits, self.mode, dtype=self._float_dtype
        )
        del self.scales
        self._quantized = False
        self._no_grad -= {"weight", "scales"}
        if self._was_frozen:
            self._no_grad.add("weight")

    def _set_training_mode(self, mode: bool) -> None:
        super()._set_training_mode(mode)
        if mode:
            self.dequantize()
        else:
            self.quantize()

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.qqmm(x, self["weight"], self.get("scales"), group_size=self.group_size, bits=self.bits, mode=self.mode)
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_linear(
        cls, linear_layer: Module, group_size: int | None = None, bits: int | None = None, mode: str = "nvfp4"
    ) -> QQLinear:
        """Makes one of a Linear, in the same mode: packed where that is not in training.

        Args:
            linear_layer: the layer, which stays as it is; its bias is taken over.
            group_size: as for the class.
            bits: as for the class.
            mode: as for the class.

        Returns:
            A new layer.

        Raises:
            ValueError: if sizes, group size, bits and mode do not fit each other.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.QQLinear.from_linear(nn.Linear(64, 8, bias=False), mode="mxfp8")
            QQLinear(input_dims=64, output_dims=8, group_size=32, bits=8, mode=mxfp8)
        """
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, group_size, bits, mode)
        layer._set_weight(linear_layer.weight, group_size, bits, mode)
        if "bias" in linear_layer:
            layer.bias = linear_layer.bias
        return layer.train(linear_layer.training)


def quantize(
    model: Module,
    group_size: int | None = None,
    bits: int | None = None,
    *,
    mode: str = "affine",
    quantize_input: bool = False,
    class_predicate: Callable[[str, Module], bool | dict[str, Any]] | None = None,
) -> None:
    """Exchanges layers of a model for quantised ones; all that are picked or, after an error, none.

    Args:
        model: the model, whose leaf modules are exchanged.
        group_size: how many neighbours share a scale; None is the mode's own, see QuantizedLinear.
        bits: bits an element; None is the mode's own.
        mode: "affine", "mxfp4", "mxfp8" or "nvfp4".
        quantize_input: whether layers round their input too (QQLinear; for nvfp4 and mxfp8, and Linear layers only).
        class_predicate: called with the path of a leaf module and the module; returns whether to quantise it, or the
            arguments of its to_quantized as a dict. By default all that have this method (Linear, Embedding).

    Raises:
        ValueError: if a picked module cannot be quantised so, or the predicate returns something else.

    Example:
        >>> import mlxc.nn as nn
        >>> model = nn.Sequential(nn.Embedding(10, 64), nn.Linear(64, 10))
        >>> nn.quantize(model, bits=8, class_predicate=lambda path, layer: isinstance(layer, nn.Linear))
        >>> model
        Sequential(
          (layers.0): Embedding(10, 64)
          (layers.1): QuantizedLinear(input_dims=64, output_dims=10, bias=True, group_size=64, bits=8, mode=affine)
        )
    """
    if not isinstance(model, Module):
        raise TypeError(f"[nn.quantize] model is a Module, got {type(model).__name__}")
    options = {"group_size": group_size, "bits": bits, "mode": mode}
    if quantize_input:
        options["quantize_input"] = True

    def exchange(path: str, layer: Any) -> Any:
        if not isinstance(layer, Module):
            return layer
        picked = hasattr(layer, "to_quantized") if class_predicate is None else class_predicate(path, layer)
        if not isinstance(picked, (bool, dict)):
            raise ValueError(
                f"[nn.quantize] ``class_predicate`` must return a bool or a dict of parameters to pass to "
                f"``to_quantized``, for {path} it returned {type(picked).__name__}"
            )
        if picked is False:
            return layer
        if not hasattr(layer, "to_quantized"):
            raise ValueError(f"[nn.quantize] Unable to quantize {path} of type {type(layer).__name__}")
        try:
            return layer.to_quantized(**(picked if isinstance(picked, dict) else options))
        except ValueError as error:
            raise ValueError(f"[nn.quantize] {path}: {error}") from None

    model.update_modules(tree_map_with_path(exchange, model.leaf_modules(), is_leaf=Module.is_module))
