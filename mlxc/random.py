"""Random numbers: mlxc.random, as mlx.core.random. Keys are in the compiled module _random_key, draws in _random."""

from . import _naming, _random, _random_key
from ._random import (
           bernoulli,
           bits,
           categorical,
           gumbel,
           laplace,
           normal,
           permutation,
           randint,
           truncated_normal,
           uniform,
)
from ._random_key import key, seed, split, state
from ._random_multivariate import multivariate_normal

_naming.name_errors(vars(_random).values())
_naming.name_errors(vars(_random_key).values())

__all__ = ["bernoulli", "bits", "categorical", "gumbel", "key", "laplace", "multivariate_normal", "normal",
           "permutation", "randint", "seed", "split", "state", "truncated_normal", "uniform"]  # fmt: skip
