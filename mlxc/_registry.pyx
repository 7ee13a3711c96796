# Versions and backends: what the core has loaded and why not, for `python -m mlxc.info` and for tests.
#
# Called by mlxc.info, by _plugins.py and at import for the version.
from mlxc._capi cimport (
    MLXC_CPU, int32_t, mlxc_backend_attempt, mlxc_backend_attempt_count, mlxc_backend_attempt_get,
    mlxc_backend_load, mlxc_has_feature, mlxc_kernel_exists, mlxc_log_read, mlxc_op_from_name,
    mlxc_version,
)
from mlxc._device cimport to_device
from mlxc._dtype cimport to_dtype
from mlxc._error cimport check

version = (<bytes>mlxc_version()).decode()


cdef str text(const char* value):
    return "" if value is NULL else (<bytes>value).decode("utf-8", "replace")


def has_feature(str name):
    """Whether libmlxc has the named feature, such as "grad"."""
    return mlxc_has_feature(name.encode()) != 0


def load_backend(path):
    """Loads one more backend library; the path is absolute. OSError if it cannot be loaded."""
    check(mlxc_backend_load(str(path).encode()))


def backend_attempts():
    """Every attempt to load a backend so far, as dicts."""
    cdef mlxc_backend_attempt attempt
    cdef list out = []
    cdef size_t i
    for i in range(mlxc_backend_attempt_count()):
        attempt.struct_size = sizeof(attempt)
        check(mlxc_backend_attempt_get(i, &attempt))
        out.append({
            "path": text(attempt.path), "name": text(attempt.name), "version": text(attempt.version),
            "message": text(attempt.message), "loaded": attempt.loaded != 0,
            "kind": "cpu" if attempt.kind == MLXC_CPU else "gpu", "device_count": attempt.device_count,
            "reason": text(attempt.reason),
        })
    return out


def has_backend(str name):
    """Whether a backend of this name is loaded and has a device."""
    return any(attempt["loaded"] and attempt["name"] == name and attempt["device_count"] > 0
               for attempt in backend_attempts())


def kernel_exists(device, str op, dtype):
    """Whether the device's backend has a kernel of its own for an op with inputs of that dtype."""
    cdef int32_t number = mlxc_op_from_name(op.encode())
    if number == 0:
        raise ValueError(f"no op is named {op!r}")
    return mlxc_kernel_exists(to_device(device).kind, number, to_dtype(dtype)) != 0


def read_log():
    """The messages that backends logged."""
    cdef size_t n = mlxc_log_read(NULL, 0)
    cdef bytes room = bytes(n + 1)
    cdef char* data = room
    n = mlxc_log_read(data, n + 1)
    return room[:n].decode("utf-8", "replace").rstrip("\0")
