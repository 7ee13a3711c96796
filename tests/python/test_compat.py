"""mlxc.compat: programs written for MLX run unchanged, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PRINT_MAIN = "import sys, mlx.core as mx\nprint(__name__, sys.argv, mx.arange(3).tolist())\n"


def run(*args: str, folder: Path | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, *args], capture_output=True, text=True, check=False, cwd=folder, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def run_installed(source: str, code: int = 0) -> str:
    return run("-c", f"import mlxc, sys\nfrom mlxc.compat import install\ninstall()\n{source}", code=code).stdout


def run_script(tmp_path: Path, source: str, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(source)
    return run("-m", "mlxc.compat", str(tmp_path / "program.py"), *args, code=code)


def test_names_of_mlx_are_the_modules_of_mlxc():
    run_installed("""
import mlx.core as mx
import mlx.core.random, mlx.core.linalg, mlx.core.metal, mlx.core.cuda, mlx.core.distributed
import mlx.utils
from mlx.core import array
from mlx.utils import tree_map
assert mx is mlxc and mlx.core is mlxc and array is mlxc.array
assert mlx.core.random is mlxc.random and mlx.core.metal is mlxc.metal
assert mlx.utils is mlxc.utils and tree_map is mlxc.utils.tree_map
""")


def test_the_modules_keep_their_own_names():
    run_installed("""
import mlx.core, mlx.core.random, pickle
assert mlxc.__name__ == "mlxc" and mlxc.__spec__.name == "mlxc"
assert mlxc.random.__spec__.name == "mlxc.random"
import mlxc.linalg
assert pickle.loads(pickle.dumps(mlx.core.ones(2))).tolist() == [1, 1]
""")


def test_a_pickle_that_names_mlx_is_read():
    run_installed("import pickle; assert pickle.loads(b'cmlx.core\\nfloat32\\n.') is mlxc.float32")


@pytest.mark.parametrize("name", ["mlx.unheard", "mlx.core.testing", "mlx.core.random.bits", "mlx.data", "mlx.core.nn"])
def test_what_is_not_there_is_an_ordinary_error(name):
    run_installed(f"""
try:
    import {name}
except ModuleNotFoundError as error:
    assert error.name == {name!r} and "No module named" in str(error), error
else:
    raise SystemExit("imported")
""")


def test_the_parts_of_mlx_are_attributes_without_an_import_of_their_own():
    run_installed("""
import mlx.utils
assert mlx.core is mlxc
for name in ("unheard", "data"):
    try:
        getattr(mlx, name)
    except AttributeError as error:
        assert name in str(error)
    else:
        raise SystemExit(name)
""")


def test_packages_that_mlxc_lacks_are_missing_under_both_names():
    run_installed("""
from importlib.util import find_spec
for name in ("nn", "optimizers", "utils", "core.fft", "core.fast"):
    mine = "mlxc." + name.removeprefix("core.")
    assert (find_spec("mlx." + name) is None) == (find_spec(mine) is None), name
""")


def test_installing_twice_does_nothing():
    run_installed("before = list(sys.meta_path); install(); assert sys.meta_path == before; import mlx.core")


def test_a_real_mlx_that_is_imported_already_is_refused(tmp_path):
    (tmp_path / "mlx").mkdir()
    (tmp_path / "mlx" / "core.py").write_text("real = True")
    source = "import mlx.core\nfrom mlxc.compat import install\ninstall()"
    done = run("-c", source, folder=tmp_path, code=1)
    assert "RuntimeError: [compat.install] mlx, mlx.core is imported already, from" in done.stderr


def test_a_real_mlx_that_is_installed_is_hidden(tmp_path):
    (tmp_path / "mlx").mkdir()
    (tmp_path / "mlx" / "core.py").write_text("real = True")
    (tmp_path / "mlx" / "other.py").write_text("real = True")
    source = "from mlxc.compat import install\ninstall()\nimport mlx.core\nprint(mlx.core.__name__)\nimport mlx.other"
    done = run("-c", source, folder=tmp_path, code=1)
    assert done.stdout == "mlxc\n"
    assert "No module named 'mlx.other'" in done.stderr


def test_a_script_is_main_and_sees_its_arguments(tmp_path):
    done = run_script(tmp_path, PRINT_MAIN, "-x", "two words")
    assert done.stdout == f"__main__ {[str(tmp_path / 'program.py'), '-x', 'two words']} [0, 1, 2]\n"


def test_a_script_imports_what_lies_beside_it_and_finds_itself(tmp_path):
    (tmp_path / "beside.py").write_text("import mlx.core as mx\nvalue = mx.ones(2)")
    source = """
import os, sys, pickle, beside
import __main__
class Thing: pass
assert os.path.samefile(__file__, sys.argv[0]) and __main__.Thing is Thing
assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
print(beside.value.tolist(), __spec__, sys.path[0] == os.path.dirname(os.path.realpath(__file__)))
"""
    assert run_script(tmp_path, source).stdout == "[1.0, 1.0] None True\n"


def test_code_modules_folders_and_archives_run_too(tmp_path):
    assert run("-m", "mlxc.compat", "-c", PRINT_MAIN, "a").stdout == "__main__ ['-c', 'a'] [0, 1, 2]\n"
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "__main__.py").write_text("from . import other\n" + PRINT_MAIN)
    (tmp_path / "pack" / "other.py").write_text("import mlx.core")
    main = os.path.realpath(tmp_path / "pack" / "__main__.py")
    done = run("-m", "mlxc.compat", "-m", "pack", "a", folder=tmp_path)
    assert done.stdout == f"__main__ {[main, 'a']} [0, 1, 2]\n"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(PRINT_MAIN)
    done = run("-m", "mlxc.compat", str(tmp_path / "folder"), "a")
    assert done.stdout == f"__main__ {[str(tmp_path / 'folder'), 'a']} [0, 1, 2]\n"


def test_a_traceback_is_that_of_the_script(tmp_path):
    source = "import mlx.core as mx\ndef f():\n    mx.ones((2, 3)) @ mx.ones((2, 3))\nf()\n"
    done = run_script(tmp_path, source, code=1)
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{tmp_path / "program.py"}", line 4, in <module>'
    assert "compat" not in done.stderr and "ValueError" in lines[-1]


def test_errors_of_syntax_statuses_and_hooks_are_those_of_the_script(tmp_path):
    assert run_script(tmp_path, "x = (\n", code=1).stderr.splitlines()[-1].startswith("SyntaxError")
    run_script(tmp_path, "import sys; sys.exit(5)", code=5)
    source = "import sys\nsys.excepthook = lambda kind, value, traceback: print('hook', kind.__name__)\n1 / 0\n"
    assert run_script(tmp_path, source, code=1).stdout == "hook ZeroDivisionError\n"
    run_script(tmp_path, "raise KeyboardInterrupt", code=130)
    done = run_script(tmp_path, "import atexit\nvalue = 3\natexit.register(lambda: print('bye', value))\n")
    assert done.stdout == "bye 3\n"


def test_wrong_calls_say_how_it_is_called(tmp_path):
    for args in ((), ("-m",), ("-c",)):
        assert "python -m mlxc.compat SCRIPT [ARGS]" in run("-m", "mlxc.compat", *args, code=2).stderr
    assert "python -m mlxc.compat SCRIPT [ARGS]" in run("-m", "mlxc.compat", "--help").stdout
    assert "unknown option -q" in run("-m", "mlxc.compat", "-q", code=2).stderr
    missing = str(tmp_path / "none.py")
    assert f"can't open file {missing!r}: [Errno 2]" in run("-m", "mlxc.compat", missing, code=2).stderr
