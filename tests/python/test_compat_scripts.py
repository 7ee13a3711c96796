"""Programs of users of MLX run unchanged under mlxc.compat and print what they print with MLX.

What they print with MLX 0.32.4 is in mlx_scripts/recorded.json, made by `python FILE` for each file there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parent / "mlx_scripts"
RECORDED = json.loads((SCRIPTS / "recorded.json").read_text())


def differences(got: Any, want: Any, path: str = "") -> list[str]:
    """Where two JSON values differ: floats by more than what rounding in another order makes of a few steps."""
    if isinstance(want, float):
        return [] if got == pytest.approx(want, rel=1e-4, abs=1e-6) else [f"{path}: {got}, MLX has {want}"]
    if isinstance(want, dict) and isinstance(got, dict) and list(got) == list(want):
        return [text for key in want for text in differences(got[key], want[key], f"{path}/{key}")]
    if isinstance(want, list) and isinstance(got, list) and len(got) == len(want):
        return [text for i, pair in enumerate(zip(got, want)) for text in differences(*pair, f"{path}/{i}")]  # noqa: B905
    return [] if got == want else [f"{path}: {got}, MLX has {want}"]


@pytest.mark.parametrize("name", sorted(path.stem for path in SCRIPTS.glob("*.py")))
def test_a_program_prints_what_it_prints_with_mlx(name, tmp_path):
    command = [sys.executable, "-m", "mlxc.compat", str(SCRIPTS / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert differences(json.loads(done.stdout), RECORDED[name]) == []
