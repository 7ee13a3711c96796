"""Initial values: functions that make arrays like one that is given. mlxc.nn.init, as mlx.nn.init.

Called with Module.apply, or by models for a parameter. What is drawn comes from the random state of mx.random; with
the same seed the values are those of MLX. The axes of an array of three or more axes are, as in the convolutions,
outputs, places of the kernel, inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, Protocol

import mlxc as mx

__all__ = [
    "constant", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "identity", "normal", "orthogonal",
    "sparse", "uniform",
]  # fmt: skip

Initializer = Callable[[mx.array], mx.array]


class GlorotInitializer(Protocol):
    """What glorot_normal and glorot_uniform return."""

    def __call__(self, a: mx.array, gain: float = 1.0) -> mx.array: ...


class HeInitializer(Protocol):
    """What he_normal and he_uniform return."""

    def __call__(self, a: mx.array, mode: Literal["fan_in", "fan_out"] = "fan_in", gain: float = 1.0) -> mx.array: ...


def _fans(name: str, a: mx.array) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input has."""
    if a.ndim < 2:
        raise ValueError(f"[{name}] the array must have at least 2 axes, got shape {a.shape}")
    places = math.prod(a.shape[1:-1])
    return a.shape[-1] * places, a.shape[0] * places


def _glorot_width(name: str, a: mx.array, share: float, gain: float) -> float:
    # An empty array has no fans to divide by, and no values either.
    return gain * math.sqrt(share / max(sum(_fans(name, a)), 1))


def _he_width(name: str, a: mx.array, mode: str, share: float, gain: float) -> float:
    fan_in, fan_out = _fans(name, a)
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"[{name}] mode must be 'fan_in' or 'fan_out', got {mode!r}")
    return gain * math.sqrt(share / max(fan_in if mode == "fan_in" else fan_out, 1))


def constant(value: float, dtype: mx.Dtype = mx.float32) -> Initializer:
    """Fills with a value.

    Args:
        value: the value.
        dtype: dtype of what is made.

    Returns:
        A function that takes an array and gives one of its shape.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.init.constant(0.5)(mx.zeros((2, 2)))
        array([[0.5, 0.5],
               [0.5, 0.5]], dtype=float32)
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.full(a.shape, value, dtype=dtype)

    return initializer


def normal(mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """Draws from a normal distribution.

    Args:
        mean: its mean.
        std: its standard deviation.
        dtype: dtype of what is made.

    Returns:
        A function that takes an array and gives one of its shape.

    Example:
        >>> import mlxc.nn as nn
        >>> mx.random.seed(0)
        >>> nn.init.normal(mean=1.0, std=0.1)(mx.zeros(3))
        array([1.11379, 0.877905, 0.940846], dtype=float32)
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.random.normal(a.shape, dtype=dtype, loc=mean, scale=std)

    return initializer


def uniform(low: float = 0.0, high: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """Draws evenly from [low, high).

    Args:
        low: lower bound.
        high: upper bound.
        dtype: dtype of what is made.

    Returns:
        A function that takes an array and gives one of its shape.

    Example:
        >>> import mlxc.nn as nn
        >>> mx.random.seed(0)
        >>> nn.init.uniform(low=-1.0)(mx.zeros(3))
        array([0.744829, -0.777897, -0.445839], dtype=float32)
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.random.uniform(low, high, a.shape, dtype=dtype)

    return initializer


def identity(dtype: mx.Dtype = mx.float32) -> Initializer:
    """Makes the identity matrix.

    Args:
        dtype: dtype of what is made.

    Returns:
        A function that takes a square matrix and gives one of its shape. It raises ValueError for another array.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.init.identity()(mx.zeros((2, 2)))
        array([[1, 0],
               [0, 1]], dtype=float32)
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2 or a.shape[0] != a.shape[1]:
            raise ValueError(f"[identity] the array must be a square matrix, got shape {a.shape}")
        return mx.eye(a.shape[0], dtype=dtype)

    return initializer


def glorot_normal(dtype: mx.Dtype = mx.float32) -> GlorotInitializer:
    """Draws from a normal distribution of standard deviation `gain * sqrt(2 / (fan_in + fan_out))`.

    Args:
        dtype: dtype of what is made.

    Returns:
        A function that takes an array of at least 2 axes and `gain` (1 by default), and gives an array of its shape.

    Source:
        Glorot and Bengio 2010, Understanding the difficulty of training deep feedforward neural networks.

    Example:
        >>> import mlxc.nn as nn
        >>> mx.random.seed(0)
        >>> nn.init.glorot_normal()(mx.zeros((1, 3)))
        array([[0.804602, -0.863345, -0.418279]], dtype=float32)
    """

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        return mx.random.normal(a.shape, dtype=dtype, scale=_glorot_width("glorot_normal", a, 2.0, gain))

    return initializer


def glorot_uniform(dtype: mx.Dtype = mx.float32) -> GlorotInitializer:
    """Draws evenly from [-l, l) with `l = gain * sqrt(6 / (fan_in + fan_out))`.

    Args:
        dtype: dtype of what is made.

    Returns:
        A function that takes an array of at least 2 axes and `gain` (1 by default), and gives an array of its shape.

    Source:
        Glorot and Bengio 2010, Understanding the difficulty of training deep feedforward neural networks.

    Example:
        >>> import mlxc.nn as nn
        >>> mx.random.seed(0)
        >>> nn.init.glorot_uniform()(mx.zeros((1, 3)), gain=2.0)
        array([[1.82445, -1.90545, -1.09208]], dtype=float32)
    """

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        limit = _glorot_width("glorot_uniform", a, 6.0, gain)
        return mx.random.uniform(-limit, limit, a.shape, dtype=dtype)

    return initializer


def he_normal(dtype: mx.Dtype = mx.float32) -> HeInitializer:
    """Draws from a normal distribution of standard deviation `gain / sqrt(fan)`.

    Args:
        dtype: dtype of what is made.

    Returns:
        A function that takes an array of at least 2 axes, `mode` ("fan_in" by default, or "fan_out") and `gain` (1 by
        default), and gives an array of its shape.

    Source:
        He et al. 2015, Delving Deep into Rectifiers, arXiv 1502.01852.

    Example:
        >>> import mlxc.nn as nn
        >>> mx.random.seed(0)
        >>> nn.init.he_normal()(mx.zeros((1, 4)), mode="fan_out")
        array([[1.13788, -0.143314, -0.591536, 0.794662]], dtype=float32)
    """

    def initializer(a: mx.array, mode: Literal["fan_in", "fan_out"] = "fan_in", gain: float = 1.0) -> mx.array:
        return mx.random.normal(a.shape, dtype=dtype, scale=_he_width("he_normal", a, mode, 1.0, gain))

    return initializer


def he_uniform(dtype: mx.Dtype = mx.float32) -> HeInitializer:
    """Draws evenly from [-l, l) with `l = gain * sqrt(3 / fan)`.

    Args:
        dtype: dtype of what is made.

    Returns:
        A function that takes an array of at least 2 axes, `mode` ("fan_in" by default, or "fan_out") and `gain` (1 by
        default), and gives an array of its shape.

    Source:
        He et al. 2015, Delving Deep into Rectifiers, arXiv 1502.01852.

    Example:
        >>> import mlxc.nn as nn
        >>> mx.random.seed(0)
        >>> nn.init.he_uniform()(mx.zeros((1, 3)))
        array([[0.744829, -0.777897, -0.445839]], dtype=float32)
    """

    def initializer(a: mx.array, mode: Literal["fan_in", "fan_out"] = "fan_in", gain: float = 1.0) -> mx.array:
        limit = _he_width("he_uniform", a, mode, 3.0, gain)
        return mx.random.uniform(-limit, limit, a.shape, dtype=dtype)

    return initializer


def sparse(sparsity: float, mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """Draws from a normal distribution and sets a share of each row to 0.

    Args:
        sparsity: the share, from 0 to 1; rounded up to a whole number of a row's elements.
        mean: mean of the distribution.
        std: its standard deviation.
        dtype: dtype of what is made.

    Returns:
        A function that takes a matrix and gives one of its shape. It raises ValueError for an array of other than 2
        axes.

    Raises:
        ValueError: if `sparsity` is out of range.

    Source:
        Martens 2010, Deep learning via Hessian-free optimization.

    Example:
        >>> import mlxc.nn as nn
        >>> mx.sum(nn.init.sparse(0.5)(mx.zeros((2, 4))) == 0, axis=1)
        array([2, 2], dtype=int32)
    """
    if not 0 <= sparsity <= 1:
        raise ValueError(f"[sparse] sparsity must be from 0 to 1, got {sparsity}")

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError(f"[sparse] the array must have 2 axes, got shape {a.shape}")
        columns = a.shape[1]
        order = mx.argsort(mx.random.uniform(shape=a.shape), axis=1)
        values = mx.random.normal(a.shape, dtype=dtype, loc=mean, scale=std)
        zeros = mx.zeros((), dtype=dtype)
        return mx.put_along_axis(values, order[:, : math.ceil(sparsity * columns)], zeros, axis=1)

    return initializer


def orthogonal(gain: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """Makes a matrix whose rows (columns, if there are more rows) are orthonormal, times `gain`.

    Args:
        gain: the length of the rows or columns.
        dtype: dtype of what is made.

    Returns:
        A function that takes a matrix and gives one of its shape. It raises ValueError for an array of other than 2
        axes.

    Source:
        Saxe et al. 2013, arXiv 1312.6120; Mezzadri 2006, arXiv math-ph/0609050.

    Example:
        >>> import mlxc.nn as nn
        >>> q = nn.init.orthogonal()(mx.zeros((2, 3)))
        >>> mx.allclose(q @ q.T, mx.eye(2), atol=1e-6)
        array(True, dtype=bool)
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError(f"[orthogonal] the array must have 2 axes, got shape {a.shape}")
        rows, columns = a.shape
        size = max(rows, columns)
        q, r = mx.linalg.qr(mx.random.normal((size, size)), stream=mx.cpu)
        # With a positive diagonal of R the decomposition is unique, and Q evenly distributed.
        q = q * mx.where(mx.diag(r) < 0, -1.0, 1.0)
        return (gain * q[:rows, :columns]).astype(dtype)

    return initializer
