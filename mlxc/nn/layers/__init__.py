# ruff: noqa: F403, I001 (names under their own name again are those that type checkers see)
"""The layers, one kind a file; mlxc.nn has them all."""

from mlxc.nn.layers.activation_layers import *
from mlxc.nn.layers.activations import *
from mlxc.nn.layers.base import *
from mlxc.nn.layers.containers import *
from mlxc.nn.layers.convolution import *
from mlxc.nn.layers.convolution_transpose import *
from mlxc.nn.layers.distributed import (
    AllToShardedLinear as AllToShardedLinear,
    FullyShardedModule as FullyShardedModule,
    QuantizedAllToShardedLinear as QuantizedAllToShardedLinear,
    QuantizedShardedToAllLinear as QuantizedShardedToAllLinear,
    ShardedToAllLinear as ShardedToAllLinear,
    fully_shard as fully_shard,
)
from mlxc.nn.layers.dropout import *
from mlxc.nn.layers.embedding import *
from mlxc.nn.layers.linear import *
from mlxc.nn.layers.normalization import *
from mlxc.nn.layers.pooling import *
from mlxc.nn.layers.positional_encoding import *
from mlxc.nn.layers.quantized import *
from mlxc.nn.layers.recurrent import *
from mlxc.nn.layers.transformer import *
from mlxc.nn.layers.upsample import Upsample as Upsample
