"""The namespace of the Python array API standard, beside array-api-strict, which is the standard and nothing else.

Each line of CALLS runs with both; values, shapes and dtypes agree. The default dtypes are where they may differ:
array-api-strict has 64 bits by default, mlxc 32 (and 64 for indices).
"""

import inspect
import pickle

import numpy as np
import pytest

import mlxc as mx

strict = pytest.importorskip("array_api_strict")
strict.set_array_api_strict_flags(api_version="2025.12")
xp = mx.array(0).__array_namespace__()

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
REAL = INTEGERS + FLOATS
NUMERIC = REAL + COMPLEX
INEXACT = FLOATS + COMPLEX
ALL = ["bool", *NUMERIC]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-30, 1e30, np.inf, -np.inf, np.nan]


def sample(dtype, shape=(2, 3), seed=0, *, special=False, low=-5, high=6):
    rng = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("uint"):
        return rng.integers(0, high, shape).astype(dtype)
    if dtype.startswith("int"):
        return rng.integers(low, high, shape).astype(dtype)
    if special:
        return np.array(np.meshgrid(SPECIAL, SPECIAL)[seed]).astype(dtype)
    out = rng.uniform(low, high, shape)
    if dtype.startswith("complex"):
        out = out + 1j * rng.uniform(low, high, shape)
    return out.astype(dtype)


def both(function, *arrays):
    """The results of one function with each of the two namespaces, as NumPy arrays."""
    results = []
    for space in (strict, xp):
        made = [space.asarray(a, dtype=getattr(space, a.dtype.name)) for a in arrays]
        results.append(function(space, *made))
    return results


def compare(want, got, tolerance=1e-5):
    if isinstance(want, (tuple, list)):
        assert isinstance(got, tuple) and len(got) == len(want)
        for left, right in zip(want, got, strict=True):
            compare(left, right, tolerance)
        return
    if not hasattr(want, "dtype"):
        assert want == got
        return
    assert got.shape == want.shape
    name = str(want.dtype).rpartition(".")[2]
    assert str(got.dtype).rpartition(".")[2] == name
    left, right = np.asarray(want), np.asarray(got)
    if name in ("float64", "complex128"):
        tolerance = min(tolerance, 1e-12)
    np.testing.assert_allclose(right, left, rtol=tolerance, atol=tolerance, equal_nan=True)
    if name in FLOATS:
        zero = left == 0
        assert np.array_equal(np.signbit(right[zero]), np.signbit(left[zero]))


def check(function, dtypes, arrays=1, **how):
    for dtype in dtypes:
        made = [sample(dtype, seed=i, **how) for i in range(arrays)]
        compare(*both(function, *made))


UNARY = {
    "abs": NUMERIC, "acos": INEXACT, "acosh": INEXACT, "asin": INEXACT, "asinh": INEXACT, "atan": INEXACT,
    "atanh": INEXACT, "bitwise_invert": ["bool", *INTEGERS], "ceil": REAL, "conj": COMPLEX, "cos": INEXACT,
    "cosh": INEXACT, "exp": INEXACT, "expm1": INEXACT, "floor": REAL, "imag": COMPLEX, "isfinite": NUMERIC,
    "isinf": NUMERIC, "isnan": NUMERIC, "log": INEXACT, "log1p": INEXACT, "log2": INEXACT, "log10": INEXACT,
    "logical_not": ["bool"], "negative": ["int8", "int32", "int64", *INEXACT], "positive": NUMERIC, "real": COMPLEX,
    "reciprocal": INEXACT, "round": NUMERIC, "sign": NUMERIC, "signbit": FLOATS, "sin": INEXACT, "sinh": INEXACT,
    "sqrt": INEXACT, "square": NUMERIC, "tan": INEXACT, "tanh": INEXACT, "trunc": REAL,
}  # fmt: skip
BINARY = {
    "add": NUMERIC, "atan2": FLOATS, "bitwise_and": ["bool", *INTEGERS], "bitwise_or": ["bool", *INTEGERS],
    "bitwise_xor": ["bool", *INTEGERS], "copysign": FLOATS, "divide": INEXACT, "equal": ALL, "greater": REAL,
    "greater_equal": REAL, "hypot": FLOATS, "less": REAL, "less_equal": REAL, "logaddexp": FLOATS,
    "logical_and": ["bool"], "logical_or": ["bool"], "logical_xor": ["bool"], "maximum": REAL, "minimum": REAL,
    "multiply": NUMERIC, "nextafter": FLOATS, "not_equal": ALL, "pow": INEXACT, "subtract": NUMERIC,
    "floor_divide": FLOATS, "remainder": FLOATS,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_agree(name):
    check(lambda xp, x: getattr(xp, name)(x), UNARY[name])
    check(lambda xp, x: getattr(xp, name)(x), [d for d in UNARY[name] if d in FLOATS], special=True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_agree(name):
    check(lambda xp, x, y: getattr(xp, name)(x, y), BINARY[name], 2)
    # atan2(-0, ...), pow and remainder of infinities and so on: the special cases of the standard.
    check(lambda xp, x, y: getattr(xp, name)(x, y), [d for d in BINARY[name] if d in FLOATS], 2, special=True)
    for dtype in BINARY[name]:
        one = True if dtype == "bool" else 1
        compare(*both(lambda xp, x, one=one: getattr(xp, name)(x, one), sample(dtype)))
        compare(*both(lambda xp, x, one=one: getattr(xp, name)(one, x), sample(dtype)))


@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
def test_shifts_agree(name):
    for dtype in INTEGERS:
        x, y = sample(dtype), sample(dtype, seed=1, low=0, high=7)
        compare(*both(lambda xp, x, y: getattr(xp, name)(x, y), x, y))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "pow"])
def test_integer_division_and_powers_agree(name):
    for dtype in INTEGERS:
        x, y = sample(dtype), sample(dtype, seed=1, low=0, high=4)
        y[y == 0] = 1
        compare(*both(lambda xp, x, y: getattr(xp, name)(x, y), x, y))


# What is called, with which dtypes, and how many arrays of shape (2, 3).
CALLS = [
    (lambda xp, x: xp.all(x, axis=1), ALL, 1),
    (lambda xp, x: xp.any(x, axis=(0, 1), keepdims=True), ALL, 1),
    (lambda xp, x: xp.astype(x, xp.float64), REAL, 1),
    (lambda xp, x: xp.astype(x, xp.int16, copy=False), INTEGERS, 1),
    (lambda xp, x: xp.broadcast_arrays(x, x[:1, :]), ALL, 1),
    (lambda xp, x: xp.broadcast_to(x, (4, 2, 3)), ALL, 1),
    (lambda xp, x: xp.clip(x, 1, 3), REAL, 1),
    (lambda xp, x: xp.clip(x, max=2), REAL, 1),
    (lambda xp, x: xp.clip(x), REAL, 1),
    (lambda xp, x, y: xp.clip(x, min=y), REAL, 2),
    (lambda xp, x, y: xp.concat([x, y], axis=1), ALL, 2),
    (lambda xp, x, y: xp.concat((x, y), axis=None), ALL, 2),
    (lambda xp, x: xp.cumulative_sum(x, axis=1), ["int64", *INEXACT], 1),
    (lambda xp, x: xp.cumulative_sum(x, axis=0, dtype=xp.float64, include_initial=True), REAL, 1),
    (lambda xp, x: xp.cumulative_prod(x[0, :], include_initial=True, dtype=x.dtype), NUMERIC, 1),
    (lambda xp, x: xp.diff(x), NUMERIC, 1),
    (lambda xp, x: xp.diff(x, axis=0, prepend=x, append=x, n=2), NUMERIC, 1),
    (lambda xp, x: xp.expand_dims(x, axis=(0, -1)), ALL, 1),
    (lambda xp, x: xp.expand_dims(x, axis=1), ALL, 1),
    (lambda xp, x: xp.flip(x), ALL, 1),
    (lambda xp, x: xp.flip(x, axis=(1,)), ALL, 1),
    (lambda xp, x: xp.full_like(x, fill_value=1), NUMERIC, 1),
    (lambda xp, x, y: xp.isin(x, y), INTEGERS, 2),
    (lambda xp, x: xp.isin(x, 3), INTEGERS, 1),
    (lambda xp, x, y: xp.matmul(x, y.T), NUMERIC, 2),
    (lambda xp, x, y: xp.matmul(x[0, :], y.T), NUMERIC, 2),
    (lambda xp, x: xp.matrix_transpose(x), ALL, 1),
    (lambda xp, x: xp.max(x, axis=1), REAL, 1),
    (lambda xp, x: xp.min(x, axis=(0, -1), keepdims=True), REAL, 1),
    (lambda xp, x: xp.mean(x, axis=0), INEXACT, 1),
    (lambda xp, x: xp.meshgrid(x[0, :], x[:, 0], indexing="ij"), NUMERIC, 1),
    (lambda xp, x: xp.meshgrid(x[0, :], x[:, 0]), NUMERIC, 1),
    (lambda xp, x: xp.moveaxis(x, 0, 1), ALL, 1),
    (lambda xp, x: xp.moveaxis(xp.expand_dims(x, axis=0), (0, 1), (-1, 0)), ALL, 1),
    (lambda xp, x: xp.nonzero(x), ALL, 1),
    (lambda xp, x: xp.count_nonzero(x, axis=0), ALL, 1),
    (lambda xp, x: xp.permute_dims(x, (-1, 0)), ALL, 1),
    (lambda xp, x: xp.prod(x, axis=0, dtype=x.dtype), NUMERIC, 1),
    (lambda xp, x: xp.sum(x, axis=1, dtype=xp.float64, keepdims=True), REAL, 1),
    (lambda xp, x: xp.sum(x), ["int64", "uint64", *INEXACT], 1),
    (lambda xp, x: xp.repeat(x, 2, axis=1), ALL, 1),
    (lambda xp, x: xp.repeat(x, xp.asarray([1, 0, 3]), axis=-1), ALL, 1),
    (lambda xp, x: xp.repeat(x, xp.asarray([2])), ALL, 1),
    (lambda xp, x: xp.reshape(x, (3, -1), copy=False), ALL, 1),
    (lambda xp, x: xp.reshape(x, (-1,), copy=True), ALL, 1),
    (lambda xp, x: xp.roll(x, 1), ALL, 1),
    (lambda xp, x: xp.roll(x, (1, -1), axis=(0, 1)), ALL, 1),
    (lambda xp, x: xp.searchsorted(xp.sort(x[0, :]), x, side="right"), REAL, 1),
    (lambda xp, x: xp.searchsorted(x[0, :], x, sorter=xp.argsort(x[0, :])), REAL, 1),
    (lambda xp, x: xp.searchsorted(xp.sort(x[0, :]), 2), REAL, 1),
    (lambda xp, x: xp.sort(x, axis=0), REAL, 1),
    (lambda xp, x: xp.sort(x, descending=True), REAL, 1),
    (lambda xp, x: xp.argsort(x, stable=True), REAL, 1),
    (lambda xp, x: xp.argsort(x, axis=0, descending=True), REAL, 1),
    (lambda xp, x: xp.argmax(x, axis=1), REAL, 1),
    (lambda xp, x: xp.argmin(x, keepdims=True), REAL, 1),
    (lambda xp, x: xp.squeeze(xp.expand_dims(x, axis=0), axis=0), ALL, 1),
    (lambda xp, x, y: xp.stack([x, y], axis=-1), ALL, 2),
    (lambda xp, x: xp.std(x, axis=1, correction=1), FLOATS, 1),
    (lambda xp, x: xp.var(x, correction=0.5, keepdims=True), FLOATS, 1),
    (lambda xp, x: xp.take(x, xp.asarray([2, 0]), axis=1), ALL, 1),
    (lambda xp, x: xp.take_along_axis(x, xp.asarray([[1], [0]])), ALL, 1),
    (lambda xp, x, y: xp.tensordot(x, y, axes=((0, 1), (0, 1))), NUMERIC, 2),
    (lambda xp, x, y: xp.tensordot(x, y.T, axes=1), NUMERIC, 2),
    (lambda xp, x: xp.tile(x, (2, 1, 2)), ALL, 1),
    (lambda xp, x: xp.tril(x, k=-1), ALL, 1),
    (lambda xp, x: xp.triu(x, k=1), ALL, 1),
    (lambda xp, x: xp.unstack(x, axis=1), ALL, 1),
    (lambda xp, x, y: xp.vecdot(x, y, axis=-1), NUMERIC, 2),
    (lambda xp, x, y: xp.vecdot(x, y[0, :]), NUMERIC, 2),
    (lambda xp, x, y: xp.where(x == y, x, y), ALL, 2),
    (lambda xp, x: xp.where(x > 0, x, 0), REAL, 1),
    (lambda xp, x: xp.zeros_like(x, dtype=xp.int8), ALL, 1),
    (lambda xp, x: xp.ones_like(x), ALL, 1),
    (lambda xp, x: xp.empty_like(x).shape, ALL, 1),
    (lambda xp, x: x[x > 1], REAL, 1),
    (lambda xp, x: x[..., None, ::-1], ALL, 1),
    (lambda xp, x: x[xp.asarray([1, 0]), xp.asarray([2, 2])], ALL, 1),
    (lambda xp, x, y: x @ y.mT, NUMERIC, 2),
    (lambda xp, x: xp.unique_all(x), REAL, 1),
    (lambda xp, x: xp.unique_counts(x), REAL, 1),
    (lambda xp, x: xp.unique_inverse(x), REAL, 1),
    (lambda xp, x: xp.unique_values(x), REAL, 1),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=[inspect.getsource(c[0]).strip()[11:70] for c in CALLS])
def test_a_call_agrees(call):
    function, dtypes, arrays = call
    check(function, dtypes, arrays)


CREATIONS = [
    lambda xp: xp.arange(5, dtype=xp.int64),
    lambda xp: xp.arange(1, 4, 0.5, dtype=xp.float64),
    lambda xp: xp.arange(5, stop=1, step=-2, dtype=xp.int8),
    lambda xp: xp.asarray([[1, 2], [3, 4]], dtype=xp.uint8, device=None, copy=True),
    lambda xp: xp.eye(3, 4, k=1, dtype=xp.complex128),
    lambda xp: xp.full((2,), fill_value=3, dtype=xp.float64),
    lambda xp: xp.full((2, 2), True),
    lambda xp: xp.linspace(0, 1, 5, dtype=xp.float64),
    lambda xp: xp.linspace(0, 1 + 2j, num=5, endpoint=False, dtype=xp.complex128),
    lambda xp: xp.zeros(3, dtype=xp.int16),
    lambda xp: xp.ones((), dtype=xp.bool),
    lambda xp: xp.empty((2, 0), dtype=xp.float32),
    lambda xp: xp.broadcast_shapes((2, 1), (1, 3), ()),
    lambda xp: xp.broadcast_shapes(),
]


@pytest.mark.parametrize("call", CREATIONS, ids=[inspect.getsource(c).strip()[11:70] for c in CREATIONS])
def test_a_creation_agrees(call):
    compare(*both(call))


def test_the_default_dtypes_are_what_the_inspection_says():
    info = xp.__array_namespace_info__()
    named = info.default_dtypes()
    assert xp.asarray([1.0]).dtype == xp.linspace(0, 1, 2).dtype == xp.zeros(1).dtype == named["real floating"]
    assert xp.asarray([1]).dtype == xp.arange(3).dtype == xp.full((1,), 3).dtype == named["integral"]
    assert xp.asarray(1j).dtype == xp.linspace(0, 1j, 2).dtype == named["complex floating"]
    x = xp.asarray([2, 1])
    indices = [xp.argmax(x), xp.argsort(x), xp.nonzero(x)[0], xp.searchsorted(x, x), *xp.unique_all(x)[1:]]
    assert {i.dtype for i in [*indices, xp.count_nonzero(x)]} == {named["indexing"]}
    for small, wide in (("int8", xp.int32), ("int16", xp.int32), ("uint8", xp.uint32), ("uint16", xp.uint32)):
        x = xp.asarray([1, 2], dtype=getattr(xp, small))
        assert {f(x).dtype for f in (xp.sum, xp.prod, xp.cumulative_sum, xp.cumulative_prod)} == {wide}


def test_the_inspection_object():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 32}
    assert isinstance(info.devices(), tuple) and info.default_device() in info.devices()
    assert set(info.dtypes()) == set(strict.__array_namespace_info__().dtypes())
    for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
                 "numeric", ("bool", "integral")):  # fmt: skip
        assert set(info.dtypes(kind=kind)) == set(strict.__array_namespace_info__().dtypes(kind=kind))
    with pytest.raises(ValueError, match="kind"):
        info.dtypes(kind="floating")
    for device in info.devices():
        assert xp.zeros(2, device=device).device == device


def test_every_name_of_the_standard_is_there():
    own = {"ArrayAPIStrictFlags", "Device", "__version__", "linalg", "fft"}
    own |= {name for name in strict.__all__ if name.endswith("_flags")}
    assert set(strict.__all__) - own <= set(xp.__all__)
    assert set(xp.__all__) <= set(dir(xp))


@pytest.mark.parametrize("name", sorted(set(strict.__all__) & set(xp.__all__)))
def test_a_function_takes_the_arguments_of_the_standard(name):
    function = getattr(strict, name)
    if not inspect.isfunction(function):
        return
    have = list(inspect.signature(getattr(xp, name)).parameters.values())
    taken = {p.name for p in have if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    places = [p for p in have if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for i, wanted in enumerate(inspect.signature(function).parameters.values()):
        if wanted.kind in (wanted.KEYWORD_ONLY, wanted.POSITIONAL_OR_KEYWORD):
            assert wanted.name in taken
        if wanted.kind in (wanted.POSITIONAL_ONLY, wanted.POSITIONAL_OR_KEYWORD):
            assert len(places) > i
        if wanted.kind is wanted.POSITIONAL_OR_KEYWORD:
            assert places[i].name == wanted.name


def test_arrays_give_the_namespace_and_know_the_versions():
    x = mx.array([1])
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2025.12") is mx.__array_namespace__()
    assert x.__array_namespace__(api_version="2021.12") is xp
    for space in (x, mx):
        with pytest.raises(ValueError, match=r"2019\.12"):
            space.__array_namespace__(api_version="2019.12")
    assert mx.__array_api_version__ == xp.__array_api_version__ == "2025.12"
    assert xp.softmax is mx.softmax
    assert not hasattr(xp, "unheard_of")


def test_every_attribute_and_method_of_the_standard_is_there():
    known = dir(strict.asarray(1))
    assert [n for n in known if n not in dir(mx.array) and not n.startswith("_")] == []
    missing = [n for n in known if n.startswith("__") and n not in dir(mx.array)]
    # The buffer protocol is a slot of the C type, which Python shows as a method from 3.12 on.
    assert set(missing) <= {"__buffer__", "__slots__", "__weakref__", "__annotations__"}


def test_isin_can_be_inverted():
    assert xp.isin(xp.asarray([1, 2, 3]), xp.asarray([3, 1]), invert=True).tolist() == [False, True, False]


def test_devices():
    x = mx.array([1, 2])
    assert x.device in xp.__array_namespace_info__().devices()
    assert x.to_device(x.device, stream=None).tolist() == [1, 2]
    assert xp.asarray(x, device=x.device).device == xp.astype(x, xp.float32, device=x.device).device == x.device
    assert xp.from_dlpack(np.arange(3), device=x.device).tolist() == [0, 1, 2]


def test_asarray_keeps_64_bit_dtypes_and_obeys_copy():
    a = np.arange(3.0)
    assert xp.asarray(a).dtype == xp.float64 and mx.asarray(a).dtype == mx.float32
    assert xp.asarray(a * 1j).dtype == xp.complex128 and xp.asarray(strict.asarray(a)).dtype == xp.float64
    assert xp.asarray(np.float64(1)).dtype == xp.float64
    assert xp.asarray(a, copy=False).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="copy"):
        xp.asarray([1, 2], copy=False)
    x = xp.asarray([1, 2])
    assert xp.asarray(x, copy=False) is x and xp.asarray(x, copy=True) is not x


def test_reshape_without_a_copy_is_refused_where_it_needs_one():
    x = xp.reshape(xp.arange(6), (2, 3))
    assert xp.reshape(x, (6,), copy=False).tolist() == [0, 1, 2, 3, 4, 5]
    assert xp.reshape(x[:, ::-1], (2, 3, 1), copy=False).shape == (2, 3, 1)
    with pytest.raises(ValueError, match=r"copy=False.*\(3, 2\).*\(6,\)"):
        xp.reshape(x.T, (6,), copy=False)


def test_named_tuples_have_the_fields_of_the_standard_and_travel():
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        want, got = both(lambda xp, x, name=name: getattr(xp, name)(x), np.array([3, 1, 3]))
        assert got._fields == want._fields
        assert [a.tolist() for a in pickle.loads(pickle.dumps(got))] == [a.tolist() for a in got]


def test_cumulative_functions_need_an_axis_beyond_one_dimension():
    for function in (xp.cumulative_sum, xp.cumulative_prod):
        with pytest.raises(ValueError, match="axis"):
            function(xp.ones((2, 2)))


def test_isdtype_can_cast_and_result_type_agree():
    for a in ALL:
        for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
                     "numeric"):  # fmt: skip
            assert xp.isdtype(getattr(xp, a), kind) == strict.isdtype(getattr(strict, a), kind)
        for b in ALL:
            assert xp.isdtype(getattr(xp, a), (getattr(xp, b), "bool")) == (a in (b, "bool"))
            try:
                want = strict.result_type(getattr(strict, a), getattr(strict, b))
            except TypeError:
                continue
            assert str(xp.result_type(getattr(xp, a), getattr(xp, b))) == f"mlxc.{str(want).rpartition('.')[2]}"
            castable = strict.can_cast(getattr(strict, a), getattr(strict, b))
            assert xp.can_cast(getattr(xp, a), getattr(xp, b)) == castable


def test_limits_agree():
    for name in FLOATS + COMPLEX:
        want, got = strict.finfo(getattr(strict, name)), xp.finfo(getattr(xp, name))
        assert (got.bits, got.eps, got.max, got.min) == (want.bits, want.eps, want.max, want.min)
        assert got.smallest_normal == want.smallest_normal and str(got.dtype) == f"mlxc.{str(want.dtype)[-7:]}"
    for name in INTEGERS:
        want, got = strict.iinfo(getattr(strict, name)), xp.iinfo(getattr(xp, name))
        assert (got.bits, got.max, got.min) == (want.bits, want.max, want.min)
        assert xp.iinfo(xp.zeros(1, dtype=getattr(xp, name))).dtype == getattr(xp, name)


def test_functions_of_the_namespace_can_be_differentiated():
    x = mx.array([1.0, 3.0, 2.0])
    assert mx.grad(lambda x: xp.sum(xp.clip(x, max=2.5) ** 2))(x).tolist() == [2, 0, 4]
    assert mx.grad(lambda x: xp.sum(xp.cumulative_sum(x, include_initial=True)))(x).tolist() == [3, 2, 1]
    assert mx.grad(lambda x: xp.sort(x, descending=True)[0])(x).tolist() == [0, 1, 0]
    assert mx.grad(lambda x: mx.sum(mx.diff(x, prepend=x[:1]) ** 2))(x).tolist() == [-4, 6, -2]
