"""What is particular to Apple's Metal: mlxc.metal, as mlx.core.metal.

Called by programs that were written for Macs. The memory functions are those of mlxc, under the names that they had
here once. Without a Metal backend the module says so and does nothing else.
"""

from __future__ import annotations

from mlxc import _registry
from mlxc._device import device_info as _device_info
from mlxc._device import gpu as _gpu
from mlxc._memory import (
    clear_cache,
    get_active_memory,
    get_cache_memory,
    get_peak_memory,
    reset_peak_memory,
    set_cache_limit,
    set_memory_limit,
    set_wired_limit,
)

__all__ = [
    "clear_cache", "device_info", "get_active_memory", "get_cache_memory", "get_peak_memory", "is_available",
    "reset_peak_memory", "set_cache_limit", "set_memory_limit", "set_wired_limit", "start_capture", "stop_capture",
]  # fmt: skip


def is_available() -> bool:
    """Whether a Metal backend is loaded and has a device.

    Example:
        >>> import mlxc as mx
        >>> device = mx.gpu if mx.metal.is_available() else mx.cpu
    """
    return _registry.has_backend("metal")


def device_info() -> dict[str, str | int]:
    """What mlxc.device_info says of the Metal device; an empty dict without one.

    Example:
        >>> import mlxc as mx
        >>> isinstance(mx.metal.device_info(), dict)
        True
    """
    return _device_info(_gpu) if is_available() else {}


def start_capture(path: str) -> None:
    """Begins to record GPU work to a .gputrace file, where a backend offers that.

    Args:
        path: the file to make.

    Raises:
        RuntimeError: without such a backend; none of this version has it.

    Example:
        >>> import mlxc as mx
        >>> mx.metal.start_capture("trace.gputrace")
        Traceback (most recent call last):
        RuntimeError: [metal.start_capture] no loaded backend records GPU work, cannot write 'trace.gputrace'
    """
    raise RuntimeError(f"[metal.start_capture] no loaded backend records GPU work, cannot write {path!r}")


def stop_capture() -> None:
    """Ends what start_capture began.

    Raises:
        RuntimeError: without a backend that records GPU work; none of this version does.

    Example:
        >>> import mlxc as mx
        >>> mx.metal.stop_capture()
        Traceback (most recent call last):
        RuntimeError: [metal.stop_capture] no capture is going on: no loaded backend records GPU work
    """
    raise RuntimeError("[metal.stop_capture] no capture is going on: no loaded backend records GPU work")
