"""Tuning: trains a model's low-rank additions on rows of ids, keeps them in files, goes on where it was interrupted.

Called by the command line and examples/lora. What is saved is everything that the next step depends on, so a run that
was interrupted and resumed gives the same numbers as one that was not.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlxc as mx
from mlxc import nn
from mlxc.utils import tree_flatten, tree_unflatten

from .adapters import adapter_arrays, save_adapters
from .tuning_data import Example, batches

__all__ = ["TrainingReport", "evaluate", "masked_loss", "train"]

STATE = "training_state.safetensors"
FORMAT = "mlxc.training_state"


@dataclass(frozen=True)
class TrainingReport:
    """What train reports.

    Args:
        iteration: how many steps were done.
        loss: mean loss a token of the steps since the last report.
        tokens_per_second: learned tokens a second since the last report, evaluation and saving left out.
        trained_tokens: learned tokens of this run.
        peak_memory: the most bytes that arrays used so far.
        validation_loss: mean loss a token of the validation rows, where it was measured after this step.

    Example:
        >>> train(model, optimizer, rows, report=lambda r: print(r.iteration, r.loss))  # doctest: +SKIP
    """

    iteration: int
    loss: float
    tokens_per_second: float
    trained_tokens: int
    peak_memory: int
    validation_loss: float | None = None


def masked_loss(model: Any, ids: mx.array, mask: mx.array) -> tuple[mx.array, mx.array]:
    """Mean cross entropy of the next ids, where the mask is 1.

    Args:
        model: gives logits (batch, length, vocabulary) for ids (batch, length).
        ids: integers of shape (batch, length).
        mask: of shape (batch, length - 1): 1 where the next id counts, 0 elsewhere.

    Returns:
        The loss and how many ids count.

    Example:
        >>> from mlxc.models.tune import masked_loss
        >>> loss, count = masked_loss(lambda ids: mx.zeros((1, 2, 8)), mx.array([[1, 2, 3]]), mx.array([[1.0, 0.0]]))
        >>> round(loss.item(), 4), count.item()
        (2.0794, 1.0)
    """
    losses = mx.fast.cross_entropy(model(ids[:, :-1]), ids[:, 1:])
    count = mask.sum()
    return (losses * mask).sum() / mx.maximum(count, 1), count


def evaluate(model: Any, examples: Sequence[Example], batch_size: int = 4, most: int | None = None) -> float:
    """The mean loss a token of rows, without training.

    Args:
        model: the model.
        examples: the rows.
        batch_size: how many at a time.
        most: how many batches are taken; None for all.

    Returns:
        The loss.

    Raises:
        ValueError: if there are no rows.

    Example:
        >>> evaluate(model, rows)  # doctest: +SKIP
    """
    was_training = model.training
    model.eval()
    total, count = 0.0, 0.0
    try:
        for ids, mask in itertools.islice(batches(examples, batch_size), most):
            loss, tokens = masked_loss(model, ids, mask)
            total += loss.item() * tokens.item()
            count += tokens.item()
    finally:
        model.train(was_training)
    return total / count


def save_state(folder: Path, model: nn.Module, optimizer: Any, about: dict[str, Any]) -> None:
    """One file, so that additions, optimizer and place always belong together."""
    arrays = {f"model.{name}": array for name, array in adapter_arrays(model).items()}
    for i, (path, array) in enumerate(tree_flatten(optimizer.state)):
        arrays[f"optimizer.{i}.{path}"] = array
    arrays["random"] = mx.random.state[0]
    metadata = {"format": FORMAT, **{name: json.dumps(value) for name, value in about.items()}}
    mx.save_safetensors(str(folder / STATE), arrays, metadata)


def load_state(folder: Path, model: nn.Module, optimizer: Any, expected: dict[str, Any]) -> int:
    """Puts a saved state in, and gives how many steps were done. The model has its additions already."""
    file = folder / STATE
    if not file.is_file():
        raise FileNotFoundError(f"{folder} has no {STATE}: there is nothing to resume")
    try:
        arrays, about = mx.load(str(file), return_metadata=True)
    except ValueError as error:
        raise ValueError(str(error).removeprefix("[load] ")) from None
    if about.get("format") != FORMAT or "random" not in arrays:
        raise ValueError(f"{file} is no state of a training")
    for name, value in expected.items():
        if about.get(name) != json.dumps(value):
            raise ValueError(f"{file}: {name} was {about.get(name)} and is {json.dumps(value)} now")
    wanted = adapter_arrays(model)
    saved = {name.removeprefix("model."): array for name, array in arrays.items() if name.startswith("model.")}
    if {name: a.shape for name, a in saved.items()} != {name: a.shape for name, a in wanted.items()}:
        odd = next(name for name in {**saved, **wanted} if getattr(saved.get(name), "shape", 0) !=
                   getattr(wanted.get(name), "shape", 0))  # fmt: skip
        raise ValueError(f"{file}: the additions differ from the model's at {odd!r}")
    fresh = tree_flatten(optimizer.state)
    names = [f"optimizer.{i}.{path}" for i, (path, _) in enumerate(fresh)]
    odd = next(
        (n for n, (_, a) in zip(names, fresh, strict=True) if n not in arrays or arrays[n].shape != a.shape), None
    )
    if odd is not None:
        raise ValueError(f"{file}: it is from another optimizer, {odd!r} doesn't fit")
    model.load_weights(list(saved.items()), strict=False)
    optimizer.state = tree_unflatten([(path, arrays[n]) for n, (path, _) in zip(names, fresh, strict=True)])
    mx.random.state[0] = arrays["random"]
    return json.loads(about["iteration"])


def train(
    model: nn.Module,
    optimizer: Any,
    examples: Sequence[Example],
    validation: Sequence[Example] | None = None,
    *,
    iterations: int = 100,
    batch_size: int = 4,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    adapter_config: dict[str, Any] | None = None,
    resume: bool = False,
    steps_per_report: int = 10,
    steps_per_evaluation: int = 200,
    steps_per_save: int = 100,
    validation_batches: int | None = 25,
    report: Callable[[TrainingReport], None] | None = None,
) -> int:
    """Trains what is not frozen, as a rule a model's low-rank additions.

    Args:
        model: the model, frozen but for its additions (see linear_to_lora_layers).
        optimizer: an optimizer of mlxc.optimizers.
        examples: the rows to learn.
        validation: rows to measure the loss of.
        iterations: how many steps in all, those before a resumption included.
        batch_size: rows a step.
        seed: of the order of the rows.
        folder: where adapters and the state of the training are kept; None keeps nothing.
        adapter_config: more to write to adapter_config.json.
        resume: goes on where the state in `folder` was saved; data, seed and sizes must be the same.
        steps_per_report: steps between reports.
        steps_per_evaluation: steps between measurements of the validation loss.
        steps_per_save: steps between saves; it is saved after the last step too.
        validation_batches: how many batches are measured; None for all.
        report: called with a TrainingReport.

    Returns:
        How many steps were done in this call.

    Raises:
        ValueError: if there are no rows, a number is out of range, or the saved state doesn't fit; if the loss is no
            finite number, in which case the files keep the last sound state.
        FileNotFoundError: if there is nothing to resume.
        OSError: if a file can't be written.

    Example:
        >>> train(model, optimizers.Adam(1e-4), rows, folder="adapters")  # doctest: +SKIP
    """
    counts = {
        "iterations": iterations,
        "batch_size": batch_size,
        "steps_per_report": steps_per_report,
        "steps_per_evaluation": steps_per_evaluation,
        "steps_per_save": steps_per_save,
    }
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"[train] {name} is {value!r}, a positive whole number is needed")
    if not tree_flatten(model.trainable_parameters()):
        raise ValueError("[train] the model has nothing to train: all of it is frozen")
    place = None if folder is None else Path(folder)
    if resume and place is None:
        raise ValueError("[train] there is no folder to resume from")
    rows = batches(examples, batch_size, seed)
    optimizer.init(model.trainable_parameters())
    same = {"seed": seed, "batch_size": batch_size, "rows": len(examples)}
    done = load_state(place, model, optimizer, same) if resume and place is not None else 0
    for _ in range(done):
        next(rows)

    def save(iteration: int) -> None:
        if place is not None:
            save_adapters(model, place, adapter_config)
            save_state(place, model, optimizer, {"iteration": iteration, **same})

    def measure() -> float | None:
        return evaluate(model, validation, batch_size, validation_batches) if validation else None

    return loop(
        model,
        optimizer,
        rows,
        span=(done, iterations),
        schedule=(steps_per_report, steps_per_evaluation, steps_per_save),
        save=save,
        measure=measure,
        report=report,
    )


def loop(
    model: nn.Module,
    optimizer: Any,
    rows: Iterator[tuple[mx.array, mx.array]],
    *,
    span: tuple[int, int],
    schedule: tuple[int, int, int],
    save: Callable[[int], None],
    measure: Callable[[], float | None],
    report: Callable[[TrainingReport], None] | None,
) -> int:
    """The steps of train, from the first of `span` to the last."""
    value_and_gradients = nn.value_and_grad(model, lambda ids, mask: masked_loss(model, ids, mask))
    done, iterations = span
    per_report, per_evaluation, per_save = schedule
    total, tokens, all_tokens, seconds, saved = 0.0, 0.0, 0.0, 0.0, done
    model.train()
    for iteration in range(done + 1, iterations + 1):
        begin = time.perf_counter()
        ids, mask = next(rows)
        (loss, count), gradients = value_and_gradients(ids, mask)
        optimizer.update(model, gradients)
        mx.eval(loss, count, model.trainable_parameters(), optimizer.state)
        if not mx.isfinite(loss).item():
            raise ValueError(
                f"[train] the loss of step {iteration} is {loss.item()}: the learning rate may be too large; the files "
                f"have the state after step {saved}"
            )
        total += loss.item() * count.item()
        tokens += count.item()
        seconds += time.perf_counter() - begin
        last = iteration == iterations
        if iteration % per_save == 0 or last:
            save(iteration)
            saved = iteration
        measured = measure() if iteration % per_evaluation == 0 or last else None
        if report is not None and (iteration % per_report == 0 or measured is not None or last):
            all_tokens += tokens
            mean, speed = total / max(tokens, 1.0), tokens / seconds
            report(TrainingReport(iteration, mean, speed, int(all_tokens), mx.get_peak_memory(), measured))
            total, tokens, seconds = 0.0, 0.0, 0.0
    model.eval()
    return max(0, iterations - done)
