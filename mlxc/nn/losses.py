"""Losses: what a model is trained to make small. mlxc.nn.losses, as mlx.nn.losses.

Called by training loops. Each checks its arguments before it computes, computes half precision in float32, reduces
there, and rounds once to the dtype that its arguments promote to. Gradients are finite where a subgradient exists.
"""

from __future__ import annotations

import math

import mlxc as mx
from mlxc.nn._loss_parts import Reduction, check_axis, check_reduction, check_same, difference, reduce, widen
from mlxc.nn.layers.activations import relu, softplus

__all__ = [
    "binary_cross_entropy", "cosine_similarity_loss", "cross_entropy", "gaussian_nll_loss", "hinge_loss", "huber_loss",
    "kl_div_loss", "l1_loss", "log_cosh_loss", "margin_ranking_loss", "mse_loss", "nll_loss", "smooth_l1_loss",
    "triplet_loss",
]  # fmt: skip


# ---- classes -----------------------------------------------------------------------------------------


def cross_entropy(  # noqa: PLR0917 (the order is MLX's)
    logits: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    axis: int = -1,
    label_smoothing: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    """Cross entropy of the softmax of logits and the targets.

    Args:
        logits: real array; the logarithms of the classes' probabilities, up to a number added to all of them.
        targets: integers, the right classes, of the shape of `logits` without the axis; or an array of the shape of
            `logits`, the probability of each class.
        weights: factors of the losses, of their shape before the reduction; 1 by default.
        axis: the axis of the classes.
        label_smoothing: the share of each target, from 0 to below 1, that is spread evenly over all classes.
        reduction: "none", "mean" (over all losses, whatever their weights) or "sum".

    Returns:
        The losses, in the dtype of `logits` for classes, in the one that both promote to for probabilities.

    Raises:
        IndexError: when it is evaluated, if a class is out of range; negative ones are.
        ValueError: if shapes do not fit, or for another `label_smoothing` or `reduction`.
        TypeError: for complex logits, or classes that are no integers.

    Example:
        >>> import mlxc.nn as nn
        >>> logits = mx.array([[2.0, -1.0], [-1.0, 2.0]])
        >>> nn.losses.cross_entropy(logits, mx.array([0, 1]))
        array([0.0485873, 0.0485873], dtype=float32)
        >>> nn.losses.cross_entropy(logits, mx.array([[0.9, 0.1], [0.1, 0.9]]), reduction="mean")
        array(0.348587, dtype=float32)
    """
    name = "cross_entropy"
    check_reduction(name, reduction)
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"[{name}] label_smoothing must be at least 0 and below 1, got {label_smoothing}")
    axis = check_axis(name, logits, axis)
    shape = logits.shape[:axis] + logits.shape[axis + 1 :]
    if targets.shape == logits.shape:
        dtype, wide, probabilities = widen(logits, targets)
        loss = _cross_entropy_of_probabilities(wide, probabilities, axis, label_smoothing)
    elif targets.shape == shape:
        dtype, wide = widen(logits)
        loss = mx.fast.cross_entropy(mx.moveaxis(wide, axis, -1), targets)
        if label_smoothing:
            wide = _less_maximum(wide, axis)
            even = mx.logsumexp(wide, axis=axis) - mx.mean(wide, axis=axis)
            loss = (1 - label_smoothing) * loss + label_smoothing * even
    else:
        raise ValueError(
            f"[{name}] targets must have shape {shape} for classes or {logits.shape} for probabilities along axis "
            f"{axis}, got {targets.shape}"
        )
    if weights is not None:
        if weights.shape != shape:
            raise ValueError(f"[{name}] weights must have shape {shape}, got {weights.shape}")
        dtype = mx.result_type(dtype, weights)
        loss = loss * weights
    return reduce(loss, reduction, dtype)


def _less_maximum(logits: mx.array, axis: int) -> mx.array:
    """Logits whose largest is 0: what is left of large ones keeps its digits."""
    return logits - mx.stop_gradient(mx.max(logits, axis=axis, keepdims=True))


def _cross_entropy_of_probabilities(
    logits: mx.array, probabilities: mx.array, axis: int, label_smoothing: float
) -> mx.array:
    if label_smoothing:
        probabilities = (1 - label_smoothing) * probabilities + label_smoothing / logits.shape[axis]
    # Probabilities that have another sum than 1, say a row of zeros for what does not count, weigh what they add up to.
    total = mx.sum(probabilities, axis=axis)
    logits = _less_maximum(logits, axis)
    return mx.logsumexp(logits, axis=axis) * total - mx.sum(logits * probabilities, axis=axis)


def binary_cross_entropy(
    inputs: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    with_logits: bool = True,
    reduction: Reduction = "mean",
) -> mx.array:
    """Cross entropy of two classes, element by element.

    Args:
        inputs: logits, or probabilities of class 1.
        targets: array of the same shape, 0 or 1 or the probability of class 1.
        weights: factors of the losses, of the same shape; 1 by default.
        with_logits: whether `inputs` are logits; else logarithms of probabilities are taken to be at least -100.
        reduction: "none", "mean" (whatever the weights) or "sum".

    Returns:
        The losses, in the dtype that the arguments promote to.

    Raises:
        ValueError: if shapes differ, or for another `reduction`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.losses.binary_cross_entropy(mx.array([0.0, 200.0]), mx.array([1, 0]), reduction="none")
        array([0.693147, 200], dtype=float32)
        >>> nn.losses.binary_cross_entropy(mx.array([0.0, 0.9]), mx.array([1, 1]), with_logits=False)
        array(50.0527, dtype=float32)
    """
    name = "binary_cross_entropy"
    check_reduction(name, reduction)
    check_same(name, inputs=inputs, targets=targets)
    dtype, inputs, targets = widen(inputs, targets)
    if with_logits:
        # softplus(x) - t x, with the large parts taken off first: what is left is exact for t of 0 and 1.
        negative = inputs < 0
        large = mx.where(negative, 0, inputs) - inputs * targets
        loss = large + mx.log1p(mx.exp(mx.where(negative, inputs, -inputs)))
    else:
        loss = -(targets * _log_probability(inputs) + (1 - targets) * _log_probability(1 - inputs))
    if weights is not None:
        if weights.shape != loss.shape:
            raise ValueError(f"[{name}] weights must have shape {loss.shape}, got {weights.shape}")
        dtype = mx.result_type(dtype, weights)
        loss = loss * weights
    return reduce(loss, reduction, dtype)


def _log_probability(p: mx.array) -> mx.array:
    """log(p), at least -100; its gradient is 0 at p = 0."""
    zero = p == 0
    return mx.where(zero, -100.0, mx.maximum(mx.log(mx.where(zero, 1, p)), -100.0))


def nll_loss(inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none") -> mx.array:
    """Negative log likelihood: minus the logarithms of the right classes' probabilities.

    Args:
        inputs: logarithms of the classes' probabilities.
        targets: integers, the right classes, of the shape of `inputs` without the axis.
        axis: the axis of the classes.
        reduction: "none", "mean" or "sum".

    Returns:
        The losses, in the dtype of `inputs`.

    Raises:
        IndexError: when it is evaluated, if a class is out of range; negative ones are.
        ValueError: if shapes do not fit, or for another `reduction`.
        TypeError: for classes that are no integers.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.losses.nll_loss(mx.array([[-0.1, -2.4], [-0.7, -0.7]]), mx.array([1, 0]))
        array([2.4, 0.7], dtype=float32)
    """
    name = "nll_loss"
    check_reduction(name, reduction)
    axis = check_axis(name, inputs, axis)
    shape = inputs.shape[:axis] + inputs.shape[axis + 1 :]
    if targets.shape != shape:
        raise ValueError(f"[{name}] targets must have shape {shape}, got {targets.shape}")
    dtype, inputs = widen(inputs)
    # Counting from the end is for indices; a class of -1 is a mistake or a mark.
    places = mx.where(targets < 0, targets - inputs.shape[axis], targets)
    loss = -mx.take_along_axis(inputs, mx.expand_dims(places, axis), axis=axis)
    return reduce(mx.squeeze(loss, axis), reduction, dtype)


def kl_div_loss(inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none") -> mx.array:
    """Kullback-Leibler divergence: the sum of `exp(targets) * (targets - inputs)` along an axis.

    Args:
        inputs: logarithms of the predicted probabilities.
        targets: logarithms of the true probabilities; -inf, a probability of 0, adds nothing.
        axis: the axis of the classes.
        reduction: "none", "mean" or "sum".

    Returns:
        The losses, in the dtype that the arguments promote to.

    Raises:
        ValueError: if shapes do not broadcast, or for another `reduction`.

    Example:
        >>> import mlxc.nn as nn
        >>> p, q = mx.log(mx.array([0.5, 0.5])), mx.log(mx.array([0.25, 0.75]))
        >>> nn.losses.kl_div_loss(q, p)
        array(0.143841, dtype=float32)
    """
    check_reduction("kl_div_loss", reduction)
    dtype, inputs, targets = widen(inputs, targets)
    never = mx.isneginf(targets)
    safe = mx.where(never, 0, targets)
    terms = mx.where(never, 0, mx.exp(safe) * (safe - inputs))
    return reduce(mx.sum(terms, axis=axis), reduction, dtype)


# ---- numbers -----------------------------------------------------------------------------------------


def l1_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """Magnitude of the error.

    Args:
        predictions: what the model says.
        targets: what is right, of the same shape.
        reduction: "none", "mean" or "sum".

    Returns:
        The losses, in the dtype that the arguments promote to.

    Raises:
        ValueError: if shapes differ, or for another `reduction`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.losses.l1_loss(mx.array([1.0, 2.0]), mx.array([1.5, -2.0]))
        array(2.25, dtype=float32)
    """
    check_reduction("l1_loss", reduction)
    check_same("l1_loss", predictions=predictions, targets=targets)
    dtype, predictions, targets = widen(predictions, targets)
    return reduce(mx.abs(difference(predictions, targets)), reduction, dtype)


def mse_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """Square of the error.

    Args:
        predictions: what the model says.
        targets: what is right, of the same shape.
        reduction: "none", "mean" or "sum".

    Returns:
        The losses, in the dtype that the arguments promote to.

    Raises:
        ValueError: if shapes differ, or for another `reduction`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.losses.mse_loss(mx.array([1.0, 2.0]), mx.array([1.5, -2.0]))
        array(8.125, dtype=float32)
    """
    check_reduction("mse_loss", reduction)
    check_same("mse_loss", predictions=predictions, targets=targets)
    dtype, predictions, targets = widen(predictions, targets)
    return reduce(mx.square(difference(predictions, targets)), reduction, dtype)


def smooth_l1_loss(
    predictions: mx.array, targets: mx.array, beta: float = 1.0, reduction: Reduction = "mean"
) -> mx.array:
    """`error**2 / (2 beta)` for errors of magnitude below `beta`, else the magnitude less `beta / 2`.

    Args:
        predictions: what the model says.
        targets: what is right, of the same shape.
        beta: where the parabola ends; 0 gives l1_loss.
        reduction: "none", "mean" or "sum".

    Returns:
        The losses, in the dtype that the arguments promote to.

    Raises:
        ValueError: if shapes differ, if `beta` is negative, or for another `reduction`.

    Source:
        Girshick 2015, Fast R-CNN, arXiv 1504.08083.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.losses.smooth_l1_loss(mx.array([1.0, 2.0]), mx.array([1.5, -2.0]), reduction="none")
        array([0.125, 3.5], dtype=float32)
    """
    check_reduction("smooth_l1_loss", reduction)
    check_same("smooth_l1_loss", predictions=predictions, targets=targets)
    if beta < 0:
        raise ValueError(f"[smooth_l1_loss] beta must not be negative, got {beta}")
    dtype, predictions, targets = widen(predictions, targets)
    error = difference(predictions, targets)
    size = mx.abs(error)
    if beta == 0:
        return reduce(size, reduction, dtype)
    loss = mx.where(size < beta, mx.square(error) * (0.5 / beta), size - 0.5 * beta)
    return reduce(loss, reduction, dtype)


def huber_loss(inputs: mx.array, targets: mx.array, delta: float = 1.0, reduction: Reduction = "none") -> mx.array:
    """`error**2 / 2` for errors of magnitude up to `delta`, else `delta * (magnitude - delta / 2)`.

    Args:
        inputs: what the model says.
        targets: what is right, of a shape that broadcasts with that of `inputs`.
        delta: where the parabola ends.
        reduction: "none", "mean" or "sum".

    Returns:
        The losses, in the dtype that the arguments promote to.

    Raises:
        ValueError: if shapes do not broadcast, if `delta` is negative, or for another `reduction`.

    Source:
        Huber 1964, Robust Estimation of a Location Parameter.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.losses.huber_loss(mx.array([1.0, 2.0]), mx.array([1.5, -2.0]))
        array([0.125, 3.5], dtype=float32)
    """
    check_reduction("huber_loss", reduction)
    if delta < 0:
        raise ValueError(f"[huber_loss] delta must not be negative, got {delta}")
    dtype, inputs, targets = widen(inputs, targets)
    error = difference(inputs, targets)
    size = mx.abs(error)
    loss = mx.where(size <= delta, 0.5 * mx.square(error), delta * (size - 0.5 * delta))
    return reduce(loss, reduction, dtype)


def log_cosh_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    """Logarithm of the hyperbolic cosine of the error, without overflow and accurate for small errors.

    Args:
        inputs: what the model says.
        targets: what is right, of a shape that broadcasts with that of `inputs`.
        reduction: "none", "mean" or "sum".

    Returns:
        The losses, in the dtype that the arguments promote to.

    Raises:
        ValueError: if shapes do not broadcast, or for another `reduction`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.losses.log_cosh_loss(mx.array([1.0, 1000.0]), mx.array([1.5, 0.0]))
        array([0.120115, 999.307], dtype=float32)
    """
    check_reduction("log_cosh_loss", reduction)
    dtype, inputs, targets = widen(inputs, targets)
    error = difference(inputs, targets)
    small = mx.abs(error) < 1
    # log(cosh(e)) is log(1 + 2 sinh(e / 2)²) and e + softplus(-2 e) - log(2); the second cancels near 0.
    near = mx.log1p(2 * mx.square(mx.sinh(0.5 * mx.where(small, error, 0))))
    loss = mx.where(small, near, error + softplus(-2 * error) - math.log(2))
    return reduce(loss, reduction, dtype)


def gaussian_nll_loss(  # noqa: PLR0917 (the order is MLX's)
    inputs: mx.array,
    targets: mx.array,
    vars: mx.array,
    full: bool = False,
    eps: float = 1e-6,
    reduction: Reduction = "mean",
) -> mx.array:
    """Negative log likelihood of targets under normal distributions: `(log(v) + (inputs - targets)**2 / v) / 2`.

    Args:
        inputs: means of the distributions.
        targets: what is right, of the same shape.
        vars: variances `v`, of the same shape; less than `eps` counts as `eps`.
        full: whether to add the constant `log(2 pi) / 2`.
        eps: the least variance.
        reduction: "none", "mean" or "sum".

    Returns:
        The losses, in the dtype that the arguments promote to.

    Raises:
        ValueError: if shapes differ, or for another `reduction`.

    Source:
        Nix and Weigend 1994, Estimating the mean and variance of the target probability distribution.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.losses.gaussian_nll_loss(mx.array([1.0]), mx.array([3.0]), mx.array([4.0]))
        array(1.19315, dtype=float32)
    """
    check_reduction("gaussian_nll_loss", reduction)
    check_same("gaussian_nll_loss", inputs=inputs, targets=targets, vars=vars)
    dtype, inputs, targets, vars = widen(inputs, targets, vars)
    vars = mx.maximum(vars, eps)
    loss = 0.5 * (mx.log(vars) + mx.square(targets - inputs) / vars)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduce(loss, reduction, dtype)


# ---- margins and distances -----------------------------------------------------------------------------


def hinge_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    """`max(1 - inputs * targets, 0)`.

    Args:
        inputs: what the model says.
        targets: -1 or 1, of a shape that broadcasts with that of `inputs`.
        reduction: "none", "mean" or "sum".

    Returns:
        The losses, in the dtype that the arguments promote to.

    Raises:
        ValueError: if shapes do not broadcast, or for another `reduction`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.losses.hinge_loss(mx.array([0.5, 0.5, 3.0]), mx.array([1, -1, 1]))
        array([0.5, 1.5, 0], dtype=float32)
    """
    check_reduction("hinge_loss", reduction)
    dtype, inputs, targets = widen(inputs, targets)
    return reduce(relu(1 - inputs * targets), reduction, dtype)


def margin_ranking_loss(
    inputs1: mx.array,
    inputs2: mx.array,
    targets: mx.array,
    margin: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    """`max(margin - targets * (inputs1 - inputs2), 0)`: pairs are to be in order and apart by a margin.

    Args:
        inputs1: scores of the firsts of the pairs.
        inputs2: scores of the seconds, of the same shape.
        targets: 1 where the first is to have the higher score, else -1; of the same shape.
        margin: how far apart the scores are to be.
        reduction: "none", "mean" or "sum".

    Returns:
        The losses, in the dtype that the arguments promote to.

    Raises:
        ValueError: if shapes differ, or for another `reduction`.

    Example:
        >>> import mlxc.nn as nn
        >>> a, b = mx.array([1.0, 1.0]), mx.array([0.0, 3.0])
        >>> nn.losses.margin_ranking_loss(a, b, mx.array([1, 1]), margin=0.5)
        array([0, 2.5], dtype=float32)
    """
    name = "margin_ranking_loss"
    check_reduction(name, reduction)
    check_same(name, inputs1=inputs1, inputs2=inputs2, targets=targets)
    dtype, inputs1, inputs2, targets = widen(inputs1, inputs2, targets)
    return reduce(relu(margin - targets * (inputs1 - inputs2)), reduction, dtype)


def triplet_loss(  # noqa: PLR0917 (the order is MLX's)
    anchors: mx.array,
    positives: mx.array,
    negatives: mx.array,
    axis: int = -1,
    p: float = 2,
    margin: float = 1.0,
    eps: float = 1e-6,
    reduction: Reduction = "none",
) -> mx.array:
    """`max(|anchors - positives| - |anchors - negatives| + margin, 0)` with p-norms along an axis.

    Args:
        anchors: the samples.
        positives: what is to be near to them.
        negatives: what is to be farther from them, by the margin.
        axis: the axis of the vectors.
        p: degree of the norm, `(sum(|d|**p) + eps) ** (1 / p)`; math.inf is the largest magnitude.
        margin: how much farther.
        eps: added to the sums of powers.
        reduction: "none", "mean" or "sum".

    Returns:
        The losses, in the dtype that the arguments promote to.

    Raises:
        ValueError: if shapes do not broadcast, if `p` is not positive, or for another `reduction`.

    Source:
        Balntas et al. 2016, Learning local feature descriptors with triplets and shallow convolutional networks.

    Example:
        >>> import mlxc.nn as nn
        >>> a, near, far = mx.array([[0.0, 0.0]]), mx.array([[3.0, 4.0]]), mx.array([[0.0, 5.5]])
        >>> nn.losses.triplet_loss(a, near, far)
        array([0.5], dtype=float32)
    """
    check_reduction("triplet_loss", reduction)
    if not p > 0:
        raise ValueError(f"[triplet_loss] p must be positive, got {p}")
    dtype, anchors, positives, negatives = widen(anchors, positives, negatives)
    near, far = (_distance(anchors - other, axis, p, eps) for other in (positives, negatives))
    return reduce(relu(near - far + margin), reduction, dtype)


def _distance(difference: mx.array, axis: int, p: float, eps: float) -> mx.array:
    size = mx.abs(difference)
    if math.isinf(p):
        return mx.max(size, axis=axis)
    powers = mx.sum(mx.square(size) if p == 2 else size**p, axis=axis) + eps
    # A root has no slope at 0, which only eps = 0 lets through.
    zero = powers == 0
    powers = mx.where(zero, 1, powers)
    return mx.where(zero, 0, mx.sqrt(powers) if p == 2 else powers ** (1 / p))


def cosine_similarity_loss(
    x1: mx.array, x2: mx.array, axis: int = 1, eps: float = 1e-8, reduction: Reduction = "none"
) -> mx.array:
    """Cosine of the angle between vectors along an axis: `x1 . x2 / max(|x1| |x2|, eps)`.

    Args:
        x1: the first vectors.
        x2: the second ones, of a shape that broadcasts with that of `x1`.
        axis: the axis of the vectors.
        eps: the least denominator.
        reduction: "none", "mean" or "sum".

    Returns:
        The cosines, in the dtype that the arguments promote to; 0 where a vector is.

    Raises:
        ValueError: if shapes do not broadcast, or for another `reduction`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.losses.cosine_similarity_loss(mx.array([[1.0, 1.0]]), mx.array([[0.0, 2.0]]))
        array([0.707107], dtype=float32)
    """
    check_reduction("cosine_similarity_loss", reduction)
    dtype, x1, x2 = widen(x1, x2)
    lengths = mx.linalg.norm(x1, axis=axis) * mx.linalg.norm(x2, axis=axis)
    return reduce(mx.sum(x1 * x2, axis=axis) / mx.maximum(lengths, eps), reduction, dtype)
