"""Cases of ops that run in the core: what carries functions, and the order of computation."""

from __future__ import annotations

from collections.abc import Iterator

import mlxc as mx

from .cases import Case
from .table import Row


def build(row: Row) -> Iterator[Case]:
    yield from BUILDERS[row.name]()


def _depends() -> Iterator[Case]:
    for label, shape in {"5x6x7": (5, 6, 7), "empty": (3, 0), "0-d": ()}.items():
        yield Case(
            label,
            (shape, (3,)),
            mx.depends,
            lambda a, b: a,
            differentiable=label == "5x6x7",
        )
    yield Case("of two", ((4, 5), (4, 5)), lambda a, b: mx.depends([a, b], [a])[1], lambda a, b: b)


BUILDERS = {"depends": _depends}
