"""mx.save and mx.load with .npy files: NumPy writes what mlxc reads and the other way round."""

from __future__ import annotations

import io
import itertools

import ml_dtypes
import numpy as np
import pytest
from fuzz import broken_copies, little_memory, read_all, survive

import mlxc as mx

DTYPES = ("?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16")
SHAPES = ((), (0,), (3,), (2, 3, 4), (0, 5), (1, 1, 1))


def load(data: bytes) -> mx.array:
    return mx.load(io.BytesIO(data), format="npy")


def saved(a: mx.array) -> bytes:
    file = io.BytesIO()
    mx.save(file, a)
    return file.getvalue()


def file_of(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header.encode() + data


def example(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 2 if dtype.kind == "b" else 100, shape)
    return np.asarray(values * (1 - 2j) if dtype.kind == "c" else values).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reads_every_order_version_and_shape_that_numpy_writes(dtype):
    for order, fortran, shape in itertools.product("<>", (False, True), SHAPES):
        a = example(np.dtype(dtype).newbyteorder(order), shape)
        for version in ((1, 0), (2, 0), (3, 0)):
            file = io.BytesIO()
            np.lib.format.write_array(file, np.asfortranarray(a) if fortran and a.ndim else a, version=version)
            got = load(file.getvalue())
            assert got.shape == shape
            assert np.array(got).dtype == a.dtype.newbyteorder("=")
            np.testing.assert_array_equal(np.array(got), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_reads_every_dtype_and_shape(dtype):
    for shape in SHAPES:
        a = example(np.dtype(dtype), shape)
        got = np.load(io.BytesIO(saved(mx.asarray(a, copy=False))))
        assert got.dtype == a.dtype
        np.testing.assert_array_equal(got, a)


def test_reads_the_headers_that_mlx_writes():
    raw = file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, )}        \n", bytes(24))
    assert load(raw).shape == (2, 3)
    raw = file_of("{'descr': '<f4', 'fortran_order': True, 'shape': ()} \n", bytes(4))
    assert load(raw).shape == ()


def test_views_are_saved_as_they_look():
    a = mx.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)[::-1, :, ::2]
    np.testing.assert_array_equal(np.load(io.BytesIO(saved(a))), np.array(a))


def test_bfloat16_survives_and_is_what_ml_dtypes_writes():
    a = mx.array([0.0, -1.5, float("inf"), 3e38], dtype=mx.bfloat16)
    back = load(saved(a))
    assert back.dtype == mx.bfloat16
    assert back.tolist() == a.tolist()
    file = io.BytesIO()
    np.save(file, np.array([1, 2.5], dtype=ml_dtypes.bfloat16))
    assert load(file.getvalue()).tolist() == [1, 2.5]


def test_the_elements_begin_at_a_multiple_of_64():
    for shape in SHAPES:
        assert saved(mx.zeros(shape, dtype=mx.uint8)).index(b"\n") % 64 == 63


def test_bool_bytes_that_are_not_one_are_true():
    raw = file_of("{'descr': '|b1', 'fortran_order': False, 'shape': (4,)}", bytes([0, 1, 2, 255]))
    assert mx.sum(load(raw)).item() == 3


def test_arrays_behind_each_other_in_one_file_are_read_in_turn(tmp_path):
    with open(tmp_path / "two.npy", "wb") as file:
        mx.save(file, mx.arange(3))
        mx.save(file, mx.array([1.5]))
    with open(tmp_path / "two.npy", "rb") as file:
        assert mx.load(file).tolist() == [0, 1, 2]
        assert mx.load(file).tolist() == [1.5]


def test_large_files_are_read_from_paths_and_from_pipes_of_unknown_length(tmp_path):
    a = mx.arange(1_000_000)
    mx.save(tmp_path / "a.npy", a)
    assert mx.array_equal(mx.load(tmp_path / "a.npy"), a)

    class Pipe(io.RawIOBase):
        data = io.BytesIO((tmp_path / "a.npy").read_bytes())

        def readable(self):
            return True

        def readinto(self, into):
            return self.data.readinto(memoryview(into)[:5000])

    assert mx.array_equal(mx.load(Pipe(), format="npy"), a)


@pytest.mark.parametrize(
    ("a", "words"),
    [
        (np.array(["ab"]), "U2"),
        (np.array([b"ab"]), "S2"),
        (np.array(["2020-01-01"], "datetime64[D]"), "datetime64"),
        (np.zeros(2, [("x", "f4")]), "structured"),
        (np.zeros(2, np.longdouble), "f16"),
        (np.array([None]), "object"),
    ],
)
def test_elements_without_a_dtype_are_refused_by_name(a, words):
    file = io.BytesIO()
    np.save(file, a, allow_pickle=True)
    with pytest.raises(ValueError, match=words):
        load(file.getvalue())


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 'x'}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': 'False', 'shape': [2]}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': True, 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': __import__('os')}",
        "",
        "(" * 1000,
    ],
)
def test_headers_that_are_wrong_are_refused(header):
    with pytest.raises(ValueError, match=r"\[load\]"):
        load(file_of(header, bytes(64)))


@pytest.mark.parametrize("shape", ["(10**9,)", "(9999999999999999999, 0)", "(4294967296, 4294967296)", "(2,)" * 2])
def test_sizes_that_are_only_claimed_cost_no_memory(shape, tmp_path):
    sizes = shape.replace("10**9", str(10**9))
    raw = file_of(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {sizes}}}", bytes(8))
    (tmp_path / "a.npy").write_bytes(raw)
    with little_memory():
        for file in (io.BytesIO(raw), tmp_path / "a.npy"):
            with pytest.raises(ValueError, match=r"truncated|header|large|elements"):
                mx.load(file, format="npy")


def test_other_versions_and_endless_headers_are_refused():
    with pytest.raises(ValueError, match=r"version 9\.0"):
        load(file_of("{}", version=b"\x09\x00"))
    with pytest.raises(ValueError, match="header"):
        load(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 100)
    with pytest.raises(ValueError, match=r"not a \.npy file"):
        load(b"PK\x03\x04 and more")


def test_broken_files_are_read_or_refused():
    for seed, a in enumerate((mx.arange(6.0).reshape(2, 3), mx.zeros((3,), dtype=mx.bool_))):
        sound = saved(a)
        done, refused = survive(read_all("npy"), broken_copies(sound, 1500, seed, 75))
        assert done > 0
        assert refused > 500
