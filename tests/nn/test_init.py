"""Initialisers: distributions, dtypes, shapes that they refuse. Values beside MLX's are in test_peers.py."""

from __future__ import annotations

import math

import pytest

import mlxc as mx
from mlxc import nn

MATRIX = mx.zeros((300, 200))


@pytest.mark.parametrize(
    ("make", "deviation"),
    [
        (nn.init.normal(std=2.0), 2.0),
        (nn.init.uniform(-3.0, 3.0), math.sqrt(3)),
        (lambda a: nn.init.glorot_normal()(a, gain=2.0), 2 * math.sqrt(2 / 500)),
        (nn.init.glorot_uniform(), math.sqrt(2 / 500)),
        (nn.init.he_normal(), math.sqrt(1 / 200)),
        (lambda a: nn.init.he_uniform()(a, mode="fan_out"), math.sqrt(1 / 300)),
    ],
)
def test_the_deviation_is_what_it_should_be(make, deviation):
    mx.random.seed(3)
    values = make(MATRIX)
    assert values.shape == MATRIX.shape
    assert abs(mx.mean(values).item()) < 0.02 * deviation
    assert mx.std(values).item() == pytest.approx(deviation, rel=0.02)


def test_fans_of_a_convolution_count_the_places_of_its_kernel():
    mx.random.seed(0)
    kernel = nn.init.glorot_uniform()(mx.zeros((8, 3, 5, 4)))
    limit = math.sqrt(6 / (3 * 5 * 4 + 3 * 5 * 8))
    assert 0.97 * limit < mx.max(mx.abs(kernel)).item() <= limit


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_dtypes(dtype):
    makers = [nn.init.constant(1.0, dtype), nn.init.normal(dtype=dtype), nn.init.uniform(dtype=dtype),
              nn.init.identity(dtype), nn.init.glorot_normal(dtype), nn.init.he_uniform(dtype),
              nn.init.sparse(0.5, dtype=dtype), nn.init.orthogonal(dtype=dtype)]  # fmt: skip
    assert all(make(mx.zeros((4, 4))).dtype == dtype for make in makers)


@pytest.mark.parametrize("shape", [(3, 8), (8, 3), (5, 5)])
def test_orthogonal_matrices_are(shape):
    q = nn.init.orthogonal(gain=3.0)(mx.zeros(shape)) / 3
    product = q @ q.T if shape[0] < shape[1] else q.T @ q
    assert mx.allclose(product, mx.eye(min(shape)), atol=1e-5).item()


@pytest.mark.parametrize(("sparsity", "zeros"), [(0.0, 0), (0.25, 3), (0.21, 3), (1.0, 10)])
def test_each_row_has_its_share_of_zeros(sparsity, zeros):
    values = nn.init.sparse(sparsity)(mx.zeros((6, 10)))
    assert mx.sum(values == 0, axis=1).tolist() == [zeros] * 6


def test_empty_arrays():
    for make in (nn.init.glorot_normal(), nn.init.he_uniform(), nn.init.sparse(0.5), nn.init.orthogonal()):
        assert make(mx.zeros((0, 0))).shape == (0, 0)


def test_they_fill_a_model():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).apply(nn.init.constant(0.5))
    assert model(mx.ones((1, 2))).tolist() == [[0.5 + 3 * 0.5 * 1.5]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.init.glorot_normal()(mx.zeros(3)), r"\[glorot_normal\] .* at least 2 axes, got shape \(3,\)"),
        (lambda: nn.init.he_normal()(MATRIX, mode="fan"), r"\[he_normal\] mode .* got 'fan'"),
        (lambda: nn.init.identity()(MATRIX), r"\[identity\] .* square matrix, got shape \(300, 200\)"),
        (lambda: nn.init.sparse(1.5), r"\[sparse\] sparsity"),
        (lambda: nn.init.sparse(0.5)(mx.zeros(3)), r"\[sparse\] .* 2 axes"),
        (lambda: nn.init.orthogonal()(mx.zeros((2, 2, 2))), r"\[orthogonal\] .* 2 axes"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
