"""What the installed libraries export: libmlxc every function of its headers and nothing but mlxc_ names, a
backend library its entry alone."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import mlxc

HEADERS = ["types.h", "device.h", "array.h", "transform.h", "control.h", "kernel.h", "random.h", "program.h", "ops.h"]


def exported_names(library: Path) -> set[str]:
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    command = ["nm", "-gU"] if library.suffix == ".dylib" else ["nm", "-D", "--defined-only"]
    lines = subprocess.run([*command, str(library)], capture_output=True, text=True, check=True).stdout.splitlines()
    names = {line.split()[-1].split("@")[0] for line in lines if line.strip()}
    return {name.removeprefix("_") for name in names} if library.suffix == ".dylib" else names


def declared_names() -> set[str]:
    folder = Path(mlxc.get_include()) / "mlxc"
    text = "".join((folder / header).read_text(encoding="utf-8") for header in HEADERS)
    return set(re.findall(r"MLXC_API[^;(]*?\b(mlxc_\w+)\(", text))


def test_core_exports_only_mlxc_names():
    assert {name for name in exported_names(Path(mlxc.get_library())) if not name.startswith("mlxc_")} == set()


def test_core_exports_every_function_that_the_headers_declare():
    assert declared_names() - exported_names(Path(mlxc.get_library())) == set()


def test_core_exports_no_function_that_the_headers_do_not_declare():
    assert exported_names(Path(mlxc.get_library())) - declared_names() == set()


def test_backend_libraries_export_their_entry_alone():
    libraries = [path for path in Path(mlxc.get_library()).parent.glob("libmlxc_*") if path.is_file()]
    assert libraries
    assert {path.name: exported_names(path) for path in libraries} == {
        path.name: {"mlxc_backend_entry"} for path in libraries
    }
