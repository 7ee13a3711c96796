"""How the suites here take times: rivals in turns, in one run, medians compared.

A machine that others use changes its speed from one second to the next; what is measured in turns changes alike,
so only ratios are budgets. pytest-benchmark keeps the numbers (--benchmark-json) beside the verdicts.
"""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable
from typing import Any


def take_turns(
    rivals: dict[str, str | Callable[[], Any]],
    rounds: int,
    number: int,
    names: dict[str, Any] | None = None,
    parallel: bool = False,
) -> dict[str, float]:
    """Median seconds of one run of each rival, over rounds in which each runs `number` times.

    A rival is a function, or source text over `names` where a call would take longer than what it calls. What runs on
    one core is measured in processor time of the whole process, which neighbours disturb less; what is `parallel` by
    the clock.
    """
    clock = time.perf_counter if parallel else time.process_time
    timers = {name: timeit.Timer(rival, timer=clock, globals=names) for name, rival in rivals.items()}
    samples: dict[str, list[float]] = {name: [] for name in rivals}
    for timer in timers.values():
        timer.timeit(number)
    for _ in range(rounds):
        for name, timer in timers.items():
            samples[name].append(timer.timeit(number) / number)
    return {name: statistics.median(taken) for name, taken in samples.items()}
