"""Made sentencepiece.json: two small SentencePiece vocabularies, trained on the text below, and what SentencePiece
makes of some strings. Needs `pip install sentencepiece protobuf`; run in this folder."""

import io
import json

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

TEXT = """The quick brown fox jumps over the lazy dog. The five boxing wizards jump quickly, and the dog sleeps on.
How vexingly quick daft zebras jump! Sphinx of black quartz, judge my vow. Pack my box with five dozen liquor jugs.
A small model reads a small text, again and again, until it knows which letters are often beside each other.
There are numbers such as 13, 1999 and 3.14159; there are words in other languages: naïve café, schön, größer."""
STRINGS = [
    "", "The dog jumps.", "  two  spaces and an end ", "naïve café — “quotes” …", "日本語 😀👍🏽", "a\tb\r\nc",
    "1234567890 3.14159", "unquickly wizardly boxes", "Ω", " ", "▁marked",
]  # fmt: skip

out = {"strings": STRINGS}
for kind in ("bpe", "unigram"):
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.splitlines() * 3), model_writer=file, model_type=kind, vocab_size=420,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        user_defined_symbols=["<|user|>"], character_coverage=1.0, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    model = sentencepiece_model_pb2.ModelProto.FromString(file.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    ids = [processor.encode(text) for text in STRINGS]
    out[kind] = {
        "tokens": [piece.piece for piece in model.pieces],
        "scores": [piece.score for piece in model.pieces],
        "types": [piece.type for piece in model.pieces],
        "ids": ids,
        "texts": [processor.decode(row) for row in ids],
    }
with open("sentencepiece.json", "w", encoding="utf-8") as target:
    json.dump(out, target, ensure_ascii=False, indent=None)
    target.write("\n")
