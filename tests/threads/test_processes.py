"""Forks and signals: a child process computes or raises, Ctrl-C ends a long wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

FORK = """
import os, sys
import mlxc as mx
x = mx.random.normal((300, 300))
mx.eval(x @ x, mx.sum(mx.ones((3_000_000,))))
mx.async_eval(x + 1)
child = os.fork()
if child == 0:
    y = mx.ones((300, 300)) @ mx.ones((300, 300))
    ok = y[0, 0].item() == 300.0 and mx.sum(mx.ones((3_000_000,))).item() == 3e6
    z = mx.ones(3) * 2
    mx.async_eval(z)
    ok = ok and z.tolist() == [2, 2, 2]
    os._exit(0 if ok else 7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert (x[0] * 0).tolist() == [0.0] * 300
"""


def test_forked_child_computes_and_so_does_its_parent():
    for _ in range(3):
        result = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, result.stderr


LONG = """
import signal
import mlxc as mx
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
x = mx.ones((1500, 1500))
y = x
for _ in range(2000):
    y = (y @ x) * 1e-3
print("started", flush=True)
try:
    mx.eval(y)
except KeyboardInterrupt:
    print("interrupted", (mx.ones(2) + 1).tolist(), flush=True)
"""


def test_interrupt_ends_a_long_evaluation_and_leaves_the_library_usable():
    process = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "started"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    output, _ = process.communicate(timeout=60)
    assert "interrupted [2.0, 2.0]" in output
    assert time.monotonic() - start < 10
