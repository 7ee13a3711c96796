"""What a model of the Llama family is made of, out of a Hugging Face config.json.

Called by load.py; gguf.py makes the same ModelConfig from the metadata of a GGUF file, llama.py builds a model by it.
A key that would change the numbers is understood or refused by name, never passed over.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ModelConfig", "RopeScaling", "read_config"]

# Names of activations in configurations, by what they are called here.
ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
}
ROPE_KINDS = ("default", "linear", "llama3")


# Far above any model's. A broken file's number would fill the memory with layers before a tensor is looked for.
MOST_LAYERS = 4096


def check_layers(layers: int, source: str) -> int:
    """The number of layers, if a model can have so many."""
    if layers > MOST_LAYERS:
        raise ValueError(f"{source} the model has {layers} layers, at most {MOST_LAYERS} are possible")
    return layers


@dataclass(frozen=True)
class RopeScaling:
    """How the wavelengths of rotary embeddings are stretched for a longer context.

    Args:
        kind: "linear": every wavelength by `factor`; "llama3": the long ones by `factor`, those shorter than
            `original_context / high_freq_factor` not at all, with a smooth way between; "factors": each by its own of
            `factors`.
        factor: the factor of "linear" and "llama3".
        low_freq_factor: where the long wavelengths begin: `original_context / low_freq_factor`.
        high_freq_factor: where the short ones end.
        original_context: context length that the model was first trained with.
        factors: one number for each pair of rotated places.

    Example:
        >>> from mlxc.models import RopeScaling
        >>> RopeScaling("linear", factor=2.0).wavelengths(4, 10000.0)
        [2.0, 200.0]
    """

    kind: str
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context: int = 8192
    factors: tuple[float, ...] | None = None

    def wavelengths(self, dims: int, base: float) -> list[float]:
        """Wavelengths over 2 pi, as mx.fast.rope takes them.

        Args:
            dims: how many places of a head are rotated.
            base: the base of the wavelengths.

        Returns:
            dims / 2 numbers.

        Raises:
            ValueError: if there are factors, but not dims / 2.

        Example:
            >>> from mlxc.models import RopeScaling
            >>> RopeScaling("linear", factor=2.0).wavelengths(2, 100.0)
            [2.0]
        """
        plain = [base ** (2 * i / dims) for i in range(dims // 2)]
        if self.kind == "factors":
            factors = self.factors or ()
            if len(factors) != len(plain):
                raise ValueError(f"[RopeScaling] {len(plain)} factors are needed for {dims} dims, got {len(factors)}")
            return [length * factor for length, factor in zip(plain, factors, strict=True)]
        if self.kind == "linear":
            return [length * self.factor for length in plain]
        return [self._stretch(length) for length in plain]

    def _stretch(self, length: float) -> float:
        turns = self.original_context / (2 * math.pi * length)
        if turns < self.low_freq_factor:
            return length * self.factor
        if turns > self.high_freq_factor:
            return length
        kept = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        return length / ((1 - kept) / self.factor + kept)


@dataclass(frozen=True)
class ModelConfig:
    """What a model of the Llama family is made of.

    Args:
        architecture: name of the family member, such as "llama" or "qwen2".
        vocab_size: number of token ids.
        hidden_size: width of the residual stream.
        intermediate_size: width inside the feed-forward blocks.
        num_layers: number of blocks.
        num_heads: heads of queries.
        num_kv_heads: heads of keys and values, a divisor of `num_heads`.
        head_dim: width of a head.
        context_length: how many positions the model was made for.
        rms_norm_eps: small number under the roots of the norms.
        rope_theta: base of the rotary wavelengths.
        local_rope_theta: the base in layers with a window, whose wavelengths are not stretched; None for no difference.
        rope_dims: how many places of a head are rotated; None for all of them.
        rope_scaling: how the wavelengths are stretched, if they are.
        rope_traditional: whether neighbours are rotated together, not halves.
        tie_word_embeddings: whether the embedding is the output projection too.
        qkv_bias: whether the projections to queries, keys and values have a bias.
        output_bias: whether the projection behind the attention has one.
        mlp_bias: whether the feed-forward projections have one.
        qk_norm: whether queries and keys are normalised head by head.
        layer_windows: for each layer how many last positions its attention sees; None for all.
        activation: "silu", "gelu" or "gelu_tanh".
        query_scale: factor of the products of queries and keys; None for head_dim ** -0.5.
        embedding_scale: factor of the embeddings.
        norm_offset: what is added to the weights of the norms.
        attention_softcap: bound of the scores: cap * tanh(score / cap); None for none.
        logit_softcap: the same for the logits.
        post_norms: whether the results of attention and feed-forward are normalised before they are added.
        quantization: MLX's "quantization" of config.json: group_size, bits, mode, and entries for single layers.

    Raises:
        ValueError: if the sizes contradict one another.

    Example:
        >>> from mlxc.models import ModelConfig
        >>> config = ModelConfig("llama", vocab_size=256, hidden_size=64, intermediate_size=128, num_layers=2,
        ...                      num_heads=4, num_kv_heads=2, head_dim=16)
        >>> config.layer_windows
        (None, None)
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    context_length: int = 2048
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    local_rope_theta: float | None = None
    rope_dims: int | None = None
    rope_scaling: RopeScaling | None = None
    rope_traditional: bool = False
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    layer_windows: tuple[int | None, ...] = ()
    activation: str = "silu"
    query_scale: float | None = None
    embedding_scale: float = 1.0
    norm_offset: float = 0.0
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    post_norms: bool = False
    quantization: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "intermediate_size", "num_layers", "num_heads", "num_kv_heads",
                     "head_dim", "context_length"):  # fmt: skip
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"[ModelConfig] {name} must be a positive int, got {value!r}")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"[ModelConfig] {self.num_heads} heads of queries cannot share {self.num_kv_heads} heads of keys"
            )
        check_layers(self.num_layers, "[ModelConfig]")
        dims = self.head_dim if self.rope_dims is None else self.rope_dims
        if dims % 2 or not 0 < dims <= self.head_dim:
            raise ValueError(f"[ModelConfig] an even number of places is rotated, at most {self.head_dim}, not {dims}")
        if self.activation not in ACTIVATIONS.values():
            raise ValueError(f"[ModelConfig] the activation {self.activation!r} is not known")
        if not self.layer_windows:
            object.__setattr__(self, "layer_windows", (None,) * self.num_layers)
        if len(self.layer_windows) != self.num_layers:
            raise ValueError(f"[ModelConfig] {len(self.layer_windows)} layer_windows for {self.num_layers} layers")


class Keys:
    """The keys of a config.json, with errors that name file and key."""

    def __init__(self, values: dict[str, Any], source: str) -> None:
        self.values = values
        self.source = source

    def get(self, key: str, kinds: type | tuple[type, ...], default: Any = None) -> Any:
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise ValueError(f"{self.source}: {key!r} is {value!r:.100}, expected {_kind_name(kinds)}")
        return value

    def need(self, key: str) -> int:
        value = self.get(key, int)
        if value is None:
            raise ValueError(f"{self.source}: the key {key!r} is missing")
        return value

    def number(self, key: str, default: float | None = None) -> Any:
        value = self.get(key, (int, float), default)
        return None if value is None else float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        return self.get(key, bool, default)


def _kind_name(kinds: type | tuple[type, ...]) -> str:
    return " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


def _rope(keys: Keys, default_theta: float) -> dict[str, Any]:
    """rope_theta, rope_dims and rope_scaling, from either of the two ways in which they are written."""
    given = keys.get("rope_parameters", dict, {}) or keys.get("rope_scaling", dict, {})
    if any(isinstance(value, dict) for value in given.values()):
        raise ValueError(f"{keys.source}: rope_parameters for kinds of layers are not supported here: {given!r:.200}")
    inner = Keys(given, f"{keys.source}: rope_parameters")
    theta = inner.number("rope_theta", keys.number("rope_theta", default_theta))
    partial = inner.number("partial_rotary_factor", keys.number("partial_rotary_factor", 1.0))
    kind = inner.get("rope_type", str) or inner.get("type", str) or "default"
    if kind not in ROPE_KINDS:
        raise ValueError(f"{keys.source}: the rope type {kind!r} is not supported, only {', '.join(ROPE_KINDS)}")
    scaling = None
    if kind != "default":
        scaling = RopeScaling(
            kind,
            factor=inner.number("factor", 1.0),
            low_freq_factor=inner.number("low_freq_factor", 1.0),
            high_freq_factor=inner.number("high_freq_factor", 4.0),
            original_context=inner.get("original_max_position_embeddings", int, 8192),
        )
    return {"rope_theta": theta, "partial": partial, "rope_scaling": scaling}


def _activation(keys: Keys, default: str) -> str:
    name = keys.get("hidden_activation", str) or keys.get("hidden_act", str, default)
    if name not in ACTIVATIONS:
        raise ValueError(f"{keys.source}: the activation {name!r} is not supported, only {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def _common(keys: Keys, kv_heads: int | None = None, theta: float = 10000.0, act: str = "silu") -> dict[str, Any]:
    """What all members of the family have."""
    heads, hidden = keys.need("num_attention_heads"), keys.need("hidden_size")
    rope = _rope(keys, theta)
    head_dim = keys.get("head_dim", int, hidden // max(1, heads))
    partial = rope.pop("partial")
    return {
        "vocab_size": keys.need("vocab_size"),
        "hidden_size": hidden,
        "intermediate_size": keys.need("intermediate_size"),
        "num_layers": check_layers(keys.need("num_hidden_layers"), f"{keys.source}:"),
        "num_heads": heads,
        "num_kv_heads": keys.get("num_key_value_heads", int, kv_heads or heads),
        "head_dim": head_dim,
        "context_length": keys.get("max_position_embeddings", int, 2048),
        "rms_norm_eps": keys.number("rms_norm_eps", 1e-6),
        "rope_dims": None if partial == 1 else int(head_dim * partial),
        "tie_word_embeddings": keys.flag("tie_word_embeddings"),
        "activation": _activation(keys, act),
        **rope,
    }


def _windows(keys: Keys, layers: int, window: int | None, slides: Callable[[int], bool]) -> tuple[int | None, ...]:
    """The window of each layer: as "layer_types" says, else as the rule of the architecture does."""
    types = keys.get("layer_types", list)
    if types is None:
        return tuple(window if slides(i) else None for i in range(layers))
    unknown = {kind for kind in types if kind not in ("full_attention", "sliding_attention")}
    if unknown or len(types) != layers:
        raise ValueError(
            f"{keys.source}: layer_types must be {layers} times 'full_attention' or 'sliding_attention', "
            f"got {len(types)} with {sorted(map(repr, unknown))}"
        )
    if window is None and "sliding_attention" in types:
        raise ValueError(f"{keys.source}: layer_types has 'sliding_attention', but sliding_window is missing")
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def _llama(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias")
    return {**_common(keys), "qkv_bias": bias, "output_bias": bias, "mlp_bias": keys.flag("mlp_bias")}


def _mistral(keys: Keys) -> dict[str, Any]:
    common = _common(keys, kv_heads=8)
    # A missing key means 4096, null means no window.
    window = keys.get("sliding_window", int) if "sliding_window" in keys.values else 4096
    return {**common, "layer_windows": _windows(keys, common["num_layers"], window, lambda layer: True)}


def _qwen_windows(keys: Keys, layers: int) -> tuple[int | None, ...]:
    window = keys.get("sliding_window", int, 4096) if keys.flag("use_sliding_window") else None
    first = keys.get("max_window_layers", int, 28)
    if window is None:
        return (None,) * layers
    return _windows(keys, layers, window, lambda layer: layer >= first)


def _qwen2(keys: Keys) -> dict[str, Any]:
    common = _common(keys, kv_heads=32)
    return {**common, "qkv_bias": True, "layer_windows": _qwen_windows(keys, common["num_layers"])}


def _qwen3(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias")
    common = _common(keys, kv_heads=32)
    common["head_dim"] = keys.get("head_dim", int, 128)
    windows = _qwen_windows(keys, common["num_layers"])
    return {**common, "qkv_bias": bias, "output_bias": bias, "qk_norm": True, "layer_windows": windows}


def _gemma(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias")
    common = _common(keys, act="gelu_pytorch_tanh")
    if common["activation"] == "gelu":  # how early files name the approximation that the models were trained with
        common["activation"] = "gelu_tanh"
    return {
        **common,
        "head_dim": keys.get("head_dim", int, 256),
        "tie_word_embeddings": keys.flag("tie_word_embeddings", True),
        "qkv_bias": bias,
        "output_bias": bias,
        "embedding_scale": common["hidden_size"] ** 0.5,
        "norm_offset": 1.0,
    }


def _gemma2(keys: Keys) -> dict[str, Any]:
    made = _gemma(keys)
    window = keys.get("sliding_window", int, 4096)
    return {
        **made,
        "query_scale": keys.number("query_pre_attn_scalar", 256.0) ** -0.5,
        "layer_windows": _windows(keys, made["num_layers"], window, lambda layer: layer % 2 == 0),
        "attention_softcap": _softcap(keys, "attn_logit_softcapping", 50.0),
        "logit_softcap": _softcap(keys, "final_logit_softcapping", 30.0),
        "post_norms": True,
    }


def _gemma3(keys: Keys) -> dict[str, Any]:
    if keys.flag("use_bidirectional_attention"):
        raise ValueError(f"{keys.source}: use_bidirectional_attention is not supported")
    kinds = keys.get("rope_parameters", dict, {})
    local = keys.number("rope_local_base_freq", 10000.0)
    if any(isinstance(value, dict) for value in kinds.values()):
        full, sliding = (
            Keys(kinds, f"{keys.source}: rope_parameters").get(f"{kind}_attention", dict, {})
            for kind in ("full", "sliding")
        )
        if sliding.get("rope_type", "default") != "default":
            raise ValueError(
                f"{keys.source}: rope_parameters of sliding_attention must be default, got {sliding!r:.200}"
            )
        local = Keys(sliding, keys.source).number("rope_theta", local)
        keys = Keys({**keys.values, "rope_parameters": full}, keys.source)
    if not keys.values.get("rope_theta") and not keys.values.get("rope_parameters"):
        keys = Keys({**keys.values, "rope_theta": 1e6}, keys.source)
    made = _gemma(keys)
    period = keys.get("sliding_window_pattern", int, keys.get("_sliding_window_pattern", int, 6))
    window = keys.get("sliding_window", int, 4096)
    return {
        **made,
        "query_scale": keys.number("query_pre_attn_scalar", 256.0) ** -0.5,
        "layer_windows": _windows(keys, made["num_layers"], window, lambda layer: (layer + 1) % period != 0),
        "local_rope_theta": local,
        "attention_softcap": keys.number("attn_logit_softcapping"),
        "logit_softcap": keys.number("final_logit_softcapping"),
        "qk_norm": True,
        "post_norms": True,
    }


def _softcap(keys: Keys, key: str, default: float) -> float | None:
    """A missing key means the default, null means none."""
    return keys.number(key) if key in keys.values else default


ARCHITECTURES: dict[str, Callable[[Keys], dict[str, Any]]] = {
    "llama": _llama,
    "smollm": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
}


def _quantization(keys: Keys) -> dict[str, Any] | None:
    """MLX's layout; other tools' packed weights are refused, for their tensors mean something else."""
    given = keys.get("quantization", dict)
    other = keys.get("quantization_config", dict)
    if given is None and other is not None and "group_size" in other and "quant_method" not in other:
        given = other
    if given is None and other is not None:
        method = other.get("quant_method", "unnamed")
        raise ValueError(f"{keys.source}: weights quantised by {method!r} are not supported, only MLX's layout is")
    if given is not None:
        inner = Keys(given, f"{keys.source}: quantization")
        inner.need("bits")
        inner.need("group_size")
    return given


def config_from_dict(values: dict[str, Any], source: str = "config") -> ModelConfig:
    """The ModelConfig that the keys of a config.json describe; `source` names the file in errors."""
    keys = Keys(values, source)
    architecture = keys.get("model_type", str)
    if architecture not in ARCHITECTURES:
        raise ValueError(f"{source}: the architecture {architecture!r} is not known, only {', '.join(ARCHITECTURES)}")
    try:
        return ModelConfig(architecture, **ARCHITECTURES[architecture](keys), quantization=_quantization(keys))
    except ValueError as error:
        if str(error).startswith("[ModelConfig]"):
            raise ValueError(f"{source}: {str(error).removeprefix('[ModelConfig] ')}") from None
        raise


def read_config(path: str | os.PathLike[str]) -> ModelConfig:
    """Reads a Hugging Face config.json.

    Args:
        path: the file, or the folder that has it.

    Returns:
        The ModelConfig.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not JSON, its architecture is not known, or it asks for something that is not supported.

    Example:
        >>> import json, pathlib, tempfile
        >>> from mlxc.models import read_config
        >>> sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text = json.dumps({"model_type": "llama", "vocab_size": 256, **sizes})
        ...     _ = pathlib.Path(folder, "config.json").write_text(text)
        ...     config = read_config(folder)
        >>> config.architecture, config.head_dim
        ('llama', 16)
    """
    path = Path(path)
    if path.is_dir():
        path = path / "config.json"
    try:
        values = json.loads(path.read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not sound JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path}: a configuration is a JSON object, got {type(values).__name__}")
    return config_from_dict(values, str(path))
