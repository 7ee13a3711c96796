"""Reading and writing files of 64 MB beside numpy.load, numpy.save and the safetensors package.

Files are in the page cache. Saving has no budget: mlxc waits until the bytes are on the disk, which the others do not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from timing import take_turns

import mlxc as mx

ROUNDS = 21
COUNT = 16_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files")
    a = np.random.default_rng(0).standard_normal(COUNT).astype(np.float32)
    np.save(path / "a.npy", a)
    mx.save_safetensors(path / "a.safetensors", {f"k{i}": mx.array(part) for i, part in enumerate(np.split(a, 16))})
    return path


def load_and_sum(path: Path) -> None:
    """Touches every byte, so that what is mapped is read."""
    loaded = mx.load(path)
    arrays = list(loaded.values()) if isinstance(loaded, dict) else [loaded]
    mx.eval([mx.max(a) for a in arrays])


def test_loading_npy_takes_no_longer_than_numpy(benchmark, keep, folder) -> None:
    path = folder / "a.npy"
    rivals = {"mlxc": lambda: mx.eval(mx.load(path)), "numpy": lambda: np.load(path)}
    seconds = take_turns(rivals, ROUNDS, 1, parallel=True)
    ratio = seconds["mlxc"] / seconds["numpy"]
    benchmark.pedantic(rivals["mlxc"], rounds=5)
    keep(seconds, ratio)
    assert ratio <= 1.2


def test_loading_safetensors_and_reading_all_of_it_takes_no_longer_than_the_package(benchmark, keep, folder) -> None:
    package = pytest.importorskip("safetensors.numpy")
    path = folder / "a.safetensors"
    rivals = {
        "mlxc": lambda: load_and_sum(path),
        "safetensors": lambda: [a.max() for a in package.load_file(path).values()],
    }
    seconds = take_turns(rivals, ROUNDS, 1, parallel=True)
    ratio = seconds["mlxc"] / seconds["safetensors"]
    benchmark.pedantic(rivals["mlxc"], rounds=5)
    keep(seconds, ratio)
    assert ratio <= 1


def test_loading_safetensors_reads_no_more_than_the_header(benchmark, keep, folder) -> None:
    path = folder / "a.safetensors"

    def load_and_read_one_number() -> float:
        return mx.load(path)["k3"][5].item()

    rivals = {"mlxc": load_and_read_one_number, "mlxc, all of it": lambda: load_and_sum(path)}
    seconds = take_turns(rivals, ROUNDS, 1, parallel=True)
    ratio = seconds["mlxc"] / seconds["mlxc, all of it"]
    benchmark.pedantic(rivals["mlxc"], rounds=5)
    keep(seconds, ratio)
    assert ratio <= 0.2


@pytest.mark.parametrize("format", ["npy", "safetensors"])
def test_saving(benchmark, keep, folder, format) -> None:
    package = pytest.importorskip("safetensors.numpy")
    a = mx.load(folder / "a.npy")
    values = np.array(a)
    rivals = {
        "npy": {"mlxc": lambda: mx.save(folder / "b.npy", a), "numpy": lambda: np.save(folder / "c.npy", values)},
        "safetensors": {
            "mlxc": lambda: mx.save_safetensors(folder / "b.safetensors", {"a": a}),
            "safetensors": lambda: package.save_file({"a": values}, folder / "c.safetensors"),
        },
    }[format]
    seconds = take_turns(rivals, 5, 1, parallel=True)
    mine, other = seconds.values()
    benchmark.pedantic(rivals["mlxc"], rounds=3)
    keep(seconds, mine / other)
