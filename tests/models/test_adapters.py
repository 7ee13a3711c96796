"""Adapters in files: MLX's layout, all that was trained, and clear words where a file and a model don't fit."""

from __future__ import annotations

import json

import pytest
import small
from test_lora import learn_at_random

import mlxc as mx
from mlxc.models.adapters import load_adapters, save_adapters
from mlxc.models.lora import LoRAEmbedding, linear_to_lora_layers, remove_lora_layers


@pytest.fixture
def saved(tmp_path):
    """A folder of adapters, and the logits of the model that they are from."""
    model = small.make_model()
    linear_to_lora_layers(model, 2, {"rank": 4, "scale": 2.0})
    learn_at_random(model)
    save_adapters(model, tmp_path / "a", {"model": "small"})
    return tmp_path / "a", model(small.IDS)


def edit(folder, change) -> None:
    """Rewrites the tensors."""
    arrays = dict(mx.load(str(folder / "adapters.safetensors")))
    arrays = change(arrays) or arrays
    mx.eval(arrays)
    mx.save_safetensors(str(folder / "adapters.safetensors"), {name: mx.array(a) for name, a in arrays.items()})


def test_files_are_laid_out_as_mlx_does(saved):
    folder, _ = saved
    arrays, about = mx.load(str(folder / "adapters.safetensors"), return_metadata=True)
    assert sorted(arrays) == sorted(
        f"model.layers.{i}.self_attn.{key}.lora_{part}" for i in (1, 2) for key in ("q_proj", "v_proj") for part in "ab"
    )
    assert arrays["model.layers.2.self_attn.v_proj.lora_a"].shape == (64, 4)
    assert arrays["model.layers.2.self_attn.v_proj.lora_b"].shape == (4, 32)
    assert about == {"format": "mlx"}
    config = json.loads((folder / "adapter_config.json").read_text())
    keys = ["self_attn.q_proj", "self_attn.v_proj"]
    assert config == {
        "fine_tune_type": "lora",
        "num_layers": 2,
        "lora_parameters": {"rank": 4, "scale": 2.0, "dropout": 0.0, "keys": keys},
        "model": "small",
    }


def test_a_model_with_loaded_additions_gives_the_same_logits(saved):
    folder, logits = saved
    model = small.make_model()
    assert len(load_adapters(model, folder)) == 4
    assert bool(mx.array_equal(model(small.IDS), logits))
    # Into a model that has additions already, they replace these.
    learn_at_random(model, 77)
    assert not bool(mx.array_equal(model(small.IDS), logits))
    load_adapters(model, folder)
    assert bool(mx.array_equal(model(small.IDS), logits))


def test_a_config_without_keys_or_dropout_is_enough(saved):
    folder, logits = saved
    (folder / "adapter_config.json").write_text('{"lora_parameters": {"rank": 4, "scale": 2.0}}')
    model = small.make_model()
    load_adapters(model, folder)
    assert bool(mx.array_equal(model(small.IDS), logits))


def test_an_embeddings_addition_is_kept_too(tmp_path):
    model = small.make_model()
    model.model.embed_tokens = LoRAEmbedding.from_base(model.model.embed_tokens, r=2)
    learn_at_random(model)
    save_adapters(model, tmp_path)
    other = small.make_model()
    assert load_adapters(other, tmp_path) == ["model.embed_tokens"]
    assert bool(mx.array_equal(other(small.IDS), model(small.IDS)))


def test_dora_is_kept_with_its_lengths(tmp_path):
    model = small.make_model()
    linear_to_lora_layers(model, 2, {"rank": 4}, use_dora=True)
    learn_at_random(model)
    model.model.layers[2].self_attn.q_proj.m = mx.ones((64,))
    save_adapters(model, tmp_path)
    assert json.loads((tmp_path / "adapter_config.json").read_text())["fine_tune_type"] == "dora"
    arrays = mx.load(str(tmp_path / "adapters.safetensors"))
    assert len(arrays) == 12 and arrays["model.layers.2.self_attn.v_proj.m"].shape == (32,)
    other = small.make_model()
    assert len(load_adapters(other, tmp_path)) == 4
    assert bool(mx.array_equal(other(small.IDS), model(small.IDS)))
    plain = small.make_model()
    linear_to_lora_layers(plain, 2, {"rank": 4})
    with pytest.raises(ValueError, match="has an addition of the other kind, 'dora' is in the file"):
        load_adapters(plain, tmp_path)


FIRST = "model.layers.1.self_attn.q_proj"


def without(arrays, name):
    del arrays[name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.update({f"{FIRST}.lora_a": mx.ones((64, 3))}),
         r"lora_a' has shape \(64, 3\), expected \(64, 4\) for rank 4"),
        (lambda a: a.update({f"{FIRST}.lora_b": mx.ones((4, 63))}), r"lora_b' has shape \(4, 63\), expected \(4, 64\)"),
        (lambda a: a.update({f"{FIRST}.lora_a": mx.ones((64, 4), dtype=mx.int32)}), "a float dtype is expected"),
        (lambda a: a.update({f"{FIRST}.extra": mx.ones(3)}), rf"the tensor '{FIRST}.extra' is no part"),
        (lambda a: a.update({"lora_a": mx.ones(3)}), "the tensor 'lora_a' is no part"),
        (lambda a: a.update({"x.lora_a": mx.ones((1, 4)), "x.lora_b": mx.ones((4, 1))}), "the model has no layer 'x'"),
        (lambda a: a.update({"model.norm.lora_a": mx.ones((1, 4)), "model.norm.lora_b": mx.ones((4, 1))}),
         "'model.norm' is RMSNorm in the model"),
        (lambda a: without(a, f"{FIRST}.lora_b"), rf"'{FIRST}' lacks lora_b"),
        (lambda a: a.clear(), "has no tensors"),
    ],
)  # fmt: skip
def test_tensors_that_do_not_fit_are_named_and_the_model_stays(saved, change, message):
    folder, _ = saved
    edit(folder, change)
    model = small.make_model()
    before = model(small.IDS)
    with pytest.raises(ValueError, match=rf"adapters\.safetensors.*{message}"):
        load_adapters(model, folder)
    assert remove_lora_layers(model) == [] and bool(mx.array_equal(model(small.IDS), before))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "fine_tune_type is None"),
        ('{"fine_tune_type": "full"}', "fine_tune_type is 'full', only 'lora' and 'dora' are known"),
        ("{}", "has no lora_parameters"),
        ('{"lora_parameters": {"rank": "4", "scale": 2}}', "the rank is '4'"),
        ('{"lora_parameters": {"rank": 4}}', "scale is None"),
        ('{"lora_parameters": {"rank": 5, "scale": 2}}', r"expected \(64, 5\) for rank 5"),
    ],
)
def test_a_config_that_is_not_understood_is_named(saved, text, message):
    folder, _ = saved
    (folder / "adapter_config.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_adapters(small.make_model(), folder)


def test_a_truncated_file_is_named_and_a_missing_one_too(saved):
    folder, _ = saved
    file = folder / "adapters.safetensors"
    data = file.read_bytes()
    for size in (len(data) - 5, 50, 3, 0):
        file.write_bytes(data[:size])
        with pytest.raises(ValueError, match=r"adapters\.safetensors"):
            load_adapters(small.make_model(), folder)
    for name in ("adapters.safetensors", "adapter_config.json"):
        (folder / name).unlink()
        with pytest.raises(FileNotFoundError, match=name.replace(".", r"\.")):
            load_adapters(small.make_model(), folder)


def test_a_model_with_more_additions_than_the_file_is_refused(saved):
    folder, _ = saved
    model = small.make_model()
    linear_to_lora_layers(model, 3, {"rank": 4})
    with pytest.raises(ValueError, match=r"has nothing for 'model\.layers\.0\.self_attn\.q_proj'"):
        load_adapters(model, folder)


def test_a_save_that_fails_leaves_the_old_files(saved, monkeypatch):
    folder, _ = saved
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    model = small.make_model()
    with pytest.raises(ValueError, match="has no low-rank additions"):
        save_adapters(model, folder)
    linear_to_lora_layers(model, 1)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_adapters(model, folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
