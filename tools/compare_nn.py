"""Runs layers, activations, losses, initialisers and optimizers beside MLX and PyTorch and prints what differs.
For developers:

    pip install "mlx[cpu]" torch
    python tools/compare_nn.py [--rounds N] [--record] [NAME ...]

Compares initial values, results and gradients on random arguments; PyTorch where it is installed and has the function.
The cases are in tests/nn and tests/optimizers; --record writes MLX's and PyTorch's values for tests/nn. What differs on
purpose is said by the cases' tolerances and in docs/semantics.md.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "nn"
sys.path[:0] = [str(TESTS), str(ROOT / "tests" / "optimizers")]

import numpy as np  # noqa: E402
import optimizer_cases  # noqa: E402
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


def optimize(mx, optim, case: str, seed: int) -> dict[str, np.ndarray]:
    """The parameters after some steps with random gradients."""
    kind, settings = optimizer_cases.CASES[case]
    optimizer = getattr(optim, kind)(**settings)
    values, *gradients = optimizer_arrays(seed)
    values = {name: mx.array(value) for name, value in values.items()}
    for step in gradients:
        values = optimizer.apply_gradients({name: mx.array(value) for name, value in step.items()}, values)
    return {name: np.array(value) for name, value in values.items()}


def optimize_torch(torch, make, seed: int) -> dict[str, np.ndarray]:
    values, *gradients = optimizer_arrays(seed)
    tensors = {name: torch.tensor(value).double().requires_grad_() for name, value in values.items()}
    optimizer = make(list(tensors.values()))
    for step, gradient in enumerate(gradients):
        # MLX's Adamax doesn't correct the bias of the mean.
        if isinstance(optimizer, torch.optim.Adamax):
            optimizer.param_groups[0]["lr"] = 0.01 * (1 - 0.9 ** (step + 1))
        for name, value in gradient.items():
            tensors[name].grad = torch.tensor(value).double()
        optimizer.step()
    return {name: value.detach().numpy() for name, value in tensors.items()}


def optimizer_arrays(seed: int) -> list[dict[str, np.ndarray]]:
    """Starting values, and the gradients of each step."""
    random = np.random.default_rng(seed)
    shapes = optimizer_cases.SHAPES.items()
    return [
        {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes}
        for _ in range(1 + optimizer_cases.STEPS)
    ]


def compare_optimizers(names: list[str], rounds: int, torch) -> tuple[int, list[str]]:
    """The number of cases and what differs."""
    libraries = [(importlib.import_module(core), importlib.import_module(optim))
                 for core, optim in (("mlxc", "mlxc.optimizers"), ("mlx.core", "mlx.optimizers"))]  # fmt: skip
    peers = importlib.import_module("make_expected").torch_optimizers() if torch is not None else {}
    cases = [case for case in optimizer_cases.CASES if not names or f"optimizer {case}".startswith(tuple(names))]
    told = []
    for case in cases:
        for seed in range(rounds):
            found, wanted = (optimize(*library, case, seed) for library in libraries)
            others = {"MLX": wanted} | ({"PyTorch": optimize_torch(torch, peers[case], seed)} if case in peers else {})
            for peer, values in others.items():
                for name, off in differences(found, values, 4e-6).items():
                    told.append(f"optimizer {case}: {name} differs from {peer} by {off:.3g}")
    return len(cases), told


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
    optimizers, further = compare_optimizers(options.names, options.rounds, torch)
    count += optimizers
    told += further
    print("\n".join(told))
    print(f"{count} cases, {len(told)} differences; PyTorch {'compared' if torch else 'is not installed'}")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
