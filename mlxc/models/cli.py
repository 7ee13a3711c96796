"""python -m mlxc.models: generate, chat, convert, quantize, lora, fuse.

Parses arguments, runs one command, and turns what a user can do wrong into one line and exit status 2. Ctrl-C ends
with status 130. The commands are in cli_text.py, cli_files.py and cli_tune.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import cli_files, cli_text, cli_tune

__all__ = ["main", "make_parser"]

PROGRAM = "python -m mlxc.models"


class Parser(argparse.ArgumentParser):
    """Mistakes are one line; what is possible is behind --help."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands.

    Returns:
        The parser.

    Example:
        >>> from mlxc.models.cli import make_parser
        >>> make_parser().parse_args(["generate", "--model", "m.gguf", "--prompt", "Hi"]).max_tokens
        256
    """
    parser = Parser(prog=PROGRAM, description="Run, convert and tune language models of the Llama family.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for module in (cli_text, cli_files, cli_tune):
        module.add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        arguments: those of the command line; by default sys.argv's.

    Returns:
        The exit status: 0, 2 for what the user has to put right, 130 after Ctrl-C.

    Example:
        >>> from mlxc.models.cli import main
        >>> main(["generate", "--model", "m.gguf", "--prompt", "Hi"])  # doctest: +SKIP
        0
    """
    try:
        options = make_parser().parse_args(arguments)
        options.run(options)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read the output has enough of it
        sys.stderr.close()
        return 0
    except (OSError, ValueError, TypeError, ImportError, MemoryError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        print(f"{PROGRAM}: error: {text}", file=sys.stderr)
        return 2
    return 0
