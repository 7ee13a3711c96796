"""Makes the examples importable: their tests use the very code that the examples run."""

import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
for folder in (EXAMPLES, EXAMPLES / "transformer_lm", EXAMPLES / "embeddings"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
