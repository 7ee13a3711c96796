"""MultiOptimizer: several optimizers, each for its part of the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlxc as mx
from mlxc.utils import tree_merge

from .base import Optimizer, items_of, part_of, undo_on_error

__all__ = ["MultiOptimizer"]


class MultiOptimizer(Optimizer):
    """Gives each parameter to the first optimizer whose filter takes it, and to the last one if none does.

    Args:
        optimizers: the optimizers.
        filters: for each optimizer but the last, a function of a parameter's path ("layers.0.weight") and the array,
            which tells whether the optimizer is to have it.

    Raises:
        ValueError: if there is not one filter less than there are optimizers.
        TypeError: if one of `optimizers` is none, or a filter cannot be called.

    Example:
        >>> import mlxc as mx
        >>> import mlxc.optimizers as optim
        >>> optimizer = optim.MultiOptimizer(
        ...     [optim.Muon(learning_rate=0.1), optim.SGD(learning_rate=0.5)], [lambda path, weight: weight.ndim >= 2]
        ... )
        >>> w = {"weight": mx.zeros((2, 2)), "bias": mx.ones(2)}
        >>> w = optimizer.apply_gradients({"weight": mx.eye(2), "bias": mx.ones(2)}, w)
        >>> w["bias"]
        array([0.5, 0.5], dtype=float32)
        >>> [list(state) for state in optimizer.state["states"]]
        [['step', 'learning_rate', 'weight'], ['step', 'learning_rate', 'bias']]
    """

    def __init__(
        self,
        optimizers: list[Optimizer],
        filters: list[Callable[[str, mx.array], bool]] = [],  # noqa: B006 (read only)
    ) -> None:
        super().__init__()
        if len(filters) != len(optimizers) - 1:
            raise ValueError(
                f"[MultiOptimizer] there is a filter for each optimizer but the last: {len(optimizers)} optimizers "
                f"take {max(0, len(optimizers) - 1)} filters, got {len(filters)}"
            )
        for optimizer in optimizers:
            if not isinstance(optimizer, Optimizer):
                raise TypeError(f"[MultiOptimizer] optimizers are of class Optimizer, got {type(optimizer).__name__}")
        for function in filters:
            if not callable(function):
                raise TypeError(f"[MultiOptimizer] filters are functions, got {type(function).__name__}")
        self.optimizers = list(optimizers)
        self.filters = list(filters)

    def init(self, parameters: dict) -> None:
        """Makes the state of each parameter that has none yet, each in its own optimizer.

        Args:
            parameters: tree of arrays.

        Example:
            >>> import mlxc as mx
            >>> import mlxc.optimizers as optim
            >>> optimizer = optim.MultiOptimizer([optim.Adam(learning_rate=0.1)])
            >>> optimizer.init({"w": mx.zeros(2)})
            >>> list(optimizer.state["states"][0]["w"])
            ['m', 'v']
        """
        for optimizer, part in zip(self.optimizers, self._split(parameters, parameters), strict=True):
            optimizer.init(part)

    def apply_gradients(self, gradients: dict, parameters: dict) -> dict:
        """The parameters after one step of all the optimizers. Each counts the step.

        Args:
            gradients: tree of gradients.
            parameters: tree of parameters, or a module; it may have more than there are gradients.

        Returns:
            The new parameters in a tree of the form of `gradients`.

        Raises:
            ValueError: if a gradient belongs to no parameter or has another shape than it.

        Example:
            >>> import mlxc as mx
            >>> import mlxc.optimizers as optim
            >>> optimizer = optim.MultiOptimizer(
            ...     [optim.SGD(learning_rate=1.0), optim.SGD(learning_rate=0.1)], [lambda path, weight: path == "a"]
            ... )
            >>> ones = {"a": mx.array(1.0), "b": mx.array(1.0)}
            >>> optimizer.apply_gradients(ones, ones)
            {'a': array(0, dtype=float32), 'b': array(0.9, dtype=float32)}
        """
        parts = list(zip(self.optimizers, self._split(gradients, parameters), strict=True))
        states: list[Any] = [optimizer.state for optimizer in self.optimizers]
        for optimizer, part in parts:
            states += [leaf.state for leaf in optimizer._match(part, parameters)]
        merged: Any = {}
        with undo_on_error(states):
            for optimizer, part in parts:
                merged = tree_merge(merged, optimizer.apply_gradients(part, parameters))
        return in_order(gradients, merged)

    @property
    def state(self) -> dict[str, Any]:
        """{"states": the live states of the optimizers, in their order}. Setting it goes on from there.

        Raises:
            ValueError: if it is set to a dict without one state for each optimizer.
        """
        return {"states": [optimizer.state for optimizer in self.optimizers]}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        states = state.get("states") if isinstance(state, dict) else None
        if not isinstance(states, (list, tuple)) or len(states) != len(self.optimizers):
            found = f"{len(states)} of them" if isinstance(states, (list, tuple)) else "none"
            raise ValueError(
                f"[MultiOptimizer.state] the state is a dict with a list 'states' of {len(self.optimizers)}, one for "
                f"each optimizer; got {found}"
            )
        before = [optimizer.state for optimizer in self.optimizers]
        try:
            for optimizer, own in zip(self.optimizers, states, strict=True):
                optimizer.state = own
        except (TypeError, ValueError):
            for optimizer, own in zip(self.optimizers, before, strict=True):
                optimizer.state = own
            raise

    @property
    def step(self) -> mx.array:
        """How many steps were taken, an array of dtype uint64."""
        return self.optimizers[0].step

    @property
    def learning_rate(self) -> mx.array:
        """The learning rate of the first optimizer. Setting it sets that of all of them."""
        return self.optimizers[0].learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array | Callable[[mx.array], mx.array]) -> None:
        for optimizer in self.optimizers:
            optimizer.learning_rate = learning_rate

    def _choose(self, path: str, weight: Any) -> int:
        for index, takes in enumerate(self.filters):
            if takes(path, weight):
                return index
        return len(self.filters)

    def _split(self, gradient: Any, parameter: Any, path: str = "") -> list[Any]:
        """For each optimizer the tree with its own leaves: dicts without the others, lists with {} in their places."""
        children = items_of(gradient)
        if children is None:
            # What is no array, or has none beside it, is for the optimizer to complain of.
            mine = self._choose(path, parameter if isinstance(parameter, mx.array) else gradient)
            return [gradient if index == mine else {} for index in range(len(self.optimizers))]
        split = [
            (key, self._split(child, part_of(parameter, key), f"{path}.{key}" if path else f"{key}"))
            for key, child in children
        ]
        parts: list[Any] = []
        for index in range(len(self.optimizers)):
            if isinstance(gradient, dict):
                parts.append({key: below[index] for key, below in split if not is_empty(below[index])})
            else:
                own = [below[index] for _, below in split]
                parts.append({} if all(is_empty(part) for part in own) else own)
        return parts


def is_empty(tree: Any) -> bool:
    return isinstance(tree, (dict, list, tuple)) and len(tree) == 0


def in_order(form: Any, tree: Any) -> Any:
    """`tree` with the keys of `form`, in their order, and its kinds of containers."""
    if isinstance(form, dict):
        return {key: in_order(child, part_of(tree, key)) for key, child in form.items()}
    if isinstance(form, (list, tuple)):
        items = [in_order(child, part_of(tree, i)) for i, child in enumerate(form)]
        if isinstance(form, tuple):
            return type(form)(*items) if hasattr(form, "_fields") else type(form)(items)
        return items
    return tree
