"""Language models of the Llama family: load them, generate with them. mlxc.models.

This file is the list of names; what they do is in the modules they come from.
"""

from mlxc.models.cache import KVCache, QuantizedKVCache, RotatingKVCache
from mlxc.models.config import ModelConfig, RopeScaling, read_config
from mlxc.models.generate import GenerationStep, generate, generate_tokens, stream_generate
from mlxc.models.llama import Llama
from mlxc.models.load import load, load_model
from mlxc.models.prompt_cache import load_prompt_cache, make_cache, save_prompt_cache
from mlxc.models.sample import make_logits_processors, make_sampler
from mlxc.models.tokenizer import Tokenizer

__all__ = [
    "GenerationStep",
    "KVCache",
    "Llama",
    "ModelConfig",
    "QuantizedKVCache",
    "RopeScaling",
    "RotatingKVCache",
    "Tokenizer",
    "generate",
    "generate_tokens",
    "load",
    "load_model",
    "load_prompt_cache",
    "make_cache",
    "make_logits_processors",
    "make_sampler",
    "read_config",
    "save_prompt_cache",
    "stream_generate",
]
