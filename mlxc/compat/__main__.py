"""python -m mlxc.compat: runs a program that was written for MLX, as Python itself would, with mlxc as its `mlx`.

    python -m mlxc.compat SCRIPT [ARGS]
    python -m mlxc.compat -m MODULE [ARGS]
    python -m mlxc.compat -c CODE [ARGS]

The program is `__main__`, sees its own sys.argv and sys.path, and its tracebacks begin with its own lines.
"""

from __future__ import annotations

import io
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType

from mlxc.compat import install


def run_as_main(source: str | bytes, path: str | None) -> None:
    """Runs a program in a new module `__main__`, which stays there for what runs at exit."""
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    if path is not None:
        main.__file__ = path
        main.__loader__ = SourceFileLoader("__main__", path)
        main.__dict__["__cached__"] = None
    sys.modules["__main__"] = main
    exec(compile(source, path or "<string>", "exec", dont_inherit=True), main.__dict__)


def replace_first_path(folder: str) -> None:
    """Python puts the program's folder first; here the folder of `python -m` is first."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def run_script(path: str) -> None:
    if os.path.isdir(path) or (not path.endswith((".py", ".pyw")) and is_archive(path)):
        del sys.path[0]
        runpy.run_path(path, run_name="__main__")
        return
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        print(f"mlxc.compat: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        raise SystemExit(2) from None
    replace_first_path(os.path.dirname(os.path.realpath(path)))
    run_as_main(source, path)


def is_archive(path: str) -> bool:
    import zipfile

    return os.path.isfile(path) and zipfile.is_zipfile(path)


def cut_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this file at its beginning, and of runpy above it."""
    cut = traceback
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == __file__:
            cut = traceback.tb_next
        traceback = traceback.tb_next
    return cut


def run(argv: list[str]) -> None:
    """Runs what the arguments say."""
    kind, rest = (argv[0], argv[1:]) if argv[0] in ("-m", "-c") else ("", argv)
    sys.argv = [kind or rest[0], *rest[1:]]
    if kind == "-m":
        replace_first_path(os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        replace_first_path("")
        run_as_main(rest[0], None)
    else:
        run_script(rest[0])


def main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help") or (argv[0] in ("-m", "-c") and len(argv) < 2):
        print(__doc__, file=sys.stderr if not argv or argv[0] in ("-m", "-c") else sys.stdout)
        return 0 if argv and argv[0] in ("-h", "--help") else 2
    if argv[0].startswith("-") and argv[0] not in ("-m", "-c"):
        print(f"mlxc.compat: unknown option {argv[0]}; options are -m and -c", file=sys.stderr)
        return 2
    install()
    try:
        run(argv)
    except SystemExit:
        raise
    except BaseException as error:
        cut = cut_own_frames(error.__traceback__)
        if cut is None and not isinstance(error, SyntaxError):
            raise
        # As Python does for what nobody catches, with the hook that the program may have set.
        sys.excepthook(type(error), error.with_traceback(cut), cut)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
