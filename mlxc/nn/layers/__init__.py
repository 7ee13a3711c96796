# ruff: noqa: F401, F403
"""The layers, one kind a file; mlxc.nn has them all."""

from mlxc.nn.layers.activation_layers import *
from mlxc.nn.layers.activations import *
from mlxc.nn.layers.base import *
from mlxc.nn.layers.containers import *
from mlxc.nn.layers.convolution import *
from mlxc.nn.layers.convolution_transpose import *
from mlxc.nn.layers.distributed import *
from mlxc.nn.layers.dropout import *
from mlxc.nn.layers.embedding import *
from mlxc.nn.layers.linear import *
from mlxc.nn.layers.normalization import *
from mlxc.nn.layers.pooling import *
from mlxc.nn.layers.positional_encoding import *
from mlxc.nn.layers.quantized import *
from mlxc.nn.layers.recurrent import *
from mlxc.nn.layers.transformer import *
from mlxc.nn.layers.upsample import Upsample
