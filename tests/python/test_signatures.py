"""Signatures that `inspect` shows: on functions, on the array's methods and operators, on classes."""

import inspect

import pytest

import mlxc as mx


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (mx.zeros, "(shape, dtype=mlxc.float32, *, stream=None, device=None)"),
        (mx.random.randint, "(low, high, shape=[], dtype=mlxc.int32, key=None, stream=None)"),
        (mx.array, "(val, dtype=None)"),
        (mx.Device, "(type, index=0)"),
        (mx.StreamContext, "(s)"),
        (mx.array(1).item, "()"),
        (mx.array(1).__array__, "(dtype=None, copy=None)"),
        (mx.array(1).to_device, "(device, /, *, stream=None)"),
        (mx.array.__add__, "(self, other, /)"),
        (mx.array(1).__matmul__, "(other, /)"),
        (mx.array([1]).at[0].add, "(value)"),
    ],
)
def test_a_signature_is_shown(thing, text):
    assert str(inspect.signature(thing)) == text


def test_every_public_function_and_method_has_a_signature_and_a_text():
    for owner in (mx, mx.random, mx.linalg, mx.array, mx.ArrayAt, mx.Device, mx.Stream):
        for name, value in vars(owner).items():
            if name.startswith("_") or not callable(value) or isinstance(value, type):
                continue
            inspect.signature(value)
            assert inspect.getdoc(value), f"{owner.__name__}.{name} has no docstring"


def test_docstrings_begin_with_words_and_not_with_a_signature():
    for value in (mx.array, mx.array.item, mx.Device, mx.array.__add__):
        assert "--" not in inspect.getdoc(value).split("\n", 1)[0]
        assert not inspect.getdoc(value).startswith(value.__name__ + "(")


def test_dtype_none_is_the_default_dtype():
    assert mx.zeros(2, None).dtype == mx.ones(2, None).dtype == mx.eye(2, dtype=None).dtype == mx.float32
    assert mx.random.randint(0, 5, [3], None).dtype == mx.int32
