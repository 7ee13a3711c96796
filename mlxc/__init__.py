"""mlxc: lazy arrays, composable function transforms and neural networks on plug-in backends.

`import mlxc as mx` gives what `mlx.core` gives, under the same names. This file is the list of those names;
what they do is in the modules they come from. Importing must stay quick: nothing here imports NumPy.
"""

from __future__ import annotations

import sys as _sys

from mlxc._array import Array as array
from mlxc._at import ArrayAt, ArrayIterator
from mlxc._convert import ArrayLike, asarray, from_dlpack
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
from mlxc._error import AxisError
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
)
from mlxc._methods import install as _install_methods
from mlxc import linalg, random, utils
from mlxc._einsum import *  # noqa: F403
from mlxc._ops_contract import *  # noqa: F403
from mlxc._ops_conv import *  # noqa: F403
from mlxc._ops_create import *  # noqa: F403
from mlxc._ops_elementwise import *  # noqa: F403
from mlxc._ops_index import *  # noqa: F403
from mlxc._ops_join import *  # noqa: F403
from mlxc._ops_plain import *  # noqa: F403
from mlxc._ops_reduce import *  # noqa: F403
from mlxc._ops_scan import *  # noqa: F403
from mlxc._ops_shape import *  # noqa: F403
from mlxc._ops_sort import *  # noqa: F403
from mlxc._ops_window import *  # noqa: F403
from mlxc._paths import get_include, get_library
from mlxc._printing import PrintOptions, get_printoptions, printoptions, set_printoptions
from mlxc._promotion import can_cast, finfo, iinfo, isdtype, issubdtype, result_type
from mlxc._registry import version as __version__
from mlxc._transforms import *  # noqa: F403

e = 2.718281828459045
euler_gamma = 0.5772156649015329
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793

__array_api_version__ = "2025.12"


def __array_namespace_info__():
    """The inspection object of the Python array API standard."""
    from mlxc._namespace import ArrayNamespaceInfo

    return ArrayNamespaceInfo()


_install_methods(_sys.modules[__name__])
