"""mlxc.distributed in a group of one: everything is the identity, and what needs another process is refused."""

from __future__ import annotations

import pytest

import mlxc as mx

COLLECTIVES = ("all_sum", "all_max", "all_min", "all_gather", "sum_scatter")


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_give_back_values_dtype_and_shape(name):
    function = getattr(mx.distributed, name)
    group = mx.distributed.init()
    for dtype in (mx.bool_, mx.int8, mx.float16, mx.bfloat16, mx.complex64):
        for shape in ((), (0,), (3,), (2, 3)):
            x = mx.ones(shape).astype(dtype)
            for got in (function(x), function(x, group=group), function(x, stream=mx.cpu)):
                assert got.dtype == dtype and got.shape == shape
                assert got.tolist() == x.tolist()
    assert function(2.5).item() == 2.5


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_are_followed_by_gradients(name):
    function = getattr(mx.distributed, name)
    x = mx.array([1.0, 2.0, 3.0])
    gradient = mx.grad(lambda x: (function(x * x) * x).sum())
    assert gradient(x).tolist() == [3.0, 12.0, 27.0]
    assert mx.grad(lambda x: gradient(x).sum())(x).tolist() == [6.0, 12.0, 18.0]
    _, tangents = mx.jvp(lambda x: function(x * x), [x], [mx.ones(3)])
    assert tangents[0].tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_are_batched_and_compiled(name):
    function = getattr(mx.distributed, name)
    x = mx.arange(6.0).reshape(2, 3)
    assert mx.vmap(lambda row: function(row * 2))(x).tolist() == (x * 2).tolist()
    assert mx.compile(lambda a: function(a) + 1)(x).tolist() == (x + 1).tolist()


@pytest.mark.parametrize("name", COLLECTIVES)
def test_the_result_changes_without_the_argument(name):
    x = mx.array([1, 2])
    y = getattr(mx.distributed, name)(x)
    y += 1
    assert x.tolist() == [1, 2] and y.tolist() == [2, 3]


def test_the_group_has_one_process_however_it_is_split():
    group = mx.distributed.init()
    assert (group.rank(), group.size()) == (0, 1)
    part = group.split(7, key=3)
    assert (part.rank(), part.size()) == (0, 1)
    with pytest.raises(TypeError, match="color"):
        group.split("a")
    with pytest.raises(TypeError, match="init"):
        mx.distributed.Group()


@pytest.mark.parametrize("backend", ["any", "ring", "mpi", "nccl", "jaccl"])
def test_no_backend_is_there(backend):
    assert mx.distributed.is_available(backend) is False
    assert mx.distributed.init(backend=backend).size() == 1
    with pytest.raises(RuntimeError, match="no backend"):
        mx.distributed.init(strict=True, backend=backend)


def test_unknown_backends_are_refused():
    assert mx.distributed.is_available("smoke") is False
    with pytest.raises(ValueError, match="'smoke'"):
        mx.distributed.init(backend="smoke")


def test_a_process_that_should_be_one_of_several_is_told(monkeypatch):
    monkeypatch.setenv("MLX_RANK", "1")
    with pytest.raises(RuntimeError, match="MLX_RANK"):
        mx.distributed.init()


def test_sending_and_receiving_are_refused():
    x = mx.ones(2)
    for call in (
        lambda: mx.distributed.send(x, 0),
        lambda: mx.distributed.recv((2,), mx.float32, 0),
        lambda: mx.distributed.recv_like(x, 0),
    ):
        with pytest.raises(ValueError, match="group of one"):
            call()


def test_what_is_no_group_and_no_stream_is_refused():
    with pytest.raises(TypeError, match="Group"):
        mx.distributed.all_sum(mx.ones(2), group=1)
    with pytest.raises(TypeError, match="stream"):
        mx.distributed.all_sum(mx.ones(2), stream="cpu")
