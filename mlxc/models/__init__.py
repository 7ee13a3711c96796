"""Language models of the Llama family: load, generate, chat, convert, quantise and tune them. mlxc.models.

This file is the list of names; what they do is in the modules they come from.
"""

from mlxc.models.adapters import load_adapters, save_adapters
from mlxc.models.cache import KVCache, QuantizedKVCache, RotatingKVCache
from mlxc.models.chat_template import render_chat
from mlxc.models.config import ModelConfig, RopeScaling, read_config
from mlxc.models.convert import Conversion, convert, save_model
from mlxc.models.detokenizer import StreamingDetokenizer
from mlxc.models.generate import GenerationStep, generate, generate_tokens, stream_generate
from mlxc.models.llama import Llama
from mlxc.models.load import load, load_model
from mlxc.models.lora import (
    DoRALinear,
    LoRAEmbedding,
    LoRALinear,
    fuse_lora_layers,
    linear_to_lora_layers,
    remove_lora_layers,
)
from mlxc.models.prompt_cache import load_prompt_cache, make_cache, save_prompt_cache, trim_prompt_cache
from mlxc.models.quantize import dequantize_model, quantize_model
from mlxc.models.sample import make_logits_processors, make_sampler
from mlxc.models.tokenizer import Tokenizer
from mlxc.models.tune import TrainingReport, evaluate, train
from mlxc.models.tuning_data import Example, read_examples

__all__ = [
    "Conversion",
    "DoRALinear",
    "Example",
    "GenerationStep",
    "KVCache",
    "Llama",
    "LoRAEmbedding",
    "LoRALinear",
    "ModelConfig",
    "QuantizedKVCache",
    "RopeScaling",
    "RotatingKVCache",
    "StreamingDetokenizer",
    "Tokenizer",
    "TrainingReport",
    "convert",
    "dequantize_model",
    "evaluate",
    "fuse_lora_layers",
    "generate",
    "generate_tokens",
    "linear_to_lora_layers",
    "load",
    "load_adapters",
    "load_model",
    "load_prompt_cache",
    "make_cache",
    "make_logits_processors",
    "make_sampler",
    "quantize_model",
    "read_config",
    "read_examples",
    "remove_lora_layers",
    "render_chat",
    "save_adapters",
    "save_model",
    "save_prompt_cache",
    "stream_generate",
    "train",
    "trim_prompt_cache",
]
