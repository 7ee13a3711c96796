"""Walks over what modules hold, and replacements in them that are planned first and then made all at once.

Called by Module. A plan is a list of (container, key, new value); making it raises nothing, so an error in the midst
of a tree leaves the model as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mlxc as mx

Filter = Callable[[Any, str, Any], bool]
Plan = list[tuple[Any, Any, Any]]

# Who replaces what, for messages.
FUNCTION = {"parameter": "update", "sub-module": "update_modules"}


def is_no_container(module: Any, key: str, value: Any) -> bool:
    return not isinstance(value, (dict, list))


def walk(module: Any, keep: Filter, change: Callable[[Any], Any] | None = None, is_leaf: Filter | None = None) -> Any:
    """The tree behind Module.filter_and_map, which describes the arguments."""
    leaf = is_leaf or is_no_container

    def inside(owner: Any, name: str, value: Any) -> Any:
        if leaf(owner, name, value):
            return value if change is None else change(value)
        if hasattr(value, "_no_grad"):
            return contents(value)
        if isinstance(value, (dict, list)):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            named = [(key, f"{name}.{key}", item) for key, item in pairs]
            out = {key: inside(owner, path, item) if keep(owner, path, item) else {} for key, path, item in named}
            return out if isinstance(value, dict) else list(out.values())
        raise RuntimeError(
            f"[filter_and_map] {name!r} of {type(owner).__name__} is a {type(value).__name__}, which has no contents, "
            f"and is_leaf_fn says that it is no leaf"
        )

    def contents(owner: Any) -> dict[str, Any]:
        return {key: inside(owner, key, value) for key, value in owner.items() if keep(owner, key, value)}

    return contents(module)


def child_modules(container: Any, prefix: str) -> list[tuple[str, Any]]:
    """The modules in a module, list or dict, with their paths, but not what is in them."""
    found: list[tuple[str, Any]] = []
    for key, value in container.items() if isinstance(container, dict) else enumerate(container):
        if isinstance(value, (dict, list)):
            if hasattr(value, "_no_grad"):
                found.append((f"{prefix}{key}", value))
            else:
                found += child_modules(value, f"{prefix}{key}.")
    return found


def commit(plan: Plan) -> None:
    for container, key, value in plan:
        container[key] = value


def is_empty(tree: Any) -> bool:
    """Whether this is what walk leaves in the place of things left out; a module without contents is not."""
    return type(tree) in {dict, list} and not tree


def places(there: Any, new: Any, path: str, strict: bool, what: str) -> Iterator[tuple[Any, str, Any]]:
    """The (key, path, new value) of a tree for which a container has a place; ValueError for others, if strict."""
    function = FUNCTION[what]
    if not isinstance(new, (dict, list)):
        raise ValueError(
            f"[Module.{function}] {path or 'the argument'} should be a tree of {what}s (dict or list), got "
            f"{type(new).__name__}"
        )
    for key, value in new.items() if isinstance(new, dict) else enumerate(new):
        inner = f"{path}.{key}" if path else str(key)
        if isinstance(there, list):
            place = int(key) if str(key).isdecimal() else None
            found = place is not None and place < len(there)
        else:
            # A dict whose keys are numbers comes back from a file as a list, and its numbers as strings.
            place = next((k for k in (key, str(key)) if k in there), None)
            if place is None and str(key).isdecimal() and int(key) in there:
                place = int(key)
            found = place is not None
        if found:
            yield place, inner, value
        elif strict and not is_empty(value):
            has = f"a list of length {len(there)}" if isinstance(there, list) else f"{list(there)}"
            raise ValueError(f'[Module.{function}] Module does not have {what} named "{inner}": there is {has}')


def wrong_kind(what: str, path: str, expected: str, value: Any) -> ValueError:
    got = type(value).__name__
    return ValueError(f"[Module.{FUNCTION[what]}] {path} should be {expected}, but received invalid type: {got}")


def plan_parameters(module: Any, new: Any, strict: bool) -> Plan:
    """What Module.update does. Training steps go through here twice, so an array for an array takes a short way."""
    plan: Plan = []
    array = mx.array

    def visit(there: Any, new: Any, path: str) -> None:
        if isinstance(new, dict) and isinstance(there, dict):
            pairs = new.items()
            current = there.get
        elif isinstance(new, list) and isinstance(there, list) and len(new) <= len(there):
            pairs = enumerate(new)
            current = there.__getitem__
        else:
            for key, inner, value in places(there, new, path, strict, "parameter"):
                replace(there, key, inner, value)
            return
        for key, value in pairs:
            old = current(key)
            if isinstance(value, array) and isinstance(old, array):
                plan.append((there, key, value))
            elif old is None:
                for place, inner, item in places(there, {key: value}, path, strict, "parameter"):
                    replace(there, place, inner, item)
            else:
                replace(there, key, f"{path}.{key}" if path else str(key), value)

    def replace(there: Any, key: Any, inner: str, value: Any) -> None:
        old = there[key]
        if is_empty(value):
            return
        if isinstance(old, array):
            if not isinstance(value, array):
                raise wrong_kind("parameter", inner, "an array", value)
            plan.append((there, key, value))
        elif isinstance(old, (dict, list)):
            visit(old, value, inner)
        elif strict:
            raise wrong_kind("parameter", inner, f"left out, being a {type(old).__name__}", value)

    visit(module, new, "")
    return plan


def plan_modules(module: Any, new: Any, strict: bool) -> Plan:
    """What Module.update_modules does."""
    from mlxc.nn.layers.base import Module

    plan: Plan = []

    def visit(there: Any, new: Any, path: str) -> None:
        for key, inner, value in places(there, new, path, strict, "sub-module"):
            current = there[key]
            if is_empty(value):
                continue
            if isinstance(current, Module) and isinstance(value, Module):
                plan.append((there, key, value))
            elif isinstance(current, (dict, list)) and not isinstance(value, Module):
                visit(current, value, inner)
            elif strict:
                expected = "a tree of modules" if isinstance(current, (dict, list)) else "left out, being no module"
                raise wrong_kind("sub-module", inner, expected, value)

    visit(module, new, "")
    return plan
