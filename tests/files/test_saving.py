"""What all formats share: names of files, file objects, and that a failed save leaves the old file."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import pytest

import mlxc as mx


def save_dict(path, array) -> None:
    mx.save_safetensors(path, {"x": array})


def save_gguf(path, array) -> None:
    mx.save_gguf(path, {"x": array})


SAVERS = {".npy": mx.save, ".npz": mx.savez, ".safetensors": save_dict, ".gguf": save_gguf}
SAVER_ITEMS = sorted(SAVERS.items())


@pytest.mark.parametrize(("extension", "saver"), SAVER_ITEMS)
def test_paths_get_the_extension_that_they_lack(extension, saver, tmp_path):
    for name in ("bare", "two.dots", f"whole{extension}"):
        for kind in (str, Path, os.fsencode):
            saver(kind(str(tmp_path / name)), mx.ones(2))
            found = os.listdir(tmp_path)
            assert found == [name if name.endswith(extension) else name + extension]
            os.unlink(tmp_path / found[0])


@pytest.mark.parametrize(("extension", "saver"), SAVER_ITEMS)
def test_arrays_that_fail_to_evaluate_leave_the_old_file(extension, saver, tmp_path):
    path = tmp_path / f"a{extension}"
    saver(path, mx.ones(2))
    before = path.read_bytes()
    with pytest.raises(IndexError):
        saver(path, mx.take(mx.ones(3), mx.array(5)))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(("extension", "saver"), SAVER_ITEMS)
def test_an_error_while_writing_leaves_the_old_file_and_no_other(extension, saver, tmp_path, monkeypatch):
    path = tmp_path / f"a{extension}"
    saver(path, mx.ones(2))
    before = path.read_bytes()

    def fail(handle):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        saver(path, mx.zeros(2))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_a_replaced_file_keeps_its_mode_and_links_stay_links(tmp_path):
    real, link = tmp_path / "real.npy", tmp_path / "link.npy"
    mx.save(real, mx.ones(2))
    real.chmod(0o640)
    link.symlink_to(real)
    mx.save(link, mx.zeros(3))
    assert link.is_symlink()
    assert mx.load(real).shape == (3,)
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_new_file_has_the_mode_that_any_new_file_has(tmp_path):
    mx.save(tmp_path / "a.npy", mx.ones(2))
    (tmp_path / "b").write_bytes(b"")
    assert (tmp_path / "a.npy").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_what_is_no_regular_file_is_written_to_in_place(tmp_path):
    os.mkfifo(tmp_path / "p.npy")
    reader = os.open(tmp_path / "p.npy", os.O_RDONLY | os.O_NONBLOCK)
    try:
        mx.save(tmp_path / "p.npy", mx.arange(3))
        assert os.read(reader, 1000)[:6] == b"\x93NUMPY"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "p.npy").stat().st_mode)


@pytest.mark.parametrize(("extension", "saver"), SAVER_ITEMS)
def test_raw_files_that_take_a_part_at_a_time_get_all(extension, saver):
    class Raw(io.RawIOBase):
        def __init__(self):
            super().__init__()
            self.data = io.BytesIO()

        def writable(self):
            return True

        def write(self, data):
            return self.data.write(memoryview(data)[:1000])

    raw = Raw()
    saver(raw, mx.arange(5000))
    assert not raw.closed
    raw.data.seek(0)
    back = mx.load(raw.data, format=extension[1:])
    back = next(iter(back.values())) if isinstance(back, dict) else back
    assert mx.array_equal(back, mx.arange(5000))


def test_files_that_cannot_be_opened_are_os_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        mx.save(tmp_path / "no" / "such.npy", mx.ones(2))
    for extension, saver in SAVERS.items():
        with pytest.raises(FileNotFoundError):
            mx.load(tmp_path / f"none{extension}")
        (tmp_path / f"d{extension}").mkdir()
        with pytest.raises(IsADirectoryError):
            mx.load(tmp_path / f"d{extension}")
        with pytest.raises(IsADirectoryError):
            saver(tmp_path / f"d{extension}", mx.ones(2))


def test_a_folder_that_does_not_exist_is_told_with_the_file_that_was_asked_for(tmp_path):
    path = str(tmp_path / "no" / "x.npz")
    with pytest.raises(FileNotFoundError) as raised:
        mx.savez(path, a=mx.ones(2))
    assert raised.value.filename == path and ".tmp" not in str(raised.value)


def test_a_pipe_without_a_writer_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "p.npy")
    with pytest.raises(OSError, match="regular file"):
        mx.load(tmp_path / "p.npy")


@pytest.mark.parametrize("extension", SAVERS)
def test_empty_files_are_refused(extension, tmp_path):
    (tmp_path / f"a{extension}").write_bytes(b"")
    with pytest.raises(ValueError, match=r"\[load\]"):
        mx.load(tmp_path / f"a{extension}")


def test_the_format_comes_from_the_extension_or_the_argument(tmp_path):
    mx.save(tmp_path / "a.npy", mx.ones(2))
    os.rename(tmp_path / "a.npy", tmp_path / "A.NPY")
    assert mx.load(tmp_path / "A.NPY").shape == (2,)
    os.rename(tmp_path / "A.NPY", tmp_path / "plain")
    assert mx.load(tmp_path / "plain", format="npy").shape == (2,)
    for file in (tmp_path / "plain", io.BytesIO()):
        with pytest.raises(ValueError, match="extension"):
            mx.load(file)
    with pytest.raises(ValueError, match="'txt' is not known"):
        mx.load(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="zip"):
        mx.load(tmp_path / "plain", format="npz")


def test_metadata_are_refused_where_a_format_has_none(tmp_path):
    for extension in (".npy", ".npz"):
        SAVERS[extension](tmp_path / "a", mx.ones(2))
        with pytest.raises(ValueError, match="no metadata"):
            mx.load(tmp_path / f"a{extension}", return_metadata=True)


def test_what_is_no_file_and_what_is_no_array_is_a_type_error():
    for call in (lambda: mx.load(3, format="npy"), lambda: mx.save(3, mx.ones(2))):
        with pytest.raises(TypeError, match=r"a path or a file object"):
            call()
    for wrong in ([1, 2], 1.0, None):
        with pytest.raises(TypeError, match=r"must be an mlxc\.array"):
            mx.save(io.BytesIO(), wrong)
    with pytest.raises(TypeError, match="binary"):
        mx.load(io.StringIO("text"), format="npy")
    with pytest.raises(TypeError, match="binary"):
        mx.load(io.StringIO("text"), format="safetensors")


def test_a_stream_is_checked_and_used(tmp_path):
    mx.save(tmp_path / "a.npy", mx.ones(2))
    assert mx.load(tmp_path / "a.npy", stream=mx.cpu).shape == (2,)
    with pytest.raises(TypeError, match="stream"):
        mx.load(tmp_path / "a.npy", stream="cpu")
