"""mx.save_safetensors and mx.load with .safetensors files."""

from __future__ import annotations

import gc
import io
import json

import numpy as np
import pytest
from fuzz import broken_copies, little_memory, read_all, survive

import mlxc as mx

DTYPES = {
    "BOOL": mx.bool_, "U8": mx.uint8, "U16": mx.uint16, "U32": mx.uint32, "U64": mx.uint64, "I8": mx.int8,
    "I16": mx.int16, "I32": mx.int32, "I64": mx.int64, "F16": mx.float16, "BF16": mx.bfloat16, "F32": mx.float32,
    "F64": mx.float64, "C64": mx.complex64,
}  # fmt: skip


def file_of(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: str, shape: list, begin: int, end: int) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def load(data: bytes, **how: bool):
    return mx.load(io.BytesIO(data), format="safetensors", **how)


def saved(arrays: dict[str, mx.array], metadata: dict[str, str] | None = None) -> bytes:
    file = io.BytesIO()
    mx.save_safetensors(file, arrays, metadata)
    return file.getvalue()


def header_of(raw: bytes) -> dict:
    return json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_and_shape_survives_and_is_named_as_the_format_does(name):
    for shape in ((), (0,), (3,), (2, 3), (0, 4)):
        a = (mx.arange(max(1, int(np.prod(shape))))[: int(np.prod(shape))].reshape(shape) + 1).astype(DTYPES[name])
        raw = saved({"x": a})
        assert header_of(raw)["x"]["dtype"] == name
        back = load(raw)["x"]
        assert back.dtype == a.dtype and back.shape == shape
        assert back.tolist() == a.tolist()


def test_bytes_are_those_that_the_format_asks_for():
    raw = saved({"b": mx.array([1, 2], dtype=mx.uint8), "a": mx.array([1.0]), "c": mx.array(7)}, {"note": "é"})
    size = int.from_bytes(raw[:8], "little")
    assert size % 8 == 0 and raw[8:9] == b"{"
    assert header_of(raw) == {
        "__metadata__": {"note": "é"},
        "a": entry("F32", [1], 0, 4),
        "c": entry("I32", [], 4, 8),
        "b": entry("U8", [2], 8, 10),
    }
    assert raw[8 + size :] == b"\x00\x00\x80?\x07\x00\x00\x00\x01\x02"


def test_metadata_survive_and_are_empty_without():
    assert load(saved({}, {"k": "v"}), return_metadata=True) == ({}, {"k": "v"})
    assert load(saved({}), return_metadata=True) == ({}, {})
    assert load(file_of({"__metadata__": None}), return_metadata=True) == ({}, {})


def test_eight_bit_floats_are_read_as_their_bytes():
    for name in ("F8_E4M3", "F8_E8M0"):
        got = load(file_of({"x": entry(name, [2], 0, 2)}, b"\x38\xff"))["x"]
        assert got.dtype == mx.uint8 and got.tolist() == [0x38, 0xFF]


def test_elements_that_are_not_aligned_are_right_too():
    values = np.arange(5, dtype=np.float32)
    header = {"a": entry("U8", [1], 0, 1), "b": entry("F32", [5], 1, 21)}
    assert load(file_of(header, b"\x07" + values.tobytes()))["b"].tolist() == values.tolist()


def test_a_file_is_mapped_and_stays_alive_with_its_arrays(tmp_path):
    path = tmp_path / "a.safetensors"
    mx.save_safetensors(path, {"x": mx.arange(200_000), "y": mx.ones(5)})
    before = mx.get_active_memory()
    arrays = mx.load(path)
    assert mx.get_active_memory() - before < 10_000
    x = arrays["x"]
    path.unlink()
    del arrays
    gc.collect()
    assert x[199_999].item() == 199_999


def test_saving_over_the_file_that_arrays_come_from_keeps_their_values(tmp_path):
    path = tmp_path / "a.safetensors"
    mx.save_safetensors(path, {"x": mx.arange(100_000)})
    x = mx.load(path)["x"]
    mx.save_safetensors(path, {"x": x * 2})
    assert x[99_999].item() == 99_999
    assert mx.load(path)["x"][99_999].item() == 199_998


def test_an_open_file_is_read_from_where_it_is(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"front" + saved({"x": mx.arange(3)}))
    with open(tmp_path / "a.bin", "rb") as file:
        file.read(5)
        assert mx.load(file, format="safetensors")["x"].tolist() == [0, 1, 2]


def test_what_the_format_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="complex128"):
        saved({"x": mx.ones(2).astype(mx.complex128)})
    with pytest.raises(TypeError, match="metadata"):
        saved({"x": mx.ones(2)}, {"k": 1})
    with pytest.raises(ValueError, match="reserved"):
        saved({"__metadata__": mx.ones(2)})
    with pytest.raises(TypeError, match="names of arrays"):
        saved({1: mx.ones(2)})
    with pytest.raises(TypeError, match="dict"):
        saved([mx.ones(2)])


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        ({"a": entry("F32", [2], 0, 8)}, bytes(7), "truncated"),
        ({"a": entry("F32", [2], 0, 8)}, bytes(9), "no array's"),
        ({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, bytes(12), "overlaps"),
        ({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 12, 20)}, bytes(20), "gap"),
        ({"a": entry("F32", [2], 8, 0)}, bytes(8), "needs 8 bytes"),
        ({"a": entry("F32", [2], -8, 0)}, bytes(8), "lists of sizes"),
        ({"a": entry("F32", [-2], 0, 8)}, bytes(8), "lists of sizes"),
        ({"a": entry("F32", [2.0], 0, 8)}, bytes(8), "lists of sizes"),
        ({"a": entry("F32", [True, 2], 0, 8)}, bytes(8), "lists of sizes"),
        ({"a": entry("F32", [2**62, 4], 0, 0)}, bytes(8), "needs"),
        ({"a": entry("F32", [2**64], 0, 8)}, bytes(8), "lists of sizes"),
        ({"a": entry("F32", "2", 0, 8)}, bytes(8), "lists of sizes"),
        ({"a": entry("F31", [2], 0, 8)}, bytes(8), "F31"),
        ({"a": entry("F8_E5M2", [8], 0, 8)}, bytes(8), "F8_E5M2"),
        ({"a": entry(["F32"], [2], 0, 8)}, bytes(8), "no dtype"),
        ({"a": {"dtype": "F32", "shape": [2]}}, bytes(8), "entry"),
        ({"a": None}, b"", "entry"),
        ({"__metadata__": {"k": 1}}, b"", "metadata"),
        ([], b"", "no JSON object"),
        (b'{"a":1,"a":2}', b"", "twice"),
        (b"[" * 100_000, b"", "JSON"),
        (b"\xff\xfe", b"", "JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", b"", "JSON|entry"),
    ],
)
def test_contradictions_are_refused(header, data, words):
    with pytest.raises(ValueError, match=words):
        load(file_of(header, data))


@pytest.mark.parametrize("size", [3, 2**31, 2**63, 2**64 - 1])
def test_headers_that_are_longer_than_the_file_are_refused(size):
    with little_memory(), pytest.raises(ValueError, match="header"):
        load(size.to_bytes(8, "little") + b"{}")
    with pytest.raises(ValueError, match="truncated"):
        load(b"\x02\x00")


def test_broken_files_are_read_or_refused():
    sound = saved({"a": mx.ones((2, 2)), "b": mx.arange(3), "c": mx.zeros((2,), dtype=mx.bool_)}, {"k": "v"})
    done, refused = survive(read_all("safetensors"), broken_copies(sound, 3000, 1, len(sound) - 30))
    assert done > 20
    assert refused > 2000
