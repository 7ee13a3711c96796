"""Turns guard bytes on before mlxc is imported, so that the kit can see a kernel write out of bounds."""

import os

os.environ.setdefault("MLXC_GUARD", "1")
