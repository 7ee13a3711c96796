"""User kernels: what a body finds, what a call checks, and what a wrong source says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import mlxc as mx

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")), reason="no C++ compiler"
)


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    os.environ["MLXC_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield
    del os.environ["MLXC_CACHE_DIR"]


def run(kernel, *inputs, shape, dtype=mx.float32, grid=None, **rest):
    grid = grid or (int(np.prod(shape)) or 1, 1, 1)
    return kernel(inputs=inputs, output_shapes=[shape], output_dtypes=[dtype], grid=grid, **rest)[0]


SQUARE = mx.fast.kernel("square", ["a"], ["out"], cpu="const auto i = thread_position_in_grid.x; out[i] = a[i] * a[i];")


def test_a_body_runs_once_for_each_point():
    a = mx.arange(100000, dtype=mx.float32)
    np.testing.assert_array_equal(run(SQUARE, a, shape=a.shape), np.arange(100000, dtype=np.float32) ** 2)


def test_points_have_three_coordinates_in_row_major_order():
    kernel = mx.fast.kernel(
        "points",
        [],
        ["out"],
        cpu="""const auto p = thread_position_in_grid; const auto n = threads_per_grid;
               out[(p.z * n.y + p.y) * n.x + p.x] = p.x + 10 * p.y + 100 * p.z;""",
    )
    expected = np.arange(3) + 10 * np.arange(4)[:, None] + 100 * np.arange(5)[:, None, None]
    np.testing.assert_array_equal(run(kernel, shape=(5, 4, 3), dtype=mx.int32, grid=(3, 4, 5)), expected)


@pytest.mark.parametrize("name", ["int8", "uint64", "float16", "bfloat16", "float32", "float64", "complex64"])
def test_every_kind_of_element_is_computed_with(name):
    dtype = getattr(mx, name)
    a = mx.array([-3, -1, 0, 2, 5]).astype(dtype)
    assert mx.array_equal(run(SQUARE, a, shape=a.shape, dtype=dtype), a * a)


def test_half_precision_converts_as_casts_do():
    kernel = mx.fast.kernel(
        "halve", ["a"], ["out"], cpu="const auto i = thread_position_in_grid.x; out[i] = float(a[i]);"
    )
    values = np.concatenate([np.random.default_rng(1).normal(0, s, 2000) for s in (1e-8, 1e-5, 1, 7e4)])
    values = mx.array(np.concatenate([values, [np.inf, -np.inf, np.nan, 65519.0, 65520.0, -0.0]]).astype(np.float32))
    for dtype in (mx.float16, mx.bfloat16):
        half = run(kernel, values, shape=values.shape, dtype=dtype)
        np.testing.assert_array_equal(
            np.array(half.astype(mx.float32)), np.array(values.astype(dtype).astype(mx.float32))
        )
        np.testing.assert_array_equal(
            np.array(run(kernel, half, shape=values.shape)), np.array(half.astype(mx.float32))
        )


def test_single_numbers_are_given_as_such():
    kernel = mx.fast.kernel("shift", ["a", "by"], ["out"], cpu="out[thread_position_in_grid.x] = a[0] + by;")
    assert run(kernel, mx.array([1.0]), 2.5, shape=(1,)).item() == 3.5


def test_strides_are_followed_where_no_copy_is_wanted():
    body = """const auto p = thread_position_in_grid;
              out[p.y * threads_per_grid.x + p.x] = a[p.y * a_strides[0] + p.x * a_strides[1]];"""
    a = mx.arange(12).reshape(3, 4).T
    for contiguous in (True, False):
        kernel = mx.fast.kernel("copy", ["a"], ["out"], cpu=body, ensure_row_contiguous=contiguous)
        assert mx.array_equal(run(kernel, a, shape=(4, 3), dtype=mx.int32, grid=(3, 4, 1)), a)


def test_template_arguments_are_constants_and_types():
    kernel = mx.fast.kernel(
        "fill",
        [],
        ["out"],
        cpu="out[thread_position_in_grid.x] = T(DOUBLED ? 2 * N : N);",
    )
    for doubled, expected in ((False, 7), (True, 14)):
        made = run(kernel, shape=(2,), template=[("T", mx.float32), ("N", 7), ("DOUBLED", doubled)])
        assert made.tolist() == [expected, expected]


def test_points_add_to_one_element_atomically():
    kernel = mx.fast.kernel(
        "total", ["a"], ["out"], cpu="atomic_add(out, a[thread_position_in_grid.x]);", atomic_outputs=True
    )
    a = mx.ones(200000, dtype=mx.int32)
    assert run(kernel, a, shape=(), dtype=mx.int32, grid=(a.size, 1, 1), init_value=0).item() == a.size


def test_outputs_begin_with_the_value_asked_for():
    kernel = mx.fast.kernel("some", [], ["out"], cpu="out[2 * thread_position_in_grid.x] = 1;")
    assert run(kernel, shape=(6,), grid=(3, 1, 1), init_value=-2).tolist() == [1, -2, 1, -2, 1, -2]


def test_a_kernel_has_several_outputs_and_a_header():
    kernel = mx.fast.kernel(
        "both",
        ["a"],
        ["low", "high"],
        header="static float twice(float x) { return 2 * x; }",
        cpu="const auto i = thread_position_in_grid.x; low[i] = a[i] - 1; high[i] = twice(a[i]);",
    )
    low, high = kernel(
        inputs=[mx.array([1.0, 2.0])], output_shapes=[(2,), (2,)], output_dtypes=[mx.float32, mx.int32], grid=(2, 1, 1)
    )
    assert (low.tolist(), high.tolist()) == ([0, 1], [2, 4])


def test_a_source_that_does_not_compile_says_why():
    kernel = mx.fast.kernel("wrong", ["a"], ["out"], cpu="out[0] = undeclared_name;")
    with pytest.raises(ValueError, match=r"(?s)wrong: the user kernel does not compile.*undeclared_name"):
        mx.eval(run(kernel, mx.ones(1), shape=(1,)))
    assert run(SQUARE, mx.array([3.0]), shape=(1,)).item() == 9


def test_a_kernel_without_a_source_for_the_device_is_refused():
    kernel = mx.fast.metal_kernel("shine", ["a"], ["out"], "out[0] = a[0];")
    with pytest.raises(TypeError, match=r"shine.*no source for the cpu backend.*metal"):
        run(kernel, mx.ones(1), shape=(1,), stream=mx.cpu)


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"inputs": []}, ValueError, "takes 1 input"),
        ({"output_shapes": []}, ValueError, "1 output"),
        ({"output_shapes": [(-1,)]}, ValueError, "square"),
        ({"grid": (1, 1)}, ValueError, "three sizes"),
        ({"grid": (0, 1, 1)}, ValueError, "grid"),
        ({"template": [("N", 1.5)]}, TypeError, "template argument N"),
        ({"template": [("a", 1)]}, ValueError, "given twice"),
        ({"template": [("not a name", 1)]}, ValueError, "no identifier"),
    ],
)
def test_wrong_calls_are_refused(change, error, words):
    right = {"inputs": [mx.ones(1)], "output_shapes": [(1,)], "output_dtypes": [mx.float32], "grid": (1, 1, 1)}
    with pytest.raises(error, match=words):
        SQUARE(**(right | change))


@pytest.mark.parametrize(
    "arguments, error",
    [
        ((("two words", ["a"], ["out"]), {"cpu": ""}), ValueError),
        ((("k", ["a", "a"], ["out"]), {"cpu": ""}), ValueError),
        ((("k", ["a"], []), {"cpu": ""}), ValueError),
        ((("k", ["a"], ["out"]), {}), ValueError),
        ((("k", "a", ["out"]), {"cpu": ""}), TypeError),
        ((("k", ["a"], ["out"]), {"cpu": 3}), TypeError),
    ],
)
def test_wrong_kernels_are_refused(arguments, error):
    with pytest.raises(error):
        mx.fast.kernel(*arguments[0], **arguments[1])


def test_a_custom_function_gives_a_kernel_its_gradient():
    @mx.custom_function
    def square(a):
        return run(SQUARE, a, shape=a.shape)

    @square.vjp
    def square_vjp(primals, cotangent, output):
        return 2 * primals * cotangent

    gradient = mx.grad(lambda a: square(a).sum())(mx.array([1.0, 2.0]))
    assert gradient.tolist() == [2, 4]


@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap"])
def test_transforms_of_a_kernel_without_rules_are_refused(transform):
    def square(a):
        return run(SQUARE, a, shape=a.shape)

    a = mx.array([1.0, 2.0])
    calls = {
        "grad": lambda: mx.grad(lambda a: square(a).sum())(a),
        "jvp": lambda: mx.jvp(square, [a], [a]),
        "vmap": lambda: mx.vmap(square)(mx.stack([a, a])),
    }
    with pytest.raises(ValueError, match=r"square: a user kernel has no .* custom_function"):
        calls[transform]()


def test_threads_share_a_kernel():
    kernel = mx.fast.kernel(
        "cube", ["a"], ["out"], cpu="const auto i = thread_position_in_grid.x; out[i] = a[i] * a[i] * a[i];"
    )
    results = []

    def work(value):
        results.append(run(kernel, mx.array([value]), shape=(1,)).item() == value**3)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8


def test_what_was_compiled_once_needs_no_compiler_again(tmp_path):
    code = """
import mlxc as mx
k = mx.fast.kernel("keep", ["a"], ["out"], cpu="out[0] = a[0] + 1;")
print(k(inputs=[mx.ones(1)], output_shapes=[(1,)], output_dtypes=[mx.float32], grid=(1, 1, 1))[0].item())
"""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    counting = tmp_path / "counting-c++"
    counting.write_text(f'#!/bin/sh\necho call "$@" >> {tmp_path}/calls\nexec {compiler} "$@"\n')
    counting.chmod(0o755)
    environment = {**os.environ, "MLXC_CACHE_DIR": str(tmp_path / "cache"), "CXX": str(counting)}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "2.0"
    compiled = [line for line in (tmp_path / "calls").read_text().splitlines() if "-shared" in line]
    assert len(compiled) == 1
