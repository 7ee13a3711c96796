"""Sphinx's settings for the reference. tools/build_reference.py copies this folder and adds the pages.

Docstrings of this project are plain text with `code` in single backquotes; the hook below turns that into what Sphinx
reads, so that whoever writes a docstring need not know reStructuredText.
"""

from __future__ import annotations

import re
from typing import Any

import mlxc

project = "mlxc"
copyright = "the authors of mlxc"
version = release = mlxc.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser"]
exclude_patterns = ["README.md"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Arrays, transforms and neural networks on plug-in backends",
    "page_width": "1100px",
}
html_copy_source = html_show_sourcelink = False
add_module_names = False
autodoc_typehints = "none"
napoleon_use_rtype = False
suppress_warnings = ["myst.header"]

CODE = re.compile(r"(``.+?``|`[^`]+`)")
SPECIAL = re.compile(r"(?<!\\)([*|]|_(?=\W|$))")


def convert_line(line: str) -> str:
    """Code in single backquotes becomes literal; characters that would be markup elsewhere are escaped."""
    parts = CODE.split(line)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = SPECIAL.sub(r"\\\1", part)
        elif not part.startswith("``"):
            parts[i] = f"`{part}`"
    return "".join(parts)


def convert_docstring(*event: Any) -> None:
    """Changes the lines, the last argument; leaves examples, from >>> to an empty line, as they are."""
    lines: list[str] = event[-1]
    in_example = False
    for i, line in enumerate(lines):
        in_example = (in_example and bool(line.strip())) or line.lstrip().startswith(">>>")
        if not in_example:
            lines[i] = convert_line(line)


def setup(app: Any) -> None:
    # Before napoleon, which listens with priority 500.
    app.connect("autodoc-process-docstring", convert_docstring, priority=400)
