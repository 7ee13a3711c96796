"""Random numbers: the values of MLX 0.32 for the same key (recorded below), distributions, refused arguments."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy import stats

import mlxc as mx

KEY = mx.random.key(7)
LOGITS = [[0.0, 1.0, 2.0], [0.5, 0.0, 0.0]]
FIVE = [0.0, 1.0, 2.0, 0.5, -1.0]

# What mlx 0.32.4 gives for the key 7 (split: the key 42).
GOLDEN = {
    "split": [3134548294, 3733159049, 3746501087, 894150801, 801545058, 2363201431],
    "uniform": [0.06438561, 0.20069243, 0.65045923, 0.38227594, 0.6754175],
    "uniform_bounds": [-1.6458791, -0.8961916, 1.5775259, 0.102517605, 1.7147961],
    "uniform_float16": [0.06439209, 0.2006836, 0.6503906, 0.38232422, 0.67529297],
    "uniform_bfloat16": [0.064453125, 0.20117188, 0.65234375, 0.3828125, 0.67578125],
    "normal": [-1.518965, -0.8391503, 0.38656068, -0.2995087, 0.45492253],
    "normal_loc_scale": [1.1202588, 1.2902124, 1.5966401, 1.4251229, 1.6137307],
    "normal_float16": [-1.5185547, -0.8388672, 0.38671875, -0.29956055, 0.45507812],
    "normal_bfloat16": [-1.515625, -0.83984375, 0.38671875, -0.29882812, 0.45507812],
    "normal_complex64": [
        -1.0740704536437988 - 0.5933688879013062j,
        -0.10008746385574341 - 0.21178463101387024j,
        0.3216788172721863 - 0.3177284300327301j,
    ],
    "randint": [1, 16, 41, 35, 65, 29],
    "randint_uint8": [12, 40, 88, 76, 135, 65],
    "bernoulli": [True, False, False, True, False, False, False, False],
    "truncated_normal": [-0.8017078, -0.45949042, 0.49902102, -0.07128788, 0.5579139],
    "gumbel": [-1.009003, -0.4737352, 0.8437918, 0.03914363, 0.9354117],
    "laplace": [2.0497172, 0.91283435, -0.35798797, 0.2684653, -0.4320684],
    "laplace_scaled": [5.0994344, 2.8256688, 0.28402406, 1.5369306, 0.13586318],
    "categorical": [0, 2, 0, 1, 0, 1, 0, 0],
    "categorical_plain": [2, 1],
    "categorical_axis_shape": [0, 1, 1, 0, 0, 0],
    "categorical_of_one": [0, 2, 2, 1, 2, 4, 3, 3],
    "categorical_of_one_row": [2],
    "categorical_of_one_shape": [0, 1, 2, 2, 2, 2],
    "categorical_scalar": [2],
    "permutation": [4, 6, 1, 2, 5, 7, 8, 3, 0, 9],
    "permutation_axis": [0, 1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10],
}
DRAWS = {
    "split": lambda: mx.random.split(mx.random.key(42), 3),
    "uniform": lambda: mx.random.uniform(shape=(5,), key=KEY),
    "uniform_bounds": lambda: mx.random.uniform(-2.0, 3.5, (5,), key=KEY),
    "uniform_float16": lambda: mx.random.uniform(shape=(5,), dtype=mx.float16, key=KEY),
    "uniform_bfloat16": lambda: mx.random.uniform(shape=(5,), dtype=mx.bfloat16, key=KEY),
    "normal": lambda: mx.random.normal((5,), key=KEY),
    "normal_loc_scale": lambda: mx.random.normal((5,), loc=1.5, scale=0.25, key=KEY),
    "normal_float16": lambda: mx.random.normal((5,), mx.float16, key=KEY),
    "normal_bfloat16": lambda: mx.random.normal((5,), mx.bfloat16, key=KEY),
    "normal_complex64": lambda: mx.random.normal((3,), mx.complex64, key=KEY),
    "randint": lambda: mx.random.randint(-5, 100, (6,), key=KEY),
    "randint_uint8": lambda: mx.random.randint(0, 200, (6,), dtype=mx.uint8, key=KEY),
    "bernoulli": lambda: mx.random.bernoulli(0.3, (8,), key=KEY),
    "truncated_normal": lambda: mx.random.truncated_normal(-1.0, 2.0, (5,), key=KEY),
    "gumbel": lambda: mx.random.gumbel((5,), key=KEY),
    "laplace": lambda: mx.random.laplace((5,), key=KEY),
    "laplace_scaled": lambda: mx.random.laplace((5,), loc=1.0, scale=2.0, key=KEY),
    "categorical": lambda: mx.random.categorical(mx.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]), num_samples=4, key=KEY),
    "categorical_plain": lambda: mx.random.categorical(mx.array(LOGITS), key=KEY),
    "categorical_axis_shape": lambda: mx.random.categorical(mx.array(LOGITS), axis=0, shape=(2, 3), key=KEY),
    "categorical_of_one": lambda: mx.random.categorical(mx.array(FIVE), num_samples=8, key=KEY),
    "categorical_of_one_row": lambda: mx.random.categorical(mx.array([FIVE]), key=KEY),
    "categorical_of_one_shape": lambda: mx.random.categorical(mx.array(FIVE), shape=(2, 3), key=KEY),
    "categorical_scalar": lambda: mx.random.categorical(mx.array(FIVE), key=KEY),
    "permutation": lambda: mx.random.permutation(10, key=KEY),
    "permutation_axis": lambda: mx.random.permutation(mx.arange(12).reshape(3, 4), axis=1, key=KEY),
}
# Made of functions with rounding of their own: within a few ulp. The rest is equal to the last bit.
ROUNDED = ("normal", "truncated", "gumbel", "laplace")


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_the_same_key_gives_the_values_of_mlx(name):
    got = DRAWS[name]()
    values = np.array(got.astype(mx.float32) if got.dtype in (mx.float16, mx.bfloat16) else got).reshape(-1)
    expected = np.array(GOLDEN[name]).astype(values.dtype)
    if name.startswith(ROUNDED):
        step = {mx.float16: 2.0**-10, mx.bfloat16: 2.0**-7}.get(got.dtype, 2.0**-21)
        np.testing.assert_allclose(values, expected, rtol=step, atol=step)
    else:
        assert values.tolist() == expected.tolist()


def test_the_keys_of_a_seed_are_those_of_mlx():
    mx.random.seed(99)
    got = [
        *mx.random.uniform(shape=(2,)).tolist(),
        *mx.random.normal((2,)).tolist(),
        *mx.random.uniform(shape=(3,)).tolist(),
    ]
    expected = [0.5914783, 0.60340804, -0.30072042, -0.80216587, 0.6966501, 0.33233875, 0.17970482]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_key_is_the_high_and_the_low_word():
    assert mx.random.key(2**40 + 5).tolist() == [256, 5]
    assert mx.random.key(2**64 - 1).tolist() == [2**32 - 1, 2**32 - 1]


def test_seed_restarts_the_sequence_and_state_shows_the_key():
    mx.random.seed(3)
    assert len(mx.random.state) == 1 and mx.random.state[0].tolist() == [0, 3]
    first = mx.random.normal((4,)).tolist()
    saved = mx.random.state[0]
    second = mx.random.normal((4,)).tolist()
    assert first != second
    mx.random.state[0] = saved
    assert mx.random.normal((4,)).tolist() == second
    # A state that is still to be computed gives the same draws.
    mx.random.state[0] = saved + mx.array(0, mx.uint32)
    assert mx.random.normal((4,)).tolist() == second


def test_the_state_is_the_threads_own():
    mx.random.seed(11)
    before = mx.random.state[0].tolist()
    seen = {}

    def work(n):
        mx.random.seed(5)
        seen[n] = [mx.random.uniform(shape=(3,)).tolist() for _ in range(10)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(seen[n] == seen[0] for n in range(4))
    assert mx.random.state[0].tolist() == before


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32, mx.float64])
def test_uniform_stays_below_its_upper_bound(dtype):
    for low, high in ((0, 1), (1.0, 1.5), (-1.0, 0.25), (3.0, -2.0)):
        u = np.array(mx.random.uniform(low, high, (20000,), dtype, KEY).astype(mx.float64))
        bounds = [float(mx.array(b, dtype).astype(mx.float64).item()) for b in (low, high)]
        assert (u >= bounds[0]).all() and (u < bounds[1]).all() if low < high else (u > bounds[1]).all()


def test_float64_draws_use_more_bits_than_float32_has():
    u = np.array(mx.random.uniform(shape=(1000,), dtype=mx.float64, key=KEY))
    assert u.dtype == np.float64 and (u != u.astype(np.float32)).mean() > 0.99
    assert stats.kstest(u, "uniform").pvalue > 1e-4
    n = np.array(mx.random.normal((5000,), mx.float64, key=KEY))
    assert stats.kstest(n, "norm").pvalue > 1e-4
    bounds = np.array(mx.random.uniform(0.1, 0.3, (3,), mx.float64, KEY))
    assert np.allclose(bounds, 0.1 + u[:3] * 0.2, rtol=1e-15)


@pytest.mark.parametrize(
    ("draw", "distribution"),
    [
        (lambda n: mx.random.normal(n, key=KEY), stats.norm()),
        (lambda n: mx.random.laplace(n, key=KEY), stats.laplace()),
        (lambda n: mx.random.gumbel(n, key=KEY), stats.gumbel_r()),
        (lambda n: mx.random.truncated_normal(-1.0, 0.5, n, key=KEY), stats.truncnorm(-1.0, 0.5)),
        (lambda n: mx.random.truncated_normal(1.0, 2.5, n, key=KEY), stats.truncnorm(1.0, 2.5)),
        (lambda n: mx.random.truncated_normal(3.0, mx.inf, n, key=KEY), stats.truncnorm(3.0, np.inf)),
        (lambda n: mx.random.truncated_normal(10.0, 11.0, n, key=KEY), stats.truncnorm(10.0, 11.0)),
        (lambda n: mx.random.truncated_normal(-7.0, -5.0, n, key=KEY), stats.truncnorm(-7.0, -5.0)),
        (lambda n: mx.random.truncated_normal(30.0, 40.0, n, key=KEY), stats.truncnorm(30.0, 40.0)),
        (lambda n: mx.random.truncated_normal(-mx.inf, mx.inf, n, key=KEY), stats.norm()),
    ],
)
def test_draws_have_the_distribution(draw, distribution):
    x = np.array(draw((20000,))).astype(np.float64)
    low, high = distribution.support()
    assert np.isfinite(x).all() and x.min() >= low and x.max() <= high
    assert len(np.unique(x)) > 10000
    assert stats.kstest(x, distribution.cdf).pvalue > 1e-4


def test_categorical_follows_the_probabilities():
    p = np.array([0.1, 0.2, 0.7])
    draws = np.array(mx.random.categorical(mx.log(mx.array(p)), num_samples=50000, key=KEY))
    counts = np.bincount(draws, minlength=3)
    assert stats.chisquare(counts, p * 50000).pvalue > 1e-4


@pytest.mark.parametrize("count", [5, 20000])
def test_categorical_of_one_distribution_never_picks_what_has_no_probability(count):
    # Masked logits at both ends, as language models have them, and many that are small.
    logits = np.full(1000, -np.inf, np.float32)
    logits[300:700] = np.random.default_rng(0).standard_normal(400) * 5
    for seed in range(5):
        for x in (mx.array(logits), mx.array(logits[None])):
            draws = np.array(mx.random.categorical(x, num_samples=count, key=mx.random.key(seed)))
            assert draws.min() >= 300 and draws.max() < 700
    assert mx.random.categorical(mx.full((1, 4), mx.nan), key=KEY).item() < 4


@pytest.mark.parametrize("count", [64, 50000])
def test_categorical_of_one_distribution_follows_the_probabilities(count):
    p = np.array([0.05, 0.25, 0.0, 0.7])
    with np.errstate(divide="ignore"):
        logits = mx.array(np.log(p))
    draws = [np.array(mx.random.categorical(logits, num_samples=count, key=mx.random.key(i))) for i in range(20)]
    counts = np.bincount(np.concatenate(draws), minlength=4)
    assert counts[2] == 0
    assert stats.chisquare(counts[[0, 1, 3]], p[[0, 1, 3]] * 20 * count).pvalue > 1e-4


def test_bernoulli_takes_its_shape_from_p():
    p = mx.array([0.0, 1.0])
    assert mx.random.bernoulli(p, key=KEY).tolist() == [False, True]
    assert mx.random.bernoulli(p, (3, 2), key=KEY).tolist() == [[False, True]] * 3


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 2**31 - 1, mx.int32),
        (-(2**31), 2**31, mx.int32),
        (-(2**63), 2**63, mx.int64),
        (2**62, 2**63, mx.int64),
        (0, 2**64, mx.uint64),
        (-128, 128, mx.int8),
        (16777216, 16777226, mx.int32),
    ],
)
def test_randint_covers_wide_and_far_ranges(low, high, dtype):
    x = [int(v) for v in mx.random.randint(low, high, (4000,), dtype, KEY).tolist()]
    assert low <= min(x) and max(x) < high
    span = high - low
    assert min(x) - low <= span // 100 + 1 and high - max(x) <= span // 100 + 1


def test_randint_with_arrays_as_bounds():
    low, high = mx.array([0, 100, -(2**40)]), mx.array([10, 101, 2**40])
    x = np.array(mx.random.randint(low, high, (500, 3), mx.int64, KEY))
    assert (x[:, 0] >= 0).all() and (x[:, 0] < 10).all() and len(np.unique(x[:, 0])) == 10
    assert (x[:, 1] == 100).all()
    assert len(np.unique(x[:, 2])) == 500


def test_permutation_shuffles_without_loss():
    assert sorted(mx.random.permutation(1000, key=KEY).tolist()) == list(range(1000))
    assert mx.random.permutation(0).tolist() == []
    rows = np.array(mx.random.permutation(mx.arange(20).reshape(10, 2), key=KEY))
    assert sorted(map(tuple, rows.tolist())) == [(2 * i, 2 * i + 1) for i in range(10)]


def test_bits_have_the_width_asked_for():
    for width, dtype in ((1, mx.uint8), (2, mx.uint16), (4, mx.uint32), (8, mx.uint64)):
        x = mx.random.bits((1000,), width, KEY)
        assert x.dtype == dtype
        values = np.array(x).astype(np.float64) / 2.0 ** (8 * width)
        assert abs(values.mean() - 0.5) < 0.05


@pytest.mark.parametrize(
    "call",
    [
        lambda: mx.random.randint(5, 2, (3,)),
        lambda: mx.random.randint(2, 2, (3,)),
        lambda: mx.random.randint(0, 300, (3,), dtype=mx.uint8),
        lambda: mx.random.randint(-1, 3, (3,), dtype=mx.uint8),
        lambda: mx.random.randint(mx.array([3, 1]), mx.array([4, 1]), (2,)),
        lambda: mx.random.randint(0, 5, (3,), dtype=mx.float32),
        lambda: mx.random.uniform(dtype=mx.int32),
        lambda: mx.random.uniform(mx.zeros((3,)), 1, ()),
        lambda: mx.random.normal((-3,)),
        lambda: mx.random.normal((2,), key=mx.zeros((3,), mx.uint32)),
        lambda: mx.random.normal((2,), loc=mx.zeros((3,))),
        lambda: mx.random.truncated_normal(2.0, 1.0, (3,)),
        lambda: mx.random.categorical(mx.zeros((2, 3)), shape=(2,), num_samples=2),
        lambda: mx.random.categorical(mx.zeros((2, 3)), shape=(3,)),
        lambda: mx.random.bernoulli(mx.zeros((2,)), (3,)),
        lambda: mx.random.key(-1),
        lambda: mx.random.seed(2**64),
        lambda: mx.random.permutation(-1),
        lambda: mx.random.bits((2,), 3),
    ],
)
def test_wrong_arguments_are_refused(call):
    with pytest.raises(ValueError, match=r".{15}"):
        mx.eval(call())


def test_wrong_types_are_refused():
    with pytest.raises(TypeError):
        mx.random.seed(1.5)
    with pytest.raises(TypeError):
        mx.eval(mx.random.split(mx.array([1, 2])))


def test_gradients_flow_through_loc_and_scale():
    def loss(loc, scale):
        return mx.random.normal((4,), loc=loc, scale=scale, key=KEY).sum()

    d_loc, d_scale = mx.grad(loss, argnums=(0, 1))(mx.array(0.5), mx.array(2.0))
    assert d_loc.item() == 4.0
    assert d_scale.item() == pytest.approx(mx.random.normal((4,), key=KEY).sum().item(), rel=1e-5)
