"""Key-value caches: what attention keeps of the tokens before, one object a layer.

Layers call update_and_fetch once a step; generate makes the list, trims it, and saves it. A token writes its row into
memory that is there already: nothing is copied but when the memory grows, and it grows by a quarter at least, so the
cost of a token doesn't grow with the text. Memory of a layer: 2 * batch * heads * head size * capacity numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlxc as mx

__all__ = ["KVCache", "QuantizedKVCache", "RotatingKVCache"]

STEP = 256


def check_update(cache: Any, keys: mx.array, values: mx.array) -> None:
    """New rows must go with those that are there."""
    name = type(cache).__name__
    if keys.ndim != 4 or values.ndim != 4 or keys.shape[:3] != values.shape[:3]:
        raise ValueError(
            f"[{name}.update_and_fetch] keys have shape {keys.shape} and values {values.shape}, "
            "(batch, heads, tokens, size) with the same first three is needed"
        )
    now = (keys.shape[:2], keys.shape[3], values.shape[3], keys.dtype, values.dtype)
    if cache._form is None:
        cache._form = now
    elif cache._form != now:
        (batch, heads), k, v, *dtypes = cache._form
        raise ValueError(
            f"[{name}.update_and_fetch] keys of {keys.shape} {keys.dtype} and values of {values.shape} "
            f"{values.dtype} don't go with what is there: {batch} rows, {heads} heads, sizes {k} and {v}, "
            f"{dtypes[0]} and {dtypes[1]}"
        )


def check_count(cache: Any, method: str, n: int) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ValueError(f"[{type(cache).__name__}.{method}] n is {n!r}, a whole number of at least 0 is needed")


def window_mask(queries: mx.array, keys: mx.array, window: int | None, keep: int = 0) -> mx.array:
    """True where a query may look: not ahead, no further back than the window, always at the first `keep`."""
    queries = queries[:, None]
    seen = keys <= queries
    if window is not None:
        near = keys > queries - window
        seen = seen & (near | (keys < keep) if keep else near)
    return seen


class _Rows:
    """Arrays that grow along their third axis, together."""

    def __init__(self) -> None:
        self.arrays: list[mx.array] = []

    @property
    def capacity(self) -> int:
        return self.arrays[0].shape[2] if self.arrays else 0

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def reserve(self, like: Sequence[mx.array], used: int, need: int, most: int | None = None) -> None:
        """Makes room for `need` rows, of which the first `used` are kept."""
        if need <= self.capacity:
            return
        capacity = max(need, self.capacity + self.capacity // 4)
        capacity = -(-capacity // STEP) * STEP
        capacity = capacity if most is None else min(capacity, most)
        shapes = [(*array.shape[:2], capacity - used, array.shape[3]) for array in like]
        fresh = [mx.zeros(shape, dtype=array.dtype) for shape, array in zip(shapes, like, strict=True)]
        if used:
            fresh = [
                mx.concatenate([old[:, :, :used], new], axis=2) for old, new in zip(self.arrays, fresh, strict=True)
            ]
        self.arrays = fresh

    def write(self, new: Sequence[mx.array], at: int) -> None:
        """Assignment to a part gives the name a new array, which takes over the memory of the old one."""
        for i, array in enumerate(new):
            self.arrays[i][:, :, at : at + array.shape[2]] = array

    def read(self, end: int) -> list[mx.array]:
        return [array[:, :, :end] for array in self.arrays]


class KVCache:
    """Keeps all tokens.

    Example:
        >>> from mlxc.models.cache import KVCache
        >>> cache = KVCache()
        >>> keys, values = cache.update_and_fetch(mx.zeros((1, 2, 5, 8)), mx.zeros((1, 2, 5, 8)))
        >>> keys, values = cache.update_and_fetch(mx.ones((1, 2, 1, 8)), mx.ones((1, 2, 1, 8)))
        >>> cache.offset, keys.shape
        (6, (1, 2, 6, 8))
    """

    def __init__(self) -> None:
        self.offset = 0
        self._rows = _Rows()
        self._form: Any = None

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Takes the keys and values of the next tokens.

        Args:
            keys: (batch, heads, tokens, size).
            values: the same but for the size.

        Returns:
            Keys and values of all tokens so far.

        Raises:
            ValueError: if the shapes or dtypes don't go with each other or with what is there.

        Example:
            >>> keys, values = cache.update_and_fetch(keys, values)  # doctest: +SKIP
        """
        check_update(self, keys, values)
        end = self.offset + keys.shape[2]
        self._rows.reserve((keys, values), self.offset, end)
        self._rows.write((keys, values), self.offset)
        self.offset = end
        keys, values = self._rows.read(end)
        return keys, values

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Any:
        """The mask for the next `n` tokens, to be asked for before update_and_fetch.

        Args:
            n: how many tokens are coming.
            window_size: how many tokens each may see, itself included; None for all.
            return_array: gives an array where a name would do.

        Returns:
            What `mx.fast.scaled_dot_product_attention` takes: None where a token may see all, "causal", or an array
            of bool (n, tokens so far + n).

        Example:
            >>> from mlxc.models.cache import KVCache
            >>> KVCache().make_mask(1), KVCache().make_mask(3)
            (None, 'causal')
        """
        check_count(self, "make_mask", n)
        narrow = window_size is not None and self.offset + n > window_size
        if not narrow and not return_array:
            return None if n <= 1 else "causal"
        end = self.offset + n
        return window_mask(mx.arange(self.offset, end), mx.arange(end), window_size)

    def is_trimmable(self) -> bool:
        """Whether the last tokens can be taken back.

        Example:
            >>> from mlxc.models.cache import KVCache
            >>> KVCache().is_trimmable()
            True
        """
        return True

    def trim(self, n: int) -> int:
        """Takes the last tokens back.

        Args:
            n: how many.

        Returns:
            How many it were: no more than there are, and none if they can't be taken back.

        Raises:
            ValueError: if n is negative.

        Example:
            >>> cache.trim(3)  # doctest: +SKIP
            3
        """
        check_count(self, "trim", n)
        n = min(n, self.offset) if self.is_trimmable() else 0
        self.offset -= n
        return n

    @property
    def nbytes(self) -> int:
        """The bytes that are reserved."""
        return self._rows.nbytes

    @property
    def state(self) -> list[mx.array]:
        """The arrays that hold what there is; set it together with meta_state to restore a cache."""
        return self._rows.read(self.offset)

    @state.setter
    def state(self, arrays: Sequence[mx.array]) -> None:
        self._rows.arrays = list(arrays)
        self.offset = self._rows.capacity
        self._form = None if not arrays else form_of(*arrays)

    @property
    def meta_state(self) -> dict[str, int]:
        """What there is to know besides the arrays."""
        return {"offset": self.offset}

    @meta_state.setter
    def meta_state(self, values: dict[str, int]) -> None:
        if not 0 <= values["offset"] <= self._rows.capacity:
            raise ValueError(
                f"[{type(self).__name__}] offset is {values['offset']}, there are {self._rows.capacity} rows"
            )
        self.offset = values["offset"]

    def to_quantized(self, group_size: int = 64, bits: int = 8) -> QuantizedKVCache:
        """The same tokens in fewer bits.

        Args:
            group_size: how many numbers share a scale: 32, 64 or 128.
            bits: bits a number: 2, 3, 4, 5, 6 or 8.

        Returns:
            A quantised cache.

        Raises:
            ValueError: if the size of keys or values is no multiple of group_size.

        Example:
            >>> cache = cache.to_quantized(bits=4)  # doctest: +SKIP
        """
        cache = QuantizedKVCache(group_size, bits)
        if self.offset:
            keys, values = self._rows.read(self.offset)
            cache.update_and_fetch(keys, values)
        return cache

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.offset} tokens, {self.nbytes} bytes)"


def form_of(keys: mx.array, values: mx.array) -> Any:
    return (keys.shape[:2], keys.shape[3], values.shape[3], keys.dtype, values.dtype)


class RotatingKVCache(KVCache):
    """Keeps the first tokens and the last ones, for models with a sliding window or texts without an end.

    No more than `max_size` rows are held, and as many for a moment besides while a chunk of several tokens passes.
    Several tokens at once see just what they would see one after the other.

    Args:
        max_size: how many tokens are kept, and how many a token sees, itself included.
        keep: how many of them are the first ones of the text, which are never dropped.

    Example:
        >>> from mlxc.models.cache import RotatingKVCache
        >>> cache = RotatingKVCache(max_size=4)
        >>> for _ in range(6):
        ...     keys, values = cache.update_and_fetch(mx.zeros((1, 1, 1, 8)), mx.zeros((1, 1, 1, 8)))
        >>> cache.offset, keys.shape
        (6, (1, 1, 4, 8))
    """

    def __init__(self, max_size: int, keep: int = 0) -> None:
        if not 0 <= keep < max_size:
            raise ValueError(f"[RotatingKVCache] keep is {keep} and max_size {max_size}, keep must be less and not < 0")
        super().__init__()
        self.max_size, self.keep = max_size, keep
        # The slot that is written next: the end, then the oldest of those that may go.
        self._next = 0

    def _order(self) -> list[slice]:
        """The parts of the rows from the oldest token to the newest."""
        if self.offset <= self.max_size:
            return [slice(0, self.offset)]
        return [slice(0, self.keep), slice(self._next, self.max_size), slice(self.keep, self._next)]

    def _in_order(self, array: mx.array) -> mx.array:
        parts = [array[:, :, part] for part in self._order() if part.start < part.stop]
        return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=2)

    def _advance(self) -> int:
        return self._next if self._next < self.max_size else self.keep

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Takes the keys and values of the next tokens.

        Args:
            keys: (batch, heads, tokens, size).
            values: the same but for the size.

        Returns:
            Keys and values that the new tokens may see, in the order of the mask that make_mask gives.

        Raises:
            ValueError: if the shapes or dtypes don't go with each other or with what is there.

        Example:
            >>> keys, values = cache.update_and_fetch(keys, values)  # doctest: +SKIP
        """
        check_update(self, keys, values)
        n = keys.shape[2]
        if self.offset + n <= self.max_size:
            self._rows.reserve((keys, values), self.offset, self.offset + n, self.max_size)
            self._rows.write((keys, values), self.offset)
            self.offset += n
            self._next = self.offset
            keys, values = self._rows.read(self.offset)
            return keys, values
        if n == 1:
            self._next = self._advance()
            self._rows.write((keys, values), self._next)
            self._next += 1
            self.offset += 1
            keys, values = self._rows.arrays
            # Views, so that nobody else holds the memory when it is written next.
            return keys[:, :, :], values[:, :, :]
        return self._take_chunk(keys, values)

    def _take_chunk(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        old = [self._in_order(array) for array in self._rows.arrays]
        seen = [
            mx.concatenate([before, new], axis=2) if old else new
            for before, new in zip(old or (None, None), (keys, values), strict=True)
        ]
        self.offset += keys.shape[2]
        size = seen[0].shape[2]
        first = size - (self.max_size - self.keep)
        self._rows.arrays = [mx.concatenate([array[:, :, : self.keep], array[:, :, first:]], axis=2) for array in seen]
        self._next = self.keep
        return seen[0], seen[1]

    def _positions(self, n: int) -> mx.array:
        """Where in the text the keys are that update_and_fetch of n tokens will give."""
        end = self.offset + n
        if end <= self.max_size:
            return mx.arange(end)
        held = min(self.offset, self.max_size)
        if n > 1:
            kept = min(self.keep, held)
            return mx.concatenate([mx.arange(kept), mx.arange(self.offset - (held - kept), end)])
        slot = self._advance() - self.keep
        ring = self.max_size - self.keep
        # The slots behind the new one are the oldest.
        around = (mx.arange(ring) - slot - 1) % ring
        return mx.concatenate([mx.arange(self.keep), around + end - ring])

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Any:
        """The mask for the next `n` tokens, to be asked for before update_and_fetch.

        Args:
            n: how many tokens are coming.
            window_size: how many tokens each may see, itself included; by default as many as the cache keeps.
            return_array: gives an array where a name would do.

        Returns:
            What `mx.fast.scaled_dot_product_attention` takes: None where a token may see all, "causal", or an array
            of bool (n, keys that update_and_fetch will give).

        Example:
            >>> from mlxc.models.cache import RotatingKVCache
            >>> RotatingKVCache(max_size=2).make_mask(3).tolist()
            [[True, False, False], [True, True, False], [False, True, True]]
        """
        check_count(self, "make_mask", n)
        end = self.offset + n
        narrow = window_size is not None and window_size < min(end, self.max_size)
        wraps = end > self.max_size
        if not return_array and not narrow and (not wraps or n == 1):
            return None if n <= 1 else "causal"
        queries, keys = mx.arange(self.offset, end), self._positions(n)
        mask = window_mask(queries, keys, self.max_size - self.keep if wraps else None, self.keep)
        return mask & window_mask(queries, keys, window_size) if narrow else mask

    def is_trimmable(self) -> bool:
        """Whether the last tokens can be taken back: not once older ones were dropped for them.

        Example:
            >>> from mlxc.models.cache import RotatingKVCache
            >>> RotatingKVCache(max_size=4).is_trimmable()
            True
        """
        return self.offset <= self.max_size

    def trim(self, n: int) -> int:
        """Takes the last tokens back.

        Args:
            n: how many.

        Returns:
            How many it were: none once older tokens were dropped.

        Raises:
            ValueError: if n is negative.

        Example:
            >>> cache.trim(3)  # doctest: +SKIP
            3
        """
        n = super().trim(n)
        self._next = self._next - n if n else self._next
        return n

    @property
    def state(self) -> list[mx.array]:
        """The arrays that hold what there is; set it together with meta_state to restore a cache."""
        return self._rows.read(min(self.offset, self.max_size))

    @state.setter
    def state(self, arrays: Sequence[mx.array]) -> None:
        KVCache.state.fset(self, arrays)
        self._next = self.offset

    @property
    def meta_state(self) -> dict[str, int]:
        """What there is to know besides the arrays."""
        return {"offset": self.offset, "max_size": self.max_size, "keep": self.keep, "next": self._next}

    @meta_state.setter
    def meta_state(self, values: dict[str, int]) -> None:
        held = self._rows.capacity
        given = {name: values[name] for name in ("offset", "max_size", "keep", "next")}
        right = (
            0 <= given["keep"] < given["max_size"]
            and held == min(given["offset"], given["max_size"])
            and (given["next"] == held if given["offset"] <= given["max_size"] else 0 < given["next"] <= held)
        )
        if not right:
            raise ValueError(f"[RotatingKVCache] the state {given} doesn't go with {held} rows")
        self.offset, self.max_size, self.keep, self._next = given.values()

    def to_quantized(self, group_size: int = 64, bits: int = 8) -> QuantizedKVCache:
        """A rotating cache has no quantised form.

        Raises:
            ValueError: always.

        Example:
            >>> RotatingKVCache(4).to_quantized()  # doctest: +SKIP
        """
        raise ValueError("[RotatingKVCache.to_quantized] a rotating cache can't be quantised, use KVCache")


class QuantizedKVCache(KVCache):
    """Keeps all tokens in a few bits a number, with a scale and a bias for each group of numbers.

    At 8 bits and groups of 64 it holds 8.5 (float16) or 9 (float32) bits a number instead of 16 or 32. Keys and
    values of one layer at a time are expanded while that layer attends.

    Args:
        group_size: how many numbers share a scale: 32, 64 or 128; divides the size of keys and values.
        bits: bits a number: 2, 3, 4, 5, 6 or 8.

    Example:
        >>> from mlxc.models.cache import QuantizedKVCache
        >>> cache = QuantizedKVCache(group_size=32, bits=4)
        >>> keys, values = cache.update_and_fetch(mx.ones((1, 1, 3, 32)), mx.ones((1, 1, 3, 32)))
        >>> keys.shape, bool((keys == 1).all())
        ((1, 1, 3, 32), True)
    """

    def __init__(self, group_size: int = 64, bits: int = 8) -> None:
        super().__init__()
        if group_size not in (32, 64, 128) or bits not in (2, 3, 4, 5, 6, 8):
            raise ValueError(
                f"[QuantizedKVCache] group_size is {group_size} and bits {bits}, 32, 64 or 128 and 2, 3, 4, 5, 6 or 8 "
                "are possible"
            )
        self.group_size, self.bits = group_size, bits

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Takes the keys and values of the next tokens.

        Args:
            keys: (batch, heads, tokens, size).
            values: the same but for the size.

        Returns:
            Keys and values of all tokens so far, expanded.

        Raises:
            ValueError: if the shapes or dtypes don't go with each other or with what is there, or a size is no
                multiple of group_size.

        Example:
            >>> keys, values = cache.update_and_fetch(keys, values)  # doctest: +SKIP
        """
        for name, array in (("keys", keys), ("values", values)):
            if array.ndim == 4 and array.shape[3] % self.group_size:
                raise ValueError(
                    f"[QuantizedKVCache.update_and_fetch] {name} have shape {array.shape}, the last is no multiple "
                    f"of group_size {self.group_size}"
                )
        check_update(self, keys, values)
        end = self.offset + keys.shape[2]
        how = {"group_size": self.group_size, "bits": self.bits}
        parts = [*mx.quantize(keys, **how), *mx.quantize(values, **how)]
        self._rows.reserve(parts, self.offset, end)
        self._rows.write(parts, self.offset)
        self.offset = end
        kept = self._rows.read(end)
        return mx.dequantize(*kept[:3], **how), mx.dequantize(*kept[3:], **how)

    @property
    def state(self) -> list[mx.array]:
        """The arrays that hold what there is; set it together with meta_state to restore a cache."""
        return self._rows.read(self.offset)

    @state.setter
    def state(self, arrays: Sequence[mx.array]) -> None:
        self._rows.arrays = list(arrays)
        self.offset = self._rows.capacity
        self._form = None

    @property
    def meta_state(self) -> dict[str, int]:
        """What there is to know besides the arrays."""
        return {"offset": self.offset, "group_size": self.group_size, "bits": self.bits}

    @meta_state.setter
    def meta_state(self, values: dict[str, int]) -> None:
        KVCache.meta_state.fset(self, values)
        self.group_size, self.bits = values["group_size"], values["bits"]
        if self._rows.arrays:
            k, v = (array.shape[3] * 32 // self.bits for array in (self._rows.arrays[0], self._rows.arrays[3]))
            scales = self._rows.arrays[1]
            self._form = (scales.shape[:2], k, v, scales.dtype, self._rows.arrays[4].dtype)
