"""Choosing the next token: samplers, and processors that change the logits before.

generate calls both once a token. A sampler is any function of logits (batch, vocabulary) that gives ids (batch,); a
processor is any function of the ids so far (batch, n) and the logits that gives new logits. All of them stay lazy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mlxc as mx

__all__ = ["filter_logits", "logit_bias", "make_logits_processors", "make_sampler", "repetition_penalty"]

Sampler = Callable[[mx.array], mx.array]
Processor = Callable[[mx.array, mx.array], mx.array]


def as_rows(logits: mx.array, function: str) -> mx.array:
    if logits.ndim != 2 or logits.shape[1] == 0:
        raise ValueError(f"[{function}] logits have shape {logits.shape}, (batch, vocabulary) is needed")
    return logits.astype(mx.float32)


def check_fraction(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"[make_sampler] {name} is {value}, it is from 0 to 1")


def filter_logits(
    logits: mx.array, top_p: float = 0.0, min_p: float = 0.0, min_tokens_to_keep: int = 1, top_k: int = 0
) -> mx.array:
    """Rules unlikely tokens out. A token stays if all rules keep it; each looks at p = softmax(logits) alone.

    Args:
        logits: (batch, vocabulary), of any float dtype.
        top_p: keeps the most probable tokens, as many as are needed to hold this much probability together; 0 or 1
            for no such rule. A. Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020.
        min_p: keeps tokens at least this times as probable as the most probable one; 0 for no such rule.
            M. N. Nguyen et al., "Turning Up the Heat: Min-p Sampling", 2024.
        min_tokens_to_keep: how many of the most probable tokens stay whatever `min_p` says.
        top_k: keeps this many of the most probable tokens; 0 for no such rule. Tokens exactly as probable as the
            last that stays, stay too, here and with top_p.

    Returns:
        float32 of the same shape: the log-probabilities of those that stay, -inf for the others.

    Raises:
        ValueError: if logits have another rank or an argument is out of range.

    Example:
        >>> from mlxc.models.sample import filter_logits
        >>> filter_logits(mx.array([[0.0, 1.0, 2.0]]), top_k=1)[0, 1].item()
        -inf
    """
    logits = as_rows(logits, "filter_logits")
    check_fraction("top_p", top_p)
    check_fraction("min_p", min_p)
    size = logits.shape[1]
    for name, value, least in (("top_k", top_k, 0), ("min_tokens_to_keep", min_tokens_to_keep, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"[make_sampler] {name} is {value!r}, a whole number of at least {least} is needed")
    logits = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    # Each rule is the least log-probability that it keeps.
    least = None
    if 0.0 < top_p < 1.0:
        falling = -mx.sort(-logits, axis=-1)
        before = mx.cumsum(mx.exp(falling), axis=-1, inclusive=False)
        count = mx.sum(before < top_p, axis=-1, keepdims=True)
        least = mx.take_along_axis(falling, mx.maximum(count - 1, 0), axis=-1)
    if 0 < top_k < size:
        kth = mx.min(mx.topk(logits, top_k, axis=-1), axis=-1, keepdims=True)
        least = kth if least is None else mx.maximum(least, kth)
    if min_p > 0.0:
        bound = mx.max(logits, axis=-1, keepdims=True) + mx.log(mx.array(min_p))
        if min_tokens_to_keep > 1:
            best = mx.topk(logits, min(min_tokens_to_keep, size), axis=-1)
            bound = mx.minimum(bound, mx.min(best, axis=-1, keepdims=True))
        least = bound if least is None else mx.maximum(least, bound)
    return logits if least is None else mx.where(logits >= least, logits, -mx.inf)


def make_sampler(
    temp: float = 0.0,
    top_p: float = 0.0,
    min_p: float = 0.0,
    min_tokens_to_keep: int = 1,
    top_k: int = 0,
    *,
    key: mx.array | None = None,
    seed: int | None = None,
) -> Sampler:
    """A sampler.

    The rules top_p, min_p and top_k (see filter_logits) look at the model's own probabilities; the temperature is
    applied to what stays.

    Args:
        temp: divides the logits: 0 takes the most probable token, 1 draws from the model's probabilities.
        top_p: keeps the most probable tokens that hold this much probability together; 0 or 1 for all.
        min_p: keeps tokens at least this times as probable as the most probable one; 0 for all.
        min_tokens_to_keep: how many stay whatever `min_p` says.
        top_k: keeps this many of the most probable tokens; 0 for all.
        key: random key: the same draws in the same order for the same key. By default the global random state is
            used, which `mx.random.seed` sets.
        seed: instead of a key, the seed of one.

    Returns:
        A function of logits (batch, vocabulary) that gives ids (batch,). Rows are drawn independently.

    Raises:
        ValueError: if an argument is out of range, or both key and seed are given.

    Example:
        >>> from mlxc.models.sample import make_sampler
        >>> make_sampler()(mx.array([[0.0, 3.0, 1.0]]))
        array([1], dtype=uint32)
        >>> draw = make_sampler(temp=0.8, top_p=0.95, seed=7)
        >>> draw(mx.array([[0.0, 9.0, 0.0]])).shape
        (1,)
    """
    if not 0.0 <= temp < float("inf"):
        raise ValueError(f"[make_sampler] temp is {temp}, it is 0 or more")
    if key is not None and seed is not None:
        raise ValueError("[make_sampler] key and seed are both given, one of them is enough")
    # Wrong arguments are refused here, not in the middle of a text.
    filter_logits(mx.zeros((1, 1)), top_p, min_p, min_tokens_to_keep, top_k)
    if temp == 0.0:
        return lambda logits: mx.argmax(as_rows(logits, "make_sampler"), axis=-1)
    state = [mx.random.key(seed) if seed is not None else key]
    with_rules = 0.0 < top_p < 1.0 or min_p > 0.0 or top_k > 0

    def sample(logits: mx.array) -> mx.array:
        logits = as_rows(logits, "make_sampler")
        if with_rules:
            logits = filter_logits(logits, top_p, min_p, min_tokens_to_keep, top_k)
        now = None
        if state[0] is not None:
            state[0], now = mx.random.split(state[0])
        # Differences from the largest: no temperature makes them overflow upwards.
        logits = (logits - mx.max(logits, axis=-1, keepdims=True)) * (1.0 / temp)
        return mx.random.categorical(logits, axis=-1, key=now)

    return sample


def repetition_penalty(penalty: float, context_size: int | None = 20) -> Processor:
    """A processor that makes tokens that have been there less likely.

    Their logits are divided by `penalty` where positive and multiplied by it where negative. N. S. Keskar et al.,
    "CTRL: A Conditional Transformer Language Model", 2019.

    Args:
        penalty: 1 changes nothing, more makes repetitions rarer.
        context_size: how many of the last ids count; None for all.

    Returns:
        The processor.

    Raises:
        ValueError: if the penalty is not a positive number or context_size not positive.

    Example:
        >>> from mlxc.models.sample import repetition_penalty
        >>> repetition_penalty(2.0)(mx.array([0]), mx.array([[4.0, 4.0]]))
        array([[2, 4]], dtype=float32)
    """
    if not 0.0 < penalty < float("inf"):
        raise ValueError(f"[repetition_penalty] penalty is {penalty}, a positive number is needed")
    if context_size is not None and context_size < 1:
        raise ValueError(f"[repetition_penalty] context_size is {context_size}, at least 1 is needed")

    def process(tokens: Any, logits: mx.array) -> mx.array:
        logits = as_rows(logits, "repetition_penalty")
        tokens = tokens if isinstance(tokens, mx.array) else mx.array(tokens, dtype=mx.uint32)
        tokens = tokens.reshape(1, -1) if tokens.ndim == 1 else tokens
        if tokens.ndim != 2 or tokens.shape[0] not in (1, logits.shape[0]):
            raise ValueError(
                f"[repetition_penalty] tokens have shape {tokens.shape}, (n,) or (batch, n) is needed beside logits "
                f"of shape {logits.shape}"
            )
        if context_size is not None:
            tokens = tokens[:, -context_size:]
        if tokens.shape[1] == 0:
            return logits
        tokens = mx.broadcast_to(tokens, (logits.shape[0], tokens.shape[1]))
        found = mx.take_along_axis(logits, tokens, axis=-1)
        return mx.put_along_axis(logits, tokens, mx.where(found < 0, found * penalty, found / penalty), axis=-1)

    return process


def logit_bias(bias: Mapping[int, float]) -> Processor:
    """A processor that adds numbers to the logits of some tokens.

    Args:
        bias: what to add, by id; -inf forbids a token.

    Returns:
        The processor.

    Raises:
        ValueError: if an id is negative; when it is called, if an id is beyond the vocabulary.

    Example:
        >>> from mlxc.models.sample import logit_bias
        >>> logit_bias({1: 5.0})(mx.array([0]), mx.array([[0.0, 1.0]]))
        array([[0, 6]], dtype=float32)
    """
    ids = [int(id) for id in bias]
    if any(id < 0 for id in ids):
        raise ValueError(f"[logit_bias] the id {min(ids)} is negative")
    where, added = mx.array(ids, dtype=mx.uint32), mx.array(list(bias.values()), dtype=mx.float32)

    def process(tokens: Any, logits: mx.array) -> mx.array:
        logits = as_rows(logits, "logit_bias")
        if ids and max(ids) >= logits.shape[1]:
            raise ValueError(f"[logit_bias] the id {max(ids)} is beyond the vocabulary of {logits.shape[1]}")
        return logits.at[:, where].add(added) if ids else logits

    return process


def make_logits_processors(
    logit_bias: Mapping[int, float] | None = None,
    repetition_penalty: float | None = None,
    repetition_context_size: int | None = 20,
) -> list[Processor]:
    """The processors that are asked for, in the order in which they apply.

    Args:
        logit_bias: what to add to logits, by id.
        repetition_penalty: see the function of this name; 0, 1 or None for none.
        repetition_context_size: how many of the last ids it looks at; None for all.

    Returns:
        The list.

    Raises:
        ValueError: as the functions of these names.

    Example:
        >>> from mlxc.models.sample import make_logits_processors
        >>> len(make_logits_processors(repetition_penalty=1.1))
        1
    """
    processors = []
    if logit_bias:
        processors.append(_logit_bias(logit_bias))
    if repetition_penalty and repetition_penalty != 1.0:
        processors.append(_repetition_penalty(repetition_penalty, repetition_context_size))
    return processors


# The arguments of make_logits_processors have the names of the functions.
_logit_bias, _repetition_penalty = logit_bias, repetition_penalty
