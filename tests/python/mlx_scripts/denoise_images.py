"""A convolutional autoencoder that takes noise out of images: schedules, two phases, freezing. Written for MLX."""

import json

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_map_with_path


class Encoder(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm(channels)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm(2 * channels)
        self.pool = nn.MaxPool2d(2, 2)

    def __call__(self, x):
        x = nn.leaky_relu(self.bn1(self.conv1(x)))
        return self.pool(nn.leaky_relu(self.bn2(self.conv2(x))))


class Decoder(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Upsample(2, mode="nearest"),
            nn.Conv2d(2 * channels, channels, 3, padding=1),
            nn.GroupNorm(2, channels, pytorch_compatible=True),
            nn.GELU(),
            nn.ConvTranspose2d(channels, 1, 4, stride=2, padding=1),
            nn.Sigmoid(),
        )

    def __call__(self, x):
        return self.layers(x)


class Autoencoder(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.encoder = Encoder(channels)
        self.decoder = Decoder(channels)

    def __call__(self, x):
        return self.decoder(self.encoder(x))


def images(n, rng):
    """Bright rectangles on dark ground."""
    out = np.zeros((n, 16, 16, 1), np.float32)
    for image in out:
        (a, c), (h, w) = rng.integers(0, 9, 2), rng.integers(3, 8, 2)
        image[a : a + h, c : c + w] = 1
    return mx.array(out)


def main():
    mx.random.seed(11)
    rng = np.random.default_rng(11)
    model = Autoencoder()
    init_fn = nn.init.he_uniform()
    model.apply(lambda w: init_fn(w) if w.ndim > 1 else w)
    clean = images(64, rng)
    noisy = clean + 0.3 * mx.random.normal(clean.shape)

    warmup = optim.linear_schedule(1e-3, 2e-2, steps=5)
    cosine = optim.cosine_decay(2e-2, decay_steps=20, end=1e-3)
    optimizer = optim.AdamW(learning_rate=optim.join_schedules([warmup, cosine], [5]), betas=[0.9, 0.99])

    def loss_fn(noisy, clean):
        return nn.losses.mse_loss(model(noisy), clean, reduction="mean")

    def run(steps):
        losses, rates = [], []
        step_fn = nn.value_and_grad(model, loss_fn)
        for _ in range(steps):
            loss, grads = step_fn(noisy, clean)
            optimizer.update(model, grads)
            mx.eval(model.state, optimizer.state)
            losses.append(loss.item())
            rates.append(optimizer.learning_rate.item())
        return losses, rates

    report = {}
    report["losses"], report["rates"] = run(15)

    # Second phase: the encoder stays, batch norm included.
    model.encoder.freeze()
    model.encoder.eval()
    before = [mx.array(v) for _, v in tree_flatten(model.encoder.parameters())]
    optimizer = optim.SGD(learning_rate=optim.exponential_decay(0.2, 0.9), momentum=0.9)
    report["second losses"], report["second rates"] = run(8)
    after = [v for _, v in tree_flatten(model.encoder.parameters())]
    report["encoder kept"] = all(mx.array_equal(a, b).item() for a, b in zip(before, after))
    report["trainable"] = [k for k, _ in tree_flatten(model.trainable_parameters())]
    decayed = tree_map_with_path(lambda k, v: k.endswith("weight"), model.trainable_parameters())
    report["weights"] = sum(flag for _, flag in tree_flatten(decayed))

    model.eval()
    report["error"] = mx.mean(mx.abs(model(noisy) - clean)).item()
    report["running mean"] = model.encoder.bn1.running_mean.tolist()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
