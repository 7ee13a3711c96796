"""Checks the type stubs against the installed package and against a sample program. Run by the tests:

    python tools/check_types.py

mypy's stubtest compares every stub with what is there at run time; mypy in strict mode reads
tests/python/typed_sample.py. Ends with status 1 and their complaints. Needs mypy.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Modules in plain Python are their own stubs; the compiled ones are private.
STUBTEST_CONFIG = """
[mypy]
ignore_errors = True
ignore_missing_imports = True
[mypy-mlxc]
ignore_errors = False
"""
SAMPLE_CONFIG = """
[mypy]
strict = True
[mypy-mlxc.*]
ignore_errors = True
ignore_missing_imports = True
follow_imports = silent
"""
# What stubtest must not complain of, and why.
ALLOWED = r"""
# Plain Python modules, which have no stub.
mlxc\.(?!({stubs})\b)[a-z_]+\..*
mlxc\._.*
# Constants that cannot be made: their constructors only raise.
mlxc\.[A-Za-z]+\.__init__
# Free functions as methods: what is self in a method is `a` in the function.
mlxc\.array\.[a-z0-9]+
# Overloads: with one argument the others are left out.
mlxc\.where
"""


def run(folder: Path, config: str, *args: str) -> int:
    """mypy, away from the source folder, where `mlxc` would be the package without its libraries."""
    file = folder / f"{args[0]}.ini"
    file.write_text(config, encoding="utf-8")
    flag = "--mypy-config-file" if args[0] == "mypy.stubtest" else "--config-file"
    command = [sys.executable, "-m", *args, flag, str(file)]
    environment = os.environ | {"MYPYPATH": str(folder / "stubs")}
    return subprocess.run(command, cwd=folder, check=False, env=environment).returncode


def copy_stubs(folder: Path) -> None:
    """The Python files of the installed package, with the stubs of this clone, which may be newer."""
    package = Path(importlib.util.find_spec("mlxc").origin).parent
    shutil.copytree(package, folder, ignore=lambda _, names: [n for n in names if "." in n and not n.endswith(".py")])
    for stub in (ROOT / "mlxc").rglob("*.pyi"):
        shutil.copy(stub, folder / stub.relative_to(ROOT / "mlxc"))


def main(argv: list[str]) -> int:
    if argv:
        print(__doc__, file=sys.stderr)
        return 2
    if importlib.util.find_spec("mypy") is None:
        print("mypy is not installed", file=sys.stderr)
        return 2
    modules = [stub.stem for stub in (ROOT / "mlxc").glob("*.pyi") if stub.stem != "__init__"]
    config = STUBTEST_CONFIG + "".join(f"[mypy-mlxc.{module}]\nignore_errors = False\n" for module in modules)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_stubs(folder / "stubs" / "mlxc")
        (folder / "allowed").write_text(ALLOWED.format(stubs="|".join(modules)), encoding="utf-8")
        options = ("--concise", "--ignore-disjoint-bases", "--ignore-unused-allowlist", "--allowlist", "allowed")
        stubs = run(folder, config, "mypy.stubtest", "mlxc", *options)
        sample = run(folder, SAMPLE_CONFIG, "mypy", str(ROOT / "tests/python/typed_sample.py"))
    return 1 if stubs or sample else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
