"""A training run in one file: all that the next step depends on, so that a run that was killed goes on bit for bit.

One .safetensors file holds the weights, the optimizer's state, the random state, where the data stands and the losses
so far. mx.save_safetensors replaces a file in one step: whenever the process is killed, the file is the old one or the
new one, whole.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windows import Windows

import mlxc as mx
import mlxc.optimizers as optim
from mlxc import nn
from mlxc.utils import tree_flatten, tree_unflatten


@dataclass
class Run:
    """A training run. `settings` is what must be the same when it is taken up again."""

    model: nn.Module
    optimizer: optim.Optimizer
    windows: Windows
    settings: dict[str, Any]
    train_losses: list[float] = field(default_factory=list)
    validation_losses: list[tuple[int, float]] = field(default_factory=list)

    @property
    def step(self) -> int:
        return len(self.train_losses)


def save(run: Run, path: Path) -> None:
    arrays = {
        "model": run.model.parameters(),
        "optimizer": run.optimizer.state,
        "random": mx.random.state[0],
        "data": {"epoch": mx.array(run.windows.epoch), "position": mx.array(run.windows.position)},
        # float64 keeps every digit of a Python float.
        "train_losses": mx.array(run.train_losses, dtype=mx.float64),
        "validation_losses": mx.array(run.validation_losses, dtype=mx.float64).reshape(-1, 2),
    }
    mx.save_safetensors(str(path), tree_flatten(arrays, destination={}), {"settings": json.dumps(run.settings)})


def restore(run: Run, path: Path) -> None:
    """Takes up what a file has."""
    try:
        flat, metadata = mx.load(str(path), return_metadata=True)
    except FileNotFoundError:
        raise SystemExit(f"there is no checkpoint {path} to resume from") from None
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path} cannot be read: {error}") from None
    if "settings" not in metadata:
        raise SystemExit(f"{path} is no checkpoint of this program")
    for name, value in json.loads(metadata["settings"]).items():
        if run.settings[name] != value:
            raise SystemExit(f"{path} was made with {name} {value}, not {run.settings[name]}: resume with the same")
    tree = tree_unflatten(flat)
    run.model.update(tree["model"])
    run.optimizer.state = tree["optimizer"]
    mx.random.state[0] = tree["random"]
    run.windows.go_to(tree["data"]["epoch"].item(), tree["data"]["position"].item())
    run.train_losses = tree["train_losses"].tolist()
    run.validation_losses = [(int(step), loss) for step, loss in tree["validation_losses"].tolist()]
