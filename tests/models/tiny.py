"""Tiny models whose weights are a formula: the tests write them as Hugging Face folders, and make_transformers.py ran
the same ones in transformers. No weights are stored."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np

SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}  # fmt: skip
# config.json as published files have it, by a name for the case.
CONFIGS: dict[str, dict] = {
    "llama": {"model_type": "llama", "rope_theta": 500.0, "tie_word_embeddings": True},
    "llama with biases": {"model_type": "llama", "attention_bias": True, "mlp_bias": True, "head_dim": 16},
    "llama3 rope": {"model_type": "llama", "rope_theta": 10000.0, "rope_scaling": LLAMA3},
    "linear rope": {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 4.0}},
    "mistral": {"model_type": "mistral", "sliding_window": 5, "rope_theta": 1000.0},
    "qwen2": {"model_type": "qwen2", "rope_theta": 1000000.0, "use_sliding_window": False, "sliding_window": 5},
    "qwen2 with windows": {
        "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1,
    },
    "qwen3": {"model_type": "qwen3", "head_dim": 16, "tie_word_embeddings": True},
    "gemma": {"model_type": "gemma", "head_dim": 16, "hidden_act": "gelu_pytorch_tanh"},
    "gemma2": {
        "model_type": "gemma2", "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 6,
        "query_pre_attn_scalar": 24, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0,
    },
    "gemma3": {
        "model_type": "gemma3_text", "num_hidden_layers": 7, "head_dim": 16, "sliding_window": 5,
        "query_pre_attn_scalar": 16, "rope_theta": 100000.0, "rope_local_base_freq": 100.0,
        "rope_scaling": {"rope_type": "linear", "factor": 4.0}, "hidden_activation": "gelu_pytorch_tanh",
    },
}  # fmt: skip
TOKENS = [(7 * i * i + 3 * i + 1) % SIZES["vocab_size"] for i in range(24)]


def config_of(case: str) -> dict:
    return {**SIZES, **CONFIGS[case]}


def shapes_of(config: dict) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a checkpoint, as Hugging Face has them."""
    kind, width, inner = config["model_type"], config["hidden_size"], config["intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    dim = config.get("head_dim", width // heads)
    qkv_bias = config.get("attention_bias", kind == "qwen2")
    rows = {"q": (heads * dim, width), "k": (kv_heads * dim, width), "v": (kv_heads * dim, width)}
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], width)}
    for i in range(config["num_hidden_layers"]):
        block = f"model.layers.{i}"
        for name, shape in rows.items():
            shapes[f"{block}.self_attn.{name}_proj.weight"] = shape
            if qkv_bias:
                shapes[f"{block}.self_attn.{name}_proj.bias"] = shape[:1]
        shapes[f"{block}.self_attn.o_proj.weight"] = (width, heads * dim)
        if config.get("attention_bias"):
            shapes[f"{block}.self_attn.o_proj.bias"] = (width,)
        if kind in ("qwen3", "gemma3_text"):
            shapes |= {f"{block}.self_attn.{name}_norm.weight": (dim,) for name in "qk"}
        for name, shape in {"gate": (inner, width), "up": (inner, width), "down": (width, inner)}.items():
            shapes[f"{block}.mlp.{name}_proj.weight"] = shape
            if config.get("mlp_bias"):
                shapes[f"{block}.mlp.{name}_proj.bias"] = shape[:1]
        norms = ["input_layernorm", "post_attention_layernorm"]
        norms += (
            ["pre_feedforward_layernorm", "post_feedforward_layernorm"] if kind in ("gemma2", "gemma3_text") else []
        )
        shapes |= {f"{block}.{norm}.weight": (width,) for norm in norms}
    shapes["model.norm.weight"] = (width,)
    if not config.get("tie_word_embeddings", kind.startswith("gemma")):
        shapes["lm_head.weight"] = (config["vocab_size"], width)
    return shapes


def weight(name: str, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Numbers that look random and depend on the name alone."""
    mixed = (np.arange(np.prod(shape), dtype=np.uint64) * 2654435761 + zlib.crc32(name.encode())) % 2**32
    for _ in range(2):
        mixed = ((mixed ^ (mixed >> np.uint64(16))) * 73244475) % 2**32
    uniform = (mixed.astype(np.float64) / 2**31 - 1).reshape(shape)
    if "norm" in name:
        return (0.3 * uniform + (0 if kind.startswith("gemma") else 1)).astype(np.float32)
    return (uniform * (0.2 if len(shape) == 1 else 1.5 * shape[1] ** -0.5)).astype(np.float32)


def weights_of(config: dict) -> dict[str, np.ndarray]:
    return {name: weight(name, shape, config["model_type"]) for name, shape in shapes_of(config).items()}


def write_folder(folder: Path, config: dict, arrays: dict | None = None) -> Path:
    """A Hugging Face folder with config.json and model.safetensors."""
    import mlxc as mx

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    arrays = weights_of(config) if arrays is None else arrays
    mx.save_safetensors(str(folder / "model.safetensors"), {name: mx.array(a) for name, a in arrays.items()})
    return folder
