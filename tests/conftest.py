"""Fixtures for tests of every folder: real weights and data in pinned packages, which examples/packages.py fetches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = str(Path(__file__).resolve().parents[1] / "examples")
if EXAMPLES not in sys.path:
    sys.path.insert(0, EXAMPLES)


@pytest.fixture(scope="session")
def fetch_package() -> Callable[[str], Path]:
    """Gives the path of a package's file. Without network the test is skipped, but under CI=true it fails."""
    import packages

    def fetch(name: str) -> Path:
        try:
            return packages.fetch(name)
        except packages.PackageUnavailableError as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(str(error))

    return fetch
