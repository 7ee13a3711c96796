"""Times the large cases of the conformance table: one op, inputs ready, evaluated alone.

NumPy's time for the same call in the same dtype is beside it where the reference is a plain NumPy call, measured
in turns with ours in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import mlxc as mx

from .cases import Case, cases_of
from .dtypes import DTYPES, widen
from .layouts import CONTIGUOUS, lay_out
from .run import draw_inputs
from .table import read_table


@dataclass(frozen=True)
class Timing:
    op: str
    case: str
    dtype: str
    seconds: float  # the median
    numpy_seconds: float | None


def time_ops(ops: list[str] | None = None, repeats: int = 15) -> Iterator[Timing]:
    """Times the large cases of the ops named, or of all."""
    for op in ops or read_table():
        for case in cases_of(op):
            if case.label.startswith(("large", "long")) and not case.raises:
                dtype = "float32" if case.takes(DTYPES["float32"]) else str(case.dtypes[0])
                yield time_case(op, case, dtype, repeats)


def time_case(op: str, case: Case, dtype: str, repeats: int) -> Timing:
    row = read_table()[op]
    inputs = draw_inputs(row, case, DTYPES[dtype])
    arrays = [lay_out(stored, own, CONTIGUOUS).array for stored, own in inputs]
    mx.eval(*arrays)
    own_values = [stored if own.name != "bfloat16" else widen(stored, own) for stored, own in inputs]
    rounds = [lambda: mx.eval(case.call(*arrays))]
    if not case.on_stored and dtype == "float32":
        rounds.append(lambda: case.reference(*own_values))
    times = _interleave(rounds, repeats)
    return Timing(op, case.label, dtype, times[0], times[1] if len(times) > 1 else None)


def _interleave(rounds: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median seconds of each, run in turns so that both see the same machine."""
    samples: list[list[float]] = [[] for _ in rounds]
    with np.errstate(all="ignore"):
        for _ in range(repeats + 2):
            for run, taken in zip(rounds, samples, strict=True):
                start = time.perf_counter()
                run()
                taken.append(time.perf_counter() - start)
    return [float(np.median(taken[2:])) for taken in samples]
