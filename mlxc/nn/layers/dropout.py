"""Dropout: zeros at random in training, of single elements or of whole channels."""

from __future__ import annotations

import mlxc as mx
from mlxc.nn.layers.base import Module

__all__ = ["Dropout", "Dropout2d", "Dropout3d"]


class _Dropout(Module):
    """What the three have in common."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"[{type(self).__name__}] the dropout probability {p} is not in [0, 1)")
        self.p = p

    def _extra_repr(self) -> str:
        return f"p={self.p}"

    def _drop(self, x: mx.array, shape: tuple[int, ...]) -> mx.array:
        """`x` times a mask of a shape that it broadcasts with, scaled so that the expected value stays."""
        kept = mx.random.bernoulli(1 - self.p, shape)
        return (1 / (1 - self.p)) * (kept * x)

    def _drop_channels(self, x: mx.array, dims: int) -> mx.array:
        """Drops channels, which are last, of inputs with this many axes and a batch axis if there is one more."""
        if x.ndim not in {dims, dims + 1}:
            raise ValueError(
                f"[{type(self).__name__}] Received input with {x.ndim} dimensions. Expected {dims} or {dims + 1} "
                f"dimensions, got shape {x.shape}"
            )
        if self.p == 0 or not self.training:
            return x
        batch = x.shape[: x.ndim - dims]
        return self._drop(x, (*batch, *[1] * (dims - 1), x.shape[-1]))


class Dropout(_Dropout):
    """In training, sets each element to zero with probability p and divides the others by 1 - p.

    Draws from the global random state. From Srivastava et al., Dropout, JMLR 15, 2014.

    Args:
        p: the probability.

    Raises:
        ValueError: unless 0 <= p < 1.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.Dropout(0.5)
        >>> sorted(set(layer(mx.ones(100)).tolist()))
        [0.0, 2.0]
        >>> layer.eval()(mx.ones(3))
        array([1, 1, 1], dtype=float32)
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def __call__(self, x: mx.array) -> mx.array:
        return x if self.p == 0 or not self.training else self._drop(x, x.shape)


class Dropout2d(_Dropout):
    """In training, sets whole channels of images to zero with probability p and divides the others by 1 - p.

    Inputs are (N, H, W, C) or (H, W, C). From Tompson et al., Efficient Object Localization Using Convolutional
    Networks, CVPR 2015.

    Args:
        p: the probability.

    Raises:
        ValueError: unless 0 <= p < 1; on call, for another number of axes.

    Example:
        >>> import mlxc.nn as nn
        >>> y = nn.Dropout2d(0.5)(mx.ones((2, 8, 8, 16)))
        >>> mx.array_equal(y.min(axis=(1, 2)), y.max(axis=(1, 2))).item()
        True
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def __call__(self, x: mx.array) -> mx.array:
        return self._drop_channels(x, 3)


class Dropout3d(_Dropout):
    """In training, sets whole channels of volumes to zero with probability p and divides the others by 1 - p.

    Inputs are (N, D, H, W, C) or (D, H, W, C).

    Args:
        p: the probability.

    Raises:
        ValueError: unless 0 <= p < 1; on call, for another number of axes.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Dropout3d(0.1)(mx.ones((2, 4, 4, 4, 3))).shape
        (2, 4, 4, 4, 3)
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def __call__(self, x: mx.array) -> mx.array:
        return self._drop_channels(x, 4)
