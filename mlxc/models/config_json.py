"""A config.json for what is in a GGUF file, so that a folder made of it says what it is.

Called by convert.py. What is written is read again and compared, so a model that a config.json can't describe is
refused rather than described wrongly.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from .config import ModelConfig, RopeScaling, config_from_dict

__all__ = ["config_to_dict"]

CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
}
ACTIVATIONS = {"silu": "silu", "gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh"}


def rope_scaling_to_dict(scaling: RopeScaling) -> dict[str, Any]:
    if scaling.kind == "linear":
        return {"rope_type": "linear", "factor": scaling.factor}
    return {
        "rope_type": "llama3",
        "factor": scaling.factor,
        "low_freq_factor": scaling.low_freq_factor,
        "high_freq_factor": scaling.high_freq_factor,
        "original_max_position_embeddings": scaling.original_context,
    }


def named_scaling(config: ModelConfig, source: str) -> RopeScaling | None:
    """GGUF files of Llama 3.1 and later have a factor for each wavelength; a config.json has the rule behind them."""
    scaling = config.rope_scaling
    if scaling is None or scaling.kind != "factors":
        return scaling
    dims = config.rope_dims or config.head_dim
    wanted = scaling.wavelengths(dims, config.rope_theta)
    for factor in (8.0, 32.0):
        rule = RopeScaling("llama3", factor, 1.0, 4.0, 8192)
        made = rule.wavelengths(dims, config.rope_theta)
        if all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(made, wanted, strict=True)):
            return rule
    raise ValueError(f"{source}: its factors of rotary wavelengths follow no rule that a config.json can name")


def config_to_dict(config: ModelConfig, source: str = "the model") -> dict[str, Any]:
    """What a config.json says of a model.

    Args:
        config: the model's configuration.
        source: the file that it is from, for errors.

    Returns:
        The keys and values, by which read_config makes the same configuration.

    Raises:
        ValueError: if no config.json can say it.

    Example:
        >>> from mlxc.models import ModelConfig
        >>> from mlxc.models.config_json import config_to_dict
        >>> config = ModelConfig("llama", vocab_size=256, hidden_size=64, intermediate_size=128, num_layers=2,
        ...                      num_heads=4, num_kv_heads=2, head_dim=16)
        >>> config_to_dict(config)["num_hidden_layers"]
        2
    """
    if config.architecture not in CLASSES:
        raise ValueError(f"{source}: no config.json is written for {config.architecture!r}, only {', '.join(CLASSES)}")
    config = dataclasses.replace(config, rope_scaling=named_scaling(config, source))
    window = next((window for window in config.layer_windows if window is not None), None)
    values: dict[str, Any] = {
        "architectures": [CLASSES[config.architecture]],
        "model_type": config.architecture,
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.context_length,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tie_word_embeddings,
        "hidden_act": ACTIVATIONS[config.activation],
        "attention_bias": config.output_bias,
        "mlp_bias": config.mlp_bias,
    }
    if config.rope_dims is not None:
        values["partial_rotary_factor"] = config.rope_dims / config.head_dim
    if config.rope_scaling is not None:
        values["rope_scaling"] = rope_scaling_to_dict(config.rope_scaling)
    if window is not None:
        values["sliding_window"] = window
        values["use_sliding_window"] = True
        values["layer_types"] = [
            "full_attention" if window is None else "sliding_attention" for window in config.layer_windows
        ]
    if config.architecture == "gemma2":
        values["query_pre_attn_scalar"] = (config.query_scale or config.head_dim**-0.5) ** -2
        values["attn_logit_softcapping"] = config.attention_softcap
        values["final_logit_softcapping"] = config.logit_softcap
    if config.quantization is not None:
        values["quantization"] = config.quantization
    check_same(config_from_dict(values, source), config, source)
    return values


def check_same(made: ModelConfig, wanted: ModelConfig, source: str) -> None:
    for field in dataclasses.fields(ModelConfig):
        a, b = getattr(made, field.name), getattr(wanted, field.name)
        near = isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-6)
        if a != b and not near:
            raise ValueError(f"{source}: no config.json can say that {field.name} is {b!r} of a {wanted.architecture}")
