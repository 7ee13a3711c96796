"""BERT with `mlxc.nn`: token ids to one vector for each token. Weights come from a file in Hugging Face's layout.

Every token sees every other one, and the sum after each part is normalised (Devlin et al., arXiv:1810.04805).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

import mlxc as mx
from mlxc import nn


@dataclass(frozen=True)
class Config:
    """The part of config.json that the computation depends on."""

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_hidden_layers: int
    vocab_size: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float

    @classmethod
    def read(cls, path: Path) -> Config:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found.get("model_type") != "bert" or found.get("hidden_act") != "gelu":
            raise ValueError(
                f"{path}: this is a BERT with gelu, not {found.get('model_type')} with {found.get('hidden_act')}"
            )
        missing = [field.name for field in fields(cls) if field.name not in found]
        if missing:
            raise ValueError(f"{path} lacks {', '.join(missing)}")
        return cls(**{field.name: found[field.name] for field in fields(cls)})


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def __call__(self, x: mx.array, mask: mx.array) -> mx.array:
        batch, length, width = x.shape

        def split_heads(y: mx.array) -> mx.array:
            return y.reshape(batch, length, self.heads, -1).swapaxes(1, 2)

        q, k, v = (split_heads(layer(x)) for layer in (self.query, self.key, self.value))
        scale = (width // self.heads) ** -0.5
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)
        return self.out(y.swapaxes(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.attention = Attention(width, config.num_attention_heads)
        self.attention_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.up = nn.Linear(width, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, width)
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)

    def __call__(self, x: mx.array, mask: mx.array) -> mx.array:
        x = self.attention_norm(x + self.attention(x, mask))
        return self.norm(x + self.down(nn.gelu(self.up(x))))


class Bert(nn.Module):
    """Called with ids (batch, length) and whether each is a token or padding; gives (batch, length, width)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.words = nn.Embedding(config.vocab_size, width)
        self.positions = nn.Embedding(config.max_position_embeddings, width)
        self.segments = nn.Embedding(config.type_vocab_size, width)
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.blocks = [Block(config) for _ in range(config.num_hidden_layers)]

    def __call__(self, ids: mx.array, is_token: mx.array) -> mx.array:
        longest = self.positions.weight.shape[0]
        if ids.shape[1] > longest:
            raise ValueError(f"{ids.shape[1]} tokens are more than the {longest} positions of this model")
        # One text is one segment: number 0.
        x = self.norm(self.words(ids) + self.positions(mx.arange(ids.shape[1])) + self.segments(0))
        mask = is_token[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        return x


# Hugging Face's names for the parts of a block, and ours.
BLOCK_NAMES = {
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.out",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "up",
    "output.dense": "down",
    "output.LayerNorm": "norm",
}
NAMES = {
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "segments",
    "embeddings.LayerNorm": "norm",
}
# A list of numbers from 0 up, and a head that classifies sentences.
NOT_USED = ("embeddings.position_ids", "pooler.")


def rename(name: str) -> str:
    """Our name for a tensor of the file."""
    module, _, parameter = name.rpartition(".")
    if module.startswith("encoder.layer."):
        _, _, number, part = module.split(".", 3)
        return f"blocks.{number}.{BLOCK_NAMES.get(part, part)}.{parameter}"
    return f"{NAMES.get(module, module)}.{parameter}"


def load(folder: Path) -> Bert:
    """A model from the config.json and model.safetensors of a folder; ValueError where they do not fit."""
    model = Bert(Config.read(folder / "config.json"))
    path = folder / "model.safetensors"
    weights = [(rename(name), value) for name, value in mx.load(path).items() if not name.startswith(NOT_USED)]
    try:
        model.load_weights(weights)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return model.eval()
