"""tools/api_coverage.py: what it calls there, missing and different, on a small API made up here."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import mlxc as mx

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import api_coverage  # noqa: E402


def entry(name: str, signature: str = "", kind: str = "function", group: str = "some") -> dict[str, str]:
    return {"name": name, "kind": kind, "signature": signature, "group": group}


def run(tmp_path: Path, names: list[dict[str, str]], *args: str) -> tuple[int, str, str]:
    (tmp_path / "api.json").write_text(json.dumps({"names": names}))
    command = [sys.executable, TOOLS / "api_coverage.py", tmp_path / "api.json", "--page", tmp_path / "page.md", *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    page = (tmp_path / "page.md").read_text() if (tmp_path / "page.md").exists() else ""
    return done.returncode, done.stdout + done.stderr, page


NAMES = [
    entry("mlx.core.exp", "(a: array, /, *, stream: StreamOrDevice=None) -> array", group="whole"),
    entry("mlx.core.array.T", kind="property", group="whole"),
    entry("mlx.core.unheard_of", "(a)", group="part"),
    entry("mlx.core.random.split", "(key: array, num: int=3)", group="part"),
    entry("mlx.core.pi", "float", kind="constant", group="part"),
    entry("MLX_VARIABLE", kind="environment variable", group="none"),
    entry("mlx.launch", "mlx.launch [OPTIONS]", kind="command", group="none"),
]


def test_the_page_has_figures_by_group_and_what_is_missing_or_different(tmp_path):
    status, told, page = run(tmp_path, NAMES)
    assert (status, told) == (0, "")
    assert "| whole | 2 | 2 | 100.0 % | 1 | 1 | 100.0 % |" in page
    assert "| part | 3 | 2 | 66.7 % | 1 | 0 | 0.0 % |" in page
    assert "| **all** | 5 | 4 | 80.0 % | 2 | 1 | 50.0 % |" in page
    assert "none" not in page
    assert "- part: `mlxc.unheard_of`" in page
    assert "  - `mlxc.random.split`: 'num' is 2 by default, not 3" in page


def test_a_whole_api_has_nothing_missing(tmp_path):
    page = run(tmp_path, NAMES[:2])[2]
    assert page.count("Nothing.") == 2


def test_a_check_fails_for_a_group_that_is_not_whole(tmp_path):
    assert run(tmp_path, NAMES, "--check", "whole")[0] == 0
    status, told, _ = run(tmp_path, NAMES, "--check", "whole", "part")
    assert status == 1
    assert "part: mlxc.unheard_of is missing" in told and "part: mlxc.random.split: 'num'" in told
    status, told, _ = run(tmp_path, NAMES, "--check", "unheard")
    assert status == 2 and "no group is named unheard" in told


def differences(signature: str, function) -> list[str]:
    wanted = api_coverage.parse_signature(signature)
    return list(api_coverage.compare_signatures(wanted, list(inspect.signature(function).parameters.values()), False))


@pytest.mark.parametrize(
    ("signature", "function"),
    [
        ("()", lambda: 0),
        ("(a: array, /, b: int=2)", lambda x, /, b=2: 0),
        ("(a, b=2)", lambda a, b=2, c=None: 0),
        ("(a, *, b=2)", lambda a, b=2: 0),
        ("(a, b)", lambda a, b=1: 0),
        ("(*args, **kwargs)", lambda *rest, **named: 0),
        ("(a, *args)", lambda a, *rest: 0),
        ("(a: dict[str, int]={'x': 1}, b='a, b')", lambda a={"x": 1}, b="a, b": 0),
        ("(f: Callable[[int], str]=<function f at 0x7>, axes=[-2, -1]) -> Callable[[int], str]",
         lambda f=len, axes=(-2, -1): 0),
        ("(dtype: Dtype | None=float32)", lambda dtype=mx.float32: 0),
        ("(dtype: Dtype=mlx.core.float32)", lambda dtype=mx.float32: 0),
    ],
)  # fmt: skip
def test_signatures_that_allow_every_call_agree(signature, function):
    assert differences(signature, function) == []


@pytest.mark.parametrize(
    ("signature", "function", "told"),
    [
        ("(a, b)", lambda a: 0, "takes no 'b' by place"),
        ("(a)", lambda b: 0, "argument 1 is 'b', not 'a'"),
        ("(a)", lambda a, /: 0, "argument 1 is 'a', not 'a'"),
        ("(*, a)", lambda a, /: 0, "takes no 'a'"),
        ("(a, *, b=1)", lambda a: 0, "takes no 'b'"),
        ("(a, b=1)", lambda a, b=2: 0, "'b' is 2 by default, not 1"),
        ("(a, b=True)", lambda a, b=1: 0, "'b' is 1 by default, not True"),
        ("(a, b=1)", lambda a, b: 0, "'b' has no default, not 1"),
        ("(a)", lambda a, b: 0, "needs 'b' too"),
        ("(*args)", lambda a: 0, "takes no *args"),
        ("(**kwargs)", lambda a=1: 0, "takes no **kwargs"),
        ("(dtype=float32)", lambda dtype=mx.float16: 0, "'dtype' is mlxc.float16 by default, not float32"),
    ],
)
def test_what_differs_is_told(signature, function, told):
    assert told in differences(signature, function)


def test_methods_are_compared_without_the_object_and_operators_by_place():
    for name, signature in (
        ("array.sum", "(self, axis: int | None=None, keepdims: bool=False, *, stream: StreamOrDevice=None)"),
        ("array.__add__", "(self, other: scalar) -> array"),
        ("Device", "(self, type: DeviceType, index: int=0)"),
    ):
        kind = "class" if name == "Device" else "method"
        path = f"mlx.core.{name}"
        assert api_coverage.difference(entry(path, signature, kind), api_coverage.find(f"mlxc.{name}")) == ""
    wrong = entry("mlx.core.array.sum", "(self, axes=None)", "method")
    assert "argument 1 is 'axis'" in api_coverage.difference(wrong, mx.array.sum)


def test_a_value_that_cannot_be_called_differs():
    assert api_coverage.difference(entry("mlx.core.pi", "(x)"), mx.pi) == "cannot be called"
