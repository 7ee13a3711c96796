"""Two processes that compute together, acted by two threads of one: for tests of code that talks to a group.

Each thread gets a group that says its rank, and the collective functions exchange values at a barrier. A thread that
fails breaks the barrier, so that the other one fails too and does not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import mlxc as mx

SIZE = 2


class Actor(mx.distributed.Group):
    """The group as one of the two sees it."""

    def __new__(cls, rank: int) -> Actor:
        return object.__new__(cls)

    def __init__(self, rank: int) -> None:
        self.number = rank

    def rank(self) -> int:
        return self.number

    def size(self) -> int:
        return SIZE


class Exchange:
    def __init__(self) -> None:
        self.barrier = threading.Barrier(SIZE, timeout=20)
        self.table: list[Any] = [None] * SIZE
        self.calls: list[tuple[str, tuple[int, ...]]] = []

    def swap(self, function: str, x: mx.array, group: Actor) -> list[mx.array]:
        """The arrays of both, in the order of ranks."""
        mx.eval(x)
        if group.rank() == 0:
            self.calls.append((function, x.shape))
        self.table[group.rank()] = x
        self.barrier.wait()
        both = list(self.table)
        self.barrier.wait()
        return both

    def all_sum(self, x: mx.array, *, group: Actor, stream: Any = None) -> mx.array:
        a, b = self.swap("all_sum", x, group)
        return a + b

    def all_gather(self, x: mx.array, *, group: Actor, stream: Any = None) -> mx.array:
        return mx.concatenate(self.swap("all_gather", x, group))

    def sum_scatter(self, x: mx.array, *, group: Actor, stream: Any = None) -> mx.array:
        a, b = self.swap("sum_scatter", x, group)
        return mx.split(a + b, SIZE)[group.rank()]


def run_as_two(monkeypatch: Any, program: Callable[[Actor], Any]) -> tuple[list[Any], Exchange]:
    """What a program returns for each of the two groups, and the exchange with its list of calls."""
    exchange = Exchange()
    for name in ("all_sum", "all_gather", "sum_scatter"):
        monkeypatch.setattr(mx.distributed, name, getattr(exchange, name))
    results: list[Any] = [None] * SIZE
    errors: list[BaseException] = []

    def act(rank: int) -> None:
        try:
            results[rank] = program(Actor(rank))
        except BaseException as error:
            errors.append(error)
            exchange.barrier.abort()

    threads = [threading.Thread(target=act, args=(rank,)) for rank in range(SIZE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next((e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0])
    return results, exchange
