"""Recurrent layers: states, long sequences, dtypes, wrong arguments. Values are compared in test_peers.py."""

from __future__ import annotations

import pytest

import mlxc as mx
from mlxc import nn


def outputs(layer: nn.Module, *args: mx.array) -> list[mx.array]:
    result = layer(*args)
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("length", [7, 40])
def test_a_sequence_in_two_parts_is_the_sequence(kind, length):
    layer = kind(3, 4)
    x = mx.random.normal((2, length, 3), key=mx.random.key(0))
    whole = outputs(layer, x)
    first = outputs(layer, x[:, :3])
    second = outputs(layer, x[:, 3:], *(part[:, -1] for part in first))
    for a, b, c in zip(whole, first, second, strict=True):
        assert mx.allclose(a, mx.concatenate([b, c], axis=1), atol=1e-6).item()


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_shapes_and_dtypes(kind):
    layer = kind(3, 4)
    for shape in [(5, 3), (2, 5, 3), (2, 3, 5, 3), (0, 5, 3), (2, 0, 3), (2, 1, 3)]:
        assert all(part.shape == (*shape[:-1], 4) for part in outputs(layer, mx.zeros(shape))), shape
    for dtype in (mx.float16, mx.bfloat16):
        layer.set_dtype(dtype)
        assert all(part.dtype == dtype for part in outputs(layer, mx.zeros((2, 5, 3), dtype=dtype)))


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_gradients_of_long_sequences_are_those_of_their_parts(kind):
    layer = kind(3, 4)
    x = mx.random.normal((1, 24, 3), key=mx.random.key(0))

    def in_parts(x: mx.array) -> mx.array:
        first = outputs(layer, x[:, :12])
        return mx.sum(first[0] ** 2) + mx.sum(outputs(layer, x[:, 12:], *(part[:, -1] for part in first))[0] ** 2)

    whole = nn.value_and_grad(layer, lambda x: mx.sum(outputs(layer, x)[0] ** 2))(x)
    parts = nn.value_and_grad(layer, in_parts)(x)
    assert mx.allclose(whole[0], parts[0]).item()
    assert all(mx.allclose(whole[1][name], parts[1][name], atol=1e-5).item() for name in whole[1])


def test_one_state_serves_the_whole_batch():
    layer = nn.GRU(3, 4)
    x, h = mx.ones((2, 5, 3)), mx.ones(4)
    assert mx.array_equal(layer(x, h), layer(x, mx.ones((2, 4)))).item()


def test_another_nonlinearity():
    layer = nn.RNN(2, 2, bias=False, nonlinearity=nn.relu)
    layer.update({"Wxh": mx.eye(2), "Whh": mx.eye(2)})
    assert layer(mx.array([[1.0, -1.0], [2.0, 0.5]])).tolist() == [[1.0, 0.0], [3.0, 0.5]]
    assert repr(layer) == "RNN(input_dims=2, hidden_size=2, nonlinearity=relu, bias=False)"


def test_they_train_under_compile():
    layer = nn.LSTM(3, 4)
    x = mx.random.normal((2, 6, 3), key=mx.random.key(1))
    plain = nn.value_and_grad(layer, lambda x: mx.sum(layer(x)[0] ** 2))
    compiled = mx.compile(plain, inputs=layer.state)
    (loss, grads), (loss2, grads2) = plain(x), compiled(x)
    assert mx.allclose(loss, loss2).item()
    assert all(mx.allclose(grads[name], grads2[name], atol=1e-5).item() for name in grads)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.RNN(3, 4, nonlinearity=3), r"\[RNN\] nonlinearity should be a function"),
        (lambda: nn.GRU(3, 0), r"\[GRU\] hidden_size"),
        (lambda: nn.LSTM(3, 4)(mx.zeros((2, 5, 2))), r"\[LSTM\] .* \(..., length, 3\), got \(2, 5, 2\)"),
        (lambda: nn.RNN(3, 4)(mx.zeros(3)), r"\[RNN\] .* got \(3,\)"),
        (lambda: nn.GRU(3, 4)(mx.zeros((2, 5, 3)), mx.zeros((2, 5))), r"\[GRU\] hidden should have shape \(2, 4\)"),
        (lambda: nn.LSTM(3, 4)(mx.zeros((2, 5, 3)), cell=mx.zeros((3, 4))), r"\[LSTM\] cell should have shape"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
