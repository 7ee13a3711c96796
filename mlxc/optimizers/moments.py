"""Running means of gradients and what divides by them, shared by the adaptive optimizers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlxc as mx

SMALLEST_FLOAT16 = 2.0**-24


def mix(decay: float, mean: mx.array, new: mx.array) -> mx.array:
    """One step of a running mean."""
    return decay * mean + (1 - decay) * new


def weight_so_far(decay: float, step: mx.array) -> mx.array | float:
    """1 - decay ** step, the weight of all that a mean which began at zero has seen, without cancellation."""
    return -mx.expm1(step * math.log(decay)) if decay > 0 else 1.0


def divisor(eps: float, dtype: mx.Dtype) -> float:
    """`eps` as what it must stay in `dtype`: above zero.

    The usual 1e-8 is 0 in float16, and the gradient 0 of a weight that a batch does not touch would become 0 / 0. Next
    to any other square root of a float16 this number is lost in rounding.
    """
    return max(eps, SMALLEST_FLOAT16) if eps > 0 and dtype == mx.float16 else eps


def check_betas(name: str, betas: Sequence[float]) -> Sequence[float]:
    if len(betas) != 2:
        raise ValueError(f"[{name}] betas are two numbers, got {len(betas)}")
    for place, beta in enumerate(betas, 1):
        if not 0 <= beta < 1:
            raise ValueError(f"[{name}] beta{place} is at least 0 and less than 1, got {beta}")
    return betas


def check_eps(name: str, eps: float, zero: bool = False) -> float:
    if not (eps > 0 or (zero and eps == 0)):
        raise ValueError(f"[{name}] eps is {'at least' if zero else 'above'} 0, got {eps}")
    return eps


def check_decay(name: str, parameter: str, decay: float) -> float:
    if not decay >= 0:
        raise ValueError(f"[{name}] {parameter} is at least 0, got {decay}")
    return decay
