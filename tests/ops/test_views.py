"""Ops that make windows on their input: chains of them agree with NumPy, whatever the layout."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx

STEPS = ("reshape", "transpose", "broadcast_to", "expand_dims", "squeeze", "slice", "bitcast")
BITCASTS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
MAX_SIZE = 2000


def split_size(size: int, rng: np.random.Generator) -> list[int]:
    """Random sizes whose product is the size."""
    sizes = []
    while size > 1:
        divisor = int(rng.choice([d for d in range(2, size + 1) if size % d == 0]))
        sizes.append(divisor)
        size //= divisor
    sizes += [1] * int(rng.integers(0, 3))
    rng.shuffle(sizes)
    return sizes


def random_slices(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[slice, ...]:
    def bound(size: int) -> int | None:
        return None if rng.random() < 0.4 else int(rng.integers(-size - 1, size + 2))

    return tuple(slice(bound(n), bound(n), int(rng.choice([-3, -2, -1, 1, 2, 3]))) for n in shape)


def bitcast(a: np.ndarray, dtype: str) -> np.ndarray:
    return np.ascontiguousarray(a).view(dtype) if a.ndim else a.copy().view(dtype)


def take_step(step: str, a: mx.array, b: np.ndarray, rng: np.random.Generator) -> tuple[mx.array, np.ndarray]:
    if step == "reshape":
        shape = split_size(b.size, rng) if b.size else [int(n) for n in rng.permutation(list(b.shape))]
        return mx.reshape(a, shape), b.reshape(shape)
    if step == "transpose":
        axes = [int(n) for n in rng.permutation(b.ndim)]
        return mx.transpose(a, axes), b.transpose(axes)
    if step == "broadcast_to":
        shape = [int(rng.integers(1, 4)) if n == 1 else n for n in b.shape]
        shape = [int(n) for n in rng.integers(1, 3, rng.integers(0, 2))] + shape
        return mx.broadcast_to(a, shape), np.broadcast_to(b, shape)
    if step == "expand_dims":
        count = int(rng.integers(1, 3))
        axes = [int(n) for n in rng.permutation(b.ndim + count)[:count]]
        return mx.expand_dims(a, axes), np.expand_dims(b, tuple(axes))
    if step == "squeeze":
        return mx.squeeze(a), np.squeeze(b)
    if step == "slice":
        slices = random_slices(b.shape, rng)
        return a[slices], b[slices]
    sizes = [k for k in BITCASTS if k == b.itemsize or (b.ndim and b.shape[-1] * b.itemsize % k == 0)]
    name = BITCASTS[int(rng.choice(sizes))]
    return a.view(getattr(mx, name)), bitcast(b, name)


@pytest.mark.parametrize("evaluate", ["each step", "at the end"])
@pytest.mark.parametrize("seed", range(8))
def test_chains_of_views_agree_with_numpy(seed, evaluate):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        shape = [int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 6, rng.integers(0, 4))]
        b = rng.integers(-100, 100, shape).astype(np.int32)
        a = mx.array(b)
        taken = []
        for step in rng.choice(STEPS, rng.integers(1, 7)):
            a, b = take_step(step, a, b, rng)
            taken.append(str(step))
            if evaluate == "each step":
                mx.eval(a)
            if b.size > MAX_SIZE or b.ndim > 8:
                break
        assert a.shape == b.shape, taken
        np.testing.assert_array_equal(np.array(a), b, err_msg=str(taken))
        np.testing.assert_array_equal(np.array(a + 1), b + b.dtype.type(1), err_msg=str(taken))


@pytest.mark.parametrize(
    ("shape", "wanted", "text"),
    [
        ((2, 3), (4, 2), "cannot reshape (2, 3) with 6 elements to (4, 2)"),
        ((2, 3), (-1, 4), "cannot reshape (2, 3) with 6 elements to (-1, 4)"),
        ((0, 3), (-1, 0), "cannot reshape (0, 3) with 0 elements to (-1, 0)"),
        ((2, 3), (-1, -1), "only one size may be -1"),
        ((2, 3), (-2, 3), "must not be negative"),
        ((2, 3), (2**62, 2**62), "too large"),
    ],
)
def test_reshape_names_the_shapes_that_do_not_fit(shape, wanted, text):
    with pytest.raises(ValueError) as error:
        mx.reshape(mx.zeros(shape), wanted)
    assert text in str(error.value)


def test_reshape_finds_the_unknown_size_of_an_empty_array():
    assert mx.reshape(mx.zeros((0, 3)), (-1, 3)).shape == (0, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: mx.transpose(a, (0, 0)),
        lambda a: mx.transpose(a, (0,)),
        lambda a: mx.broadcast_to(a, (2, 4)),
        lambda a: mx.broadcast_to(a, (3,)),
        lambda a: mx.expand_dims(a, (0, 0)),
        lambda a: mx.squeeze(a, 0),
    ],
)
def test_bad_axes_and_shapes_are_value_errors(call):
    with pytest.raises(ValueError):
        call(mx.zeros((2, 3)))


@pytest.mark.parametrize("call", [lambda a: mx.transpose(a, (0, 2)), lambda a: mx.expand_dims(a, 4),
                                  lambda a: mx.squeeze(a, -3)])
def test_axes_out_of_range_are_both_value_and_index_errors(call):
    for kind in (ValueError, IndexError):
        with pytest.raises(kind):
            call(mx.zeros((2, 3)))
