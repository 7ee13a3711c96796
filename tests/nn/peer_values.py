"""The recorded values: which cases are in which file, and how a file keeps many small arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import function_cases
import layer_cases
import numpy as np
import shifted_cases
from peer_cases import Case

FOLDER = Path(__file__).parent

FILES = {
    "shifted.npz": (shifted_cases.norms, shifted_cases.calls),
    "functions.npz": (function_cases.activations, function_cases.losses, function_cases.initialisers),
    "layers.npz": (
        layer_cases.convolutions,
        layer_cases.pools,
        layer_cases.upsamplings,
        layer_cases.recurrent,
        layer_cases.attention,
        layer_cases.others,
        layer_cases.quantised,
    ),
}


def cases_of(file: str) -> Iterator[Case]:
    for group in FILES[file]:
        yield from group()


def save(file: str, arrays: dict[tuple[str, str, str], np.ndarray]) -> None:
    """Writes arrays by case, peer and name: one after the other, as a small file in a zip costs as much again."""
    names = ["|".join([*key, "x".join(map(str, value.shape))]) for key, value in arrays.items()]
    flat = np.concatenate([value.ravel().astype(np.float32) for value in arrays.values()])
    np.savez_compressed(FOLDER / file, names=np.array("\n".join(names)), values=flat)


def load(file: str) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """By case and peer, the arrays by name."""
    found: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    with np.load(FOLDER / file) as stored:
        names, flat = str(stored["names"]).split("\n"), stored["values"]
    start = 0
    for line in names:
        case, peer, name, sizes = line.split("|")
        shape = tuple(int(size) for size in sizes.split("x") if size)
        stop = start + int(np.prod(shape))
        found.setdefault((case, peer), {})[name] = flat[start:stop].reshape(shape)
        start = stop
    assert start == flat.size
    return found
