"""Guard bytes round every buffer: no kernel writes outside of its output, and the guard would notice.

libmlxc reads MLXC_GUARD when it starts, so these run in processes of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys

WRITE_BEHIND_A_BUFFER = """
import ctypes, gc
import numpy as np
import mlxc as mx
from mlxc.testing import find_overrun

x = mx.array(np.arange(5, dtype=np.uint8))
mx.eval(x)
first = np.array(x, copy=False).ctypes.data
assert find_overrun() is None
ctypes.memset(first + {offset}, 0, 1)
del x
gc.collect()
print(find_overrun())
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MLXC_GUARD": "1"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=280, check=False
    )


def test_a_byte_written_behind_a_buffer_is_found() -> None:
    result = run("-c", WRITE_BEHIND_A_BUFFER.format(offset=5))
    assert result.returncode == 0, result.stderr
    assert "outside a buffer of 5 bytes" in result.stdout


def test_a_byte_written_before_a_buffer_is_found() -> None:
    result = run("-c", WRITE_BEHIND_A_BUFFER.format(offset=-1))
    assert result.returncode == 0, result.stderr
    assert "outside a buffer of 5 bytes" in result.stdout


def test_no_kernel_writes_outside_of_its_output() -> None:
    result = run("-m", "mlxc.testing", "--no-gradients", "--dtypes", "uint8", "bfloat16", "float32", "complex128")
    assert "memory guard" not in result.stdout, result.stdout
    assert "checks of" in result.stdout, result.stdout + result.stderr
