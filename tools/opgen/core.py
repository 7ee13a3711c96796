"""Writes the core's share: the op table, the C functions, and the C++ functions that rules call."""

from __future__ import annotations

from .c_header import LIST_ITEM, prototype
from .table import Op

CXX_TYPE = {"bool": "bool", "i32": "int32_t", "i64": "int64_t", "f64": "double", "dtype": "mlxc_dtype",
            "axes": "const Axes&", "sizes": "const Sizes&", "shape": "const Sizes&"}


def rule(op: Op, which: str) -> str:
    name = getattr(op, which)
    return "nullptr" if name.startswith("none") else f"{which}_{name}"


def view_rule(op: Op) -> str:
    return f"view_{op.shape if op.shape != 'same' else op.name}" if op.view else "nullptr"


def write_table(ops: list[Op]) -> str:
    """op_table.inc: declarations of the rules, then one row an op, indexed by number."""
    out = ["// Generated from ops.toml.\n"]
    infer = sorted({op.shape for op in ops if not op.core_run})
    out += [f"void infer_{name}(Recording&);\n" for name in infer]
    for which, args in (("vjp", "const Vjp&, Array*"), ("jvp", "const Jvp&, Array*"), ("vmap", "const Vmap&, Array*")):
        names = sorted({getattr(op, which) for op in ops if op.has_rule(which)})
        out += [f"void {which}_{name}({args});\n" for name in names]
    views = sorted({op.shape if op.shape != "same" else op.name for op in ops if op.view})
    out += [f"bool view_{name}(const Node&, const Node&, Layout*);\n" for name in views]
    decompositions = sorted({op.decompose for op in ops if op.decompose})
    out += [f"void decompose_{name}(const Decomposition&, Array*);\n" for name in decompositions]
    out += [f"void run_{name}(Node*);\n" for name in sorted({op.run for op in ops if op.core_run})]
    out.append("\nconst OpInfo op_table[MLXC_OP_COUNT] = {\n")
    by_number = {op.number: op for op in ops}
    for number in range(ops[-1].number + 1):
        op = by_number.get(number)
        if op is None:
            out.append("    {},\n")
            continue
        size = f"sizeof(mlxc_{op.name}_params)" if op.params else "0"
        n_inputs = f"{len(op.fixed_inputs)}, {'true' if op.variadic else 'false'}"
        n_outputs = -1 if op.core_run else len(op.outputs)
        infer, run = ("nullptr", f"run_{op.run}") if op.core_run else (f"infer_{op.shape}", "nullptr")
        out.append(
            f'    {{{op.number}, "{op.name}", {n_inputs}, {n_outputs}, {size}, '
            f"{'true' if op.elementwise else 'false'}, "
            f"Accepts::{op.accepts}_, DtypeRule::{op.dtype_rule}_, {infer}, "
            f"{rule(op, 'vjp')}, {rule(op, 'jvp')}, {rule(op, 'vmap')}, {view_rule(op)}, "
            f"{f'decompose_{op.decompose}' if op.decompose else 'nullptr'}, {run}}},\n")
    out.append("};\n")
    return "".join(out)


def _fill_params(op: Op, source: str) -> list[str]:
    lines = []
    if not op.params:
        return lines
    lines.append(f"  mlxc_{op.name}_params params;\n  params.struct_size = sizeof(params);\n")
    for name, kind in op.params.items():
        if kind in LIST_ITEM and source == "c":
            lines.append(f'  fill_list(params.{name}, {name}, n_{name}, "{op.name}", "{name}");\n')
        else:
            lines.append(f"  params.{name} = {name};\n")
    return lines


def write_c_functions(ops: list[Op]) -> str:
    """op_api.inc: the typed C functions, each a call of record_c, and the check of list lengths."""
    out = ["// Generated from ops.toml.\n", 'extern "C" {\n']
    ops = [op for op in ops if not op.core_run]
    for op in ops:
        outs = ["out"] if len(op.outputs) == 1 else op.outputs
        n_fixed = len(op.fixed_inputs)
        lines = [f'{prototype(op)} {{\n  return guard([&] {{\n']
        lines += ["  " + line.replace("\n  ", "\n    ") for line in _fill_params(op, "c")]
        if op.variadic:
            fixed = ", ".join(op.fixed_inputs)
            lines.append(f'    InputList inputs("{op.name}", {{{fixed}}}, arrays, n_arrays);\n')
            ins = "inputs.data(), inputs.size()"
        elif n_fixed:
            lines.append(f"    mlxc_array* const inputs[] = {{{', '.join(op.fixed_inputs)}}};\n")
            ins = f"inputs, {n_fixed}"
        else:
            ins = "nullptr, 0"
        params = "&params" if op.params else "nullptr"
        if len(outs) == 1:
            lines.append("    mlxc_array** const outs[] = {out};\n")
        else:
            lines.append(f"    mlxc_array** const outs[] = {{{', '.join(outs)}}};\n")
        lines.append(f"    record_c({op.number}, {ins}, {params}, stream, outs);\n  }});\n}}\n")
        out += lines
    out.append("}\n\nstatic void validate_params(int op, const void* params) {\n  switch (op) {\n")
    for op in ops:
        lists = [name for name, kind in op.params.items() if kind in LIST_ITEM]
        if lists:
            checks = " ".join(f'check_count("{op.name}", "{name}", p.{name}.count);' for name in lists)
            out.append(f"    case {op.number}: {{\n"
                       f"      const auto& p = *static_cast<const mlxc_{op.name}_params*>(params);\n"
                       f"      {checks}\n      break;\n    }}\n")
    out.append("  }\n}\n")
    return "".join(out)


def write_cxx_functions(ops: list[Op]) -> str:
    """op_functions.h: the ops as C++ functions on Array, for gradient rules."""
    out = ["// Generated from ops.toml: the ops as C++ functions, for gradient rules.\n",
           "#pragma once\n\n#include \"core/record.h\"\n\nnamespace mlxc::op {\n\n"]
    for op in ops:
        if op.core_run:
            continue
        args = [f"const Array& {name}" for name in op.fixed_inputs]
        if op.variadic:
            args.append("std::span<const Array> arrays")
        args += [f"{CXX_TYPE[kind]} {name}" for name, kind in op.params.items()]
        result = "Array" if len(op.outputs) == 1 else "std::vector<Array>"
        lines = [f"inline {result} {op.name}({', '.join(args)}) {{\n"]
        lines += _fill_params(op, "cxx")
        params = "&params" if op.params else "nullptr"
        if op.variadic:
            fixed = ", ".join(f"{name}.node()" for name in op.fixed_inputs)
            lines.append(f"  std::vector<Node*> inputs{{{fixed}}};\n"
                         "  for (const Array& array : arrays) inputs.push_back(array.node());\n")
            ins = "inputs.data(), static_cast<int>(inputs.size())"
        elif op.fixed_inputs:
            nodes = ", ".join(f"{name}.node()" for name in op.fixed_inputs)
            lines.append(f"  Node* const inputs[] = {{{nodes}}};\n")
            ins = f"inputs, {len(op.fixed_inputs)}"
        else:
            ins = "nullptr, 0"
        call = "record_many" if len(op.outputs) > 1 else "record_own" if op.params else "record"
        lines.append(f"  return {call}({op.number}, {ins}, {params});\n}}\n")
        out += lines
    out.append("\n}  // namespace mlxc::op\n")
    return "".join(out)


PARAM_KIND = {"bool": "bool_", "i32": "i32_", "i64": "i64_", "f64": "f64_", "dtype": "dtype_", "axes": "axes_",
              "sizes": "sizes_", "shape": "sizes_"}  # fmt: skip


def write_params(ops: list[Op]) -> str:
    """op_params.inc: the fields of each op's parameter struct, for what reads them one by one."""
    out = ["// Generated from ops.toml.\n"]
    for op in ops:
        if op.params:
            fields = ", ".join(f'{{"{name}", ParamKind::{PARAM_KIND[kind]}, offsetof(mlxc_{op.name}_params, {name})}}'
                               for name, kind in op.params.items())
            out.append(f"const ParamInfo {op.name}_fields[] = {{{fields}}};\n")
    out.append("\nconst OpParams params_table[MLXC_OP_COUNT] = {\n")
    by_number = {op.number: op for op in ops}
    for number in range(ops[-1].number + 1):
        op = by_number.get(number)
        fields = f"{op.name}_fields" if op and op.params else "{}"
        out.append(f"    {{{op.version if op else 0}, {fields}}},\n")
    out.append("};\n")
    return "".join(out)
