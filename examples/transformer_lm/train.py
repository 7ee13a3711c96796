"""Trains a small Transformer language model on Shakespeare's Hamlet, byte by byte.

    python examples/transformer_lm/train.py

Prints training and validation loss beside a progress bar, compares the result with a table of byte
pairs, saves the loss curve as loss.png and shows a text that the model makes up. All along it writes
checkpoints: after an interruption the same command with --resume goes on. --help lists the options;
the defaults take one to two minutes on two cores.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import checkpoint
from model import Config, Transformer, generate, loss
from tqdm import tqdm
from windows import Windows, cut_windows, measure_bigram_loss, read_text

import mlxc as mx
import mlxc.optimizers as optim
from mlxc import nn
from mlxc.utils import tree_flatten

HERE = Path(__file__).resolve().parent
# What a run must have in common with the one whose checkpoint it takes up.
SETTINGS = ("steps", "interval", "batch", "context", "width", "heads", "blocks", "dropout", "rate", "seed")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, default=HERE.parent / "data" / "hamlet.txt", help="an ASCII text")
    parser.add_argument("--out", type=Path, default=Path("loss.png"), help="where the loss curve goes")
    parser.add_argument("--checkpoint", type=Path, default=Path("transformer_lm.safetensors"))
    parser.add_argument("--interval", type=int, default=50, help="steps between checkpoints and validations")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--rate", type=float, default=2e-3, help="greatest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=400, help="bytes to generate at the end")
    parser.add_argument("--temperature", type=float, default=0.8)
    options = parser.parse_args()
    for name in ("interval", "steps", "batch", "context", "width", "heads", "blocks"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is at least 1, not {getattr(options, name)}")
    if options.width % options.heads:
        parser.error(f"--width {options.width} is not a multiple of --heads {options.heads}")
    if options.temperature <= 0:
        parser.error(f"--temperature is above 0, not {options.temperature}")
    if not 0 <= options.dropout < 1:
        parser.error(f"--dropout is at least 0 and less than 1, not {options.dropout}")
    if not options.text.is_file():
        parser.error(f"there is no text {options.text}")
    for path in (options.out, options.checkpoint):
        if not path.absolute().parent.is_dir():
            parser.error(f"there is no folder {path.parent} for {path.name}")
    if options.checkpoint.suffix != ".safetensors":
        parser.error(f"--checkpoint ends in .safetensors, not as {options.checkpoint} does")
    return options


def make_optimizer(rate: float | Callable[[mx.array], mx.array]) -> optim.Optimizer:
    """AdamW whose weight decay acts on matrices, and not on biases and norm weights."""

    def adamw(weight_decay: float) -> optim.Optimizer:
        return optim.AdamW(rate, betas=[0.9, 0.95], weight_decay=weight_decay, bias_correction=True)

    return optim.MultiOptimizer([adamw(0.1), adamw(0.0)], [lambda path, weight: weight.ndim > 1])


def make_schedule(steps: int, greatest: float) -> Callable[[mx.array], mx.array]:
    """A short linear rise, then half a cosine down to a tenth."""
    warm_up = max(1, steps // 20)
    rise = optim.linear_schedule(greatest / warm_up, greatest, warm_up)
    fall = optim.cosine_decay(greatest, max(1, steps - warm_up), greatest / 10)
    return optim.join_schedules([rise, fall], [warm_up])


def make_step(model: Transformer, optimizer: optim.Optimizer) -> Callable[[mx.array], mx.array]:
    """A function that trains the model on a batch of windows and returns the loss from before."""
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state, mx.random.state]
    loss_and_gradients = nn.value_and_grad(model, loss)

    @partial(mx.compile, inputs=state, outputs=state)
    def step(windows: mx.array) -> mx.array:
        value, gradients = loss_and_gradients(model, windows)
        optimizer.update(model, gradients)
        return value

    return step


def measure_loss(model: Transformer, windows: mx.array, batch: int = 64) -> float:
    """The mean loss over all windows, without dropout."""
    model.eval()
    parts = mx.split(windows, list(range(batch, len(windows), batch)))
    total = sum(loss(model, part).item() * len(part) for part in parts)
    model.train()
    return total / len(windows)


def train(run: checkpoint.Run, validation: mx.array, options: argparse.Namespace) -> None:
    """Takes the steps that are left, with a checkpoint after each interval."""
    step = make_step(run.model, run.optimizer)
    with tqdm(total=options.steps, initial=run.step, unit="step") as bar:
        while run.step < options.steps:
            value = step(run.windows.draw())
            mx.eval(value, run.model.state, run.optimizer.state)
            run.train_losses.append(value.item())
            if run.step % options.interval == 0 or run.step == options.steps:
                run.validation_losses.append((run.step, measure_loss(run.model, validation)))
                checkpoint.save(run, options.checkpoint)
            last = f"{run.validation_losses[-1][1]:.3f}" if run.validation_losses else "-"
            bar.set_postfix(train=f"{run.train_losses[-1]:.3f}", validation=last, refresh=False)
            bar.update()


def save_curve(path: Path, run: checkpoint.Run, bigram: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    axes.plot(run.train_losses, color="tab:blue", alpha=0.4, linewidth=1, label="training")
    steps, losses = zip(*run.validation_losses, strict=True)
    axes.plot(steps, losses, color="tab:orange", marker="o", markersize=3, label="validation")
    axes.axhline(bigram, color="tab:gray", linestyle="--", label="byte pairs")
    axes.set(xlabel="step", ylabel="cross-entropy (nats a byte)", title="Transformer on Hamlet")
    axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main() -> None:
    options = read_options()
    length = options.context + 1
    train_text, validation_text = read_text(options.text, length, options.batch)
    mx.random.seed(options.seed)
    model = Transformer(
        Config(
            context=options.context,
            width=options.width,
            heads=options.heads,
            blocks=options.blocks,
            dropout=options.dropout,
        )
    )
    settings = {name: getattr(options, name) for name in SETTINGS}
    settings["text"] = hashlib.sha256(options.text.read_bytes()).hexdigest()
    run = checkpoint.Run(
        model,
        make_optimizer(make_schedule(options.steps, options.rate)),
        Windows(train_text, length, options.batch, options.seed),
        settings,
    )
    if options.resume:
        checkpoint.restore(run, options.checkpoint)
        print(f"going on from {options.checkpoint}, after step {run.step}")

    bigram = measure_bigram_loss(train_text, validation_text, model.config.vocabulary)
    size = sum(parameter.size for _, parameter in tree_flatten(model.parameters()))
    print(f"{options.text.name}: {train_text.size:,} bytes to train on, {validation_text.size:,} to validate on")
    print(f"model: {size:,} parameters; a table of byte pairs has validation loss {bigram:.3f}")
    started = time.perf_counter()
    train(run, cut_windows(validation_text, length), options)
    seconds = time.perf_counter() - started

    print(f"validation loss {run.validation_losses[-1][1]:.3f} after {options.steps} steps; this took {seconds:.0f} s")
    save_curve(options.out, run, bigram)
    print(f"loss curve: {options.out}")
    model.eval()
    print(generate(model, b"\n\nHam.\n", options.sample, options.temperature).decode("ascii"))


if __name__ == "__main__":
    main()
