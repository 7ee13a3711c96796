# ruff: noqa: F401, F403
"""mlxc: lazy arrays, composable function transforms and neural networks on plug-in backends.

`import mlxc as mx` gives what `mlx.core` gives, under the same names. This file is the list of those names;
what they do is in the modules they come from. Importing must stay quick: nothing here imports NumPy.
"""

import os as _os
import sys as _sys

from mlxc import _loader
from mlxc._array import Array as array
from mlxc._at import ArrayAt, ArrayIterator
from mlxc._compile import *
from mlxc._control import *
from mlxc._convert import ArrayLike, asarray, from_dlpack
from mlxc._custom import *
from mlxc._device import (
    Device,
    DeviceType,
    Stream,
    StreamContext,
    ThreadLocalStream,
    clear_streams,
    cpu,
    default_device,
    default_stream,
    device_count,
    device_info,
    gpu,
    is_available,
    new_stream,
    new_thread_local_stream,
    new_thread_unsafe_stream,
    set_default_device,
    set_default_stream,
    stream,
    synchronize,
)
from mlxc._dtype import (
    Dtype,
    DtypeCategory,
    bfloat16,
    bool_,
    complex64,
    complex128,
    complexfloating,
    float16,
    float32,
    float64,
    floating,
    generic,
    inexact,
    int8,
    int16,
    int32,
    int64,
    integer,
    number,
    signedinteger,
    uint8,
    uint16,
    uint32,
    uint64,
    unsignedinteger,
)
from mlxc._dtype import bool_ as bool
from mlxc._einsum import *
from mlxc._error import AxisError
from mlxc._export import *
from mlxc._files import *
from mlxc._jacobian import *
from mlxc._memory import (
    clear_cache,
    get_active_memory,
    get_array_buffer_size,
    get_cache_memory,
    get_memory_limit,
    get_peak_memory,
    reset_peak_memory,
    set_cache_limit,
    set_memory_limit,
    set_wired_limit,
)
from mlxc._methods import install as _install_methods
from mlxc._ops_contract import *
from mlxc._ops_conv import *
from mlxc._ops_create import *
from mlxc._ops_elementwise import *
from mlxc._ops_grouped import *
from mlxc._ops_index import *
from mlxc._ops_join import *
from mlxc._ops_plain import *
from mlxc._ops_quantize import *
from mlxc._ops_reduce import *
from mlxc._ops_scan import *
from mlxc._ops_shape import *
from mlxc._ops_sort import *
from mlxc._ops_window import *
from mlxc._paths import get_include, get_library
from mlxc._printing import PrintOptions, get_printoptions, printoptions, set_printoptions
from mlxc._promotion import can_cast, finfo, iinfo, isdtype, issubdtype, result_type
from mlxc._registry import version as __version__
from mlxc._transforms import *
from mlxc._vmap import *

e = 2.718281828459045
euler_gamma = 0.5772156649015329
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793

__array_api_version__ = "2025.12"


# Submodules are imported when they are first named: `mx.random` works without an import of its own.
_SUBMODULES = frozenset(
    "array_api compat cuda data distributed fast fft linalg metal models nn optimizers random testing utils".split()
)


def __getattr__(name):
    if name == "matrix_norm":
        from mlxc.linalg import norm

        return norm
    if name in _SUBMODULES:
        from importlib import import_module

        try:
            return import_module(f"mlxc.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"mlxc.{name}":
                raise
    raise AttributeError(f"module 'mlxc' has no attribute {name!r}")


def __dir__():
    here = _os.path.dirname(__file__)
    there = {name.removesuffix(".py") for name in _os.listdir(here)} & _SUBMODULES
    return sorted({*globals(), *there, "matrix_norm"})


def __array_namespace_info__():
    """The inspection object of the Python array API standard."""
    from mlxc.array_api import ArrayNamespaceInfo

    return ArrayNamespaceInfo()


def __array_namespace__(api_version=None):
    """The namespace of the Python array API standard, as arrays give it; ValueError for a version that is unknown."""
    return array(0).__array_namespace__(api_version)


_install_methods(_sys.modules[__name__])

if _os.environ.get("MLXC_BACKEND", "cpu") not in ("cpu", "cuda", "metal"):
    from mlxc._plugins import load_entry_points as _load_entry_points

    _load_entry_points()
