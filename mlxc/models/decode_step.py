"""The step from one token to the next as a compiled program: what generate runs once the prompt is processed.

generate.py calls it for each token. Recording a step layer by layer takes Python longer than a small model takes to
compute it, so the step is traced once for every capacity of the cache and then recorded as one operation. Rule: the
cache looks as if the model had been called plainly, and its memory is written in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlxc as mx

from .cache import KVCache, check_update, form_of

__all__ = ["DecodeStep"]


class TracedKVCache:
    """A layer's cache while the step is traced: all of its memory, and a mask for what is not filled yet."""

    def __init__(self, keys: mx.array, values: mx.array, offset: mx.array, seen: mx.array) -> None:
        self.keys = keys
        self.values = values
        self.offset = offset
        self.seen = seen
        self._form = form_of(keys, values)

    def make_mask(self, n: int, window_size: int | None = None) -> mx.array:
        return self.seen

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        check_update(self, keys, values)
        start = self.offset.reshape(1)
        self.keys = mx.slice_update(self.keys, keys, start, axes=[2])
        self.values = mx.slice_update(self.values, values, start, axes=[2])
        return self.keys, self.values


class DecodeStep:
    """Calls a model with one token a row, as one operation.

    The weights are those that the model has at the first call.

    Args:
        model: a Llama.
        cache: keys and values of the tokens before, one KVCache a layer, with at least one token in it.

    Example:
        >>> from mlxc.models import Llama, ModelConfig
        >>> from mlxc.models.decode_step import DecodeStep
        >>> config = ModelConfig("llama", vocab_size=256, hidden_size=64, intermediate_size=128, num_layers=2,
        ...                      num_heads=4, num_kv_heads=2, head_dim=16)
        >>> model = Llama(config)
        >>> cache = model.make_cache()
        >>> logits = model(mx.array([[1, 2, 3]]), cache)
        >>> DecodeStep(model, cache)(mx.array([[4]])).shape, cache[0].offset
        ((1, 256), 4)
    """

    def __init__(self, model: Any, cache: Sequence[KVCache]) -> None:
        self._model = model
        self._cache = cache
        self._step = mx.compile(self._trace)

    @staticmethod
    def takes(cache: Sequence[Any]) -> bool:
        """Whether all of a cache can be used: layers that keep all positions, and have some.

        Args:
            cache: keys and values, one object a layer.
        """
        return all(type(part) is KVCache and part.offset > 0 for part in cache)

    def _trace(self, tokens: mx.array, offset: mx.array, rows: list[mx.array]) -> tuple[mx.array, list[mx.array]]:
        seen = (mx.arange(rows[0].shape[2]) <= offset)[None]
        parts = [TracedKVCache(*rows[i : i + 2], offset, seen) for i in range(0, len(rows), 2)]
        logits = self._model.project(self._model.model(tokens, parts, None)[:, -1])
        return logits, [array for part in parts for array in (part.keys, part.values)]

    def __call__(self, tokens: mx.array) -> mx.array:
        """Logits behind the next token.

        Args:
            tokens: integers of shape (batch, 1).

        Returns:
            An array of shape (batch, vocabulary). The cache has one position more.
        """
        offset = self._cache[0].offset
        for part in self._cache:
            part._rows.reserve(part._rows.arrays, offset, offset + 1)
        rows = [array for part in self._cache for array in part._rows.arrays]
        logits, made = self._step(tokens, mx.array(offset), rows)
        del rows  # so that the step owns the memory and writes into it
        for i, part in enumerate(self._cache):
            part._rows.arrays = made[2 * i : 2 * i + 2]
            part.offset = offset + 1
        return logits
