"""Backends from other packages: the entry-point group `mlxc.backends`.

An entry point names the absolute path of a backend library, or a function that returns it. Reading the entry
points takes longer than `import mlxc` may, so it happens once, when MLXC_BACKEND is set or a device is asked for
that no loaded backend has, and for `python -m mlxc.info`. A plug-in that fails to load is in the list of attempts
that mlxc.info shows; it does not stop the program.
"""

from __future__ import annotations

_done = False


def load_entry_points() -> None:
    """Loads the backends that installed packages offer; does nothing the second time."""
    global _done  # noqa: PLW0603
    if _done:
        return
    _done = True
    from importlib.metadata import entry_points

    from mlxc._registry import load_backend

    for point in entry_points(group="mlxc.backends"):
        try:
            found = point.load()
            load_backend(found() if callable(found) else found)
        except Exception as error:
            failures.append((point.name, f"{type(error).__name__}: {error}"))


# What went wrong with plug-ins, as (entry point, message), for mlxc.info.
failures: list[tuple[str, str]] = []
