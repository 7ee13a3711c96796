"""What every optimizer is: the step counter, the rates on schedules, and the walk over the trees.

A subclass gives init_single and apply_single for one array; this class calls them for each array of a tree of
gradients. The rule it keeps: a call that fails, for whatever reason, leaves the state as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import mlxc as mx
from mlxc.utils import tree_map

__all__ = ["Optimizer"]


class Leaf(NamedTuple):
    """What apply_single needs for one array. `state` is None, or {}, where the optimizer has none yet."""

    gradient: mx.array
    parameter: mx.array
    state: dict[str, Any] | None


class Optimizer:
    """The base of all optimizers: applies a rule for one array to a tree of parameters.

    A subclass gives `init_single` and `apply_single`, and hands numbers that may be on a schedule to `_maybe_schedule`.

    Args:
        schedulers: functions of the step counter by name; what they return is in `state` under that name.

    Example:
        >>> import mlxc as mx
        >>> from mlxc.optimizers import Optimizer
        >>> class SignDescent(Optimizer):
        ...     def __init__(self, learning_rate):
        ...         super().__init__()
        ...         self._maybe_schedule("learning_rate", learning_rate)
        ...     def init_single(self, parameter, state):
        ...         pass
        ...     def apply_single(self, gradient, parameter, state):
        ...         return parameter - self.learning_rate * mx.sign(gradient)
        >>> optimizer = SignDescent(0.5)
        >>> optimizer.apply_gradients({"w": mx.array([3.0, -4.0])}, {"w": mx.array([1.0, 1.0])})
        {'w': array([0.5, 1.5], dtype=float32)}
    """

    def __init__(self, schedulers: dict[str, Callable] | None = None) -> None:
        self._initialized = False
        self._state: dict[str, Any] = {"step": mx.array(0, mx.uint64)}
        self._schedulers = dict(schedulers or {})

    def update(self, model: Any, gradients: dict) -> None:
        """Moves the parameters of a model by one step.

        Args:
            model: an nn.Module, or anything with its `update`; changed in place.
            gradients: tree of gradients, as nn.value_and_grad gives it, for all parameters or some.

        Raises:
            ValueError: if a gradient belongs to no parameter or has another shape. Nothing is changed then.

        Example:
            >>> import mlxc as mx
            >>> import mlxc.optimizers as optim
            >>> parameters = {"w": mx.array([1.0, 2.0])}
            >>> optim.SGD(learning_rate=0.1).update(parameters, {"w": mx.array([10.0, 0.0])})
            >>> parameters
            {'w': array([0, 2], dtype=float32)}
        """
        model.update(self.apply_gradients(gradients, model))

    def init(self, parameters: dict) -> None:
        """Makes the state of each parameter that has none yet. The first update does so by itself.

        Args:
            parameters: tree of arrays (nested dicts, lists and tuples).

        Raises:
            TypeError: if a leaf is no array, or the tree is a list.
            ValueError: if a parameter is named as something the state holds ("step", "learning_rate"), or if a state
                that was set has another shape than its parameter.

        Example:
            >>> import mlxc as mx
            >>> import mlxc.optimizers as optim
            >>> optimizer = optim.SGD(learning_rate=0.1, momentum=0.9)
            >>> optimizer.init({"weight": mx.zeros((2, 2)), "bias": mx.zeros(2)})
            >>> list(optimizer.state)
            ['step', 'learning_rate', 'weight', 'bias']
        """
        self._state.update(self._grown(parameters, self._state, ""))
        self._initialized = True

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        """Makes the state of one parameter. Each optimizer gives its own.

        Args:
            parameter: the array, or its first gradient.
            state: dict to put arrays into.

        Example:
            >>> import mlxc as mx
            >>> import mlxc.optimizers as optim
            >>> state = {}
            >>> optim.SGD(learning_rate=0.1).init_single(mx.ones(2), state)
            >>> state
            {'v': array([0, 0], dtype=float32)}
        """
        raise NotImplementedError(f"{type(self).__name__} has no init_single: a subclass of Optimizer gives it")

    def apply_gradients(self, gradients: dict, parameters: dict) -> dict:
        """The parameters after one step. Counts the step and moves the schedules on.

        Args:
            gradients: tree of gradients.
            parameters: tree of parameters, or a module; it may have more than there are gradients.

        Returns:
            The new parameters in a tree of the form of `gradients`.

        Raises:
            ValueError: if a gradient belongs to no parameter or has another shape than it.
            TypeError: if a gradient or its parameter is no array.

        Example:
            >>> import mlxc as mx
            >>> import mlxc.optimizers as optim
            >>> optimizer = optim.SGD(learning_rate=0.5)
            >>> optimizer.apply_gradients({"w": mx.array(4.0)}, {"w": mx.array(1.0), "fixed": mx.array(0)})
            {'w': array(-1, dtype=float32)}
            >>> optimizer.step
            array(1, dtype=uint64)
        """
        leaves = self._match(gradients, parameters)
        with undo_on_error([self._state, *(leaf.state for leaf in leaves)]):
            self._advance()
            moved = iter([self.apply_single(*leaf) for leaf in leaves])
        return tree_map(lambda _: next(moved), gradients)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]) -> mx.array:
        """The new value of one parameter. Each optimizer gives its own; `state` is updated in place.

        Args:
            gradient: array of the shape of `parameter`.
            parameter: the array.
            state: what init_single and earlier calls have put there.

        Returns:
            The new array.

        Example:
            >>> import mlxc as mx
            >>> import mlxc.optimizers as optim
            >>> optim.SGD(learning_rate=0.5).apply_single(mx.array(2.0), mx.array(1.0), {})
            array(0, dtype=float32)
        """
        raise NotImplementedError(f"{type(self).__name__} has no apply_single: a subclass of Optimizer gives it")

    @property
    def state(self) -> dict[str, Any]:
        """The live state: "step", what is on a schedule, and for each parameter a dict at the parameter's place.

        It is a tree of arrays: mlxc.utils.tree_flatten makes of it what save_safetensors and savez take. Setting it,
        to what tree_unflatten makes of a loaded file, goes on from there.

        Raises:
            TypeError: if it is set to something that is no dict.
            ValueError: if it is set to a dict without "step".
        """
        return self._state

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        name = type(self).__name__
        if not isinstance(state, dict):
            raise TypeError(f"[{name}.state] the state is a dict, got {type(state).__name__}")
        if "step" not in state:
            raise ValueError(f"[{name}.state] the state of an optimizer has a 'step', this dict has {list(state)[:8]}")
        self._initialized = False
        self._state = state

    @property
    def step(self) -> mx.array:
        """How many steps were taken, an array of dtype uint64."""
        step: mx.array = self._state["step"]
        return step

    @property
    def learning_rate(self) -> mx.array:
        """The learning rate of the last step, or of the first one before any. A number, an array or a schedule sets it.

        A number is kept until it is set again, except beside a schedule, which sets the rate at each step. A schedule,
        a function of the step counter, replaces the one there is.
        """
        if "learning_rate" not in self._state:
            raise AttributeError(f"this {type(self).__name__} was made without a learning rate")
        rate: mx.array = self._state["learning_rate"]
        return rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array | Callable[[mx.array], mx.array]) -> None:
        if callable(learning_rate):
            self._maybe_schedule("learning_rate", learning_rate)
        else:
            self._state["learning_rate"] = as_rate(type(self).__name__, "learning_rate", learning_rate)

    def _maybe_schedule(self, name: str, param: float | mx.array | Callable[[mx.array], mx.array]) -> None:
        """Puts a number into the state, or a function of the step counter among the schedules. For subclasses."""
        if callable(param):
            value = param(self.step)
            self._schedulers[name] = param
        else:
            value = param
        self._state[name] = as_rate(type(self).__name__, name, value)

    def _advance(self) -> None:
        """Schedules see the number of steps before this one, apply_single the number with it."""
        for name, schedule in self._schedulers.items():
            self._state[name] = as_rate(type(self).__name__, name, schedule(self.step))
        self._state["step"] = self.step + 1

    def _match(self, gradients: Any, parameters: Any) -> list[Leaf]:
        """Each gradient with its parameter and its state, which is made where there is none."""
        leaves = list(self._leaves(gradients, parameters, self._state, ""))
        if not self._initialized or not all(leaf.state for leaf in leaves):
            self.init(gradients)
            leaves = list(self._leaves(gradients, parameters, self._state, ""))
        return leaves

    def _leaves(self, gradient: Any, parameter: Any, state: Any, path: str) -> Iterator[Leaf]:
        children = items_of(gradient)
        if children is None:
            check_leaf(type(self).__name__, gradient, parameter, path)
            yield Leaf(gradient, parameter, state if isinstance(state, dict) else None)
            return
        for key, child in children:
            place = f"{path}.{key}" if path else f"{key}"
            below = part_of(parameter, key)
            if below is None:
                raise ValueError(
                    f"[{type(self).__name__}] there is a gradient of {place!r} and no such parameter: "
                    f"{describe_keys(path, parameter)}"
                )
            yield from self._leaves(child, below, part_of(state, key), place)

    def _grown(self, parameter: Any, state: Any, path: str) -> Any:
        """A copy of `state` with what `parameter` needs and it lacks."""
        name = type(self).__name__
        if isinstance(parameter, mx.array):
            begun: dict[str, Any] = {}
            self.init_single(parameter, begun)
            return complete(name, state, begun, parameter, path)
        children = items_of(parameter)
        if children is None or (not path and isinstance(parameter, (list, tuple))):
            where = f"at {path!r}" if path else "instead of a dict of parameters"
            raise TypeError(
                f"[{name}] parameters are arrays in dicts and lists, got {type(parameter).__name__} {where}"
            )
        grown = {}
        for key, child in children:
            place = f"{path}.{key}" if path else f"{key}"
            below = part_of(state, key)
            if not path and (key == "step" or key in self._schedulers or isinstance(below, mx.array)):
                raise ValueError(
                    f"[{name}] a parameter cannot be named {key!r} here: the optimizer's state has that name already"
                )
            grown[key] = self._grown(child, below, place)
        if isinstance(parameter, dict):
            return {**state, **grown} if isinstance(state, dict) else grown
        beyond = state[len(grown) :] if isinstance(state, list) else []
        return [*grown.values(), *beyond]


@contextmanager
def undo_on_error(states: Iterable[dict[str, Any] | None]) -> Iterator[None]:
    """Puts the content of dicts back if the body fails."""
    saved = [(state, dict(state)) for state in states if state is not None]
    try:
        yield
    except BaseException:
        for state, content in saved:
            state.clear()
            state.update(content)
        raise


def items_of(tree: Any) -> Iterable[tuple[Any, Any]] | None:
    """The keys and children of a dict, list or tuple; None for a leaf."""
    if isinstance(tree, dict):
        return tree.items()
    if isinstance(tree, (list, tuple)):
        return enumerate(tree)
    return None


def part_of(tree: Any, key: Any) -> Any:
    """The child of a dict, list or tuple, None where there is none."""
    if isinstance(tree, dict):
        return tree.get(key)
    if isinstance(tree, (list, tuple)) and isinstance(key, int) and key < len(tree):
        return tree[key]
    return None


def describe_keys(path: str, tree: Any) -> str:
    where = f"at {path!r} there" if path else "there"
    if isinstance(tree, dict):
        keys = list(tree)
        return f"{where} are {keys[:8]}{' and more' if len(keys) > 8 else ''}"
    if isinstance(tree, (list, tuple)):
        return f"{where} are {len(tree)} in a {type(tree).__name__}"
    return f"{where} is one {type(tree).__name__}"


def check_leaf(name: str, gradient: Any, parameter: Any, path: str) -> None:
    where = f" of {path!r}" if path else ""
    if not isinstance(gradient, mx.array):
        raise TypeError(f"[{name}] the gradient{where} is an array, got {type(gradient).__name__}")
    if not isinstance(parameter, mx.array):
        raise TypeError(
            f"[{name}] the parameter{where} is an array where its gradient is one, got {type(parameter).__name__}"
        )
    if gradient.shape != parameter.shape:
        raise ValueError(f"[{name}] the gradient{where} has shape {gradient.shape}, its parameter {parameter.shape}")


def complete(name: str, state: Any, begun: dict[str, Any], parameter: mx.array, path: str) -> dict[str, Any]:
    """The state of one parameter: what there is, and of `begun` what is missing."""
    if state is None:
        return begun
    if not isinstance(state, dict):
        raise ValueError(f"[{name}.state] the state of {path!r} is a dict, got {type(state).__name__}")
    for key, first in begun.items():
        shape = getattr(state.get(key, first), "shape", None)
        if first.shape == parameter.shape and shape != first.shape:
            raise ValueError(
                f"[{name}.state] {key!r} of {path!r} has shape {shape}, its parameter {parameter.shape}: the state "
                f"belongs to other parameters"
            )
    return {**begun, **state}


def as_rate(name: str, parameter: str, value: Any) -> mx.array:
    """A number or array as what the state holds; a Python int counts as a float."""
    if isinstance(value, mx.array):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return mx.array(value, mx.float32)
    if hasattr(value, "__array__"):
        return mx.array(value)
    raise TypeError(f"[{name}] {parameter} is a number, an array or a function of the step, got {type(value).__name__}")
