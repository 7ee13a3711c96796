"""Samplers and processors against their definitions in NumPy, and against the frequencies they promise."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx
from mlxc.models.sample import (
    filter_logits,
    logit_bias,
    make_logits_processors,
    make_sampler,
    repetition_penalty,
)


def random_logits(seed: int, batch: int = 3, size: int = 50) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((batch, size)) * 3).astype(np.float32)


def probabilities(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64)
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def kept_by_top_p(p: np.ndarray, top_p: float) -> np.ndarray:
    kept = np.zeros_like(p, bool)
    for row, flags in zip(p, kept, strict=True):
        order = np.argsort(-row, kind="stable")
        count = int(np.searchsorted(np.cumsum(row[order]), top_p)) + 1
        flags[order[:count]] = True
    return kept


def kept_by_top_k(p: np.ndarray, k: int) -> np.ndarray:
    return p >= -np.sort(-p, axis=-1)[:, min(k, p.shape[1]) - 1 :][:, :1]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"top_p": 0.5},
        {"top_p": 0.95},
        {"top_k": 1},
        {"top_k": 7},
        {"top_k": 500},
        {"min_p": 0.1},
        {"min_p": 1.0},
        {"min_p": 0.9, "min_tokens_to_keep": 4},
        {"top_p": 0.8, "top_k": 5, "min_p": 0.05},
    ],
)
def test_rules_keep_the_tokens_of_their_definition(rules, seed):
    logits = random_logits(seed)
    p = probabilities(logits)
    expected = np.ones_like(p, bool)
    if "top_p" in rules:
        expected &= kept_by_top_p(p, rules["top_p"])
    if "top_k" in rules:
        expected &= kept_by_top_k(p, rules["top_k"])
    if "min_p" in rules:
        near = p >= rules["min_p"] * p.max(-1, keepdims=True) * (1 - 1e-6)
        expected &= near | kept_by_top_k(p, rules.get("min_tokens_to_keep", 1))
    got = np.array(filter_logits(mx.array(logits), **rules))
    np.testing.assert_array_equal(np.isfinite(got), expected)
    np.testing.assert_allclose(got[expected], np.log(p)[expected], rtol=1e-5, atol=2e-6)


def test_tokens_as_probable_as_the_last_that_stays_stay_too():
    got = filter_logits(mx.array([[1.0, 1.0, 0.0, 1.0]]), top_k=1)
    assert np.isfinite(np.array(got)).tolist() == [[True, True, False, True]]


def test_something_always_stays():
    rules = {"top_p": 1e-9, "top_k": 1, "min_p": 1.0}
    for logits in (random_logits(1), np.array([[1e30, -1e30, 0.0]], np.float32), np.zeros((2, 4), np.float32)):
        assert np.isfinite(np.array(filter_logits(mx.array(logits), **rules))).any(-1).all()


@pytest.mark.parametrize("rules", [{}, {"top_p": 0.7}, {"top_k": 3}, {"min_p": 0.2}])
@pytest.mark.parametrize("temp", [0.5, 1.0, 2.0])
def test_draws_have_the_frequencies_of_the_definition(temp, rules):
    logits = random_logits(11, 1, 8)
    kept = np.array(filter_logits(mx.array(logits), **rules))
    expected = probabilities(kept / temp)[0]
    n = 20_000
    drawn = make_sampler(temp, seed=3, **rules)(mx.array(np.repeat(logits, n, 0)))
    counts = np.bincount(np.array(drawn), minlength=8)
    assert counts[expected == 0].sum() == 0
    # Five standard deviations of a binomial count.
    spread = 5 * np.sqrt(n * expected * (1 - expected)) + 1e-9
    assert np.all(np.abs(counts - n * expected) <= spread + 1)


def test_zero_temperature_takes_the_largest_and_a_tiny_one_nearly_always_does():
    logits = random_logits(2)
    for sampler in (make_sampler(), make_sampler(1e-30, seed=1), make_sampler(5.0, top_k=1, seed=1)):
        assert sampler(mx.array(logits)).tolist() == logits.argmax(-1).tolist()
    half = mx.array(logits).astype(mx.bfloat16)
    assert make_sampler()(half).tolist() == mx.argmax(half.astype(mx.float32), -1).tolist()


def test_a_seed_or_a_key_fixes_all_draws():
    logits = mx.array(random_logits(4, 4))
    runs = []
    for how in ({"seed": 5}, {"seed": 5}, {"key": mx.random.key(5)}, {"seed": 6}):
        sampler = make_sampler(1.0, **how)
        runs.append([sampler(logits).tolist() for _ in range(20)])
    assert runs[0] == runs[1] == runs[2] != runs[3]
    assert len({tuple(draw) for draw in runs[0]}) > 1
    mx.random.seed(9)
    one = make_sampler(1.0)(logits).tolist()
    mx.random.seed(9)
    assert make_sampler(1.0)(logits).tolist() == one


def test_rows_of_a_batch_are_drawn_independently():
    drawn = make_sampler(1.0, seed=0)(mx.zeros((64, 1000)))
    assert drawn.shape == (64,) and len(set(drawn.tolist())) > 40


@pytest.mark.parametrize("size", [1, 3, None])
def test_repetition_penalty_is_its_definition(size):
    logits = random_logits(6)
    tokens = np.random.default_rng(1).integers(0, 50, (3, 6))
    expected = logits.copy()
    for row, ids in zip(expected, tokens, strict=True):
        for id in set(ids[-(size or 99) :].tolist()):
            row[id] = row[id] * 1.3 if row[id] < 0 else row[id] / 1.3
    process = repetition_penalty(1.3, size)
    np.testing.assert_allclose(np.array(process(mx.array(tokens), mx.array(logits))), expected, rtol=1e-6)
    one = process(tokens[0].tolist(), mx.array(logits[:1]))
    np.testing.assert_allclose(np.array(one), expected[:1], rtol=1e-6)
    assert process(mx.zeros((0,), dtype=mx.uint32), mx.array(logits)).tolist() == logits.tolist()


def test_logit_bias_adds():
    logits = random_logits(7)
    expected = logits.copy()
    expected[:, [3, 0]] += np.float32([2.5, -np.inf])
    got = logit_bias({3: 2.5, 0: float("-inf")})([1], mx.array(logits))
    np.testing.assert_array_equal(np.array(got), expected)
    assert make_sampler()(logit_bias({9: 1e9})([], mx.array(logits))).tolist() == [9, 9, 9]


def test_processors_come_in_order_and_only_when_asked_for():
    assert make_logits_processors() == make_logits_processors({}, 1.0) == []
    first, second = make_logits_processors({0: 3.0}, 2.0)
    logits = second([0], first([0], mx.array([[1.0, 1.0]])))
    assert logits.tolist() == [[2.0, 1.0]]


def test_arguments_out_of_range_are_refused_when_the_sampler_is_made():
    bad = (
        {"temp": -1.0}, {"temp": float("nan")}, {"top_p": 1.5}, {"top_p": -0.1}, {"min_p": 2.0}, {"top_k": -1},
        {"top_k": 1.5}, {"min_p": 0.1, "min_tokens_to_keep": 0}, {"seed": 1, "key": mx.random.key(0)},
    )  # fmt: skip
    for arguments in bad:
        with pytest.raises(ValueError, match=r"\[make_sampler\]"):
            make_sampler(**{"temp": 1.0, **arguments})
    for make in (lambda: repetition_penalty(0), lambda: repetition_penalty(2, 0), lambda: logit_bias({-1: 1.0})):
        with pytest.raises(ValueError):
            make()
    with pytest.raises(ValueError, match="beyond the vocabulary of 2"):
        logit_bias({2: 1.0})([0], mx.zeros((1, 2)))
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        make_sampler()(mx.zeros(3))
