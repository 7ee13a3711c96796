"""C errors arrive as the right Python exceptions; exceptions of callbacks and signal handlers as themselves."""

import os
import signal
import subprocess
import sys
import threading

import pytest

import mlxc as mx


def test_axis_errors_are_value_errors_and_index_errors():
    with pytest.raises(mx.AxisError) as caught:
        mx.zeros((2, 3)).sum(axis=5)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, IndexError)
    assert "5" in str(caught.value)


def test_messages_name_the_op_and_the_shapes():
    with pytest.raises(ValueError, match=r"(?s)add.*\(2, 3\).*\(4,\)"):
        mx.zeros((2, 3)) + mx.zeros(4)


def test_an_exception_inside_a_differentiated_function_is_raised_as_it_is():
    class Mine(Exception):
        pass

    raised = Mine("from inside")

    def fail(x):
        raise raised

    with pytest.raises(Mine) as caught:
        mx.grad(fail)(mx.array(1.0))
    assert caught.value is raised
    with pytest.raises(ValueError):
        mx.grad(lambda x: mx.zeros(2) + mx.zeros(3))(mx.array(1.0))


def test_exceptions_of_threads_do_not_mix():
    def run(k, out):
        try:
            mx.grad(lambda x: out["missing", k])(mx.array(1.0))
        except KeyError as error:
            out[k] = error.args[0]

    results = {}
    threads = [threading.Thread(target=run, args=(k, results)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: ("missing", k) for k in range(8)}


def test_an_array_that_failed_raises_each_time():
    bad = mx.zeros(3)[mx.array([7])]
    for _ in range(3):
        with pytest.raises(IndexError):
            mx.eval(bad + 1)
        with pytest.raises(IndexError):
            bad.tolist()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_exceptions_of_signal_handlers_end_an_evaluation():
    code = """
import signal, mlxc as mx
class Alarm(Exception): pass
def ring(*args): raise Alarm
signal.signal(signal.SIGALRM, ring)
x = mx.ones((800, 800)) * 1e-3
mx.eval(x)
y = x
for _ in range(3000):
    y = y @ x
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    mx.eval(y)
except Alarm:
    raise SystemExit(0 if (mx.ones(2) + 1).tolist() == [2, 2] else 3)
raise SystemExit(4)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120, env=dict(os.environ)).returncode == 0


@pytest.mark.parametrize(
    "name", ["sum", "max", "any", "std", "item", "tolist", "astype", "transpose", "to_device", "__copy__", "__dlpack__"]
)
@pytest.mark.parametrize("wrong", [1, None, "text"])
def test_method_called_on_something_else_is_a_type_error(name, wrong):
    arguments = {"astype": (mx.int32,), "to_device": (mx.cpu,)}.get(name, ())
    with pytest.raises(TypeError):
        getattr(mx.array, name)(wrong, *arguments)


def test_indexed_update_made_without_an_array_is_a_type_error():
    with pytest.raises(TypeError):
        mx.ArrayAt.__new__(mx.ArrayAt)[0]


def test_empty_axis_is_not_split_into_numbers_of_parts_that_never_end():
    with pytest.raises(ValueError, match="split"):
        mx.split(mx.zeros((0, 3)), 2**62)
    assert len(mx.split(mx.zeros((0, 3)), 4)) == 4


def test_integer_that_fits_no_dtype_is_told_the_true_bounds():
    with pytest.raises(ValueError, match=str(2**64 - 1)):
        mx.array(2**70)


def test_every_name_that_dir_lists_exists():
    assert [name for name in dir(mx) if not hasattr(mx, name)] == []


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: mx.eye(-3), "eye"),
        (lambda: mx.view(mx.array(1.0), mx.int8), "view"),
        (lambda: mx.trace(mx.ones(3)), "trace"),
        (lambda: mx.sort(mx.ones((2, 2)), axis=7), "sort"),
        (lambda: mx.sort(object()), "sort"),
        (lambda: mx.ones(4).reshape(3), "reshape"),
        (lambda: mx.ones(4).std(axis=2), "std"),
        (lambda: mx.random.normal([2], key=mx.array([1.0, 2.0])), "normal"),
        (lambda: mx.random.split(mx.array(5)), "split"),
        (lambda: mx.take_along_axis(mx.ones((2, 3)), mx.array([[7]])).tolist(), "take_along_axis"),
        (lambda: mx.put_along_axis(mx.ones((2, 3)), mx.array([[7], [0]]), 1, axis=1).tolist(), "put_along_axis"),
        (lambda: mx.zeros(3, dtype="float3"), "zeros"),
        (lambda: mx.vjp(lambda x: x, [mx.array(1.0)], [mx.array([1.0, 2.0])]), "vjp"),
        (lambda: mx.asarray({}), "asarray"),
    ],
)
def test_messages_name_the_function_that_was_called(call, name):
    with pytest.raises((ValueError, TypeError, IndexError)) as caught:
        call()
    assert str(caught.value).startswith((f"[{name}] ", f"{name}: ", f"{name} "))


def test_messages_of_the_users_own_code_stay_as_they_are():
    class Odd:
        def __mlx_array__(self):
            raise KeyError("mine")

    def fail(x):
        raise ValueError("mine")

    with pytest.raises(KeyError, match=r"^'mine'$"):
        mx.sin(Odd())
    for transform in (mx.grad(fail), mx.value_and_grad(fail)):
        with pytest.raises(ValueError, match=r"^mine$"):
            transform(mx.array(1.0))


def test_functions_that_name_their_errors_are_what_they_were():
    assert mx.sin.__name__ == "sin" and mx.sin.__doc__ and mx.acos is mx.arccos
    assert mx.sin(*(mx.array(0.0),), **{"stream": None}).item() == 0 and mx.array([2.0]).sum(**{"axis": 0}).item() == 2
    with pytest.raises(TypeError, match="sin"):
        mx.sin()
