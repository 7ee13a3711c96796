"""Runs functions of mlxc beside those of MLX on random arguments and prints what differs. For developers:

    pip install "mlx[cpu]"
    python tools/compare_mlx.py [--rounds N] [--seed S] [NAME ...]

Compares values, shapes, dtypes, and whether there is an error. Each function runs in a process of its own, because MLX
ends the process on some arguments. What differs on purpose is in docs/semantics.md; EXPECTED lists it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import traceback

import numpy as np

DTYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16",
          "float32", "float64", "complex64"]  # fmt: skip
SHAPES = [(), (1,), (5,), (2, 3), (3, 1), (4, 3, 2), (0,), (2, 0), (7, 13)]
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 2e-6, "complex64": 5e-5}


# Errors that only one of the two has, on purpose.
EXPECTED = (
    "no integer type holds both", "does not fit uint", "Only inexact types are supported",
    "incompatible function arguments", "complex", "not supported for", "Not supported for", "not yet implemented",
)  # fmt: skip


class Sample:
    """A recipe for an array that both libraries can follow: values, dtype and layout."""

    def __init__(self, rng, dtype, shape, *, low=-4, high=5, special=0.1):
        self.dtype, self.shape = dtype, shape
        self.layout = rng.choice(["plain", "plain", "transposed", "strided", "reversed", "broadcast"])
        size = tuple(shape)
        if self.layout == "strided":
            size = tuple(2 * n for n in shape)
        if self.layout == "broadcast" and shape:
            size = (1, *shape[1:])
        if dtype == "bool":
            values = rng.integers(0, 2, size).astype(bool)
        elif dtype.startswith("uint"):
            values = rng.integers(0, max(high, 1), size)
        elif dtype.startswith("int"):
            values = rng.integers(low, high, size)
        else:
            values = rng.uniform(low, high, size)
            if special and rng.random() < 0.5:
                places = rng.random(size) < special
                values = np.where(places, rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], size), values)
            if dtype == "complex64":
                values = values + 1j * rng.uniform(low, high, size)
        self.values = np.asarray(values)

    def make(self, lib):
        dtype = getattr(lib, "bool_" if self.dtype == "bool" else self.dtype)
        wide = {"bfloat16": np.float32, "float64": np.float64, "complex64": np.complex64}.get(self.dtype)
        values = self.values.astype(wide or self.dtype)
        if self.layout == "transposed":
            a = lib.array(np.ascontiguousarray(values.T), dtype=dtype)
            return lib.transpose(a)
        a = lib.array(values, dtype=dtype)
        if self.layout == "strided":
            return a[tuple(slice(None, None, 2) for _ in self.shape)] if self.shape else a
        if self.layout == "reversed":
            return a[tuple(slice(None, None, -1) for _ in self.shape)] if self.shape else a
        if self.layout == "broadcast":
            return lib.broadcast_to(a, self.shape)
        return a

    def __repr__(self):
        return f"<{self.dtype} {self.shape} {self.layout} {self.values.tolist() if self.values.size < 8 else ''}>"


class Sorted(Sample):
    def __init__(self, rng):
        super().__init__(rng, dtype_of(rng, ["float32", "int32"]), (6,), special=0)
        self.layout = "plain"
        self.values = np.sort(self.values)


class Dtype:
    def __init__(self, name):
        self.name = name

    def make(self, lib):
        return getattr(lib, "bool_" if self.name == "bool" else self.name)

    def __repr__(self):
        return self.name


def build(lib, value):
    if hasattr(value, "make"):
        return value.make(lib)
    if isinstance(value, tuple):
        return tuple(build(lib, v) for v in value)
    if isinstance(value, list):
        return [build(lib, v) for v in value]
    if isinstance(value, dict):
        return {k: build(lib, v) for k, v in value.items()}
    return value


def any_shape(rng):
    return SHAPES[rng.integers(len(SHAPES))]


def dtype_of(rng, dtypes=DTYPES):
    return dtypes[rng.integers(len(dtypes))]


def scalar(rng):
    return [True, 2, -1, 3, 0.5, -1.5, 2.0][rng.integers(7)]


def shape_pair(rng):
    pairs = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (4,)), ((4, 1, 2), (3, 1)), ((0,), (1,)),
             ((5,), (5,)), ((2, 3), (2,))]  # fmt: skip
    return pairs[rng.integers(len(pairs))]


def axis_of(rng, ndim, many=True):
    choice = rng.integers(4)
    if choice == 0 or ndim == 0:
        return None
    if choice == 1 and many and ndim > 1:
        return tuple(int(i) for i in rng.permutation(ndim)[: rng.integers(1, ndim + 1)])
    return int(rng.integers(-ndim, ndim + (rng.random() < 0.05)))


def unary(rng):
    return [Sample(rng, dtype_of(rng), any_shape(rng))], {}


def binary(rng):
    left, right = shape_pair(rng)
    a = Sample(rng, dtype_of(rng), left)
    b = Sample(rng, dtype_of(rng), right)
    choice = rng.integers(5)
    if choice == 0:
        b = scalar(rng)
    elif choice == 1:
        a = scalar(rng)
    elif choice == 2:
        b = Sample(rng, a.dtype, right)
    return [a, b], {}


def nonzero_binary(rng):
    (a, b), _ = binary(rng)
    for x in (a, b):
        if isinstance(x, Sample):
            x.values = np.where(x.values == 0, 1, x.values)
    return [a, b], {}


def shift(rng):
    (a, b), _ = binary(rng)
    if isinstance(b, Sample):
        b.values = np.abs(b.values.real)
    elif isinstance(b, (int, float)):
        b = abs(int(b))
    return [a, b], {}


def reduction(rng):
    shape = any_shape(rng)
    return [Sample(rng, dtype_of(rng), shape)], {"axis": axis_of(rng, len(shape)), "keepdims": bool(rng.integers(2))}


def one_axis(rng):
    shape = any_shape(rng)
    return [Sample(rng, dtype_of(rng), shape)], {"axis": axis_of(rng, len(shape), False)}


def arg_reduction(rng):
    args, kwargs = one_axis(rng)
    return args, {**kwargs, "keepdims": bool(rng.integers(2))}


def spread(rng):
    args, kwargs = reduction(rng)
    return args, {**kwargs, "ddof": int(rng.integers(3))}


def scan(rng):
    args, kwargs = one_axis(rng)
    return args, {**kwargs, "reverse": bool(rng.integers(2)), "inclusive": bool(rng.integers(2))}


def flips(rng):
    shape = any_shape(rng)
    return [Sample(rng, dtype_of(rng), shape)], {"axis": axis_of(rng, len(shape))}


def made(*makers):
    """Arguments made each by its maker; a dict of makers for keywords comes last."""

    def make(rng):
        args, kwargs = [], {}
        for maker in makers:
            if isinstance(maker, dict):
                kwargs = {k: v(rng) for k, v in maker.items()}
            else:
                args.append(maker(rng))
        return args, kwargs

    return make


def choose(*options):
    return lambda rng: options[rng.integers(len(options))]


def array(*shapes, dtypes=DTYPES, **how):
    return lambda rng: Sample(rng, dtype_of(rng, dtypes), shapes[rng.integers(len(shapes))], **how)


def ints(low, high, *shapes):
    return array(*shapes, dtypes=["int32", "uint32", "int64", "int8"], low=low, high=high)


INEXACT = ["float16", "bfloat16", "float32", "float64", "complex64"]
REAL = [d for d in DTYPES if d != "complex64"]
FLOATS = INEXACT[:4]
F32 = ["float32"]


def some_dtype(rng):
    return Dtype(dtype_of(rng))


def matmul(rng):
    pairs = [((3, 4), (4, 2)), ((4,), (4, 2)), ((2, 4), (4,)), ((5, 3, 4), (4, 2)), ((5, 1, 3, 4), (2, 4, 6)),
             ((4,), (4,)), ((2, 3), (2, 3)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((), (2,))]  # fmt: skip
    left, right = pairs[rng.integers(len(pairs))]
    dtype = dtype_of(rng)
    return [
        Sample(rng, dtype, left, special=0),
        Sample(rng, dtype if rng.random() < 0.7 else dtype_of(rng), right, special=0),
    ], {}


def joined(rng):
    n = int(rng.integers(1, 4))
    return [[Sample(rng, dtype_of(rng), (2, 3)) for _ in range(n)]], {"axis": choose(0, 1, -1, None, 2)(rng)}


def conv(rng, ndim):
    dtype = dtype_of(rng, ["float16", "float32", "float64", "bfloat16"])
    groups = int(rng.integers(1, 3))
    size = [int(n) for n in rng.integers(5, 8, ndim)]
    kernel = [int(n) for n in rng.integers(1, 4, ndim)]
    x = Sample(rng, dtype, (2, *size, 2 * groups), special=0)
    w = Sample(rng, dtype, (4, *kernel, 2), special=0)
    pick = (
        (lambda lo, hi: int(rng.integers(lo, hi)))
        if ndim == 1 or rng.integers(2)
        else (lambda lo, hi: tuple(int(v) for v in rng.integers(lo, hi, ndim)))
    )
    return [x, w], {"stride": pick(1, 3), "padding": pick(0, 3), "dilation": pick(1, 3), "groups": groups}


def padded(rng):
    shape = choose((3,), (2, 3), (2, 3, 4))(rng)
    width = choose(1, (1, 2), [(1, 0)] * len(shape), [(0, 2)], 0)(rng)
    return [Sample(rng, dtype_of(rng), shape), width], {
        "mode": choose("constant", "edge")(rng),
        "constant_values": choose(0, 1)(rng),
    }


CALLS = {
    name: unary
    for name in (
        "abs arccos arccosh arcsin arcsinh arctan arctanh ceil conjugate cos cosh degrees erf erfinv exp expm1 floor "
        "imag isfinite isinf isnan isneginf isposinf log log10 log1p log2 logical_not negative radians real reciprocal "
        "rsqrt sigmoid sign sin sinh sqrt square stop_gradient tan tanh bitwise_invert zeros_like ones_like contiguous"
    ).split()
}
CALLS |= {
    name: binary
    for name in (
        "add subtract multiply equal not_equal less less_equal greater greater_equal logical_and logical_or maximum "
        "minimum bitwise_and bitwise_or bitwise_xor arctan2 logaddexp array_equal inner"
    ).split()
}
CALLS |= {name: nonzero_binary for name in ("divide", "floor_divide", "remainder", "divmod", "power")}
CALLS |= {"left_shift": shift, "right_shift": shift}
CALLS |= {name: reduction for name in "sum prod min max mean all any logsumexp".split()}
CALLS |= {"argmin": arg_reduction, "argmax": arg_reduction, "var": spread, "std": spread, "median": reduction}
CALLS |= {name: scan for name in "cumsum cumprod cummax cummin logcumsumexp".split()}
CALLS |= {"sort": one_axis, "argsort": one_axis, "softmax": flips, "squeeze": flips}
CALLS |= {
    "round": made(array(*SHAPES), choose(0, 1, 2, -1)),
    "clip": made(array((2, 3)), choose(None, 0, 1, -0.5), choose(None, 2, 2.5)),
    "where": made(array((2, 3), dtypes=["bool", "int32"]), array((2, 3), (3,), ()), array((2, 3), (1,))),
    "nan_to_num": made(array(*SHAPES), choose(0, 1.5), choose(None, 7.0), choose(None, -7.0)),
    "isclose": made(array((2, 3)), array((2, 3), (3,)), {"equal_nan": choose(True, False)}),
    "allclose": made(array((2, 3)), array((2, 3), (3,)), {"equal_nan": choose(True, False)}),
    "astype": made(array(*SHAPES, special=0, low=0), some_dtype),
    "view": made(array((2, 4), (4,)), some_dtype),
    "reshape": made(array((2, 6), (12,), (3, 4)), choose((12,), (3, -1), (2, 2, 3), (5, 2), -1, ())),
    "flatten": made(array(*SHAPES), choose(0, 1, -2), choose(-1, 1)),
    "unflatten": made(array((6,), (2, 6)), choose(0, -1), choose((2, 3), (3, -1), (4, 2))),
    "expand_dims": made(array((2, 3)), choose(0, 1, -1, (0, 2), (0, -1), 4)),
    "moveaxis": made(array((2, 3, 4)), choose(0, -1), choose(1, 2, -3)),
    "swapaxes": made(array((2, 3, 4)), choose(0, -1), choose(1, 2, -3)),
    "transpose": made(array((2, 3, 4)), choose(None, (0, 2, 1), (-1, 0, 1), (0, 0, 1))),
    "broadcast_to": made(array((3,), (1, 3), ()), choose((2, 3), (4, 2, 3), (3,), (2, 2))),
    "broadcast_arrays": made(array((3,)), array((2, 1))),
    "atleast_1d": made(array((), (3,))),
    "atleast_2d": made(array((), (3,), (2, 3))),
    "atleast_3d": made(array((), (3,), (2, 3))),
    "diagonal": made(array((3, 4), (2, 3, 4)), choose(0, 1, -2, 9)),
    "diag": made(array((3,), (3, 4)), choose(0, 1, -1)),
    "trace": made(array((3, 4), (3, 3)), choose(0, 1, -1)),
    "tril": made(array((3, 4), (2, 3, 3)), choose(0, 1, -1)),
    "triu": made(array((3, 4), (2, 3, 3)), choose(0, 1, -1)),
    "concatenate": joined,
    "stack": joined,
    "split": made(array((6, 4)), choose(2, 3, [1, 3], (2, 2), 4), choose(0, 1, -1)),
    "repeat": made(array((2, 3), (3,)), choose(0, 1, 3), choose(None, 0, -1)),
    "tile": made(array((2, 3), (3,), ()), choose(2, (2, 1), (1, 2, 2), (0,))),
    "roll": made(array((2, 3), (5,)), choose(1, -2, (1, 2), 7), choose(None, 0, (0,), -1)),
    "pad": padded,
    "flip": flips,
    "take": made(array((4, 5), (6,)), ints(-4, 4, (), (2,), (2, 3)), choose(None, 0, -1)),
    "take_along_axis": made(array((4, 5)), ints(-4, 4, (4, 5), (2, 5), (4, 3)), choose(0, 1, -1)),
    "put_along_axis": made(array((4, 5)), ints(0, 1, (1, 5), (4, 1)), array((), (1, 1)), choose(0, 1)),
    "partition": made(array((7,), dtypes=REAL), choose(0, 3, -1)),
    "topk": made(array((7,), (3, 7), dtypes=REAL), choose(1, 3, 7)),
    "searchsorted": made(Sorted, array((4,), (2, 2), (), dtypes=["float32", "int32"]), choose("left", "right")),
    "matmul": matmul,
    "addmm": lambda rng: (
        [Sample(rng, "float32", (3, 2)), Sample(rng, "float32", (3, 4)), Sample(rng, "float32", (4, 2))],
        {"alpha": 0.5, "beta": 2.0},
    ),
    "outer": made(array((3,), (2, 2), special=0), array((4,), (), special=0)),
    "kron": made(array((2, 3), (3,), special=0), array((2, 2), (2,), special=0)),
    "tensordot": made(
        array((2, 3, 4), dtypes=["float32", "int32"], special=0),
        array((3, 4, 2), dtypes=["float32"], special=0),
        choose(2, 1, [[1, 2], [0, 1]], 0),
    ),
    "einsum": lambda rng: (
        [
            *choose(
                ("ij,jk->ik", (2, 3), (3, 4)),
                ("ij->ji", (2, 3)),
                ("ij,ij", (2, 3), (2, 3)),
                ("ii->i", (3, 3)),
                ("bij,bjk->bik", (2, 3, 2), (2, 2, 3)),
                ("i,j->ij", (2,), (3,)),
                ("ij->", (2, 3)),
            )(rng)
        ],
        {},
    ),
    "arange": made(choose(0, 1, -2, 0.5), choose(5, 4.5, -3), choose(1, 2, -1, 0.3)),
    "linspace": made(choose(0, 1, -2.5), choose(5, 4.5, -3), choose(1, 2, 7, 0)),
    "eye": made(choose(3, 2), choose(None, 4), choose(0, 1, -1), some_dtype),
    "tri": made(choose(3, 2), choose(3, 4), choose(0, 1, -1), some_dtype),
    "full": made(choose((2, 3), 3, ()), choose(1, 2.5, True, 1j)),
    "full_like": made(array((2, 3)), choose(1, 2, True)),
    "zeros": made(choose((2, 3), 3, ()), some_dtype),
    "ones": made(choose((2, 3), 3, ()), some_dtype),
    "identity": made(choose(3, 0), some_dtype),
    "meshgrid": made(array((3,)), array((2,)), {"sparse": choose(True, False), "indexing": choose("xy", "ij")}),
    "hanning": made(choose(0, 1, 5, 8)),
    "hamming": made(choose(0, 1, 5, 8)),
    "blackman": made(choose(0, 1, 5, 8)),
    "bartlett": made(choose(0, 1, 5, 8)),
    "conv1d": lambda rng: conv(rng, 1),
    "conv2d": lambda rng: conv(rng, 2),
    "conv3d": lambda rng: conv(rng, 3),
    "convolve": made(
        array((5,), (7,), dtypes=["float32", "float16"], special=0),
        array((3,), (7,), dtypes=["float32"], special=0),
        choose("full", "same", "valid"),
    ),
    "unique": made(array((7,), (2, 3), special=0), choose(3, 7), {"return_counts": choose(True, False)}),
    "vecdot": made(array((3,), (2, 3), special=0), array((3,), (2, 3), special=0)),
    "unstack": made(array((3,), (2, 3)), {"axis": choose(0, -1)}),
    "count_nonzero": made(array((3,), (2, 3)), {"axis": choose(None, 0, -1)}),
    "diff": made(array((3,), (2, 3)), choose(0, 1, 2, 3), choose(0, -1)),
    "minmax": reduction,
    "result_type": made(some_dtype, some_dtype),
    "can_cast": made(some_dtype, some_dtype),
    "linalg.norm": made(
        array((3,), (2, 3), special=0, dtypes=["float32", "complex64"]),
        choose(None, 1, 2, "fro", float("inf"), -1),
        choose(None, 0, -1),
    ),
    "linalg.cross": made(array((3,), (2, 3), special=0), array((3,), (2, 3), special=0)),
}
KEYED = {
    "random.bits": made(choose((3,), (2, 5)), choose(1, 2, 4)),
    "random.uniform": made(
        choose(0, -1.5),
        choose(1, 2.5),
        choose((3,), (2, 5), ()),
        choose(Dtype("float32"), Dtype("float16"), Dtype("bfloat16")),
    ),
    "random.normal": made(
        choose((3,), (2, 5)),
        choose(Dtype("float32"), Dtype("float16"), Dtype("complex64")),
        choose(None, 1.0),
        choose(None, 2.0),
    ),
    "random.randint": made(
        choose(0, -3), choose(5, 100), choose((3,), (2, 5)), choose(Dtype("int32"), Dtype("uint8"), Dtype("int64"))
    ),
    "random.bernoulli": made(choose(0.3, 0.9), choose((3,), (2, 5))),
    "random.truncated_normal": made(choose(-1.0, -2), choose(1.0, 2), choose((3,), (2, 5))),
    "random.gumbel": made(choose((3,), (2, 5))),
    "random.laplace": made(choose((3,), (2, 5))),
    "random.categorical": made(array((2, 5), dtypes=F32, special=0)),
    "random.permutation": made(choose(5, 9)),
}
OPERATORS = {f"operator.{n}": binary for n in "add sub mul eq ne lt le gt ge and_ or_ xor".split()}
OPERATORS |= {f"operator.{n}": nonzero_binary for n in "truediv floordiv mod pow".split()}
OPERATORS |= {f"operator.{n}": nonzero_binary for n in "iadd isub imul itruediv ifloordiv imod ipow".split()}
OPERATORS |= {f"operator.{n}": unary for n in "neg abs invert".split()}
METHODS = {
    f"array.{n}": CALLS[n]
    for n in (
        "abs square sqrt rsqrt reciprocal exp log log2 log10 log1p sin cos flatten squeeze moveaxis swapaxes "
        "logcumsumexp logsumexp split argmin argmax cumsum cumprod cummax cummin round diagonal diag view sum prod "
        "mean min max all any std var astype reshape transpose"
    ).split()
}
ALL = {**CALLS, **KEYED, **OPERATORS, **METHODS}


def function_of(lib, name):
    if name.startswith("operator."):
        import operator

        return getattr(operator, name[9:])
    out = lib
    for part in name.split("."):
        out = getattr(out, part)
    return out


def outcome(lib, name, args, kwargs):
    try:
        args, kwargs = build(lib, args), build(lib, kwargs)
        if name == "einsum":
            rng = np.random.default_rng(0)
            args = [args[0], *(lib.array(rng.uniform(-1, 1, s).astype(np.float32)) for s in args[1:])]
        if name in KEYED:
            kwargs["key"] = lib.random.key(7)
        if name.startswith("operator.") and not any(isinstance(a, lib.array) for a in args):
            return "skip"
        out = function_of(lib, name)(*args, **kwargs)
        lib.eval(out)
        return flat(lib, out)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def flat(lib, out):
    if isinstance(out, (list, tuple)):
        return [x for item in out for x in flat(lib, item)]
    if isinstance(out, lib.array):
        name = str(out.dtype).rpartition(".")[2]
        values = np.array(out.astype(lib.float32) if name == "bfloat16" else out)
        return [(name, tuple(out.shape), values)]
    return [(type(out).__name__, (), str(out).rpartition(".")[2])]


def difference(want, got):
    if isinstance(want, str) or isinstance(got, str):
        if isinstance(want, str) and isinstance(got, str):
            return None
        text = f"{want} {got}"
        if any(words in text for words in EXPECTED):
            return None
        return (
            f"error: mlx {want if isinstance(want, str) else 'none'} | mlxc {got if isinstance(got, str) else 'none'}"
        )
    if len(want) != len(got):
        return f"{len(want)} results, {len(got)}"
    for (dtype, shape, left), (dtype2, shape2, right) in zip(want, got, strict=True):
        if dtype != dtype2:
            return f"dtype: mlx {dtype} | mlxc {dtype2}"
        if shape != shape2:
            return f"shape: mlx {shape} | mlxc {shape2}"
        if isinstance(left, str):
            if left != right:
                return f"mlx {left} | mlxc {right}"
            continue
        limit = TOLERANCE.get(dtype, 0)
        with np.errstate(all="ignore"):
            same = (
                np.isclose(
                    right.astype(complex) if dtype == "complex64" else right.astype(np.float64),
                    left.astype(complex) if dtype == "complex64" else left.astype(np.float64),
                    rtol=limit,
                    atol=limit,
                    equal_nan=True,
                )
                if limit
                else left == right
            )
        if not np.all(same):
            return f"values: mlx {left[~same].ravel()[:4]} | mlxc {right[~same].ravel()[:4]}"
    return None


def check(name, rounds, seed, verbose=False):
    import mlx.core as mlx

    import mlxc

    found = {}
    rng = np.random.default_rng([seed, *name.encode()])
    for i in range(rounds):
        args, kwargs = ALL[name](rng)
        if verbose:
            print(i, args, kwargs, flush=True)
        want, got = outcome(mlx, name, args, kwargs), outcome(mlxc, name, args, kwargs)
        differs = difference(want, got)
        if differs:
            kinds = tuple(
                a.dtype if isinstance(a, Sample) else type(a).__name__ for a in args if not isinstance(a, list)
            )
            found.setdefault(
                (differs.split(":")[0], kinds if len(kinds) < 2 or "dtype" in differs[:5] else kinds[:1]),
                (differs, args, kwargs),
            )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--here", action="store_true", help="run in this process")
    parser.add_argument("--limit", type=int, default=3)
    options = parser.parse_args()
    names = options.names or list(ALL)
    for name in names:
        if options.here:
            try:
                found = check(name, options.rounds, options.seed)
            except Exception:
                traceback.print_exc()
                continue
            for differs, args, kwargs in list(found.values())[: options.limit]:
                print(f"{name}{args} {kwargs}\n    {differs}", flush=True)
        else:
            command = [
                sys.executable,
                __file__,
                "--here",
                "--rounds",
                str(options.rounds),
                "--seed",
                str(options.seed),
                "--limit",
                str(options.limit),
                name,
            ]
            try:
                done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=40)
            except subprocess.TimeoutExpired as expired:
                print(f"{name}: did not end {(expired.stdout or b'').decode()[-300:]}")
                continue
            print(done.stdout, end="", flush=True)
            if done.returncode:
                print(f"{name}: ended with {done.returncode} {done.stderr[-300:]}")


if __name__ == "__main__":
    sys.exit(main())
