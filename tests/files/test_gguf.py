"""mx.save_gguf and mx.load with .gguf files: plain tensors, blocks of quantised weights, metadata."""

from __future__ import annotations

import base64
import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from fuzz import broken_copies, little_memory, read_all, survive

import mlxc as mx

GOLDEN = json.loads((Path(__file__).parent / "data" / "gguf_blocks.json").read_text())["types"]
PLAIN = {"float32": 0, "float16": 1, "int8": 24, "int16": 25, "int32": 26, "int64": 27, "float64": 28, "bfloat16": 30}


def decoded(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype)


def load(data: bytes, **how: bool):
    return mx.load(io.BytesIO(data), format="gguf", **how)


def saved(arrays: dict[str, mx.array], metadata: dict | None = None) -> bytes:
    file = io.BytesIO()
    mx.save_gguf(file, arrays, metadata)
    return file.getvalue()


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def tensor(name: str, dims: tuple[int, ...], kind: int, offset: int) -> bytes:
    """The description of a tensor; dims in the order of the file, fastest first."""
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def file_of(tensors: list[bytes], values: list[bytes] = (), data: bytes = b"", version: int = 3) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values)) + b"".join([*values, *tensors])
    return head + bytes(-len(head) % 32) + data


def test_the_smallest_file_has_the_bytes_that_the_format_asks_for():
    raw = saved({"x": mx.array([[1, 2, 3]], dtype=mx.int8)}, {"k": "é"})
    value = text("k") + struct.pack("<I", 8) + text("é")
    assert raw == file_of([tensor("x", (3, 1), 24, 0)], [value], b"\x01\x02\x03" + bytes(29))


@pytest.mark.parametrize("name", PLAIN)
def test_plain_dtypes_and_shapes_survive(name):
    for shape in ((), (0, 2), (5,), (2, 3), (1, 2, 1, 3, 1)):
        count = int(np.prod(shape))
        a = mx.arange(1, count + 1).reshape(shape).astype(getattr(mx, name))
        back = load(saved({"x": a, "y": mx.ones(3)}))
        assert back["x"].dtype == a.dtype and back["x"].shape == shape
        assert back["x"].tolist() == a.tolist()
        assert back["y"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", sorted(set(GOLDEN) - {"Q4_0", "Q4_1", "Q8_0"}))
def test_blocks_become_the_float16_that_ggml_means(name):
    golden = GOLDEN[name]
    shape = tuple(golden["shape"])
    raw = file_of([tensor("x.weight", shape[::-1], golden["type"], 0)], data=base64.b64decode(golden["blocks"]))
    arrays = load(raw)
    assert list(arrays) == ["x.weight"]
    assert arrays["x.weight"].dtype == mx.float16
    np.testing.assert_array_equal(np.array(arrays["x.weight"]), decoded(golden["values"], "f2").reshape(shape))


@pytest.mark.parametrize(("name", "bits"), [("Q4_0", 4), ("Q4_1", 4), ("Q8_0", 8)])
def test_blocks_that_stay_quantised_have_mlx_layout(name, bits):
    golden = GOLDEN[name]
    rows, columns = golden["shape"]
    raw = file_of([tensor("x.weight", (columns, rows), golden["type"], 0)], data=base64.b64decode(golden["blocks"]))
    arrays = load(raw)
    for part, dtype in (("weight", "u4"), ("scales", "f2"), ("biases", "f2")):
        got = np.array(arrays[f"x.{part}"])
        assert got.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(got, decoded(golden[part], dtype).reshape(rows, -1))
    weight = np.array(arrays["x.weight"])[..., None] >> np.arange(0, 32, bits, dtype=np.uint32) & (2**bits - 1)
    scales, biases = (np.array(arrays[f"x.{part}"]).astype(np.float32)[..., None] for part in ("scales", "biases"))
    values = weight.reshape(rows, -1, 32) * scales + biases
    np.testing.assert_allclose(values.reshape(rows, columns), decoded(golden["values"], "f2").reshape(rows, columns),
                               rtol=1e-3)  # fmt: skip


def test_scales_of_blocks_lie_together_so_that_products_need_no_copy():
    golden = GOLDEN["Q4_1"]
    rows, columns = golden["shape"]
    raw = file_of([tensor("x.weight", (columns, rows), golden["type"], 0)], data=base64.b64decode(golden["blocks"]))
    arrays = mx.load(io.BytesIO(raw), format="gguf")
    assert all(memoryview(arrays[f"x.{part}"]).c_contiguous for part in ("weight", "scales", "biases"))


def test_names_without_weight_at_the_end_get_scales_and_biases_too():
    golden = GOLDEN["Q4_0"]
    raw = file_of([tensor("embedding", (64, 2), golden["type"], 0)], data=base64.b64decode(golden["blocks"]))
    assert sorted(load(raw)) == ["embedding", "embedding.biases", "embedding.scales"]


NUMBER_NAMES = "bool_ uint8 int8 uint16 int16 uint32 int32 uint64 int64 float32 float64"


@pytest.mark.parametrize("name", NUMBER_NAMES.split())
def test_metadata_of_numbers_survive(name):
    dtype = getattr(mx, name)
    _, back = load(saved({}, {"one": mx.array(1, dtype=dtype), "row": mx.array([0, 1, 1], dtype=dtype)}), **META)
    assert back["one"].dtype == back["row"].dtype == dtype
    assert back["one"].tolist() == 1 and back["one"].ndim == 0
    assert back["row"].tolist() == [0, 1, 1]


META = {"return_metadata": True}


def test_metadata_of_strings_and_lists_survive_in_order():
    metadata = {"z": "text with é", "a": ["one", "", "drei"], "m": []}
    arrays, back = load(saved({}, metadata), **META)
    assert arrays == {}
    assert list(back.items()) == list(metadata.items())


def test_strings_that_are_not_utf8_keep_their_bytes():
    value = text("k") + struct.pack("<IQ", 8, 2) + b"\xff\xfe"
    back = load(file_of([], [value]), **META)[1]
    assert saved({}, back) == file_of([], [value])


def test_arrays_of_arrays_are_lists():
    inner = struct.pack("<IQ2B", 0, 2, 7, 8)
    value = text("k") + struct.pack("<IIQ", 9, 9, 2) + inner + inner
    assert [a.tolist() for a in load(file_of([], [value]), **META)[1]["k"]] == [[7, 8], [7, 8]]


def test_another_alignment_is_obeyed():
    value = text("general.alignment") + struct.pack("<II", 4, 64)
    head = b"GGUF" + struct.pack("<IQQ", 2, 1, 1) + value + tensor("x", (2,), 0, 64)
    raw = head + bytes(-len(head) % 64) + bytes(64) + np.array([1, 2], "f4").tobytes()
    assert load(raw)["x"].tolist() == [1, 2]


def test_a_file_is_mapped(tmp_path):
    mx.save_gguf(tmp_path / "a", {"x": mx.arange(100_000)})
    before = mx.get_active_memory()
    x = mx.load(tmp_path / "a.gguf")["x"]
    assert mx.get_active_memory() - before < 10_000
    (tmp_path / "a.gguf").unlink()
    assert x[99_999].item() == 99_999


def nested(depth: int) -> bytes:
    return text("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * depth + struct.pack("<IQ", 0, 0)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"GGML" + bytes(20), "not a GGUF"),
        (file_of([], version=1), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (file_of([])[:20], "truncated"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0), "truncated"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**64 - 1), "truncated"),
        (file_of([tensor("x", (2,), 0, 0)], data=bytes(7)), "truncated"),
        (file_of([tensor("x", (2**60, 2**60), 0, 0)], data=bytes(8)), "truncated"),
        (file_of([tensor("x", (2**63, 0), 0, 0)]), "large"),
        (file_of([tensor("x", (2,), 0, 16)], data=bytes(64)), "multiple"),
        (file_of([tensor("x", (9,), 0, 0), tensor("y", (9,), 0, 32)], data=bytes(99)), "overlaps"),
        (file_of([tensor("x", (2,), 0, 0), tensor("x", (2,), 0, 32)], data=bytes(99)), "two tensors"),
        (file_of([tensor("x", (2,), 99, 0)], data=bytes(8)), "type 99"),
        (file_of([tensor("x", (32,), 39, 0)], data=bytes(17)), "MXFP4"),
        (file_of([tensor("x", (33,), 2, 0)], data=bytes(36)), "blocks of 32"),
        (file_of([tensor("x", (), 2, 0)], data=bytes(36)), "blocks of 32"),
        (file_of([tensor("x", (1,) * 9, 0, 0)], data=bytes(4)), "9 dimensions"),
        (file_of([struct.pack("<Q", 2) + b"\xff\xff" + struct.pack("<IIQ", 0, 0, 0)]), "UTF-8"),
        (file_of([], [text("k") + struct.pack("<I", 13)]), "type 13"),
        (file_of([], [text("k") + struct.pack("<IIQ", 9, 4, 2**62)]), "truncated"),
        (file_of([], [text("k") + struct.pack("<IIQ", 9, 8, 2**62)]), "truncated"),
        (file_of([], [text("k") + struct.pack("<IQ", 8, 2**64 - 1)]), "truncated"),
        (file_of([], [nested(10_000)]), "deep"),
        (file_of([], [text("k") + struct.pack("<IB", 0, 1)] * 2), "twice"),
        (file_of([], [text("general.alignment") + struct.pack("<II", 4, 0)]), "alignment is 0"),
        (file_of([], [text("general.alignment") + struct.pack("<II", 4, 2**31)]), "alignment"),
        (file_of([], [text("general.alignment") + struct.pack("<II", 4, 48)]), "alignment is 48"),
        (file_of([], [text("general.alignment") + struct.pack("<I", 8) + text("32")]), "uint32"),
    ],
)
def test_contradictions_are_refused(raw, words):
    with little_memory(), pytest.raises(ValueError, match=words):
        load(raw)


def test_a_quantised_tensor_whose_scales_another_tensor_has_is_refused():
    raw = file_of([tensor("x.weight", (32,), 2, 0), tensor("x.scales", (1,), 0, 32)], data=bytes(36))
    with pytest.raises(ValueError, match="two tensors make"):
        load(raw)


@pytest.mark.parametrize(
    ("arrays", "metadata", "error", "words"),
    [
        ({"x": mx.zeros(2, dtype=mx.uint32)}, {}, TypeError, "uint32"),
        ({"x": mx.zeros((1,) * 9)}, {}, ValueError, "9 dimensions"),
        ({}, {"k": mx.zeros(2, dtype=mx.float16)}, TypeError, "float16"),
        ({}, {"k": mx.zeros((2, 2))}, ValueError, "shape"),
        ({}, {"k": mx.zeros(0)}, ValueError, "shape"),
        ({}, {"k": 3}, TypeError, "'k' is 3"),
        ({}, {"k": ["a", 3]}, TypeError, "lists of strings"),
        ({}, {3: "a"}, TypeError, "names"),
        ({}, {"general.alignment": mx.array(64, dtype=mx.uint32)}, ValueError, "alignment"),
        ({}, [], TypeError, "dict"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(arrays, metadata, error, words):
    with pytest.raises(error, match=words):
        saved(arrays, metadata)


def test_broken_files_are_read_or_refused():
    q4, q6 = GOLDEN["Q4_0"], GOLDEN["Q6_K"]
    values = [
        text("n") + struct.pack("<IIQ2I", 9, 4, 2, 1, 2),
        text("s") + struct.pack("<IIQ", 9, 8, 2) + text("a") * 2,
        text("b") + struct.pack("<IB", 7, 1),
    ]
    tensors = [tensor("a.weight", (64, 2), 2, 0), tensor("b", (256, 2), 14, 96), tensor("c", (2, 2), 0, 544)]
    blocks = base64.b64decode(q4["blocks"]) + bytes(24) + base64.b64decode(q6["blocks"])
    sound = file_of(tensors, values, blocks + bytes(-len(blocks) % 32) + bytes(16))
    assert len(load(sound)) == 5
    done, refused = survive(read_all("gguf"), broken_copies(sound, 3000, 5, 256))
    assert done > 100
    assert refused > 1000
