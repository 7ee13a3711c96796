"""A process may end while arrays are still being computed, by the library's threads or by daemon threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEAVE_EARLY = """
import threading
import mlxc as mx

x = mx.random.normal((500, 500))
mx.async_eval(x @ x @ x)

def keep_working():
    y = mx.random.normal((300, 300))
    for _ in range(50):
        y = y @ y * 1e-3
        mx.eval(y)

threading.Thread(target=keep_working, daemon=True).start()
"""


@pytest.mark.parametrize("attempt", range(20))
def test_leaving_with_work_under_way_ends_well(attempt: int) -> None:
    result = subprocess.run(
        [sys.executable, "-c", LEAVE_EARLY], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
