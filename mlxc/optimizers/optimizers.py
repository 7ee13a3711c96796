"""The optimizers under the name of the module that has them in MLX: mlx.optimizers.optimizers.

For programs that import them by that path; nothing is defined here.
"""

from .adafactor import Adafactor
from .adam import Adam, Adamax, AdamW
from .adaptive import AdaDelta, Adagrad, RMSprop
from .base import Optimizer
from .clipping import clip_grad_norm
from .momentum import SGD, Lion
from .multi import MultiOptimizer
from .muon import Muon

__all__ = [
    "SGD", "AdaDelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Lion", "MultiOptimizer", "Muon", "Optimizer",
    "RMSprop", "clip_grad_norm",
]  # fmt: skip
