"""mx.load and the functions that save: which format a file has, and the checks before a file is touched.

Called by users under the names of mlxc. Each format is a file of its own beside this one, imported at first use.
Arrays are evaluated before a file is opened, so that an error in their computation leaves the old file alone.
"""

from __future__ import annotations

from mlxc._array import Array
from mlxc._device import StreamContext
from mlxc._transforms import eval as evaluate

TYPE_CHECKING = False  # typing itself would take a third of the time of `import mlxc`
if TYPE_CHECKING:
    from typing import Any

__all__ = ["load", "save", "save_gguf", "save_safetensors", "savez", "savez_compressed"]

FORMATS = ("npy", "npz", "safetensors", "gguf")
WITH_METADATA = ("safetensors", "gguf")


def check_arrays(arrays: Any, function: str) -> None:
    """Evaluates the values of the dict, which must be arrays."""
    if not isinstance(arrays, dict):
        raise TypeError(f"[{function}] arrays is a dict of arrays by name, got {type(arrays).__name__}")
    for name, value in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"[{function}] names of arrays are strings, got {name!r}")
        if type(value) is not Array:
            raise TypeError(
                f"[{function}] {name!r} must be an mlxc.array, got {type(value).__name__}: wrap it in mlxc.array(...)"
            )
    evaluate(list(arrays.values()))


def save(file: Any, arr: Array) -> None:
    """Writes one array to a .npy file.

    Args:
        file: path (`.npy` is added if it lacks it), or file object opened in binary mode. At a path the file appears
            when all of it is written; if that fails, an older file stays as it was.
        arr: array of any dtype; bfloat16 is stored as two raw bytes an element ("V2"), which `load` knows.

    Raises:
        TypeError: if `arr` is no array.
        OSError: if the file cannot be written.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> mx.save(file, mx.arange(3))
        >>> len(file.getvalue())
        140
    """
    from .access import open_to_write
    from .npy import write_npy

    check_arrays({"arr": arr}, "save")
    with open_to_write(file, ".npy", "save") as out:
        write_npy(out, arr)


def save_archive(function: str, file: Any, args: tuple, kwargs: dict, compressed: bool) -> None:
    from .access import open_to_write
    from .npz import name_arrays, write_npz

    arrays = name_arrays(args, kwargs, function)
    check_arrays(arrays, function)
    with open_to_write(file, ".npz", function) as out:
        write_npz(out, arrays, compressed)


def savez(file: Any, *args: Array, **kwargs: Array) -> None:
    """Writes several arrays to a .npz file, without compression.

    Args:
        file: path (`.npz` is added if it lacks it), or file object opened in binary mode. At a path the file appears
            when all of it is written; if that fails, an older file stays as it was.
        *args: arrays that are stored as arr_0, arr_1 and so on.
        **kwargs: arrays that are stored under their names.

    Raises:
        TypeError: if a value is no array.
        ValueError: if a name such as arr_0 is given for two arrays.
        OSError: if the file cannot be written.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> mx.savez(file, mx.arange(3), weight=mx.ones(2))
        >>> sorted(mx.load(file, format="npz"))
        ['arr_0', 'weight']
    """
    save_archive("savez", file, args, kwargs, False)


def savez_compressed(file: Any, *args: Array, **kwargs: Array) -> None:
    """Writes several arrays to a .npz file, compressed.

    Args:
        file: path (`.npz` is added if it lacks it), or file object opened in binary mode. At a path the file appears
            when all of it is written; if that fails, an older file stays as it was.
        *args: arrays that are stored as arr_0, arr_1 and so on.
        **kwargs: arrays that are stored under their names.

    Raises:
        TypeError: if a value is no array.
        ValueError: if a name such as arr_0 is given for two arrays.
        OSError: if the file cannot be written.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> mx.savez_compressed(file, weight=mx.zeros(1000))
        >>> len(file.getvalue()) < 400
        True
    """
    save_archive("savez_compressed", file, args, kwargs, True)


def save_safetensors(file: Any, arrays: dict[str, Array], metadata: dict[str, str] | None = None) -> None:
    """Writes arrays to a .safetensors file.

    Args:
        file: path (`.safetensors` is added if it lacks it), or file object opened in binary mode. At a path the file
            appears when all of it is written; if that fails, an older file stays as it was.
        arrays: arrays by name, of any dtype but complex128, which the format does not have.
        metadata: strings by name that are stored too.

    Raises:
        TypeError: if a value is no array or its dtype is complex128, or metadata are not strings.
        OSError: if the file cannot be written.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> mx.save_safetensors(file, {"weight": mx.arange(2)}, {"note": "small"})
        >>> _ = file.seek(0)
        >>> mx.load(file, format="safetensors", return_metadata=True)
        ({'weight': array([0, 1], dtype=int32)}, {'note': 'small'})
    """
    from .access import open_to_write
    from .safetensors import check_contents, write_safetensors

    check_arrays(arrays, "save_safetensors")
    check_contents(arrays, metadata)
    with open_to_write(file, ".safetensors", "save_safetensors") as out:
        write_safetensors(out, arrays, metadata)


def save_gguf(file: Any, arrays: dict[str, Array], metadata: dict[str, Array | str | list[str]] | None = None) -> None:
    """Writes arrays to a .gguf file.

    Args:
        file: path (`.gguf` is added if it lacks it), or file object opened in binary mode. At a path the file appears
            when all of it is written; if that fails, an older file stays as it was.
        arrays: arrays by name, of int8, int16, int32, int64, float16, bfloat16, float32 or float64, with up to 8 axes.
        metadata: numbers (0-d or not empty 1-d arrays of bool, an integer dtype, float32 or float64), strings and
            lists of strings by name.

    Raises:
        TypeError: if a value is no array or of a dtype that the format does not have.
        ValueError: if an array has too many axes.
        OSError: if the file cannot be written.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> mx.save_gguf(file, {"weight": mx.ones(2)}, {"general.name": "small"})
        >>> _ = file.seek(0)
        >>> mx.load(file, format="gguf", return_metadata=True)
        ({'weight': array([1, 1], dtype=float32)}, {'general.name': 'small'})
    """
    from .access import open_to_write
    from .gguf import check_contents, write_gguf

    check_arrays(arrays, "save_gguf")
    metadata = {} if metadata is None else metadata
    check_contents(arrays, metadata)
    evaluate([value for value in metadata.values() if type(value) is Array])
    with open_to_write(file, ".gguf", "save_gguf") as out:
        write_gguf(out, arrays, metadata)


def format_of(file: Any, format: str | None) -> str:
    """The format asked for, or the one that the file's extension names."""
    from .access import name_of

    if format is None:
        stem, dot, extension = name_of(file).rpartition(".")
        if not dot or not stem:
            raise ValueError(f"[load] {name_of(file)!r} has no extension to tell its format by: pass format=")
        format = extension.lower()
    if format not in FORMATS:
        raise ValueError(f"[load] the format {format!r} is not known, only {', '.join(FORMATS)}")
    return format


def load(
    file: Any, /, format: str | None = None, return_metadata: bool = False, *, stream: Any = None
) -> Array | dict[str, Array] | tuple[dict[str, Array], dict[str, Any]]:
    """Reads arrays from a file: .npy, .npz, .safetensors or .gguf.

    A .safetensors or .gguf file is mapped: its arrays are read from disk when they are used. Until they are gone the
    file may be deleted or replaced (the functions that save here replace files), but not be written to in place.

    Tensors of a .gguf file of the types Q4_0, Q4_1 and Q8_0 stay quantised: X.weight becomes X.weight (uint32),
    X.scales and X.biases, as quantized_matmul takes them with group_size=32 and bits=4 (8 for Q8_0). Q2_K to Q6_K,
    Q5_0, Q5_1, IQ4_NL and IQ4_XS become float16.

    Args:
        file: path, or file object opened in binary mode.
        format: "npy", "npz", "safetensors" or "gguf"; by default the extension of the file's name.
        return_metadata: whether to return the metadata too, where the format has any.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array for .npy, a dict of arrays by name for the other formats; with `return_metadata` a tuple of that dict
        and one with the metadata: strings for .safetensors; arrays, strings and lists for .gguf.

    Raises:
        ValueError: if the file is not what it should be: truncated, contradictory, of an unknown format, or with
            elements that have no dtype here.
        OSError: if the file cannot be read.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> mx.save(file, mx.arange(3))
        >>> _ = file.seek(0)
        >>> mx.load(file, format="npy")
        array([0, 1, 2], dtype=int32)
    """
    from .access import name_of

    chosen = format_of(file, format)
    what = f"[load] {name_of(file)}"
    if return_metadata and chosen not in WITH_METADATA:
        raise ValueError(f"{what}: the format {chosen} has no metadata")
    if stream is None:
        arrays, metadata = read_format(chosen, file, what)
    else:
        with StreamContext(stream):
            arrays, metadata = read_format(chosen, file, what)
    return (arrays, metadata) if return_metadata else arrays


def read_format(chosen: str, file: Any, what: str) -> tuple[Any, dict[str, Any]]:
    from .access import map_bytes, open_to_read

    if chosen == "gguf":
        from .gguf import read_gguf

        return read_gguf(map_bytes(file, "load"), what)
    if chosen == "safetensors":
        from .safetensors import read_safetensors

        return read_safetensors(map_bytes(file, "load"), what)
    with open_to_read(file, "load") as opened:
        if chosen == "npz":
            from .npz import read_npz

            return read_npz(opened, what), {}
        from .npy import read_npy

        return read_npy(opened, what), {}
