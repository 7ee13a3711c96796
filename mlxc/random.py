"""Random numbers: mlxc.random, as mlx.core.random. Everything is in the compiled module _random."""

from ._random import *  # noqa: F403
from ._random import __all__  # noqa: F401
