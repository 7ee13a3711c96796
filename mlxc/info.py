"""`python -m mlxc.info`: versions, backends and why one is missing, devices, and a self test of each.

Called by people who wonder what mlxc found on their machine. Exit status 1 if a self test fails or there is no
CPU backend.
"""

from __future__ import annotations

import platform
import sys

import mlxc as mx
from mlxc import _plugins, _registry


def describe_attempts() -> list[str]:
    """One paragraph for each library that was tried as a backend."""
    lines = []
    for attempt in _registry.backend_attempts():
        state = "loaded" if attempt["loaded"] else "not loaded"
        name = f"{attempt['name']} {attempt['version']}".strip() or "(unnamed)"
        lines.append(f"  {name}: {state}, {attempt['device_count']} devices ({attempt['kind']})")
        lines.append(f"    file: {attempt['path']}")
        if attempt["message"] and attempt["message"] != "loaded":
            lines.append(f"    loader: {attempt['message']}")
        if attempt["reason"]:
            lines.append(f"    no device: {attempt['reason']}")
    lines += [f"  entry point {name}: {message}" for name, message in _plugins.failures]
    return lines


def test_device(device: mx.Device) -> str | None:
    """Computes a sum on the device; returns what went wrong, or None."""
    try:
        with mx.stream(device):
            got = (mx.array([1.0, 2.0, 3.0, 4.0]) * 2 + 1).tolist()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if got == [3.0, 5.0, 7.0, 9.0] else f"[1, 2, 3, 4] * 2 + 1 gave {got}"


def describe_device(device: mx.Device) -> tuple[list[str], bool]:
    """Facts on a device and the result of its self test."""
    facts = mx.device_info(device)
    size = facts["memory_size"]
    memory = f"{size / 2**30:.1f} GiB" if size else "unknown"
    lines = [
        f"  {device}: {facts['device_name']} ({facts['architecture']}), backend {facts['backend']}",
        f"    memory: {memory}",
        f"    features: {facts['features']}",
    ]
    failure = test_device(device)
    lines.append("    self test: passed" if failure is None else f"    self test: FAILED: {failure}")
    return lines, failure is None


def main() -> int:
    """Prints the report."""
    _plugins.load_entry_points()
    print(f"mlxc {mx.__version__}, Python {platform.python_version()}, {platform.platform()}")
    print(f"package: {mx.__path__[0]}")
    print("backends:")
    print("\n".join(describe_attempts()))
    print("devices:")
    passed = mx.device_count(mx.cpu) > 0
    if not passed:
        print("  no CPU: nothing can be computed until a CPU backend is loaded")
    for kind in (mx.cpu, mx.gpu):
        for index in range(mx.device_count(kind)):
            lines, ok = describe_device(mx.Device(kind, index))
            passed = passed and ok
            print("\n".join(lines))
    print(f"default device: {mx.default_device()}")
    log = _registry.read_log()
    if log:
        print("log:")
        print(log)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
