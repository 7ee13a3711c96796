"""Holds the layout of every public struct, the values of every enumeration and the op numbers.

What a header says today must agree with layout.lock, which changes only by this file's --update; and an
update may add fields at the end of a struct, structs, enumeration values and ops, nothing else. The test
lets the C compiler compute sizes and offsets, so it needs one. To update, after adding to a header:

    python tests/abi/test_layout_lock.py --update --include DIR     # DIR has mlxc/types.h, mlxc/ops.h, ...
"""

from __future__ import annotations

import argparse
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HEADERS = [
    "types.h", "backend.h", "device.h", "array.h", "transform.h", "control.h", "kernel.h", "random.h", "program.h",
    "ops.h",
]  # fmt: skip
LOCK = Path(__file__).with_name("layout.lock")
# One past the last: these grow with what they count.
GROWING = {"MLXC_DTYPE_COUNT", "MLXC_OP_COUNT"}
# Sizes that a program's or a backend's own memory depends on, so that not even an append is allowed.
FIXED_STRUCTS = {"mlxc_constant", "mlxc_axes", "mlxc_sizes", "mlxc_device"}


def strip_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def field_name(declaration: str) -> str:
    """The declared name: of a function pointer, an array or a plain field."""
    pointer = re.match(r"[^()]*\(\s*\*\s*(\w+)\s*\)", declaration)
    if pointer:
        return pointer.group(1)
    name = re.search(r"(\w+)\s*(\[[^\]]*\]\s*)*$", declaration)
    assert name, f"cannot read the field {declaration!r}"
    return name.group(1)


def parse_header(text: str) -> tuple[dict[str, list[str]], list[str]]:
    """Structs with their fields in order, and names of enumeration values."""
    text = strip_comments(text)
    structs = {}
    for match in re.finditer(r"typedef struct \w+ \{(.*?)\}\s*(\w+)\s*;", text, flags=re.DOTALL):
        fields = [field_name(part.strip()) for part in match.group(1).split(";") if part.strip()]
        structs[match.group(2)] = fields
    values = []
    for match in re.finditer(r"\benum\s*\{(.*?)\}", text, flags=re.DOTALL):
        values += re.findall(r"\b(MLXC_\w+)\s*(?:=|,|$)", match.group(1))
    return structs, values


def write_program(structs: dict[str, list[str]], values: list[str]) -> str:
    lines = ["#include <mlxc/mlxc.h>", "#include <mlxc/backend.h>", "#include <stdio.h>", "int main(void) {"]
    for name, fields in structs.items():
        lines.append(f'  printf("struct {name} %zu\\n", sizeof({name}));')
        for field in fields:
            lines.append(f'  printf("  {field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name}*)0)->{field}));')
    lines += [f'  printf("value {value} %lld\\n", (long long){value});' for value in values]
    return "\n".join([*lines, "  return 0;", "}", ""])


def compute_layout(include: Path, compiler: str) -> str:
    structs: dict[str, list[str]] = {}
    values: list[str] = []
    for header in HEADERS:
        more_structs, more_values = parse_header((include / "mlxc" / header).read_text(encoding="utf-8"))
        structs.update(more_structs)
        values += more_values
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "layout.c"), Path(folder, "layout")
        source.write_text(write_program(structs, values), encoding="utf-8")
        subprocess.run([compiler, "-std=c11", f"-I{include}", str(source), "-o", str(program)], check=True)
        return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def read_layout(text: str) -> tuple[dict[str, tuple[int, list[str]]], dict[str, int]]:
    """Structs as (size, field lines) and values, from the lock's text."""
    structs: dict[str, tuple[int, list[str]]] = {}
    values: dict[str, int] = {}
    fields: list[str] = []
    for line in text.splitlines():
        if line.startswith("struct "):
            _, name, size = line.split()
            fields = []
            structs[name] = (int(size), fields)
        elif line.startswith("value "):
            _, name, number = line.split()
            values[name] = int(number)
        elif line.strip() and not line.startswith("#"):
            fields.append(line.strip())
    return structs, values


def find_breaks(locked: str, current: str) -> list[str]:
    """What `current` changes that programs or backends compiled against `locked` depend on."""
    old_structs, old_values = read_layout(locked)
    new_structs, new_values = read_layout(current)
    breaks = []
    for name, (old_size, old_fields) in old_structs.items():
        if name not in new_structs:
            breaks.append(f"struct {name} is gone")
            continue
        new_size, new_fields = new_structs[name]
        for i, field in enumerate(old_fields):
            if i >= len(new_fields) or new_fields[i] != field:
                breaks.append(f"{name}: field {i} was '{field}', is '{(new_fields + ['gone'] * (i + 1))[i]}'")
        for field in new_fields[len(old_fields) :]:
            if int(field.split()[1]) < old_size:
                breaks.append(f"{name}: '{field}' lies in padding, where struct_size cannot tell if it is there")
        if new_size < old_size or (name in FIXED_STRUCTS and new_size != old_size):
            breaks.append(f"{name}: size was {old_size}, is {new_size}")
    for name, number in old_values.items():
        if name not in new_values:
            breaks.append(f"{name} = {number} is gone")
        elif new_values[name] != number and not (name in GROWING and new_values[name] > number):
            breaks.append(f"{name} was {number}, is {new_values[name]}")
    numbers: dict[int, str] = {}
    for name, number in new_values.items():
        if name.startswith("MLXC_OP_") and name not in GROWING and numbers.setdefault(number, name) != name:
            breaks.append(f"op number {number} belongs to {numbers[number]} and {name}")
    return breaks


# ---- tests ----------------------------------------------------------------------------------------


def installed_layout() -> str:
    import pytest

    import mlxc

    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    if struct.calcsize("P") != 8:
        pytest.skip("the lock is of 64-bit machines")
    return compute_layout(Path(mlxc.get_include()), compiler)


def test_headers_agree_with_the_lock():
    current = installed_layout()
    locked = "".join(line for line in LOCK.read_text().splitlines(True) if not line.startswith("#"))
    assert find_breaks(locked, current) == []
    assert current == locked, "the headers grew: run this file with --update and commit layout.lock"


def test_every_public_struct_but_plain_values_begins_with_its_size():
    structs, _ = read_layout(LOCK.read_text())
    without = {name for name, (_, fields) in structs.items() if fields[0] != "struct_size 0 8"}
    assert without == FIXED_STRUCTS


def test_moved_field_is_a_break():
    assert find_breaks("struct s 16\n  a 0 8\n  b 8 8\n", "struct s 16\n  b 0 8\n  a 8 8\n") != []


def test_removed_field_and_smaller_struct_are_breaks():
    breaks = find_breaks("struct s 16\n  a 0 8\n  b 8 8\n", "struct s 8\n  a 0 8\n")
    assert len(breaks) == 2


def test_renumbered_and_reused_values_are_breaks():
    locked = "value MLXC_OP_ABS 1\nvalue MLXC_OP_SIGN 2\n"
    assert find_breaks(locked, "value MLXC_OP_ABS 2\nvalue MLXC_OP_SIGN 1\n") != []
    assert find_breaks(locked, locked + "value MLXC_OP_NEW 2\n") != []
    assert find_breaks(locked, "value MLXC_OP_ABS 1\n") != []


def test_field_in_the_padding_of_the_old_struct_is_a_break():
    assert find_breaks("struct s 16\n  a 0 8\n  b 8 4\n", "struct s 16\n  a 0 8\n  b 8 4\n  c 12 4\n") != []


def test_appended_field_value_and_struct_are_not_breaks():
    locked = "struct s 8\n  a 0 8\nvalue MLXC_OP_ABS 1\nvalue MLXC_OP_COUNT 2\n"
    grown = (
        "struct s 16\n  a 0 8\n  b 8 4\nstruct t 4\n  c 0 4\n"
        "value MLXC_OP_ABS 1\nvalue MLXC_OP_SIGN 2\nvalue MLXC_OP_COUNT 3\n"
    )
    assert find_breaks(locked, grown) == []


# ---- update ---------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks or updates layout.lock.")
    parser.add_argument("--include", type=Path, required=True, help="folder with mlxc/types.h and mlxc/ops.h")
    parser.add_argument("--update", action="store_true", help="write layout.lock; only additions are accepted")
    parser.add_argument("--cc", default="cc", help="C compiler")
    options = parser.parse_args()
    current = compute_layout(options.include, options.cc)
    if LOCK.exists():
        breaks = find_breaks(LOCK.read_text(), current)
        for line in breaks:
            print(line, file=sys.stderr)
        if breaks:
            return 1
    if options.update:
        head = "# Layout of the public structs (64-bit), values and op numbers; see test_layout_lock.py.\n"
        head += "# struct NAME SIZE, then FIELD OFFSET SIZE; value NAME NUMBER\n"
        LOCK.write_text(head + current)
    return 0


if __name__ == "__main__":
    sys.exit(main())
