"""mlxc.fft beside NumPy and SciPy: every length, layout and norm, real and complex, and short-time transforms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
import scipy.signal

import mlxc as mx

RNG = np.random.default_rng(0)
LENGTHS = [*range(1, 17), 31, 61, 64, 67, 97, 100, 127, 134, 202, 256, 509, 1000, 1009, 2018, 4096]
NORMS = ("backward", "ortho", "forward")


def draw_complex(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


def to_mx(a: np.ndarray) -> mx.array:
    return mx.array(a, dtype=getattr(mx, a.dtype.name))


def check(got: mx.array, want: np.ndarray, ulps: float = 32) -> None:
    """Errors in units of the result's own size, which is what a transform rounds at. NumPy's errors count too."""
    got = np.array(got)
    assert got.shape == want.shape
    size = np.sqrt(np.mean(np.abs(want) ** 2)) if want.size else 0
    assert np.max(np.abs(got - want), initial=0) <= ulps * np.finfo(got.dtype).eps * max(size, 1e-300)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_transforms_of_every_length_are_right_to_a_few_ulp(n: int, dtype: str) -> None:
    x = draw_complex(3, n).astype(dtype)
    real, half = x.real.copy(), x[:, : n // 2 + 1]
    few, wide, wide_real = 12, np.clongdouble, np.longdouble
    check(mx.fft.fft(to_mx(x)), scipy.fft.fft(x.astype(wide)), few)
    check(mx.fft.ifft(to_mx(x)), scipy.fft.ifft(x.astype(wide)), few)
    check(mx.fft.rfft(to_mx(real)), scipy.fft.rfft(real.astype(wide_real)), few)
    check(mx.fft.ihfft(to_mx(real)), scipy.fft.ihfft(real.astype(wide_real)), few)
    check(mx.fft.irfft(to_mx(half), n), scipy.fft.irfft(half.astype(wide), n), few)
    check(mx.fft.hfft(to_mx(half), n), scipy.fft.hfft(half.astype(wide), n), few)


def test_a_long_prime_is_transformed_in_time_and_to_the_last_places() -> None:
    x = draw_complex(65537)
    check(mx.fft.fft(to_mx(x)), scipy.fft.fft(x.astype(np.clongdouble)), 24)
    narrow = x.astype(np.complex64)
    check(mx.fft.fft(to_mx(narrow)), scipy.fft.fft(narrow.astype(complex)), 4)


@pytest.mark.parametrize("norm", NORMS)
def test_transforms_over_several_axes_equal_numpys(norm: str) -> None:
    x = draw_complex(4, 5, 6, 7)
    for name in ("fft2", "ifft2", "fftn", "ifftn", "irfft2", "irfftn"):
        check(getattr(mx.fft, name)(to_mx(x), norm=norm), getattr(np.fft, name)(x, norm=norm))
    for name in ("rfft2", "rfftn"):
        check(getattr(mx.fft, name)(to_mx(x.real.copy()), norm=norm), getattr(np.fft, name)(x.real, norm=norm))


@pytest.mark.parametrize("s, axes", [((3, 9), (0, 2)), ((6, 4), (3, 1)), ((8,), (2,)), ((2, 3, 4), (2, 0, 1))])
def test_axes_are_cut_or_filled_up(s: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = draw_complex(4, 5, 6, 7)
    for name in ("fftn", "ifftn", "irfftn"):
        check(getattr(mx.fft, name)(to_mx(x), s=s, axes=axes), getattr(np.fft, name)(x, s=s, axes=axes))
    check(mx.fft.rfftn(to_mx(x.real.copy()), s=s, axes=axes), np.fft.rfftn(x.real, s=s, axes=axes))


def test_without_axes_the_last_ones_are_taken_and_none_changes_nothing() -> None:
    x = draw_complex(3, 4, 5)
    check(mx.fft.fftn(to_mx(x), s=(4, 5)), np.fft.fftn(x, s=(4, 5), axes=(1, 2)))
    check(mx.fft.fftn(to_mx(x), axes=()), x)


@pytest.mark.parametrize("axis", range(4))
def test_any_layout_is_read_as_it_lies(axis: int) -> None:
    x = draw_complex(4, 5, 6, 7)
    a, b = to_mx(x).transpose(2, 0, 3, 1)[::-1, :, ::2], x.transpose(2, 0, 3, 1)[::-1, :, ::2]
    check(mx.fft.fft(a, axis=axis), np.fft.fft(b, axis=axis))
    check(mx.fft.irfft(a, axis=axis), np.fft.irfft(b, axis=axis))
    spread = mx.broadcast_to(to_mx(x[:1]), x.shape)
    check(mx.fft.fft(spread, axis=axis), np.fft.fft(np.broadcast_to(x[:1], x.shape), axis=axis))


def test_many_lines_are_spread_over_threads() -> None:
    x = RNG.standard_normal((257, 384))
    for axis in (0, 1):
        check(mx.fft.rfft(to_mx(x), axis=axis), np.fft.rfft(x, axis=axis))
    check(mx.fft.fft2(to_mx(x)), np.fft.fft2(x))


@pytest.mark.parametrize(
    "given, wanted",
    [("bool_", "complex64"), ("int32", "complex64"), ("float16", "complex64"), ("bfloat16", "complex64"),
     ("float32", "complex64"), ("float64", "complex128"), ("complex64", "complex64"), ("complex128", "complex128")],
)  # fmt: skip
def test_float64_is_transformed_in_complex128_and_all_else_in_complex64(given: str, wanted: str) -> None:
    x = mx.array([1, 0, 1]).astype(getattr(mx, given))
    assert mx.fft.fft(x).dtype == getattr(mx, wanted)
    real = mx.float64 if wanted == "complex128" else mx.float32
    assert mx.fft.irfft(x).dtype == real
    assert np.allclose(np.array(mx.fft.fft(x)), np.fft.fft([1, 0, 1]))


def test_imaginary_parts_that_a_real_result_cannot_have_do_not_count() -> None:
    x = draw_complex(5)
    for n in (8, 9):
        check(mx.fft.irfft(to_mx(x), n), np.fft.irfft(x, n))
        bent = x.copy()
        bent[0] += 3j
        if n == 8:
            bent[4] -= 2j
        check(mx.fft.irfft(to_mx(bent), n), np.fft.irfft(x, n))


def test_nan_stays_in_its_line() -> None:
    x = np.ones((2, 8), complex)
    x[0, 3] = np.nan
    got = np.array(mx.fft.fft(to_mx(x)))
    assert np.isnan(got[0]).all()
    assert np.array_equal(got[1], np.fft.fft(x[1]))


def test_empty_batches_are_fine_and_empty_axes_are_not() -> None:
    assert mx.fft.fft(mx.ones((0, 3))).shape == (0, 3)
    assert mx.fft.rfft(mx.ones((2, 0, 5))).shape == (2, 0, 3)
    for call in (mx.fft.fft, mx.fft.ifft, mx.fft.rfft, mx.fft.fftn, mx.fft.irfftn):
        with pytest.raises(ValueError):
            call(mx.ones((3, 0)))


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda x: mx.fft.fft(x, 0), ValueError),
        (lambda x: mx.fft.fft(x, -3), ValueError),
        (lambda x: mx.fft.irfft(x[:, :1]), ValueError),
        (lambda x: mx.fft.fft(x, axis=2), mx.AxisError),
        (lambda x: mx.fft.fft2(x[0]), mx.AxisError),
        (lambda x: mx.fft.fft(mx.array(1.0)), mx.AxisError),
        (lambda x: mx.fft.fftn(x, axes=(0, 0)), ValueError),
        (lambda x: mx.fft.fftn(x, s=(2, 3), axes=(0,)), ValueError),
        (lambda x: mx.fft.rfft(x, norm="other"), ValueError),
        (lambda x: mx.fft.rfft(x * 1j), TypeError),
        (lambda x: mx.fft.rfftn(x, axes=()), ValueError),
        (lambda x: mx.fft.fft(x, 2.5), TypeError),
        (lambda x: mx.fft.fftfreq(0), ValueError),
        (lambda x: mx.fft.stft(x, n_fft=64, center=False), ValueError),
        (lambda x: mx.fft.stft(x, n_fft=0), ValueError),
        (lambda x: mx.fft.stft(x, n_fft=4, hop_length=0), ValueError),
        (lambda x: mx.fft.stft(x, n_fft=4, window=mx.ones(5)), ValueError),
        (lambda x: mx.fft.stft(x, n_fft=4, win_length=5), ValueError),
        (lambda x: mx.fft.stft(x, n_fft=4, pad_mode="wrap"), ValueError),
        (lambda x: mx.fft.istft(x, n_fft=6), ValueError),
        (lambda x: mx.fft.istft(x[0]), ValueError),
    ],
)
def test_what_makes_no_sense_is_refused(call, error: type) -> None:
    with pytest.raises(error):
        mx.eval(call(mx.ones((3, 8))))


def test_frequencies_and_shifts_equal_numpys() -> None:
    for n in (1, 2, 5, 8, 9):
        for d in (1.0, 0.25):
            for name in ("fftfreq", "rfftfreq"):
                got = getattr(mx.fft, name)(n, d)
                assert got.dtype == mx.float32
                assert np.array_equal(np.array(got), getattr(np.fft, name)(n, d).astype(np.float32))
        assert np.array_equal(np.array(mx.fft.fftfreq(n, dtype=mx.float64)), np.fft.fftfreq(n))
        x = np.arange(3 * n).reshape(3, n)
        for axes in (None, 0, 1, (1, 0), -1):
            assert np.array_equal(np.array(mx.fft.fftshift(mx.array(x), axes)), np.fft.fftshift(x, axes))
            assert np.array_equal(np.array(mx.fft.ifftshift(mx.array(x), axes)), np.fft.ifftshift(x, axes))


def numeric_gradient(f, x: np.ndarray) -> np.ndarray:
    h, out = 1e-6, np.zeros(x.shape, x.dtype)
    for place in np.ndindex(x.shape):
        for step in (1,) if x.dtype.kind == "f" else (1, 1j):
            moved = np.zeros_like(x)
            moved[place] = h * step
            out[place] += step * (f(x + moved) - f(x - moved)) / (2 * h)
    return out


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_gradients_of_real_transforms_equal_central_differences(n: int) -> None:
    x, w = RNG.standard_normal((2, n)), draw_complex(2, n // 2 + 1)
    got = mx.grad(lambda a: mx.square(mx.abs(mx.fft.rfft(a) - to_mx(w))).sum())(to_mx(x))
    assert np.allclose(np.array(got), numeric_gradient(lambda a: (np.abs(np.fft.rfft(a) - w) ** 2).sum(), x), atol=1e-5)
    if n > 1:
        c = RNG.standard_normal((2, n))
        got = mx.grad(lambda a: mx.square(mx.fft.irfft(a, n) - to_mx(c)).sum())(to_mx(w))
        want = numeric_gradient(lambda a: ((np.fft.irfft(a, n) - c) ** 2).sum(), w)
        assert np.allclose(np.array(got), want, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hop_length": 7},
        {"center": False},
        {"pad_mode": "edge"},
        {"pad_mode": "constant"},
        {"win_length": 10},
        {"n_fft": 15},
        {"onesided": False},
        {"norm": "ortho"},
    ],
)
def test_stft_transforms_windowed_frames(options: dict) -> None:
    x = RNG.standard_normal((2, 50))
    options = {"n_fft": 16, **options}
    window = None if "win_length" in options else scipy.signal.get_window("hann", options["n_fft"])
    got = mx.fft.stft(to_mx(x), window=None if window is None else to_mx(window), **options)
    n, hop = options["n_fft"], options.get("hop_length") or options["n_fft"] // 4
    weights = np.zeros(n)
    inner = np.ones(options.get("win_length", n)) if window is None else window
    start = (n - len(inner)) // 2
    weights[start : start + len(inner)] = inner
    if options.get("center", True):
        mode = {"pad_mode": "reflect", **options}["pad_mode"]
        x = np.pad(x, ((0, 0), (n // 2, n // 2)), mode)
    frames = np.stack([x[:, i : i + n] * weights for i in range(0, x.shape[1] - n + 1, hop)], 1)
    transform = np.fft.rfft if options.get("onesided", True) else np.fft.fft
    check(got, np.swapaxes(transform(frames, norm=options.get("norm")), 1, 2))


def test_a_border_longer_than_the_signal_is_reflected_again_and_again() -> None:
    x = RNG.standard_normal(5)
    got = mx.fft.stft(to_mx(x), n_fft=32, hop_length=4)
    padded = np.pad(x, 16, "reflect")
    check(got, np.fft.rfft(np.stack([padded[i : i + 32] for i in range(0, 6, 4)])).T)


@pytest.mark.parametrize("length", [None, 50, 60, 37])
@pytest.mark.parametrize("onesided", [True, False])
def test_istft_gives_the_signal_back(length: int | None, onesided: bool) -> None:
    x = RNG.standard_normal((2, 50))
    window = to_mx(scipy.signal.get_window("hann", 16))
    spectra = mx.fft.stft(to_mx(x), n_fft=16, window=window, onesided=onesided)
    got = np.array(mx.fft.istft(spectra, n_fft=16, window=window, onesided=onesided, length=length))
    wanted = length or 48
    assert got.shape == (2, wanted)
    assert got.dtype == (np.float64 if onesided else np.complex128)
    assert np.allclose(got[:, : min(wanted, 50)], x[:, :wanted], atol=1e-12)


def test_istft_differentiates() -> None:
    x = RNG.standard_normal(20)
    f = lambda a: mx.square(mx.fft.istft(mx.fft.stft(a, n_fft=8), length=20)).sum()  # noqa: E731
    assert np.allclose(np.array(mx.grad(f)(to_mx(x))), 2 * x, atol=1e-12)
