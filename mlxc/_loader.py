"""Finds the Cython modules of this package, which are all in one shared library, `_core`.

One library instead of thirty makes `import mlxc` twice as fast and the wheel smaller. Each module has its own
PyInit function in it, so Python's own loader does the rest. `mlxc/__init__.py` imports this first; that is enough.
"""

import os
import sys

# What importlib.machinery exports, without the time that importing it takes.
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader


class CoreFinder:
    """A name `mlxc._something` that no other finder knows, being no file, is a module inside `_core`."""

    def __init__(self, path: list[str]) -> None:
        self.path = path
        self.core = ""

    def find_core(self) -> str:
        """The file of `_core`, asked of the same finders that `import` asks (editable installs have their own)."""
        for finder in sys.meta_path:
            spec = finder.find_spec("mlxc._core", self.path) if finder is not self else None
            if spec is not None and spec.origin:
                return spec.origin
        raise ImportError(f"mlxc was installed without its compiled modules: no _core library in {self.path}")

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A spec that loads the module out of `_core`."""
        if not name.startswith("mlxc._") or name.count(".") != 1 or name == "mlxc._core":
            return None
        self.core = self.core or self.find_core()
        return ModuleSpec(name, ExtensionFileLoader(name, self.core), origin=self.core)


def has_core(folder: str) -> bool:
    return os.path.isdir(folder) and any(name.startswith("_core.") for name in os.listdir(folder))


def leave_source_folder() -> None:
    """In the root of a clone Python finds the source folder before the installed package; the latter is meant."""
    package = sys.modules["mlxc"]
    here = package.__path__[0]
    if len(package.__path__) != 1 or has_core(here) or not os.path.exists(os.path.join(here, "_capi.pxd")):
        return
    for folder in sys.path:
        installed = os.path.join(os.path.abspath(folder), "mlxc")
        if installed != here and has_core(installed):
            package.__path__[:] = [installed]
            package.__file__ = os.path.join(installed, "__init__.py")
            return


leave_source_folder()
sys.meta_path.append(CoreFinder(list(sys.modules["mlxc"].__path__)))
