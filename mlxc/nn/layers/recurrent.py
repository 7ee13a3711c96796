"""Recurrent layers: RNN, GRU and LSTM, which go through a sequence step by step.

Called by users' models. What depends on the input alone is one product over all steps; many steps are one mx.scan,
whose gradient takes time linear in their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mlxc as mx
from mlxc.nn.layers._checks import check_size
from mlxc.nn.layers.activations import tanh
from mlxc.nn.layers.base import Module

__all__ = ["GRU", "LSTM", "RNN"]

# Up to here steps one by one are faster than a scan; the gradient of their slices takes time quadratic in their number.
_FEW_STEPS = 16


def _check_sequence(layer: str, x: mx.array, size: int) -> None:
    if x.ndim < 2 or x.shape[-1] != size:
        raise ValueError(f"[{layer}] the input should have shape (..., length, {size}), got {x.shape}")


def _project(x: mx.array, weight: mx.array, bias: mx.array | None) -> mx.array:
    return x @ weight.T if bias is None else mx.addmm(bias, x, weight.T)


def _begin_state(layer: str, name: str, state: mx.array | None, steps: mx.array, size: int) -> mx.array:
    """What the state is before the first step: of the shape and dtype that it has after it."""
    shape = (*steps.shape[:-2], size)
    if state is None:
        return mx.zeros(shape, dtype=steps.dtype)
    try:
        return mx.broadcast_to(state.astype(steps.dtype), shape)
    except ValueError:
        raise ValueError(f"[{layer}] {name} should have shape {shape}, got {state.shape}") from None


def _run(step: Callable[[Any, mx.array], tuple[Any, Any]], state: Any, steps: mx.array) -> Any:
    """What a step gives beside the state, for all steps; `steps` has them on the last axis but one."""
    length = steps.shape[-2]
    if 0 < length <= _FEW_STEPS:
        found = []
        for place in range(length):
            state, result = step(state, steps[..., place, :])
            found.append(result)
        if isinstance(found[0], tuple):
            return tuple(mx.stack(part, axis=-2) for part in zip(*found, strict=True))
        return mx.stack(found, axis=-2)
    _, results = mx.scan(step, state, mx.moveaxis(steps, -2, 0))
    if isinstance(results, tuple):
        return tuple(mx.moveaxis(result, 0, -2) for result in results)
    return mx.moveaxis(results, 0, -2)


class RNN(Module):
    """Elman recurrence: `h = nonlinearity(x @ Wxh.T + bias + h @ Whh.T)`.

    `Wxh` has shape (hidden_size, input_size), `Whh` (hidden_size, hidden_size), `bias` (hidden_size,). All begin
    uniform in [-b, b) with b = 1 / sqrt(hidden_size). A call takes an array of shape (..., length, input_size), and as
    `hidden` the state before the first step, of shape (..., hidden_size), zeros by default; it returns the states after
    all steps, of shape (..., length, hidden_size).

    Args:
        input_size: size of the last axis of the input.
        hidden_size: size of the state.
        bias: whether to add a bias.
        nonlinearity: function of an array that keeps its shape and dtype; tanh by default.

    Raises:
        ValueError: if a size is not positive, or `nonlinearity` is no function; on call, if shapes do not fit.

    Source:
        Elman 1990, Finding Structure in Time.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.RNN(3, 5)
        >>> layer(mx.ones((2, 7, 3))).shape
        (2, 7, 5)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: Callable[[mx.array], mx.array] | None = None,
    ) -> None:
        super().__init__()
        if nonlinearity is not None and not callable(nonlinearity):
            raise ValueError(f"[RNN] nonlinearity should be a function, got {nonlinearity!r}")
        input_size = check_size("RNN", "input_size", input_size)
        self.hidden_size = check_size("RNN", "hidden_size", hidden_size)
        self.nonlinearity = nonlinearity or tanh
        bound = 1 / math.sqrt(hidden_size)
        self.Wxh = mx.random.uniform(-bound, bound, (hidden_size, input_size))
        self.Whh = mx.random.uniform(-bound, bound, (hidden_size, hidden_size))
        self.bias = mx.random.uniform(-bound, bound, (hidden_size,)) if bias else None

    def _extra_repr(self) -> str:
        name = getattr(self.nonlinearity, "__name__", repr(self.nonlinearity))
        return (
            f"input_dims={self.Wxh.shape[1]}, hidden_size={self.hidden_size}, nonlinearity={name}, "
            f"bias={self.bias is not None}"
        )

    def __call__(self, x: mx.array, hidden: mx.array | None = None) -> mx.array:
        _check_sequence("RNN", x, self.Wxh.shape[1])
        steps = _project(x, self.Wxh, self.bias)
        recurrent = self.Whh.T

        def step(h: mx.array, x: mx.array) -> tuple[mx.array, mx.array]:
            h = self.nonlinearity(mx.addmm(x, h, recurrent))
            return h, h

        states: mx.array = _run(step, _begin_state("RNN", "hidden", hidden, steps, self.hidden_size), steps)
        return states


class GRU(Module):
    """Gated recurrent unit.

    With the thirds of `Wx`, `Wh` and `b` for reset, update and candidate: `r = sigmoid(Wx_r x + b_r + Wh_r h)`,
    `z = sigmoid(Wx_z x + b_z + Wh_z h)`, `n = tanh(Wx_n x + b_n + r * (Wh_n h + bhn))`, and the next state is
    `(1 - z) * n + z * h`. `Wx` has shape (3 hidden_size, input_size), `Wh` (3 hidden_size, hidden_size), `b`
    (3 hidden_size,), `bhn` (hidden_size,). All begin uniform in [-b, b) with b = 1 / sqrt(hidden_size). A call takes an
    array of shape (..., length, input_size), and as `hidden` the state before the first step, of shape
    (..., hidden_size), zeros by default; it returns the states after all steps, of shape (..., length, hidden_size).

    Args:
        input_size: size of the last axis of the input.
        hidden_size: size of the state.
        bias: whether to add biases.

    Raises:
        ValueError: if a size is not positive; on call, if shapes do not fit.

    Source:
        Cho et al. 2014, arXiv 1406.1078.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.GRU(3, 5)(mx.ones((2, 7, 3))).shape
        (2, 7, 5)
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        input_size = check_size("GRU", "input_size", input_size)
        self.hidden_size = check_size("GRU", "hidden_size", hidden_size)
        bound = 1 / math.sqrt(hidden_size)
        self.Wx = mx.random.uniform(-bound, bound, (3 * hidden_size, input_size))
        self.Wh = mx.random.uniform(-bound, bound, (3 * hidden_size, hidden_size))
        self.b = mx.random.uniform(-bound, bound, (3 * hidden_size,)) if bias else None
        self.bhn = mx.random.uniform(-bound, bound, (hidden_size,)) if bias else None

    def _extra_repr(self) -> str:
        return f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, bias={self.b is not None}"

    def __call__(self, x: mx.array, hidden: mx.array | None = None) -> mx.array:
        _check_sequence("GRU", x, self.Wx.shape[1])
        size = self.hidden_size
        steps = _project(x, self.Wx, self.b)
        recurrent = self.Wh.T
        bhn = self.bhn

        def step(h: mx.array, x: mx.array) -> tuple[mx.array, mx.array]:
            y = h @ recurrent
            gates = mx.sigmoid(x[..., : 2 * size] + y[..., : 2 * size])
            reset, update = gates[..., :size], gates[..., size:]
            candidate = y[..., 2 * size :]
            if bhn is not None:
                candidate = candidate + bhn
            n = mx.tanh(x[..., 2 * size :] + reset * candidate)
            h = (1 - update) * n + update * h
            return h, h

        states: mx.array = _run(step, _begin_state("GRU", "hidden", hidden, steps, size), steps)
        return states


class LSTM(Module):
    """Long short-term memory.

    With the quarters of `Wx x + bias + Wh h` for input, forget, cell and output: `c = sigmoid(f) * c + sigmoid(i) *
    tanh(g)`, and the next state is `sigmoid(o) * tanh(c)`. `Wx` has shape (4 hidden_size, input_size), `Wh`
    (4 hidden_size, hidden_size), `bias` (4 hidden_size,). All begin uniform in [-b, b) with b = 1 / sqrt(hidden_size).
    A call takes an array of shape (..., length, input_size), and as `hidden` and `cell` what they are before the first
    step, of shape (..., hidden_size), zeros by default; it returns the states and the cells after all steps, each of
    shape (..., length, hidden_size).

    Args:
        input_size: size of the last axis of the input.
        hidden_size: size of the state and the cell.
        bias: whether to add a bias.

    Raises:
        ValueError: if a size is not positive; on call, if shapes do not fit.

    Source:
        Hochreiter and Schmidhuber 1997, Long Short-Term Memory.

    Example:
        >>> import mlxc.nn as nn
        >>> hidden, cell = nn.LSTM(3, 5)(mx.ones((2, 7, 3)))
        >>> hidden.shape, cell.shape
        ((2, 7, 5), (2, 7, 5))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        input_size = check_size("LSTM", "input_size", input_size)
        self.hidden_size = check_size("LSTM", "hidden_size", hidden_size)
        bound = 1 / math.sqrt(hidden_size)
        self.Wx = mx.random.uniform(-bound, bound, (4 * hidden_size, input_size))
        self.Wh = mx.random.uniform(-bound, bound, (4 * hidden_size, hidden_size))
        self.bias = mx.random.uniform(-bound, bound, (4 * hidden_size,)) if bias else None

    def _extra_repr(self) -> str:
        return f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, bias={self.bias is not None}"

    def __call__(
        self, x: mx.array, hidden: mx.array | None = None, cell: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        _check_sequence("LSTM", x, self.Wx.shape[1])
        size = self.hidden_size
        steps = _project(x, self.Wx, self.bias)
        recurrent = self.Wh.T

        def step(state: tuple[mx.array, mx.array], x: mx.array) -> tuple[Any, Any]:
            h, c = state
            gates = mx.addmm(x, h, recurrent)
            i, f = mx.sigmoid(gates[..., :size]), mx.sigmoid(gates[..., size : 2 * size])
            g, o = mx.tanh(gates[..., 2 * size : 3 * size]), mx.sigmoid(gates[..., 3 * size :])
            c = f * c + i * g
            state = o * mx.tanh(c), c
            return state, state

        begin = tuple(_begin_state("LSTM", n, s, steps, size) for n, s in (("hidden", hidden), ("cell", cell)))
        hiddens, cells = _run(step, begin, steps)
        return hiddens, cells
