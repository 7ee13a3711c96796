"""Trains a small Transformer language model on Shakespeare's Hamlet, byte by byte.

    python examples/transformer_lm/train.py

Prints training and validation loss beside a progress bar, compares the result with a table of byte
pairs, saves the loss curve as loss.png and shows a text that the model makes up. --help lists the
options; the defaults take less than a minute on two free cores.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import matplotlib
from adamw import AdamW, map_trees
from model import Config, generate, initialise, loss
from tqdm import tqdm

import mlxc as mx

HERE = Path(__file__).resolve().parent


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, default=HERE.parent / "data" / "hamlet.txt", help="an ASCII text")
    parser.add_argument("--out", type=Path, default=Path("loss.png"), help="where the loss curve goes")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--rate", type=float, default=2e-3, help="greatest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=400, help="bytes to generate at the end")
    parser.add_argument("--temperature", type=float, default=0.8)
    options = parser.parse_args()
    if options.width % options.heads:
        parser.error(f"--width {options.width} is not a multiple of --heads {options.heads}")
    return options


def read_text(path: Path, context: int) -> tuple[mx.array, mx.array]:
    """The text as bytes: its first nine tenths to train on, the rest to validate on."""
    data = path.read_bytes()
    if max(data, default=0) > 127:
        raise SystemExit(f"{path} is not plain ASCII")
    cut = len(data) * 9 // 10
    if len(data) - cut <= context + 1:
        raise SystemExit(f"{path} is too short for a context of {context} bytes")
    return mx.array(list(data[:cut]), dtype=mx.int32), mx.array(list(data[cut:]), dtype=mx.int32)


def draw_windows(text: mx.array, count: int, length: int, key: mx.array) -> mx.array:
    starts = mx.random.randint(0, text.size - length + 1, (count, 1), key=key)
    return text[starts + mx.arange(length)]


def cut_windows(text: mx.array, length: int) -> mx.array:
    """The whole text as windows that overlap by one byte, so that each byte is predicted once."""
    count = (text.size - 1) // (length - 1)
    return text[mx.arange(count)[:, None] * (length - 1) + mx.arange(length)]


def measure_loss(params: dict, windows: mx.array, config: Config, batch: int = 64) -> float:
    total = 0.0
    for start in range(0, windows.shape[0], batch):
        part = windows[start : start + batch]
        total += loss(params, part, config.heads).item() * part.shape[0]
    return total / windows.shape[0]


def measure_bigram_loss(train: mx.array, validation: mx.array, vocabulary: int) -> float:
    """What predicting each byte from the one before it alone reaches (counts with one added)."""
    counts = mx.ones((vocabulary, vocabulary)).at[train[:-1], train[1:]].add(1.0)
    log_probability = mx.log(counts / mx.sum(counts, axis=1, keepdims=True))
    return -mx.mean(log_probability[validation[:-1], validation[1:]]).item()


def learning_rate(step: int, steps: int, greatest: float) -> float:
    """A short linear rise, then half a cosine down to a tenth."""
    warm_up = max(1, steps // 20)
    if step < warm_up:
        return greatest * (step + 1) / warm_up
    return greatest * (0.55 + 0.45 * math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


def save_curve(path: Path, train: list[float], validation: list[tuple[int, float]], bigram: float) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    axes.plot(train, color="tab:blue", alpha=0.4, linewidth=1, label="training")
    axes.plot(*zip(*validation, strict=True), color="tab:orange", marker="o", markersize=3, label="validation")
    axes.axhline(bigram, color="tab:gray", linestyle="--", label="byte pairs")
    axes.set(xlabel="step", ylabel="cross-entropy (nats a byte)", title="Transformer on Hamlet")
    axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main() -> None:
    options = read_options()
    config = Config(context=options.context, width=options.width, heads=options.heads, blocks=options.blocks)
    train_text, validation_text = read_text(options.text, config.context)
    validation_windows = cut_windows(validation_text, config.context + 1)
    bigram = measure_bigram_loss(train_text, validation_text, config.vocabulary)

    key, init_key = mx.random.split(mx.random.key(options.seed))
    params = initialise(config, init_key)
    optimizer = AdamW()
    state = optimizer.start(params)
    sizes: list[int] = []
    map_trees(lambda p: sizes.append(p.size), params)
    print(f"{options.text.name}: {train_text.size:,} bytes to train on, {validation_text.size:,} to validate on")
    print(f"model: {sum(sizes):,} parameters; a table of byte pairs has validation loss {bigram:.3f}")

    loss_and_gradients = mx.value_and_grad(lambda params, windows: loss(params, windows, config.heads))
    train_losses: list[float] = []
    validation_losses: list[tuple[int, float]] = []
    started = time.perf_counter()
    with tqdm(total=options.steps, unit="step") as bar:
        for step in range(options.steps):
            key, batch_key = mx.random.split(key)
            windows = draw_windows(train_text, options.batch, config.context + 1, batch_key)
            value, gradients = loss_and_gradients(params, windows)
            rate = learning_rate(step, options.steps, options.rate)
            params, state = optimizer.update(params, gradients, state, rate)
            mx.eval(value, params, state)
            train_losses.append(value.item())
            if (step + 1) % 50 == 0 or step + 1 == options.steps:
                validation_losses.append((step + 1, measure_loss(params, validation_windows, config)))
            last = f"{validation_losses[-1][1]:.3f}" if validation_losses else "-"
            bar.set_postfix(train=f"{train_losses[-1]:.3f}", validation=last, refresh=False)
            bar.update()
    seconds = time.perf_counter() - started

    print(f"validation loss {validation_losses[-1][1]:.3f} after {options.steps} steps in {seconds:.0f} s")
    save_curve(options.out, train_losses, validation_losses, bigram)
    print(f"loss curve: {options.out}")
    prompt = b"\n\nHam.\n"
    sample = generate(
        params, mx.array(list(prompt), dtype=mx.int32), options.sample, config, temperature=options.temperature, key=key
    )
    print((prompt + bytes(sample)).decode("ascii"))


if __name__ == "__main__":
    main()
