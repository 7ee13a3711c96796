"""GGUF files to models: metadata to a ModelConfig, names of tensors to those of the model, rows of q and k in order.

Called by load.py. mx.load reads the file itself and keeps Q4_0, Q4_1 and Q8_0 quantised in MLX's layout. Names of keys
and tensors are those of the GGUF specification. What a file asks for and is not understood is refused by name.
"""

from __future__ import annotations

from typing import Any

import mlxc as mx

from .config import ModelConfig, RopeScaling, check_layers

# Architecture: what its files mean by the keys. Rows of q and k are permuted where rotation takes neighbours.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {"qkv_bias": True},
    "qwen3": {"qk_norm": True},
    "gemma": {"activation": "gelu_tanh"},
    "gemma2": {"activation": "gelu_tanh", "post_norms": True},
    "gemma3": {"activation": "gelu_tanh", "post_norms": True, "qk_norm": True},
}
PERMUTED = ("llama",)
# Every so many layers one has no window; how many layers the largest model has.
LAYERS_BETWEEN = {"gemma2": (2, 46), "gemma3": (6, 62)}
# Of the keys "ARCHITECTURE.x", those that are understood, and those that change nothing here.
KEYS = {
    "block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "attention.sliding_window", "rope.freq_base", "rope.freq_base_swa", "rope.dimension_count", "rope.scaling.type",
    "rope.scaling.factor", "rope.scale_linear", "rope.scaling.original_context_length", "rope.scaling.finetuned",
    "attn_logit_softcapping", "final_logit_softcapping", "expert_count", "expert_used_count",
}  # fmt: skip
BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Where results are normalised too, "ffn_norm" is the norm before the feed-forward block.
POST_NORM_NAMES = {
    **BLOCK_NAMES,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
OUTER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
# Wavelength factors of Llama 3.1 and later, which other programs keep as a tensor.
ROPE_FACTORS = "rope_freqs.weight"


class Metadata:
    """The metadata of a file, with errors that name file and key."""

    def __init__(self, values: dict[str, Any], architecture: str, source: str) -> None:
        self.values = values
        self.prefix = architecture
        self.source = source

    def number(self, key: str) -> Any:
        """A number of the key "ARCHITECTURE.key"; None where there is no such key."""
        value = self.values.get(f"{self.prefix}.{key}")
        if value is None:
            return None
        if not isinstance(value, mx.array):
            raise ValueError(f"{self.source}: {self.prefix}.{key} must be a number, got {value!r:.100}")
        if value.ndim == 0:
            return value.item()
        found = set(value.tolist())
        if len(found) != 1:
            raise ValueError(f"{self.source}: {self.prefix}.{key} differs from layer to layer, which is not supported")
        return found.pop()

    def need(self, key: str) -> Any:
        value = self.number(key)
        if value is None:
            raise ValueError(f"{self.source}: the key {self.prefix}.{key} is missing")
        return value


def _scaling(meta: Metadata, arrays: dict[str, mx.array], rope_dims: int) -> RopeScaling | None:
    kind = meta.values.get(f"{meta.prefix}.rope.scaling.type", "none")
    if kind not in ("none", "linear"):
        raise ValueError(f"{meta.source}: the rope scaling {kind!r} is not supported, only none and linear")
    factor = meta.number("rope.scaling.factor") or meta.number("rope.scale_linear") or 1.0
    if ROPE_FACTORS in arrays:
        factors = arrays[ROPE_FACTORS]
        if factors.shape != (rope_dims // 2,):
            raise ValueError(
                f"{meta.source}: the tensor {ROPE_FACTORS!r} has shape {factors.shape}, expected ({rope_dims // 2},)"
            )
        return RopeScaling("factors", factors=tuple(factors.tolist()))
    return RopeScaling("linear", factor=factor) if kind == "linear" and factor != 1 else None


def config_of_metadata(values: dict[str, Any], arrays: dict[str, mx.array], source: str) -> ModelConfig:
    """The ModelConfig of a GGUF file.

    Args:
        values: metadata as mx.load returns them.
        arrays: tensors by their names in the file; some things follow from whether they are there.
        source: the file, for errors.

    Raises:
        ValueError: if the architecture is not known, a key is missing, or one asks for what is not supported.
    """
    architecture = values.get("general.architecture")
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ValueError(f"{source}: the architecture {architecture!r} is not known, only {known}")
    meta = Metadata(values, architecture, source)
    asked = [key for key in values if key.startswith(f"{architecture}.")]
    unknown = [key for key in asked if key.removeprefix(f"{architecture}.") not in KEYS]
    if unknown:
        raise ValueError(f"{source}: the keys {', '.join(unknown)} are not understood")
    if meta.number("expert_count"):
        raise ValueError(f"{source}: models with experts are not supported, {architecture}.expert_count is not 0")
    own = dict(ARCHITECTURES[architecture])
    hidden, heads, layers = need_sizes(meta)
    head_dim = meta.number("attention.key_length") or hidden // heads
    if (meta.number("attention.value_length") or head_dim) != head_dim:
        raise ValueError(f"{source}: keys and values of different widths are not supported")
    if architecture.startswith("gemma"):
        own["embedding_scale"] = hidden**0.5
    window = meta.number("attention.sliding_window") or None
    if architecture in LAYERS_BETWEEN:
        period, largest = LAYERS_BETWEEN[architecture]
        own["layer_windows"] = tuple(None if (layer + 1) % period == 0 else window for layer in range(layers))
        own["attention_softcap"] = meta.number("attn_logit_softcapping")
        own["logit_softcap"] = meta.number("final_logit_softcapping")
        # The largest model scales by the width of the stream for each head, the others by that of a head.
        own["query_scale"] = (hidden / heads if layers == largest else head_dim) ** -0.5
        if architecture == "gemma3":
            own["local_rope_theta"] = meta.number("rope.freq_base_swa") or 10000.0
    elif window is not None:
        own["layer_windows"] = (window,) * layers
    if "token_embd.weight" not in arrays:
        raise ValueError(f"{source}: the tensor 'token_embd.weight' is missing")
    rope_dims = meta.number("rope.dimension_count") or head_dim
    try:
        return ModelConfig(
            architecture,
            vocab_size=arrays["token_embd.weight"].shape[0],
            hidden_size=hidden,
            intermediate_size=meta.need("feed_forward_length"),
            num_layers=layers,
            num_heads=heads,
            num_kv_heads=meta.number("attention.head_count_kv") or heads,
            head_dim=head_dim,
            context_length=meta.need("context_length"),
            rms_norm_eps=meta.need("attention.layer_norm_rms_epsilon"),
            rope_theta=meta.number("rope.freq_base") or 10000.0,
            rope_dims=None if rope_dims == head_dim else rope_dims,
            rope_scaling=_scaling(meta, arrays, rope_dims),
            tie_word_embeddings="output.weight" not in arrays,
            mlp_bias="blk.0.ffn_up.bias" in arrays,
            output_bias="blk.0.attn_output.bias" in arrays,
            **{"qkv_bias": "blk.0.attn_q.bias" in arrays, **own},
        )
    except ValueError as error:
        raise ValueError(f"{source}: {str(error).removeprefix('[ModelConfig] ')}") from None


def need_sizes(meta: Metadata) -> tuple[int, int, int]:
    """Width of the stream, heads and layers: what all else is measured by."""
    sizes = meta.need("embedding_length"), meta.need("attention.head_count"), meta.need("block_count")
    if not all(type(size) is int and size > 0 for size in sizes):
        raise ValueError(f"{meta.source}: embedding_length, head_count and block_count must be positive, got {sizes}")
    check_layers(sizes[2], f"{meta.source}:")
    return sizes


def rename(name: str, config: ModelConfig, source: str) -> str:
    """The model's name of a tensor."""
    stem, _, part = name.rpartition(".")
    if stem in OUTER_NAMES:
        return f"{OUTER_NAMES[stem]}.{part}"
    block, _, rest = stem.partition(".")
    number, _, inner = rest.partition(".")
    names = POST_NORM_NAMES if config.post_norms else BLOCK_NAMES
    if block != "blk" or inner not in names:
        raise ValueError(f"{source}: the tensor {name!r} is not known")
    return f"model.layers.{number}.{names[inner]}.{part}"


def in_halves(rows: mx.array, heads: int) -> mx.array:
    """Rows of q or k for rotation by halves of a head, from those for rotation of neighbours.

    Only whole rows move, so packed weights, their scales and biases may be moved alike.
    """
    rest = rows.shape[1:]
    pairs = rows.reshape(heads, -1, 2, *rest)
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def weights_of_gguf(
    arrays: dict[str, mx.array], config: ModelConfig, source: str
) -> tuple[dict[str, mx.array], dict[str, Any]]:
    """The weights by the model's names, and how those that are packed are so, by the path of their layer.

    Args:
        arrays: tensors as mx.load returns them.
        config: what config_of_metadata made of the metadata.
        source: the file, for errors.

    Raises:
        ValueError: if a tensor has a name that is not known, or rows that are not those of the heads.
    """
    weights: dict[str, mx.array] = {}
    for name, array in arrays.items():
        if name == ROPE_FACTORS:
            continue
        renamed = rename(name, config, source)
        heads = {"attn_q": config.num_heads, "attn_k": config.num_kv_heads}.get(name.split(".")[-2])
        if config.architecture in PERMUTED and heads is not None:
            rows = array.shape[0] if array.ndim else 0
            if rows != heads * config.head_dim:
                raise ValueError(
                    f"{source}: the tensor {name!r} has {rows} rows, expected {heads} heads of {config.head_dim}"
                )
            weights[renamed] = in_halves(array, heads)
        else:
            weights[renamed] = array
    packed = {}
    for path in [name.removesuffix(".scales") for name in weights if name.endswith(".scales")]:
        # Groups are always of 32 weights, so a weight has as many bits as its group has words of 32 bits.
        bits = weights[f"{path}.weight"].shape[-1] // weights[f"{path}.scales"].shape[-1]
        packed[path] = {"group_size": 32, "bits": bits, "mode": "affine"}
    return in_one_dtype(weights, packed), packed


def in_one_dtype(weights: dict[str, mx.array], packed: dict[str, Any]) -> dict[str, mx.array]:
    """Norms in the dtype of half-precision matrices beside them.

    Files have norms in float32 always. Their results would be float32 too, and half-precision matrices would be
    converted at every product; packed ones take either.
    """
    parts = {f"{path}.{part}" for path in packed for part in ("weight", "scales", "biases")}
    dense = {name: array for name, array in weights.items() if name not in parts}
    halves = [array.dtype for array in dense.values() if array.ndim == 2 and array.dtype in (mx.float16, mx.bfloat16)]
    if not halves:
        return weights
    return {name: array.astype(halves[0]) if name in dense else array for name, array in weights.items()}
