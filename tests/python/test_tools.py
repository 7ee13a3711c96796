"""The op table, the code and the stubs agree; the tools that say so notice when they do not."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import check_ops  # noqa: E402
from opgen import python  # noqa: E402
from opgen.table import read_table  # noqa: E402


def run(tool: str, *args: str) -> subprocess.CompletedProcess[str]:
    # Not from the source folder, where `mlxc` would be the package without its libraries.
    return subprocess.run(
        [sys.executable, str(TOOLS / tool), *args], capture_output=True, text=True, cwd=TOOLS, check=False
    )


@pytest.mark.parametrize("tool", ["check_ops.py", "check_stubs.py", "check_types.py"])
def test_the_code_agrees_with_its_tables(tool):
    result = run(tool)
    assert result.returncode == 0, result.stdout + result.stderr


def row(name: str):
    return next(op for op in read_table(check_ops.TABLE) if op.name == name)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("sin", {"shape": "unheard_of"}, "infer_unheard_of"),
        ("sin", {"vjp": "unheard_of"}, "vjp_unheard_of"),
        ("matmul", {"jvp": "unheard_of"}, "jvp_unheard_of"),
        ("sin", {"vmap": "unheard_of"}, "vmap_unheard_of"),
        ("reshape", {"shape": "unheard_of"}, "view_unheard_of"),
        ("sin", {"name": "unheard_of"}, "example"),
        ("matmul", {"name": "unheard_of"}, "stubs"),
    ],
)
def test_a_row_that_lacks_something_is_named(name, change, words):
    checker = check_ops.Checker()
    op = dataclasses.replace(row(name), **change)
    checker.check_source(op)
    assert any(words in complaint and f"[{op.name}]" in complaint for complaint in checker.complaints)


def test_an_op_that_python_cannot_reach_is_named():
    checker = check_ops.Checker()
    checker.check_package(dataclasses.replace(row("sin"), name="unheard_of"))
    assert any("mlxc.unheard_of" in complaint for complaint in checker.complaints)


def test_a_broken_table_is_refused(tmp_path):
    table = tmp_path / "ops.toml"
    text = check_ops.TABLE.read_text(encoding="utf-8")
    table.write_text(text.replace("number = 2\n", "number = 1\n", 1), encoding="utf-8")
    with pytest.raises(ValueError, match="taken by"):
        read_table(table)
    table.write_text(text.replace('accepts = "any"', 'accepts = "all"', 1), encoding="utf-8")
    with pytest.raises(ValueError, match="accepts"):
        read_table(table)


def test_unknown_arguments_are_refused():
    for tool in ("check_ops.py", "check_stubs.py", "check_types.py", "gen_ops.py"):
        assert run(tool, "--unheard-of").returncode == 2


def test_the_page_of_ops_is_what_the_table_says():
    table = TOOLS.parent / "include/mlxc/ops.toml"
    page = (TOOLS.parent / "docs/ops.md").read_text(encoding="utf-8")
    assert page == python.write_docs(read_table(table)), "run: tools/gen_ops.py include/mlxc/ops.toml docs docs/ops.md"
