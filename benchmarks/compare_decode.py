"""Tokens per second of SmolLM2 beside transformers on PyTorch, in turns, each peer in a process of its own.

    python benchmarks/compare_decode.py                    # torch and transformers in this environment, or
    python benchmarks/compare_decode.py --peer PYTHON      # in that of another interpreter

For float32, float16 and the packed weights: processing a prompt of 512 tokens, and making tokens one by one. Beside
the rate stands the part of the memory's bandwidth that it comes to: bytes of weights a token over what a copy moves.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

PROMPT = [33, 28, 216, 34, 28, 216, 35, 28, 216, 36, 28, 216, 37, 28, 216, 38, 28]
LONG = [(37 * i * i + 11 * i) % 40000 for i in range(512)]
OURS = ("float32", "float16", "packed")
THEIRS = ("float32", "float16", "bfloat16")


class Ours:
    """mlxc, by the functions that users call."""

    def __init__(self, path: str, dtype: str) -> None:
        import mlxc as mx
        from mlxc.models import generate_tokens, load_model

        self.model = load_model(path, None if dtype == "packed" else getattr(mx, dtype))
        self.tokens = generate_tokens

    def generate(self, prompt: list[int], count: int) -> list[float]:
        """When each token came."""
        times = [time.perf_counter()]
        for _ in self.tokens(self.model, [prompt], max_tokens=count):
            times.append(time.perf_counter())
        return times

    def bytes_per_token(self) -> int:
        from mlxc.utils import tree_flatten

        return sum(array.nbytes for _, array in tree_flatten(self.model.parameters()))


class Theirs:
    """transformers on PyTorch, without the overhead of its generate()."""

    def __init__(self, path: str, dtype: str, threads: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        self.torch = torch
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype)).eval()

    def generate(self, prompt: list[int], count: int) -> list[float]:
        times = [time.perf_counter()]
        given, past = self.torch.tensor([prompt]), None
        with self.torch.inference_mode():
            for _ in range(count):
                out = self.model(given, past_key_values=past, use_cache=True, logits_to_keep=1)
                past, given = out.past_key_values, out.logits[:, -1:].argmax(-1)
                given.item()
                times.append(time.perf_counter())
        return times

    def bytes_per_token(self) -> int:
        return sum(weight.numel() * weight.element_size() for weight in self.model.parameters())


def serve(kind: str, path: str, dtype: str, threads: int) -> None:
    """A peer's process: one line of JSON for each line it reads."""
    peer = Ours(path, dtype) if kind == "mlxc" else Theirs(path, dtype, threads)
    peer.generate(PROMPT, 4)
    print(json.dumps({"bytes": peer.bytes_per_token()}), flush=True)
    for line in sys.stdin:
        prompt, count = (PROMPT, int(line)) if line.strip() != "long" else (LONG, 1)
        times = peer.generate(prompt, count)
        print(json.dumps({"first": times[1] - times[0], "rest": times[-1] - times[1]}), flush=True)


def write_folder(path: str, folder: str) -> None:
    """The weights in float32 as a Hugging Face folder, which every program reads."""
    import mlxc as mx
    from mlxc.models import load_model
    from mlxc.utils import tree_flatten

    model = load_model(path, mx.float32)
    config = model.config
    values = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "max_position_embeddings": config.context_length,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tie_word_embeddings,
        "dtype": "float32",
    }
    Path(folder, "config.json").write_text(json.dumps(values))
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(Path(folder, "model.safetensors")), weights, {"format": "pt"})


class Peer:
    """A process that serves, and what it said so far."""

    def __init__(self, python: str, kind: str, dtype: str, path: str, threads: int) -> None:
        command = [python, __file__, "--serve", kind, "--dtype", dtype, "--threads", str(threads), "--path", path]
        self.name = f"{kind} {dtype}"
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.bytes = self.answer()["bytes"]
        self.decode: list[float] = []
        self.prompt: list[float] = []

    def answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.name} ended")
        return json.loads(line)

    def ask(self, line: str) -> dict:
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.answer()

    def turn(self, count: int) -> None:
        self.decode.append((count - 1) / self.ask(str(count))["rest"])
        self.prompt.append(len(LONG) / self.ask("long")["first"])
        time.sleep(0.3)  # threads that wait for work by spinning go to sleep


def copy_bandwidth() -> float:
    """Bytes per second that a copy in memory reads and writes, on one core times the best of five."""
    source = np.ones(1 << 26, dtype=np.float32)
    target = np.empty_like(source)
    best = min(timed(lambda: np.copyto(target, source)) for _ in range(5))
    return 2 * source.nbytes / best


def timed(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the speed of text generation with PyTorch.")
    parser.add_argument("--peer", default=sys.executable, help="the interpreter that has torch and transformers")
    parser.add_argument("--path", help="the GGUF file; SmolLM2 out of its package by default")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ours", nargs="*", choices=OURS, default=OURS)
    parser.add_argument("--theirs", nargs="*", choices=THEIRS, default=THEIRS)
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
        peers = [Peer(sys.executable, "mlxc", dtype, options.path, options.threads) for dtype in options.ours]
        if options.theirs:
            write_folder(options.path, folder)
        peers += [Peer(options.peer, "torch", dtype, folder, options.threads) for dtype in options.theirs]
        compare(peers, options.turns, options.tokens)


def compare(peers: list[Peer], turns: int, tokens: int) -> None:
    """Takes the turns and prints the table."""
    bandwidth = []
    for _ in range(turns):
        bandwidth.append(copy_bandwidth())
        for peer in peers:
            peer.turn(tokens)
    copies = statistics.median(bandwidth)
    print(f"copy {copies / 1e9:.1f} GB/s; medians of {turns} turns of {tokens} tokens")
    print(f"{'':16}{'tokens/s':>10}{'of bandwidth':>14}{'prompt tokens/s':>17}")
    for peer in peers:
        rate = statistics.median(peer.decode)
        share = rate * peer.bytes / copies
        print(f"{peer.name:16}{rate:10.1f}{share:14.2f}{statistics.median(peer.prompt):17.0f}")
        peer.process.stdin.close()
        peer.process.wait()


if __name__ == "__main__":
    main()
