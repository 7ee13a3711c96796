"""random.multivariate_normal. The same key gives the numbers that MLX draws: standard normal ones times the
symmetric square root of the covariance matrix, which its singular values give.
"""

from . import _ops_elementwise, _ops_plain, _ops_shape
from ._checks import need_array
from ._dtype import float32, float64
from ._ops_contract import matmul
from ._random import normal

__all__ = ["multivariate_normal"]


def multivariate_normal(mean, cov, shape=[], dtype=float32, key=None, stream=None):  # noqa: B006, PLR0917
    """Vectors of the joint normal distribution with a mean and a covariance matrix.

    Args:
        mean: array of shape (..., n).
        cov: array of symmetric positive semi-definite matrices, shape (..., n, n); the leading axes broadcast with
            those of `mean`.
        shape: shape of the result without its last axis, to which the leading axes broadcast; [] is these axes.
        dtype: float32 (the default) or float64.
        key: key to use; None takes the thread's next one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape `(*shape, n)`.

    Raises:
        ValueError: for another dtype, or if the shapes do not fit, or (when evaluated) `cov` is not finite.

    Example:
        >>> mx.random.multivariate_normal(mx.zeros(2), mx.eye(2), (3,), key=mx.random.key(0)).shape
        (3, 2)
    """
    from ._ops_linalg import svd  # no sooner: it brings collections with it

    dtype = float32 if dtype is None else dtype
    if dtype not in (float32, float64):
        raise ValueError(f"[multivariate_normal] dtype must be float32 or float64, not {dtype}")
    mean, cov = need_array(mean, "multivariate_normal"), need_array(cov, "multivariate_normal")
    shapes = f"mean of shape {mean.shape} and cov of shape {cov.shape}"
    if mean.ndim < 1 or cov.ndim < 2 or not mean.shape[-1] == cov.shape[-1] == cov.shape[-2]:
        raise ValueError(f"[multivariate_normal] takes a vector and a square matrix of its size, got {shapes}")
    batch = _ops_shape.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not shape:
        shape = batch
    elif _ops_shape.broadcast_shapes(shape, batch) != shape:
        raise ValueError(f"[multivariate_normal] {shapes} do not broadcast to the shape {shape}")
    u, s, vh = svd(_ops_elementwise.astype(cov, dtype, stream=stream), stream=stream)
    roots = _ops_shape.expand_dims(_ops_plain.sqrt(s, stream=stream), -2, stream=stream)
    root = matmul(_ops_plain.multiply(u, roots, stream=stream), vh, stream=stream)
    drawn = normal((*shape, mean.shape[-1]), dtype, key=key, stream=stream)
    turned = matmul(_ops_shape.expand_dims(drawn, -2, stream=stream), root, stream=stream)
    turned = _ops_shape.squeeze(turned, -2, stream=stream)
    return _ops_plain.add(_ops_elementwise.astype(mean, dtype, stream=stream), turned, stream=stream)
