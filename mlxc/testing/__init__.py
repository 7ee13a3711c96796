"""The conformance kit: judges a backend by the op table.

check_op(op) evaluates an op in every dtype and layout and compares with NumPy and SciPy; check_gradients(op)
compares its derivatives with central differences; check_vmap(op) compares its batching with a loop;
check_compiled(op) compares it inside mx.compile with outside; support_matrix(device) says which kernels there are.
`python -m mlxc.testing --help` runs all of it. Needs NumPy and SciPy.
"""

from .batched_gradients import check_vmap_gradients, needs_vmap_gradient
from .batching import check_vmap, needs_vmap
from .cases import Case, cases_of
from .compiled import check_compiled
from .gradients import check_gradients, needs_gradient
from .guard import find_overrun, guard_is_on
from .matrix import format_matrix, support_matrix
from .run import Failure, Report, check_all, check_op
from .table import Row, read_table
from .timing import Timing, time_ops

__all__ = [
    "Case",
    "Failure",
    "Report",
    "Row",
    "Timing",
    "cases_of",
    "check_all",
    "check_compiled",
    "check_gradients",
    "check_op",
    "check_vmap",
    "check_vmap_gradients",
    "find_overrun",
    "format_matrix",
    "guard_is_on",
    "needs_gradient",
    "needs_vmap",
    "needs_vmap_gradient",
    "read_table",
    "support_matrix",
    "time_ops",
]
