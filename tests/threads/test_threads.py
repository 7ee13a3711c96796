"""Any thread may record, evaluate, differentiate and release, on shared arrays and streams.

Eight threads do so at the same time; every value is compared with what it must be. A failing thread's
exception fails the test. (tests/abi/programs/threads.c is the same without Python.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import mlxc as mx

THREADS = 8
ROUNDS = 40


def run_in_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Starts all threads at once; raises the first exception of any of them."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture
def data() -> np.ndarray:
    return np.arange(1024, dtype=np.float32)


def test_threads_record_and_evaluate_on_a_shared_array(data):
    shared = mx.array(data)

    def work(number: int) -> None:
        for turn in range(ROUNDS):
            result = (shared + number) * 2 - shared * turn
            np.testing.assert_array_equal(np.array(result), (data + number) * 2 - data * turn)

    run_in_threads(work)


def test_threads_evaluate_the_same_lazy_array(data):
    for _ in range(ROUNDS):
        lazy = mx.sqrt(mx.array(data) * mx.array(data)) + 1
        run_in_threads(lambda number, lazy=lazy: np.testing.assert_array_equal(np.array(lazy), data + 1), 4)


def test_threads_evaluate_different_ends_of_one_graph(data):
    middle = mx.array(data) * 3
    ends = [middle + number for number in range(THREADS)]

    def work(number: int) -> None:
        mx.eval(ends[number])
        np.testing.assert_array_equal(np.array(ends[number]), data * 3 + number)

    run_in_threads(work)


def test_arrays_released_in_other_threads_than_made(data):
    made: list[list[mx.array]] = [[mx.array(data) + i for i in range(50)] for _ in range(THREADS)]
    values: dict[int, float] = {}

    def work(number: int) -> None:
        mine = made[number]
        made[number] = []
        values[number] = sum(float(array[1].item()) for array in mine)
        mine.clear()

    run_in_threads(work)
    assert values == dict.fromkeys(range(THREADS), float(50 + sum(range(50))))


def test_threads_differentiate_with_respect_to_the_same_array(data):
    shared = mx.array(data)

    def work(number: int) -> None:
        for _ in range(10):
            gradient = mx.grad(lambda x: (x * x * number).sum())(shared)
            np.testing.assert_array_equal(np.array(gradient), 2 * data * number)

    run_in_threads(work)


def test_threads_share_streams(data):
    shared = mx.array(data)
    streams = [mx.new_stream(mx.cpu) for _ in range(3)]

    def work(number: int) -> None:
        total = shared
        for turn in range(ROUNDS):
            total = mx.add(total, number, stream=streams[(turn + number) % 3])
            if turn % 7 == 0:
                mx.async_eval(total)
        np.testing.assert_array_equal(np.array(total), data + ROUNDS * number)

    run_in_threads(work)
    for stream in streams:
        mx.synchronize(stream)


def test_array_may_be_overwritten_while_another_thread_evaluates_it():
    for _ in range(10):
        x = mx.ones((200, 200))
        for _ in range(20):
            x = (x @ mx.ones((200, 200))) * 0.005
        thread = threading.Thread(target=mx.eval, args=(x,))
        thread.start()
        x[...] = 7
        thread.join()
        assert x[0, 0].item() == 7


def test_default_stream_of_one_thread_is_not_that_of_another(data):
    seen: dict[int, float] = {}
    streams = [mx.new_stream(mx.cpu) for _ in range(THREADS)]

    def work(number: int) -> None:
        with mx.stream(streams[number]):
            seen[number] = float((mx.array(data) * number).sum().item())

    run_in_threads(work)
    assert seen == {number: float(data.sum() * number) for number in range(THREADS)}


def test_error_in_one_thread_leaves_the_others_alone(data):
    shared = mx.array(data)

    def work(number: int) -> None:
        for _ in range(ROUNDS):
            if number % 2:
                with pytest.raises(ValueError, match="add"):
                    mx.add(shared, mx.zeros((3,)))
            else:
                np.testing.assert_array_equal(np.array(shared + number), data + number)

    run_in_threads(work)


def test_threads_index_and_update_their_own_views_of_a_shared_array(data):
    shared = mx.array(data)

    def work(number: int) -> None:
        for _ in range(ROUNDS):
            mine = shared[:]
            mine[number::8] = -1
            expected = data.copy()
            expected[number::8] = -1
            np.testing.assert_array_equal(np.array(mine), expected)

    run_in_threads(work)
    np.testing.assert_array_equal(np.array(shared), data)


def test_other_threads_run_python_during_a_long_evaluation():
    """The interpreter is not held while arrays are computed."""
    a = mx.ones((1200, 1200)) / 1200
    product = a
    for _ in range(20):
        product = product @ a
    counted = 0
    done = threading.Event()

    def evaluate() -> None:
        mx.eval(product)
        done.set()

    thread = threading.Thread(target=evaluate)
    thread.start()
    while not done.is_set():
        counted += 1
    thread.join()
    assert counted > 1000
