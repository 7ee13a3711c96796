"""A small decoder of its own modules: trained, saved, loaded, quantised, and made to write. Written for MLX."""

import json
import os
import sys
import tempfile
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import mlx.utils
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten, tree_map, tree_unflatten

TEXT = (
    "the quick brown fox jumps over the lazy dog. the five boxing wizards jump quickly. "
    "pack my box with five dozen liquor jugs. how vexingly quick daft zebras jump! "
) * 8


@dataclass
class ModelArgs:
    vocab: int
    dims: int = 64
    heads: int = 4
    kv_heads: int = 2
    hidden: int = 128
    layers: int = 2
    tie: bool = True


class Attention(Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.heads, self.kv_heads = args.heads, args.kv_heads
        self.head_dim = args.dims // args.heads
        self.scale = self.head_dim**-0.5
        self.wq = nn.Linear(args.dims, args.heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dims, args.kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dims, args.kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.heads * self.head_dim, args.dims, bias=False)
        self.rope = nn.RoPE(self.head_dim, traditional=False)

    def __call__(self, x, mask=None, cache=None):
        B, L, _ = x.shape
        q = self.wq(x).reshape(B, L, self.heads, -1).transpose(0, 2, 1, 3)
        k = self.wk(x).reshape(B, L, self.kv_heads, -1).transpose(0, 2, 1, 3)
        v = self.wv(x).reshape(B, L, self.kv_heads, -1).transpose(0, 2, 1, 3)
        if cache is not None:
            past_k, past_v = cache
            q = self.rope(q, offset=past_k.shape[2])
            k = self.rope(k, offset=past_k.shape[2])
            k = mx.concatenate([past_k, k], axis=2)
            v = mx.concatenate([past_v, v], axis=2)
        else:
            q, k = self.rope(q), self.rope(k)
        out = mx.fast.scaled_dot_product_attention(q, k, v, scale=self.scale, mask=mask)
        return self.wo(out.transpose(0, 2, 1, 3).reshape(B, L, -1)), (k, v)


class MLP(Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.gate = nn.Linear(args.dims, args.hidden, bias=False)
        self.up = nn.Linear(args.dims, args.hidden, bias=False)
        self.down = nn.Linear(args.hidden, args.dims, bias=False)

    def __call__(self, x):
        return self.down(nn.silu(self.gate(x)) * self.up(x))


class Block(Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.attention = Attention(args)
        self.mlp = MLP(args)
        self.norm1 = nn.RMSNorm(args.dims)
        self.norm2 = nn.RMSNorm(args.dims)

    def __call__(self, x, mask=None, cache=None):
        y, cache = self.attention(self.norm1(x), mask, cache)
        x = x + y
        return x + self.mlp(self.norm2(x)), cache


class LanguageModel(Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.args = args
        self.embed = nn.Embedding(args.vocab, args.dims)
        self.blocks = [Block(args) for _ in range(args.layers)]
        self.norm = nn.RMSNorm(args.dims)
        if not args.tie:
            self.head = nn.Linear(args.dims, args.vocab, bias=False)

    def __call__(self, tokens, cache=None):
        x = self.embed(tokens)
        mask = "causal" if tokens.shape[1] > 1 else None
        new_cache = []
        for block, c in zip(self.blocks, cache or [None] * len(self.blocks)):
            x, c = block(x, mask, c)
            new_cache.append(c)
        x = self.norm(x)
        return (self.embed.as_linear(x) if self.args.tie else self.head(x)), new_cache

    def generate(self, prompt, n):
        logits, cache = self(mx.array(prompt)[None])
        out = []
        for _ in range(n):
            token = mx.argmax(logits[:, -1], axis=-1)
            out.append(token.item())
            logits, cache = self(token[:, None], cache)
        return out


def main():
    mx.random.seed(3)
    letters = sorted(set(TEXT))
    ids = mx.array([letters.index(c) for c in TEXT])
    args = ModelArgs(vocab=len(letters))
    model = LanguageModel(args)
    report = {"repr": repr(model.blocks[0].mlp).splitlines()[0], "names": len(tree_flatten(model.parameters()))}

    def loss_fn(model, x, y):
        logits, _ = model(x)
        return nn.losses.cross_entropy(logits, y).mean()

    loss_and_grad = nn.value_and_grad(model, loss_fn)
    optimizer = optim.AdamW(learning_rate=3e-3, weight_decay=0.01)
    losses = []
    for i in range(25):
        starts = mx.random.randint(0, len(TEXT) - 33, (8,))
        window = ids[starts[:, None] + mx.arange(33)]
        loss, grads = loss_and_grad(model, window[:, :-1], window[:, 1:])
        grads = tree_map(lambda g: mx.clip(g, -1.0, 1.0), grads)
        optimizer.update(model, grads)
        mx.eval(model.parameters(), optimizer.state)
        losses.append(loss.item())
    report["losses"] = losses

    sample = ids[None, :32]
    full = model(sample)[0]
    prompt = ids[:16].tolist()
    report["text"] = "".join(letters[t] for t in model.generate(prompt, 12))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("model.npz", "model.safetensors"):
            path = os.path.join(folder, name)
            model.save_weights(path)
            other = LanguageModel(args)
            other.load_weights(path, strict=True)
            assert mx.array_equal(other(sample)[0], full)
        # Renaming, as in checkpoints of other programs.
        weights = [(k.replace("mlp.", "feed_forward."), v) for k, v in mx.load(path).items()]
        try:
            other.load_weights(weights)
        except ValueError:
            report["strict"] = "refused"
        other.update(tree_unflatten([(k.replace("feed_forward.", "mlp."), v) for k, v in weights]))

        nn.quantize(model, group_size=32, bits=8, class_predicate=lambda p, m: isinstance(m, nn.Linear))
        report["quantised"] = sorted({type(m).__name__ for m in model.modules()})
        model.save_weights(os.path.join(folder, "quantised.safetensors"))
        again = LanguageModel(args)
        nn.quantize(again, 32, 8, class_predicate=lambda p, m: isinstance(m, nn.Linear))
        again.load_weights(os.path.join(folder, "quantised.safetensors"))
        q = again(sample)[0]
        assert mx.array_equal(q, model(sample)[0])
        report["error of 8 bits"] = mx.abs(q - full).max().item() < 0.2
        report["text of 8 bits"] = "".join(letters[t] for t in again.generate(prompt, 12))

    # Low-rank changes of two layers, the rest frozen.
    other.freeze()
    for block in other.blocks:
        block.mlp.up.unfreeze()
    report["trainable"] = [k for k, _ in tree_flatten(other.trainable_parameters())]
    other.set_dtype(mx.bfloat16)
    report["dtype"] = str(other(sample)[0].dtype).split(".")[-1]
    print(json.dumps(report))


if __name__ == "__main__":
    sys.exit(main())
