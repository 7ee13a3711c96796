"""Where the C headers and libmlxc lie, for programs that embed mlxc and for builds of backends."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def get_include() -> str:
    """The folder to give to a C compiler's -I, so that `#include <mlxc/mlxc.h>` works.

    >>> import mlxc as mx, os
    >>> os.path.exists(os.path.join(mx.get_include(), "mlxc", "mlxc.h"))
    True
    """
    return os.path.join(_HERE, "include")


def get_library() -> str:
    """The full path of libmlxc.

    Raises FileNotFoundError if the package was installed without it.
    """
    name = {"darwin": "libmlxc.dylib", "win32": "mlxc.dll"}.get(sys.platform, "libmlxc.so")
    path = os.path.join(_HERE, "lib", name)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{name} is not at {path}")
    return path
