"""The heat example against the exact solution, and its stencil against the known discrete decay."""

from __future__ import annotations

import json
import math
from pathlib import Path

import heat2d
import numpy as np
import pytest

import mlxc as mx

GOLDEN = json.loads((Path(__file__).resolve().parent / "data" / "heat2d.json").read_text())


@pytest.fixture(scope="module")
def cooling() -> dict[int, np.ndarray]:
    """A plate with all edges at 0 in float64, after the golden file's numbers of steps."""
    n, r = GOLDEN["points"], GOLDEN["r"]
    half_wave = np.sin(np.pi * np.linspace(0, 1, n))
    u = mx.array(np.outer(half_wave, half_wave), dtype=mx.float64)
    states = {}
    for step in range(1, 1 + max(map(int, GOLDEN["steps"]))):
        u[1:-1, 1:-1] += r * heat2d.laplacian(u)
        if str(step) in GOLDEN["steps"]:
            states[step] = np.array(u)
        elif step % 50 == 0:
            mx.eval(u)
    return states


@pytest.mark.parametrize("step", [int(s) for s in GOLDEN["steps"]])
def test_half_wave_decays_by_the_schemes_own_factor(cooling: dict, step: int) -> None:
    middle = GOLDEN["points"] // 2
    assert cooling[step][middle, middle] == pytest.approx(GOLDEN["decay"] ** step, rel=1e-12)
    assert cooling[step].sum() == pytest.approx(GOLDEN["steps"][str(step)]["sum"], rel=1e-12)


def test_error_falls_with_the_square_of_the_spacing() -> None:
    def error(points: int) -> float:
        times, states, x, y = heat2d.solve(points, 0.02)
        return mx.max(mx.abs(states[-1] - heat2d.exact_solution(x, y, times[-1]))).item()

    coarse, fine = error(17), error(33)
    assert fine < 3e-3
    assert math.log2(coarse / fine) == pytest.approx(2, abs=0.3)


def test_held_edges_stay_and_insulated_edges_are_level() -> None:
    _, states, _, _ = heat2d.solve(33, 0.05)
    u = np.array(states[-1])
    assert np.abs(u[:, 0] - 1).max() < 1e-6
    assert np.abs(u[:, -1]).max() < 1e-6
    slope_at_edge = 1.5 * u[0] - 2 * u[1] + 0.5 * u[2]
    assert np.abs(slope_at_edge).max() < 1e-2


def test_picture_is_drawn_straight_from_arrays(tmp_path: Path) -> None:
    times, states, _, _ = heat2d.solve(17, 0.01)
    path = tmp_path / "heat.png"
    heat2d.draw(path, times, states)
    assert path.read_bytes().startswith(b"\x89PNG")
