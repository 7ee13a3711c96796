"""Generates from ops.toml what is mechanical. Run by meson:

    gen_ops.py ops.toml KIND OUTPUT

KIND is one of header, table, params, c_functions, cxx_functions, cython_decls, cython_wrappers, cython_prims,
cython_prim_decls, docs.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from opgen import c_header, core, python
from opgen.table import read_table

WRITERS = {
    "header": c_header.write_header,
    "table": core.write_table,
    "params": core.write_params,
    "c_functions": core.write_c_functions,
    "cxx_functions": core.write_cxx_functions,
    "cython_decls": python.write_declarations,
    "cython_wrappers": python.write_wrappers,
    "cython_prims": python.write_prims,
    "cython_prim_decls": python.write_prim_declarations,
    "docs": python.write_docs,
}


def main(argv: list[str]) -> int:
    if len(argv) != 3 or argv[1] not in WRITERS:
        print(__doc__, file=sys.stderr)
        return 2
    table, kind, output = argv
    Path(output).write_text(WRITERS[kind](read_table(table)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
