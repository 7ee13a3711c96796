"""Gradients of linear algebra where they are hard: repeated and zero values, singular matrices, norms at zero, complex
matrices, high orders. The conformance kit checks the smooth cases of every op.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import mlxc as mx
from mlxc.testing.gradients import check_function

LA = mx.linalg
INF = float("inf")


@pytest.fixture(autouse=True)
def _on_cpu():
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


def to_mx(a: np.ndarray) -> mx.array:
    return mx.array(a, dtype=getattr(mx, a.dtype.name))


def draw(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    values = rng.standard_normal(shape)
    return values + 1j * rng.standard_normal(shape) if dtype == "complex128" else values


def adjoint(a: mx.array) -> mx.array:
    return a.mT.conj()


def check(function: Callable[..., mx.array], *primals: np.ndarray, second: bool = True) -> None:
    """vjp and jvp of the function, and of its gradient, against central differences."""
    arrays = [to_mx(np.asarray(x)) for x in primals]
    rng = np.random.default_rng(7)
    message = check_function(lambda *xs: (function(*xs),), arrays, rng, True, True)
    assert message is None, message
    if not second:
        return
    out = function(*arrays)
    cotangent = to_mx(draw(*out.shape, dtype=np.array(out).dtype.name, seed=9))
    pulled = lambda *xs: tuple(mx.vjp(lambda *zs: [function(*zs)], list(xs), [cotangent])[1])  # noqa: E731
    message = check_function(pulled, arrays, rng, True, True)
    assert message is None, f"second order: {message}"


BOTH = pytest.mark.parametrize("dtype", ["float64", "complex128"])


# ---- norms --------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("order", ["fro", "nuc", 2, -2, 1, -1, INF, -INF])
def test_every_matrix_norm(order: object, dtype: str) -> None:
    # The sums of rows and columns are not differentiable twice where the modulus is complex and the others vary.
    check(lambda a: LA.norm(a, order, (0, 2)), draw(3, 2, 4, dtype=dtype))
    check(lambda a: LA.matrix_norm(a, ord=order, keepdims=True), draw(2, 3, 4, dtype=dtype))


@BOTH
@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 3, -1, -2.5, INF, -INF])
def test_every_vector_norm(order: float, dtype: str) -> None:
    check(lambda a: LA.norm(a, order, 1), draw(3, 4, dtype=dtype))


@BOTH
@pytest.mark.parametrize("order", ["fro", "nuc", 2, -2, 1, -1, INF, -INF])
def test_the_gradient_of_a_matrix_norm_at_zero_is_zero(order: object, dtype: str) -> None:
    for a in (np.zeros((3, 3)), np.zeros((2, 3))):
        got = mx.grad(lambda x: LA.norm(x, order))(to_mx(a.astype(dtype)))
        assert np.array_equal(np.array(got), np.zeros(a.shape))


@BOTH
@pytest.mark.parametrize("order", [0, 0.5, 1, 1.5, 2, 3, -1, -2.5, INF, -INF])
def test_the_gradient_of_a_vector_norm_is_finite_at_zero_and_beside_it(order: float, dtype: str) -> None:
    for a in (np.zeros(3), np.array([0.0, 2.0, -1.0])):
        got = np.array(mx.grad(lambda x: LA.norm(x, order))(to_mx(a.astype(dtype))))
        assert np.isfinite(got).all() and (a.any() or not got.any())


def test_the_nuclear_norm_of_a_matrix_of_low_rank_has_a_subgradient() -> None:
    a = np.outer([1.0, 2, 3], [1.0, 1])
    got = np.array(mx.grad(lambda x: LA.norm(x, "nuc"))(to_mx(a)))
    # A subgradient g has spectral norm 1 at most and <g, a> is the norm.
    assert np.sum(got * a) == pytest.approx(np.linalg.norm(a, "nuc")) and np.linalg.norm(got, 2) <= 1 + 1e-12


# ---- singular values and eigenvalues ------------------------------------------------------------


def polar(a: mx.array) -> mx.array:
    u, _, vh = LA.svd(a, full_matrices=False)
    return u @ vh


@BOTH
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 3, 3)])
def test_the_unitary_factor_has_its_derivative_at_equal_singular_values(shape: tuple[int, ...], dtype: str) -> None:
    check(polar, np.linalg.qr(draw(*shape, dtype=dtype))[0] * 2, second=False)


@BOTH
def test_products_of_factors_have_finite_gradients_at_equal_and_zero_values(dtype: str) -> None:
    def product(a: mx.array) -> mx.array:
        u, s, vh = LA.svd(a, full_matrices=False)
        return (u * s[..., None, :]) @ vh

    for a in (np.eye(3), np.zeros((3, 2)), np.diag([2.0, 0, 0]), np.ones((3, 4))):
        x = to_mx(a.astype(dtype))
        got = mx.vjp(lambda z: [product(z)], [x], [mx.ones(a.shape, dtype=x.dtype)])[1][0]
        assert np.isfinite(np.array(got)).all()


def test_singular_values_and_their_sums_have_gradients_at_equal_values() -> None:
    a = np.linalg.qr(draw(3, 3))[0]
    check(lambda x: LA.svdvals(x).sum(), a, second=False)
    check(lambda x: (LA.svdvals(x) ** 2).sum(), a, second=False)


@BOTH
def test_spectral_functions_have_gradients_at_equal_eigenvalues(dtype: str) -> None:
    vectors = np.linalg.qr(draw(4, 4, dtype=dtype))[0]
    a = (vectors * np.array([1.0, 1, 1, 3])) @ vectors.conj().T
    check(lambda x: (LA.eigvalsh((x + adjoint(x)) / 2) ** 2).sum(), a, second=False)

    def upper_space(x: mx.array) -> mx.array:
        v = LA.eigh((x + adjoint(x)) / 2).eigenvectors[..., 3:]
        return v @ adjoint(v)

    def lower_space(x: mx.array) -> mx.array:
        v = LA.eigh((x + adjoint(x)) / 2).eigenvectors[..., :3]
        return v @ adjoint(v)

    check(upper_space, a, second=False)
    check(lower_space, a, second=False)
    got = mx.vjp(lambda x: list(LA.eigh(x)), [to_mx(np.eye(3))], [mx.ones(3, dtype=mx.float64), to_mx(draw(3, 3))])[1]
    assert np.isfinite(np.array(got[0])).all()


@BOTH
def test_gradients_of_hermitian_functions_are_hermitian(dtype: str) -> None:
    a = draw(4, 4, dtype=dtype)
    a = a @ a.conj().T + np.eye(4)
    for function in (LA.cholesky, LA.eigvalsh, lambda x: LA.eigh(x).eigenvalues, lambda x: LA.cholesky(x, True)):
        for triangle in (np.tril, np.triu):
            out = function(to_mx(a))
            cotangent = draw(*out.shape, dtype=np.array(out).dtype.name)
            cotangent = to_mx(triangle(cotangent) if cotangent.ndim == 2 else cotangent)
            got = np.array(mx.vjp(lambda x, f=function: [f(x)], [to_mx(a)], [cotangent])[1][0])
            assert np.allclose(got, got.conj().T)


@BOTH
def test_eigenvectors_follow_their_normalisation(dtype: str) -> None:
    """Not only what is free of it: the vectors themselves, whose length and phase are fixed."""
    a = draw(4, 4, dtype=dtype)
    check(lambda x: LA.eig(x).eigenvectors, a)
    check(lambda x: LA.eig(x).eigenvalues, a)


def test_a_real_matrix_with_complex_eigenvalues_has_a_real_gradient() -> None:
    a = np.array([[0.0, -2.0], [1.0, 0.5]])
    check(lambda x: mx.abs(LA.eigvals(x)).sum(), a)
    assert mx.grad(lambda x: mx.abs(LA.eigvals(x)).sum())(to_mx(a)).dtype == mx.float64


# ---- determinants -------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_det_has_two_derivatives_at_matrices_of_any_rank(rank: int, dtype: str) -> None:
    a = draw(3, rank, dtype=dtype) @ draw(rank, 3, dtype=dtype, seed=1)
    check(LA.det, a)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_det_has_two_derivatives_at_the_identity_and_at_zero(size: int) -> None:
    check(LA.det, np.eye(size))
    check(LA.det, np.zeros((size, size)))


def test_a_third_derivative_of_det_is_right_or_not_finite() -> None:
    def second(x: mx.array) -> mx.array:
        inner = lambda z: mx.grad(LA.det)(z)[0, 0]  # noqa: E731
        return mx.grad(inner)(x)[1, 1]

    at_regular = np.array(mx.grad(second)(to_mx(np.diag([1.0, 2, 3]))))
    assert np.allclose(at_regular, np.diag([0.0, 0, 1]))
    at_singular = np.array(mx.grad(second)(to_mx(np.diag([1.0, 0, 0]))))
    assert np.allclose(at_singular, np.diag([0.0, 0, 1])) or not np.isfinite(at_singular).all()


@BOTH
def test_slogdet_in_both_results(dtype: str) -> None:
    a = draw(2, 3, 3, dtype=dtype)
    check(lambda x: LA.slogdet(x).logabsdet, a)
    check(lambda x: LA.slogdet(x).sign, a)
    check(lambda x: mx.exp(LA.slogdet(x).logabsdet) * LA.slogdet(x).sign, a)


def test_log_det_by_cholesky_and_by_slogdet_have_one_gradient() -> None:
    a = draw(4, 4)
    a = to_mx(a @ a.T + np.eye(4))
    by_cholesky = mx.grad(lambda x: 2 * mx.log(LA.diagonal(LA.cholesky(x))).sum())(a)
    by_slogdet = mx.grad(lambda x: LA.slogdet(x).logabsdet)(a)
    assert np.allclose(np.array(by_cholesky), np.array(by_slogdet))


# ---- equations, inverses, factors ---------------------------------------------------------------


@BOTH
def test_broadcast_equations_sum_their_gradients(dtype: str) -> None:
    a, b = draw(2, 1, 3, 3, dtype=dtype) + 3 * np.eye(3), draw(4, 3, 2, dtype=dtype)
    check(LA.solve, a, b)
    check(lambda x, y: LA.solve_triangular(x, y, upper=True), a, b)
    check(LA.solve, a, draw(3, dtype=dtype))


@BOTH
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)])
def test_pinv_among_matrices_of_low_rank(shape: tuple[int, int], dtype: str) -> None:
    """Directions that keep the rank: the matrix is a product of two of rank 2."""
    left, right = draw(shape[0], 2, dtype=dtype), draw(2, shape[1], dtype=dtype)
    check(lambda x, y: LA.pinv(x @ y), left, right)


@BOTH
def test_composed_functions(dtype: str) -> None:
    a = draw(3, 3, dtype=dtype) + 2 * np.eye(3)
    check(lambda x: LA.matrix_power(x, 3), a)
    check(lambda x: LA.matrix_power(x, -2), a)
    check(LA.cholesky_inv, a)
    check(lambda x: LA.multi_dot([x, x, x]), a)
    check(LA.cross, draw(2, 3, dtype=dtype), draw(3, dtype=dtype))
    check(lambda x: LA.lu(x)[1], a)
    check(lambda x: LA.lu(x)[2], a)


def test_a_third_derivative_of_an_inverse() -> None:
    third = mx.grad(mx.grad(mx.grad(lambda x: LA.inv(x.reshape(1, 1)).sum())))
    assert third(mx.array(2.0, dtype=mx.float64)).item() == pytest.approx(-6 / 2**4)


def test_gradients_keep_single_precision() -> None:
    a = mx.array(draw(3, 3).astype(np.float32))
    for function in (LA.inv, LA.det, LA.svdvals, LA.pinv, lambda x: LA.qr(x).Q, lambda x: mx.real(LA.eigvals(x))):
        assert mx.grad(lambda x, f=function: f(x).sum())(a).dtype == mx.float32


def test_a_gaussian_is_differentiated_through_its_covariance() -> None:
    key = mx.random.key(1)
    mean, cov = np.zeros(3), np.array([[2.0, 0.5, 0], [0.5, 1, 0.2], [0, 0.2, 0.7]])

    def draws(m: mx.array, half: mx.array) -> mx.array:
        return mx.random.multivariate_normal(m, half @ half.mT, [5], dtype=mx.float64, key=key)

    check(draws, mean, np.linalg.cholesky(cov))


# ---- together with other transforms -------------------------------------------------------------


@BOTH
def test_batched_equations_share_what_is_not_batched(dtype: str) -> None:
    a, b = draw(5, 3, 3, dtype=dtype) + 3 * np.eye(3), draw(4, 5, 3, 2, dtype=dtype)
    shared = mx.vmap(LA.solve, in_axes=(None, 1))(to_mx(a[0]), to_mx(b))
    assert np.allclose(np.array(shared), np.linalg.solve(a[0], np.moveaxis(b, 1, 0)))
    both = mx.vmap(LA.solve, in_axes=(0, 1))(to_mx(a), to_mx(b))
    assert np.allclose(np.array(both), np.linalg.solve(a[:, None], np.moveaxis(b, 1, 0)))


def test_vmap_of_a_gradient_equals_the_loop() -> None:
    batch = draw(4, 3, 3)
    functions = {
        "det": LA.det,
        "svd": lambda x: LA.svd(x).U[..., :1].sum() ** 2,
        "eig": lambda x: mx.abs(LA.eig(x).eigenvectors).sum(),
        "lu": lambda x: LA.lu(x)[1].sum(),
        "pinv": lambda x: LA.pinv(x).sum(),
        "log": lambda x: LA.slogdet(x).logabsdet,
    }
    for name, function in functions.items():
        got = np.array(mx.vmap(mx.grad(function))(to_mx(batch)))
        loop = np.stack([np.array(mx.grad(function)(to_mx(a))) for a in batch])
        assert np.allclose(got, loop, atol=1e-9), name


def test_the_hessian_of_a_determinant_is_that_of_its_polynomial() -> None:
    hessian = np.array(mx.hessian(LA.det)(to_mx(np.eye(2)))).reshape(4, 4)
    assert np.allclose(hessian, [[0, 0, 0, 1], [0, 0, -1, 0], [0, -1, 0, 0], [1, 0, 0, 0]])


def test_compiled_linear_algebra_and_its_gradient_equal_the_recorded_ones() -> None:
    def loss(a: mx.array, b: mx.array) -> mx.array:
        return (LA.solve(a @ a.mT + mx.eye(3), b) ** 2).sum() + LA.slogdet(a).logabsdet

    a, b = mx.array(draw(3, 3).astype(np.float32)), mx.array(draw(3, 2).astype(np.float32))
    compiled = mx.compile(mx.value_and_grad(loss))
    for got, expected in zip(compiled(a, b), mx.value_and_grad(loss)(a, b), strict=True):
        assert np.allclose(np.array(got), np.array(expected), rtol=1e-4)
    with pytest.raises(ValueError, match="singular"):
        mx.eval(mx.compile(LA.inv)(mx.zeros((2, 2))))
