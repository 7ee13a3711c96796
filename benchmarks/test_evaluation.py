"""What evaluating small graphs costs beyond the kernels, and one small op beside NumPy."""

from __future__ import annotations

import numpy as np
from timing import take_turns

import mlxc as mx

CHAIN = 100


def record_chain(x: mx.array) -> mx.array:
    y = x
    for _ in range(CHAIN):
        y = y + x
    return y


def test_each_op_of_a_tiny_chain_takes_at_most_a_microsecond(benchmark, keep) -> None:
    # The kernels' own share, some nanoseconds for 16 elements, is left in: the bound is the stricter for it.
    x = mx.ones(16)
    mx.eval(x)
    rivals = {"record": lambda: record_chain(x), "record and evaluate": lambda: mx.eval(record_chain(x))}
    seconds = take_turns(rivals, rounds=51, number=200)
    per_op = (seconds["record and evaluate"] - seconds["record"]) / CHAIN
    benchmark.pedantic(lambda: mx.eval(record_chain(x)), rounds=100, iterations=10)
    keep(seconds, per_op / 1e-6)
    assert per_op <= 1e-6


def test_a_small_addition_takes_at_most_twice_numpys_time(benchmark, keep) -> None:
    a, b = np.ones(16, np.float32), np.ones(16, np.float32)
    names = {"a": a, "b": b, "x": mx.array(a), "y": mx.array(b), "eval": mx.eval}
    mx.eval(names["x"], names["y"])
    seconds = take_turns({"mlxc": "eval(x + y)", "NumPy": "a + b"}, rounds=51, number=10_000, names=names)
    ratio = seconds["mlxc"] / seconds["NumPy"]
    benchmark.pedantic(lambda: mx.eval(names["x"] + names["y"]), rounds=100, iterations=1000)
    keep(seconds, ratio)
    assert ratio <= 2
