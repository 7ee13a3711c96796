"""Fails where a row of the op table and the code disagree. Run by the tests, and by hand after adding an op:

    python tools/check_ops.py [--source-only]

Each row must have: its shape rule, its vjp, jvp and vmap rules (or a reason), its view rule or a CPU
kernel, a Python function with a docstring and an example, a line in the type stubs, and a conformance case. What can be
seen in the source alone is checked first; the rest asks the installed package. Ends with status 1 and one line for each
thing that is missing: the row, and what it lacks.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from opgen.examples import EXAMPLES  # noqa: E402
from opgen.table import PYTHON_PLAIN, Op, read_table  # noqa: E402

TABLE = ROOT / "include/mlxc/ops.toml"
# Ops that Python reaches under another name than their own.
PYTHON_NAMES = {
    "cholesky": "linalg.cholesky",
    "qr": "linalg.qr",
    "lu_factor": "linalg.lu_factor",
    "inverse": "linalg.inv",
    "tri_inverse": "linalg.tri_inv",
    "solve": "linalg.solve",
    "solve_triangular": "linalg.solve_triangular",
    "det": "linalg.det",
    "slogdet": "linalg.slogdet",
    "cofactor": "linalg.det",  # by its gradient
    "eigh": "linalg.eigh",
    "eigvalsh": "linalg.eigvalsh",
    "eig": "linalg.eig",
    "eigvals": "linalg.eigvals",
    "svd": "linalg.svd",
    "svdvals": "linalg.svdvals",
    "pinv": "linalg.pinv",
    "bitcast": "view",
    "conv": "conv_general",
    "custom": "custom_function",
    "gather": "take",
    "scatter": "slice_update",
    "gather_axis": "take_along_axis",
    "scatter_axis": "put_along_axis",
    "random_bits": "random.bits",
    "call_program": "compile",
    "user_kernel": "fast.kernel",
    "quantize_dequantize": "qqmm",
    **{name: f"fft.{name}" for name in ("fft", "rfft", "irfft")},
    **{name: f"fast.{name}" for name in ("rms_norm", "layer_norm", "rope", "scaled_dot_product_attention",
                                         "cross_entropy")},
    "rms_norm_grad": "fast.rms_norm",
    "layer_norm_grad": "fast.layer_norm",
    "attention_grad": "fast.scaled_dot_product_attention",
    "cross_entropy_grad": "fast.cross_entropy",
    "gated_delta": "fast.gated_delta_update",
}


def read_sources(folder: str, pattern: str = "**/*.cc") -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).glob(pattern)))


def python_name(op: Op) -> str:
    return PYTHON_NAMES.get(op.name, op.name)


def stub_names(path: Path) -> set[str]:
    """The names that a stub file defines or re-exports."""
    names: set[str] = set()
    if path.exists():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
            elif isinstance(node, ast.Assign):
                names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names


class Checker:
    def __init__(self) -> None:
        self.rules = read_sources("core")
        self.stubs = stub_names(ROOT / "mlxc/__init__.pyi")
        for path in (ROOT / "mlxc").glob("[a-z]*.pyi"):
            self.stubs |= {f"{path.stem}.{name}" for name in stub_names(path)}
        self.complaints: list[str] = []

    def need(self, op: Op, there: object, what: str) -> None:
        if not there:
            self.complaints.append(f"[{op.name}] lacks {what}")

    def has_rule(self, name: str) -> bool:
        return re.search(rf"\b{name}\b\s*\(", self.rules) is not None

    def check_source(self, op: Op) -> None:
        if op.core_run:
            self.need(op, self.has_rule(f"run_{op.run}"), f"its rule run_{op.run} in core/")
        else:
            self.need(op, self.has_rule(f"infer_{op.shape}"), f"its shape rule infer_{op.shape} in core/")
        for which in ("vjp", "jvp", "vmap"):
            rule = getattr(op, which)
            if op.has_rule(which):
                self.need(op, self.has_rule(f"{which}_{rule}"), f"its rule {which}_{rule} in core/")
        if op.view:
            rule = f"view_{op.shape if op.shape != 'same' else op.name}"
            self.need(op, self.has_rule(rule), f"its rule {rule} in core/")
        if op.python in PYTHON_PLAIN:
            self.need(op, op.name in EXAMPLES, "an example in tools/opgen/examples.py")
        name = python_name(op)
        self.need(op, name in self.stubs, f"the name {name} in the stubs mlxc/*.pyi")

    def check_package(self, op: Op) -> None:
        import mlxc as mx
        from mlxc import testing

        function = mx
        for part in python_name(op).split("."):
            function = getattr(function, part, None)
        self.need(op, function is not None, f"its Python function mlxc.{python_name(op)}")
        text = getattr(function, "__doc__", None) or ""
        self.need(op, text.strip(), f"a docstring of mlxc.{python_name(op)}")
        self.need(op, ">>> " in text, f"an example in the docstring of mlxc.{python_name(op)}")
        try:
            testing.cases_of(op.name)
        except LookupError as error:
            self.need(op, False, f"a conformance case in mlxc/testing ({error.args[0]})")
        support = testing.support_matrix("cpu").get(op.name, {})
        missing = [dtype for dtype, entry in support.items() if entry == "missing"]
        if op.dtype in ("float", "promote_float"):
            # The core casts integers and booleans before a kernel sees them.
            missing = [dtype for dtype in missing if dtype.startswith(("float", "bfloat", "complex"))]
        self.need(op, not missing, f"a kernel of the CPU backend for {', '.join(missing)}")


def main(argv: list[str]) -> int:
    unknown = [arg for arg in argv if arg != "--source-only"]
    if unknown:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        ops = read_table(TABLE)
    except ValueError as error:
        print(error)
        return 1
    checker = Checker()
    for op in ops:
        checker.check_source(op)
        if "--source-only" not in argv:
            checker.check_package(op)
    for complaint in checker.complaints:
        print(complaint)
    print(f"{len(ops)} ops, {len(checker.complaints)} complaints")
    return 1 if checker.complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
