"""Schedules: functions of the step counter that give a learning rate. An optimizer calls them before each step.

Each is a partial of a plain function, so that an optimizer with a schedule can be pickled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import mlxc as mx

__all__ = ["cosine_decay", "exponential_decay", "join_schedules", "linear_schedule", "step_decay"]


def exponential_decay(init: float, decay_rate: float) -> Callable:
    """A rate that is multiplied by the same number at each step: init * decay_rate ** step.

    Args:
        init: the rate at step 0.
        decay_rate: the number.

    Returns:
        The function of the step.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optim.exponential_decay(0.1, 0.5)(mx.array(2))
        array(0.025, dtype=float32)
    """
    return partial(_decay_exponentially, init, decay_rate)


def _decay_exponentially(init: float, decay_rate: float, step: Any) -> Any:
    return init * decay_rate**step


def step_decay(init: float, decay_rate: float, step_size: int) -> Callable:
    """A rate that is multiplied by a number after every so many steps: init * decay_rate ** (step // step_size).

    Args:
        init: the rate at step 0.
        decay_rate: the number.
        step_size: how many steps the rate stays.

    Returns:
        The function of the step.

    Raises:
        ValueError: if `step_size` is not above 0.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optim.step_decay(0.1, 0.5, 10)(mx.array(25))
        array(0.025, dtype=float32)
    """
    _check_above_zero("step_decay", "step_size", step_size)
    return partial(_decay_in_steps, init, decay_rate, step_size)


def _decay_in_steps(init: float, decay_rate: float, step_size: int, step: Any) -> Any:
    return init * decay_rate ** (step // step_size)


def cosine_decay(init: float, decay_steps: int, end: float = 0.0) -> Callable:
    """A rate that falls along half a cosine, and stays.

    Args:
        init: the rate at step 0.
        decay_steps: the step from which the rate stays.
        end: the rate there.

    Returns:
        The function of the step.

    Raises:
        ValueError: if `decay_steps` is not above 0.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> rate = optim.cosine_decay(0.1, 100)
        >>> rate(mx.array(0)), rate(mx.array(50)), rate(mx.array(200))
        (array(0.1, dtype=float32), array(0.05, dtype=float32), array(0, dtype=float32))
    """
    _check_above_zero("cosine_decay", "decay_steps", decay_steps)
    return partial(_decay_as_cosine, init, decay_steps, end)


def _decay_as_cosine(init: float, decay_steps: int, end: float, step: Any) -> Any:
    s = mx.minimum(step, decay_steps)
    return end + 0.5 * (1.0 + mx.cos((math.pi / decay_steps) * s)) * (init - end)


def linear_schedule(init: float, end: float, steps: int) -> Callable:
    """A rate that moves along a straight line, and stays.

    Args:
        init: the rate at step 0.
        end: the rate from step `steps` on.
        steps: how many steps the way takes.

    Returns:
        The function of the step.

    Raises:
        ValueError: if `steps` is not above 0.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> rate = optim.linear_schedule(0, 0.1, 100)
        >>> rate(mx.array(50)), rate(mx.array(200))
        (array(0.05, dtype=float32), array(0.1, dtype=float32))
    """
    _check_above_zero("linear_schedule", "steps", steps)
    return partial(_move_linearly, init, end, steps)


def _move_linearly(init: float, end: float, steps: int, step: Any) -> Any:
    return mx.minimum(step, steps) * ((end - init) / steps) + init


def join_schedules(schedules: list[Callable], boundaries: list[int]) -> Callable:
    """One schedule after another. Each counts its steps from where it begins.

    Args:
        schedules: the functions of the step.
        boundaries: at which steps the second one begins, the third one and so on.

    Returns:
        The function of the step.

    Raises:
        ValueError: if there are no schedules, if there is not one boundary less than schedules, or if the boundaries
            fall.
        TypeError: if a schedule cannot be called.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> rate = optim.join_schedules([optim.linear_schedule(0, 0.1, 10), optim.cosine_decay(0.1, 100)], [10])
        >>> rate(mx.array(5)), rate(mx.array(60))
        (array(0.05, dtype=float32), array(0.05, dtype=float32))
    """
    if len(schedules) == 0:
        raise ValueError("[join_schedules] there is at least one schedule to join, got none")
    if len(boundaries) != len(schedules) - 1:
        raise ValueError(
            f"[join_schedules] {len(schedules)} schedules meet at {len(schedules) - 1} boundaries, "
            f"got {len(boundaries)}"
        )
    if any(later < earlier for earlier, later in pairwise(boundaries)):
        raise ValueError(f"[join_schedules] boundaries grow, got {list(boundaries)}")
    for schedule in schedules:
        if not callable(schedule):
            raise TypeError(f"[join_schedules] schedules are functions of the step, got {type(schedule).__name__}")
    return partial(_follow, tuple(schedules), tuple(boundaries))


def _follow(schedules: tuple[Callable, ...], boundaries: tuple[int, ...], step: Any) -> Any:
    rate = schedules[0](step)
    for boundary, schedule in zip(boundaries, schedules[1:], strict=True):
        # The step is unsigned: before its boundary a schedule, whose value is not used there, sees 0.
        rate = mx.where(step < boundary, rate, schedule(mx.maximum(step, boundary) - boundary))
    return rate


def _check_above_zero(name: str, parameter: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"[{name}] {parameter} is above 0, got {value}")
