"""Configurations: what is understood, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny

from mlxc.models import ModelConfig, RopeScaling, read_config
from mlxc.models.config import config_from_dict

WRITTEN = json.loads((Path(__file__).parent / "data" / "transformers.json").read_text())


def llama(**changes) -> dict:
    return {**tiny.config_of("llama"), **changes}


@pytest.mark.parametrize("case", tiny.CONFIGS)
def test_a_configuration_is_understood_as_transformers_5_writes_it_too(case):
    assert config_from_dict(WRITTEN[case]) == config_from_dict(tiny.config_of(case))


def test_windows_follow_the_rule_of_the_architecture_or_the_types_of_the_layers():
    assert config_from_dict(tiny.config_of("mistral")).layer_windows == (5, 5, 5)
    assert config_from_dict({**tiny.config_of("mistral"), "sliding_window": None}).layer_windows == (None,) * 3
    assert config_from_dict(tiny.config_of("qwen2")).layer_windows == (None,) * 3
    assert config_from_dict(tiny.config_of("qwen2 with windows")).layer_windows == (None, 5, 5)
    assert config_from_dict(tiny.config_of("gemma2")).layer_windows == (6, None, 6)
    types = ["full_attention", "sliding_attention", "full_attention"]
    assert config_from_dict({**tiny.config_of("gemma2"), "layer_types": types}).layer_windows == (None, 6, None)


def test_some_places_of_a_head_may_stay_as_they_are():
    assert config_from_dict(llama(partial_rotary_factor=0.5)).rope_dims == 4
    assert config_from_dict(llama()).rope_dims is None


def test_early_gemma_files_mean_the_approximation_when_they_say_gelu():
    config = config_from_dict({**tiny.config_of("gemma"), "hidden_act": "gelu", "hidden_activation": None})
    assert config.activation == "gelu_tanh"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (llama(model_type="mamba"), r"'mamba' is not known, only llama, smollm, mistral"),
        (llama(model_type=None), r"None is not known"),
        (llama(hidden_size=None), r"'hidden_size' is missing"),
        (llama(hidden_size="32"), r"'hidden_size' is '32', expected int"),
        (llama(vocab_size=True), r"'vocab_size' is True, expected int"),
        (llama(num_hidden_layers=0), r"num_layers must be a positive int, got 0"),
        (llama(num_hidden_layers=10**12), r"the model has 1000000000000 layers, at most 4096 are possible"),
        (llama(num_key_value_heads=3), r"4 heads of queries cannot share 3"),
        (llama(head_dim=7), r"an even number of places"),
        (llama(rope_scaling={"rope_type": "yarn", "factor": 2.0}), r"the rope type 'yarn' is not supported"),
        (llama(rope_parameters={"full_attention": {"rope_theta": 1.0}, "sliding_attention": {"rope_theta": 2.0}}),
         r"rope_parameters for kinds of layers are not supported here"),
        ({**tiny.config_of("gemma3"), "use_bidirectional_attention": True}, r"use_bidirectional_attention is not"),
        (llama(hidden_act="relu"), r"the activation 'relu' is not supported"),
        (llama(quantization_config={"quant_method": "gptq", "bits": 4, "group_size": 128}), r"quantised by 'gptq'"),
        (llama(quantization={"bits": 4}), r"quantization: the key 'group_size' is missing"),
        ({**tiny.config_of("gemma2"), "layer_types": ["chunked_attention"] * 3}, r"layer_types must be 3 times"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_by_name(values, words):
    with pytest.raises(ValueError, match=words) as caught:
        config_from_dict(values, "some/config.json")
    assert str(caught.value).startswith("some/config.json")


def test_errors_of_files_name_the_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": ')
    with pytest.raises(ValueError, match=r"config\.json: not sound JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[" * 100000)
    with pytest.raises(ValueError, match=r"config\.json: not sound JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config\.json: a configuration is a JSON object, got list"):
        read_config(tmp_path / "config.json")


def test_wavelengths_are_stretched_as_asked():
    plain = [1.0, 10.0, 100.0, 1000.0]
    assert RopeScaling("linear", factor=3.0).wavelengths(8, 10000.0) == [3 * length for length in plain]
    assert RopeScaling("factors", factors=(1.0, 2.0, 3.0, 4.0)).wavelengths(8, 10000.0) == [1.0, 20.0, 300.0, 4000.0]
    llama3 = RopeScaling("llama3", factor=8.0, original_context=1000).wavelengths(8, 10000.0)
    assert llama3[:2] == plain[:2] and llama3[3] == 8000.0 and 100 < llama3[2] < 800
    with pytest.raises(ValueError, match="4 factors are needed for 8 dims, got 2"):
        RopeScaling("factors", factors=(1.0, 2.0)).wavelengths(8, 10000.0)


def test_a_window_is_needed_for_each_layer():
    sizes = dict(vocab_size=8, hidden_size=8, intermediate_size=8, num_heads=2, num_kv_heads=1, head_dim=4)
    with pytest.raises(ValueError, match="1 layer_windows for 2 layers"):
        ModelConfig("llama", num_layers=2, layer_windows=(4,), **sizes)
