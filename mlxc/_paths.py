"""Where the C headers and libmlxc lie, for programs that embed mlxc and for builds of backends."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _find(installed: str, built: str) -> str:
    """A path of the package, or of the build tree where the package is an editable install."""
    path = os.path.join(_HERE, installed)
    if os.path.exists(path):
        return path
    core = sys.modules["mlxc._array"].__spec__.origin or ""
    return os.path.join(os.path.dirname(os.path.dirname(core)), built)


def get_include() -> str:
    """The folder to give to a C compiler's -I, so that `#include <mlxc/mlxc.h>` works.

    >>> import mlxc as mx, os
    >>> os.path.exists(os.path.join(mx.get_include(), "mlxc", "mlxc.h"))
    True
    """
    return _find("include", "include")


def get_library() -> str:
    """The full path of libmlxc.

    Raises FileNotFoundError if the package was installed without it.
    """
    name = {"darwin": "libmlxc.dylib", "win32": "mlxc.dll"}.get(sys.platform, "libmlxc.so")
    path = _find(os.path.join("lib", name), os.path.join("core", name))
    if not os.path.exists(path):
        raise FileNotFoundError(f"{name} is not at {path}")
    return path
