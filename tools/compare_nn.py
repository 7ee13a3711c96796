"""Runs layers, activations, losses, initialisers and optimizers beside MLX and PyTorch and prints what differs.
For developers:

    pip install "mlx[cpu]" torch
    python tools/compare_nn.py [--rounds N] [--record] [NAME ...]

Compares initial values, results and gradients on random arguments; PyTorch where it is installed and has the function.
The cases are in tests/nn; --record writes MLX's and PyTorch's values for the tests. What differs on purpose is said by
the cases' tolerances and in docs/semantics.md.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests" / "nn"
sys.path.insert(0, str(TESTS))

from peer_cases import arguments, differences, run, run_torch  # noqa: E402
from peer_values import FILES, cases_of, save  # noqa: E402


def library(name: str):
    parts = ("mlx.core", "mlx.nn", "mlx.utils") if name == "mlx" else ("mlxc", "mlxc.nn", "mlxc.utils")
    return tuple(importlib.import_module(part) for part in parts)


def compare(case, seed: int, mlx, mlxc, torch) -> list[str]:
    inputs = arguments(case, seed)
    found = run(*mlxc, case, inputs)
    told = []
    wanted = run(*mlx, case, inputs)
    if not case.mlx_gradient:
        wanted = {key: value for key, value in wanted.items() if not key.startswith("gradient")}
    for name, off in differences(found, wanted, case.mlx_tolerance).items():
        told.append(f"{case.name}: {name} differs from MLX by {off:.3g}")
    if torch is not None:
        parameters = {key[10:]: value for key, value in found.items() if key.startswith("parameter ")}
        for name, off in differences(found, run_torch(torch, case, inputs, parameters), case.torch_tolerance).items():
            told.append(f"{case.name}: {name} differs from PyTorch by {off:.3g}")
    return told


def record(file: str, mlx, torch) -> None:
    """The values of the first round; inputs are not stored, the cases make them again."""
    values = {}
    for case in cases_of(file):
        inputs = arguments(case)
        wanted = run(*mlx, case, inputs)
        parameters = {key[10:]: value for key, value in wanted.items() if key.startswith("parameter ")}
        peers = {"mlx": wanted, "torch": run_torch(torch, case, inputs, parameters)}
        for peer, found in peers.items():
            values |= {(case.name, peer, key): value for key, value in found.items()}
    save(file, values)
    print(f"{file}: {len(values)} arrays, {(TESTS / file).stat().st_size} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="what the names of cases begin with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", action="store_true", help="write the values that the tests compare with")
    options = parser.parse_args()
    mlxc, mlx = library("mlxc"), library("mlx")
    torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    if options.record:
        for file in FILES:
            record(file, mlx, torch)
        return 0
    told: list[str] = []
    count = 0
    for file in FILES:
        for case in cases_of(file):
            if options.names and not case.name.startswith(tuple(options.names)):
                continue
            count += 1
            for seed in range(options.rounds):
                try:
                    told += compare(case, seed, mlx, mlxc, torch)
                except Exception:
                    told.append(f"{case.name}: {traceback.format_exc(limit=3)}")
    print("\n".join(told))
    print(f"{count} cases, {len(told)} differences; PyTorch {'compared' if torch else 'is not installed'}")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
