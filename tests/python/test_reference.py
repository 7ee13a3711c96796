"""The pages of the reference: every public name is on exactly one of them and has something to say."""

from __future__ import annotations

import collections
import inspect
import sys
from pathlib import Path

import pytest

import mlxc as mx

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import build_reference  # noqa: E402


@pytest.fixture(scope="module")
def pages() -> dict[str, build_reference.Page]:
    return build_reference.collect_pages(build_reference.read_settings())


def test_every_public_name_is_on_one_page(pages):
    counts = collections.Counter(name.path for page in pages.values() for name in page.names)
    twice = [path for path, count in counts.items() if count > 1]
    assert twice == []
    public = {name for name in vars(mx) if not name.startswith("_") and not inspect.ismodule(getattr(mx, name))}
    assert {f"mlxc.{name}" for name in public} - set(counts) == set()
    for module in (mx.random, mx.linalg, mx.utils, mx.distributed, mx.metal, mx.cuda):
        assert {f"{module.__name__}.{name}" for name in module.__all__} - set(counts) == set()


def test_names_are_where_one_looks_for_them(pages):
    where = {name.path: file for file, page in pages.items() for name in page.names}
    for path, file in (
        ("mlxc.array", "array"),
        ("mlxc.float32", "dtypes"),
        ("mlxc.pi", "constants"),
        ("mlxc.exp", "elementwise"),
        ("mlxc.acos", "elementwise"),
        ("mlxc.reshape", "shape"),
        ("mlxc.load", "files"),
        ("mlxc.cpu", "devices"),
        ("mlxc.random.normal", "random"),
    ):
        assert where[path] == file


def test_every_function_and_class_has_a_docstring(pages):
    for page in pages.values():
        for name in page.names:
            assert build_reference.describe(name)


def test_another_name_of_a_function_refers_to_the_first(pages):
    described = {name.path: name.described_at for page in pages.values() for name in page.names}
    assert described["mlxc.acos"] == described["mlxc.arccos"] == "mlxc.arccos"
    assert described["mlxc.metal.clear_cache"] == "mlxc.clear_cache"
    assert described["mlxc.inf"] == "mlxc.inf"


def test_a_function_without_a_docstring_is_an_error():
    with pytest.raises(SystemExit, match=r"mlxc\.silent has no docstring"):
        build_reference.describe(build_reference.Name("mlxc.silent", lambda: 0, "mlxc.silent"))


def test_every_page_of_the_settings_has_names(pages):
    assert set(build_reference.read_settings()) <= set(pages)
