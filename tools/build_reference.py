"""Builds the reference from the docstrings of the installed package, warnings as errors:

    python tools/build_reference.py [--out FOLDER]

Every public name gets its place on exactly one page: by the module that it comes from (docs/reference/pages.toml says
which modules share a page; others get a page of their own, so new names need no entry), or by its kind if it is no
function. Names that a second namespace has too are listed there with a link. A name without a docstring is an error.
The pages are written to FOLDER/source and turned to HTML by Sphinx in FOLDER/html; build/reference by default.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs/reference"
# Values of which equal ones may be one object.
PLAIN = (bool, int, float, str, type(None))


@dataclass
class Name:
    """A public name: its full path, its object, and the full path under which the object is described."""

    path: str
    value: Any
    described_at: str


@dataclass
class Page:
    title: str
    names: list[Name] = field(default_factory=list)


def is_function(value: object) -> bool:
    return inspect.isroutine(value) or type(value).__name__ == "cython_function_or_method"


def public_names(module: ModuleType) -> list[str]:
    """What `from module import *` gives, modules aside."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name in vars(module) if not name.startswith("_")]
    return sorted(name for name in names if not inspect.ismodule(getattr(module, name)))


def public_modules(package: ModuleType, inner: list[str]) -> Iterator[ModuleType]:
    """The package, its public submodules, the modules that those name in __all__, and the named inner ones."""
    yield package
    todo = []
    for name in sorted(package._SUBMODULES):
        try:
            todo.append(importlib.import_module(f"{package.__name__}.{name}"))
        except ModuleNotFoundError as error:
            if error.name != f"{package.__name__}.{name}":
                raise
    while todo:
        module = todo.pop(0)
        yield module
        below = (getattr(module, name) for name in getattr(module, "__all__", ()))
        todo += [value for value in below if inspect.ismodule(value)]
    yield from (importlib.import_module(f"{package.__name__}.{name}") for name in inner)


def home_of(value: Any, sources: dict[str, str], name: str) -> str:
    """The module that a name of the package itself comes from, without the package's name."""
    if name in sources:
        return sources[name]
    module = getattr(value, "__module__", None)
    if is_function(value) and isinstance(module, str) and module.startswith("mlxc."):
        return module.removeprefix("mlxc.")
    if inspect.isclass(value):
        return f"class:{name}"
    return f"instance:{type(value).__name__}"


def source_modules() -> dict[str, str]:
    """For names that the package takes from the __all__ of an inner module: which one."""
    found: dict[str, str] = {}
    for path, module in sorted(sys.modules.items()):
        if path.startswith("mlxc._") and module is not None:
            for name in getattr(module, "__all__", ()):
                found.setdefault(name, path.removeprefix("mlxc."))
    return found


def title_of(home: str) -> str:
    """The title of a page that pages.toml does not know."""
    return home.removeprefix("_ops_").removeprefix("_").replace("_", " ").capitalize()


def collect_pages(settings: dict[str, Any]) -> dict[str, Page]:
    """The pages by file name. Each public name is on one of them, once."""
    package = importlib.import_module("mlxc")
    owners = {home: page for page, entry in settings.items() for home in entry["from"]}
    pages = {page: Page(entry["title"]) for page, entry in settings.items()}
    described: dict[int, str] = {}
    inner = [home for entry in settings.values() for home in entry["from"] if "." in home]
    for module in public_modules(package, inner):
        own = module is package
        sources = source_modules() if own else {}
        # The name that an object has itself comes first, other names refer to it.
        for name in sorted(public_names(module), key=lambda n: (getattr(getattr(module, n), "__name__", n) != n, n)):
            value, path = getattr(module, name), f"{module.__name__}.{name}"
            home = home_of(value, sources, name) if own else module.__name__.removeprefix("mlxc.")
            file = owners.get(home, home.removeprefix("_ops_").strip("_").replace(":", "-").lower())
            page = pages.setdefault(file, Page(title_of(home)))
            at = path if isinstance(value, PLAIN) else described.setdefault(id(value), path)
            page.names.append(Name(path, value, at))
    return {file: page for file, page in pages.items() if page.names}


# ---- writing ----------------------------------------------------------------------------------------


def describe(name: Name) -> list[str]:
    """The lines for a name."""
    module, _, last = name.path.rpartition(".")
    head = [f".. py:data:: {last}", f"   :module: {module}"]
    if name.described_at != name.path:
        kind = "class" if inspect.isclass(name.value) else "func" if is_function(name.value) else "data"
        # A name that another namespace has too would make links to it ambiguous.
        same = name.described_at.rpartition(".")[2] == name.path.rpartition(".")[2]
        hidden = ["   :no-index:"] if same else []
        return [*head, *hidden, "", f"   Another name of :{kind}:`{name.described_at}`.", ""]
    if inspect.isclass(name.value):
        check_docstring(name)
        return [f".. autoclass:: {name.path}", "   :members:", "   :undoc-members:", ""]
    if is_function(name.value):
        check_docstring(name)
        return [f".. autofunction:: {name.path}", ""]
    return [*head, f"   :value: {name.value!r}", ""]


def check_docstring(name: Name) -> None:
    if not (inspect.getdoc(name.value) or "").strip():
        raise SystemExit(f"{name.path} has no docstring")


def write_pages(pages: dict[str, Page], folder: Path) -> None:
    (folder / "pages").mkdir(parents=True)
    for file, page in pages.items():
        lines = [page.title, "=" * len(page.title), ""]
        for name in sorted(page.names, key=lambda n: n.path.lower()):
            lines += describe(name)
        (folder / "pages" / f"{file}.rst").write_text("\n".join(lines), encoding="utf-8")


def read_settings() -> dict[str, Any]:
    return tomllib.loads((SOURCE / "pages.toml").read_text(encoding="utf-8"))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build/reference", help="the folder to write to")
    out = parser.parse_args(argv).out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(SOURCE, out / "source")
    write_pages(collect_pages(read_settings()), out / "source")
    command = ["-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", out / "source", out / "html"]
    # Not from the root of a clone, where `mlxc` would be the source folder.
    return subprocess.run([sys.executable, *command], check=False, cwd=out).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
