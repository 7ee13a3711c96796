"""C and C++ programs that embed mlxc do what they should, built against the installed package."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import mlxc

DIGITS = Path(__file__).parent.parent / "data" / "digits.txt"


def test_smallest_program_computes_on_a_device_given_by_name(build_program, run_program):
    assert "3 8 15 24 35 48" in run_program(build_program("smallest.c"), "cpu").stdout


def test_smallest_program_computes_on_a_third_partys_device(build_program, build_backend, run_program):
    result = run_program(build_program("smallest.c"), "far", MLXC_BACKEND_PATH=build_backend("far"))
    assert "3 8 15 24 35 48" in result.stdout


def test_unknown_device_name_is_reported(build_program, run_program):
    result = run_program(build_program("smallest.c"), "no such device", check=False)
    assert result.returncode == 2
    assert "no device is called no such device" in result.stderr


def test_logistic_regression_learns_real_digits_without_python(build_program, run_program):
    program = build_program("logistic_regression.c")
    assert "accuracy" in run_program(program, DIGITS).stdout
    linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    assert "libpython" not in linked


def test_programs_are_made_called_and_differentiated(build_program, run_program):
    assert "programs are fine" in run_program(build_program("programs.c")).stdout


def test_a_function_exported_from_python_runs_without_python(build_program, run_program, tmp_path):
    weight = mlxc.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def fun(x, *, scale):
        return mlxc.tanh(x @ weight * scale / 10)[:, ::-1], x.sum(axis=0)

    path, x = tmp_path / "fun.mlxfn", mlxc.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    mlxc.export_function(path, fun, x, scale=mlxc.array(0.0), metadata="a test")
    program = build_program("run_exported.c")
    output = run_program(program, path).stdout
    assert "metadata: a test" in output
    assert "exported program is fine" in output
    values = [float(text) for text in output.splitlines()[1].split()]
    assert values == pytest.approx(fun(x, scale=mlxc.array(0.5))[0].flatten().tolist(), rel=1e-5)
    linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    assert "libpython" not in linked


def test_every_op_is_called_rightly_and_wrongly(build_program, run_program):
    output = run_program(build_program("ops_from_c.c")).stdout
    assert "ops called rightly and wrongly" in output


def test_bad_calls_return_their_documented_errors(build_program, run_program):
    run_program(build_program("bad_calls.c"))


def test_chain_of_a_million_adds_needs_neither_stack_nor_memory(build_program, run_program):
    run_program(build_program("long_chain.c"))


def test_eight_threads_share_arrays_and_streams(build_program, run_program):
    run_program(build_program("threads.c"))


def test_eight_threads_share_arrays_and_streams_of_a_late_device(build_program, build_backend, run_program):
    run_program(
        build_program("threads.c"), 5, MLXC_BACKEND_PATH=build_backend("far"), MLXC_FALLBACK="allow", FAR_DELAY_US=5
    )


def test_evaluation_meets_gradients_threads_streams_and_forks(build_program, run_program):
    run_program(build_program("evaluation.c"))


def test_functions_are_batched_and_values_inside_cannot_be_read(build_program, run_program):
    run_program(build_program("batching.c"))


def test_functions_have_rules_of_their_own_and_contexts_are_released_once(build_program, run_program):
    run_program(build_program("custom.c"))


def test_control_flow_is_recorded_and_differentiated(build_program, run_program):
    run_program(build_program("control_flow.c"))


def test_cxx_program_wraps_the_library_in_values(build_program, run_program):
    assert mlxc.__version__ in run_program(build_program("embed.cc")).stdout


def test_pkg_config_names_headers_and_library(build_program, run_program, tmp_path):
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    build_program("smallest.c")
    folder = Path(mlxc.get_library()).parent / "pkgconfig"
    flags = run_program("pkg-config", "--cflags", "--libs", "mlxc", PKG_CONFIG_PATH=folder).stdout.split()
    source = Path(__file__).parent / "programs" / "smallest.c"
    run_program("cc", "-std=c11", source, *flags, "-o", tmp_path / "smallest")
    run_program(tmp_path / "smallest")
