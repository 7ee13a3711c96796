"""AdamW (Loshchilov and Hutter, 2019) on a tree of parameters, with bias correction.

update() is a pure function: parameters, gradients and state in, new parameters and state out.
Weight decay acts on matrices only, not on biases and norm weights. train.py calls it each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlxc as mx


@dataclass(frozen=True)
class AdamW:
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1

    def start(self, params: Any) -> dict[str, Any]:
        return {"step": 0, "mean": map_trees(mx.zeros_like, params), "square": map_trees(mx.zeros_like, params)}

    def update(self, params: Any, gradients: Any, state: dict[str, Any], rate: float) -> tuple[Any, dict[str, Any]]:
        step = state["step"] + 1
        mean = map_trees(lambda m, g: self.beta1 * m + (1 - self.beta1) * g, state["mean"], gradients)
        square = map_trees(lambda v, g: self.beta2 * v + (1 - self.beta2) * g * g, state["square"], gradients)
        mean_scale = 1 / (1 - self.beta1**step)
        square_scale = 1 / (1 - self.beta2**step)

        def move(p: mx.array, m: mx.array, v: mx.array) -> mx.array:
            kept = p * (1 - rate * self.weight_decay) if p.ndim > 1 else p
            return kept - (rate * mean_scale) * m / (mx.sqrt(v * square_scale) + self.epsilon)

        return map_trees(move, params, mean, square), {"step": step, "mean": mean, "square": square}


def map_trees(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """function of the leaves at the same place of trees of one form (dicts, lists, arrays)."""
    if isinstance(tree, dict):
        return {name: map_trees(function, branch, *(o[name] for o in others)) for name, branch in tree.items()}
    if isinstance(tree, list):
        return [map_trees(function, *branches) for branches in zip(tree, *others, strict=True)]
    return function(tree, *others)
