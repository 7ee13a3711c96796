"""Cases of indexing with integer arrays, read and write, and of random bits.

Index arrays are inputs like any other here, so they come in every layout too. Duplicate indices are common on
purpose: the last assignment wins, additions accumulate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import mlxc as mx

from .cases import Case, Shape, draw_index, draw_these, draw_uniform
from .layouts import CONTIGUOUS
from .table import Row

CUBE = (5, 6, 7)
ONE = (CONTIGUOUS,)
INT = "int32"


def build(row: Row) -> Iterator[Case]:
    yield from BUILDERS[row.name]()


def _gather() -> Iterator[Case]:
    def make(
        label: str, read: Callable, shapes: Sequence[Shape], sizes: Sequence[int], kind: str = INT, **rest: Any
    ) -> Case:
        draws = [None, *(draw_index(n) for n in sizes)]
        return Case(
            label, shapes, read, read, fixed=(None, *[kind] * len(sizes)), draw=draws, result=lambda d: d, **rest
        )

    yield make("first axis", lambda a, i: a[i], (CUBE, (4,)), (5,), differentiable=True)
    yield make("matrix of indices", lambda a, i: a[i], (CUBE, (2, 3)), (5,), differentiable=True)
    yield make("second axis", lambda a, i: a[:, i], (CUBE, (4,)), (6,), differentiable=True)
    yield make("last axis", lambda a, i: a[..., i], (CUBE, (4,)), (7,), differentiable=True)
    yield make("two axes", lambda a, i, j: a[i, j], (CUBE, (4,), (4,)), (5, 6), differentiable=True)
    yield make("two axes that broadcast", lambda a, i, j: a[i, j], (CUBE, (3, 1), (4,)), (5, 6), differentiable=True)
    yield make("separated axes", lambda a, i, j: a[i, :, j], (CUBE, (4,), (4,)), (5, 7), differentiable=True)
    yield make("all axes", lambda a, i, j, k: a[i, j, k], (CUBE, (4,), (4,), (4,)), CUBE, differentiable=True)
    yield make("beside a slice", lambda a, i: a[1:4, i], (CUBE, (4,)), (6,), differentiable=True)
    yield make("0-d index", lambda a, i: a[i], (CUBE, ()), (5,))
    yield make("no index", lambda a, i: a[i], (CUBE, (0,)), (5,))
    for kind in ("uint8", "int8", "uint32", "int64", "uint64"):
        yield make(f"{kind} indices", lambda a, i: a[i], (CUBE, (4,)), (5,), kind, dtypes=("float32", "int16"))
    yield make("large", lambda a, i: a[i], ((1031, 257), (2000,)), (1031,), layouts=ONE, dtypes=("float32",))
    past = dict(layouts=ONE, dtypes=("float32",), fixed=(None, INT), raises=IndexError)
    for bad in (5, -6):
        yield Case(f"index {bad} of 5", (CUBE, (2,)), lambda a, i: a[i], draw=[None, draw_these([0, bad])], **past)
    yield Case("index far out", (CUBE, (1,)), lambda a, i: a[i], draw=[None, draw_these([2**30])], **past)


def _gather_axis() -> Iterator[Case]:
    def make(label: str, shape: Shape, indices: Shape, axis: int, **rest: Any) -> Case:
        return Case(
            label,
            (shape, indices),
            lambda a, i: mx.take_along_axis(a, i, axis=axis),
            lambda a, i: np.take_along_axis(a, i, axis=axis),
            fixed=(None, INT),
            draw=[None, draw_index(shape[axis])],
            **rest,
        )

    for axis, indices in {0: (3, 6, 7), 1: (5, 4, 7), -1: (5, 6, 2)}.items():
        yield make(f"axis={axis}", CUBE, indices, axis, differentiable=True)
    yield make("no index", (4, 5), (4, 0), 1)
    yield make("indices that broadcast", (4, 5), (1, 3), 1)
    yield make("large", (1031, 257), (1031, 31), 1, layouts=ONE, dtypes=("float32",))
    past = dict(layouts=ONE, dtypes=("float32",), fixed=(None, INT), raises=IndexError)
    yield Case(
        "index past the end",
        ((4, 5), (4, 1)),
        lambda a, i: mx.take_along_axis(a, i, axis=1),
        draw=[None, draw_these([0, 1, 5, 2])],
        **past,
    )


# ---- writing ------------------------------------------------------------------------------------


def _write(mode: str, place: Callable) -> tuple[Callable, Callable]:
    """The call and the reference that combine an update in at a[place(indices)]."""
    ufunc = {
        "add": np.add,
        "subtract": np.subtract,
        "multiply": np.multiply,
        "maximum": np.maximum,
        "minimum": np.minimum,
    }

    def call(a: mx.array, update: mx.array, *indices: mx.array) -> mx.array:
        if mode == "set":
            result = mx.array(a)
            result[place(*indices)] = update
            return result
        return getattr(a.at[place(*indices)], mode)(update)

    def reference(a: np.ndarray, update: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        result = a.copy()
        if mode == "set":
            # NumPy leaves open which of several assignments to one place wins: make it the last.
            numbered = np.arange(a.size).reshape(a.shape)
            places = np.broadcast_to(numbered[place(*indices)], np.broadcast_shapes(numbered[place(*indices)].shape))
            values = np.broadcast_to(update, places.shape)
            for at, value in zip(places.reshape(-1), values.reshape(-1), strict=True):
                result.reshape(-1)[at] = value
        elif a.dtype.kind == "b" and mode == "subtract":
            np.logical_xor.at(result, place(*indices), update)
        else:
            ufunc[mode].at(result, place(*indices), update)
        return result

    return call, reference


def _scatter() -> Iterator[Case]:
    def make(
        label: str, mode: str, place: Callable, shapes: Sequence[Shape], sizes: Sequence[int], **rest: Any
    ) -> Case:
        call, reference = _write(mode, place)
        draws = [rest.pop("values", None)] * 2 + [draw_index(n) for n in sizes]
        fixed = (None, None, *[INT] * len(sizes))
        scale = None
        if mode in ("add", "subtract"):
            grown = _write("add", place)[1]
            scale = lambda a, u, *i: grown(np.abs(a), np.abs(u), *i)  # noqa: E731
        return Case(label, shapes, call, reference, fixed=fixed, draw=draws, result=lambda d: d, scale=scale, **rest)

    for mode in ("set", "add", "subtract", "multiply", "maximum", "minimum"):
        # One bit has no subtraction, and small factors keep products in range.
        rest: dict[str, Any] = {"values": draw_uniform((0.5, 2.0))} if mode == "multiply" else {}
        if mode == "subtract":
            rest["dtypes"] = "uifc"
        yield make(f"{mode} rows", mode, lambda i: i, ((5, 6), (4, 6), (4,)), (5,), differentiable=True, **rest)
        yield make(
            f"{mode} elements",
            mode,
            lambda i, j: (i, j),
            ((5, 6), (9,), (9,), (9,)),
            (5, 6),
            differentiable=True,
            **rest,
        )
        yield make(f"{mode} one value", mode, lambda i: i, ((5, 6), (), (4,)), (5,), **rest)
        yield make(f"{mode} columns", mode, lambda i: (slice(None), i), ((5, 6), (5, 4), (4,)), (6,), **rest)
        yield make(f"{mode} nothing", mode, lambda i: i, ((5, 6), (0, 6), (0,)), (5,), **rest)
    separated = ((5, 6, 7), (4, 6), (4,), (4,))
    yield make("set separated axes", "set", lambda i, j: (i, slice(None), j), separated, (5, 7), differentiable=True)
    yield make("add separated axes", "add", lambda i, j: (i, slice(None), j), separated, (5, 7), differentiable=True)
    yield make(
        "add large",
        "add",
        lambda i: i,
        ((101, 64), (3000, 64), (3000,)),
        (101,),
        layouts=ONE,
        dtypes=("float32", "int32"),
    )
    past = dict(layouts=ONE, dtypes=("float32",), fixed=(None, None, INT), raises=IndexError)
    for bad in (5, -6):
        for mode in ("set", "add"):
            call = _write(mode, lambda i: i)[0]
            yield Case(
                f"{mode} at {bad} of 5", ((5,), (2,), (2,)), call, draw=[None, None, draw_these([0, bad])], **past
            )


def _scatter_axis() -> Iterator[Case]:
    def make(label: str, shape: Shape, indices: Shape, axis: int, **rest: Any) -> Case:
        def distinct(rng: np.random.Generator, dtype: Any, wanted: Shape) -> np.ndarray:
            # Places that repeat have no agreed winner here, so each row's indices differ.
            order = np.argsort(rng.random((*wanted[:axis], shape[axis], *wanted[axis + 1 :])), axis=axis)
            return np.take(order, range(wanted[axis]), axis=axis)

        def reference(a: np.ndarray, i: np.ndarray, values: np.ndarray) -> np.ndarray:
            result = a.copy()
            np.put_along_axis(result, i, values, axis=axis)
            return result

        return Case(
            label,
            (shape, indices, indices),
            lambda a, i, v: mx.put_along_axis(a, i, v, axis=axis),
            reference,
            fixed=(None, INT, None),
            draw=[None, distinct, None],
            **rest,
        )

    # A broadcast layout would repeat indices.
    distinct_layouts = ("contiguous", "transposed", "sliced", "negative")
    for axis, indices in {0: (3, 6, 7), 1: (5, 4, 7), 2: (5, 6, 2)}.items():
        yield make(f"axis={axis}", CUBE, indices, axis, layouts=distinct_layouts, differentiable=True)
    yield make("no index", (4, 5), (4, 0), 1, layouts=ONE)
    past = dict(layouts=ONE, dtypes=("float32",), fixed=(None, INT, None), raises=IndexError)
    draws = [None, draw_these([0, 1, 5, 2]), None]
    yield Case(
        "index past the end",
        ((4, 5), (4, 1), (4, 1)),
        lambda a, i, v: mx.put_along_axis(a, i, v, axis=1),
        draw=draws,
        **past,
    )


# ---- random bits --------------------------------------------------------------------------------


def _hash_blocks(key: tuple[int, int], x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rotations = ((13, 15, 26, 6), (17, 29, 16, 24))
    keys = [np.uint32(key[0]), np.uint32(key[1]), np.uint32(key[0] ^ key[1] ^ 0x1BD11BDA)]
    x, y = x + keys[0], y + keys[1]
    for group in range(5):
        for rotation in rotations[group % 2]:
            x = x + y
            y = ((y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def threefry(key: tuple[int, int], count: int) -> np.ndarray:
    """`count` 32-bit words of Threefry-2x32 with 20 rounds; the counter's halves are the words' two halves."""
    half = (count + 1) // 2
    x = np.arange(half, dtype=np.uint32)
    # With an odd count the last word of the second half pairs with a counter of zero.
    y = np.arange(half, 2 * half, dtype=np.uint32)
    if count % 2:
        y[-1] = 0
    x, y = _hash_blocks(key, x, y)
    return np.concatenate([x, y])[:count]


def threefry_pairs(key: tuple[int, int], count: int) -> np.ndarray:
    """`count` 64-bit words: the pair of the block whose counter is the word's number."""
    number = np.arange(count, dtype=np.uint64)
    x, y = _hash_blocks(key, number.astype(np.uint32), (number >> np.uint64(32)).astype(np.uint32))
    return x.astype(np.uint64) | (y.astype(np.uint64) << np.uint64(32))


def _random_bits() -> Iterator[Case]:
    layouts = ("contiguous", "sliced", "negative")
    for seed in ((0, 0), (0, 7), (123456789, 4294967295)):
        key = draw_these(np.array(seed, np.uint32))
        for width in (1, 2, 4, 8):
            for shape in ((), (5,), (3, 7), (0, 2), (1000,)):
                count = int(np.prod(shape))

                def reference(
                    key: np.ndarray, shape: Shape = shape, width: int = width, count: int = count
                ) -> np.ndarray:
                    if width == 8:
                        return threefry_pairs((int(key[0]), int(key[1])), count).reshape(shape)
                    words = threefry((int(key[0]), int(key[1])), -(-count * width // 4))
                    return words.view(np.uint8)[: count * width].view(f"u{width}").reshape(shape)

                yield Case(
                    f"{shape} of {width} bytes, key {seed}",
                    ((2,),),
                    lambda key, shape=shape, width=width: mx.random.bits(shape, width, key=key),
                    reference,
                    draw=key,
                    result=f"uint{8 * width}",
                    layouts=layouts,
                )
        yield Case(
            f"split, key {seed}",
            ((2,),),
            lambda key: mx.random.split(key, 5),
            lambda key: threefry((int(key[0]), int(key[1])), 10).reshape(5, 2),
            draw=key,
            result="uint32",
            layouts=layouts,
        )
    bad = dict(layouts=("contiguous",), raises=ValueError)
    yield Case("width of three", ((2,),), lambda key: mx.random.bits((4,), 3, key=key), **bad)
    yield Case("not a key", ((3,),), lambda key: mx.random.bits((4,), key=key), **bad)


BUILDERS: dict[str, Callable[[], Iterator[Case]]] = {
    "gather": _gather,
    "gather_axis": _gather_axis,
    "scatter": _scatter,
    "scatter_axis": _scatter_axis,
    "random_bits": _random_bits,
}
