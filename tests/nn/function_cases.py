"""Activations, losses and initialisers, as cases for comparison: see peer_cases.py."""

from __future__ import annotations

import numpy as np
from peer_cases import Case, floats

_TORCH_ACTIVATIONS = {
    "sigmoid": lambda torch, F, p, x: torch.sigmoid(x),
    "relu": lambda torch, F, p, x: F.relu(x),
    "relu2": lambda torch, F, p, x: F.relu(x) ** 2,
    "relu6": lambda torch, F, p, x: F.relu6(x),
    "leaky_relu": lambda torch, F, p, x: F.leaky_relu(x),
    "log_softmax": lambda torch, F, p, x: F.log_softmax(x, -1),
    "elu": lambda torch, F, p, x: F.elu(x),
    "softmax": lambda torch, F, p, x: F.softmax(x, -1),
    "softplus": lambda torch, F, p, x: F.softplus(x, threshold=50),
    "softsign": lambda torch, F, p, x: F.softsign(x),
    "softshrink": lambda torch, F, p, x: F.softshrink(x),
    "celu": lambda torch, F, p, x: F.celu(x),
    "silu": lambda torch, F, p, x: F.silu(x),
    "log_sigmoid": lambda torch, F, p, x: F.logsigmoid(x),
    "gelu": lambda torch, F, p, x: F.gelu(x),
    "gelu_approx": lambda torch, F, p, x: F.gelu(x, approximate="tanh"),
    "gelu_fast_approx": lambda torch, F, p, x: x * torch.sigmoid(1.702 * x),
    "glu": lambda torch, F, p, x: F.glu(x),
    "step": None,
    "selu": lambda torch, F, p, x: F.selu(x),
    "mish": lambda torch, F, p, x: F.mish(x),
    "hardswish": lambda torch, F, p, x: F.hardswish(x),
    "hard_tanh": lambda torch, F, p, x: F.hardtanh(x),
    "hard_shrink": lambda torch, F, p, x: F.hardshrink(x),
    "softmin": lambda torch, F, p, x: F.softmin(x, -1),
    "tanh": lambda torch, F, p, x: torch.tanh(x),
}
_MODULES = {
    "CELU": (0.7,), "ELU": (0.7,), "GELU": ("tanh",), "GLU": (0,), "HardShrink": (0.7,), "HardTanh": (),
    "Hardswish": (), "LeakyReLU": (0.2,), "LogSigmoid": (), "LogSoftmax": (), "Mish": (), "PReLU": (6,), "ReLU": (),
    "ReLU2": (), "ReLU6": (), "SELU": (), "SiLU": (), "Sigmoid": (), "Softmax": (), "Softmin": (), "Softplus": (),
    "Softshrink": (0.7,), "Softsign": (), "Step": (0.7,), "Tanh": (),
}  # fmt: skip
# MLX has the constants of selu to five digits.
_MLX_TOLERANCE = {"selu": 4e-5, "SELU": 4e-5}


def _function(name, torch):
    return Case(
        name, lambda mx, nn: getattr(nn, name), floats((4, 6), low=-9.0, high=9.0), torch,
        mlx_tolerance=_MLX_TOLERANCE.get(name, 4e-6),
    )  # fmt: skip


def _module(name, args):
    return Case(
        name, lambda mx, nn: getattr(nn, name)(*args), floats((4, 6)), mlx_tolerance=_MLX_TOLERANCE.get(name, 4e-6)
    )


def activations():
    yield from (_function(name, torch) for name, torch in _TORCH_ACTIVATIONS.items())
    yield Case("prelu", lambda mx, nn: nn.prelu, floats((4, 6), (6,)), lambda torch, F, p, x, a: F.prelu(x, a))
    yield from (_module(name, args) for name, args in _MODULES.items())


def _loss(name, inputs, torch=None, label="", **options):
    words = " ".join(f"{key}={value}" for key, value in options.items())
    build = lambda mx, nn: lambda *args: getattr(nn.losses, name)(*args, **options)  # noqa: E731
    # MLX leaves logsumexp out of the gradient by the probabilities.
    return Case(" ".join(filter(None, [name, label, words])), build, inputs, torch, mlx_gradient=label != "probable")


def _classes(shape, axis=-1):
    def make(rng):
        logits = rng.uniform(-4, 4, shape).astype("float32")
        rest = [n for i, n in enumerate(shape) if i != axis % len(shape)]
        return [logits, rng.integers(0, shape[axis], rest).astype("int32")]

    return make


def _weighted_classes(rng):
    return [*_classes((5, 4))(rng), rng.uniform(0, 2, 5).astype("float32")]


def _distributions(rng):
    p = rng.uniform(0.1, 1, (5, 4))
    return [rng.uniform(-4, 4, (5, 4)).astype("float32"), (p / p.sum(-1, keepdims=True)).astype("float32")]


def _log_distributions(rng):
    p = rng.uniform(0.1, 1, (2, 5, 4))
    return list(np.log(p / p.sum(-1, keepdims=True)).astype("float32"))


def _binary(rng):
    return [rng.uniform(-4, 4, (5, 4)).astype("float32"), rng.integers(0, 2, (5, 4)).astype("float32")]


def _probable(rng):
    return [rng.uniform(0.05, 0.95, (5, 4)).astype("float32"), rng.integers(0, 2, (5, 4)).astype("float32")]


def _signs(count):
    return lambda rng: [
        *(rng.uniform(-2, 2, (5, 4)).astype("float32") for _ in range(count)),
        rng.choice([-1, 1], (5, 4)).astype("int32"),
    ]


def _gaussian(rng):
    return [*floats((5, 4), (5, 4))(rng), rng.uniform(0.1, 3, (5, 4)).astype("float32")]


def losses():
    pair, triple = floats((5, 4), (5, 4)), floats((5, 4), (5, 4), (5, 4))
    smooth = {"label_smoothing": 0.2}
    yield _loss(
        "cross_entropy", _classes((5, 4)), lambda torch, F, p, x, t: F.cross_entropy(x, t.long(), reduction="none")
    )
    yield _loss(
        "cross_entropy", _classes((3, 4, 5), 1), lambda torch, F, p, x, t: F.cross_entropy(x, t.long()), axis=1,
        reduction="mean",
    )  # fmt: skip
    yield _loss(
        "cross_entropy", _classes((5, 4)),
        lambda torch, F, p, x, t: F.cross_entropy(x, t.long(), label_smoothing=0.2, reduction="sum"), reduction="sum",
        **smooth,
    )  # fmt: skip
    yield _loss(
        "cross_entropy", _distributions, lambda torch, F, p, x, t: F.cross_entropy(x, t, reduction="none"), "probable"
    )
    yield _loss(
        "cross_entropy", _distributions,
        lambda torch, F, p, x, t: F.cross_entropy(x, t, reduction="none", label_smoothing=0.2), "probable", **smooth,
    )  # fmt: skip
    yield _loss("cross_entropy", _weighted_classes, None, "weighted")
    yield _loss("binary_cross_entropy", _binary, lambda torch, F, p, x, t: F.binary_cross_entropy_with_logits(x, t))
    yield _loss(
        "binary_cross_entropy", _probable,
        lambda torch, F, p, x, t: F.binary_cross_entropy(x, t, reduction="none"), with_logits=False, reduction="none",
    )  # fmt: skip
    yield _loss("l1_loss", pair, lambda torch, F, p, x, y: F.l1_loss(x, y))
    yield _loss("mse_loss", pair, lambda torch, F, p, x, y: F.mse_loss(x, y))
    yield _loss("nll_loss", _classes((5, 4)), lambda torch, F, p, x, t: F.nll_loss(x, t.long(), reduction="none"))
    yield _loss("nll_loss", _classes((3, 4, 5), 1), lambda torch, F, p, x, t: F.nll_loss(x, t.long(), reduction="sum"),
                axis=1, reduction="sum")  # fmt: skip
    yield _loss("gaussian_nll_loss", _gaussian, lambda torch, F, p, x, t, v: F.gaussian_nll_loss(x, t, v))
    yield _loss(
        "gaussian_nll_loss", _gaussian,
        lambda torch, F, p, x, t, v: F.gaussian_nll_loss(x, t, v, full=True, reduction="none"),
        full=True, reduction="none",
    )  # fmt: skip
    yield _loss(
        "kl_div_loss", _log_distributions,
        lambda torch, F, p, x, t: F.kl_div(x, t, reduction="none", log_target=True).sum(-1),
    )  # fmt: skip
    yield _loss("smooth_l1_loss", pair, lambda torch, F, p, x, y: F.smooth_l1_loss(x, y, beta=2.0), beta=2.0)
    yield _loss(
        "huber_loss", pair, lambda torch, F, p, x, y: F.huber_loss(x, y, delta=2.0, reduction="none"), delta=2.0
    )
    yield _loss("log_cosh_loss", pair)
    yield _loss("hinge_loss", _signs(1))
    yield _loss("triplet_loss", triple)
    yield _loss("triplet_loss", triple, p=1, margin=2.0, reduction="mean")
    yield _loss("triplet_loss", triple, p=3, axis=0)
    yield _loss("cosine_similarity_loss", pair, lambda torch, F, p, x, y: F.cosine_similarity(x, y))
    yield _loss(
        "margin_ranking_loss", _signs(2),
        lambda torch, F, p, x, y, t: F.margin_ranking_loss(x, y, t, margin=0.5, reduction="none"), margin=0.5,
    )  # fmt: skip


def _initial(name, shape, args, **options):
    def build(mx, nn):
        return lambda: getattr(nn.init, name)(*args)(mx.zeros(shape), **options)

    words = " ".join(f"{key}={value}" for key, value in options.items())
    # Even draws are the same bits; normal ones go through another inverse of the error function.
    tolerance = 4e-6 if name == "orthogonal" else 4e-7 if "normal" in name or name == "sparse" else 0
    return Case(f"init.{name} {shape} {words}".strip(), build, lambda rng: [], mlx_tolerance=tolerance)


def initialisers():
    yield _initial("constant", (2, 3), (0.5,))
    yield _initial("normal", (5, 7), (0.5, 2.0))
    yield _initial("uniform", (5, 7), (-1.0, 3.0))
    yield _initial("identity", (3, 3), ())
    for name in ("glorot_normal", "glorot_uniform", "he_normal", "he_uniform"):
        yield _initial(name, (5, 7), ())
        yield _initial(name, (4, 3, 3, 2), (), gain=2.0)
    yield _initial("he_normal", (5, 7), (), mode="fan_out")
    yield _initial("he_uniform", (5, 7), (), mode="fan_out", gain=2.0)
    yield _initial("sparse", (5, 7), (0.3,))
    yield _initial("orthogonal", (3, 5), (2.0,))
    yield _initial("orthogonal", (5, 3), ())
