"""Runs conformance cases: every dtype a row accepts times every layout, one Failure for each that is wrong.

`python -m mlxc.testing` and tests/conformance call check_op. A case that raises is a failure like any other, with
the exception's text; after each op the core is asked whether a kernel wrote outside of its output.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import mlxc as mx

from .cases import Case, cases_of, draw_uniform
from .compare import find_mismatch
from .dtypes import DTYPES, Dtype, accepted_dtypes, dtype_of, from_mlxc, store, widen
from .guard import find_overrun
from .layouts import CONTIGUOUS, lay_out
from .table import Row, read_table, result_dtype


@dataclass(frozen=True)
class Failure:
    op: str
    case: str
    dtype: str
    layout: str
    message: str

    def __str__(self) -> str:
        return f"{self.op} [{self.case}] {self.dtype} {self.layout}: {self.message}"


@dataclass
class Report:
    checks: int
    failures: list[Failure]


def check_op(op: str, dtypes: list[str] | None = None) -> Report:
    """All checks of one op against its references; `dtypes` narrows them."""
    row = read_table()[op]
    report = Report(0, [])
    for case in cases_of(op):
        for dtype in accepted_dtypes(row.accepts):
            if not case.takes(dtype) or (dtypes and dtype.name not in dtypes):
                continue
            for layouts in combine_layouts(case):
                report.checks += 1
                message = check_case(row, case, dtype, layouts)
                if message:
                    report.failures.append(Failure(op, case.label, dtype.name, "+".join(layouts), message))
    for failure in check_refused_dtypes(row, dtypes):
        report.checks += 1
        if failure:
            report.failures.append(failure)
    overrun = find_overrun()
    if overrun:
        report.failures.append(Failure(op, "memory", "", "", overrun))
    return report


def combine_layouts(case: Case) -> Iterator[tuple[str, ...]]:
    """Layouts of the inputs: all alike, and one strange among contiguous ones."""
    count = len(case.shapes)
    if count == 0:
        yield ()
        return
    for layout in case.layouts:
        yield (layout,) * count
        if count > 1 and layout != CONTIGUOUS:
            for i in range(count):
                yield tuple(layout if i == j else CONTIGUOUS for j in range(count))


def draw_inputs(row: Row, case: Case, dtype: Dtype, variant: str = "") -> list[tuple[np.ndarray, Dtype]]:
    """Stored values of each input with their dtypes, the same at each call with the same variant."""
    rng = np.random.default_rng(zlib.crc32(f"{row.name} {case.label} {dtype.name}{variant}".encode()))
    inputs = []
    for i, shape in enumerate(case.shapes):
        named = case.fixed[i] if i < len(case.fixed) else None
        own = DTYPES[named] if named else dtype
        draw = case.draw[i] if isinstance(case.draw, (list, tuple)) else case.draw
        draw = draw or draw_uniform(case.domain or row.domain)
        values = np.asarray(draw(rng, own, shape)).reshape(shape)
        inputs.append((store(values, own), own))
    return inputs


def check_case(row: Row, case: Case, dtype: Dtype, layouts: tuple[str, ...]) -> str | None:
    """What is wrong with one evaluation, or None."""
    laid, dtypes = [], []
    for (stored, own), layout in zip(draw_inputs(row, case, dtype), layouts, strict=True):
        laid.append(lay_out(stored, own, layout))
        dtypes.append(own)
    arrays = [each.array for each in laid]
    try:
        results = case.call(*arrays)
        results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
        mx.eval(*results)
    except Exception as error:
        if case.raises and isinstance(error, case.raises):
            return None
        wanted = f", expected {case.raises.__name__}" if case.raises else ""
        return f"raised {type(error).__name__}: {error}{wanted}"
    if case.raises:
        return f"raised nothing, expected {case.raises.__name__}"

    expected = _expected_dtype(row, case, dtype, dtypes)
    references = _references(
        row, case, dtype, [(each.stored, own) for each, own in zip(laid, dtypes, strict=True)], expected
    )
    if len(results) != len(references):
        return f"{len(results)} results, expected {len(references)}"
    tolerance = row.tolerance * case.slack
    if case.accumulates and expected.name not in ("float16", "bfloat16"):
        tolerance *= 4
    if expected.name in ("float64", "complex128"):
        tolerance += case.double_slack + _longdouble_slack(tolerance)
    scale = None
    if case.scale and expected.is_float:
        with np.errstate(all="ignore"):
            scale = case.scale(*(_widen_for(row, each.stored, own) for each, own in zip(laid, dtypes, strict=True)))
    for result, reference in zip(results, references, strict=True):
        if dtype_of(result) != expected:
            return f"dtype {result.dtype}, expected {expected.name}"
        message = find_mismatch(
            from_mlxc(result), expected, reference, tolerance, scale=scale, zero_sign=case.zero_sign
        )
        if message:
            return message
    for i, each in enumerate(laid):
        if from_mlxc(each.array).tobytes() != each.stored.tobytes():
            return f"input {i} changed"
    return None


def check_refused_dtypes(row: Row, dtypes: list[str] | None) -> Iterator[Failure | None]:
    """A dtype that the row does not accept must be a TypeError, never a wrong answer."""
    accepted = accepted_dtypes(row.accepts)
    if row.accepts in ("any", "uint32", "uint8"):
        return
    usual = [c for c in cases_of(row.name) if not c.raises and c.call]
    case = next((c for c in usual if not c.dtypes and not c.fixed), usual[0])
    for dtype in DTYPES.values():
        if dtype in accepted or (dtypes and dtype.name not in dtypes):
            continue
        arrays = [lay_out(stored, own, CONTIGUOUS).array for stored, own in draw_inputs(row, case, dtype)]
        try:
            results = case.call(*arrays)
            mx.eval(results)
        except TypeError:
            yield None
        except Exception as error:
            message = f"raised {type(error).__name__}: {error}, expected TypeError"
            yield Failure(row.name, "refused dtype", dtype.name, CONTIGUOUS, message)
        else:
            yield Failure(row.name, "refused dtype", dtype.name, CONTIGUOUS, "raised nothing, expected TypeError")


def _expected_dtype(row: Row, case: Case, dtype: Dtype, dtypes: list[Dtype]) -> Dtype:
    if isinstance(case.result, str):
        return DTYPES[case.result]
    if case.result:
        return case.result(dtype)
    return result_dtype(row.dtype, dtypes)


def _widen_for(row: Row, stored: np.ndarray, dtype: Dtype) -> np.ndarray:
    """Wide values in the type that the reference works in: floats where integers become floats, and so on."""
    wide = widen(stored, dtype)
    if dtype.is_float:
        return wide
    if row.dtype in ("float", "promote_float"):
        return wide.astype(np.float64)
    if row.dtype in ("sum", "scan"):
        return wide.astype(result_dtype(row.dtype, [dtype]).stored)
    return wide


def _references(row: Row, case: Case, dtype: Dtype, inputs: list[tuple[np.ndarray, Dtype]], expected: Dtype) -> tuple:
    with np.errstate(all="ignore"):
        if case.on_stored:
            results = case.reference(dtype, *(stored for stored, _ in inputs))
        else:
            results = case.reference(*(_widen_for(row, stored, own) for stored, own in inputs))
    results = results if isinstance(results, tuple) else (results,)
    if case.on_stored and expected.is_float:
        results = tuple(widen(np.asarray(r), expected) for r in results)
    return results


def _longdouble_slack(tolerance: float) -> float:
    """Where longdouble is only float64, the reference errs as much as the result may."""
    return 0.0 if np.finfo(np.longdouble).nmant > 52 or tolerance == 0 else tolerance + 1.0


def check_all(ops: list[str] | None = None, dtypes: list[str] | None = None) -> Iterator[tuple[str, Report]]:
    """Each op's report, in the table's order."""
    for op in ops or read_table():
        yield op, check_op(op, dtypes)


__all__ = ["Failure", "Report", "check_all", "check_case", "check_op", "combine_layouts", "draw_inputs"]
