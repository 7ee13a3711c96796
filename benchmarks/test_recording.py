"""What recording costs: one op beside an empty Cython call, the reverse sweep beside the forward recording."""

from __future__ import annotations

from timing import take_turns

import mlxc as mx

CHAIN = 100


def record_chain(x: mx.array) -> mx.array:
    """CHAIN ops of the usual kinds, ending in a scalar."""
    y = x
    for _ in range((CHAIN - 1) // 3):
        y = mx.sin(y * x) + x
    return mx.sum(y)


def test_recording_an_addition_costs_at_most_three_empty_calls(benchmark, empty_call, keep) -> None:
    a, b = mx.ones(16), mx.ones(16)
    mx.eval(a, b)
    names = {"a": a, "b": b, "nothing": empty_call.nothing}
    seconds = take_turns({"a + b": "a + b", "empty call": "nothing(a, b)"}, rounds=51, number=20_000, names=names)
    ratio = seconds["a + b"] / seconds["empty call"]
    benchmark.pedantic(lambda: a + b, rounds=100, iterations=1000)
    keep(seconds, ratio)
    assert ratio <= 3


def test_reverse_sweep_costs_at_most_three_forward_recordings(benchmark, keep) -> None:
    x = mx.ones(16)
    mx.eval(x)
    both = mx.value_and_grad(record_chain)
    seconds = take_turns(
        {"forward": lambda: record_chain(x), "forward and sweep": lambda: both(x)}, rounds=51, number=100
    )
    ratio = (seconds["forward and sweep"] - seconds["forward"]) / seconds["forward"]
    benchmark.pedantic(both, args=(x,), rounds=100, iterations=10)
    keep(seconds, ratio)
    assert ratio <= 3
