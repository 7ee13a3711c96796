"""Cases of the fused ops of neural networks, beside the formulas that they fuse.

The gradients that are ops of their own are reached by mx.vjp and compared with the formula of the gradient. Errors are
measured beside the magnitudes that are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mlxc as mx

from .cases import Case, Shape, draw_index, draw_these
from .dtypes import DTYPES, Dtype
from .layouts import CONTIGUOUS, STRIDED
from .table import Row

ONE = (CONTIGUOUS,)
EPS = 1e-5


def build(row: Row) -> Iterator[Case]:
    yield from BUILDERS[row.name]()


def _float(dtype: Dtype) -> Dtype:
    return dtype if dtype.is_float else DTYPES["float32"]


def _bad(label: str, shapes: tuple[Shape, ...], call: Callable, error: type = ValueError, **rest: Any) -> Case:
    return Case(label, shapes, call, layouts=ONE, dtypes=("float32",), raises=error, **rest)


# ---- norms ----------------------------------------------------------------------------------


def normalize(x: np.ndarray, centered: bool) -> tuple[np.ndarray, np.ndarray]:
    """Normalised rows, and the factor of each."""
    moved = x - mean(x) if centered else x
    factor = 1 / np.sqrt(mean(moved * moved) + EPS)
    return moved * factor, factor


def mean(x: np.ndarray) -> np.ndarray:
    return np.sum(x, -1, keepdims=True) / max(x.shape[-1], 1)


def _norm_scale(x: np.ndarray, centered: bool) -> np.ndarray:
    """A mean, and a difference from it, round at the size of what is added up."""
    factor = normalize(x, centered)[1]
    return (np.abs(x) + mean(np.abs(x))) * factor if centered else np.abs(x) * factor


ROWS: list[tuple[str, Shape, bool]] = [
    ("5x6x7", (5, 6, 7), True),
    ("one row", (17,), True),
    ("one place", (4, 1), False),
    ("prime", (13, 31), False),
    ("long rows", (3, 2049), False),
    ("no rows", (0, 5), False),
    ("empty rows", (3, 0), False),
]


def _rms_norm() -> Iterator[Case]:
    for label, shape, differentiable in ROWS:
        layouts = STRIDED if label == "5x6x7" else ONE
        yield Case(
            label,
            (shape, shape[-1:]),
            lambda x, w: mx.fast.rms_norm(x, w, EPS),
            lambda x, w: normalize(x, False)[0] * w,
            layouts=layouts,
            differentiable=differentiable,
        )
        yield Case(
            f"{label}, no weight",
            (shape,),
            lambda x: mx.fast.rms_norm(x, None, EPS),
            lambda x: normalize(x, False)[0],
            layouts=ONE,
            differentiable=differentiable,
        )
    yield Case(
        "squares that overflow",
        ((2, 5),),
        lambda x: mx.fast.rms_norm(x, None, EPS),
        lambda x: normalize(x, False)[0],
        layouts=ONE,
        dtypes=("float32", "bfloat16"),
        domain=(1e30, 3e30),
    )
    yield _bad("a weight of another size", ((3, 5), (4,)), lambda x, w: mx.fast.rms_norm(x, w, EPS))
    yield _bad("0-d", ((),), lambda x: mx.fast.rms_norm(x, None, EPS))


def _layer_norm() -> Iterator[Case]:
    for label, shape, differentiable in ROWS:
        yield Case(
            label,
            (shape, shape[-1:], shape[-1:]),
            lambda x, w, b: mx.fast.layer_norm(x, w, b, EPS),
            lambda x, w, b: normalize(x, True)[0] * w + b,
            layouts=STRIDED if label == "5x6x7" else ONE,
            scale=lambda x, w, b: _norm_scale(x, True) * np.abs(w) + np.abs(b),
            differentiable=differentiable,
        )
        yield Case(
            f"{label}, no weight",
            (shape,),
            lambda x: mx.fast.layer_norm(x, None, None, EPS),
            lambda x: normalize(x, True)[0],
            layouts=ONE,
            scale=lambda x: _norm_scale(x, True),
            differentiable=differentiable,
        )
    yield _bad("a bias of another size", ((3, 5), (4,)), lambda x, b: mx.fast.layer_norm(x, None, b, EPS))


def _norm_grad(function: Callable, centered: bool) -> Iterator[Case]:
    def call(x: mx.array, w: mx.array, g: mx.array) -> tuple[mx.array, ...]:
        return tuple(mx.vjp(lambda x, w: [function(x, w)], [x, w], [g])[1])

    def reference(x: np.ndarray, w: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, ...]:
        xhat, factor = normalize(x, centered)
        h = g * w
        dx = h - xhat * np.mean(h * xhat, -1, keepdims=True)
        if centered:
            dx = dx - np.mean(h, -1, keepdims=True)
        return factor * dx, np.sum((g * xhat).reshape(-1, x.shape[-1]), 0)

    for label, shape, differentiable in ROWS:
        if 0 in shape:
            continue

        # One magnitude for both results: what is added up is no larger.
        def scale(x: np.ndarray, w: np.ndarray, g: np.ndarray) -> np.ndarray:
            factor = float(np.max(normalize(x, centered)[1]))
            size = float(np.max(np.abs(g)) * max(1.0, np.max(np.abs(w))) * np.max(np.abs(x)))
            return np.array(size * max(factor, factor * factor, 1.0) * max(1.0, (x.size / x.shape[-1]) ** 0.5))

        yield Case(
            label,
            (shape, shape[-1:], shape),
            call,
            reference,
            layouts=STRIDED if label == "5x6x7" else ONE,
            scale=scale,
            dtypes="f",
            differentiable=differentiable,
        )


# ---- rope -----------------------------------------------------------------------------------


def rotate(
    a: np.ndarray, offset: np.ndarray, dims: int, traditional: bool, *, base: float = 10000.0, freqs: Any = None
) -> np.ndarray:
    half = dims // 2
    places = np.arange(a.shape[-2]) + np.asarray(offset).reshape(-1, *[1] * (a.ndim - 2))
    wide = np.result_type(a.dtype, np.float64)
    rates = wide.type(base) ** (-2 * np.arange(half, dtype=wide) / dims) if freqs is None else 1 / freqs
    angle = places[..., None].astype(wide) * rates
    c, s = np.cos(angle), np.sin(angle)
    out = a.astype(wide)
    first, second = (slice(0, dims, 2), slice(1, dims, 2)) if traditional else (slice(0, half), slice(half, dims))
    x, y = out[..., first].copy(), out[..., second].copy()
    out[..., first], out[..., second] = x * c - y * s, x * s + y * c
    return out


def _rope() -> Iterator[Case]:
    def call(dims: int, traditional: bool) -> Callable:
        return lambda a, offset: mx.fast.rope(
            a, dims, traditional=traditional, base=10000.0, scale=1.0, offset=offset
        )

    for traditional in (False, True):
        for label, shape, dims, offset in (
            ("all places", (2, 3, 5, 8), 8, ()),
            ("some places", (2, 5, 10), 6, ()),
            ("offsets", (3, 2, 5, 6), 6, (3,)),
            ("no places", (2, 3, 4), 0, ()),
            ("no rows", (2, 0, 4), 4, ()),
        ):
            yield Case(
                f"{label}{', traditional' if traditional else ''}",
                (shape, offset),
                call(dims, traditional),
                lambda a, o, dims=dims, traditional=traditional: rotate(a, o, dims, traditional),
                layouts=STRIDED if label == "all places" else ONE,
                fixed=(None, "int32"),
                draw=(None, draw_index(50, negative=False)),
                # an angle rounds at its own size
                scale=lambda a, o: np.array(np.max(np.abs(a), initial=0.0) * (1 + np.max(o, initial=0) / 4)),
                result=_float,
                differentiable=0 not in shape and dims > 0,
            )
    yield Case(
        "frequencies",
        ((2, 5, 8), (4,)),
        lambda a, f: mx.fast.rope(a, 8, traditional=False, base=None, scale=1.0, offset=3, freqs=f),
        lambda a, f: rotate(a, np.array(3), 8, False, freqs=f),
        layouts=ONE,
        dtypes=("float32", "float64"),
        domain=(1.0, 4.0),
        scale=lambda a, f: np.array(np.max(np.abs(a))),
        differentiable=True,
    )
    yield _bad("odd dims", ((2, 3, 8),), lambda a: mx.fast.rope(a, 3, traditional=False, base=1e4, scale=1.0, offset=0))
    yield _bad("two axes", ((3, 8),), lambda a: mx.fast.rope(a, 8, traditional=False, base=1e4, scale=1.0, offset=0))


# ---- attention --------------------------------------------------------------------------------


def spread_heads(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return np.repeat(k, q.shape[1] // k.shape[1], 1)


def share_values(
    q: np.ndarray, k: np.ndarray, mask: Any = None, sinks: Any = None, *, causal: bool = False
) -> np.ndarray:
    """softmax(scale q k^T + mask), a row of zeros where nothing is seen."""
    k = spread_heads(q, k)
    scores = 0.5 * (q @ np.swapaxes(k, -1, -2))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        rows, cols = scores.shape[-2:]
        scores = np.where(np.arange(rows)[:, None] + cols - rows >= np.arange(cols), scores, -np.inf)
    top = np.max(scores, -1, keepdims=True, initial=-np.inf)
    if sinks is not None:
        top = np.maximum(top, sinks[:, None, None])
    with np.errstate(invalid="ignore"):
        exps = np.where(np.isinf(scores), 0, np.exp(scores - np.where(np.isinf(top), 0, top)))
    total = np.sum(exps, -1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks[:, None, None] - top)
    return exps / np.where(total == 0, 1, total)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, *rest: np.ndarray, **options: Any) -> np.ndarray:
    return share_values(q, k, *rest, **options) @ spread_heads(q, v)


def _attention_scale(q: np.ndarray, k: np.ndarray, v: np.ndarray, *rest: np.ndarray) -> np.ndarray:
    # An error of a score is a relative one of its share.
    size = float(np.max(np.abs(q), initial=0) * np.max(np.abs(k), initial=0)) * q.shape[-1] * 0.5
    return np.array(np.max(np.abs(v), initial=0) * max(1.0, size / 4))


HEADS: list[tuple[str, Shape, Shape, bool]] = [
    ("one head", (1, 1, 5, 4), (1, 1, 6, 4), True),
    ("batch and heads", (2, 3, 5, 4), (2, 3, 5, 4), True),
    ("grouped heads", (2, 4, 3, 4), (2, 2, 5, 4), True),
    ("one query", (2, 4, 1, 8), (2, 1, 37, 8), False),
    ("prime", (1, 2, 13, 7), (1, 1, 31, 7), False),
    ("no keys", (1, 2, 3, 4), (1, 2, 0, 4), False),
    ("no queries", (1, 2, 0, 4), (1, 2, 3, 4), False),
]


def _attention() -> Iterator[Case]:
    def attention(q: mx.array, k: mx.array, v: mx.array, **options: Any) -> mx.array:
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, **options)

    small = (-1.0, 1.0)
    for label, q, k, differentiable in HEADS:
        strided = STRIDED if label == "grouped heads" else ONE
        common = dict(scale=_attention_scale, dtypes="f", domain=small, differentiable=differentiable)
        yield Case(label, (q, k, k), attention, attend, layouts=strided, **common)
        yield Case(
            f"{label}, causal",
            (q, k, k),
            lambda q, k, v: attention(q, k, v, mask="causal"),
            lambda q, k, v: attend(q, k, v, causal=True),
            layouts=ONE,
            **common,
        )
        yield Case(
            f"{label}, bool mask",
            (q, k, k, (q[2], k[2])),
            lambda q, k, v, m: attention(q, k, v, mask=m),
            lambda q, k, v, m: attend(q, k, v, m > 0),
            layouts=ONE,
            fixed=(None, None, None, "bool"),
            **common,
        )
        yield Case(
            f"{label}, added mask",
            (q, k, k, (q[0], 1, q[2], k[2])),
            lambda q, k, v, m: attention(q, k, v, mask=m),
            attend,
            layouts=ONE,
            **common,
        )
        yield Case(
            f"{label}, sinks",
            (q, k, k, (q[1],)),
            lambda q, k, v, s: attention(q, k, v, sinks=s),
            lambda q, k, v, s: attend(q, k, v, None, s),
            layouts=ONE,
            **common,
        )
    yield Case(
        "long",
        ((1, 2, 70, 16), (1, 1, 600, 16), (1, 1, 600, 16)),
        attention,
        attend,
        layouts=ONE,
        dtypes=("float32", "float16", "bfloat16"),
        domain=small,
        scale=_attention_scale,
    )
    yield Case(
        "integers",
        ((1, 1, 3, 2), (1, 1, 4, 2), (1, 1, 4, 2)),
        attention,
        attend,
        layouts=ONE,
        dtypes="bui",
        domain=(0.0, 3.0),
        scale=_attention_scale,
    )
    yield _bad("depths differ", ((1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 4)), attention)
    yield _bad("heads do not divide", ((1, 3, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)), attention)
    yield _bad("three axes", ((2, 3, 4), (2, 3, 4), (2, 3, 4)), attention)
    yield _bad(
        "a mask that does not broadcast",
        ((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), (2, 3)),
        lambda q, k, v, m: attention(q, k, v, mask=m),
    )


def _attention_grad() -> Iterator[Case]:
    def make(causal: bool, masked: bool) -> Callable:
        def call(q: mx.array, k: mx.array, v: mx.array, g: mx.array, *rest: mx.array) -> tuple[mx.array, ...]:
            mask = rest[0] if masked else "causal" if causal else None
            return tuple(
                mx.vjp(
                    lambda q, k, v: [mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask=mask)],
                    [q, k, v],
                    [g],
                )[1]
            )

        return call

    def reference(causal: bool) -> Callable:
        def gradients(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray, *rest: np.ndarray) -> tuple:
            p = share_values(q, k, *(m > 0 for m in rest), causal=causal)
            wide_k, wide_v = spread_heads(q, k), spread_heads(q, v)
            inner = g @ np.swapaxes(wide_v, -1, -2)
            ds = 0.5 * p * (inner - np.sum(inner * p, -1, keepdims=True))

            def gather(a: np.ndarray) -> np.ndarray:
                return a.reshape(k.shape[0], k.shape[1], -1, *a.shape[2:]).sum(2)

            return ds @ wide_k, gather(np.swapaxes(ds, -1, -2) @ q), gather(np.swapaxes(p, -1, -2) @ g)

        return gradients

    def scale(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray, *rest: np.ndarray) -> np.ndarray:
        return np.array(4.0 * q.shape[-1])  # all inputs are at most 1

    for label, q, k, differentiable in HEADS:
        if 0 in (*q, *k):
            continue
        for kind, causal, masked in (("", False, False), (", causal", True, False), (", masked", False, True)):
            yield Case(
                label + kind,
                (q, k, k, q, *([(q[2], k[2])] if masked else [])),
                make(causal, masked),
                reference(causal),
                layouts=STRIDED if label == "grouped heads" and not kind else ONE,
                fixed=(None, None, None, None, "bool"),
                dtypes="f",
                domain=(-1.0, 1.0),
                scale=scale,
                differentiable=differentiable,
            )


# ---- cross entropy ----------------------------------------------------------------------------


def logsumexp(a: np.ndarray) -> np.ndarray:
    top = np.max(a, -1, keepdims=True)
    return (top + np.log(np.sum(np.exp(a - top), -1, keepdims=True)))[..., 0]


def pick(a: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return np.take_along_axis(a, targets[..., None].astype(np.int64), -1)[..., 0]


def _loss_dtype(dtype: Dtype) -> Dtype:
    return DTYPES["float64" if dtype.name == "float64" else "float32"]


CLASSES: list[tuple[str, Shape]] = [
    ("5x6x7", (5, 6, 7)),
    ("one row", (11,)),
    ("one class", (4, 1)),
    ("prime", (13, 31)),
    ("many classes", (3, 2049)),
    ("no rows", (0, 5)),
]


def _cross_entropy() -> Iterator[Case]:
    for label, shape in CLASSES:
        for kind in ("int32", "uint8") if label == "5x6x7" else ("int64",):
            yield Case(
                f"{label}, {kind}",
                (shape, shape[:-1]),
                mx.fast.cross_entropy,
                lambda a, t: logsumexp(a.astype(np.result_type(a.dtype, np.float64))) - pick(a, t),
                layouts=STRIDED if label == "5x6x7" else ONE,
                fixed=(None, kind),
                draw=(None, draw_index(shape[-1], negative=False)),
                result=_loss_dtype,
                scale=lambda a, t: np.array(float(np.max(np.abs(a), initial=0.0)) + 1.0),
                domain=(-4.0, 4.0),
                differentiable=label in ("5x6x7", "one row", "prime"),
            )
    for label, target in (("too large", 3), ("negative", -1)):
        yield _bad(
            label,
            ((2, 3), (2,)),
            mx.fast.cross_entropy,
            IndexError,
            fixed=(None, "int32"),
            draw=(None, draw_these([0, target])),
        )
    yield _bad("shapes differ", ((2, 3), (3,)), mx.fast.cross_entropy, fixed=(None, "int32"))


def _cross_entropy_grad() -> Iterator[Case]:
    def call(a: mx.array, t: mx.array, g: mx.array) -> mx.array:
        return mx.vjp(lambda a: [mx.fast.cross_entropy(a, t)], [a], [g])[1][0]

    def reference(a: np.ndarray, t: np.ndarray, g: np.ndarray) -> np.ndarray:
        shares = np.exp(a - logsumexp(a)[..., None])
        np.put_along_axis(shares, t[..., None].astype(np.int64), pick(shares, t)[..., None] - 1, -1)
        return shares * g[..., None]

    for label, shape in CLASSES:
        for narrow in (True, False):
            yield Case(
                label if narrow else f"{label}, float64",
                (shape, shape[:-1], shape[:-1]),
                call,
                reference,
                layouts=STRIDED if label == "5x6x7" else ONE,
                fixed=(None, "int32", "float32" if narrow else "float64"),
                draw=(None, draw_index(shape[-1], negative=False), None),
                dtypes=("float32", "float16", "bfloat16") if narrow else ("float64",),
                scale=lambda a, t, g: np.array(float(np.max(np.abs(g), initial=0.0)) + 0.1),
                differentiable=label in ("5x6x7", "one row") and not narrow,
            )


# ---- gated delta ------------------------------------------------------------------------------


def run_gated_delta(*arrays: np.ndarray, mask: Any = None) -> tuple[np.ndarray, np.ndarray]:
    q, k, v, gamma, beta, state = arrays
    count = v.shape[2] // q.shape[2]
    outs = np.zeros(v.shape, np.result_type(v.dtype, np.float64))
    for t in range(q.shape[1]):
        key, query = np.repeat(k[:, t], count, 1), np.repeat(q[:, t], count, 1)
        faded = state * gamma[:, t, :, None, None]
        error = beta[:, t, :, None] * (v[:, t] - np.einsum("bned,bnd->bne", faded, key))
        moved = faded + error[..., None] * key[:, :, None]
        keep = np.ones(q.shape[0], bool) if mask is None else mask[:, t]
        state = np.where(keep[:, None, None, None], moved, state)
        outs[:, t] = np.where(keep[:, None, None], np.einsum("bned,bnd->bne", moved, query), 0)
    return outs, state


def _gated_delta() -> Iterator[Case]:
    def shapes(*sizes: int) -> tuple[Shape, ...]:
        b, t, h, n, d, e = sizes
        return (b, t, h, d), (b, t, h, d), (b, t, n, e), (b, t, n), (b, t, n), (b, n, e, d)

    # The state is of another dtype than the output for halves, so only its own case looks at it.
    def output(*arrays: mx.array) -> mx.array:
        return mx.fast.gated_delta_update(*arrays)[0]

    def state(*arrays: mx.array) -> mx.array:
        return mx.fast.gated_delta_update(*arrays)[1]

    for label, sizes, differentiable in (
        ("one head", (1, 4, 1, 1, 3, 2), True),
        ("grouped heads", (2, 3, 2, 4, 5, 3), True),
        ("long", (1, 50, 1, 2, 17, 19), False),
        ("one step", (2, 1, 2, 2, 8, 8), False),
        ("no steps", (1, 0, 1, 1, 3, 2), False),
    ):
        common = dict(
            dtypes="f",
            domain=(0.0, 0.5),
            accumulates=True,
            scale=lambda q, *rest: np.array(float(q.shape[-1])),
        )
        strided = STRIDED if label == "grouped heads" else ONE
        yield Case(
            label, shapes(*sizes), output, lambda *a: run_gated_delta(*a)[0], layouts=strided, result=_float,
            differentiable=differentiable, **common,
        )  # fmt: skip
        yield Case(
            f"{label}, state", shapes(*sizes), state, lambda *a: run_gated_delta(*a)[1], layouts=ONE,
            result=_loss_dtype, differentiable=differentiable, **common,
        )  # fmt: skip
        yield Case(
            f"{label}, mask",
            (*shapes(*sizes), sizes[:2]),
            output,
            lambda *a: run_gated_delta(*a[:6], mask=a[6] > 0)[0],
            layouts=ONE,
            fixed=(None,) * 6 + ("bool",),
            result=_float,
            differentiable=differentiable,
            **common,
        )
    yield Case(
        "integers", shapes(1, 2, 1, 1, 3, 2), output, lambda *a: run_gated_delta(*a)[0], layouts=ONE, dtypes="bui",
        domain=(0.0, 1.0), result=_float, scale=lambda q, *rest: np.array(8.0),
    )  # fmt: skip
    wrong = list(shapes(1, 2, 1, 1, 3, 2))
    wrong[5] = (1, 1, 3, 3)
    yield _bad("a state of another shape", tuple(wrong), output)


BUILDERS = {
    "rms_norm": _rms_norm,
    "rms_norm_grad": lambda: _norm_grad(lambda x, w: mx.fast.rms_norm(x, w, EPS), False),
    "layer_norm": _layer_norm,
    "layer_norm_grad": lambda: _norm_grad(lambda x, w: mx.fast.layer_norm(x, w, None, EPS), True),
    "rope": _rope,
    "scaled_dot_product_attention": _attention,
    "attention_grad": _attention_grad,
    "cross_entropy": _cross_entropy,
    "cross_entropy_grad": _cross_entropy_grad,
    "gated_delta": _gated_delta,
}
