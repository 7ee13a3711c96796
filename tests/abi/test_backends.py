"""The loader's rules, and what the core does with backends of many kinds.

Each test runs a C program in a process of its own, with MLXC_BACKEND_PATH naming the backend libraries, for
backends are loaded once a process. programs/loader.c and programs/far_scenarios.c say what is checked.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import mlxc

# The fault of broken_backend.c, and words of the message that refuses it.
REFUSED = {
    "NEWER_MINOR": ["1.7", "1.0"],
    "OTHER_MAJOR": ["2.0", "1.0"],
    "ENTRY_FAILS": ["the driver is asleep"],
    "NO_ENTRY": ["mlxc_backend_entry"],
    "NULL_TABLE": ["table"],
    "ZERO_SIZE": ["struct_size"],
    "NO_NAME": ["name"],
    "NO_ALLOC": ["alloc"],
    "ROW_WITHOUT_RUN": ["run"],
    "ROW_SIZE_ZERO": ["kernel"],
}


@pytest.fixture
def loader(build_program):
    return build_program("loader.c")


# ---- loading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", REFUSED)
def test_faulty_backend_is_refused_with_its_file_name_and_the_reason(loader, build_backend, run_program, fault):
    path = build_backend("broken", fault)
    run_program(loader, "refused", path, path, *REFUSED[fault], MLXC_BACKEND_PATH=path)


@pytest.mark.parametrize("content", [b"", b"not a library", b"\x7fELF" + bytes(60)])
def test_garbage_file_is_refused_with_the_systems_words(loader, run_program, tmp_path, content):
    path = tmp_path / "garbage.so"
    path.write_bytes(content)
    run_program(loader, "refused", path, path, MLXC_BACKEND_PATH=path)


def test_truncated_library_is_refused(loader, build_backend, run_program, tmp_path):
    path = tmp_path / "half.so"
    whole = build_backend("null").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    run_program(loader, "refused", path, path, MLXC_BACKEND_PATH=path)


def test_missing_file_is_refused(loader, run_program, tmp_path):
    path = tmp_path / "missing.so"
    run_program(loader, "refused", path, path, "No such file", MLXC_BACKEND_PATH=path)


def test_relative_path_is_refused_even_where_the_file_exists(loader, build_backend, run_program, tmp_path, monkeypatch):
    shutil.copy(build_backend("null"), tmp_path / "libmlxc_null.so")
    monkeypatch.chdir(tmp_path)
    run_program(loader, "refused", "libmlxc_null.so", "absolute", MLXC_BACKEND_PATH="libmlxc_null.so")
    run_program(loader, "refused", "./libmlxc_null.so", "absolute", MLXC_BACKEND_PATH="./libmlxc_null.so")


def test_current_folder_is_never_searched(loader, run_program, tmp_path, monkeypatch):
    (tmp_path / "libmlxc_cpu.so").write_bytes(b"a trap")
    (tmp_path / "libmlxc_cuda.so").write_bytes(b"a trap")
    monkeypatch.chdir(tmp_path)
    run_program(loader, "gpu", "none")


def test_several_paths_are_each_tried(loader, build_backend, run_program, tmp_path):
    missing = tmp_path / "missing.so"
    paths = f"{missing}:{build_backend('null')}:{build_backend('far')}"
    run_program(loader, "refused", missing, MLXC_BACKEND_PATH=paths)
    run_program(loader, "loaded", build_backend("null"), MLXC_BACKEND_PATH=paths)
    run_program(loader, "gpu", "far", MLXC_BACKEND_PATH=paths)


def test_backend_without_a_device_says_why_and_is_not_used(loader, build_backend, run_program):
    path = build_backend("null")
    run_program(loader, "reason", path, "NULL_DEVICES=1", MLXC_BACKEND_PATH=path)
    run_program(loader, "gpu", "none", MLXC_BACKEND_PATH=path)


def test_mlxc_backend_chooses_among_gpu_backends(loader, build_backend, run_program):
    settings = {"MLXC_BACKEND_PATH": f"{build_backend('null')}:{build_backend('far')}", "NULL_DEVICES": 1}
    run_program(loader, "gpu", "null", **settings)
    run_program(loader, "gpu", "far", MLXC_BACKEND="far", **settings)
    run_program(loader, "gpu", "null", MLXC_BACKEND="null", **settings)


def test_backend_can_be_loaded_later(loader, build_backend, run_program, tmp_path):
    run_program(loader, "add", build_backend("far"))
    run_program(loader, "add", tmp_path / "missing.so", "No such file")
    run_program(loader, "add", build_backend("broken", "OTHER_MAJOR"), "2.0", "1.0")


def test_older_minor_with_shorter_structs_loads_and_works(loader, build_backend, run_program):
    path = build_backend("older")
    run_program(loader, "loaded", path, MLXC_BACKEND_PATH=path)
    run_program(loader, "gpu", "older", MLXC_BACKEND_PATH=path)
    run_program(loader, "adds", MLXC_BACKEND_PATH=path, MLXC_FALLBACK="allow")


def test_backend_without_kernels_computes_by_fallback(loader, build_backend, run_program):
    run_program(loader, "adds", MLXC_BACKEND_PATH=build_backend("null"), NULL_DEVICES=1, MLXC_FALLBACK="allow")


# ---- a damaged installation: a copy of the package's libraries ------------------------------------


@pytest.fixture
def moved(build_program, tmp_path):
    """A copy of libmlxc's folder and the loader program that uses it."""
    library = Path(mlxc.get_library())
    shutil.copytree(library.parent, tmp_path / "lib", symlinks=True)

    def settings(**more: object) -> dict[str, object]:
        return {"LD_LIBRARY_PATH": tmp_path / "lib", "LD_PRELOAD": tmp_path / "lib" / library.name, **more}

    return tmp_path / "lib", settings


def cpu_library(folder: Path) -> Path:
    (path,) = folder.glob("libmlxc_cpu.*")
    return path


@pytest.mark.parametrize("content", [None, b"", b"not a library"])
def test_without_its_cpu_backend_the_library_loads_and_ops_say_what_is_wrong(loader, run_program, moved, content):
    folder, settings = moved
    path = cpu_library(folder)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    run_program(loader, "no_cpu", **settings())


def test_broken_gpu_library_beside_the_core_leaves_the_cpu_working(loader, run_program, moved):
    folder, settings = moved
    path = folder / "libmlxc_cuda.so"
    path.write_bytes(b"killed")
    run_program(loader, "refused", path, path, **settings())


# ---- element-wise programs ---------------------------------------------------------------------------


def test_programs_give_the_bits_of_their_kernels(build_program, run_program):
    (library,) = Path(mlxc.get_library()).parent.glob("libmlxc_cpu.*")
    assert "bit for bit" in run_program(build_program("element_programs.cc"), library).stdout


# ---- a device whose memory the host cannot touch, and which runs late -----------------------------

SCENARIOS = {
    "copies": {},
    "layouts": {},
    "ordering": {},
    "decomposed": {"MLXC_FALLBACK": "error"},
    "partial": {},
    "gradient": {},
    "backlog": {},
    "overlap": {"FAR_DELAY_US": 20000},
    "memory": {"FAR_ALLOC_LIMIT": 1 << 20},
    "poison": {"FAR_FAIL_OP": 3},
    "devices": {"FAR_DEVICES": 2},
}


@pytest.mark.parametrize("pause", [0, 1])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_far_device(build_program, build_backend, run_program, scenario, pause):
    settings = {"MLXC_BACKEND_PATH": build_backend("far"), "FAR_PAUSE": pause, **SCENARIOS[scenario]}
    run_program(build_program("far_scenarios.c"), scenario, **settings)


@pytest.mark.parametrize("policy", ["error", "warn", "allow"])
def test_missing_kernel_follows_the_fallback_policy(build_program, build_backend, run_program, policy):
    settings = {"MLXC_BACKEND_PATH": build_backend("far"), "MLXC_FALLBACK": policy}
    run_program(build_program("far_scenarios.c"), "fallback", policy, **settings)


@pytest.mark.parametrize("number", range(1, 12))
def test_failure_of_any_kernel_is_survived(build_program, build_backend, run_program, number):
    """Whichever kernel of a gradient fails, the program sees that error and no other, and no crash."""
    settings = {"MLXC_BACKEND_PATH": build_backend("far"), "FAR_FAIL_OP": number}
    result = run_program(build_program("far_scenarios.c"), "gradient", check=False, **settings)
    assert result.returncode in (0, 1), result.stderr
    if result.returncode == 1:
        assert "failed on purpose" in result.stderr
