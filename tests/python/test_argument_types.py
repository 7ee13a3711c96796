"""What is no array is refused with a TypeError that names the function, and settings beyond their range are refused."""

from __future__ import annotations

import pytest

import mlxc as mx

CALLS = {
    "linalg.norm": mx.linalg.norm,
    "linalg.vector_norm": mx.linalg.vector_norm,
    "linalg.matrix_norm": mx.linalg.matrix_norm,
    "zeros_like": mx.array_api.zeros_like,
    "empty_like": mx.array_api.empty_like,
    "cumulative_sum": mx.array_api.cumulative_sum,
    "cumulative_prod": mx.array_api.cumulative_prod,
    "multivariate_normal": lambda x: mx.random.multivariate_normal(x, mx.eye(2)),
}


@pytest.mark.parametrize("wrong", [None, True, 2**70, (1, 2), mx.float32])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_array_is_refused_by_name(name, wrong):
    with pytest.raises(TypeError, match=name):
        CALLS[name](wrong)


@pytest.mark.parametrize("precision", [-2, 1001, 2**70])
def test_print_precision_has_a_range(precision):
    with pytest.raises(ValueError, match="precision"):
        mx.set_printoptions(precision)
    assert repr(mx.array([0.5])) == "array([0.5], dtype=float32)"
