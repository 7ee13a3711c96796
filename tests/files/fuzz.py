"""Broken files: thousands of small changes to sound ones, each of which must be read or refused, quickly and in bounds.

A reader may raise ValueError or OSError and nothing else. While it works it gets little memory beyond what the
process has, so that an allocation of a size that a file only claims is a MemoryError and fails the test.
"""

from __future__ import annotations

import io
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import mlxc as mx

EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)


@contextmanager
def little_memory(more: int = 1 << 30) -> Iterator[None]:
    """Inside, the process can take at most this many bytes more (on Linux; elsewhere any)."""
    if sys.platform != "linux":
        yield
        return
    mx.eval(mx.ones(1) + 1)  # threads and their stacks are there before the limit is
    with open("/proc/self/statm", encoding="ascii") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def broken_copies(sound: bytes, count: int, seed: int, header: int) -> Iterator[bytes]:
    """Copies that are cut short, that have bytes changed (most of them in the header), added or taken away."""
    draw = random.Random(seed)
    for cut in range(min(len(sound), header + 16)):
        yield sound[:cut]
    for _ in range(count):
        copy = bytearray(sound)
        for _ in range(draw.choice((1, 1, 1, 2, 4, 8))):
            place = draw.randrange(min(header, len(copy)) if draw.random() < 0.8 else len(copy))
            kind = draw.random()
            if kind < 0.4:
                copy[place] = draw.randrange(256)
            elif kind < 0.6:
                copy[place] = draw.choice(EXTREMES)
            elif kind < 0.8:
                width = draw.choice((2, 4, 8))
                number = draw.choice((0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, len(sound))) % 2 ** (8 * width)
                copy[place : place + width] = number.to_bytes(width, "little")
            elif kind < 0.9:
                del copy[place : place + draw.randrange(1, 9)]
            else:
                copy[place:place] = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 9)))
        yield bytes(copy)


def read_all(format: str) -> Callable[[bytes], object]:
    """A function that reads a file of the format and evaluates what is in it."""

    def read(data: bytes) -> object:
        found = mx.load(io.BytesIO(data), format=format)
        mx.eval(found)
        return found

    return read


def survive(read: Callable[[bytes], object], copies: Iterator[bytes], seconds: float = 1.0) -> tuple[int, int]:
    """Reads every copy; how many were read and how many refused."""
    done = refused = 0
    with little_memory():
        for copy in copies:
            start = time.process_time()
            try:
                read(copy)
                done += 1
            except (ValueError, OSError) as error:
                assert str(error), copy
                refused += 1
            assert time.process_time() - start < seconds, copy
    return done, refused
