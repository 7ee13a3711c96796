# Any Python object as an array: which of the ways in (scalar, list, buffer, DLPack, __mlx_array__) it takes.
#
# Called by the constructor, operators and free functions for what is not an Array already. Without a
# dtype, 64-bit floats and complex numbers from outside are narrowed to 32 bits, as in MLX.
from mlxc._array cimport Array, wrap
from mlxc._buffer cimport COPY_ALWAYS, COPY_IF_NEEDED, COPY_NEVER, Copy, buffer_array
from mlxc._capi cimport mlxc_array, mlxc_array_dtype, mlxc_array_retain, mlxc_astype
from mlxc._dlpack cimport dlpack_array
from mlxc._dtype cimport dtype_object, to_dtype_or
from mlxc._error cimport check
from mlxc._lists cimport list_array
from mlxc._scalar cimport KIND_NONE, is_numpy_scalar, own_dtype, plain_number, scalar_array, scalar_kind

from cpython.buffer cimport PyObject_CheckBuffer


cdef mlxc_array* cast_handle(mlxc_array* h, int dtype) except NULL:
    """A new reference to h, or to its cast."""
    cdef mlxc_array* out = NULL
    if dtype < 0 or mlxc_array_dtype(h) == dtype:
        return mlxc_array_retain(h)
    check(mlxc_astype(h, dtype, NULL, &out))
    return out


cdef mlxc_array* ask_object(object value, int dtype) except NULL:
    """The array that an object's __mlx_array__ gives."""
    made = value.__mlx_array__()
    if type(made) is not Array:
        raise TypeError(f"{type(value).__name__}.__mlx_array__ must return an mlxc.array, it returned {made!r}")
    return cast_handle((<Array>made).h, dtype)


cdef mlxc_array* convert(object value, int dtype, bint lists) except NULL:
    cdef bint found = False
    cdef int kind
    cdef mlxc_array* out
    if type(value) is Array:
        return cast_handle((<Array>value).h, dtype)
    kind = scalar_kind(value)
    if kind != KIND_NONE and (isinstance(value, float) or not is_numpy_scalar(value)):
        value = plain_number(value, kind)
        return scalar_array(value, kind, own_dtype(value, kind) if dtype < 0 else dtype)
    if isinstance(value, (list, tuple)):
        if lists:
            return list_array(value, dtype)
        raise TypeError(f"an array or a number is wanted, got a {type(value).__name__}: wrap it in mlxc.array(...)")
    if hasattr(value, "__mlx_array__"):
        return ask_object(value, dtype)
    out = buffer_array(value, dtype, COPY_ALWAYS, True, &found)
    if found:
        return out
    if hasattr(value, "__dlpack__"):
        return dlpack_array(value, dtype, COPY_ALWAYS, True)
    if hasattr(value, "__array__"):
        return buffer_array(value.__array__(), dtype, COPY_ALWAYS, True, &found)
    if lists and isinstance(value, range):
        return list_array(list(value), dtype)
    raise TypeError(f"cannot make an array of {value!r} of type {type(value).__name__}")


cdef bint is_array_like(object value):
    if value is None or isinstance(value, (str, bytes, bytearray, list, tuple, dict, set)):
        return False
    if hasattr(value, "__pandas_priority__"):
        return False  # an operator beside a table is the table's: it keeps its index
    return hasattr(value, "__mlx_array__") or PyObject_CheckBuffer(value) or hasattr(value, "__dlpack__") \
        or hasattr(value, "__array__")


class ArrayLike:
    """Wraps an object that offers ``__mlx_array__``, so that a signature can ask for one.

    Raises TypeError for other objects.
    """

    __module__ = "mlxc"

    def __init__(self, arg, /):
        if not hasattr(arg, "__mlx_array__"):
            raise TypeError(f"ArrayLike wraps objects with __mlx_array__, got {type(arg).__name__}")
        self._object = arg

    def __mlx_array__(self):
        return self._object.__mlx_array__()


cdef object checked_copy(object copy, str name):
    if copy is not None and copy is not True and copy is not False:
        raise TypeError(f"{name}: copy= is True, False or None, got {copy!r}")
    return copy


def asarray(a, dtype=None, *, copy=None, device=None):
    """asarray(a, dtype: Dtype | None = None, *, copy: bool | None = None, device=None) -> array

    Converts a scalar, nested list, NumPy array, DLPack object or array to an array.

    copy=True always makes a new array. copy=None gives an array back as it is and shares read-only
    memory. copy=False shares memory or raises ValueError; the owner must not change it afterwards.
    Without a dtype, float64 and complex128 from outside become float32 and complex64.

    >>> import mlxc as mx
    >>> x = mx.array([1, 2])
    >>> mx.asarray(x) is x
    True
    """
    cdef int wanted = to_dtype_or(dtype, -1)
    cdef bint found = False
    cdef Copy how = COPY_ALWAYS if copy is True else COPY_NEVER if copy is False else COPY_IF_NEEDED
    cdef Array result
    cdef mlxc_array* made = NULL
    checked_copy(copy, "asarray")
    if type(a) is Array:
        if wanted < 0 or mlxc_array_dtype((<Array>a).h) == wanted:
            result = wrap(mlxc_array_retain((<Array>a).h)) if copy is True else a
        elif copy is False:
            raise ValueError(f"copy=False: the array is {a.dtype}, not {dtype_object(wanted)}")
        else:
            result = wrap(convert(a, wanted, False))
        return result if device is None else result.to_device(device)
    if how != COPY_ALWAYS and scalar_kind(a) == KIND_NONE and not isinstance(a, (list, tuple)) \
            and not hasattr(a, "__mlx_array__"):
        made = buffer_array(a, wanted, how, how == COPY_IF_NEEDED, &found)
        if not found and hasattr(a, "__dlpack__"):
            made = dlpack_array(a, wanted, how if how == COPY_NEVER else COPY_ALWAYS, how == COPY_IF_NEEDED)
    if made is NULL:
        if copy is False:
            raise ValueError(f"copy=False: a {type(a).__name__} has no memory that an array could share")
        made = convert(a, wanted, True)
    result = wrap(made)
    return result if device is None else result.to_device(device)


def from_dlpack(x, /, *, device=None, copy=None):
    """from_dlpack(x, /, *, device=None, copy: bool | None = None) -> array

    Imports an object with ``__dlpack__`` (NumPy, PyTorch, JAX, CuPy and others), keeping its dtype.

    Host memory is shared unless copy=True; its owner must not change it afterwards. copy=False raises
    ValueError where sharing is not possible.

    >>> import mlxc as mx, numpy as np
    >>> mx.from_dlpack(np.arange(3, dtype=np.int32))
    array([0, 1, 2], dtype=int32)
    """
    cdef Copy how = COPY_ALWAYS if copy is True else COPY_NEVER if copy is False else COPY_IF_NEEDED
    cdef Array result
    checked_copy(copy, "from_dlpack")
    if type(x) is Array:
        result = wrap(mlxc_array_retain((<Array>x).h))
    elif hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        result = wrap(dlpack_array(x, -1, how, False))
    else:
        raise TypeError(f"from_dlpack takes an object with __dlpack__ and __dlpack_device__, got {type(x).__name__}")
    return result if device is None else result.to_device(device)
