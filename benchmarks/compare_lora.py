"""A LoRA step of SmolLM2 beside PyTorch, in turns, each peer in a process of its own: time and memory.

    python benchmarks/compare_lora.py                    # torch and transformers in this environment, or
    python benchmarks/compare_lora.py --peer PYTHON      # in that of another interpreter

Rank 8 on queries and values of the last 16 blocks, Adam, batches of made-up ids. Beside the time by the clock stands
that of all cores together. Memory is what a process has at most, less what it has once the weights are loaded:
gradients, activations and the optimizer's state.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAYERS, RANK, SCALE, RATE = 16, 8, 20.0, 1e-4
OURS = ("float32", "packed")


def batch(rows: int, length: int) -> list[list[int]]:
    return [[(37 * i * i + 11 * i + 101 * row) % 40000 for i in range(length + 1)] for row in range(rows)]


class Ours:
    """mlxc, by the functions that users call."""

    def __init__(self, path: str, dtype: str) -> None:
        import mlxc as mx
        from mlxc import nn, optimizers
        from mlxc.models import linear_to_lora_layers, load_model
        from mlxc.models.tune import masked_loss

        self.mx = mx
        self.model = load_model(path, None if dtype == "packed" else mx.float32)
        self.model.freeze()
        linear_to_lora_layers(self.model, LAYERS, {"rank": RANK, "scale": SCALE})
        self.optimizer = optimizers.Adam(RATE)
        self.gradients = nn.value_and_grad(self.model, lambda ids, mask: masked_loss(self.model, ids, mask)[0])
        self.model.train()

    def step(self, ids: list[list[int]]) -> float:
        given = self.mx.array(ids)
        loss, gradients = self.gradients(given, self.mx.ones((len(ids), len(ids[0]) - 1)))
        self.optimizer.update(self.model, gradients)
        self.mx.eval(loss, self.model.trainable_parameters(), self.optimizer.state)
        return loss.item()


class Theirs:
    """transformers on PyTorch, with the same additions written out."""

    def __init__(self, path: str, threads: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        self.torch = torch
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        self.model.requires_grad_(False)

        class Addition(torch.nn.Module):
            def __init__(self, linear: torch.nn.Linear) -> None:
                super().__init__()
                self.linear = linear
                bound = linear.in_features**-0.5
                self.a = torch.nn.Parameter(torch.empty(linear.in_features, RANK).uniform_(-bound, bound))
                self.b = torch.nn.Parameter(torch.zeros(RANK, linear.out_features))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.linear(x) + SCALE * ((x @ self.a) @ self.b)

        trained = []
        for block in self.model.model.layers[-LAYERS:]:
            for name in ("q_proj", "v_proj"):
                layer = Addition(getattr(block.self_attn, name))
                setattr(block.self_attn, name, layer)
                trained += [layer.a, layer.b]
        self.optimizer = torch.optim.Adam(trained, lr=RATE)
        self.model.train()

    def step(self, ids: list[list[int]]) -> float:
        given = self.torch.tensor(ids)
        logits = self.model(given[:, :-1], use_cache=False).logits
        loss = self.torch.nn.functional.cross_entropy(logits.flatten(0, 1), given[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def memory_now() -> int:
    """What the process has in memory now; where the system doesn't tell, what it had at most."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return most_memory()


def most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def serve(kind: str, path: str, dtype: str, threads: int) -> None:
    """A peer's process: one line of JSON for each line it reads, which names rows and length of a batch."""
    peer = Ours(path, dtype) if kind == "mlxc" else Theirs(path, threads)
    loaded = memory_now()
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        ids = batch(*map(int, line.split()))
        begin, cores = time.perf_counter(), time.process_time()
        loss = peer.step(ids)
        said = {"seconds": time.perf_counter() - begin, "cores": time.process_time() - cores, "loss": loss}
        print(json.dumps(said | {"memory": most_memory() - loaded}), flush=True)


class Peer:
    """A process that serves, and what it said so far."""

    def __init__(self, python: str, kind: str, dtype: str, path: str, threads: int) -> None:
        command = [python, __file__, "--serve", kind, "--dtype", dtype, "--threads", str(threads), "--path", path]
        self.name = f"{kind} {dtype}"
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seconds: list[float] = []
        self.cores: list[float] = []
        self.answer()

    def answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.name} ended")
        return json.loads(line)

    def turn(self, rows: int, length: int, count: bool = True) -> None:
        self.process.stdin.write(f"{rows} {length}\n")
        self.process.stdin.flush()
        said = self.answer()
        self.memory, self.loss = said["memory"], said["loss"]
        if count:
            self.seconds.append(said["seconds"])
            self.cores.append(said["cores"])
        time.sleep(0.2)  # threads that wait for work by spinning go to sleep


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare a LoRA step with PyTorch.")
    parser.add_argument("--peer", default=sys.executable, help="the interpreter that has torch and transformers")
    parser.add_argument("--path", help="the GGUF file; SmolLM2 out of its package by default")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--serve", choices=["mlxc", "torch"], help=argparse.SUPPRESS)
    parser.add_argument("--dtype", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.path, options.dtype, options.threads)
    if options.path is None:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
        import packages

        options.path = str(packages.fetch("smollm2"))
    with tempfile.TemporaryDirectory() as folder:
        import mlxc as mx
        from mlxc.models import convert

        convert(options.path, Path(folder) / "m", dequantize=True, dtype=mx.float32)
        peers = [Peer(sys.executable, "mlxc", dtype, options.path, options.threads) for dtype in OURS]
        peers.append(Peer(options.peer, "torch", "float32", str(Path(folder) / "m"), options.threads))
        for turn in range(options.turns + 1):
            for peer in peers:
                peer.turn(options.rows, options.length, count=turn > 0)
        print(f"{options.rows} rows of {options.length} ids; medians of {options.turns} turns")
        print(f"{'':16}{'ms a step':>10}{'of cores':>10}{'ids/s':>8}{'MB a step':>11}{'last loss':>11}")
        for peer in peers:
            seconds = statistics.median(peer.seconds)
            rate = options.rows * options.length / seconds
            cores = 1e3 * statistics.median(peer.cores)
            numbers = f"{1e3 * seconds:10.0f}{cores:10.0f}{rate:8.0f}{peer.memory / 1e6:11.0f}{peer.loss:11.4f}"
            print(f"{peer.name:16}{numbers}")
            peer.process.stdin.close()


if __name__ == "__main__":
    main()
