"""A text as training data: windows of bytes in random order, each once an epoch.

train.py draws batches from it. Where it stands is two numbers, so a checkpoint can keep them and training goes on with
the very next batch.
"""

from __future__ import annotations

from pathlib import Path

import mlxc as mx


class Windows:
    """Batches of windows of a text. Each epoch cuts the text at other places and shuffles the windows anew."""

    def __init__(self, text: mx.array, length: int, batch: int, seed: int) -> None:
        self.text = text
        self.length = length
        self.batch = batch
        self.seed = seed
        self.go_to(0, 0)

    def go_to(self, epoch: int, position: int) -> None:
        """Makes the batch at `position` of an epoch the next one. The order depends on the seed and the epoch alone."""
        cut_key, order_key = mx.random.split(mx.random.split(mx.random.key(self.seed), epoch + 1)[epoch])
        first = mx.random.randint(0, self.length - 1, key=cut_key).item()
        windows = cut_windows(self.text[first:], self.length)
        self.windows = windows[mx.random.permutation(windows.shape[0], key=order_key)]
        self.epoch = epoch
        self.position = position

    def draw(self) -> mx.array:
        """The next batch, (batch, length). What is left at the end of an epoch and fills no batch is passed over."""
        if (self.position + 1) * self.batch > self.windows.shape[0]:
            self.go_to(self.epoch + 1, 0)
        start = self.position * self.batch
        self.position += 1
        return self.windows[start : start + self.batch]


def cut_windows(text: mx.array, length: int) -> mx.array:
    """The text as windows that overlap by one byte, so that each byte but the first is predicted once."""
    count = (text.size - 1) // (length - 1)
    return text[mx.arange(count)[:, None] * (length - 1) + mx.arange(length)]


def read_text(path: Path, length: int, batch: int) -> tuple[mx.array, mx.array]:
    """The text as bytes: its first nine tenths to train on, the rest to validate on."""
    data = path.read_bytes()
    if max(data, default=0) > 127:
        raise SystemExit(f"{path} is not plain ASCII")
    cut = len(data) * 9 // 10
    if len(data) - cut < length or cut < (batch + 1) * length:
        raise SystemExit(f"{path} has {len(data)} bytes, too few for {batch} windows of {length} bytes")
    return mx.array(list(data[:cut]), dtype=mx.int32), mx.array(list(data[cut:]), dtype=mx.int32)


def measure_bigram_loss(train: mx.array, validation: mx.array, vocabulary: int) -> float:
    """What predicting each byte from the one before it alone reaches (counts with one added)."""
    counts = mx.ones((vocabulary, vocabulary)).at[train[:-1], train[1:]].add(1.0)
    log_probability = mx.log(counts / mx.sum(counts, axis=1, keepdims=True))
    return -mx.mean(log_probability[validation[:-1], validation[1:]]).item()
