"""Language models of the Llama family. mlxc.models.

This file is the list of names; what they do is in the modules they come from.
"""

from mlxc.models.config import ModelConfig, RopeScaling, read_config

__all__ = ["ModelConfig", "RopeScaling", "read_config"]
