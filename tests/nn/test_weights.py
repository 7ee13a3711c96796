"""Weights in files: one file, several, a folder, an index; what does not fit is told whole and changes nothing."""

from __future__ import annotations

import json

import pytest

import mlxc as mx
from mlxc import nn
from mlxc.utils import tree_flatten


def make() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.RMSNorm(3))


def values(module: nn.Module) -> dict:
    return {path: value.tolist() for path, value in tree_flatten(module.parameters())}


def flat(module: nn.Module) -> list:
    return tree_flatten(module.parameters())


@pytest.mark.parametrize("name", ["w.npz", "w.safetensors"])
def test_a_saved_model_comes_back(tmp_path, name):
    m, other = make(), make()
    m.save_weights(tmp_path / name)
    assert other.load_weights(str(tmp_path / name)) is other
    assert values(other) == values(m)


def test_dtypes_come_back_too(tmp_path):
    m = make()
    m.set_dtype(mx.bfloat16)
    for name in ("w.npz", "w.safetensors"):
        m.save_weights(str(tmp_path / name))
        other = make().load_weights(tmp_path / name)
        assert other.layers[0].weight.dtype == mx.bfloat16 and values(other) == values(m)


def test_a_list_of_pairs_is_loaded():
    m = nn.Linear(1, 1)
    m.load_weights([("weight", mx.array([[2.0]])), ("bias", mx.array([3.0]))])
    assert values(m) == {"weight": [[2.0]], "bias": [3.0]}
    m.load_weights({"weight": mx.array([[4.0]]), "bias": mx.array([5.0])})
    assert values(m) == {"weight": [[4.0]], "bias": [5.0]}


def shards(folder, module, index=True):
    """The weights of a module in two files, and their index."""
    pairs = flat(module)
    parts = {"model-1-of-2.safetensors": dict(pairs[:1]), "model-2-of-2.safetensors": dict(pairs[1:])}
    for name, arrays in parts.items():
        mx.save_safetensors(str(folder / name), arrays)
    if index:
        places = {tensor: name for name, arrays in parts.items() for tensor in arrays}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return [str(folder / name) for name in parts]


def test_weights_in_several_files(tmp_path):
    m = make()
    files = shards(tmp_path, m)
    for source in (files, tmp_path, str(tmp_path / "model.safetensors.index.json")):
        assert values(make().load_weights(source)) == values(m)
    (tmp_path / "model.safetensors.index.json").unlink()
    assert values(make().load_weights(str(tmp_path))) == values(m)


def test_an_index_says_which_files_count(tmp_path):
    m = make()
    shards(tmp_path, m)
    mx.save_safetensors(str(tmp_path / "other.safetensors"), {"stray": mx.zeros(1)})
    assert values(make().load_weights(tmp_path)) == values(m)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[]", "weight_map"),
        ('{"weight_map": {"a": 3}}', "weight_map"),
        ('{"weight_map": {"a": "../x.safetensors"}}', "not in its own folder"),
        ('{"weight_map": {"a": "model-1-of-2.safetensors"}}', "lacks the tensor a"),
    ],
)
def test_a_bad_index_is_refused(tmp_path, text, message):
    shards(tmp_path, make())
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        make().load_weights(tmp_path)


def test_a_missing_shard_and_a_tensor_in_two_shards(tmp_path):
    files = shards(tmp_path, make())
    with pytest.raises(ValueError, match=r"tensor layers.0.weight is in .*1-of-2.* and in .*1-of-2"):
        make().load_weights([*files, files[0]])
    (tmp_path / "model-2-of-2.safetensors").unlink()
    for source in (files, tmp_path):
        with pytest.raises(FileNotFoundError, match="model-2-of-2"):
            make().load_weights(source)


def test_one_message_names_all_that_does_not_fit_and_nothing_changes(tmp_path):
    m = make()
    before = values(m)
    file = str(tmp_path / "bad.safetensors")
    mx.save_safetensors(file, {"layers.0.weight": mx.zeros((2, 2)), "layers.0.bias": mx.zeros(3), "zz": mx.zeros(1)})
    with pytest.raises(ValueError) as caught:
        m.load_weights(file)
    for part in ("bad.safetensors", "not in model: zz", "Missing 1 parameters: layers.1.weight",
                 "Expected shape (3, 2) but received shape (2, 2) for parameter layers.0.weight"):  # fmt: skip
        assert part in str(caught.value)
    assert values(m) == before


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([("weight", mx.zeros((1, 1)))], "Missing 1 parameters: bias"),
        ([("weight", mx.zeros((1, 1))), ("bias", 3)], "Expected an array but received int for parameter bias"),
        ([("weight", mx.zeros((1, 1))), ("bias", mx.zeros(1)), ("bias", mx.zeros(1))], "Given twice: bias"),
        ([3], "pairs"),
        ([("weight",)], "pairs"),
    ],
)
def test_a_bad_list_is_refused(weights, message):
    m = nn.Linear(1, 1)
    before = values(m)
    with pytest.raises(ValueError, match=message):
        m.load_weights(weights)
    assert values(m) == before


def test_without_strict_what_fits_by_name_is_loaded():
    m = nn.Linear(1, 1)
    m.load_weights([("weight", mx.array([[7.0]])), ("zz", mx.zeros(1))], strict=False)
    assert m.weight.item() == 7.0
    m.load_weights([("weight", mx.zeros((3, 3)))], strict=False)
    assert m.weight.shape == (3, 3)
    with pytest.raises(ValueError, match="received int"):
        m.load_weights([("bias", mx.zeros(1)), ("weight", 3)], strict=False)
    assert m.weight.shape == (3, 3)


def test_files_that_are_no_weights(tmp_path):
    m = nn.Linear(1, 1)
    with pytest.raises(FileNotFoundError):
        m.load_weights(str(tmp_path / "none.npz"))
    with pytest.raises(FileNotFoundError, match=r"no \.safetensors files"):
        m.load_weights(tmp_path)
    mx.save(str(tmp_path / "one.npy"), mx.zeros(1))
    with pytest.raises(ValueError, match="one array without a name"):
        m.load_weights(str(tmp_path / "one.npy"))
    file = tmp_path / "cut.safetensors"
    m.save_weights(file)
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"cut\.safetensors"):
        m.load_weights(file)
    for index in ("a", "b"):
        (tmp_path / f"{index}.safetensors.index.json").write_text("{}")
    with pytest.raises(ValueError, match="several indices"):
        m.load_weights(tmp_path)
    with pytest.raises(TypeError, match="int"):
        m.load_weights(3)


def test_saving_elsewhere_is_refused():
    m = nn.Linear(1, 1)
    with pytest.raises(ValueError, match=r"Unsupported file extension for .*w\.bin"):
        m.save_weights("w.bin")
    with pytest.raises(TypeError, match="int"):
        m.save_weights(3)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    m = nn.Linear(1, 1)
    file = tmp_path / "w.safetensors"
    m.save_weights(file)
    before = file.read_bytes()
    m.weight = mx.zeros((1, 1), mx.complex64).astype(mx.complex128)
    with pytest.raises(TypeError):
        m.save_weights(file)
    assert file.read_bytes() == before


# ---- saving to several files ----


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr("mlxc.nn.layers._weights.SHARD_BYTES", 30)


INDEX = "model.safetensors.index.json"


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_weights_are_divided_among_files_with_an_index(tmp_path, small_shards):
    m = make()
    m.save_weights(tmp_path / INDEX)
    assert names(tmp_path) == [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)] + [INDEX]
    index = json.loads((tmp_path / INDEX).read_text())
    assert index["metadata"] == {"total_size": 4 * (6 + 3 + 3)}
    assert index["weight_map"]["layers.0.weight"] == "model-00001-of-00002.safetensors"
    assert list(index["weight_map"]) == [path for path, _ in flat(m)]
    for source in (tmp_path, tmp_path / INDEX):
        assert values(make().load_weights(source)) == values(m)


def test_saving_again_replaces_all_files(tmp_path, small_shards):
    make().save_weights(tmp_path / INDEX)
    (tmp_path / "other.safetensors").write_bytes(b"")
    m = make()
    m.save_weights(tmp_path / INDEX)
    assert values(make().load_weights(tmp_path / INDEX)) == values(m)
    assert len(names(tmp_path)) == 4 and "other.safetensors" in names(tmp_path)


def test_a_save_to_several_files_that_fails_leaves_the_old_ones(tmp_path, small_shards):
    m = make()
    m.save_weights(tmp_path / INDEX)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    m.layers[1].weight = mx.zeros(3, dtype=mx.complex64).astype(mx.complex128)
    with pytest.raises(TypeError):
        m.save_weights(tmp_path / INDEX)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_unsound_index_is_replaced_and_names_nothing_to_delete(tmp_path, small_shards):
    (tmp_path / "model-x.safetensors").write_bytes(b"kept")
    for text in ("{", "[]", '{"weight_map": 3}', '{"weight_map": {"a": "../model-x.safetensors"}}'):
        (tmp_path / INDEX).write_text(text)
        m = make()
        m.save_weights(tmp_path / INDEX)
        assert values(make().load_weights(tmp_path)) == values(m)
    assert (tmp_path / "model-x.safetensors").read_bytes() == b"kept"
