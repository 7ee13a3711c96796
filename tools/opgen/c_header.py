"""Writes the public header ops.h: op numbers, parameter structs, typed prototypes."""

from __future__ import annotations

from .table import Op

C_TYPE = {"bool": "int32_t", "i32": "int32_t", "i64": "int64_t", "f64": "double", "dtype": "mlxc_dtype",
          "axes": "mlxc_axes", "sizes": "mlxc_sizes", "shape": "mlxc_sizes"}
LIST_ITEM = {"axes": "int32_t", "sizes": "int64_t", "shape": "int64_t"}


def c_arguments(op: Op) -> list[str]:
    """The typed function's arguments, in order, without the trailing stream and out."""
    args = [f"mlxc_array* {name}" for name in op.fixed_inputs]
    if op.variadic:
        args += ["mlxc_array* const* arrays", "size_t n_arrays"]
    for name, kind in op.params.items():
        if kind in LIST_ITEM:
            args += [f"const {LIST_ITEM[kind]}* {name}", f"int32_t n_{name}"]
        else:
            args.append(f"{C_TYPE[kind]} {name}")
    return args


def prototype(op: Op) -> str:
    outs = ["mlxc_array** out"] if len(op.outputs) == 1 else [f"mlxc_array** {name}" for name in op.outputs]
    return f"mlxc_error* mlxc_{op.name}({', '.join([*c_arguments(op), 'mlxc_stream* stream', *outs])})"


def params_struct(op: Op) -> str:
    fields = "\n".join(f"  {C_TYPE[kind]} {name};" for name, kind in op.params.items())
    return f"typedef struct mlxc_{op.name}_params {{\n  size_t struct_size;\n{fields}\n}} mlxc_{op.name}_params;"


HEAD = """/* Generated from ops.toml: op numbers, parameter structs, and every op as a typed function.
 *
 * Every op takes borrowed arrays, an optional stream (NULL: the default) and gives a new reference
 * through `out`. List parameters are a pointer and a count; a count of -1 means "all axes" where an
 * op takes axes. Negative axes count from the end.
 */
#ifndef MLXC_OPS_H
#define MLXC_OPS_H

#include "mlxc/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lists inside parameter structs; their layout never changes. */
typedef struct mlxc_axes {
  int32_t count;
  int32_t items[MLXC_MAX_NDIM];
} mlxc_axes;
typedef struct mlxc_sizes {
  int64_t count;
  int64_t items[MLXC_MAX_NDIM];
} mlxc_sizes;

"""


def write_header(ops: list[Op]) -> str:
    out = [HEAD, "/* ---- op numbers: part of the ABI, never reused ---- */\n\nenum {\n  MLXC_OP_NONE = 0,\n"]
    out += [f"  MLXC_OP_{op.name.upper()} = {op.number},\n" for op in ops]
    out.append(f"  MLXC_OP_COUNT = {ops[-1].number + 1} /* one past the last; grows */\n}};\n\n")
    out.append("/* ---- parameter structs ---- */\n\n")
    out += [params_struct(op) + "\n\n" for op in ops if op.params]
    out.append("/* ---- the ops, for programs that embed mlxc (backends do not need these) ---- */\n\n")
    out.append("typedef struct mlxc_array mlxc_array;\ntypedef struct mlxc_stream mlxc_stream;\n\n")
    out.append("/* The op's name, NULL for an unknown number; and back, 0 for an unknown name. */\n"
               "MLXC_API const char* mlxc_op_name(int32_t op);\nMLXC_API int32_t mlxc_op_from_name(const char* name);\n"
               "/* How many arrays the op makes; -1 where calls decide. Such an op is run by the core,\n"
               " * has a function of its own (mlxc_depends is one), and mlxc_apply refuses it. */\n"
               "MLXC_API int32_t mlxc_op_output_count(int32_t op);\n\n"
               "/* Any op by number. params points to the op's parameter struct, or is NULL if it has none. outputs\n"
               " * has room for n_outputs arrays, which must be what the op makes. */\n"
               "MLXC_API mlxc_error* mlxc_apply(int32_t op, mlxc_array* const* inputs, size_t n_inputs,\n"
               "                                const void* params, mlxc_stream* stream, mlxc_array** outputs,\n"
               "                                size_t n_outputs);\n\n")
    for op in ops:
        if not op.core_run:
            out.append(f"/* {op.doc} */\nMLXC_API {prototype(op)};\n")
    out.append("\n#ifdef __cplusplus\n}\n#endif\n#endif\n")
    return "".join(out)
