"""Judges a backend:  python -m mlxc.testing [--backend FILE] [--device cpu|gpu] [--ops OP ...]

Checks every op in every dtype and layout, its gradients and its batching; prints what is wrong and ends with
status 1 if anything is. --matrix prints which kernels the device has, --timing the time of large cases.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

SHOWN_PER_OP = 5


def read_options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mlxc.testing", description=__doc__.split("\n\n")[1])
    parser.add_argument("--backend", type=Path, help="a backend library to load besides the package's own")
    parser.add_argument("--device", choices=("cpu", "gpu"), help="the device to judge (the default one)")
    parser.add_argument("--ops", nargs="+", metavar="OP", help="only these ops")
    parser.add_argument("--dtypes", nargs="+", metavar="DTYPE", help="only these dtypes")
    parser.add_argument("--no-gradients", action="store_true", help="leave the gradients out")
    parser.add_argument("--no-vmap", action="store_true", help="leave the batching out")
    parser.add_argument("--all-failures", action="store_true", help=f"print more than {SHOWN_PER_OP} an op")
    parser.add_argument("--matrix", action="store_true", help="print the support matrix and nothing else")
    parser.add_argument("--timing", action="store_true", help="time the large cases and nothing else")
    return parser.parse_args(argv)


def start_again_with_settings(options: argparse.Namespace) -> int | None:
    """libmlxc reads its settings once, before this module runs: a child process gets those it lacks."""
    settings: dict[str, str] = {}
    if "MLXC_GUARD" not in os.environ and not options.timing:
        settings["MLXC_GUARD"] = "1"
    if options.backend:
        path = str(options.backend.resolve())
        if not options.backend.is_file():
            print(f"no such file: {path}", file=sys.stderr)
            return 2
        known = os.environ.get("MLXC_BACKEND_PATH", "")
        if path not in known.split(os.pathsep):
            settings["MLXC_BACKEND_PATH"] = os.pathsep.join(filter(None, [path, known]))
    if not settings:
        return None
    command = [sys.executable, "-m", "mlxc.testing", *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, **settings}, check=False).returncode


def main() -> int:
    options = read_options(sys.argv[1:])
    status = start_again_with_settings(options)
    if status is not None:
        return status

    import mlxc as mx
    from mlxc import testing

    if options.device:
        mx.set_default_device(mx.gpu if options.device == "gpu" else mx.cpu)
    device = "gpu" if mx.default_device() == mx.Device(mx.gpu) else "cpu"
    table = testing.read_table()
    ops = options.ops or list(table)
    unknown = [op for op in ops if op not in table]
    if unknown:
        print(f"no such op: {', '.join(unknown)}", file=sys.stderr)
        return 2
    if options.matrix:
        print(testing.format_matrix({op: row for op, row in testing.support_matrix(device).items() if op in ops}))
        return 0
    if options.timing:
        print_timings(testing.time_ops(ops))
        return 0
    return check_ops(ops, options)


def check_ops(ops: list[str], options: argparse.Namespace) -> int:
    from mlxc import testing

    checks, failures, started = 0, 0, time.perf_counter()
    for op in ops:
        reports = [testing.check_op(op, options.dtypes)]
        if testing.needs_gradient(op) and not options.no_gradients and not options.dtypes:
            reports.append(testing.check_gradients(op))
        if testing.needs_vmap(op) and not options.no_vmap and not options.dtypes:
            reports.append(testing.check_vmap(op))
            if testing.needs_vmap_gradient(op) and not options.no_gradients:
                reports.append(testing.check_vmap_gradients(op))
        if not options.dtypes:
            reports.append(testing.check_compiled(op))
        wrong = [failure for report in reports for failure in report.failures]
        done = sum(report.checks for report in reports)
        print(f"{op:<16} {done:6} checks   {'ok' if not wrong else f'{len(wrong)} FAILED'}", flush=True)
        shown = wrong if options.all_failures else wrong[:SHOWN_PER_OP]
        for failure in shown:
            print(f"    {failure}")
        if len(shown) < len(wrong):
            print(f"    ... and {len(wrong) - len(shown)} more")
        checks += done
        failures += len(wrong)
    print(f"{checks} checks of {len(ops)} ops in {time.perf_counter() - started:.0f} s, {failures} failed")
    return 1 if failures else 0


def print_timings(timings) -> None:
    print(f"{'op':<16} {'case':<16} {'dtype':<10} {'ms':>9} {'NumPy ms':>9} {'ratio':>6}")
    for t in timings:
        line = f"{t.op:<16} {t.case:<16} {t.dtype:<10} {t.seconds * 1e3:9.3f}"
        if t.numpy_seconds:
            line += f" {t.numpy_seconds * 1e3:9.3f} {t.seconds / t.numpy_seconds:6.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
