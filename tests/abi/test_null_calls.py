"""Every function of the embedding headers survives NULL for each handle and zero for each number.

The C program is generated from the headers, so that a new function is covered the day it is declared. A
function that can return an error may return one; it must not crash, and an op must return MLXC_ERROR_VALUE.
"""

from __future__ import annotations

import re
from pathlib import Path

import mlxc

HEADERS = ["device.h", "array.h", "transform.h", "control.h", "kernel.h", "random.h", "program.h", "ops.h"]
# Not called: it makes an error that the program would have to free.
SKIPPED = {"mlxc_error_make"}


def read_prototypes() -> list[tuple[str, str, list[str]]]:
    """(return type, name, argument types) of each declared function."""
    folder = Path(mlxc.get_include()) / "mlxc"
    prototypes = []
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", " ", (folder / header).read_text(encoding="utf-8"), flags=re.DOTALL)
        for match in re.finditer(r"MLXC_API\s+([\w\s*]+?)\s*\b(mlxc_\w+)\((.*?)\);", text, flags=re.DOTALL):
            # A callback's own arguments hold commas.
            arguments = re.sub(r"void \(\*\w+\)\(void\* context\)", "void* callback", " ".join(match.group(3).split()))
            types = [] if arguments == "void" else [part.strip() for part in arguments.split(",")]
            prototypes.append((match.group(1), match.group(2), types))
    return prototypes


def zero_of(argument: str) -> str:
    if "*" in argument or "interrupt_fn" in argument:
        return "NULL"
    if argument.startswith("mlxc_device "):
        return "(mlxc_device){0, 0}"
    return "0"


def write_program(prototypes: list[tuple[str, str, list[str]]], op_names: set[str]) -> str:
    lines = ['#include "check.h"', "int main(void) {", "  mlxc_error* error;", "  OK(mlxc_init());"]
    for result, name, arguments in prototypes:
        if name in SKIPPED:
            continue
        call = f"{name}({', '.join(zero_of(argument) for argument in arguments)})"
        lines.append(f'  fprintf(stderr, "{name}\\n");')
        if name.removeprefix("mlxc_") in op_names:
            lines.append(f"  FAILS(MLXC_ERROR_VALUE, {call});")
        elif result == "mlxc_error*":
            lines += [
                f"  error = {call};",
                "  if (error) REQUIRE(mlxc_error_text(error)[0]);",
                "  mlxc_error_free(error);",
            ]
        elif result == "mlxc_arrays*":
            lines.append(f"  mlxc_arrays_free({call});")
        else:
            lines.append(f"  {'' if result == 'void' else '(void)'}{call};")
    return "\n".join([*lines, "  return 0;", "}", ""])


def test_functions_survive_null_and_zero(run_compiler_on, run_program):
    folder = Path(mlxc.get_include()) / "mlxc"
    ops = {name.lower() for name in re.findall(r"MLXC_OP_(\w+) =", (folder / "ops.h").read_text())} - {"none", "count"}
    prototypes = read_prototypes()
    assert len(prototypes) > len(ops) > 100
    run_program(run_compiler_on(write_program(prototypes, ops)))
