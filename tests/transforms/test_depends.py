"""mx.depends: arrays that are computed only once others are."""

import gc

import pytest

import mlxc as mx


def test_an_array_gives_an_array_and_a_sequence_a_list():
    a, b = mx.array([1.0, 2.0]), mx.array(3)
    assert mx.depends(a, b).tolist() == [1.0, 2.0]
    for given in ([a, b], (a, b)):
        made = mx.depends(given, [a])
        assert type(made) is list
        assert [x.tolist() for x in made] == [[1.0, 2.0], 3]
    assert mx.depends([], b) == []
    assert mx.depends(a, []).tolist() == [1.0, 2.0]


def test_many_outputs_keep_their_shapes_dtypes_and_places():
    given = [mx.full((i, 2), i, dtype=mx.int16 if i % 2 else mx.float64) for i in range(7)]
    made = mx.depends(given, mx.array(1))
    assert [x.shape for x in made] == [(i, 2) for i in range(7)]
    assert [x.dtype for x in made] == [x.dtype for x in given]
    assert [x.tolist() for x in reversed(made)] == [[[i] * 2] * i for i in reversed(range(7))]


def test_nothing_is_copied_and_strided_layouts_pass():
    a = mx.arange(12).reshape(3, 4)
    mx.eval(a)
    before = mx.get_active_memory()
    made = mx.depends([a.T, a[::-1, ::2]], a)
    mx.eval(made)
    assert mx.get_active_memory() == before
    assert made[0].tolist() == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
    assert made[1].tolist() == [[8, 10], [4, 6], [0, 2]]


def test_evaluating_the_result_evaluates_the_dependencies():
    other = mx.arange(5) + 1
    result = mx.depends(mx.array(1), other)
    del other
    mx.eval(result)
    with pytest.raises(IndexError):
        mx.eval(mx.depends(mx.array(1), mx.take(mx.arange(3), mx.array([7]))))


def test_a_failed_dependency_fails_the_result_each_time():
    result = mx.depends([mx.array(1), mx.array(2)], mx.take(mx.arange(3), mx.array([7])))
    for one in (*result, *result):
        with pytest.raises(IndexError):
            mx.eval(one)


def test_derivatives_pass_through_to_the_inputs():
    x, y = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])
    gradients = mx.grad(lambda x, y: (mx.depends(x, y) * y).sum(), argnums=(0, 1))(x, y)
    assert [g.tolist() for g in gradients] == [[3.0, 4.0], [1.0, 2.0]]
    _, tangents = mx.jvp(lambda x, y: mx.depends([x, y], x), [x, y], [y, x])
    assert [t.tolist() for t in tangents] == [[3.0, 4.0], [1.0, 2.0]]
    assert mx.grad(mx.grad(lambda x: mx.depends(x, x) ** 3))(mx.array(2.0)).item() == 12.0


def test_only_arrays_and_sequences_of_them_are_taken():
    for wrong in (1.0, "ab", {"a": mx.array(1)}, [mx.array(1), 2]):
        with pytest.raises(TypeError):
            mx.depends(wrong, mx.array(1))
        with pytest.raises(TypeError):
            mx.depends(mx.array(1), wrong)


def test_a_long_chain_is_released_without_recursion():
    a = mx.array(1)
    for _ in range(100_000):
        a = mx.depends(a, a)
    del a
    gc.collect()
    b = mx.array(2)
    for _ in range(100_000):
        b = mx.depends([b, b], [])[1]
    assert b.item() == 2
