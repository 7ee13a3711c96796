"""Schedules: where they join, what they take, and what they refuse."""

from __future__ import annotations

import pickle

import pytest

import mlxc as mx
import mlxc.optimizers as optim


def test_the_optimizer_shows_the_rate_of_its_last_step():
    optimizer = optim.SGD(optim.cosine_decay(0.1, 1000))
    assert optimizer.learning_rate.item() == pytest.approx(0.1)
    for _ in range(5):
        optimizer.update({}, {})
    assert optimizer.learning_rate.item() == pytest.approx(0.0999961, rel=1e-6)


def test_a_joined_schedule_counts_from_its_boundary():
    joined = optim.join_schedules([lambda step: step, lambda step: step * 100, lambda step: step * 1000], [5, 7])
    assert [joined(mx.array(step, mx.uint64)).item() for step in range(9)] == [0, 1, 2, 3, 4, 0, 100, 0, 1000]


def test_a_schedule_is_never_asked_for_a_step_before_its_boundary():
    table = mx.array([0.5, 0.25])
    joined = optim.join_schedules([lambda step: 1.0, lambda step: table[step]], [3])
    assert [joined(mx.array(step, mx.uint64)).item() for step in range(5)] == [1, 1, 1, 0.5, 0.25]


def test_plain_integers_are_steps_too():
    assert optim.exponential_decay(1.0, 0.5)(3) == 0.125
    assert optim.step_decay(1.0, 0.5, 2)(5) == 0.25
    assert optim.linear_schedule(0, 1, 4)(1).item() == 0.25


def test_schedules_can_be_pickled():
    joined = optim.join_schedules([optim.linear_schedule(0, 1, 4), optim.exponential_decay(1, 0.5)], [4])
    assert pickle.loads(pickle.dumps(joined))(mx.array(6)).item() == 0.25


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: optim.step_decay(1, 0.1, 0), ValueError, r"\[step_decay\] step_size is above 0, got 0"),
        (lambda: optim.cosine_decay(1, -1), ValueError, r"\[cosine_decay\] decay_steps is above 0, got -1"),
        (lambda: optim.linear_schedule(0, 1, 0), ValueError, r"\[linear_schedule\] steps is above 0, got 0"),
        (lambda: optim.join_schedules([], []), ValueError, r"at least one schedule"),
        (lambda: optim.join_schedules([abs], [3]), ValueError, r"1 schedules meet at 0 boundaries, got 1"),
        (lambda: optim.join_schedules([abs] * 3, [5, 3]), ValueError, r"boundaries grow, got \[5, 3\]"),
        (lambda: optim.join_schedules([abs, 0.1], [5]), TypeError, r"functions of the step, got float"),
    ],
)
def test_schedules_out_of_range_are_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()
