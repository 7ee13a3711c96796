"""How much of an API, described in a JSON file, the installed package has:

    python tools/api_coverage.py API_JSON [--page FILE] [--check GROUP ...]

The file has `names`: a list of objects with `name` ("mlx.core.X" is mlxc.X here, "mlx.nn.X" is mlxc.nn.X), `group`,
`kind` and `signature`. A name counts if it resolves; a signature agrees if every call that it allows is allowed here:
the same parameters at the same places under the same names with the same defaults. Further parameters with a default
do no harm. Writes the figures and what is missing or different to docs/reference/coverage.md. With --check it ends
with status 1 if one of the groups named has less than all.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/coverage.md"
CALLABLE = ("function", "alias", "method", "class")
ELSEWHERE = ("command", "environment variable")
KIND = inspect.Parameter


# ---- the signature in the file ----------------------------------------------------------------------


@dataclass
class Wanted:
    """A parameter as the file has it; `default` is its text, None if there is none."""

    name: str
    kind: Any
    default: str | None


def outside(text: str) -> Iterator[tuple[int, str, int]]:
    """The characters that are in no string: (place, character, how many brackets are open behind it)."""
    depth, quote = 0, ""
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
            continue
        if c in "'\"":
            quote = c
            continue
        arrow = c == ">" and text[i - 1] == "-"
        depth += (c in "([{<") - (c in ")]}>" and not arrow)
        yield i, c, depth


def split_outside(text: str, separator: str) -> list[str]:
    """Splits at separators that are in no bracket and no string."""
    parts, start = [], 0
    for i, c, depth in outside(text):
        if c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


def parse_signature(text: str) -> list[Wanted] | None:
    """The parameters of "(a: array, /, *, stream=None) -> array"; None if the text is no signature."""
    if not text.startswith("("):
        return None
    end = next(i for i, c, depth in outside(text) if c == ")" and depth == 0)
    wanted: list[Wanted] = []
    kind: Any = KIND.POSITIONAL_OR_KEYWORD
    for part in (p.strip() for p in split_outside(text[1:end], ",")):
        if part == "/":
            for parameter in wanted:
                parameter.kind = KIND.POSITIONAL_ONLY
        elif part == "*":
            kind = KIND.KEYWORD_ONLY
        elif part:
            head, *default = split_outside(part, "=")
            name = head.split(":")[0].strip()
            own = KIND.VAR_KEYWORD if name.startswith("**") else KIND.VAR_POSITIONAL if name.startswith("*") else kind
            if own is KIND.VAR_POSITIONAL:
                kind = KIND.KEYWORD_ONLY
            wanted.append(Wanted(name.lstrip("*"), own, "=".join(default).strip() if default else None))
    return wanted


# ---- comparison -------------------------------------------------------------------------------------


def same_default(text: str, value: object) -> bool:
    """Whether a default's text means the value. Objects that have no notation (<...>) are like any other."""
    if text.startswith("<"):
        return True
    try:
        meant = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        last = text.rsplit(".", 1)[-1]
        return last in (str(value), repr(value), getattr(value, "name", None), str(value).rsplit(".", 1)[-1])
    if isinstance(meant, (list, tuple)) and isinstance(value, (list, tuple)):
        return list(meant) == list(value)
    return meant == value and isinstance(meant, bool) == isinstance(value, bool)


def compare_signatures(wanted: list[Wanted], present: list[inspect.Parameter], by_place: bool) -> Iterator[str]:
    """What is different. `by_place`: parameters are never given by name, as with operators."""
    places = [p for p in present if p.kind in (KIND.POSITIONAL_ONLY, KIND.POSITIONAL_OR_KEYWORD)]
    names = {p.name: p for p in present if p.kind in (KIND.KEYWORD_ONLY, KIND.POSITIONAL_OR_KEYWORD)}
    kinds = {p.kind for p in present}
    met: set[str] = set()
    for i, parameter in enumerate(wanted):
        name = parameter.name
        if parameter.kind in (KIND.VAR_POSITIONAL, KIND.VAR_KEYWORD):
            if parameter.kind not in kinds:
                yield f"takes no {'*' if parameter.kind is KIND.VAR_POSITIONAL else '**'}{name}"
            continue
        found = names.get(name)
        if parameter.kind is not KIND.KEYWORD_ONLY:
            at_place = places[i] if i < len(places) else None
            if at_place is None and KIND.VAR_POSITIONAL in kinds:
                continue
            if at_place is None:
                yield f"takes no {name!r} by place"
                continue
            if parameter.kind is KIND.POSITIONAL_ONLY or by_place:
                found = at_place
            elif found is not at_place:
                yield f"argument {i + 1} is {at_place.name!r}, not {name!r}"
                continue
        if found is None:
            yield f"takes no {name!r}"
            continue
        met.add(found.name)
        if parameter.default is not None and found.default is found.empty:
            yield f"{name!r} has no default, not {parameter.default}"
        elif parameter.default is not None and not same_default(parameter.default, found.default):
            yield f"{name!r} is {found.default!r} by default, not {parameter.default}"
    for p in present:
        needed = p.default is p.empty and p.kind not in (KIND.VAR_POSITIONAL, KIND.VAR_KEYWORD)
        if needed and p.name not in met:
            yield f"needs {p.name!r} too"


def local_name(entry: dict[str, Any]) -> str | None:
    """Where a name of MLX is in this package; None for commands, variables and what builds extensions of MLX."""
    name = entry["name"]
    if not re.fullmatch(r"mlx(\.\w+)+", name) or name.startswith("mlx.extension") or entry["kind"] in ELSEWHERE:
        return None
    return re.sub(r"^mlx(\.core)?\b", "mlxc", name)


def find(path: str) -> Any:
    """The object at a dotted path, through modules and classes; AttributeError if it is not there."""
    first, *rest = path.split(".")
    value: Any = importlib.import_module(first)
    walked = first
    for part in rest:
        walked += f".{part}"
        if inspect.ismodule(value) and not hasattr(value, part):
            try:
                value = importlib.import_module(walked)
            except ModuleNotFoundError as error:
                raise AttributeError(str(error)) from None
        else:
            value = getattr(value, part)
    return value


def difference(entry: dict[str, Any], value: Any) -> str | None:
    """What is different about the signature, "" if nothing; None if there is none to compare."""
    signature = entry.get("signature") or ""
    wanted = parse_signature(signature) if entry["kind"] in CALLABLE else None
    if wanted is None:
        return None
    if not callable(value):
        return "cannot be called"
    special = entry["name"].rsplit(".", 1)[-1].startswith("__")
    try:
        present = list(inspect.signature(value).parameters.values())
    except ValueError:
        return "" if special else "has no visible signature"
    if wanted and wanted[0].name in ("self", "cls"):
        wanted = wanted[1:]
        # A function that is looked up in a class begins with the object; a class's own signature does not.
        if entry["kind"] == "method" and not inspect.ismethod(value):
            present = present[1:]
    return "; ".join(compare_signatures(wanted, present, special))


# ---- the page ---------------------------------------------------------------------------------------


@dataclass
class Group:
    """The figures of a group."""

    names: int = 0
    signatures: int = 0
    missing: list[str] = field(default_factory=list)
    different: list[tuple[str, str]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return not self.missing and not self.different


def measure(names: list[dict[str, Any]]) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    for entry in names:
        path = local_name(entry)
        if path is None:
            continue
        group = groups.setdefault(entry["group"], Group())
        group.names += 1
        try:
            value = find(path)
        except AttributeError:
            group.missing.append(path)
            continue
        told = difference(entry, value)
        group.signatures += told is not None
        if told:
            group.different.append((path, told))
    return groups


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def write_page(groups: dict[str, Group]) -> str:
    lines = ["# Coverage of MLX's API", "", "Written by `tools/api_coverage.py`; do not edit.", "",
             "A signature agrees if every call that MLX's allows is allowed here.", "",
             "| group | names | here | | signatures | agree | |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    total = Group()
    for name, group in groups.items():
        total.names += group.names
        total.signatures += group.signatures
        total.missing += group.missing
        total.different += group.different
        lines.append(row(name, group))
    lines += [row("**all**", total), ""]
    for title, chosen in (("Missing", "missing"), ("Different", "different")):
        lines += [f"## {title}", ""]
        if not getattr(total, chosen):
            lines += ["Nothing.", ""]
        for name, group in groups.items():
            items = getattr(group, chosen)
            if items and chosen == "missing":
                lines += [f"- {name}: {', '.join(f'`{item}`' for item in items)}"]
            elif items:
                lines += [f"- {name}", *(f"  - `{item}`: {told}" for item, told in items)]
        lines += [""] if getattr(total, chosen) else []
    return "\n".join(lines).rstrip("\n") + "\n"


def row(name: str, group: Group) -> str:
    here, agree = group.names - len(group.missing), group.signatures - len(group.different)
    shares = share(here, group.names), share(agree, group.signatures)
    return f"| {name} | {group.names} | {here} | {shares[0]} | {group.signatures} | {agree} | {shares[1]} |"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("api", type=Path, help="the JSON file")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    parser.add_argument("--check", nargs="*", default=[], metavar="GROUP", help="groups that must be complete")
    options = parser.parse_args(argv)
    groups = measure(json.loads(options.api.read_text(encoding="utf-8"))["names"])
    unknown = [name for name in options.check if name not in groups]
    if unknown:
        parser.error(f"no group is named {', '.join(unknown)}; there are {', '.join(groups)}")
    options.page.parent.mkdir(parents=True, exist_ok=True)
    options.page.write_text(write_page(groups), encoding="utf-8")
    incomplete = [name for name in options.check if not groups[name].complete]
    for name in incomplete:
        for item in groups[name].missing:
            print(f"{name}: {item} is missing")
        for item, told in groups[name].different:
            print(f"{name}: {item}: {told}")
    return 1 if incomplete else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
