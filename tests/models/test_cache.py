"""Caches give attention the right tokens, whatever the chunks, and a token's cost doesn't grow with the text."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import numpy as np
import pytest

import mlxc as mx
from mlxc.models.cache import KVCache, QuantizedKVCache, RotatingKVCache
from mlxc.models.prompt_cache import load_prompt_cache, make_cache, save_prompt_cache, trim_prompt_cache


def rows(begin: int, end: int, size: int = 32) -> mx.array:
    """Keys that tell their position."""
    return mx.broadcast_to(mx.arange(begin, end, dtype=mx.float32)[None, None, :, None], (1, 2, end - begin, size))


def feed(cache, n: int):
    """The positions that each of the next n tokens sees."""
    begin = cache.offset
    mask = cache.make_mask(n)
    keys, values = cache.update_and_fetch(rows(begin, begin + n), -rows(begin, begin + n))
    assert keys.shape == values.shape and bool(mx.all(keys == -values))
    positions = np.array(keys[0, 0, :, 0]).astype(int)
    if mask is None:
        assert n == 1
        mask = np.ones((1, len(positions)), bool)
    elif isinstance(mask, str):
        assert mask == "causal"
        mask = np.tril(np.ones((n, len(positions)), bool), len(positions) - n)
    return [sorted(positions[row].tolist()) for row in np.array(mask)]


def seen(position: int, max_size: int | None, keep: int) -> list[int]:
    if max_size is None or position < max_size:
        return list(range(position + 1))
    return [*range(keep), *range(position - (max_size - keep) + 1, position + 1)]


def test_a_growing_cache_shows_all_tokens():
    cache = KVCache()
    for n in (3, 1, 1, 300, 1, 7):
        begin = cache.offset
        assert feed(cache, n) == [seen(begin + i, None, 0) for i in range(n)]
    assert cache.offset == 313


@pytest.mark.parametrize("keep", [0, 1, 4])
@pytest.mark.parametrize("max_size", [5, 8, 300])
def test_a_rotating_cache_shows_the_first_and_the_last_tokens_in_chunks_as_one_by_one(max_size, keep):
    rng = np.random.default_rng(max_size + keep)
    for _ in range(6):
        cache = RotatingKVCache(max_size, keep)
        for _ in range(14):
            n = int(rng.choice([1, 1, 1, 2, 3, 5, 9, max_size, max_size + 3]))
            begin = cache.offset
            assert feed(cache, n) == [seen(begin + i, max_size, keep) for i in range(n)]
            assert cache.state[0].shape[2] == min(cache.offset, max_size)


@pytest.mark.parametrize("make", [KVCache, lambda: RotatingKVCache(9, 2), lambda: RotatingKVCache(40)])
def test_a_narrower_window_is_masked(make):
    cache = make()
    for n in (4, 1, 3, 1, 1, 6, 1, 1, 11, 1):
        begin = cache.offset
        mask = cache.make_mask(n, window_size=3)
        keys, _ = cache.update_and_fetch(rows(begin, begin + n), rows(begin, begin + n))
        positions = np.array(keys[0, 0, :, 0]).astype(int)
        mask = np.ones((n, len(positions)), bool) if mask is None else mask
        for i, row in enumerate(np.array(mask)):
            near = list(range(max(0, begin + i - 2), begin + i + 1))
            assert sorted(positions[row].tolist()) == near


def test_a_mask_can_be_asked_for_as_an_array():
    for cache in (KVCache(), RotatingKVCache(4)):
        cache.update_and_fetch(rows(0, 2), rows(0, 2))
        assert cache.make_mask(2, return_array=True).tolist() == [[True, True, True, False], [True] * 4]
        assert cache.make_mask(1, return_array=True).tolist() == [[True] * 3]


def test_tokens_can_be_taken_back():
    for cache in (KVCache(), RotatingKVCache(8), QuantizedKVCache(32, 8)):
        first = rows(0, 6)
        cache.update_and_fetch(first, first)
        assert cache.trim(2) == 2 and cache.offset == 4
        new = rows(4, 5)
        keys, _ = cache.update_and_fetch(new, new)
        np.testing.assert_allclose(np.array(keys[0, 0, :, 0]), [0, 1, 2, 3, 4], atol=1e-5)
        assert cache.trim(100) == 5 and cache.offset == 0


def test_all_layers_are_trimmed_together():
    cache = [KVCache(), KVCache()]
    for layer in cache:
        layer.update_and_fetch(rows(0, 6), rows(0, 6))
    assert trim_prompt_cache(cache, 2) == 2 and [layer.offset for layer in cache] == [4, 4]
    assert trim_prompt_cache([], 2) == 0


def test_a_rotating_cache_takes_nothing_back_once_tokens_are_gone():
    cache = RotatingKVCache(4)
    cache.update_and_fetch(rows(0, 5), rows(0, 5))
    assert not cache.is_trimmable() and cache.trim(1) == 0 and cache.offset == 5
    assert trim_prompt_cache([KVCache(), cache], 1) == 0


@pytest.mark.parametrize("bits", [8, 4])
def test_a_quantised_cache_gives_what_quantising_all_tokens_at_once_gives(bits):
    cache = QuantizedKVCache(64, bits)
    keys = mx.random.normal((2, 3, 10, 64), key=mx.random.key(0))
    for part in (keys[:, :, :7], keys[:, :, 7:8], keys[:, :, 8:]):
        got, doubled = cache.update_and_fetch(part, 2 * part)
    assert got.dtype == mx.float32 and cache.offset == 10
    assert bool(mx.array_equal(got, mx.dequantize(*mx.quantize(keys, 64, bits), 64, bits)))
    assert bool(mx.array_equal(doubled, mx.dequantize(*mx.quantize(2 * keys, 64, bits), 64, bits)))
    reach = mx.max(keys, axis=-1, keepdims=True) - mx.min(keys, axis=-1, keepdims=True)
    assert bool(mx.all(mx.abs(got - keys) <= reach / (2**bits - 1)))


def test_a_cache_in_bits_is_smaller_and_made_of_a_plain_one():
    plain = KVCache()
    keys = mx.random.normal((1, 3, 256, 64), key=mx.random.key(1))
    plain.update_and_fetch(keys, keys)
    packed = plain.to_quantized(64, 8)
    assert packed.offset == 256 and plain.nbytes == 2 * 3 * 256 * 64 * 4
    assert packed.nbytes == plain.nbytes * 9 // 32
    got, _ = packed.update_and_fetch(keys[:, :, :1], keys[:, :, :1])
    assert float(mx.max(mx.abs(got[:, :, :256] - keys))) < 0.05
    assert KVCache().to_quantized(64, 8).offset == 0
    with pytest.raises(ValueError, match="can't be quantised"):
        RotatingKVCache(4).to_quantized()


def test_attention_over_any_cache_is_attention_over_all_tokens():
    q, k, v = (mx.random.normal((2, 4, 12, 32), key=mx.random.key(i)) for i in range(3))
    whole = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.2, mask="causal")
    for cache in (KVCache(), RotatingKVCache(12)):
        parts = []
        for begin, end in ((0, 5), (5, 6), (6, 7), (7, 12)):
            mask = cache.make_mask(end - begin)
            keys, values = cache.update_and_fetch(k[:, :, begin:end], v[:, :, begin:end])
            parts.append(mx.fast.scaled_dot_product_attention(q[:, :, begin:end], keys, values, scale=0.2, mask=mask))
        np.testing.assert_allclose(np.array(mx.concatenate(parts, axis=2)), np.array(whole), atol=2e-6)


def test_what_was_fetched_keeps_its_values_when_the_next_token_is_written():
    for cache in (KVCache(), RotatingKVCache(3)):
        cache.update_and_fetch(rows(0, 3), rows(0, 3))
        held = []
        for i in range(3, 9):
            keys, _ = cache.update_and_fetch(rows(i, i + 1), rows(i, i + 1))
            held.append((keys, i))
        for keys, i in held:
            assert int(mx.max(keys)) == i


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_token_costs_the_same_in_a_long_text(asynchronous):
    """A copy of the long cache would be 25 MB a token."""

    def cost(length: int) -> float:
        cache = KVCache()
        long = mx.zeros((1, 3, length, 64))
        mx.eval(cache.update_and_fetch(long, long))
        one = mx.zeros((1, 3, 1, 64))
        mx.eval(cache.update_and_fetch(one, one))
        best = float("inf")
        for _ in range(10):
            begin = time.perf_counter()
            for _ in range(5):
                keys, values = cache.update_and_fetch(one, one)
                out = keys[:, :, -1:] + values[:, :, :1]
                del keys, values
                mx.async_eval(out) if asynchronous else mx.eval(out)
            mx.eval(out)
            best = min(best, time.perf_counter() - begin)
        return best / 5

    short, long = cost(100), cost(32_000)
    assert long < 10 * short + 5e-4


def test_memory_grows_by_a_quarter_at_least_and_by_no_more_than_half_of_what_is_used():
    cache, one = KVCache(), rows(0, 1)
    sizes = set()
    for _ in range(3000):
        cache.update_and_fetch(one, one)
        sizes.add(cache._rows.capacity)
        mx.eval(cache.state) if cache.offset % 100 == 0 else None
    ordered = sorted(sizes)
    assert ordered[0] == 256 and len(ordered) <= 9
    assert all(big <= max(small * 1.5, small + 256) for small, big in itertools.pairwise(ordered))
    rotating = RotatingKVCache(300)
    for _ in range(400):
        rotating.update_and_fetch(one, one)
    assert rotating._rows.capacity == 300


@pytest.mark.parametrize(
    "make", [KVCache, lambda: QuantizedKVCache(32, 4), lambda: RotatingKVCache(6, 2), lambda: RotatingKVCache(50, 2)]
)
@pytest.mark.parametrize("length", [0, 5, 20])
def test_a_saved_cache_goes_on_as_the_one_it_was_saved_from(tmp_path, make, length):
    cache = [make(), make()]
    for layer in cache:
        for i in range(length):
            layer.update_and_fetch(rows(i, i + 1), rows(i, i + 1))
    save_prompt_cache(tmp_path / "prompt", cache, {"model": "ü"})
    loaded, about = load_prompt_cache(tmp_path / "prompt.safetensors", return_metadata=True)
    assert about == {"model": "ü"} and [layer.offset for layer in loaded] == [length, length]
    assert [type(layer) for layer in loaded] == [type(layer) for layer in cache]
    assert len(load_prompt_cache(tmp_path / "prompt.safetensors")) == 2
    for i in range(length, length + 9):
        ours, theirs = (c[1].update_and_fetch(rows(i, i + 1), rows(i, i + 1)) for c in (cache, loaded))
        assert bool(mx.array_equal(ours[0], theirs[0])) and bool(mx.array_equal(ours[1], theirs[1]))


def test_another_file_is_no_prompt_cache(tmp_path):
    mx.save_safetensors(str(tmp_path / "w.safetensors"), {"a": mx.ones(3)})
    with pytest.raises(ValueError, match="no prompt cache"):
        load_prompt_cache(tmp_path / "w.safetensors")
    with pytest.raises(OSError, match=r"none\.safetensors"):
        load_prompt_cache(tmp_path / "none.safetensors")
    broken = [
        '[{"kind": "KVCache", "offset": 9}]',
        '[{"kind": "Other"}]',
        "[1]",
        "{",
        "[" * 100000,
        '[{"kind": "KVCache", "offset": 2}, {"kind": "KVCache", "offset": 0}]',
        '[{"kind": "RotatingKVCache", "offset": 2, "max_size": 0, "keep": 0, "next": 0}]',
        '[{"kind": "QuantizedKVCache", "offset": 2, "bits": 0, "group_size": 64}]',
    ]
    for layers in broken:
        mx.save_safetensors(
            str(tmp_path / "b.safetensors"),
            {"0.0": rows(0, 2), "0.1": rows(0, 2)},
            {"format": "mlxc.prompt_cache", "layers": layers, "user": "{}"},
        )
        with pytest.raises(ValueError, match=r"b\.safetensors holds a broken prompt cache"):
            load_prompt_cache(tmp_path / "b.safetensors")


def test_a_failed_save_leaves_the_old_file(tmp_path):
    save_prompt_cache(tmp_path / "p.safetensors", [KVCache()])
    before = (tmp_path / "p.safetensors").read_bytes()
    with pytest.raises(TypeError, match="layer 0 is int"):
        save_prompt_cache(tmp_path / "p.safetensors", [3])
    assert (tmp_path / "p.safetensors").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_make_cache_asks_the_model_first():
    model = SimpleNamespace(layers=[1, 2, 3])
    assert [type(c) for c in make_cache(model)] == [KVCache] * 3
    assert [(c.max_size, c.keep) for c in make_cache(model, max_size=3)] == [(3, 2)] * 3
    assert [(c.bits, c.group_size) for c in make_cache(model, bits=4, group_size=32)] == [(4, 32)] * 3
    model.make_cache = lambda: ["own"]
    assert make_cache(model) == ["own"]
    with pytest.raises(ValueError, match="both given"):
        make_cache(model, max_size=3, bits=4)


def test_rows_that_do_not_fit_are_refused_and_change_nothing():
    cache = KVCache()
    cache.update_and_fetch(rows(0, 2), rows(0, 2))
    for bad in (rows(2, 3)[:, :1], rows(2, 3, 16), rows(2, 3).astype(mx.float16)):
        with pytest.raises(ValueError, match=r"2 heads, sizes 32 and 32"):
            cache.update_and_fetch(bad, bad)
    with pytest.raises(ValueError, match="with the same first three"):
        cache.update_and_fetch(rows(2, 4), rows(2, 3))
    assert cache.offset == 2
    with pytest.raises(ValueError, match="no multiple of group_size 64"):
        QuantizedKVCache(64, 8).update_and_fetch(rows(0, 1), rows(0, 1))
    for make in (lambda: RotatingKVCache(0), lambda: RotatingKVCache(4, 4), lambda: QuantizedKVCache(64, 7)):
        with pytest.raises(ValueError):
            make()
    with pytest.raises(ValueError, match="at least 0"):
        cache.trim(-1)
