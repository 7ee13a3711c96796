"""Which cases' values are recorded in which file."""

from __future__ import annotations

from collections.abc import Iterator

import function_cases
from peer_cases import Case

FILES = {
    "functions.npz": (function_cases.activations, function_cases.losses, function_cases.initialisers),
}


def cases_of(file: str) -> Iterator[Case]:
    for group in FILES[file]:
        yield from group()
