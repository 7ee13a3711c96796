"""Layers that normalise: LayerNorm and RMSNorm over the last axis, BatchNorm, InstanceNorm and GroupNorm over more.

Means and variances are computed in float32 at least, whatever the dtype of the input.
"""

from __future__ import annotations

from typing import Any, Self

import mlxc as mx
from mlxc.nn.layers._checks import check_last, check_size
from mlxc.nn.layers.base import Module

__all__ = ["BatchNorm", "GroupNorm", "InstanceNorm", "LayerNorm", "RMSNorm"]

HALF = (mx.float16, mx.bfloat16)


def _wide(x: mx.array) -> mx.array:
    """Half precision as float32: the square of a large value would overflow, and a mean of many lose its digits."""
    return x.astype(mx.float32) if x.dtype in HALF else x


class LayerNorm(Module):
    """Layer normalisation of the last axis: `(x - mean) / sqrt(variance + eps) * weight + bias`.

    `weight` begins as ones, `bias` as zeros, both of shape (dims,). Computed in float32 at least. From Ba, Kiros and
    Hinton, Layer Normalization, arXiv:1607.06450.

    Args:
        dims: size of the last axis.
        eps: added to the variance.
        affine: whether there is a weight, and a bias if wanted.
        bias: whether there is a bias beside the weight.

    Raises:
        ValueError: on call, if the last axis of the input has another size.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.LayerNorm(2, eps=0.0)(mx.array([[1.0, 3.0]]))
        array([[-1, 1]], dtype=float32)
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = True, bias: bool = True) -> None:
        super().__init__()
        self.dims = check_size("LayerNorm", "dims", dims)
        self.eps = eps
        if affine:
            self.weight = mx.ones((self.dims,))
            if bias:
                self.bias = mx.zeros((self.dims,))

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        check_last("LayerNorm", x, self.dims)
        return mx.fast.layer_norm(x, self.get("weight"), self.get("bias"), self.eps)


class RMSNorm(Module):
    """Root-mean-square normalisation of the last axis: `x / sqrt(mean(x ** 2) + eps) * weight`.

    `weight` begins as ones, of shape (dims,). Computed in float32 at least. From Zhang and Sennrich, Root Mean Square
    Layer Normalization, arXiv:1910.07467.

    Args:
        dims: size of the last axis.
        eps: added to the mean square.

    Raises:
        ValueError: on call, if the last axis of the input has another size.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.RMSNorm(2, eps=0.0)(mx.array([[1.0, 7.0]]))
        array([[0.2, 1.4]], dtype=float32)
    """

    def __init__(self, dims: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = mx.ones((check_size("RMSNorm", "dims", dims),))
        self.eps = eps

    def _extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"

    def __call__(self, x: mx.array) -> mx.array:
        weight = self["weight"]
        check_last("RMSNorm", x, weight.shape[0])
        return mx.fast.rms_norm(x, weight, self.eps)


class InstanceNorm(Module):
    """Normalises each channel of each sample over the axes between: `(x - mean) / sqrt(variance + eps)`.

    Inputs are (N, ..., C) with at least three axes. With `affine`, the result is multiplied by `weight` and `bias` is
    added, which begin as ones and zeros of shape (dims,). From Ulyanov, Vedaldi and Lempitsky, Instance Normalization,
    arXiv:1607.08022.

    Args:
        dims: number of channels.
        eps: added to the variance.
        affine: whether there are a weight and a bias.

    Raises:
        ValueError: on call, if there are fewer axes or another number of channels.

    Example:
        >>> import mlxc.nn as nn
        >>> y = nn.InstanceNorm(3)(mx.random.normal((2, 50, 3)) + 7)
        >>> mx.allclose(y.mean(1), mx.zeros((2, 3)), atol=1e-5).item()
        True
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = False) -> None:
        super().__init__()
        self.dims = check_size("InstanceNorm", "dims", dims)
        self.eps = eps
        if affine:
            self.weight = mx.ones((self.dims,))
            self.bias = mx.zeros((self.dims,))

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 3:
            raise ValueError(
                f"[InstanceNorm] InstanceNorm expects inputs with at least 3 dimensions (N, ..., C) but the input has "
                f"{x.ndim} dimensions."
            )
        check_last("InstanceNorm", x, self.dims)
        wide = _wide(x)
        axes = tuple(range(1, x.ndim - 1))
        mean = mx.mean(wide, axis=axes, keepdims=True)
        variance = mx.var(wide, axis=axes, keepdims=True)
        y = ((wide - mean) * mx.rsqrt(variance + self.eps)).astype(x.dtype)
        return self.weight * y + self.bias if "weight" in self else y


class GroupNorm(Module):
    """Normalises groups of channels of each sample, over the axes between too.

    Inputs are (N, ..., C). Group g of G has the channels g, g + G, g + 2 G and so on; with `pytorch_compatible` it has
    C / G neighbouring channels. With `affine`, the result is multiplied by `weight` and `bias` is added, which begin
    as ones and zeros of shape (dims,). From Wu and He, Group Normalization, arXiv:1803.08494.

    Args:
        num_groups: number of groups.
        dims: number of channels, a multiple of it.
        eps: added to the variance.
        affine: whether there are a weight and a bias.
        pytorch_compatible: which channels make a group.

    Raises:
        ValueError: if the groups do not divide the channels; on call, for another number of channels.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.GroupNorm(2, 4, eps=0.0, pytorch_compatible=True)(mx.array([[1.0, 3.0, 5.0, 6.0]]))
        array([[-1, 1, -1, 1]], dtype=float32)
    """

    def __init__(
        self, num_groups: int, dims: int, eps: float = 1e-5, affine: bool = True, pytorch_compatible: bool = False
    ) -> None:
        super().__init__()
        self.num_groups = check_size("GroupNorm", "num_groups", num_groups)
        self.dims = check_size("GroupNorm", "dims", dims)
        if self.dims % self.num_groups:
            raise ValueError(
                f"[GroupNorm] The number of features ({dims}) must be evenly divisible by the number of groups "
                f"({num_groups})."
            )
        self.eps = eps
        self.pytorch_compatible = pytorch_compatible
        if affine:
            self.bias = mx.zeros((self.dims,))
            self.weight = mx.ones((self.dims,))

    def _extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.dims}, eps={self.eps}, affine={'weight' in self}, "
            f"pytorch_compatible={self.pytorch_compatible}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 2:
            raise ValueError(f"[GroupNorm] the input should have at least 2 axes (N, ..., C), got shape {x.shape}")
        check_last("GroupNorm", x, self.dims)
        batch, groups, size = x.shape[0], self.num_groups, self.dims // self.num_groups
        # Each group as one row, which layer normalisation then takes.
        if self.pytorch_compatible:
            split = x.reshape(batch, -1, groups, size).swapaxes(1, 2)
        else:
            split = x.reshape(batch, -1, size, groups).transpose(0, 3, 1, 2)
        rows = mx.fast.layer_norm(split.reshape(batch, groups, -1), None, None, self.eps).reshape(split.shape)
        y = (rows.swapaxes(1, 2) if self.pytorch_compatible else rows.transpose(0, 2, 3, 1)).reshape(x.shape)
        return self.weight * y + self.bias if "weight" in self else y


class BatchNorm(Module):
    """Normalises each channel over the whole batch: `(x - mean) / sqrt(variance + eps)`.

    Inputs are (N, C), (N, L, C) or (N, H, W, C). In training the batch's own mean and variance are used, and running
    averages of them kept in `running_mean` and `running_var` (the unbiased variance): these are used otherwise. They
    are parameters that are saved and loaded, but always frozen. With `affine`, the result is multiplied by `weight` and
    `bias` is added, which begin as ones and zeros. From Ioffe and Szegedy, Batch Normalization, arXiv:1502.03167.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: share of the new value in a running average.
        affine: whether there are a weight and a bias.
        track_running_stats: whether to keep running averages; without, the batch's own values are used always.

    Raises:
        ValueError: on call, for another number of axes or channels, or in training with one value a channel.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.BatchNorm(2, eps=0.0)
        >>> layer(mx.array([[1.0, 2.0], [3.0, 6.0]]))
        array([[-1, -1],
               [1, 1]], dtype=float32)
        >>> layer.running_mean
        array([0.2, 0.4], dtype=float32)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = check_size("BatchNorm", "num_features", num_features)
        self.eps = eps
        self.momentum = momentum
        self.track_running_stats = track_running_stats
        shape = (self.num_features,)
        if affine:
            self.weight = mx.ones(shape)
            self.bias = mx.zeros(shape)
        if track_running_stats:
            self.running_mean = mx.zeros(shape)
            self.running_var = mx.ones(shape)
            self.freeze(keys=["running_mean", "running_var"], recurse=False)

    def unfreeze(self, *args: Any, **kwargs: Any) -> Self:
        """Takes back freeze, but for the running averages, which are never trained.

        Args:
            *args: as for Module.unfreeze.
            **kwargs: as for Module.unfreeze.

        Returns:
            The module itself.

        Example:
            >>> import mlxc.nn as nn
            >>> sorted(nn.BatchNorm(2).unfreeze().trainable_parameters())
            ['bias', 'weight']
        """
        super().unfreeze(*args, **kwargs)
        return self.freeze(keys=["running_mean", "running_var"], recurse=False)

    def _extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={'weight' in self}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _batch_statistics(self, x: mx.array) -> tuple[mx.array, mx.array]:
        """Mean and variance of each channel; in training the running averages take them up."""
        wide = _wide(x)
        axes = tuple(range(x.ndim - 1))
        count = x.size // self.num_features
        if self.training and count == 1:
            raise ValueError(
                f"[BatchNorm] BatchNorm training requires more than one value per channel, got shape {x.shape}"
            )
        mean, variance = mx.mean(wide, axis=axes), mx.var(wide, axis=axes)
        if self.training and "running_mean" in self and count:
            share = self.momentum
            for name, new in (("running_mean", mean), ("running_var", variance * (count / (count - 1)))):
                old = self[name]
                self[name] = ((1 - share) * old + share * mx.stop_gradient(new)).astype(old.dtype)
        return mean, variance

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim not in {2, 3, 4}:
            raise ValueError(
                f"[BatchNorm] Expected input tensor to have 2, 3 or 4 dimensions, but got {x.ndim}, shape {x.shape}"
            )
        check_last("BatchNorm", x, self.num_features)
        if self.training or "running_mean" not in self:
            mean, variance = self._batch_statistics(x)
        else:
            mean, variance = self.running_mean, self.running_var
        y = ((_wide(x) - mean) * mx.rsqrt(variance + self.eps)).astype(x.dtype)
        return self.weight * y + self.bias if "weight" in self else y
