"""A small Llama with random weights and a tokenizer of bytes, as a folder: for tests of tuning and conversion."""

from __future__ import annotations

import json
from pathlib import Path

import mlxc as mx
from mlxc.models.config import config_from_dict
from mlxc.models.detokenizer import bytes_of_characters
from mlxc.models.llama import Llama
from mlxc.models.tokenizer import Tokenizer

TEMPLATE = (
    "{% for m in messages %}<|user|>{{ m.role }}:{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|user|>assistant:{% endif %}"
)
TOKENS = [*bytes_of_characters(), "<|end|>", "<|user|>"]
CONFIG = {
    "model_type": "llama", "vocab_size": 258, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True, "rope_theta": 10000.0,
}  # fmt: skip


def tokenizer_metadata() -> dict:
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.token_type": mx.array([1] * 256 + [3, 3]),
        "tokenizer.ggml.eos_token_id": mx.array(256),
        "tokenizer.chat_template": TEMPLATE,
    }


def make_tokenizer(template: bool = True) -> Tokenizer:
    metadata = tokenizer_metadata()
    if not template:
        del metadata["tokenizer.chat_template"]
    return Tokenizer.from_gguf(metadata)


def make_model(seed: int = 0) -> Llama:
    mx.random.seed(seed)
    return Llama(config_from_dict(CONFIG))


def make_folder(folder: Path, seed: int = 0) -> Path:
    """A Hugging Face folder of the model."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    make_model(seed).save_weights(str(folder / "model.safetensors"))
    make_tokenizer().save(folder)
    return folder


IDS = mx.array([[72, 101, 108, 108, 111, 32, 3, 9], [1, 2, 3, 4, 5, 6, 7, 200]])
