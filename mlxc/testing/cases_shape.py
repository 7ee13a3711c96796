"""Cases of ops that move values without changing them: copies, casts, creation, shapes, slices, joins.

Their answers are exact. Casts meet every pair of dtypes; views are followed by other ops in the program that the
layouts make, so a wrong stride shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mlxc as mx

from .cases import Case, Shape, draw_uniform, special_values
from .dtypes import DTYPES, Dtype, store, widen
from .layouts import CONTIGUOUS
from .table import Row

CUBE = (5, 6, 7)
ONE = (CONTIGUOUS,)


def build(row: Row) -> Iterator[Case]:
    yield from BUILDERS[row.name]()


def _exact(label: str, shape: Shape, call: Callable, reference: Callable, **rest: Any) -> Case:
    rest.setdefault("differentiable", True)
    return Case(label, (shape,), call, reference, **rest)


def _same(function: Callable) -> Iterator[Case]:
    for label, shape in {"5x6x7": CUBE, "empty": (3, 0), "0-d": (), "prime": (13, 31)}.items():
        yield _exact(label, shape, function, lambda a: a, differentiable=label == "5x6x7")
    yield _exact(
        "large", (1031, 257), function, lambda a: a, differentiable=False, dtypes=("float32", "uint8", "complex128")
    )


def _contiguous() -> Iterator[Case]:
    yield from _same(mx.contiguous)


def _stop_gradient() -> Iterator[Case]:
    yield from _same(mx.stop_gradient)


# ---- casts --------------------------------------------------------------------------------------


def _astype() -> Iterator[Case]:
    for target in DTYPES.values():

        def call(a: mx.array, target: Dtype = target) -> mx.array:
            return a.astype(target.mx)

        def reference(dtype: Dtype, a: np.ndarray, target: Dtype = target) -> np.ndarray:
            wide = widen(a, dtype)
            if target.kind == "b":
                return np.not_equal(wide, 0)
            if target.kind in "ui" and dtype.is_float:
                return np.trunc(wide.real).astype(target.stored)
            return store(wide, target)

        def draw(rng: np.random.Generator, dtype: Dtype, shape: Shape, target: Dtype = target) -> np.ndarray:
            # A float beyond an integer type's range has no right answer; integers wrap.
            within = (0.0 if target.kind == "u" else -100.0, 100.0) if target.kind in "ui" else (-1000.0, 1000.0)
            return draw_uniform(within if dtype.is_float else None)(rng, dtype, shape)

        shared = dict(draw=draw, result=target.name, on_stored=True)
        exact = target.name in ("float64", "complex128")  # differences of rounded values say nothing
        yield _exact(f"to {target.name}", (4, 5, 6), call, reference, differentiable=exact, **shared)
        yield _exact(f"0-d to {target.name}", (), call, reference, layouts=ONE, differentiable=False, **shared)
        if target.is_float or target.kind == "b":
            special = {**shared, "draw": lambda rng, dtype, shape: special_values(dtype)}
            yield _exact(
                f"special to {target.name}",
                (27,),
                call,
                reference,
                layouts=ONE,
                dtypes="f",
                differentiable=False,
                **special,
            )


def _bitcast() -> Iterator[Case]:
    for target in DTYPES.values():
        if target.kind == "b":
            continue

        def call(a: mx.array, target: Dtype = target) -> mx.array:
            return a.view(target.mx)

        def reference(dtype: Dtype, a: np.ndarray, target: Dtype = target) -> np.ndarray:
            return np.ascontiguousarray(a).view(target.stored)

        fits = [
            d.name for d in DTYPES.values() if (6 * d.stored.itemsize) % target.stored.itemsize == 0 and d.kind != "b"
        ]
        yield _exact(
            f"as {target.name}",
            (4, 5, 6),
            call,
            reference,
            dtypes=fits,
            result=target.name,
            on_stored=True,
            differentiable=False,
        )


# ---- creation -----------------------------------------------------------------------------------


def _full() -> Iterator[Case]:
    for label, shape in {"matrix": (4, 5), "empty": (0, 3), "0-d": (), "large": (1031, 257)}.items():
        yield _exact(
            label,
            (),
            lambda v, shape=shape: mx.full(shape, v),
            lambda v, shape=shape: np.full(shape, v),
            differentiable=label == "matrix",
        )
    yield _exact("row repeated", (5,), lambda v: mx.full((4, 5), v), lambda v: np.broadcast_to(v, (4, 5)))


def _arange() -> Iterator[Case]:
    for dtype in DTYPES.values():
        if dtype.kind in "bc":
            continue
        spans = {"up": (1, 12, 1), "steps": (3, 40, 7), "empty": (5, 5, 1)}
        if dtype.kind != "u":
            spans["down"] = (5, -7, -2)
        if dtype.kind == "f":
            spans["fractions"] = (0.5, 4.0, 0.25)
        for label, (start, stop, step) in spans.items():

            def call(dtype: Dtype = dtype, span: tuple = (start, stop, step)) -> mx.array:
                return mx.arange(*span, dtype=dtype.mx)

            def reference(span: tuple = (start, stop, step)) -> np.ndarray:
                return np.arange(*span, dtype=np.float64)

            yield Case(f"{label} {dtype.name}", (), call, reference, dtypes=(dtype.name,), result=dtype.name)
    large = dict(dtypes=("int64",), result="int64")
    yield Case("large", (), lambda: mx.arange(300001, dtype=mx.int64), lambda: np.arange(300001), **large)
    far = 2**53 - 3
    yield Case(
        "exact up to 2**53",
        (),
        lambda: mx.arange(far, far + 3, dtype=mx.int64),
        lambda: np.arange(far, far + 3),
        **large,
    )
    zero = dict(dtypes=("int32",), raises=ValueError)
    yield Case("step zero", (), lambda: mx.arange(0, 5, 0), **zero)


# ---- shapes -------------------------------------------------------------------------------------


def _reshape() -> Iterator[Case]:
    for target in [(210,), (-1,), (7, 6, 5), (5, -1, 1, 7), (2, 105), (30, 7), (5, 42)]:
        yield _exact(f"to {target}", CUBE, lambda a, t=target: mx.reshape(a, t), lambda a, t=target: a.reshape(t))
    yield _exact("to 0-d", (1, 1), lambda a: mx.reshape(a, ()), lambda a: a.reshape(()))
    yield _exact("from 0-d", (), lambda a: mx.reshape(a, (1, 1)), lambda a: a.reshape(1, 1))
    yield _exact(
        "empty", (0, 3), lambda a: mx.reshape(a, (3, 0, 2)), lambda a: a.reshape(3, 0, 2), differentiable=False
    )
    bad = dict(layouts=ONE, dtypes=("float32",), raises=ValueError)
    yield Case("sizes differ", (CUBE,), lambda a: mx.reshape(a, (5, 41)), **bad)
    yield Case("two unknown sizes", (CUBE,), lambda a: mx.reshape(a, (-1, -1)), **bad)


def _transpose() -> Iterator[Case]:
    for axes in [None, (0, 1, 2), (2, 0, 1), (1, 0, 2), (-1, 0, -2)]:
        call = mx.transpose if axes is None else (lambda a, x=axes: mx.transpose(a, x))
        yield _exact(f"axes={axes}", CUBE, call, lambda a, x=axes: np.transpose(a, x))
    yield _exact("0-d", (), mx.transpose, np.transpose)
    yield _exact("empty", (3, 0), mx.transpose, np.transpose, differentiable=False)
    yield Case(
        "axis twice", (CUBE,), lambda a: mx.transpose(a, (0, 0, 1)), layouts=ONE, dtypes=("float32",), raises=ValueError
    )


def _broadcast_to() -> Iterator[Case]:
    for source, target in [
        ((6,), (5, 6)),
        ((5, 1), (5, 6)),
        ((1, 1), (3, 4)),
        ((), (2, 3)),
        ((5, 6), (5, 6)),
        ((1, 3), (0, 3)),
    ]:
        yield _exact(
            f"{source} to {target}",
            source,
            lambda a, t=target: mx.broadcast_to(a, t),
            lambda a, t=target: np.broadcast_to(a, t),
            differentiable=0 not in target,
        )
    yield Case(
        "sizes differ",
        ((5, 6),),
        lambda a: mx.broadcast_to(a, (5, 7)),
        layouts=ONE,
        dtypes=("float32",),
        raises=ValueError,
    )


def _expand_dims() -> Iterator[Case]:
    for axis in [0, 1, -1, (0, 2), (-1, 0)]:
        yield _exact(
            f"axis={axis}", (5, 6), lambda a, x=axis: mx.expand_dims(a, x), lambda a, x=axis: np.expand_dims(a, x)
        )


def _squeeze() -> Iterator[Case]:
    for axis in [None, 0, -1, (0, 2)]:
        yield _exact(f"axis={axis}", (1, 5, 1), lambda a, x=axis: mx.squeeze(a, x), lambda a, x=axis: np.squeeze(a, x))
    yield Case(
        "size is not one", ((1, 5),), lambda a: mx.squeeze(a, 1), layouts=ONE, dtypes=("float32",), raises=ValueError
    )


# ---- slices -------------------------------------------------------------------------------------

INDICES = {
    "range": np.s_[1:4],
    "two ranges": np.s_[1:4, 2:5],
    "steps": np.s_[::2, 1::3],
    "backwards": np.s_[::-1, :, ::-2],
    "from the end": np.s_[-3:-1, -1:-5:-2],
    "one": np.s_[2],
    "last of each": np.s_[-1, -1],
    "ellipsis": np.s_[..., 3:0:-1],
    "new axis": np.s_[:, None, 1:3],
    "nothing": np.s_[3:3],
    "past the end": np.s_[2:100, -100:3],
    "single element": np.s_[1, 2, 3],
}


def _slice() -> Iterator[Case]:
    for label, index in INDICES.items():
        yield _exact(label, CUBE, lambda a, i=index: a[i], lambda a, i=index: a[i], differentiable=label != "nothing")
    bad = dict(layouts=ONE, dtypes=("float32",))
    yield Case("step zero", (CUBE,), lambda a: a[::0], raises=ValueError, **bad)
    yield Case("index past the end", (CUBE,), lambda a: a[5], raises=IndexError, **bad)
    yield Case("too many indices", (CUBE,), lambda a: a[0, 0, 0, 0], raises=IndexError, **bad)


def _slice_update() -> Iterator[Case]:
    def make(label: str, index: Any, shape: Shape) -> Case:
        def call(a: mx.array, update: mx.array) -> mx.array:
            result = mx.array(a)
            result[index] = update
            return result

        def reference(a: np.ndarray, update: np.ndarray) -> np.ndarray:
            result = a.copy()
            result[index] = update
            return result

        return Case(label, (CUBE, shape), call, reference, differentiable=label != "nothing")

    like = np.empty(CUBE)
    for label, index in INDICES.items():
        yield make(label, index, like[index].shape)
    yield make("one value everywhere", np.s_[1:4, ::2], ())
    yield make("row repeated", np.s_[::2, 1:3], (7,))
    yield make("column repeated", np.s_[:, ::-1], (6, 1))

    def assign(a: mx.array, update: mx.array) -> mx.array:
        result = mx.array(a)
        result[1:4] = update
        return result

    yield Case("sizes differ", (CUBE, (2, 6, 7)), assign, layouts=ONE, dtypes=("float32",), raises=ValueError)


# ---- joins --------------------------------------------------------------------------------------


def _concatenate() -> Iterator[Case]:
    def make(label: str, shapes: tuple, axis: int | None, **rest: Any) -> Case:
        def call(*arrays: mx.array) -> mx.array:
            return mx.concatenate(list(arrays), axis=axis)

        return Case(label, shapes, call, lambda *arrays: np.concatenate(arrays, axis=axis), **rest)

    yield make("rows", ((2, 5), (3, 5)), 0, differentiable=True)
    yield make("columns", ((4, 2), (4, 3), (4, 1)), -1, differentiable=True)
    yield make("middle", ((3, 2, 4), (3, 5, 4)), 1, differentiable=True)
    yield make("one array", ((3, 4),), 0)
    yield make("with an empty one", ((0, 4), (3, 4)), 0)
    yield make("flattened", ((3, 4), (2,)), None)
    yield make("large", ((1031, 100), (1031, 157)), 1, layouts=ONE, dtypes=("float32",))
    for other in ("float32", "int32"):
        fits = (
            ("bool", "int8", "uint8", "float32")
            if other == "int32"
            else ("bool", "int32", "float16", "bfloat16", "float64")
        )
        wide = {"bool": other, "float64": "float64"}
        yield make(
            f"with {other}",
            ((3,), (4,)),
            0,
            fixed=(None, other),
            dtypes=fits,
            draw=draw_uniform((0, 4)),
            layouts=ONE,
            result=lambda d, other=other, wide=wide: DTYPES[wide.get(d.name, "float32" if d.kind == "f" else other)],
        )
    bad = dict(layouts=ONE, dtypes=("float32",), raises=ValueError)
    yield Case("other sizes differ", ((2, 5), (2, 4)), lambda a, b: mx.concatenate([a, b], axis=0), **bad)
    yield Case("nothing", (), lambda: mx.concatenate([]), **bad)


def _pad() -> Iterator[Case]:
    def make(label: str, shape: Shape, widths: list[tuple[int, int]], **rest: Any) -> Case:
        def call(a: mx.array, value: mx.array) -> mx.array:
            return mx.pad(a, widths, constant_values=value)

        def reference(a: np.ndarray, value: np.ndarray) -> np.ndarray:
            return np.pad(a, widths, constant_values=value) if a.ndim else a

        return Case(label, (shape, ()), call, reference, **rest)

    yield make("both sides", (4, 5), [(1, 2), (0, 3)], differentiable=True)
    yield make("three axes", (3, 4, 5), [(1, 0), (2, 1), (0, 0)], differentiable=True)
    yield make("no width", (4, 5), [(0, 0), (0, 0)])
    yield make("empty", (0, 3), [(2, 1), (1, 1)])
    yield make("large", (1031, 257), [(3, 5), (1, 2)], layouts=ONE, dtypes=("float32",))
    yield Case(
        "negative width",
        ((4, 5),),
        lambda a: mx.pad(a, [(-1, 0), (0, 0)]),
        layouts=ONE,
        dtypes=("float32",),
        raises=ValueError,
    )


BUILDERS: dict[str, Callable[[], Iterator[Case]]] = {
    "contiguous": _contiguous,
    "stop_gradient": _stop_gradient,
    "astype": _astype,
    "bitcast": _bitcast,
    "full": _full,
    "arange": _arange,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast_to": _broadcast_to,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "slice": _slice,
    "slice_update": _slice_update,
    "concatenate": _concatenate,
    "pad": _pad,
}
