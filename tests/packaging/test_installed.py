"""What an installed package brings, and what importing it costs."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import mlxc


def run_python(code: str, *flags: str) -> str:
    result = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_headers_library_and_op_table_are_installed_together():
    include = Path(mlxc.get_include()) / "mlxc"
    names = {path.name for path in include.iterdir()}
    assert {"mlxc.h", "types.h", "array.h", "device.h", "transform.h", "backend.h", "ops.h", "ops.toml"} <= names
    library = Path(mlxc.get_library())
    assert library.is_file()
    if library.parent.name == "core":
        pytest.skip("an editable install has no pkg-config file")
    assert (library.parent / "pkgconfig" / "mlxc.pc").is_file()


def test_version_is_the_same_in_python_c_and_metadata():
    assert mlxc.__version__ == importlib.metadata.version("mlxc")


def test_import_brings_neither_numpy_nor_other_packages():
    names = ("numpy", "scipy", "matplotlib", "importlib.metadata")
    code = f"import sys, mlxc; print([n for n in {names} if n in sys.modules])"
    assert run_python(code).strip() == "[]"


def test_info_names_backend_device_and_passes_its_self_test():
    result = subprocess.run([sys.executable, "-m", "mlxc.info"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "cpu" in result.stdout and "self test: passed" in result.stdout


def test_library_prints_nothing():
    code = """
import mlxc as mx
try:
    mx.ones((2, 3)) @ mx.ones((2, 3))
except ValueError:
    pass
mx.eval(mx.ones(3) + 1)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="how thread-local variables are placed on Linux")
def test_import_works_after_another_library_has_used_the_variables_of_libstdcxx():
    # After that they are outside of the static block, as they are after `import torch`.
    code = """
import ctypes
try:
    ctypes.c_void_p.in_dll(ctypes.CDLL("libstdc++.so.6"), "_ZSt15__once_callable").value
except OSError:
    pass
import mlxc as mx
print(mx.ones(3).sum().item())
"""
    assert run_python(code).strip() == "3.0"
