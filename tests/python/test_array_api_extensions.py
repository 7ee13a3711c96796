"""The linalg and fft extensions of the Python array API standard, beside array-api-strict."""

import inspect

import numpy as np
import pytest

import mlxc as mx

strict = pytest.importorskip("array_api_strict")
strict.set_array_api_strict_flags(api_version="2025.12")
xp = mx.array(0).__array_namespace__()

DTYPES = ["float32", "float64", "complex64", "complex128"]
TOLERANCE = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-10, "complex128": 1e-10}


def sample(dtype, shape, seed=0):
    rng = np.random.default_rng([seed, *shape])
    out = rng.normal(size=shape)
    return (out + 1j * rng.normal(size=shape) if dtype.startswith("complex") else out).astype(dtype)


def hermitian(dtype, n, *, positive=False):
    a = sample(dtype, (2, n, n))
    out = a @ a.conj().swapaxes(-1, -2) if positive else a + a.conj().swapaxes(-1, -2)
    return (out + (np.eye(n) if positive else 0)).astype(dtype)


def check(function, *arrays):
    """The same values, shapes, dtypes and fields of named tuples with both namespaces."""
    want, got = (function(s, *(s.asarray(a, dtype=getattr(s, a.dtype.name)) for a in arrays)) for s in (strict, xp))
    assert getattr(got, "_fields", None) == getattr(want, "_fields", None)
    for left, right in zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]:
        name = str(left.dtype).rpartition(".")[2]
        assert right.shape == left.shape and str(right.dtype).rpartition(".")[2] == name
        limit = TOLERANCE.get(name, 0)
        np.testing.assert_allclose(np.asarray(right), np.asarray(left), rtol=limit, atol=limit)


LINALG = [
    lambda xp, x: xp.linalg.det(x),
    lambda xp, x: xp.linalg.diagonal(x, offset=1),
    lambda xp, x: xp.linalg.inv(x),
    lambda xp, x: xp.linalg.matmul(x, x),
    lambda xp, x: xp.linalg.matrix_norm(x),
    lambda xp, x: xp.linalg.matrix_norm(x, ord="nuc", keepdims=True),
    lambda xp, x: xp.linalg.matrix_norm(x, ord=-2),
    lambda xp, x: xp.linalg.matrix_norm(x, ord=1),
    lambda xp, x: xp.linalg.matrix_norm(x, ord=float("inf")),
    lambda xp, x: xp.linalg.matrix_power(x, 3),
    lambda xp, x: xp.linalg.matrix_power(x, -1),
    lambda xp, x: xp.linalg.matrix_power(x, 0),
    lambda xp, x: xp.linalg.matrix_rank(x),
    lambda xp, x: xp.linalg.matrix_rank(x, rtol=0.5),
    lambda xp, x: xp.linalg.matrix_transpose(x),
    lambda xp, x: xp.linalg.outer(x[0, 0, :], x[1, 0, :]),
    lambda xp, x: xp.linalg.pinv(x[:, :, :2]),
    lambda xp, x: xp.linalg.slogdet(x),
    lambda xp, x: xp.linalg.solve(x, x[:, :, :2]),
    lambda xp, x: xp.linalg.svdvals(x),
    lambda xp, x: xp.linalg.tensordot(x, x, axes=((2,), (1,))),
    lambda xp, x: xp.linalg.trace(x, offset=-1, dtype=x.dtype),
    lambda xp, x: xp.linalg.vecdot(x, x, axis=-1),
    lambda xp, x: xp.linalg.vector_norm(x, axis=(0, 2), ord=1, keepdims=True),
    lambda xp, x: xp.linalg.vector_norm(x, ord=3),
    lambda xp, x: xp.linalg.vector_norm(x, axis=1, ord=0),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", LINALG, ids=[inspect.getsource(c).strip()[14:70] for c in LINALG])
def test_a_call_agrees(call, dtype):
    check(call, sample(dtype, (2, 3, 3)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_multiply_to_the_matrix_and_have_the_fields_of_the_standard(dtype):
    a = sample(dtype, (2, 4, 3))
    for name in ("svd", "qr"):
        for option in ({}, {"full_matrices": False} if name == "svd" else {"mode": "complete"}):
            want = getattr(strict.linalg, name)(strict.asarray(a), **option)
            got = getattr(xp.linalg, name)(xp.asarray(a), **option)
            assert got._fields == want._fields and [p.shape for p in got] == [p.shape for p in want]
            parts = [np.asarray(p) for p in got]
            if name == "svd":
                k = parts[1].shape[-1]
                product = parts[0][..., :k] * parts[1][..., None, :] @ parts[2][..., :k, :]
            else:
                product = parts[0] @ parts[1]
            np.testing.assert_allclose(product, a, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues_and_cholesky_factors(dtype):
    a = hermitian(dtype, 3)
    check(lambda xp, a: xp.linalg.eigvalsh(a), a)
    check(lambda xp, a: xp.linalg.cholesky(a), hermitian(dtype, 3, positive=True))
    check(lambda xp, a: xp.linalg.cholesky(a, upper=True), hermitian(dtype, 3, positive=True))
    for name, b in (("eigh", a), ("eig", sample(dtype, (3, 3)))):
        values, vectors = getattr(xp.linalg, name)(xp.asarray(b))
        want = getattr(strict.linalg, name)(strict.asarray(b))
        assert getattr(xp.linalg, name)(xp.asarray(b))._fields == want._fields
        assert [str(x.dtype)[5:] for x in (values, vectors)] == [str(x.dtype)[-len(str(x.dtype)):].rpartition(".")[2]
                                                                   for x in want]  # fmt: skip
        left = np.asarray(xp.asarray(b)) @ np.asarray(vectors)
        np.testing.assert_allclose(left, np.asarray(vectors) * np.asarray(values)[..., None, :], atol=TOLERANCE[dtype])


def test_cross_takes_vectors_of_three_elements():
    for dtype in DTYPES:
        check(lambda xp, a, b: xp.linalg.cross(a, b), sample(dtype, (2, 3)), sample(dtype, (2, 3), 1))
    with pytest.raises(ValueError, match="3 elements"):
        xp.linalg.cross(xp.ones(2), xp.ones(2))


FFT = [
    lambda xp, x: xp.fft.fft(x),
    lambda xp, x: xp.fft.ifft(x, n=5, axis=0, norm="ortho"),
    lambda xp, x: xp.fft.fftn(x, s=(3, 4), axes=(0, 1), norm="forward"),
    lambda xp, x: xp.fft.ifftn(x),
    lambda xp, x: xp.fft.irfft(x, n=7),
    lambda xp, x: xp.fft.irfftn(x),
    lambda xp, x: xp.fft.hfft(x),
    lambda xp, x: xp.fft.fftshift(x, axes=1),
    lambda xp, x: xp.fft.ifftshift(x),
]
REAL_FFT = [
    lambda xp, x: xp.fft.rfft(x, norm="ortho"),
    lambda xp, x: xp.fft.rfftn(x, axes=(1, 0)),
    lambda xp, x: xp.fft.ihfft(x, n=6),
]


@pytest.mark.parametrize("call", FFT + REAL_FFT, ids=[inspect.getsource(c).strip()[14:70] for c in FFT + REAL_FFT])
def test_a_transform_agrees(call):
    for dtype in ("complex64", "complex128") if call in FFT else ("float32", "float64"):
        check(call, sample(dtype, (4, 6)))


def test_frequencies_agree():
    for name in ("fftfreq", "rfftfreq"):
        for n in (4, 5):
            got = getattr(xp.fft, name)(n, d=0.5, dtype=xp.float64, device=None)
            assert got.dtype == xp.float64 and got.tolist() == getattr(np.fft, name)(n, 0.5).tolist()


@pytest.mark.parametrize("extension", ["linalg", "fft"])
def test_every_function_takes_the_arguments_of_the_standard(extension):
    ours, theirs = getattr(xp, extension), getattr(strict, extension)
    for name in [*theirs.__all__, *(["eig", "eigvals"] if extension == "linalg" else [])]:
        have = inspect.signature(getattr(ours, name)).parameters
        for parameter in inspect.signature(getattr(theirs, name)).parameters.values():
            if parameter.kind is not parameter.POSITIONAL_ONLY:
                assert parameter.name in have, f"{extension}.{name} lacks {parameter.name}"
