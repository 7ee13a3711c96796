"""Reads ops.toml into Op records and checks what can be checked without the code."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

PARAM_TYPES = {"bool", "i32", "i64", "f64", "dtype", "axes", "sizes", "shape"}
ACCEPTS = {"any", "number", "real", "integer", "inexact", "uint32", "floating", "uint8", "not_half"}
DTYPE_RULES = ["rule", "same", "first", "bool", "uint32", "real", "float", "promote", "promote_float", "sum", "scan"]
PYTHON_PLAIN = {"unary", "binary"}


@dataclass
class Op:
    name: str
    number: int
    family: str
    inputs: list[str]
    vjp: str
    jvp: str
    vmap: str
    python: str
    doc: str
    since: str
    run: str = ""
    shape: str = ""
    dtype: str = "rule"
    accepts: str = "any"
    tolerance: float = 0
    outputs: list[str] = field(default_factory=lambda: ["out"])
    params: dict[str, str] = field(default_factory=dict)
    view: bool = False
    refuses: list[str] = field(default_factory=list)
    decompose: str = ""
    expr: str = ""
    domain: tuple[float, float] = (-4.0, 4.0)
    version: int = 1

    @property
    def variadic(self) -> bool:
        return "..." in self.inputs

    @property
    def fixed_inputs(self) -> list[str]:
        return [i for i in self.inputs if i != "..."]

    @property
    def dtype_rule(self) -> str:
        """The generic rule's name, or "rule" where the shape rule decides itself."""
        return self.dtype if self.dtype in DTYPE_RULES else "rule"

    @property
    def core_run(self) -> bool:
        """Whether the core runs it itself: then it has neither kernel nor generated functions."""
        return bool(self.run)

    @property
    def elementwise(self) -> bool:
        return bool(self.expr)

    def has_rule(self, which: str) -> bool:
        """Whether it has a rule of that kind: vjp, jvp or vmap."""
        return not getattr(self, which).startswith("none")


def read_table(path: str | Path) -> list[Op]:
    """Returns the ops in order of their numbers; raises ValueError where the table breaks a rule."""
    with open(path, "rb") as file:
        raw = tomllib.load(file)
    ops = []
    for name, row in raw.items():
        try:
            ops.append(Op(name=name, **row))
        except TypeError as error:
            raise ValueError(f"ops.toml [{name}]: {error}") from None
    ops.sort(key=lambda op: op.number)
    check_table(ops)
    return ops


def check_table(ops: list[Op]) -> None:
    seen: dict[int, str] = {}
    for op in ops:
        where = f"ops.toml [{op.name}]"
        if not re.fullmatch(r"[a-z][a-z0-9_]*", op.name):
            raise ValueError(f"{where}: not a C identifier in lower case")
        if op.number < 1 or op.number in seen:
            reason = f"taken by {seen[op.number]}" if op.number in seen else "below 1"
            raise ValueError(f"{where}: number {op.number} is {reason}")
        seen[op.number] = op.name
        if op.accepts not in ACCEPTS:
            raise ValueError(f"{where}: accepts = {op.accepts!r} is none of {sorted(ACCEPTS)}")
        if op.core_run and (op.shape or op.params or op.view or op.expr):
            raise ValueError(f"{where}: what the core runs has no shape rule, parameters, view or expr")
        if not op.core_run and not (op.shape and op.dtype):
            raise ValueError(f"{where}: the shape or dtype rule is missing")
        for param, kind in op.params.items():
            if kind not in PARAM_TYPES:
                raise ValueError(f"{where}: parameter {param} has unknown type {kind!r}")
        if op.variadic and op.inputs[-1] != "...":
            raise ValueError(f"{where}: '...' must be the last input")
        for rule in (op.vjp, op.jvp, op.vmap):
            if rule.startswith("none") and len(rule) < 8:
                raise ValueError(f"{where}: 'none' needs its reason, 'none: why'")
        if not op.doc.endswith("."):
            raise ValueError(f"{where}: doc must be a sentence")
