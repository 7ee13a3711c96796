"""The kit itself: that it sees what is wrong, so that its silence means something."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx
from mlxc.testing import cases, compare, dtypes, gradients, layouts, run, table

F16, BF16, F32, F64, C64 = (dtypes.DTYPES[n] for n in ("float16", "bfloat16", "float32", "float64", "complex64"))


def mismatch(got: list, reference: list, dtype: dtypes.Dtype = F32, tolerance: float = 1, **rest) -> str | None:
    stored = dtypes.store(np.asarray(got), dtype)
    return compare.find_mismatch(stored, dtype, np.asarray(reference, dtype.wide), tolerance, **rest)


def test_an_error_of_two_ulp_passes_a_tolerance_of_two_and_fails_one() -> None:
    off = 1 + 2 * 2.0**-23
    assert mismatch([off], [1.0], tolerance=2) is None
    assert "2 ulp" in mismatch([off], [1.0], tolerance=1)


def test_tolerance_zero_wants_the_nearest_number() -> None:
    third = np.longdouble(1) / 3
    assert mismatch([np.float32(third)], [third], tolerance=0) is None
    assert mismatch([np.nextafter(np.float32(third), np.float32(1))], [third], tolerance=0)


@pytest.mark.parametrize(
    "got, reference", [(np.nan, 1.0), (1.0, np.nan), (np.inf, -np.inf), (np.inf, 1e30), (0.0, 1e-30)]
)
def test_nan_infinity_and_lost_values_fail(got: float, reference: float) -> None:
    assert mismatch([got], [reference])


def test_nan_equals_nan_and_overflow_is_infinity() -> None:
    assert mismatch([np.nan, np.inf, -np.inf], [np.nan, 1e39, -np.inf]) is None


def test_sign_of_zero_counts_only_where_asked() -> None:
    assert mismatch([-0.0], [0.0]) is None
    assert mismatch([-0.0], [0.0], zero_sign=True)


def test_scale_gives_cancelling_sums_the_error_of_their_terms() -> None:
    assert mismatch([2.0**-23], [0.0])
    assert mismatch([2.0**-23], [0.0], scale=np.array([1.0])) is None


def test_wrong_shape_and_integers_fail() -> None:
    assert "shape" in mismatch([1.0, 2.0], [1.0])
    assert mismatch([3], [4], dtypes.DTYPES["int8"])


def test_bfloat16_is_rounded_once_and_to_even() -> None:
    values = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-40, -2.5e-41, 3.4e38, np.inf])
    stored = dtypes.store(values, BF16)
    wide = dtypes.widen(stored, BF16)
    assert wide[:3].tolist() == [1.0, 1 + 2.0**-6, 1 + 2.0**-7]
    assert wide[3] == -(2.0**-133) * round(2.5e-41 / 2.0**-133)
    assert wide[4] == np.inf and wide[5] == np.inf


@pytest.mark.parametrize("name", list(layouts.LAYOUTS))
@pytest.mark.parametrize("dtype", [F32, BF16, C64, dtypes.DTYPES["bool"]], ids=lambda d: d.name)
def test_a_layout_holds_the_values_it_says(name: str, dtype: dtypes.Dtype) -> None:
    values = dtypes.store(np.arange(24).reshape(2, 3, 4) % 7, dtype)
    laid = layouts.lay_out(values, dtype, name)
    assert np.array_equal(dtypes.from_mlxc(laid.array), laid.stored)
    assert name == "broadcast" or np.array_equal(laid.stored, values)


def test_a_wrong_op_is_found() -> None:
    row = table.read_table()["exp"]
    right = next(c for c in cases.cases_of("exp") if c.label == "4x5x6")
    wrong = cases.Case(right.label, right.shapes, lambda a: mx.exp(a) * 1.00001, right.reference)
    assert run.check_case(row, right, F32, ("contiguous",)) is None
    assert "ulp" in run.check_case(row, wrong, F32, ("contiguous",))


def test_an_exception_is_a_failure_and_a_missing_one_too() -> None:
    row = table.read_table()["exp"]
    raising = cases.Case("raises", ((2,),), lambda a: mx.reshape(a, (3,)), np.exp)
    silent = cases.Case("silent", ((2,),), mx.exp, raises=ValueError)
    assert run.check_case(row, raising, F32, ("contiguous",)).startswith("raised ValueError")
    assert run.check_case(row, silent, F32, ("contiguous",)) == "raised nothing, expected ValueError"


def test_a_wrong_gradient_is_found() -> None:
    rng = np.random.default_rng(0)
    x = mx.array(np.array([0.5, 1.5]), dtype=mx.float64)
    assert gradients.check_function(lambda a: (mx.sin(a),), [x], rng, True, True) is None
    stopped = gradients.check_function(lambda a: (a * mx.stop_gradient(a),), [x], rng, True, True)
    assert stopped.startswith("jvp is")


def test_every_op_has_a_case() -> None:
    assert all(cases.cases_of(op) for op in table.read_table())
