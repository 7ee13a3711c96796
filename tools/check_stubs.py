"""Writes and checks the type stubs mlxc/__init__.pyi, and those of compiled namespaces. Run by the tests:

    python tools/check_stubs.py [--write]

The stubs are made from the installed package: every public name, with the parameters that it has at run time. Types are
not known at run time; they come from the tables below, by parameter and by function. Ends with status 1, and the lines
that differ, where the files are not what would be written: a name was added or a signature changed.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

HEAD = '''"""{title}

Written by tools/check_stubs.py; do not edit.
"""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias, final, overload
{imports}

class _SupportsBuffer(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...

class _SupportsDLPack(Protocol):
    def __dlpack__(self, *, stream: Any = None) -> Any: ...

class _SupportsArray(Protocol):
    def __mlx_array__(self) -> array: ...

_Scalar: TypeAlias = builtins.bool | int | float | complex
_Array: TypeAlias = array | _Scalar | _SupportsBuffer | _SupportsDLPack | _SupportsArray
_Dtype: TypeAlias = Dtype | type | str | None
_Stream: TypeAlias = Stream | ThreadLocalStream | Device | DeviceType | None
_Shape: TypeAlias = int | Sequence[int]
_Axes: TypeAlias = int | Sequence[int] | None
'''
SUBMODULES = "cuda distributed fast fft linalg metal nn optimizers random utils".split()
IMPORTS = {
    "mlxc": "\nfrom . import " + ", ".join(f"{name} as {name}" for name in SUBMODULES),
    **dict.fromkeys(
        ("mlxc.random", "mlxc.fast", "mlxc.fft"),
        "\nfrom . import Device, DeviceType, Dtype, Stream, ThreadLocalStream, array",
    ),
}
TITLES = {"mlxc": "Types of the package mlxc.", **{name: f"Types of {name}." for name in IMPORTS if name != "mlxc"}}

# mlxc.linalg returns named tuples.
TITLES["mlxc.linalg"] = "Types of mlxc.linalg."
IMPORTS["mlxc.linalg"] = """from typing import NamedTuple

from . import Device, DeviceType, Dtype, Stream, ThreadLocalStream, array

class _QRResult(NamedTuple):
    Q: array
    R: array

class _SVDResult(NamedTuple):
    U: array
    S: array
    Vh: array

class _EighResult(NamedTuple):
    eigenvalues: array
    eigenvectors: array

class _SlogdetResult(NamedTuple):
    sign: array
    logabsdet: array
"""

BOOL, INT, FLOAT = "builtins.bool", "int", "float"
TYPES = {
    "_Array": "a b c v x y x1 x2 other condition input weight values sorted_sequence indices update start_indices "
              "array logits low high lower upper p value vals array_like a_min a_max w scales segments "
              "q gamma targets stft_matrix",
    "_Axes": "axis axes source destination",
    "_Shape": "shape slice_size shift indices_or_sections pad_width reps stride padding dilation output_padding "
              "kernel_dilation input_dilation strides",
    "_Dtype": "dtype",
    "_Stream": "stream device s",
    BOOL: "keepdims reverse inclusive precise equal_nan sparse invert endpoint flip allow_col_major return_index "
          "return_inverse return_counts transpose sorted_indices traditional center "
          "force_fused include_initial descending stable",
    INT: "k n m M num decimals offset axis1 axis2 ddof size kth groups start_axis end_axis repeats width seed limit "
         "precision block_size n_fft",
    FLOAT: "rtol atol alpha beta nan loc scale eps",
    "float | None": "posinf neginf",
    "array | Sequence[array]": "inputs dependencies",
    "int | None": "correction num_samples group_size bits hop_length win_length length",
    "builtins.bool | None": "copy onesided",
    "array | None": "key sorter",
    "_Array | None": "prepend append sinks initial_state biases lhs_indices rhs_indices mask_out mask_lhs mask_rhs "
                     "global_scale global_scale_x global_scale_w",
    "str": "mode side indexing subscripts pad_mode spec",
    "str | None": "norm",
    "Callable[..., Any]": "fun f",
    "Sequence[array]": "primals cotangents tangents arrays",
    "Any": "from_ to arg arg1 arg2 kind args operands arrays_and_dtypes exc memo state out max_version dl_device "
           "api_version shapes d val device_type",
}  # fmt: skip
PARAMETERS = {name: kind for kind, names in TYPES.items() for name in names.split()}
# Where a parameter of one function has a type of its own.
PARAMETERS_OF = {
    "fft.axis": "int",
    "ifft.axis": "int",
    "rfft.axis": "int",
    "irfft.axis": "int",
    "hfft.axis": "int",
    "ihfft.axis": "int",
    "fftshift.axes": "_Axes",
    "fft2.s": "Sequence[int] | None",
    "ifft2.s": "Sequence[int] | None",
    "fftn.s": "Sequence[int] | None",
    "ifftn.s": "Sequence[int] | None",
    "rfft2.s": "Sequence[int] | None",
    "irfft2.s": "Sequence[int] | None",
    "rfftn.s": "Sequence[int] | None",
    "irfftn.s": "Sequence[int] | None",
    "fftfreq.d": "float",
    "rfftfreq.d": "float",
    "scaled_dot_product_attention.k": "_Array",
    "gated_delta_update.k": "_Array",
    "gated_delta_update.beta": "_Array",
    "ifftshift.axes": "_Axes",
    "rms_norm.weight": "_Array | None",
    "layer_norm.weight": "_Array | None",
    "layer_norm.bias": "_Array | None",
    "rope.base": "float | None",
    "rope.offset": "int | array",
    "rope.freqs": "array | None",
    "rope.dims": "int",
    "scaled_dot_product_attention.mask": "str | _Array | None",
    "gated_delta_update.mask": "_Array | None",
    "stft.window": "array | None",
    "istft.window": "array | None",
    "cholesky.upper": BOOL,
    "eigh.UPLO": "str",
    "eigvalsh.UPLO": "str",
    "cholesky_inv.upper": BOOL,
    "tri_inv.upper": BOOL,
    "solve_triangular.upper": BOOL,
    "norm.ord": "int | float | str | None",
    "vector_norm.ord": "int | float",
    "matrix_norm.ord": "int | float | str",
    "multi_dot.arrays": "Sequence[array]",
    "pinv.rtol": "float | array | None",
    "matrix_rank.rtol": "float | array | None",
    "qr.mode": "str",
    "multivariate_normal.mean": "array",
    "multivariate_normal.cov": "array",
    "clip.a_min": "_Array | None",
    "export_function.metadata": "str | None",
    "exporter.metadata": "str | None",
    "export_function.args": "array | Sequence[array] | dict[str, array]",
    "export_function.kwargs": "array",
    "export_to_dot.args": "array",
    "export_to_dot.kwargs": "array",
    "export_function.file_or_callback": "Any",
    "compile.inputs": "Any",
    "compile.outputs": "Any",
    "clip.a_max": "_Array | None",
    "arange.start": "float | None",
    "arange.stop": "float | None",
    "arange.step": "float | None",
    "linspace.start": "complex",
    "linspace.stop": "complex",
    "repeat.repeats": "int | array",
    "linspace.num": "int | None",
    "eye.m": "int | None",
    "tri.m": "int | None",
    "pad.pad_width": "int | Sequence[int] | Sequence[Sequence[int]]",
    "pad.constant_values": "_Array",
    "unique.fill_value": "_Array | None",
    "as_strided.shape": "Sequence[int] | None",
    "as_strided.strides": "Sequence[int] | None",
    "qqmm.scales": "_Array | None",
    "gather_qqmm.scales": "_Array | None",
    "tensordot.axes": "int | Sequence[int | Sequence[int]]",
    "conv_general.padding": "int | Sequence[int] | Sequence[Sequence[int]]",
    "grad.argnums": "int | Sequence[int] | None",
    "grad.argnames": "str | Sequence[str]",
    "value_and_grad.argnums": "int | Sequence[int] | None",
    "value_and_grad.argnames": "str | Sequence[str]",
    "jacobian.argnums": "int | Sequence[int]",
    "hessian.argnums": "int | Sequence[int]",
    "vmap.in_axes": "Any",
    "vmap.out_axes": "Any",
    "key.seed": "int",
    "split.key": "array",
    "categorical.axis": "int",
    "permutation.x": "int | array",
    "permutation.axis": "int",
    "bernoulli.shape": "_Shape | None",
    "truncated_normal.shape": "_Shape | None",
    "categorical.shape": "_Shape | None",
    "normal.loc": "_Array | None",
    "normal.scale": "_Array | None",
    "laplace.loc": "_Array",
    "laplace.scale": "_Array",
    "asarray.a": "Any",
    "from_dlpack.x": "_SupportsDLPack",
    "broadcast_arrays.arrays": "_Array",
    "meshgrid.arrays": "_Array",
    "atleast_1d.arys": "_Array",
    "atleast_2d.arys": "_Array",
    "atleast_3d.arys": "_Array",
    "isdtype.dtype": "_Dtype",
    "reshape.shape": "_Shape",
    "transpose.axes": "_Axes",
    "broadcast_shapes.shapes": "Sequence[int]",
    "array.reshape.shape": "_Shape",
    "array.transpose.axes": "_Axes",
    "set_default_device.device": "Device | DeviceType",
    "set_default_stream.stream": "Stream",
    "device_info.d": "Device | DeviceType | None",
    "is_available.device": "Device | DeviceType",
}
RETURNS = {
    "array": "mlxc.random.split",
    "list[array]": "divmod split array.split gated_delta_update",
    "tuple[array, ...]": "broadcast_arrays unstack meshgrid nonzero",
    "tuple[array, array]": "minmax unique_counts unique_inverse",
    "tuple[array, array, array, array]": "unique_all",
    "array | list[array]": "depends atleast_1d atleast_2d atleast_3d",
    "array | tuple[array, ...]": "unique",
    "tuple[int, ...]": "broadcast_shapes",
    "tuple[list[tuple[int, ...]], str]": "einsum_path",
    "Callable[..., Any]": "checkpoint compile import_function grad value_and_grad vmap jacobian hessian",
    "custom_function": "custom_function.vjp custom_function.jvp custom_function.vmap",
    "tuple[list[array], list[array]]": "vjp jvp",
    "FunctionExporter": "exporter",
    "None": "disable_compile enable_compile export_function export_to_dot FunctionExporter.close "
            "eval async_eval seed clear_cache clear_streams reset_peak_memory set_default_device set_default_stream "
            "set_printoptions synchronize",
    "int": "get_active_memory get_cache_memory get_memory_limit get_peak_memory set_cache_limit set_memory_limit "
           "set_wired_limit get_array_buffer_size device_count",
    "Device": "default_device",
    "Stream": "default_stream new_stream new_thread_unsafe_stream",
    "ThreadLocalStream": "new_thread_local_stream",
    "dict[str, Any]": "device_info",
    "builtins.bool": "is_available can_cast isdtype issubdtype",
    "Dtype": "result_type",
    "StreamContext": "stream",
    "PrintOptions": "get_printoptions",
    "tuple[Any, Any]": "scan",
    "Any": "printoptions array.item array.tolist array.to_numpy array.__array__ array.__array_namespace__ "
           "array.__getstate__ array.__dlpack__ cond while_loop",
    "bytes": "array.tobytes array.__bytes__",
    "str": "array.__format__ get_include get_library",
    "complex": "array.__complex__",
    "tuple[int, int]": "array.__dlpack_device__",
}  # fmt: skip
RETURN_OF = {name: kind for kind, names in RETURNS.items() for name in names.split()}
RETURN_OF |= {
    "eig": "_EighResult",
    "eigh": "_EighResult",
    "lu": "tuple[array, array, array]",
    "lu_factor": "tuple[array, array]",
    "qr": "_QRResult",
    "slogdet": "_SlogdetResult",
}
# Functions whose result's type depends on how many arguments they get.
OVERLOADS = {
    "svd": (
        "a: _Array, compute_uv: Literal[True] = True, *, full_matrices: builtins.bool = True, stream: _Stream = None"
        ") -> _SVDResult",
        "a: _Array, compute_uv: Literal[False], *, full_matrices: builtins.bool = True, stream: _Stream = None"
        ") -> array",
    ),
    "where": (
        "condition: _Array, /, *, stream: _Stream = None) -> tuple[array, ...]",
        "condition: _Array, x: _Array, y: _Array, /, *, stream: _Stream = None) -> array",
    ),
}
PROPERTIES = {
    "array": {
        "shape": "tuple[int, ...]",
        "dtype": "Dtype",
        "ndim": "int",
        "size": "int",
        "itemsize": "int",
        "nbytes": "int",
        "at": "ArrayAt",
        "device": "Device",
    },
    "Dtype": {"size": "int", "name": "str", "code": "int"},
    "Device": {"type": "DeviceType", "index": "int"},
    "DeviceType": {"name": "str", "value": "int"},
    "DtypeCategory": {"name": "str", "value": "int"},
    "Stream": {"device": "Device", "index": "int"},
    "ThreadLocalStream": {"device": "Device"},
    "PrintOptions": {"precision": "int"},
    "finfo": {
        "bits": "int",
        "dtype": "Dtype",
        "eps": "float",
        "max": "float",
        "min": "float",
        "smallest_normal": "float",
    },
    "iinfo": {"bits": "int", "dtype": "Dtype", "max": "int", "min": "int"},
}
CONSTRUCTORS = {
    "custom_function": "f: Callable[..., Any]",
    "array": "val: Any, dtype: _Dtype = None",
    "Device": "type: DeviceType, index: int = 0",
    "ArrayLike": "arg: _SupportsArray, /",
    "finfo": "arg: _Dtype, /",
    "iinfo": "arg: _Dtype, /",
    "PrintOptions": "precision: int = -1",
}
BASES = {"AxisError": "(ValueError, IndexError)"}
# Operators: written into the stub where the class has them.
UNARY = {"__abs__": "array", "__invert__": "array", "__neg__": "array", "__pos__": "array", "__bool__": BOOL,
         "__float__": FLOAT, "__index__": INT, "__int__": INT, "__len__": INT, "__hash__": INT,
         "__length_hint__": INT, "__iter__": "Iterator[array]", "__next__": "array"}  # fmt: skip
COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
BINARY = (
    "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor divmod "
    "radd rand rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift rsub rtruediv rxor rdivmod "
    "iadd iand ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor"
)


def is_function(value: object) -> bool:
    kind = type(value).__name__
    compiled = kind == "method_descriptor" and special_text(value.__name__) is None
    return inspect.isfunction(value) or kind == "cython_function_or_method" or compiled


def qualify(annotation: str) -> str:
    """An annotation in a Python file of the package, in the names of the stub, where `bool` is a dtype."""
    return re.sub(r"(?<![\w.])bool\b", BOOL, re.sub(r"\bArray\b", "array", annotation))


def parameter_text(owner: str, parameter: inspect.Parameter) -> str:
    kind = PARAMETERS_OF.get(f"{owner}.{parameter.name}") or PARAMETERS.get(parameter.name, "Any")
    if parameter.annotation is not parameter.empty and isinstance(parameter.annotation, str):
        kind = qualify(parameter.annotation)
    default = parameter.default
    if default is parameter.empty:
        return f"{parameter.name}: {kind}"
    if default is None and "None" not in kind and kind not in ("_Dtype", "_Stream", "_Axes", "Any"):
        kind += " | None"
    shown = repr(default) if default is None or isinstance(default, (bool, int, float, str)) else "..."
    return f"{parameter.name}: {kind} = {shown}"


def signature_text(owner: str, function: object, method: bool = False) -> str:
    parameters = list(inspect.signature(function).parameters.values())
    parts: list[str] = []
    if method:
        parts.append("self")
        parameters = parameters[1:]
    positional = [p for p in parameters if p.kind is p.POSITIONAL_ONLY]
    starred = False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
            parts.append(f"*{parameter_text(owner, parameter)}")
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            parts.append(f"**{parameter_text(owner, parameter)}")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            parts.append("*")
        parts.append(parameter_text(owner, parameter))
        if positional and parameter is positional[-1]:
            parts.append("/")
    return ", ".join(parts)


def function_text(name: str, function: object, owner: str = "", module: str = "") -> str:
    path = f"{owner}.{name}" if owner else name
    if path in OVERLOADS:
        return "".join(f"@overload\ndef {name}({text}: ...\n" for text in OVERLOADS[path])
    annotation = inspect.signature(function).return_annotation
    result = RETURN_OF.get(f"{module}.{path}") or RETURN_OF.get(path)
    if result is None and isinstance(annotation, str):
        result = qualify(annotation)
    if result is None:
        result = "Any" if owner and owner not in ("array", "ArrayAt") else "array"
    key = path if owner else name
    text = signature_text(key, function, method=bool(owner))
    return f"{'    ' if owner else ''}def {name}({text}) -> {result}: ...\n"


def special_text(name: str) -> str | None:
    """The line of a special method that is a slot of the type and has no signature."""
    if name in UNARY:
        return f"    def {name}(self) -> {UNARY[name]}: ...\n"
    if name in COMPARISONS:
        return f"    def {name}(self, other: Any, /) -> {{compared}}: ...  # type: ignore[override]\n"
    if name.startswith("__") and name.strip("_") in BINARY.split():
        result = "tuple[array, array]" if "divmod" in name else "array"
        modulus = "mod: None = None, " if name in ("__pow__", "__rpow__") else ""
        unlike = "  # type: ignore[misc]" if name == "__ipow__" else ""
        return f"    def {name}(self, other: _Array, {modulus}/) -> {result}: ...{unlike}\n"
    return {
        "__getitem__": "    def __getitem__(self, key: Any, /) -> {item}: ...\n",
        "__setitem__": "    def __setitem__(self, key: Any, value: Any, /) -> None: ...\n",
        "__contains__": "    def __contains__(self, value: Any, /) -> builtins.bool: ...\n",
        "__call__": "    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...\n",
    }.get(name)


def class_text(name: str, cls: type) -> str:
    lines = []
    if name in CONSTRUCTORS:
        lines.append(f"    def __init__(self, {CONSTRUCTORS[name]}) -> None: ...\n")
    own = {**PROPERTIES.get(name, {})}
    for member, value in sorted(vars(cls).items()):
        special = member.startswith("__") and member.endswith("__")
        if member in ("__init__", "__reduce__", "__setstate__", "__repr__", "__dict__", "__weakref__"):
            continue
        if is_function(value):
            lines.append(function_text(member, value, name))
        elif member == "__array_priority__":
            lines.append(f"    {member}: float\n")
        elif special and special_text(member):
            compared, item = "array" if name == "array" else BOOL, "ArrayAt" if name == "ArrayAt" else "array"
            lines.append(special_text(member).format(compared=compared, item=item))
        elif type(value).__name__ in ("getset_descriptor", "member_descriptor", "property"):
            kind = own.pop(member, name if name == "array" else "Any")
            lines.append(f"    @property\n    def {member}(self) -> {kind}: ...\n")
        elif isinstance(value, cls):
            lines.append(f"    {member}: {name}\n")
    lines += [f"    {member}: {kind}\n" for member, kind in sorted(own.items())]
    final = "" if cls.__flags__ & (1 << 10) else "@final\n"  # Py_TPFLAGS_BASETYPE
    return f"\n{final}class {name}{BASES.get(name, '')}:\n{''.join(lines) or '    ...' + chr(10)}"


def module_text(module: object, name: str) -> str:
    out = [HEAD.format(title=TITLES[name], imports=IMPORTS[name])]
    first: dict[int, str] = {}
    functions, values, classes, aliases = [], [], [], []
    # An alias is declared by the name that the function itself has.
    public = sorted(
        (n for n in vars(module) if not n.startswith("_")),
        key=lambda n: (getattr(vars(module)[n], "__name__", n) != n, n),
    )
    for public_name in public:
        value = vars(module)[public_name]
        if inspect.ismodule(value):
            continue
        if inspect.isclass(value):
            classes.append(class_text(public_name, value))
        elif is_function(value):
            if id(value) in first:
                aliases.append(f"{public_name} = {first[id(value)]}\n")
            else:
                first[id(value)] = public_name
                functions.append(function_text(public_name, value, module=name))
        else:
            kind = "Any" if type(value).__name__ == "State" else "None" if value is None else type(value).__name__
            values.append(f"{public_name}: {kind}\n")
    if hasattr(module, "__all__"):
        values.append(f"__all__ = {module.__all__!r}\n")
    if name == "mlxc":
        values.append("__version__: str\n__array_api_version__: str\n")
        functions.append("def __dir__() -> list[str]: ...\n")
        functions.append("def __array_namespace__(api_version: str | None = None) -> Any: ...\n")
        functions.append("def __array_namespace_info__() -> Any: ...\n")
        # Loaded when it is first named.
        aliases.append("matrix_norm = linalg.norm\n")
    return "".join([*out, *sorted(classes), "\n", *sorted(values), "\n", *sorted(functions), "\n", *sorted(aliases)])


def main(argv: list[str]) -> int:
    if argv not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    from importlib import import_module

    status = 0
    for name in IMPORTS:
        module, path = import_module(name), f"{name.replace('.', '/')}.pyi" if "." in name else "mlxc/__init__.pyi"
        wanted = module_text(module, module.__name__)
        file = ROOT / path
        if argv:
            file.write_text(wanted, encoding="utf-8")
            continue
        present = file.read_text(encoding="utf-8") if file.exists() else ""
        if present != wanted:
            status = 1
            lines = present.splitlines(True), wanted.splitlines(True)
            print("".join(difflib.unified_diff(*lines, path, "the package", n=0)))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
