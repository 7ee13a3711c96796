"""Activations at kinks, far out, in half precision, of numbers and empty arrays; wrong arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mlxc as mx
from mlxc import nn

ELEMENTWISE = [
    "celu", "elu", "gelu", "gelu_approx", "gelu_fast_approx", "hard_shrink", "hard_tanh", "hardswish", "leaky_relu",
    "log_sigmoid", "mish", "relu", "relu2", "relu6", "selu", "sigmoid", "silu", "softplus", "softshrink", "softsign",
    "tanh",
]  # fmt: skip
ALONG_AN_AXIS = ["glu", "log_softmax", "softmax", "softmin"]


def gradient(fn, *values: float) -> list[float]:
    return mx.grad(lambda x: mx.sum(fn(x)))(mx.array(values)).tolist()


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_values_and_gradients_are_finite_far_out(name):
    x = mx.array([-3e38, -1e30, -1e4, -100.0, 100.0, 1e4, 1e18])
    assert mx.all(mx.isfinite(getattr(nn, name)(x))).item()
    assert mx.all(mx.isfinite(mx.grad(lambda x: mx.sum(getattr(nn, name)(x)))(x))).item()


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
@pytest.mark.parametrize("name", [*ELEMENTWISE, *ALONG_AN_AXIS])
def test_half_precision_is_the_float32_result_rounded(name, dtype):
    x = mx.array(np.linspace(-40, 40, 64), dtype=dtype)
    found = getattr(nn, name)(x)
    assert found.dtype == dtype
    wanted = getattr(nn, name)(x.astype(mx.float32)).astype(dtype).astype(mx.float32)
    assert mx.allclose(found.astype(mx.float32), wanted, rtol=float(mx.finfo(dtype).eps), atol=1e-7).item()


@pytest.mark.parametrize("name", [*ELEMENTWISE, *ALONG_AN_AXIS])
def test_double_precision_stays_double(name):
    x = mx.array(np.linspace(-3, 3, 8), dtype=mx.float64)
    found = getattr(nn, name)(x)
    assert found.dtype == mx.float64
    assert np.abs(np.array(found) - np.array(getattr(nn, name)(x.astype(mx.float32)), np.float64)).max() < 1e-6


def test_double_precision_is_accurate():
    x = np.linspace(-20, 20, 41)
    soft = np.log1p(np.exp(x))
    for fn, wanted in [
        (nn.softplus, soft),
        (nn.mish, x * np.tanh(soft)),
        (nn.silu, x / (1 + np.exp(-x))),
        (nn.gelu, [v * math.erfc(-v / math.sqrt(2)) / 2 for v in x]),
    ]:
        np.testing.assert_allclose(np.array(fn(mx.array(x, dtype=mx.float64))), wanted, rtol=1e-14, atol=3e-15)


@pytest.mark.parametrize(
    ("fn", "at", "wanted"),
    [
        (nn.relu, 0.0, 0.0),
        (nn.relu6, 0.0, 0.0),
        (nn.relu6, 6.0, 0.0),
        (nn.hard_tanh, 1.0, 0.0),
        (nn.leaky_relu, 0.0, 1.0),
        (nn.elu, 0.0, 1.0),
        (nn.celu, 0.0, 1.0),
        (nn.softplus, 0.0, 0.5),
        (nn.log_sigmoid, 0.0, 0.5),
        (nn.silu, 0.0, 0.5),
        (nn.softsign, 0.0, 1.0),
        (nn.hard_shrink, 0.5, 0.0),
        (nn.softshrink, -0.5, 0.0),
    ],
)
def test_the_gradient_at_a_kink(fn, at, wanted):
    assert gradient(fn, at) == [wanted]


def test_second_derivatives_of_smooth_activations():
    for fn, wanted in [(nn.softplus, 0.25), (nn.mish, 0.64), (nn.silu, 0.5)]:
        second = mx.grad(lambda x, fn=fn: mx.grad(fn)(x))(mx.array(0.0))
        assert second.item() == pytest.approx(wanted, abs=1e-6)


def test_nan_stays_nan():
    x = mx.array([math.nan])
    assert [
        name for name in [*ELEMENTWISE, "log_softmax", "softmax"] if not math.isnan(getattr(nn, name)(x).item())
    ] == []


@pytest.mark.parametrize("name", [*ELEMENTWISE, "log_softmax", "softmax", "softmin", "glu", "step"])
def test_no_rows_give_no_rows(name):
    assert getattr(nn, name)(mx.zeros((0, 4))).shape == (0, 2 if name == "glu" else 4)


@pytest.mark.parametrize("name", ["relu", "relu2", "hard_shrink"])
def test_integers_stay_integers_where_nothing_is_a_fraction(name):
    found = getattr(nn, name)(mx.array([-2, 0, 3]))
    assert found.dtype == mx.int32 and found.tolist() == {"relu": [0, 0, 3], "relu2": [0, 0, 9]}.get(name, [-2, 0, 3])


def test_a_step_is_taken_at_the_threshold():
    assert nn.step(mx.array([0.0, 0.5, 1.0]), 0.5).tolist() == [0, 1, 1]


def test_log_softmax_of_large_numbers_keeps_its_digits():
    found = nn.log_softmax(mx.array([[1e4, 1e4 + 1]]))
    np.testing.assert_allclose(np.array(found), [[-1.3132616, -0.3132617]], rtol=1e-6)


def test_they_pass_through_transforms():
    x = mx.array(np.linspace(-3, 3, 12, dtype=np.float32)).reshape(3, 4)
    for name in ELEMENTWISE:
        fn = getattr(nn, name)
        for other in (mx.vmap(fn), mx.compile(fn)):
            assert mx.allclose(other(x), fn(x), rtol=1e-6, atol=1e-7).item(), name


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"\[glu\] axis -1 of shape \(2, 3\)"):
        nn.glu(mx.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"\[celu\] alpha"):
        nn.celu(mx.zeros(2), 0.0)
    with pytest.raises(ValueError, match=r"\[GELU\] approx must be one of 'none', .* got 'sharp'"):
        nn.GELU("sharp")
    with pytest.raises(ValueError, match=r"\[PReLU\] num_parameters"):
        nn.PReLU(0)


def test_layers_say_their_arguments():
    assert repr(nn.Sequential(nn.ELU(0.5), nn.GELU("tanh"), nn.ReLU(), nn.PReLU(3))).split("\n")[1:5] == [
        "  (layers.0): ELU(alpha=0.5)",
        "  (layers.1): GELU(approx='tanh')",
        "  (layers.2): ReLU()",
        "  (layers.3): PReLU(num_parameters=3)",
    ]
