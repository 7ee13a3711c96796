"""Compiled functions: what a cached call costs, compiling a long function, and what fusion saves."""

from __future__ import annotations

from timing import take_turns

import mlxc as mx


def test_a_cached_call_costs_at_most_two_microseconds(benchmark, empty_call, keep) -> None:
    """Budget: a cached call takes at most 2 us beside an empty Cython call; its kernels are not among them."""
    f = mx.compile(lambda x, y, k: mx.exp(x) * y + k)
    x, y = mx.ones(16), mx.ones(16)
    mx.eval(f(x, y, 2.0))
    names = {"f": f, "x": x, "y": y, "nothing": empty_call.nothing}
    seconds = take_turns({"cached call": "f(x, y, 2.0)", "empty call": "nothing(x, y)"}, 51, 20_000, names)
    benchmark.pedantic(lambda: f(x, y, 2.0), rounds=100, iterations=1000)
    keep(seconds, (seconds["cached call"] - seconds["empty call"]) / 2e-6)
    assert seconds["cached call"] - seconds["empty call"] <= 2e-6


def test_compiling_200_ops_takes_at_most_20_milliseconds(benchmark, keep) -> None:
    def fun(x: mx.array) -> mx.array:
        for i in range(100):
            x = mx.sin(x) * (1 + 0.01 * i)
        return x

    x = mx.ones(100)
    mx.eval(x)
    seconds = take_turns({"trace, plan, run": lambda: mx.eval(mx.compile(fun)(x))}, 21, 1)
    benchmark.pedantic(lambda: mx.eval(mx.compile(fun)(x)), rounds=20, iterations=1)
    keep(seconds, seconds["trace, plan, run"] / 20e-3)
    assert seconds["trace, plan, run"] <= 20e-3


def test_a_fused_chain_costs_less_than_its_ops(benchmark, keep) -> None:
    def chain(x: mx.array) -> mx.array:
        return ((x * 1.5 + x) * x - 2 * x) * x + (x * x - x) * 0.5

    x = mx.random.normal((10_000_000,))
    fused = mx.compile(chain)
    mx.eval(x, fused(x))
    seconds = take_turns({"fused": lambda: mx.eval(fused(x)), "op by op": lambda: mx.eval(chain(x))}, 15, 1)
    ratio = seconds["fused"] / seconds["op by op"]
    benchmark.pedantic(lambda: mx.eval(fused(x)), rounds=10, iterations=1)
    keep(seconds, ratio)
    assert ratio < 0.7
