"""The names of MLX for this package: after install(), `import mlx.core as mx` gives mlxc.

Called by programs that were written for MLX, or by __main__.py for those that are to run unchanged:

    python -m mlxc.compat SCRIPT [ARGS]

A finder answers imports of `mlx` and its submodules, before a real MLX that may be installed. Each name becomes
another name of the same module object, so classes, settings and caches are one. What this package does not have is an
ordinary ModuleNotFoundError.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

__all__ = ["install"]

# The namespaces of mlx.core; mlxc has other submodules, which mlx.core must not seem to have.
CORE = ("random", "linalg", "fft", "fast", "metal", "cuda", "distributed")
PACKAGES = ("nn", "optimizers", "utils")


def translate(name: str) -> str | None:
    """The module of this package that stands for a module of MLX, None where there is none by that name."""
    first, *rest = name.split(".")
    if first != "mlx" or not rest:
        return None
    if rest[0] == "core":
        if len(rest) > 2 or (len(rest) == 2 and rest[1] not in CORE):
            return None
        return ".".join(["mlxc", *rest[1:]])
    return ".".join(["mlxc", *rest]) if rest[0] in PACKAGES else None


class AliasLoader:
    """Gives a module that exists under another name, and leaves it as it is."""

    def __init__(self, target: str) -> None:
        self.target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        __import__(self.target)
        module = sys.modules[self.target]
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just given the module the spec of its alias.
        alias = module.__spec__
        if alias is not None and alias.loader is self:
            module.__spec__ = alias.loader_state


def load_part(name: str) -> ModuleType:
    """`mlx.core` without an import of its own: MLX's other packages bring it along."""
    if name not in ("core", *PACKAGES):
        raise AttributeError(f"module 'mlx' has no attribute {name!r}")
    try:
        return import_module(f"mlx.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(f"module 'mlx' has no attribute {name!r}: {error}") from None


class RootLoader:
    """Makes the package `mlx`, which is empty but for its submodules."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = "Another name for mlxc, made by mlxc.compat."
        module.__dict__["__getattr__"] = load_part


class Finder:
    """Answers imports of mlx and what is below it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "mlx":
            spec = ModuleSpec(name, RootLoader(), is_package=True)
            spec.submodule_search_locations = []
            return spec
        mine = translate(name)
        if mine is None and name.startswith("mlx.core."):
            # The next finder would look where mlxc's own submodules are, and load one a second time.
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if mine is None or find_spec(mine) is None:
            return None
        return ModuleSpec(name, AliasLoader(mine))


_FINDER = Finder()


def install() -> None:
    """Makes `mlx`, `mlx.core`, `mlx.nn`, `mlx.optimizers` and `mlx.utils` names of this package in this process.

    Does nothing the second time. Other processes that the program starts need a call of their own.

    Raises:
        RuntimeError: if a real MLX is imported already; nothing can be exchanged then.

    Example:
        >>> import mlxc.compat
        >>> mlxc.compat.install()
        >>> import mlx.core
        >>> mlx.core is mlxc
        True
    """
    if _FINDER in sys.meta_path:
        return
    if real := sorted(name for name in sys.modules if name == "mlx" or name.startswith("mlx.")):
        where = getattr(sys.modules[real[0]], "__path__", None)
        raise RuntimeError(
            f"[compat.install] {', '.join(real[:3])} is imported already, from {where and list(where)}: call install() "
            f"before anything imports mlx"
        )
    sys.meta_path.insert(0, _FINDER)
