# ruff: noqa: F401, F403
"""Neural networks: layers, losses and initial values. mlxc.nn, as mlx.nn.

This file is the list of names; what they do is in the modules they come from.
"""

from mlxc.nn import init, layers, losses, utils
from mlxc.nn.layers import *
from mlxc.nn.utils import average_gradients, value_and_grad
