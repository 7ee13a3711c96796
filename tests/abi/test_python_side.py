"""Backends as Python sees them: exceptions, `mlxc.info`, and an installation with a damaged library.

Each test runs Python in a process of its own, for backends are loaded once a process.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path

import pytest

import mlxc


@pytest.fixture
def run_python(run_program):
    def run(code: str, check: bool = True, **settings: object):
        return run_program(sys.executable, "-c", textwrap.dedent(code), check=check, **settings)

    return run


@pytest.fixture
def far(build_backend):
    return {"MLXC_BACKEND_PATH": build_backend("far"), "MLXC_FALLBACK": "allow"}


# ---- a third party's device -----------------------------------------------------------------------


def test_gpu_backend_becomes_the_default_device_and_computes(run_python, far):
    run_python(
        """
        import mlxc as mx
        import numpy as np
        assert mx.default_device() == mx.Device(mx.gpu, 0), mx.default_device()
        a = mx.arange(12, dtype=mx.float32).reshape(3, 4)
        got = ((a + 1) * a).T[::-1] @ a
        n = np.arange(12, dtype=np.float32).reshape(3, 4)
        assert np.array_equal(np.array(got), ((n + 1) * n).T[::-1] @ n)
        assert np.allclose(np.array(mx.softmax(a)), np.exp(n) / np.exp(n).sum())
        g = mx.grad(lambda x: (x * x).sum())(a)
        assert np.array_equal(np.array(g), 2 * n)
        """,
        **far,
    )


def test_stream_argument_chooses_the_device(run_python, far):
    run_python(
        """
        import mlxc as mx
        a = mx.array([1.0, 2.0])
        there = mx.add(a, a, stream=mx.gpu)
        here = mx.add(there, a, stream=mx.cpu)
        assert here.tolist() == [3.0, 6.0]
        mx.set_default_device(mx.cpu)
        assert mx.default_device() == mx.Device(mx.cpu, 0)
        """,
        **far,
    )


def test_asynchronous_failure_is_a_runtime_error_and_the_device_recovers(run_python, far):
    run_python(
        """
        import mlxc as mx
        a = mx.array([1.0, 2.0])
        bad = a + a
        for _ in range(2):
            try:
                mx.eval(bad)
            except RuntimeError as error:
                assert "failed on purpose" in str(error)
            else:
                raise AssertionError("no error")
        assert (a + a).tolist() == [2.0, 4.0]
        """,
        FAR_FAIL_OP=1,
        **far,
    )


def test_lack_of_device_memory_is_a_memory_error(run_python, far):
    run_python(
        """
        import mlxc as mx
        try:
            mx.eval(mx.full((1 << 20,), 1.0))
        except MemoryError as error:
            assert "device memory" in str(error)
        else:
            raise AssertionError("no error")
        assert mx.full((4,), 1.0).tolist() == [1.0] * 4
        """,
        FAR_ALLOC_LIMIT=1 << 20,
        **far,
    )


def test_missing_kernel_is_a_type_error_where_fallback_is_forbidden(run_python, far):
    run_python(
        """
        import mlxc as mx
        a = mx.array([1.0, 2.0])
        try:
            mx.eval(mx.sin(a))
        except TypeError as error:
            assert "sin" in str(error) and "far" in str(error) and "float32" in str(error), error
        else:
            raise AssertionError("no error")
        """,
        **(far | {"MLXC_FALLBACK": "error"}),
    )


def test_mlxc_backend_cpu_keeps_the_cpu_the_default(run_python, far):
    run_python(
        """
        import mlxc as mx
        assert mx.default_device() == mx.Device(mx.cpu, 0)
        assert mx.device_count(mx.gpu) == 1
        """,
        MLXC_BACKEND="cpu",
        **far,
    )


# ---- mlxc.info ------------------------------------------------------------------------------------


def test_info_shows_devices_and_their_self_tests(run_program, far):
    output = run_program(sys.executable, "-m", "mlxc.info", **far).stdout
    assert "far device 0" in output
    assert output.count("self test: passed") == 2


def test_info_shows_why_a_backend_was_refused(run_program, build_backend):
    path = build_backend("broken", "NEWER_MINOR")
    output = run_program(sys.executable, "-m", "mlxc.info", MLXC_BACKEND_PATH=path).stdout
    assert str(path) in output
    assert "1.7" in output
    assert "1.0" in output


def test_info_shows_why_there_is_no_device(run_program, build_backend):
    output = run_program(sys.executable, "-m", "mlxc.info", MLXC_BACKEND_PATH=build_backend("null")).stdout
    assert "the null backend has no device unless NULL_DEVICES=1" in output


# ---- a damaged installation -----------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path):
    """A copy of the package's C libraries, and settings that make Python use it."""
    library = Path(mlxc.get_library())
    shutil.copytree(library.parent, tmp_path / "lib", symlinks=True)
    return tmp_path / "lib", {"LD_PRELOAD": tmp_path / "lib" / library.name}


@pytest.mark.parametrize("content", [None, b"killed"])
def test_without_the_cpu_backend_import_works_and_ops_say_what_is_wrong(run_python, run_program, damaged, content):
    folder, settings = damaged
    (path,) = folder.glob("libmlxc_cpu.*")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    run_python(
        """
        import mlxc as mx
        try:
            print(mx.array([1.0]) + 1)
        except OSError as error:
            assert "CPU backend" in str(error), error
        else:
            raise AssertionError("no error")
        """,
        **settings,
    )
    output = run_program(sys.executable, "-m", "mlxc.info", check=False, **settings).stdout
    assert "not loaded" in output
    assert str(path) in output


def test_killed_gpu_backend_leaves_everything_working(run_python, run_program, damaged):
    folder, settings = damaged
    path = folder / "libmlxc_cuda.so"
    path.write_bytes(b"killed")
    run_python(
        """
        import mlxc as mx
        assert (mx.array([1.0]) + 1).tolist() == [2.0]
        assert mx.default_device() == mx.Device(mx.cpu, 0)
        """,
        **settings,
    )
    output = run_program(sys.executable, "-m", "mlxc.info", **settings).stdout
    assert f"file: {path}" in output
    assert "not loaded" in output
