"""GGUF files: metadata, names and permuted rows, with the tiny models of tiny.py written as such files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny

import mlxc as mx
from mlxc.models import load_model
from mlxc.models.config import config_from_dict

LOGITS = np.load(Path(__file__).parent / "data" / "transformers.npz")
TOKENS = mx.array([tiny.TOKENS])
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def neighbours(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of q or k in the order in which files of the architecture "llama" have them."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def tensors_of(case: str) -> dict[str, mx.array]:
    config = tiny.config_of(case)
    kind = config["model_type"]
    norm_offset = np.float32(kind.startswith("gemma"))
    after_attention = "post_attention_norm" if "gemma2" in kind or "gemma3" in kind else "ffn_norm"
    made = {}
    for name, given in tiny.weights_of(config).items():
        stem, part = name.rsplit(".", 1)
        array = given + norm_offset if "norm" in stem else given
        if stem in OUTER:
            made[f"{OUTER[stem]}.{part}"] = mx.array(array)
            continue
        _, _, layer, inner = stem.split(".", 3)
        short = {**NAMES, "post_attention_layernorm": after_attention}[inner]
        heads = {"attn_q": 4, "attn_k": 2}.get(short)
        permuted = kind == "llama" and heads is not None
        made[f"blk.{layer}.{short}.{part}"] = mx.array(neighbours(array, heads) if permuted else array)
    return made


def metadata_of(case: str, **more) -> dict:
    config = tiny.config_of(case)
    kind = config["model_type"].removesuffix("_text")
    numbers = {
        "block_count": config["num_hidden_layers"], "context_length": 128, "embedding_length": 32,
        "feed_forward_length": 48, "attention.head_count": 4, "attention.head_count_kv": 2,
    }  # fmt: skip
    if "head_dim" in config:
        numbers |= {"attention.key_length": config["head_dim"], "attention.value_length": config["head_dim"]}
    if kind in ("gemma2", "gemma3"):
        numbers["attention.sliding_window"] = config["sliding_window"]
    floats = {"attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": config.get("rope_theta", 10000.0)}
    if kind == "gemma2":
        floats |= {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
    made = {f"{kind}.{key}": mx.array(value, dtype=mx.uint32) for key, value in numbers.items()}
    made |= {f"{kind}.{key}": mx.array(value, dtype=mx.float32) for key, value in floats.items()}
    given = {key.replace("__", "."): value for key, value in more.items()}
    return {k: v for k, v in {"general.architecture": kind, **made, **given}.items() if v is not None}


def write(folder: Path, case: str, tensors: dict | None = None, **more) -> Path:
    path = folder / "model.gguf"
    mx.save_gguf(str(path), tensors_of(case) if tensors is None else tensors, metadata_of(case, **more))
    return path


@pytest.mark.parametrize("case", ["llama", "llama with biases", "qwen2", "qwen3", "gemma"])
def test_logits_are_those_of_the_folder(case, tmp_path):
    model = load_model(write(tmp_path, case))
    np.testing.assert_allclose(np.array(model(TOKENS)[0]), LOGITS[case], rtol=0, atol=1e-5)


def test_gemma_2_has_windows_caps_and_more_norms(tmp_path):
    """Its scale of queries is not in the file but follows from the sizes, so the folder gets the same one."""
    config = {**tiny.config_of("gemma2"), "query_pre_attn_scalar": 16}
    expected = load_model(tiny.write_folder(tmp_path / "folder", config))(TOKENS)
    model = load_model(write(tmp_path, "gemma2"))
    np.testing.assert_allclose(np.array(model(TOKENS)), np.array(expected), rtol=0, atol=1e-5)


def test_gemma_3_has_two_bases_of_wavelengths(tmp_path):
    more = {"gemma3__rope__freq_base_swa": mx.array(100.0), "gemma3__rope__scaling__type": "linear"}
    model = load_model(write(tmp_path, "gemma3", **more, gemma3__rope__scaling__factor=mx.array(4.0)))
    np.testing.assert_allclose(np.array(model(TOKENS)[0]), LOGITS["gemma3"], rtol=0, atol=1e-5)


def test_llama_3_wavelengths_are_a_tensor(tmp_path):
    scaling = config_from_dict(tiny.config_of("llama3 rope")).rope_scaling
    stretched, plain = scaling.wavelengths(8, 10000.0), [10000.0 ** (i / 4) for i in range(4)]
    factors = mx.array([a / b for a, b in zip(stretched, plain, strict=True)])
    model = load_model(write(tmp_path, "llama3 rope", {**tensors_of("llama3 rope"), "rope_freqs.weight": factors}))
    np.testing.assert_allclose(np.array(model(TOKENS)[0]), LOGITS["llama3 rope"], rtol=0, atol=1e-5)


def test_linear_scaling_is_in_the_metadata(tmp_path):
    more = {"llama__rope__scaling__type": "linear", "llama__rope__scaling__factor": mx.array(4.0)}
    model = load_model(write(tmp_path, "linear rope", **more))
    np.testing.assert_allclose(np.array(model(TOKENS)[0]), LOGITS["linear rope"], rtol=0, atol=1e-5)


def test_the_dtype_is_the_one_of_the_file_or_the_one_asked_for(tmp_path):
    path = write(tmp_path, "llama")
    assert load_model(path).model.norm.weight.dtype == mx.float32
    assert load_model(path, mx.float16).model.layers[2].self_attn.k_proj.weight.dtype == mx.float16


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_norms_take_the_dtype_of_half_precision_matrices(tmp_path, dtype):
    tensors = {name: a.astype(dtype) if a.ndim == 2 else a for name, a in tensors_of("qwen2").items()}
    model = load_model(write(tmp_path, "qwen2", tensors))
    assert model.model.norm.weight.dtype == model.layers[0].self_attn.q_proj.bias.dtype == dtype
    assert model(TOKENS).dtype == dtype


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"general__architecture": "rwkv"}, r"the architecture 'rwkv' is not known, only llama, qwen2"),
        ({"llama__block_count": None}, r"the key llama\.block_count is missing"),
        ({"llama__block_count": "3"}, r"llama\.block_count must be a number, got '3'"),
        ({"llama__attention__head_count": mx.array(0, dtype=mx.uint32)}, r"must be positive, got \(32, 0, 3\)"),
        ({"llama__block_count": mx.array(2**31, dtype=mx.uint32)}, r"2147483648 layers, at most 4096 are possible"),
        ({"llama__attention__head_count": mx.array([4, 2, 4], dtype=mx.uint32)}, r"head_count differs from layer"),
        ({"llama__attention__new_thing": mx.array(1)}, r"the keys llama\.attention\.new_thing are not understood"),
        ({"llama__rope__scaling__type": "yarn"}, r"the rope scaling 'yarn' is not supported"),
        ({"llama__expert_count": mx.array(8, dtype=mx.uint32)}, r"models with experts are not supported"),
        ({"llama__attention__value_length": mx.array(16, dtype=mx.uint32)}, r"keys and values of different widths"),
        ({"llama__feed_forward_length": mx.array(40, dtype=mx.uint32)},
         r"the tensor 'model\.layers\.0\.mlp\.gate_proj\.weight' has shape \(48, 32\), expected \(40, 32\)"),
        ({"llama__attention__head_count_kv": mx.array(4, dtype=mx.uint32)},
         r"the tensor 'blk\.0\.attn_k\.weight' has 16 rows, expected 4 heads of 8"),
    ],
)  # fmt: skip
def test_metadata_that_do_not_fit_are_named(tmp_path, more, words):
    with pytest.raises(ValueError, match=words) as caught:
        load_model(write(tmp_path, "llama", **more))
    assert str(caught.value).startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"blk.1.ffn_up.weight": None}, r"tensors are missing .* 'model\.layers\.1\.mlp\.up_proj\.weight'"),
        ({"token_embd.weight": None}, r"the tensor 'token_embd\.weight' is missing"),
        ({"blk.1.ffn_gate_inp.weight": mx.ones((2, 2))}, r"the tensor 'blk\.1\.ffn_gate_inp\.weight' is not known"),
        ({"strange": mx.ones(3)}, r"the tensor 'strange' is not known"),
        ({"blk.7.ffn_up.weight": mx.ones((48, 32))}, r"does not have: 'model\.layers\.7\.mlp\.up_proj\.weight'"),
        ({"rope_freqs.weight": mx.ones(3)}, r"the tensor 'rope_freqs\.weight' has shape \(3,\), expected \(4,\)"),
    ],
)
def test_tensors_that_do_not_fit_are_named(tmp_path, change, words):
    tensors = {name: array for name, array in {**tensors_of("llama"), **change}.items() if array is not None}
    with pytest.raises(ValueError, match=words) as caught:
        load_model(write(tmp_path, "llama", tensors))
    assert str(tmp_path) in str(caught.value)


def test_a_truncated_file_is_named(tmp_path):
    path = write(tmp_path, "llama")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"^\S*model\.gguf: the file is truncated"):
        load_model(path)
