"""Records what transformers computes with the tiny models of tiny.py, into data/transformers.npz and .json.

    python tests/models/make_transformers.py

needs torch and transformers; not run by the tests. The .json has each configuration as transformers 5 writes it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

sys.path.insert(0, str(Path(__file__).parent))
from tiny import CONFIGS, TOKENS, config_of, weights_of

DATA = Path(__file__).parent / "data"


def main() -> None:
    logits, written = {}, {"versions": {"torch": torch.__version__, "transformers": transformers.__version__}}
    for case in CONFIGS:
        config = transformers.AutoConfig.for_model(**config_of(case))
        config._attn_implementation = "eager"
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        state = {name: torch.from_numpy(array) for name, array in weights_of(config_of(case)).items()}
        result = model.load_state_dict(state, strict=False)
        model.tie_weights()
        lacking = [name for name in result.missing_keys if name != "lm_head.weight" or not config.tie_word_embeddings]
        assert not lacking and not result.unexpected_keys, (case, result)
        with torch.no_grad():
            logits[case] = model(torch.tensor([TOKENS])).logits[0].numpy().astype(np.float32)
        saved = json.loads(config.to_json_string(use_diff=False))
        keys = set(config_of(case)) | {"rope_parameters", "layer_types", "tie_word_embeddings"}
        written[case] = {key: saved[key] for key in sorted(keys) if key in saved}
        print(case, np.abs(logits[case]).max())
    np.savez_compressed(DATA / "transformers.npz", **logits)
    (DATA / "transformers.json").write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
