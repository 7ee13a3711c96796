"""The compiled step from token to token equals plain calls of the model, and leaves the cache as they do."""

from __future__ import annotations

import pytest

import mlxc as mx
from mlxc.models import Llama, ModelConfig
from mlxc.models.cache import KVCache, RotatingKVCache
from mlxc.models.decode_step import DecodeStep

PLAIN = ModelConfig(
    "llama",
    vocab_size=256,
    hidden_size=64,
    intermediate_size=96,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
)


def small(**changes) -> Llama:
    mx.random.seed(1)
    model = Llama(ModelConfig(**{**vars(PLAIN), **changes}))
    mx.eval(model.parameters())
    return model


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("changes", [{}, {"qk_norm": True}, {"attention_softcap": 20.0}], ids=["plain", "norms", "cap"])
def test_logits_and_cache_equal_those_of_plain_calls(changes: dict, rows: int) -> None:
    model = small(**changes)
    prompt = mx.random.randint(0, 256, (rows, 250))
    ours, theirs = model.make_cache(), model.make_cache()
    model(prompt, ours)
    model(prompt, theirs)
    step = DecodeStep(model, ours)
    for token in range(10):  # past the 256 rows that a cache begins with
        column = mx.full((rows, 1), token, dtype=mx.int32)
        got, want = step(column), model(column, theirs)[:, -1]
        assert mx.allclose(got, want, rtol=1e-5, atol=1e-6).item()
    assert [part.offset for part in ours] == [part.offset for part in theirs] == [260] * 3
    for mine, plain in zip(ours, theirs, strict=True):
        for a, b in zip(mine.state, plain.state, strict=True):
            assert a.shape == b.shape and mx.allclose(a, b, rtol=1e-5, atol=1e-6).item()


def test_the_cache_is_written_in_place() -> None:
    model = small()
    cache = model.make_cache()
    mx.eval(model(mx.random.randint(0, 256, (1, 5000)), cache)[:, -1])
    step, column = DecodeStep(model, cache), mx.array([[7]])
    for _ in range(2):
        mx.eval(step(column))
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    for _ in range(4):
        mx.eval(step(column))
    one = 2 * 16 * 5000 * 4  # bytes of the keys of a layer
    assert mx.get_peak_memory() - before < one


def test_a_cache_may_be_trimmed_and_gone_on_with() -> None:
    model = small()
    cache = model.make_cache()
    model(mx.array([[1, 2, 3]]), cache)
    step, column = DecodeStep(model, cache), mx.array([[4]])
    first = step(column)
    step(mx.array([[9]]))
    for part in cache:
        part.trim(2)
    assert mx.array_equal(step(column), first).item()


def test_a_cache_of_another_model_is_refused() -> None:
    cache = small(num_kv_heads=4).make_cache()
    small(num_kv_heads=4)(mx.array([[1, 2, 3]]), cache)
    with pytest.raises(ValueError, match="4 heads"):
        DecodeStep(small(), cache)(mx.array([[4]]))
    assert [part.offset for part in cache] == [3] * 3


def test_only_caches_that_keep_everything_are_taken() -> None:
    model = small()
    cache = model.make_cache()
    assert not DecodeStep.takes(cache)  # nothing is in it
    model(mx.array([[1, 2]]), cache)
    assert DecodeStep.takes(cache)
    assert not DecodeStep.takes([*cache[:2], RotatingKVCache(8)])

    class Other(KVCache):
        pass

    assert not DecodeStep.takes([Other()])
