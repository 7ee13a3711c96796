"""The heat equation on a square plate, solved with slices of mlxc arrays.

    python examples/heat2d.py

The left edge is held at 1 and the right edge at 0 (Dirichlet); no heat passes the top and bottom edges
(Neumann). Explicit Euler in time, five points in space. The exact solution is a steady slope plus
decaying products of sines and cosines; the program prints how far from it the computed temperatures
are and draws them, straight from the arrays, into heat2d.png.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import matplotlib
from tqdm import tqdm

import mlxc as mx


def exact_solution(x: mx.array, y: mx.array, t: float) -> mx.array:
    """A steady slope and two modes; each mode is a product of functions of x, y and t."""

    def mode(kx: int, ky: int) -> mx.array:
        decay = math.exp(-(kx * kx + ky * ky) * math.pi**2 * t)
        return decay * mx.sin(kx * math.pi * x) * mx.cos(ky * math.pi * y)

    return (1 - x) + mode(1, 0) + 0.8 * mode(2, 2)


def laplacian(u: mx.array) -> mx.array:
    """Sum of the four neighbours less four times the point, for every point inside u."""
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


def step(u: mx.array, r: float) -> mx.array:
    """One step of explicit Euler; r is time step over squared spacing, stable up to 1/4."""
    # A row beyond each insulated edge mirrors the row inside it, so the slope at the edge is zero.
    mirrored = mx.concatenate([u[1:2], u, u[-2:-1]], axis=0)
    u[:, 1:-1] += r * laplacian(mirrored)
    return u


def solve(points: int, end: float, r: float = 0.2) -> tuple[list[float], list[mx.array], mx.array, mx.array]:
    """Times, temperatures at those times, and the coordinates; rows of u are y, columns are x."""
    spacing = 1 / (points - 1)
    steps = math.ceil(end / (r * spacing**2))
    dt = end / steps
    x = mx.linspace(0, 1, points)[None, :]
    y = mx.linspace(0, 1, points)[:, None]
    u = exact_solution(x, y, 0.0)
    kept = {0, steps // 10, steps // 3, steps}
    times, states = [], []
    for n in tqdm(range(steps + 1), unit="step"):
        if n in kept:
            times.append(n * dt)
            states.append(u + 0)
        u = step(u, dt / spacing**2)
        if n % 50 == 0:
            mx.eval(u)
    return times, states, x, y


def draw(path: Path, times: list[float], states: list[mx.array]) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    coldest, hottest = mx.min(states[0]).item(), mx.max(states[0]).item()
    figure, plots = pyplot.subplots(1, len(states), figsize=(3.2 * len(states), 3.4), layout="constrained")
    for axes, t, u in zip(plots, times, states, strict=True):
        image = axes.imshow(u, origin="lower", extent=(0, 1, 0, 1), vmin=coldest, vmax=hottest, cmap="inferno")
        axes.contour(u, levels=12, extent=(0, 1, 0, 1), colors="white", linewidths=0.4)
        axes.set(title=f"t = {t:.3f}", xlabel="x", ylabel="y")
    figure.colorbar(image, ax=plots, label="temperature", pad=0.01)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=129, help="points along an edge")
    parser.add_argument("--end", type=float, default=0.1, help="time to compute up to")
    parser.add_argument("--out", type=Path, default=Path("heat2d.png"))
    options = parser.parse_args()
    if options.points < 3 or options.end <= 0:
        parser.error("--points must be at least 3 and --end positive")

    started = time.perf_counter()
    times, states, x, y = solve(options.points, options.end)
    print(f"{options.points} x {options.points} points in {time.perf_counter() - started:.1f} s")
    for t, u in zip(times, states, strict=True):
        error = mx.max(mx.abs(u - exact_solution(x, y, t))).item()
        print(f"t = {t:.4f}   greatest error against the exact solution {error:.1e}")
    draw(options.out, times, states)
    print(f"temperatures: {options.out}")


if __name__ == "__main__":
    main()
