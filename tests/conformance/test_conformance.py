"""Every op of the table against NumPy and SciPy, in every dtype and layout; its gradients, its batching, and inside
mx.compile.
"""

from __future__ import annotations

import pytest

from mlxc import testing

OPS = list(testing.read_table())


def describe(report: testing.Report) -> str:
    shown = "\n".join(map(str, report.failures[:20]))
    return f"{len(report.failures)} of {report.checks} checks failed\n{shown}"


@pytest.mark.parametrize("op", OPS)
def test_op_equals_its_reference(op: str) -> None:
    report = testing.check_op(op)
    assert report.checks > 0
    assert not report.failures, describe(report)


@pytest.mark.parametrize("op", [op for op in OPS if testing.needs_gradient(op)])
def test_derivatives_equal_central_differences(op: str) -> None:
    report = testing.check_gradients(op)
    assert report.checks > 0, "the op has a gradient rule but no differentiable case"
    assert not report.failures, describe(report)


@pytest.mark.parametrize("op", [op for op in OPS if testing.needs_vmap(op)])
def test_vmap_equals_a_loop(op: str) -> None:
    report = testing.check_vmap(op)
    assert report.checks > 0, "the op has a batching rule but no case that could be batched"
    assert not report.failures, describe(report)


@pytest.mark.parametrize("op", [op for op in OPS if testing.needs_vmap_gradient(op)])
def test_gradients_and_batches_compose(op: str) -> None:
    report = testing.check_vmap_gradients(op)
    assert report.checks > 0, "the op has both rules but no differentiable case"
    assert not report.failures, describe(report)


@pytest.mark.parametrize("op", OPS)
def test_compiled_gives_the_same_bytes(op: str) -> None:
    report = testing.check_compiled(op)
    assert report.checks > 0
    assert not report.failures, describe(report)


def test_cpu_has_every_kernel() -> None:
    matrix = testing.support_matrix("cpu")
    missing = {op: [d for d, entry in row.items() if entry == "missing"] for op, row in matrix.items()}
    assert {op: dtypes for op, dtypes in missing.items() if dtypes} == {}
