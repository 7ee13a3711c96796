"""Processes that compute together: mlxc.distributed, as mlx.core.distributed, for a group of one process.

Called by training programs, which then run alone without a change. In a group of one every collective function gives
back what it got, so gradients, batching and compilation need no rule. There is no way of talking to other processes
in this version: is_available is False, and init refuses where the program was started as one of several.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mlxc._array import Array
from mlxc._convert import asarray
from mlxc._device import StreamContext
from mlxc._dtype import Dtype

__all__ = [
    "Group", "all_gather", "all_max", "all_min", "all_sum", "init", "is_available", "recv", "recv_like", "send",
    "sum_scatter",
]  # fmt: skip

_BACKENDS = ("any", "mpi", "nccl", "jaccl", "ring")


class Group:
    """Processes that communicate. Made by init and split, not by its constructor.

    Example:
        >>> import mlxc as mx
        >>> group = mx.distributed.init()
        >>> group.rank(), group.size()
        (0, 1)
    """

    __module__ = "mlxc.distributed"

    def __new__(cls, *args: Any, **kwargs: Any) -> Group:
        raise TypeError("Group has no constructor: mlxc.distributed.init() returns the group of all processes")

    def __reduce__(self) -> tuple[Callable[[], Group], tuple[()]]:
        # A copy, also in another process, is the group of that process: layers that have a group can be copied.
        return init, ()

    def rank(self) -> int:
        """The number of this process in the group, from 0.

        Example:
            >>> import mlxc as mx
            >>> mx.distributed.init().rank()
            0
        """
        return 0

    def size(self) -> int:
        """How many processes the group has.

        Example:
            >>> import mlxc as mx
            >>> mx.distributed.init().size()
            1
        """
        return 1

    def split(self, color: int, key: int = -1) -> Group:
        """The group of the processes that give the same color.

        Args:
            color: which of the new groups this process is in.
            key: its place in the order of ranks there; by default its rank here.

        Example:
            >>> import mlxc as mx
            >>> mx.distributed.init().split(3).size()
            1
        """
        for name, value in (("color", color), ("key", key)):
            if not isinstance(value, int):
                raise TypeError(f"[Group.split] {name} is an int, got {type(value).__name__}")
        return _ALONE


_ALONE: Group = object.__new__(Group)


def is_available(backend: str = "any") -> bool:
    """Whether processes can talk to each other by a backend: by none in this version.

    Args:
        backend: "ring", "mpi", "nccl", "jaccl", or "any" of them.

    Example:
        >>> import mlxc as mx
        >>> mx.distributed.is_available("ring")
        False
    """
    if not isinstance(backend, str):
        raise TypeError(f"[distributed.is_available] backend is a str, got {type(backend).__name__}")
    return False


def init(
    strict: bool = False,
    backend: str = "any",
    *,
    all_gather_factory: Callable[[int, int], Callable[[bytes, int], bytes]] | None = None,
) -> Group:
    """The group of all processes of this program: this one alone.

    Args:
        strict: whether to raise where there is no backend, instead of returning a group of one process.
        backend: "ring", "mpi", "nccl", "jaccl", or "any" of them.
        all_gather_factory: how the backend "jaccl" exchanges addresses; used by no other one.

    Returns:
        The group.

    Raises:
        ValueError: for another backend.
        RuntimeError: with `strict`, and where the environment (MLX_RANK) says that this process is one of several: it
            would compute alone what all should compute together.

    Example:
        >>> import mlxc as mx
        >>> mx.distributed.init().size()
        1
    """
    if backend not in _BACKENDS:
        raise ValueError(f"[distributed.init] backend is one of {', '.join(_BACKENDS)}, not {backend!r}")
    if strict:
        raise RuntimeError(f"[distributed.init] there is no backend for several processes ({backend!r} was asked for)")
    if os.environ.get("MLX_RANK", ""):
        raise RuntimeError(
            "[distributed.init] the program was started as one of several processes (MLX_RANK is set), and there is "
            "no backend for them to communicate"
        )
    return _ALONE


def _check_group(group: Group | None, function: str) -> None:
    if group is not None and not isinstance(group, Group):
        raise TypeError(f"[{function}] group is a Group or None, got {type(group).__name__}")


def _give_back(x: Any, group: Group | None, stream: Any, function: str) -> Array:
    """What a collective function of one process does: a new handle of the same values."""
    _check_group(group, function)
    if stream is not None:
        StreamContext(stream)
    return asarray(x, copy=True)


def all_sum(x: Array, *, group: Group | None = None, stream: Any = None) -> Array:
    """The sum of the arrays of all processes.

    Args:
        x: array or scalar, any shape and dtype; of one shape and dtype in all processes.
        group: the processes; None is all of them.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `x`; `x` itself in a group of one.

    Example:
        >>> import mlxc as mx
        >>> mx.distributed.all_sum(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """
    return _give_back(x, group, stream, "all_sum")


def all_max(x: Array, *, group: Group | None = None, stream: Any = None) -> Array:
    """The element-wise maximum of the arrays of all processes.

    Args:
        x: array or scalar, any shape and dtype; of one shape and dtype in all processes.
        group: the processes; None is all of them.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `x`; `x` itself in a group of one.

    Example:
        >>> import mlxc as mx
        >>> mx.distributed.all_max(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """
    return _give_back(x, group, stream, "all_max")


def all_min(x: Array, *, group: Group | None = None, stream: Any = None) -> Array:
    """The element-wise minimum of the arrays of all processes.

    Args:
        x: array or scalar, any shape and dtype; of one shape and dtype in all processes.
        group: the processes; None is all of them.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `x`; `x` itself in a group of one.

    Example:
        >>> import mlxc as mx
        >>> mx.distributed.all_min(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """
    return _give_back(x, group, stream, "all_min")


def all_gather(x: Array, *, group: Group | None = None, stream: Any = None) -> Array:
    """The arrays of all processes, one after the other along the first axis.

    Args:
        x: array or scalar, any shape and dtype; of one dtype and one shape behind the first axis in all processes.
        group: the processes; None is all of them.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `x`; `x` itself in a group of one.

    Example:
        >>> import mlxc as mx
        >>> mx.distributed.all_gather(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """
    return _give_back(x, group, stream, "all_gather")


def sum_scatter(x: Array, *, group: Group | None = None, stream: Any = None) -> Array:
    """This process's part, along the first axis, of the sum of the arrays of all processes.

    Args:
        x: array or scalar, any shape and dtype; of one shape and dtype in all processes.
        group: the processes; None is all of them.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `x`; `x` itself in a group of one.

    Example:
        >>> import mlxc as mx
        >>> mx.distributed.sum_scatter(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """
    return _give_back(x, group, stream, "sum_scatter")


def _refuse(group: Group | None, function: str) -> NoReturn:
    _check_group(group, function)
    raise ValueError(f"[{function}] there is no other process in a group of one")


def send(x: Array, dst: int, *, group: Group | None = None, stream: Any = None) -> Array:
    """Sends an array to another process.

    Args:
        x: array or scalar, any shape and dtype.
        dst: rank of the process that receives it.
        group: the processes; None is all of them.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the values of `x`, whose evaluation sends them.

    Raises:
        ValueError: in a group of one.

    Example:
        >>> import mlxc as mx
        >>> mx.distributed.send(mx.ones(2), 1)
        Traceback (most recent call last):
        ValueError: [send] there is no other process in a group of one
    """
    _refuse(group, "send")


def recv(shape: Sequence[int], dtype: Dtype, src: int, *, group: Group | None = None, stream: Any = None) -> Array:
    """Receives an array from another process.

    Args:
        shape: its sizes.
        dtype: its dtype.
        src: rank of the process that sends it.
        group: the processes; None is all of them.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array, whose evaluation receives the values.

    Raises:
        ValueError: in a group of one.

    Example:
        >>> import mlxc as mx
        >>> mx.distributed.recv((2,), mx.float32, 1)
        Traceback (most recent call last):
        ValueError: [recv] there is no other process in a group of one
    """
    _refuse(group, "recv")


def recv_like(x: Array, src: int, *, group: Group | None = None, stream: Any = None) -> Array:
    """Receives an array of the shape and dtype of another one from another process.

    Args:
        x: array whose shape and dtype the received one has.
        src: rank of the process that sends it.
        group: the processes; None is all of them.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array, whose evaluation receives the values.

    Raises:
        ValueError: in a group of one.

    Example:
        >>> import mlxc as mx
        >>> mx.distributed.recv_like(mx.ones(2), 1)
        Traceback (most recent call last):
        ValueError: [recv_like] there is no other process in a group of one
    """
    _refuse(group, "recv_like")
