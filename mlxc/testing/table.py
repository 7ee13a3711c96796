"""The op table as the kit reads it: one record a row of ops.toml, which is installed beside the headers.

The dtype a result must have follows from the row's rule, so a case need not say it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mlxc as mx

from .dtypes import DTYPES, Dtype, promote


@dataclass(frozen=True)
class Row:
    name: str
    number: int
    family: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dtype: str
    accepts: str
    vjp: str
    jvp: str
    vmap: str
    tolerance: float
    domain: tuple[float, float] | None
    view: bool
    decompose: str  # the rule's name, "" where there is none
    run: str  # the name of the core's rule that runs it without a kernel, else ""
    refuses: tuple[str, ...]  # its rules that are an error: what to use instead

    @property
    def has_vjp(self) -> bool:
        return not self.vjp.startswith("none") and "vjp" not in self.refuses

    @property
    def has_jvp(self) -> bool:
        return not self.jvp.startswith("none") and "jvp" not in self.refuses

    @property
    def has_vmap(self) -> bool:
        return not self.vmap.startswith("none") and "vmap" not in self.refuses


@cache
def read_table() -> dict[str, Row]:
    """The rows of the installed op table by name."""
    with open(Path(mx.get_include()) / "mlxc" / "ops.toml", "rb") as file:
        raw = tomllib.load(file)
    return {name: _read_row(name, row) for name, row in raw.items()}


def _read_row(name: str, row: dict) -> Row:
    return Row(
        name=name,
        number=row["number"],
        family=row["family"],
        inputs=tuple(row["inputs"]),
        outputs=tuple(row.get("outputs", ["out"])),
        dtype=row.get("dtype", "rule"),
        accepts=row.get("accepts", "any"),
        vjp=row["vjp"],
        jvp=row["jvp"],
        vmap=row["vmap"],
        tolerance=row.get("tolerance", 0),
        domain=tuple(row["domain"]) if "domain" in row else None,
        view=row.get("view", False),
        decompose=row.get("decompose", ""),
        run=row.get("run", ""),
        refuses=tuple(row.get("refuses", ())),
    )


def result_dtype(rule: str, inputs: list[Dtype]) -> Dtype:
    """The result's dtype by one of the table's general rules."""
    first = inputs[0]
    if rule in ("same", "first"):
        return first
    if rule in ("bool", "uint32"):
        return DTYPES[rule]
    if rule == "real":
        return {"complex64": DTYPES["float32"], "complex128": DTYPES["float64"]}.get(first.name, first)
    if rule == "float":
        return first if first.is_float else DTYPES["float32"]
    if rule == "promote":
        result = first
        for other in inputs[1:]:
            result = promote(result, other)
        return result
    if rule == "promote_float":
        return result_dtype("float", [result_dtype("promote", inputs)])
    if rule == "sum":
        if first.kind in "bi":
            return first if first.name == "int64" else DTYPES["int32"]
        return first if first.kind != "u" or first.name == "uint64" else DTYPES["uint32"]
    if rule == "scan":
        return DTYPES["int32"] if first.kind == "b" else first
    raise ValueError(f"the dtype rule {rule!r} is not a general one: the case must name its result")
