"""Loading Hugging Face folders: one file, several, and every way in which a folder can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tiny

import mlxc as mx
from mlxc.models import load_model

CONFIG = tiny.config_of("qwen2")
LOGITS = np.load(Path(__file__).parent / "data" / "transformers.npz")["qwen2"]
NAME = "model.layers.1.mlp.up_proj.weight"


def write_shards(folder: Path, weights: dict) -> None:
    """The weights in two files with an index."""
    names = sorted(weights)
    files = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, part in files.items():
        mx.save_safetensors(str(folder / file), {name: mx.array(weights[name]) for name in part})
    places = {name: file for file, part in files.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


@pytest.fixture
def folder(tmp_path):
    return tiny.write_folder(tmp_path / "model", CONFIG)


@pytest.fixture
def shards(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    write_shards(tmp_path, tiny.weights_of(CONFIG))
    return tmp_path


def logits(model) -> np.ndarray:
    return np.array(model(mx.array([tiny.TOKENS]))[0].astype(mx.float32))


def test_weights_in_several_files_are_the_same(shards):
    np.testing.assert_allclose(logits(load_model(shards)), LOGITS, rtol=0, atol=1e-5)


def test_files_of_other_names_are_found(folder):
    (folder / "model.safetensors").rename(folder / "weights.safetensors")
    np.testing.assert_allclose(logits(load_model(folder)), LOGITS, rtol=0, atol=1e-5)


def test_weights_are_used_where_they_lie_in_the_file(tmp_path):
    config = {**CONFIG, "vocab_size": 20000}
    folder = tiny.write_folder(tmp_path, config)
    mx.clear_cache()
    before = mx.get_active_memory()
    model = load_model(folder)
    assert mx.get_active_memory() - before < 100_000 < model.model.embed_tokens.weight.nbytes


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float64])
def test_all_weights_have_the_dtype_that_is_asked_for(folder, dtype):
    model = load_model(folder, dtype)
    assert model.model.layers[0].mlp.up_proj.weight.dtype == model.model.norm.weight.dtype == dtype
    tokens = mx.array([tiny.TOKENS])
    assert model(tokens).dtype == dtype
    bound = {mx.float16: 2e-2, mx.bfloat16: 2e-1, mx.float64: 1e-5}[dtype]
    np.testing.assert_allclose(logits(model), LOGITS, rtol=0, atol=bound)


def test_what_checkpoints_store_besides_is_passed_over(tmp_path):
    config = {**CONFIG, "tie_word_embeddings": True}
    weights = tiny.weights_of(config)
    extra = {
        "lm_head.weight": np.ones((96, 32), np.float32),
        "model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4),
    }
    plain = load_model(tiny.write_folder(tmp_path / "plain", config, weights))
    more = load_model(tiny.write_folder(tmp_path / "more", config, {**weights, **extra}))
    np.testing.assert_array_equal(logits(more), logits(plain))


def test_loading_twice_gives_a_model_in_evaluation_mode(folder):
    assert not load_model(folder).training


# ---- MLX's quantised layout ------------------------------------------------------------------------

QUANTIZATION = {
    "group_size": 32, "bits": 4, "mode": "affine",
    "model.embed_tokens": {"group_size": 32, "bits": 8}, "model.layers.1.self_attn.v_proj": False,
}  # fmt: skip


def packed_weights(dense: dict) -> dict:
    """All matrices but one in four bits, the embedding in eight, the output not at all."""
    made = {}
    for name, array in dense.items():
        path = name.removesuffix(".weight")
        how = QUANTIZATION.get(path, {"group_size": 32, "bits": 4})
        if array.ndim < 2 or how is False or path == "lm_head" or array.shape[1] % 32:
            made[name] = array
            continue
        parts = mx.quantize(mx.array(array), **how)
        made |= {f"{path}.{part}": value for part, value in zip(("weight", "scales", "biases"), parts, strict=True)}
    return made


def test_packed_layers_stay_packed_each_in_its_own_bits(tmp_path):
    folder = tiny.write_folder(
        tmp_path, {**CONFIG, "quantization": QUANTIZATION}, packed_weights(tiny.weights_of(CONFIG))
    )
    model = load_model(folder)
    block = model.layers[1]
    assert (model.model.embed_tokens.bits, block.mlp.up_proj.bits, block.mlp.up_proj.group_size) == (8, 4, 32)
    assert block.self_attn.v_proj.weight.dtype == model.lm_head.weight.dtype == mx.float32
    expanded = load_model(folder, mx.float32)
    assert expanded.layers[1].mlp.up_proj.weight.shape == (48, 32)
    np.testing.assert_allclose(logits(model), logits(expanded), rtol=0, atol=1e-5)
    assert 1e-3 < np.abs(logits(model) - LOGITS).max() < 2


def test_packed_weights_that_do_not_fit_are_named(tmp_path):
    weights = packed_weights(tiny.weights_of(CONFIG))
    how = {**QUANTIZATION, "bits": 8}
    with pytest.raises(ValueError, match=r"the tensor '\S+\.weight' has shape \(\d+, 4\), expected \(\d+, 8\)"):
        load_model(tiny.write_folder(tmp_path, {**CONFIG, "quantization": how}, weights))
    with pytest.raises(ValueError, match=r"the tensor '\S+\.weight' cannot be expanded"):
        load_model(tmp_path, mx.float32)
    how = {**QUANTIZATION, "model.layers.0.mlp.up_proj": False}
    with pytest.raises(
        ValueError, match=r"quantization of 'model\.layers\.0\.mlp\.up_proj' is False, but its weight is"
    ):
        load_model(tiny.write_folder(tmp_path, {**CONFIG, "quantization": how}, weights))
    how = {**QUANTIZATION, "bits": 7}
    with pytest.raises(ValueError, match=str(tmp_path)):
        load_model(tiny.write_folder(tmp_path, {**CONFIG, "quantization": how}, weights))


# ---- what is wrong -----------------------------------------------------------------------------------


def changed(**changes) -> dict:
    """The weights with some replaced, or left out for None."""
    return {k: v for k, v in {**tiny.weights_of(CONFIG), **changes}.items() if v is not None}


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (changed(**{NAME: None}), rf"tensors are missing that the model needs: '{NAME}'"),
        (changed(**{"model.layers.3.mlp.up_proj.weight": np.ones((2, 2), np.float32)}),
         r"tensors that the model does not have: 'model\.layers\.3\.mlp\.up_proj\.weight'"),
        (changed(**{NAME: np.ones((48, 31), np.float32)}),
         rf"model\.safetensors: the tensor '{NAME}' has shape \(48, 31\), expected \(48, 32\)"),
        (changed(**{NAME: np.ones((48, 32), np.int32)}),
         rf"model\.safetensors: the tensor '{NAME}' is int32, expected a floating-point dtype"),
        (changed(**{"model.layers.1.mlp.up_proj.scales": np.ones((48, 1), np.float32)}),
         r"config\.json: 'model\.layers\.1\.mlp\.up_proj' has scales, but the configuration lacks 'quantization'"),
    ],
    ids=["missing", "unexpected", "shape", "dtype", "packed"],
)  # fmt: skip
def test_tensors_that_do_not_fit_are_named(tmp_path, weights, words):
    with pytest.raises(ValueError, match=words) as caught:
        load_model(tiny.write_folder(tmp_path, CONFIG, weights))
    assert str(tmp_path) in str(caught.value)


def test_of_many_missing_tensors_the_first_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"'model\.embed_tokens\.weight'.* and \d+ more"):
        load_model(tiny.write_folder(tmp_path, CONFIG, {"lm_head.weight": np.ones((96, 32), np.float32)}))


def test_a_truncated_file_is_named(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"^\S*model\.safetensors: the file is truncated"):
        load_model(folder)


def test_a_folder_without_weights_is_named(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    with pytest.raises(FileNotFoundError, match=r"no weights: neither model\.safetensors\.index\.json"):
        load_model(tmp_path)


def test_what_is_no_model_at_all_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing: there is no such file or folder"):
        load_model(tmp_path / "nothing")
    (tmp_path / "model.bin").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"model\.bin: a model is a folder .* or a \.gguf file"):
        load_model(tmp_path / "model.bin")
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        load_model(tmp_path)


def test_a_missing_shard_is_named_with_what_it_has(shards):
    (shards / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model-00002-of-00002\.safetensors is missing; .* it has 'model\."):
        load_model(shards)


def test_an_index_that_is_not_true_is_refused(shards):
    index = shards / "model.safetensors.index.json"
    places = json.loads(index.read_text())["weight_map"]
    other = next(file for file in places.values() if file != places["model.norm.weight"])
    for wrong, words in (
        ({**places, "model.norm.weight": other}, r"'model\.norm\.weight' is not in it, but model\.safetensors\.index"),
        ({**places, "model.norm.weight": "../x.safetensors"}, r"'\.\./x\.safetensors' is not the name of a file"),
        ([], r"'weight_map' must give the name of a file"),
    ):
        index.write_text(json.dumps({"weight_map": wrong}))
        with pytest.raises(ValueError, match=words):
            load_model(shards)
    index.write_text("{")
    with pytest.raises(ValueError, match=r"index\.json: not sound JSON"):
        load_model(shards)


def test_a_tensor_in_two_files_is_refused(folder):
    mx.save_safetensors(str(folder / "more.safetensors"), {NAME: mx.ones((48, 32))})
    (folder / "model.safetensors").rename(folder / "all.safetensors")
    with pytest.raises(ValueError, match=rf"more\.safetensors: the tensor '{NAME}' is in all\.safetensors too"):
        load_model(folder)


@pytest.mark.parametrize("dtype", [mx.int32, "float32"])
def test_a_dtype_must_be_one_of_floating_point(folder, dtype):
    with pytest.raises(TypeError, match="dtype must be a floating-point dtype or None"):
        load_model(folder, dtype)
