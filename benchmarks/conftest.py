"""Fixtures of the benchmark suites: an empty Cython function, and a place to keep what was measured."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="session")
def empty_call(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """empty_call.pyx, compiled: what any call from Python into C costs at least."""
    folder = tmp_path_factory.mktemp("empty_call")
    source = folder / "empty_call.c"
    library = folder / f"empty_call{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run([sys.executable, "-m", "cython", "-3", HERE / "empty_call.pyx", "-o", source], check=True)
    compiler = sysconfig.get_config_var("LDSHARED").split()
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run([*compiler, "-O2", "-fPIC", include, source, "-o", library], check=True)
    spec = importlib.util.spec_from_file_location("empty_call", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def keep(benchmark) -> Callable[[dict[str, float], float], None]:
    """keep(seconds, ratio): stores the medians in the benchmark's record and prints them."""

    def store(seconds: dict[str, float], ratio: float) -> None:
        benchmark.extra_info.update({name: f"{s * 1e6:.3f} us" for name, s in seconds.items()}, ratio=round(ratio, 3))
        shown = ", ".join(f"{name} {s * 1e6:.3f} us" for name, s in seconds.items())
        print(f"\n    {benchmark.name}: {shown}; ratio {ratio:.2f}")

    return store
