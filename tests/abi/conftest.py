"""Builds the C and C++ programs and the test backends against the installed package, once a session.

Used by the tests of this folder as fixtures. Everything is compiled as a user would: with the headers of
mlxc.get_include() and the library of mlxc.get_library(), warnings being errors. Only a machine without a
compiler skips.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mlxc

HERE = Path(__file__).parent
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
BACKENDS = {
    "null": ["null_backend.c"],
    "older": ["older_backend.c"],
    "far": ["far_backend.c", "far_bytes.c", "far_kernels.c", "far_memory.c", "far_stream.c"],
}


def find_compiler(*names: str) -> str:
    for name in names:
        path = shutil.which(os.environ.get("CC" if "cc" in names else "CXX", name)) or shutil.which(name)
        if path:
            return path
    pytest.skip(f"none of {', '.join(names)} is installed")


def run_compiler(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stderr}"


def compile_program(source: Path, program: Path) -> Path:
    """Compiles a C or C++ file and links it with the installed libmlxc."""
    library = Path(mlxc.get_library())
    is_c = source.suffix == ".c"
    compiler = find_compiler("cc", "gcc", "clang") if is_c else find_compiler("c++", "g++", "clang++")
    flags = ["-std=c11" if is_c else "-std=c++20", "-O1", *WARNINGS, "-pthread"]
    includes = [f"-I{mlxc.get_include()}", f"-I{HERE / 'programs'}"]
    link = [str(library), f"-Wl,-rpath,{library.parent}"]
    run_compiler([compiler, *flags, *includes, str(source), "-o", str(program), *link])
    return program


@pytest.fixture(scope="session")
def build_program(tmp_path_factory) -> Callable[[str], Path]:
    """Builds programs/NAME; returns the program's path."""
    folder = tmp_path_factory.mktemp("programs")
    built: dict[str, Path] = {}

    def build(name: str) -> Path:
        if name not in built:
            built[name] = compile_program(HERE / "programs" / name, folder / Path(name).stem)
        return built[name]

    return build


@pytest.fixture
def run_compiler_on(tmp_path) -> Callable[[str], Path]:
    """Builds a program from the text of a C file; returns the program's path."""

    def build(text: str) -> Path:
        source = tmp_path / "generated.c"
        source.write_text(text, encoding="utf-8")
        return compile_program(source, tmp_path / "generated")

    return build


@pytest.fixture(scope="session")
def build_backend(tmp_path_factory) -> Callable[..., Path]:
    """Compiles a test backend into a shared library; `fault` names what is wrong with broken_backend.c."""
    folder = tmp_path_factory.mktemp("backends")
    built: dict[str, Path] = {}

    def build(name: str, fault: str = "") -> Path:
        key = name + fault
        if key not in built:
            sources = ["broken_backend.c"] if fault else BACKENDS[name]
            library = folder / f"{key}.so"
            flags = ["-std=c11", "-O1", *WARNINGS, "-fvisibility=hidden", "-fPIC", "-shared", "-pthread"]
            defines = ["-DMLXC_BUILDING_BACKEND", *([f"-DBROKEN={fault}"] if fault else [])]
            files = [str(HERE / "backends" / source) for source in sources]
            compiler = find_compiler("cc", "gcc", "clang")
            run_compiler([compiler, *flags, *defines, f"-I{mlxc.get_include()}", *files, "-o", str(library)])
            built[key] = library
        return built[key]

    return build


@pytest.fixture
def run_program() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command with settings added to the environment and none of the caller's own MLXC_ ones."""

    def run(*command: object, check: bool = True, **settings: object) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("MLXC_", "FAR_", "NULL_"))}
        environment |= {key: str(value) for key, value in settings.items()}
        result = subprocess.run(
            [str(part) for part in command], env=environment, capture_output=True, text=True, timeout=280, check=False
        )
        if check:
            words = f"exit {result.returncode}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
            assert result.returncode == 0, f"{' '.join(str(part) for part in command)}: {words}"
        return result

    return run
