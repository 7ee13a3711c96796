"""A multi-layer perceptron that tells three spirals apart, with a compiled training step. Written for MLX."""

import argparse
import json
import math
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten


class MLP(nn.Module):
    def __init__(self, num_layers: int, input_dim: int, hidden_dim: int, output_dim: int, dropout: float):
        super().__init__()
        sizes = [input_dim] + [hidden_dim] * num_layers + [output_dim]
        self.layers = [nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])]
        self.norms = [nn.LayerNorm(hidden_dim) for _ in range(num_layers)]
        self.dropout = nn.Dropout(dropout)

    def __call__(self, x):
        for layer, norm in zip(self.layers[:-1], self.norms):
            x = self.dropout(nn.relu(norm(layer(x))))
        return self.layers[-1](x)


def spirals(n: int, rng: np.random.Generator):
    label = rng.integers(0, 3, n)
    radius = rng.uniform(0.2, 1.0, n)
    angle = 2 * math.pi * label / 3 + 4 * radius + rng.normal(0, 0.1, n)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return mx.array(points.astype(np.float32)), mx.array(label.astype(np.uint32))


def loss_fn(model, x, y):
    return nn.losses.cross_entropy(model(x), y, reduction="mean")


def accuracy(model, x, y):
    return mx.mean(mx.argmax(model(x), axis=1) == y)


def batches(batch_size, x, y, rng):
    order = mx.array(rng.permutation(y.size))
    for start in range(0, y.size, batch_size):
        ids = order[start : start + batch_size]
        yield x[ids], y[ids]


def main(args):
    rng = np.random.default_rng(args.seed)
    mx.random.seed(args.seed)
    train_x, train_y = spirals(600, rng)
    test_x, test_y = spirals(300, rng)

    model = MLP(args.num_layers, 2, args.hidden_dim, 3, args.dropout)
    mx.eval(model.parameters())
    count = sum(v.size for _, v in tree_flatten(model.parameters()))
    optimizer = optim.Adam(learning_rate=args.learning_rate)

    state = [model.state, optimizer.state, mx.random.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x, y):
        loss, grads = nn.value_and_grad(model, loss_fn)(model, x, y)
        grads, norm = optim.clip_grad_norm(grads, max_norm=5.0)
        optimizer.update(model, grads)
        return loss, norm

    losses = []
    for _ in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in batches(args.batch_size, train_x, train_y, rng):
            loss, norm = step(x, y)
            mx.eval(state)
            total += loss.item() * y.size
        losses.append(total / train_y.size)
    model.eval()
    print(
        json.dumps(
            {
                "parameters": count,
                "losses": losses,
                "steps": optimizer.step.item(),
                "test loss": loss_fn(model, test_x, test_y).item(),
                "test accuracy": accuracy(model, test_x, test_y).item(),
            }
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser("Classify spirals with an MLP.")
    parser.add_argument("--num-layers", type=int, default=2)
    parser.add_argument("--hidden-dim", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
