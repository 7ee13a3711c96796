"""Writes Python's share: Cython declarations of the C functions, one cdef function an op (`op_NAME`) for the
hand-written modules, the plain wrappers (`python = "unary"` or `"binary"`) with docstrings, and the docs
page. The texts come from the table, so a wrapper cannot say something else than its row.
"""

from __future__ import annotations

from .c_header import LIST_ITEM, c_arguments
from .examples import EXAMPLES
from .table import PYTHON_PLAIN, Op

# MLX lets these be called with keywords; every other plain wrapper takes its arrays by position only.
KEYWORD_ARRAYS = {
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "equal", "not_equal", "less", "less_equal",
    "greater", "greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift",
    "bitwise_invert", "isnan", "isinf", "isfinite", "conjugate",
}  # fmt: skip
ACCEPTS_TEXT = {
    "any": "any dtype",
    "number": "any dtype but bool",
    "real": "any dtype but complex ones",
    "integer": "integers and bool",
    "inexact": "floating-point and complex dtypes",
    "uint32": "uint32",
    "floating": "floating-point dtypes",
    "uint8": "uint8",
    "not_half": "any dtype but float16 and bfloat16",
}
RESULT_TEXT = {
    "same": "the dtype of `a`",
    "first": "the dtype of `a`",
    "bool": "dtype bool",
    "uint32": "dtype uint32",
    "real": "the dtype of `a`, of its real part if it is complex",
    "float": "the dtype of `a`, or float32 if that is an integer or bool",
    "promote": "the dtype that `a` and `b` promote to",
    "promote_float": "the dtype that `a` and `b` promote to, or float32 if that is an integer or bool",
}
PARAM_TYPE = {"bool": "bint", "i32": "int32_t", "i64": "int64_t", "f64": "double", "dtype": "mlxc_dtype",
              "axes": "object", "sizes": "object", "shape": "object"}  # fmt: skip


def write_declarations(ops: list[Op]) -> str:
    """c_ops.pxi: the typed functions and op numbers, for Cython."""
    out = ["# Generated from ops.toml.\n", 'cdef extern from "mlxc/ops.h" nogil:\n']
    out += [f"    int MLXC_OP_{op.name.upper()}\n" for op in ops]
    out.append("    int MLXC_OP_COUNT\n    const char* mlxc_op_name(int32_t op)\n"
               "    int32_t mlxc_op_from_name(const char* name)\n")  # fmt: skip
    for op in ops:
        if op.core_run:
            continue
        args = [a.replace("mlxc_array* const* ", "mlxc_array** ") for a in c_arguments(op)] + ["mlxc_stream* stream"]
        args += ["mlxc_array** out"] if len(op.outputs) == 1 else [f"mlxc_array** {name}" for name in op.outputs]
        out.append(f"    mlxc_error* mlxc_{op.name}({', '.join(args)})\n")
    return "".join(out)


def prim_signature(op: Op) -> str:
    args = [f"Array {name}" for name in op.fixed_inputs] + (["list arrays"] if op.variadic else [])
    args += [f"{PARAM_TYPE[kind]} {name}" for name, kind in op.params.items()]
    result = "Array" if len(op.outputs) == 1 else "tuple"
    return f"{result} op_{op.name}({', '.join([*args, 'mlxc_stream* stream'])})"


def write_prim_declarations(ops: list[Op]) -> str:
    """prims_decl.pxi: the declarations of prims.pxi, for _prim.pxd."""
    return "# Generated from ops.toml.\n" + "".join(f"cdef {prim_signature(op)}\n" for op in ops if not op.core_run)


def write_prims(ops: list[Op]) -> str:
    """prims.pxi: every op as a cdef function on Array. Shapes and axes are what Python callers may give: an int or a
    sequence; None for all axes.
    """
    out = ["# Generated from ops.toml.\n"]
    for op in ops:
        if op.core_run:
            continue
        outputs = ["out"] if len(op.outputs) == 1 else op.outputs
        lines = [f"\n\ncdef {prim_signature(op)}:\n"]
        lines += [f"    cdef mlxc_array* c_{name} = NULL\n" for name in outputs]
        lists = [name for name, kind in op.params.items() if kind in LIST_ITEM]
        for name in lists:
            kind = "Axes" if LIST_ITEM[op.params[name]] == "int32_t" else "Shape"
            lines.append(f"    cdef {kind} c_{name}\n    to_{kind.lower()}({name}, &c_{name})\n")
        args = [f"{name}.h" for name in op.fixed_inputs] + (["handles, len(arrays)"] if op.variadic else [])
        args += [f"c_{n}.v, c_{n}.n" if n in lists else n for n in op.params]
        call = f"check(mlxc_{op.name}({', '.join(args + ['stream'] + [f'&c_{n}' for n in outputs])}))\n"
        if op.variadic:
            lines.append("    cdef mlxc_array** handles = take_handles(arrays)\n    try:\n        " + call +
                         "    finally:\n        PyMem_Free(handles)\n")  # fmt: skip
        else:
            lines.append("    " + call)
        wrapped = [f"wrap(c_{name})" for name in outputs]
        lines.append(f"    return {wrapped[0]}\n" if len(outputs) == 1 else f"    return ({', '.join(wrapped)})\n")
        out += lines
    return "".join(out)


def plain_ops(ops: list[Op]) -> list[Op]:
    return [op for op in ops if op.python in PYTHON_PLAIN]


def arguments(op: Op) -> str:
    """The wrapper's Python argument list."""
    names = ", ".join(op.inputs)
    if op.name == "conjugate":
        return f"{names}, *, stream=None"
    return f"{names}, stream=None" if op.name in KEYWORD_ARRAYS else f"{names}, /, *, stream=None"


def docstring(op: Op) -> str:
    binary = op.python == "binary"
    example, printed = EXAMPLES.get(op.name, ("", ""))
    names = " and ".join(f"`{name}`" for name in op.inputs)
    text = [op.doc, "", "Args:"]
    for name in op.inputs:
        text.append(f"    {name}: array or scalar, any shape, {ACCEPTS_TEXT[op.accepts]}.")
    text += ["    stream: stream or device to compute on; None is the default.", "", "Returns:"]
    shape = f"the shape that {names} broadcast to" if binary else "the shape of `a`"
    text.append(f"    An array of {shape}, {RESULT_TEXT[op.dtype_rule]}.")
    if binary:
        text.append("    A Python scalar takes the other argument's dtype, if that is of its kind or a wider one.")
    text += ["", "Raises:"]
    if binary:
        text.append(f"    ValueError: if the shapes of {names} do not broadcast, or a scalar does not fit the dtype.")
    dtypes = "" if op.accepts == "any" else ", or its dtype is not accepted"
    text.append(f"    TypeError: if an argument is no array or scalar{dtypes}.")
    if example:
        text += ["", "Example:", f"    >>> mx.{op.name}({example})", f"    {printed}"]
    return "\n".join(f"    {line}" if line else "" for line in text).lstrip()


def write_wrappers(ops: list[Op]) -> str:
    """ops_wrappers.pxi: the plain wrappers, included by _ops_plain.pyx."""
    out = ["# Generated from ops.toml.\n"]
    for op in plain_ops(ops):
        out.append(f'\n\ndef {op.name}({arguments(op)}):\n    """{docstring(op)}\n    """\n')
        operands = ", ".join(op.inputs)
        out.append(f"    return apply_{op.python}(mlxc_{op.name}, {operands}, to_stream(stream))\n")
    out.append("\n\n__all__ = [\n" + "".join(f'    "{op.name}",\n' for op in plain_ops(ops)) + "]\n")
    return "".join(out)


def write_docs(ops: list[Op]) -> str:
    """ops.md: the coverage page."""
    out = ["# Ops\n\nGenerated from `include/mlxc/ops.toml`.\n\n"
           "| op | number | family | accepts | vjp | jvp | meaning |\n|---|---|---|---|---|---|---|\n"]  # fmt: skip
    for op in ops:
        grad = ["yes" if op.has_rule(w) else getattr(op, w).removeprefix("none: ") for w in ("vjp", "jvp")]
        meaning = op.doc.replace("|", "\\|")
        out.append(f"| `{op.name}` | {op.number} | {op.family} | {op.accepts} | {grad[0]} | {grad[1]} | {meaning} |\n")
    return "".join(out)
