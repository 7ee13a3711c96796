"""Compiled against plain: every case of an op inside mx.compile must give the very bytes that it gives outside.

Called like run.check_op, by tests/conformance and `python -m mlxc.testing`. The second call of a compiled function
takes another way (the program is there already), so both are compared.
"""

from __future__ import annotations

import mlxc as mx

from .cases import Case, cases_of
from .dtypes import Dtype, accepted_dtypes, from_mlxc
from .layouts import CONTIGUOUS, lay_out
from .run import Failure, Report, draw_inputs
from .table import Row, read_table


def check_compiled(op: str) -> Report:
    """All cases of the op that raise nothing, in every dtype, contiguous and in the case's strangest layout."""
    row = read_table()[op]
    report = Report(0, [])
    for case in cases_of(op):
        if case.raises:
            continue
        for dtype in accepted_dtypes(row.accepts):
            if not case.takes(dtype):
                continue
            for layout in dict.fromkeys((CONTIGUOUS, case.layouts[-1])):
                report.checks += 1
                message = compare_compiled(row, case, dtype, layout)
                if message:
                    report.failures.append(Failure(op, case.label, dtype.name, layout, message))
    return report


def compare_compiled(row: Row, case: Case, dtype: Dtype, layout: str) -> str | None:
    """What is different, or None."""
    arrays = [lay_out(stored, own, layout).array for stored, own in draw_inputs(row, case, dtype)]
    compiled = mx.compile(case.call)
    try:
        expected = read_results(case.call(*arrays))
        for which in ("traced", "cached"):
            found = read_results(compiled(*arrays))
            if found != expected:
                return f"the {which} call of the compiled function gives another result"
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    return None


def read_results(results: object) -> list[tuple]:
    """What can be told of each array."""
    each = results if isinstance(results, (tuple, list)) else (results,)
    return [(a.shape, a.dtype, from_mlxc(a).tobytes()) for a in each]


__all__ = ["check_compiled", "compare_compiled"]
