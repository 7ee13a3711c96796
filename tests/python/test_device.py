"""Devices, streams and memory statistics; the info report; plug-ins from entry points; paths for embedders."""

import os
import subprocess
import sys
import threading

import pytest

import mlxc as mx


def test_devices_compare_and_print():
    assert mx.Device(mx.cpu) == mx.cpu and mx.Device(mx.cpu, 1) != mx.cpu and mx.cpu != mx.gpu
    assert repr(mx.Device(mx.cpu)) == "Device(cpu, 0)" and repr(mx.cpu) == "DeviceType.cpu"
    assert mx.Device(mx.gpu, 2).type is mx.gpu and mx.Device(mx.gpu, 2).index == 2 and mx.DeviceType.cpu is mx.cpu
    assert len({mx.Device(mx.cpu), mx.Device(mx.cpu), mx.Device(mx.cpu, 1)}) == 2
    with pytest.raises(TypeError):
        mx.Device("cpu")
    with pytest.raises(ValueError):
        mx.Device(mx.cpu, -1)


def test_the_cpu_is_always_there():
    assert mx.is_available(mx.cpu) and mx.device_count(mx.cpu) >= 1 and not mx.is_available(mx.Device(mx.cpu, 99))
    facts = mx.device_info(mx.cpu)
    assert facts["backend"] == "cpu" and facts["memory_size"] > 0 and facts["device_name"]
    with pytest.raises(ValueError):
        mx.device_info(mx.Device(mx.cpu, 99))
    with pytest.raises(ValueError):
        mx.set_default_device(mx.Device(mx.cpu, 99))


def test_streams_run_work_and_are_restored_after_a_context():
    before = mx.default_stream(mx.default_device())
    stream = mx.new_stream(mx.cpu)
    assert stream.device == mx.cpu and stream != before and stream in {stream}
    with mx.stream(stream):
        assert mx.default_device() == mx.cpu
        a = mx.ones(3) + 1
        with mx.stream(mx.cpu):
            b = a * 2
        c = b + 1
    assert c.tolist() == [5, 5, 5] and mx.default_stream(mx.default_device()) == before
    assert mx.add(c, 1, stream=stream).tolist() == [6, 6, 6] and mx.add(c, 1, stream=mx.cpu).tolist() == [6, 6, 6]
    mx.synchronize(stream)
    mx.synchronize()
    with pytest.raises(TypeError):
        mx.add(c, 1, stream="cpu 0")
    with pytest.raises(TypeError):
        mx.stream(3)


def test_a_stream_context_is_restored_after_an_exception():
    before = mx.default_stream(mx.default_device())
    with pytest.raises(KeyError), mx.stream(mx.new_stream(mx.cpu)):
        raise KeyError
    assert mx.default_stream(mx.default_device()) == before


def test_thread_local_streams_differ_between_threads():
    local = mx.new_thread_local_stream(mx.cpu)
    seen = []

    def work():
        with mx.stream(local):
            seen.append(mx.default_stream(mx.cpu))
            seen.append((mx.ones(2) + 1).tolist())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    streams = [s for s in seen if isinstance(s, mx.Stream)]
    assert len(set(streams)) == 3 and seen.count([2, 2]) == 3
    mx.clear_streams()


def test_memory_statistics_follow_arrays():
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    a = mx.ones((1000, 1000)) + 1
    mx.eval(a)
    assert mx.get_active_memory() >= before + 4_000_000 and mx.get_peak_memory() >= before + 4_000_000
    assert mx.get_array_buffer_size(a) >= 4_000_000 and mx.get_array_buffer_size(
        [a, {"x": (a,)}]
    ) == mx.get_array_buffer_size(a)
    del a
    assert mx.get_active_memory() < before + 1_000_000
    mx.clear_cache()
    assert mx.get_cache_memory() == 0


def test_memory_limits_return_the_old_value():
    old = mx.set_cache_limit(1_000_000)
    try:
        assert mx.set_cache_limit(2_000_000) == 1_000_000
    finally:
        mx.set_cache_limit(old)
    old = mx.set_memory_limit(1 << 40)
    try:
        assert mx.get_memory_limit() == 1 << 40
    finally:
        mx.set_memory_limit(old)
    for f in (mx.set_cache_limit, mx.set_memory_limit):
        with pytest.raises(ValueError):
            f(-1)


def test_info_reports_backends_and_tests_devices():
    run = subprocess.run([sys.executable, "-m", "mlxc.info"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    for words in (f"mlxc {mx.__version__}", "cpu", "self test: passed", "default device"):
        assert words in run.stdout


def test_info_shows_why_a_backend_was_not_loaded(tmp_path):
    broken = tmp_path / "libbroken.so"
    broken.write_text("no library")
    env = {**os.environ, "MLXC_BACKEND_PATH": str(broken)}
    run = subprocess.run([sys.executable, "-m", "mlxc.info"], capture_output=True, text=True, check=False, env=env)
    assert run.returncode == 0 and str(broken) in run.stdout and "not loaded" in run.stdout and "loader:" in run.stdout


def test_entry_points_that_fail_are_reported_and_do_not_stop_anything(tmp_path):
    info = tmp_path / "plug-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: plug\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mlxc.backends]\nplug = plug:path\n")
    (tmp_path / "plug.py").write_text("def path():\n    return '/nowhere/libplug.so'\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run([sys.executable, "-m", "mlxc.info"], capture_output=True, text=True, check=False, env=env)
    assert run.returncode == 0 and "libplug.so" in run.stdout
    env["MLXC_BACKEND"] = "plug"
    code = "import mlxc as mx; from mlxc import _plugins; assert _plugins.failures; print((mx.ones(2) + 1).tolist())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert run.returncode == 0 and run.stdout.strip() == "[2.0, 2.0]"


def test_paths_for_embedding_programs():
    assert os.path.exists(os.path.join(mx.get_include(), "mlxc", "mlxc.h"))
    assert os.path.exists(mx.get_library())
