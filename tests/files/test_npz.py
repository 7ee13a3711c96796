"""mx.savez, mx.savez_compressed and mx.load with .npz archives."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest
from fuzz import broken_copies, little_memory, read_all, survive

import mlxc as mx

SAVERS = (mx.savez, mx.savez_compressed)


def load(data: bytes) -> dict[str, mx.array]:
    return mx.load(io.BytesIO(data), format="npz")


def saved(saver, *args: mx.array, **kwargs: mx.array) -> bytes:
    file = io.BytesIO()
    saver(file, *args, **kwargs)
    return file.getvalue()


def archive_of(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def npy_of(a: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, a)
    return file.getvalue()


@pytest.mark.parametrize("saver", SAVERS)
def test_numpy_reads_what_is_saved(saver):
    raw = saved(saver, mx.arange(3), mx.array(1.5), weight=mx.ones((2, 3)), empty=mx.zeros((0, 2)))
    with np.load(io.BytesIO(raw)) as got:
        assert sorted(got) == ["arr_0", "arr_1", "empty", "weight"]
        np.testing.assert_array_equal(got["arr_0"], [0, 1, 2])
        np.testing.assert_array_equal(got["weight"], np.ones((2, 3)))
        assert got["empty"].shape == (0, 2)


@pytest.mark.parametrize("saver", [np.savez, np.savez_compressed])
def test_reads_what_numpy_saves_as_a_plain_dict(saver):
    file = io.BytesIO()
    saver(file, np.arange(3), b=np.asfortranarray(np.ones((2, 3))), c=np.array([1, 2], ">i8"))
    got = load(file.getvalue())
    assert type(got) is dict
    assert got["arr_0"].tolist() == [0, 1, 2]
    assert got["b"].shape == (2, 3) and got["b"].dtype == mx.float64
    assert got["c"].tolist() == [1, 2]


@pytest.mark.parametrize("saver", SAVERS)
def test_every_dtype_survives(saver):
    names = (
        "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
    )
    arrays = {name: mx.array([0, 1, 1]).astype(getattr(mx, name)) for name in names.split()}
    back = load(saved(saver, **arrays))
    assert list(back) == list(arrays)
    for name, a in arrays.items():
        assert back[name].dtype == a.dtype
        assert back[name].tolist() == a.tolist()


def test_the_same_arrays_make_the_same_bytes():
    assert saved(mx.savez, a=mx.ones(3)) == saved(mx.savez, a=mx.ones(3))


def test_compressing_makes_smaller():
    assert len(saved(mx.savez_compressed, mx.zeros(10_000))) * 20 < len(saved(mx.savez, mx.zeros(10_000)))


def test_a_name_given_twice_and_values_that_are_no_arrays_are_refused():
    with pytest.raises(ValueError, match="arr_0"):
        mx.savez(io.BytesIO(), mx.ones(1), arr_0=mx.ones(1))
    with pytest.raises(ValueError, match="zero byte"):
        mx.savez(io.BytesIO(), **{"a\0b": mx.ones(1)})
    with pytest.raises(TypeError, match=r"'x' must be an mlxc\.array, got list"):
        mx.savez(io.BytesIO(), x=[1, 2])


def test_a_bomb_of_zeros_that_claims_more_than_deflate_can_hold_is_refused():
    raw = bytearray(saved(mx.savez_compressed, a=mx.zeros(1000)))
    central = raw.index(b"PK\x01\x02")
    raw[central + 24 : central + 28] = struct.pack("<I", 2**31)
    with little_memory(), pytest.raises(ValueError, match="cannot be"):
        load(bytes(raw))


def test_members_that_overlap_are_refused():
    """Many entries of the directory that point at one piece of data: a small archive that unpacks to a large one."""
    raw = archive_of({"a.npy": npy_of(np.zeros(100_000))}, zipfile.ZIP_DEFLATED)
    start = raw.index(b"PK\x01\x02")
    end = raw.index(b"PK\x05\x06")
    entry = raw[start:end]
    copies = b"".join(entry.replace(b"a.npy", b"%c.npy" % (97 + i)) for i in range(26))
    tail = bytearray(raw[end:])
    tail[8:12] = struct.pack("<HH", 26, 26)
    tail[12:16] = struct.pack("<I", len(copies))
    with pytest.raises(ValueError, match=r"overlap|sound zip"):
        load(raw[:start] + copies + bytes(tail))


def test_a_member_whose_header_claims_more_than_the_member_has_is_refused():
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999,)}"
    raw = archive_of({"a.npy": b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)})
    with little_memory(), pytest.raises(ValueError, match=r"a\.npy.*truncated"):
        load(raw)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"a.txt": b"hello there"}, r"not a \.npy"),
        ({"a.npy": npy_of(np.ones(2)) + b"more"}, "goes on"),
        ({"a": npy_of(np.ones(2)), "a.npy": npy_of(np.ones(2))}, "two members"),
    ],
)
def test_members_that_are_no_arrays_are_refused(members, words):
    with pytest.raises(ValueError, match=words):
        load(archive_of(members))


def test_other_compression_and_no_archive_are_refused():
    with pytest.raises(ValueError, match="stored or deflated"):
        load(archive_of({"a.npy": npy_of(np.ones(2))}, zipfile.ZIP_LZMA))
    with pytest.raises(ValueError, match="zip"):
        load(b"\x93NUMPY and more")


def test_changed_bytes_are_noticed():
    raw = bytearray(saved(mx.savez, a=mx.ones(100)))
    raw[raw.index(b"\x00\x00\x80?") + 8] ^= 1
    with pytest.raises(ValueError, match="sound zip"):
        load(bytes(raw))


@pytest.mark.parametrize("saver", SAVERS)
def test_broken_files_are_read_or_refused(saver):
    sound = saved(saver, mx.arange(3), b=mx.ones((2, 2)))
    done, refused = survive(read_all("npz"), broken_copies(sound, 800, 1, len(sound)))
    assert done > 10
    assert refused > 400
