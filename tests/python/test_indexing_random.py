"""The indexing grammar beside NumPy's: random mixtures of slices, integers, None, Ellipsis, index arrays and masks.

Each seed makes keys for arrays of several shapes, then reads, writes and updates through `at` with them.
"""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx

SHAPES = [(), (5,), (4, 3), (2, 3, 4), (3, 1, 2), (2, 2, 2, 2), (0, 3)]
DTYPES = ["int32", "float32", "int8", "float64", "bool"]
UPDATES = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]


def random_slice(rng, size):
    bound = [None, *range(-size - 2, size + 3)]
    return slice(rng.choice(bound), rng.choice(bound), rng.choice([None, -3, -2, -1, 1, 2, 3]))


def random_key(rng, shape):
    """A key that NumPy may or may not take; index arrays of one key broadcast together."""
    common = [(), (3,), (2, 1), (1, 3), (2, 3)][rng.integers(5)]
    items, axis, dots = [], 0, False
    while axis < len(shape) and rng.random() < 0.85:
        kind, size = rng.integers(7), shape[axis]
        if kind <= 1:
            items.append(random_slice(rng, size))
            axis += 1
        elif kind == 2:
            beyond = 1 if rng.random() < 0.05 or not size else 0
            items.append(int(rng.integers(-size - beyond, size + beyond)))
            axis += 1
        elif kind == 3:
            items.append(None)
        elif kind == 4 and not dots:
            items.append(Ellipsis)
            dots, axis = True, axis + int(rng.integers(0, len(shape) - axis + 1))
        elif kind == 5 and size:
            places = rng.integers(-size, size, common if rng.random() < 0.7 else (1,))
            places = places.astype(rng.choice(["int32", "int64", "int8"]))
            items.append(places.tolist() if rng.random() < 0.2 else places)
            axis += 1
        elif kind == 6 and size:
            masked = int(rng.integers(1, len(shape) - axis + 1))
            items.append(rng.integers(0, 2, shape[axis : axis + masked]).astype(bool))
            axis += masked
    return items[0] if len(items) == 1 and rng.random() < 0.5 else tuple(items)


def to_arrays(key, rng):
    """The same key with some of NumPy's arrays as arrays of mlxc."""
    if isinstance(key, tuple):
        return tuple(to_arrays(item, rng) for item in key)
    return mx.array(key) if isinstance(key, np.ndarray) and rng.random() < 0.7 else key


def attempt(call):
    try:
        return call()
    except (IndexError, ValueError, TypeError) as error:
        return error


def assert_agree(want, got, what):
    if isinstance(want, Exception) or isinstance(got, Exception):
        assert isinstance(want, Exception) and isinstance(got, Exception), (what, want, got)
        return
    left, right = np.asarray(want), np.asarray(got)
    assert left.shape == right.shape, (what, left.shape, right.shape)
    assert np.allclose(left, right, rtol=1e-5, equal_nan=True), (what, left, right)


def write(a, key, value):
    out = a.copy() if isinstance(a, np.ndarray) else mx.array(a)
    out[key] = value
    return np.array(out)


def update_one_by_one(a, places, value, name):
    """ufunc.at by a loop over flat places: NumPy's own reads stray memory where the value is broadcast."""
    out = a.copy().ravel()
    for place, item in zip(places.ravel().tolist(), np.broadcast_to(value, places.shape).ravel(), strict=True):
        out[place] = getattr(np, name)(out[place], item)
    return out.reshape(a.shape)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(40))
def test_reads_writes_and_updates_agree(seed):
    rng = np.random.default_rng(seed)
    for shape in SHAPES:
        dtype = rng.choice(DTYPES)
        a = rng.integers(-50, 50, shape).astype(dtype)
        x = mx.array(a, dtype=getattr(mx, dtype))
        key = random_key(rng, shape)
        same = to_arrays(key, rng)
        what = (seed, shape, key)
        places = attempt(lambda: np.asarray(np.arange(a.size).reshape(shape)[key]))  # noqa: B023
        want = places if isinstance(places, Exception) else a.ravel()[places]
        assert_agree(want, attempt(lambda: np.array(x[same])), what)  # noqa: B023
        if isinstance(places, Exception):
            continue
        cut = tuple(1 if rng.random() < 0.3 else n for n in places.shape)
        value = rng.integers(1, 9, cut).astype(dtype)
        given = value if rng.random() < 0.3 else mx.array(value, dtype=x.dtype)
        assert_agree(attempt(lambda: write(a, key, value)), attempt(lambda: write(x, same, given)), what)  # noqa: B023
        if dtype == "bool":
            continue
        name = rng.choice([u for u in UPDATES if u != "divide" or dtype.startswith("float")])
        expected = update_one_by_one(a, places, value, name)
        assert_agree(expected, getattr(x.at[same], name)(mx.array(value, dtype=x.dtype)), (name, *what))
