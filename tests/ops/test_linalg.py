"""mlxc.linalg beside NumPy: results, named tuples, dtypes, errors and the hard cases. What a factorisation must
satisfy in every dtype and layout is in the conformance kit; gradients are in tests/transforms/test_gradients_linalg.py.
"""

from __future__ import annotations

import inspect
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import linalg as scipy_linalg

import mlxc as mx

LA = mx.linalg
DTYPES = ("float32", "float64", "complex64", "complex128")
TOLERANCE = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-11, "complex128": 1e-11}


def draw(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.startswith("c") else values).astype(dtype)


def to_mx(a: np.ndarray) -> mx.array:
    return mx.array(a, dtype=getattr(mx, a.dtype.name))


def adjoint(a: np.ndarray) -> np.ndarray:
    return np.swapaxes(a, -1, -2).conj()


def agree(got: mx.array, expected: np.ndarray, tolerance: float = 1e-11) -> bool:
    got = np.array(got)
    return got.shape == expected.shape and np.allclose(got, expected, rtol=tolerance, atol=tolerance)


# ---- named tuples and shapes --------------------------------------------------------------------


def test_results_are_named_as_the_standard_names_them() -> None:
    a = to_mx(draw(3, 3))
    q, r = LA.qr(a)
    assert LA.qr(a)._fields == ("Q", "R") and mx.array_equal(LA.qr(a).Q, q) and mx.array_equal(LA.qr(a).R, r)
    assert LA.svd(a)._fields == ("U", "S", "Vh")
    assert LA.eigh(a)._fields == ("eigenvalues", "eigenvectors") == LA.eig(a)._fields
    assert LA.slogdet(a)._fields == ("sign", "logabsdet")


def test_svd_has_full_matrices_unless_told_otherwise() -> None:
    a = to_mx(draw(2, 5, 3))
    assert [tuple(x.shape) for x in LA.svd(a)] == [(2, 5, 5), (2, 3), (2, 3, 3)]
    assert [tuple(x.shape) for x in LA.svd(a, full_matrices=False)] == [(2, 5, 3), (2, 3), (2, 3, 3)]
    assert agree(LA.svd(a, compute_uv=False), np.linalg.svd(np.array(a), compute_uv=False))
    assert agree(LA.svd(a, False), np.linalg.svd(np.array(a), compute_uv=False))


def test_vectors_of_a_full_decomposition_are_orthonormal() -> None:
    for dtype in DTYPES:
        for shape in ((5, 3), (3, 5), (0, 3), (3, 0), (2, 4, 2)):
            u, _, vh = map(np.array, LA.svd(to_mx(draw(*shape, dtype=dtype))))
            q = np.array(LA.qr(to_mx(draw(*shape, dtype=dtype)), mode="complete").Q)
            for square in (u, vh, q):
                n = square.shape[-1]
                assert square.shape[-2] == n
                assert np.allclose(adjoint(square) @ square, np.eye(n), atol=TOLERANCE[dtype])


def test_qr_is_reduced_unless_told_otherwise() -> None:
    a = to_mx(draw(5, 3))
    assert [tuple(x.shape) for x in LA.qr(a)] == [(5, 3), (3, 3)]
    assert [tuple(x.shape) for x in LA.qr(a, mode="complete")] == [(5, 5), (5, 3)]
    with pytest.raises(ValueError, match=r"linalg.qr.*'raw'"):
        LA.qr(a, mode="raw")


def test_lu_gives_the_rows_that_indexing_with_p_puts_back() -> None:
    for dtype in DTYPES:
        for shape in ((4, 4), (5, 3), (3, 5), (2, 3, 4, 4)):
            a = draw(*shape, dtype=dtype)
            p, lower, upper = map(np.array, LA.lu(to_mx(a)))
            assert p.dtype == np.uint32
            assert np.allclose(np.take_along_axis(lower, p[..., None].astype(int), -2) @ upper, a, atol=2e-4)
            assert np.array_equal(lower, np.tril(lower)) and np.array_equal(upper, np.triu(upper))


def test_lu_factor_packs_as_scipy_does() -> None:
    a = draw(5, 5)
    packed, pivots = scipy_linalg.lu_factor(a)
    got, got_pivots = LA.lu_factor(to_mx(a))
    assert agree(got, packed) and np.array_equal(np.array(got_pivots), pivots) and got_pivots.dtype == mx.uint32


# ---- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_eig_satisfies_its_equation_and_normalises(dtype: str) -> None:
    a = draw(3, 5, 5, dtype=dtype)
    w, v = map(np.array, LA.eig(to_mx(a)))
    assert w.dtype == v.dtype == np.dtype("complex64" if dtype in ("float32", "complex64") else "complex128")
    assert np.allclose(a @ v, v * w[..., None, :], atol=TOLERANCE[dtype])
    assert np.allclose(np.linalg.norm(v, axis=-2), 1, atol=TOLERANCE[dtype])
    assert np.allclose(np.sort_complex(np.array(LA.eigvals(to_mx(a)))), np.sort_complex(w), atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh_and_cholesky_read_one_triangle(dtype: str) -> None:
    a = draw(4, 4, dtype=dtype)
    definite = a @ adjoint(a) + 4 * np.eye(4, dtype=dtype)
    for upper in (False, True):
        half = np.triu(definite) if upper else np.tril(definite)
        spoilt = half + np.where(half == 0, np.nan, 0).astype(dtype)
        letter = "U" if upper else "L"
        assert agree(LA.eigvalsh(to_mx(spoilt), letter), np.linalg.eigvalsh(definite), TOLERANCE[dtype])
        w, v = map(np.array, LA.eigh(to_mx(spoilt), letter))
        assert np.allclose((v * w) @ adjoint(v), definite, atol=10 * TOLERANCE[dtype])
        factor = np.array(LA.cholesky(to_mx(spoilt), upper))
        product = adjoint(factor) @ factor if upper else factor @ adjoint(factor)
        assert np.allclose(product, definite, atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_inverses_and_solutions_equal_numpys(dtype: str) -> None:
    a, b = draw(2, 4, 4, dtype=dtype), draw(4, 3, dtype=dtype)
    tolerance = 10 * TOLERANCE[dtype]
    assert agree(LA.inv(to_mx(a)), np.linalg.inv(a), tolerance)
    assert agree(LA.pinv(to_mx(a[:, :, :3])), np.linalg.pinv(a[:, :, :3]), tolerance)
    assert agree(LA.solve(to_mx(a), to_mx(b)), np.linalg.solve(a, np.broadcast_to(b, (2, 4, 3))), tolerance)
    assert agree(LA.solve(to_mx(a), to_mx(b[:, 0])), np.linalg.solve(a, b[:, :1])[..., 0], tolerance)
    for upper in (False, True):
        half = np.triu(a) if upper else np.tril(a)
        assert agree(LA.tri_inv(to_mx(a), upper), np.linalg.inv(half), 10 * tolerance)
        x = LA.solve_triangular(to_mx(a), to_mx(b), upper=upper)
        assert np.allclose(half @ np.array(x), b, atol=10 * tolerance)
        product = adjoint(half) @ half if upper else half @ adjoint(half)
        got = np.array(LA.cholesky_inv(to_mx(half), upper))
        assert np.allclose(got @ product, np.eye(4), atol=1000 * tolerance)


def test_pinv_cuts_off_small_singular_values() -> None:
    a = np.diag([1.0, 1e-3, 0.0])
    assert agree(LA.pinv(to_mx(a)), np.linalg.pinv(a))
    assert agree(LA.pinv(to_mx(a), rtol=0.1), np.diag([1.0, 0, 0]))
    batch = np.stack([a, a])
    cut = LA.pinv(to_mx(batch), rtol=mx.array([0.1, 1e-6], dtype=mx.float64))
    assert agree(cut, np.stack([np.diag([1.0, 0, 0]), np.diag([1.0, 1000, 0])]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_determinants_equal_numpys(dtype: str) -> None:
    a = draw(3, 5, 5, dtype=dtype)
    assert agree(LA.det(to_mx(a)), np.linalg.det(a), 10 * TOLERANCE[dtype])
    for got, expected in zip(LA.slogdet(to_mx(a)), np.linalg.slogdet(a), strict=True):
        assert agree(got, expected, TOLERANCE[dtype])


def test_determinants_of_singular_and_empty_matrices() -> None:
    sign, size = LA.slogdet(mx.ones((2, 2)))
    assert sign.item() == 0 and size.item() == -math.inf and LA.det(mx.ones((2, 2))).item() == 0
    assert LA.det(mx.zeros((0, 0))).item() == 1 and LA.slogdet(mx.zeros((0, 0))).sign.item() == 1
    assert LA.slogdet(mx.eye(400) * 0.1).logabsdet.item() == pytest.approx(400 * math.log(0.1), rel=1e-6)


def test_a_determinant_that_fits_is_not_lost_on_the_way() -> None:
    sizes = np.array([1e30, 1e30, 1e-30, 1e-30], dtype=np.float32)
    assert LA.det(to_mx(np.diag(sizes))).item() == pytest.approx(1, rel=1e-5)


def test_integers_are_taken_as_float32() -> None:
    a = mx.array([[2, 0], [0, 4]])
    assert LA.inv(a).dtype == LA.det(a).dtype == LA.svdvals(a).dtype == mx.float32
    assert LA.eig(a).eigenvalues.dtype == mx.complex64
    assert LA.inv(a).tolist() == [[0.5, 0], [0, 0.25]]


def test_views_of_every_kind_are_read_rightly() -> None:
    a = draw(6, 8, 8)
    x = to_mx(a)
    for view, expected in (
        (x[::2, ::2, 1::2], a[::2, ::2, 1::2]),
        (x[:, ::-2, ::2], a[:, ::-2, ::2]),
        (x.transpose(2, 0, 1)[:, :, :6], a.transpose(2, 0, 1)[:, :, :6]),
        (mx.broadcast_to(x[0], (3, 8, 8)), np.broadcast_to(a[0], (3, 8, 8))),
    ):
        assert agree(LA.inv(view), np.linalg.inv(expected), 1e-9)
        assert agree(LA.svdvals(view), np.linalg.svd(expected, compute_uv=False), 1e-9)


def test_large_batches_are_split_and_each_matrix_is_right() -> None:
    a = draw(3000, 3, 3) + 3 * np.eye(3)
    assert agree(LA.inv(to_mx(a)), np.linalg.inv(a), 1e-8)
    w, v = map(np.array, LA.eigh(to_mx(a)))
    assert np.allclose((v * w[..., None, :]) @ adjoint(v), np.tril(a) + adjoint(np.tril(a, -1)))


# ---- norms --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [None, "fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf])
def test_matrix_norms_equal_numpys(order: object, dtype: str) -> None:
    a = draw(3, 4, 5, dtype=dtype)
    for axis in ((1, 2), (2, 0), (-1, -3)):
        for keepdims in (False, True):
            expected = np.linalg.norm(a, order, axis, keepdims)
            assert agree(LA.norm(to_mx(a), order, axis, keepdims), expected, TOLERANCE[dtype])
    if order is not None:
        expected = np.linalg.matrix_norm(a, ord=order, keepdims=True)
        assert agree(LA.matrix_norm(to_mx(a), ord=order, keepdims=True), expected, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, -1, -2.5, np.inf, -np.inf])
def test_vector_norms_equal_numpys(order: float, dtype: str) -> None:
    a = draw(3, 4, dtype=dtype)
    assert agree(LA.norm(to_mx(a), order, 1), np.linalg.norm(a, order, 1), TOLERANCE[dtype])
    for axis in (None, 0, (0, 1)):
        expected = np.linalg.vector_norm(a, axis=axis, ord=order, keepdims=True)
        assert agree(LA.vector_norm(to_mx(a), axis=axis, ord=order, keepdims=True), expected, TOLERANCE[dtype])


def test_matrix_norm_is_norm_at_the_top_level() -> None:
    assert mx.matrix_norm is LA.norm and "matrix_norm" in dir(mx)


def test_unknown_norms_are_named() -> None:
    with pytest.raises(ValueError, match="matrix norm 'odd'"):
        LA.norm(mx.ones((2, 2)), "odd")
    with pytest.raises(ValueError, match="matrix norm 3"):
        LA.matrix_norm(mx.ones((2, 2)), ord=3)
    with pytest.raises(TypeError, match="must be a number"):
        LA.vector_norm(mx.ones(2), ord="fro")


# ---- composed functions -------------------------------------------------------------------------


def test_diagonal_and_trace_are_of_the_last_axes() -> None:
    a = draw(2, 3, 4)
    for offset in (-1, 0, 2):
        assert agree(LA.diagonal(to_mx(a), offset=offset), np.linalg.diagonal(a, offset=offset))
        assert agree(LA.trace(to_mx(a), offset=offset), np.linalg.trace(a, offset=offset))
    assert LA.trace(mx.ones((2, 2), dtype=mx.int8), dtype=mx.float32).dtype == mx.float32


@pytest.mark.parametrize("power", [0, 1, 2, 3, 7, -1, -3])
def test_matrix_power_equals_numpys(power: int) -> None:
    a = draw(2, 3, 3)
    assert agree(LA.matrix_power(to_mx(a), power), np.linalg.matrix_power(a, power), 1e-8)


def test_matrix_power_keeps_integers_and_refuses_fractions() -> None:
    assert LA.matrix_power(mx.array([[1, 1], [0, 1]]), 3).tolist() == [[1, 3], [0, 1]]
    with pytest.raises(TypeError, match="integer"):
        LA.matrix_power(mx.eye(2), 0.5)
    with pytest.raises(ValueError, match="square"):
        LA.matrix_power(mx.ones((2, 3)), 2)


def test_matrix_rank_counts_singular_values() -> None:
    a = np.stack([np.diag([1.0, 1.0, 0.0]), np.diag([1.0, 1e-3, 1e-9]), np.zeros((3, 3))])
    assert LA.matrix_rank(to_mx(a)).tolist() == [2, 3, 0]
    assert LA.matrix_rank(to_mx(a), rtol=1e-5).tolist() == [2, 2, 0]
    assert LA.matrix_rank(to_mx(a), rtol=mx.array([0.1, 0.1, 0.1], dtype=mx.float64)).tolist() == [2, 1, 0]
    assert LA.matrix_rank(mx.zeros((2, 0, 3))).tolist() == [0, 0]


def test_multi_dot_equals_the_chain_in_any_order() -> None:
    shapes = ((2, 30), (30, 4), (4, 50), (50, 3))
    chain = [draw(*shape) for shape in shapes]
    assert agree(LA.multi_dot(list(map(to_mx, chain))), np.linalg.multi_dot(chain), 1e-10)
    ends = [chain[0][0], *chain[1:3], chain[3][:, 0]]
    assert agree(LA.multi_dot(list(map(to_mx, ends))), np.asarray(np.linalg.multi_dot(ends)), 1e-10)
    for wrong in ([mx.eye(2)], [mx.eye(2), mx.ones(2), mx.eye(2)], [mx.eye(2), mx.eye(3)]):
        with pytest.raises(ValueError, match=r"linalg\.multi_dot"):
            LA.multi_dot(wrong)


def test_outer_takes_vectors_only() -> None:
    assert agree(LA.outer(to_mx(draw(3)), to_mx(draw(2))), np.outer(draw(3), draw(2)))
    with pytest.raises(ValueError, match="one dimension"):
        LA.outer(mx.ones((2, 2)), mx.ones(2))


# ---- what goes wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["inv", "solve", "solve_triangular", "tri_inv"])
def test_a_singular_matrix_is_named_with_its_place(name: str) -> None:
    batch = np.stack([np.eye(3)] * 5 + [np.zeros((3, 3))])
    given = (to_mx(batch), mx.ones((3, 1))) if name.startswith("solve") else (to_mx(batch),)
    with pytest.raises(ValueError, match=f"linalg.{name}: matrix 5 of 6 is singular"):
        mx.eval(getattr(LA, name)(*given))


def test_a_failed_inverse_fails_again_whatever_is_made_of_it() -> None:
    out = LA.inv(mx.zeros((2, 2))) + 1
    for _ in range(2):
        with pytest.raises(ValueError, match="singular"):
            mx.eval(out)


def test_cholesky_of_an_indefinite_matrix_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"linalg\.cholesky: the matrix is not positive definite"):
        mx.eval(LA.cholesky(mx.array([[1.0, 2.0], [2.0, 1.0]])))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["svd", "svdvals", "pinv", "eig", "eigvals", "eigh", "eigvalsh"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_iterates_refuses_nan_and_infinity(name: str, dtype: str, value: float) -> None:
    a = draw(4, 4, dtype=dtype)
    a[2, 1] = value
    with pytest.raises(ValueError, match=f"linalg.{name}: the matrix has NaN or infinite elements"):
        mx.eval(getattr(LA, name)(to_mx(a)))


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "lu", "lu_factor", "qr"])
def test_what_does_not_iterate_hands_nan_on(name: str) -> None:
    a = draw(4, 4)
    a[:, 1] = np.nan
    out = getattr(LA, name)(to_mx(a))
    arrays = out if isinstance(out, tuple) else (out,)
    assert any(np.isnan(np.array(x)).any() for x in arrays)


@pytest.mark.parametrize("name", ["inv", "svd", "qr", "cholesky", "eig", "eigh", "det", "lu", "pinv", "matrix_rank"])
def test_half_precision_and_vectors_are_refused_by_name(name: str) -> None:
    function = getattr(LA, name)
    for dtype in (mx.float16, mx.bfloat16):
        with pytest.raises(TypeError, match=r"linalg\.\w+\] takes float32.*float16"):
            function(mx.ones((2, 2), dtype=dtype))
    with pytest.raises(ValueError, match=r"linalg\.\w+\] takes matrices.*\(3,\)"):
        function(mx.ones(3))


def test_shapes_that_do_not_fit_are_told() -> None:
    with pytest.raises(ValueError, match=r"linalg.inv\] takes square matrices, got shape \(2, 3\)"):
        LA.inv(mx.ones((2, 3)))
    with pytest.raises(ValueError, match=r"linalg.solve\].*\(2, 2\) and \(3,\)"):
        LA.solve(mx.eye(2), mx.ones(3))
    with pytest.raises(ValueError, match="do not broadcast"):
        LA.solve(mx.ones((2, 3, 3)), mx.ones((4, 3, 1)))
    with pytest.raises(ValueError, match="UPLO must be 'L' or 'U'"):
        LA.eigh(mx.eye(2), "X")


def test_a_library_without_lapack_is_an_error_with_its_name(tmp_path) -> None:
    script = (
        "import mlxc as mx\ntry:\n    mx.eval(mx.linalg.inv(mx.eye(2)))\nexcept OSError as error:\n    print(error)\n"
    )
    missing = str(tmp_path / "libnone.so")

    result = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "MLXC_OPENBLAS": missing}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("linalg.inv: no BLAS library") and missing in result.stdout


def test_matrices_are_factored_while_other_threads_run() -> None:
    """The GIL is free during an evaluation: two threads at once give what one after the other gives."""
    from concurrent.futures import ThreadPoolExecutor

    arrays = [to_mx(draw(64, 64, seed=i)) for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda a: np.array(LA.svdvals(a)), arrays))
    for values, a in zip(got, arrays, strict=True):
        assert np.allclose(values, np.linalg.svd(np.array(a), compute_uv=False))


# ---- the array API standard ---------------------------------------------------------------------


def test_the_standards_extension_is_complete_and_takes_its_arguments() -> None:
    strict = pytest.importorskip("array_api_strict").linalg
    xp = mx.ones(1).__array_namespace__()
    own = {name for name, value in vars(strict).items() if getattr(value, "__module__", "") == strict.__name__}
    functions = {name for name in own if name.islower() and not name.startswith("_")}
    assert functions <= set(xp.linalg.__all__), sorted(functions - set(xp.linalg.__all__))
    for name in xp.linalg.__all__:
        wanted = {
            parameter.name: parameter
            for parameter in inspect.signature(getattr(strict, name)).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        given = inspect.signature(getattr(xp.linalg, name)).parameters
        for keyword, parameter in wanted.items():
            assert keyword in given, f"{name} lacks {keyword}"
            assert given[keyword].default == parameter.default, f"{name}: default of {keyword}"


# ---- random.multivariate_normal -----------------------------------------------------------------


def test_a_key_gives_the_gaussian_vectors_that_mlx_draws() -> None:
    cov = mx.array([[1.0, 0.5], [0.5, 2.0]])
    drawn = mx.random.multivariate_normal(mx.zeros(2), cov, [3], key=mx.random.key(0))
    # mlx 0.32.4
    expected = [[-0.086416617, -1.7551874], [0.89771754, 1.8834305], [0.21428101, -0.1128055]]
    assert np.allclose(np.array(drawn), expected, atol=1e-6)


def test_gaussian_vectors_have_their_mean_and_covariance() -> None:
    mean, cov = np.array([1.0, -2.0, 0.5]), np.array([[2.0, 0.6, 0], [0.6, 1, -0.3], [0, -0.3, 0.5]])
    given = to_mx(mean), to_mx(cov)
    drawn = np.array(mx.random.multivariate_normal(*given, [200_000], dtype=mx.float64, key=mx.random.key(5)))
    assert drawn.dtype == np.float64
    assert np.allclose(drawn.mean(0), mean, atol=0.02) and np.allclose(np.cov(drawn.T), cov, atol=0.03)


def test_shapes_of_gaussian_vectors() -> None:
    draw_vectors = mx.random.multivariate_normal
    assert draw_vectors(mx.zeros((4, 1, 2)), mx.ones((3, 2, 2))).shape == (4, 3, 2)
    assert draw_vectors(mx.zeros(2), mx.ones((3, 2, 2)), (5, 3)).shape == (5, 3, 2)
    for mean, cov, shape in (((2,), (3, 3), []), ((2,), (2,), []), ((4, 2), (3, 2, 2), []), ((2,), (3, 2, 2), (2,))):
        with pytest.raises(ValueError, match=r"shape"):
            draw_vectors(mx.zeros(mean), mx.zeros(cov), shape)
    with pytest.raises(ValueError, match="float32 or float64"):
        draw_vectors(mx.zeros(2), mx.eye(2), dtype=mx.float16)
