"""Optimizers and schedules: mlxc.optimizers, as mlx.optimizers.

An optimizer turns gradients into new parameters and keeps what it remembers of earlier ones in `state`, a tree beside
the tree of parameters. base.py is the frame that all of them share; the others say what happens to one array.
"""

from .adafactor import Adafactor
from .adam import Adam, Adamax, AdamW
from .adaptive import AdaDelta, Adagrad, RMSprop
from .base import Optimizer
from .clipping import clip_grad_norm
from .momentum import SGD, Lion
from .multi import MultiOptimizer
from .muon import Muon
from .schedulers import cosine_decay, exponential_decay, join_schedules, linear_schedule, step_decay

__all__ = [
    "SGD", "AdaDelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Lion", "MultiOptimizer", "Muon", "Optimizer",
    "RMSprop", "clip_grad_norm", "cosine_decay", "exponential_decay", "join_schedules", "linear_schedule", "step_decay",
]  # fmt: skip
