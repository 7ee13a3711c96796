# ruff: noqa: F403, I001 (names under their own name again are those that type checkers see)
"""Neural networks: layers, losses and initial values. mlxc.nn, as mlx.nn.

This file is the list of names; what they do is in the modules they come from.
"""

from mlxc.nn import init as init, layers as layers, losses as losses, utils as utils
from mlxc.nn.layers import *
from mlxc.nn.utils import average_gradients as average_gradients, value_and_grad as value_and_grad
