"""mlxc.metal and mlxc.cuda where there is neither: they say so."""

from __future__ import annotations

import pytest

import mlxc as mx


def test_availability_is_that_of_a_loaded_backend_with_a_device():
    from mlxc import _registry

    names = {a["name"] for a in _registry.backend_attempts() if a["loaded"] and a["device_count"]}
    assert mx.metal.is_available() == ("metal" in names)
    assert mx.cuda.is_available() == ("cuda" in names)
    assert _registry.has_backend("cpu") == ("cpu" in names)


def test_the_memory_functions_are_those_of_the_package():
    for name in ("clear_cache", "get_active_memory", "get_cache_memory", "get_peak_memory", "reset_peak_memory",
                 "set_cache_limit", "set_memory_limit", "set_wired_limit"):  # fmt: skip
        assert getattr(mx.metal, name) is getattr(mx, name)


def test_captures_are_refused_without_a_backend_that_has_them():
    with pytest.raises(RuntimeError, match=r"no loaded backend records GPU work, cannot write 'x\.gputrace'"):
        mx.metal.start_capture("x.gputrace")
    with pytest.raises(RuntimeError, match="no capture is going on"):
        mx.metal.stop_capture()


@pytest.mark.skipif(mx.metal.is_available(), reason="there is a Metal device")
def test_there_is_nothing_to_say_of_a_device_that_is_not_there():
    assert mx.metal.device_info() == {}


def test_the_wired_limit_is_returned_when_the_next_one_is_set():
    before = mx.set_wired_limit(1 << 20)
    try:
        assert mx.set_wired_limit(1 << 21) == 1 << 20
        with pytest.raises(ValueError, match="not negative"):
            mx.set_wired_limit(-1)
        assert mx.set_wired_limit(0) == 1 << 21
    finally:
        mx.set_wired_limit(before)
