"""Activations as layers, for nn.Sequential and for models that take a layer as an argument.

Each calls the function of activations.py that it names; what that does is described there. Only PReLU has parameters.
"""

from __future__ import annotations

import mlxc as mx
from mlxc.nn.layers._checks import check_size
from mlxc.nn.layers.activations import (
    celu,
    elu,
    gelu,
    gelu_approx,
    gelu_fast_approx,
    glu,
    hard_shrink,
    hard_tanh,
    hardswish,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    mish,
    prelu,
    relu,
    relu2,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    step,
    tanh,
)
from mlxc.nn.layers.base import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "HardShrink",
    "HardTanh",
    "Hardswish",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "ReLU",
    "ReLU2",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Step",
    "Tanh",
]  # fmt: skip

_GELUS = {"none": gelu, "precise": gelu_approx, "tanh": gelu_approx, "fast": gelu_fast_approx}


class CELU(Module):
    """nn.celu as a layer: elu with a continuous derivative.

    Args:
        alpha: minus the limit far below 0.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.CELU(0.5)(mx.array([-1.0, 2.0]))
        array([-0.432332, 2], dtype=float32)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha

    def _extra_repr(self) -> str:
        return f"alpha={self._alpha}"

    def __call__(self, x: mx.array) -> mx.array:
        return celu(x, self._alpha)


class ELU(Module):
    """nn.elu as a layer: x where it is positive, else alpha (exp(x) - 1).

    Args:
        alpha: minus the limit far below 0.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.ELU()(mx.array([-1.0, 2.0]))
        array([-0.632121, 2], dtype=float32)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha

    def _extra_repr(self) -> str:
        return f"alpha={self._alpha}"

    def __call__(self, x: mx.array) -> mx.array:
        return elu(x, self._alpha)


class GELU(Module):
    """nn.gelu as a layer, or one of its approximations.

    Args:
        approx: "none" for nn.gelu, "precise" or "tanh" for nn.gelu_approx, "fast" for nn.gelu_fast_approx.

    Raises:
        ValueError: for another `approx`.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.GELU()(mx.array([-1.0, 2.0]))
        array([-0.158655, 1.9545], dtype=float32)
        >>> nn.GELU("tanh")
        GELU(approx='tanh')
    """

    def __init__(self, approx: str = "none") -> None:
        super().__init__()
        if approx not in _GELUS:
            raise ValueError(f"[GELU] approx must be one of {', '.join(map(repr, _GELUS))}, got {approx!r}")
        self._approx = approx

    def _extra_repr(self) -> str:
        return f"approx={self._approx!r}"

    def __call__(self, x: mx.array) -> mx.array:
        return _GELUS[self._approx](x)


class GLU(Module):
    """nn.glu as a layer: the first half of an axis times the sigmoid of the second.

    Args:
        axis: the axis to halve.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.GLU()(mx.array([1.0, 2.0, 0.0, 100.0]))
        array([0.5, 2], dtype=float32)
    """

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def _extra_repr(self) -> str:
        return f"axis={self.axis}"

    def __call__(self, x: mx.array) -> mx.array:
        return glu(x, self.axis)


class HardShrink(Module):
    """nn.hard_shrink as a layer: x, but 0 where its magnitude is at most lambd.

    Args:
        lambd: the half width of what becomes 0.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.HardShrink()(mx.array([-2.0, 0.3]))
        array([-2, 0], dtype=float32)
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def _extra_repr(self) -> str:
        return f"lambd={self.lambd}"

    def __call__(self, x: mx.array) -> mx.array:
        return hard_shrink(x, self.lambd)


class HardTanh(Module):
    """nn.hard_tanh as a layer: x, cut off at -1 and 1.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.HardTanh()(mx.array([-3.0, 0.5]))
        array([-1, 0.5], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return hard_tanh(x)


class Hardswish(Module):
    """nn.hardswish as a layer: x relu6(x + 3) / 6.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Hardswish()(mx.array([0.0, 1.0, 4.0]))
        array([0, 0.666667, 4], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return hardswish(x)


class LeakyReLU(Module):
    """nn.leaky_relu as a layer: x where it is not negative, else negative_slope x.

    Args:
        negative_slope: slope below 0.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.LeakyReLU(0.5)(mx.array([-2.0, 3.0]))
        array([-1, 3], dtype=float32)
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self._negative_slope = negative_slope

    def _extra_repr(self) -> str:
        return f"negative_slope={self._negative_slope}"

    def __call__(self, x: mx.array) -> mx.array:
        return leaky_relu(x, self._negative_slope)


class LogSigmoid(Module):
    """nn.log_sigmoid as a layer: the logarithm of the logistic function.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.LogSigmoid()(mx.array([0.0]))
        array([-0.693147], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return log_sigmoid(x)


class LogSoftmax(Module):
    """nn.log_softmax as a layer: the logarithm of softmax over the last axis.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.LogSoftmax()(mx.array([1000.0, 1000.0]))
        array([-0.693147, -0.693147], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return log_softmax(x)


class Mish(Module):
    """nn.mish as a layer: x tanh(softplus(x)).

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Mish()(mx.array([-1.0, 2.0]))
        array([-0.303401, 1.94396], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return mish(x)


class PReLU(Module):
    """nn.prelu as a layer: a leaky relu that learns its slope below 0, `weight` of shape (num_parameters,).

    Args:
        num_parameters: 1, or a slope for each place of the last axis of the input.
        init: what the slopes begin with.

    Raises:
        ValueError: if `num_parameters` is not positive.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.PReLU()(mx.array([-2.0, 3.0]))
        array([-0.5, 3], dtype=float32)
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.weight = mx.full((check_size("PReLU", "num_parameters", num_parameters),), init)

    def _extra_repr(self) -> str:
        return f"num_parameters={self.weight.size}"

    def __call__(self, x: mx.array) -> mx.array:
        return prelu(x, self["weight"])


class ReLU(Module):
    """nn.relu as a layer: x where it is positive, else 0.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.ReLU()(mx.array([-1.0, 2.0]))
        array([0, 2], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return relu(x)


class ReLU2(Module):
    """nn.relu2 as a layer: the square of relu.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.ReLU2()(mx.array([-1.0, 3.0]))
        array([0, 9], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return relu2(x)


class ReLU6(Module):
    """nn.relu6 as a layer: relu that stops at 6.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.ReLU6()(mx.array([-1.0, 3.0, 7.0]))
        array([0, 3, 6], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return relu6(x)


class SELU(Module):
    """nn.selu as a layer: elu, scaled to keep mean 0 and variance 1.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.SELU()(mx.array([-1.0, 1.0]))
        array([-1.11133, 1.0507], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return selu(x)


class SiLU(Module):
    """nn.silu as a layer: x sigmoid(x).

    Example:
        >>> import mlxc.nn as nn
        >>> nn.SiLU()(mx.array([-1.0, 2.0]))
        array([-0.268941, 1.76159], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return silu(x)


class Sigmoid(Module):
    """nn.sigmoid as a layer: the logistic function.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Sigmoid()(mx.array([0.0, 1.0]))
        array([0.5, 0.731059], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return sigmoid(x)


class Softmax(Module):
    """nn.softmax as a layer: softmax over the last axis.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Softmax()(mx.array([1000.0, 1000.0]))
        array([0.5, 0.5], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return softmax(x)


class Softmin(Module):
    """nn.softmin as a layer: softmax of -x over the last axis.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Softmin()(mx.array([1.0, 2.0]))
        array([0.731059, 0.268941], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return softmin(x)


class Softplus(Module):
    """nn.softplus as a layer: log(1 + exp(x)).

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Softplus()(mx.array([0.0, 100.0]))
        array([0.693147, 100], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return softplus(x)


class Softshrink(Module):
    """nn.softshrink as a layer: x moved towards 0 by lambd.

    Args:
        lambd: how far.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Softshrink()(mx.array([-2.0, 0.3]))
        array([-1.5, 0], dtype=float32)
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def _extra_repr(self) -> str:
        return f"lambd={self.lambd}"

    def __call__(self, x: mx.array) -> mx.array:
        return softshrink(x, self.lambd)


class Softsign(Module):
    """nn.softsign as a layer: x / (1 + |x|).

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Softsign()(mx.array([-1.0, 3.0]))
        array([-0.5, 0.75], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return softsign(x)


class Step(Module):
    """nn.step as a layer: 1 from a threshold on, else 0.

    Args:
        threshold: where the step is.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Step()(mx.array([-1.0, 0.0]))
        array([0, 1], dtype=int32)
    """

    def __init__(self, threshold: float = 0.0) -> None:
        super().__init__()
        self.threshold = threshold

    def _extra_repr(self) -> str:
        return f"threshold={self.threshold}"

    def __call__(self, x: mx.array) -> mx.array:
        return step(x, self.threshold)


class Tanh(Module):
    """nn.tanh as a layer: the hyperbolic tangent.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Tanh()(mx.array([0.0, 1.0]))
        array([0, 0.761594], dtype=float32)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return tanh(x)
