"""Time of decoding, per token, beside PyTorch with a key-value cache: the same model of GPT-2 with the same weights.

    python benchmarks/decoding.py [--threads 1] [--width 512] [--layers 6] [--length 1024] [--positions 64 480 960]

Each figure is the least time of a token at a position, in milliseconds of elapsed time, of runs that alternate between
the two. The logits of both are compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

import ocannl as oc
from ocannl import nn

VOCABULARY = 1000


class TorchDecoder:
    """GPT-2 with a key-value cache in PyTorch, in eager mode."""

    def __init__(self, weights: dict[str, np.ndarray], length: int, layers: int, heads: int) -> None:
        self.w = {path: torch.tensor(array) for path, array in weights.items()}
        self.width, self.heads, self.names = self.w["token.table"].shape[1], heads, _layer_names(layers)
        shape = 1, heads, length, self.width // heads
        self.keys = [torch.zeros(shape) for _ in range(layers)]
        self.values = [torch.zeros(shape) for _ in range(layers)]

    @torch.inference_mode()
    def step(self, tokens: torch.Tensor, position: int) -> torch.Tensor:
        """The logits of the last of `tokens`, (1, t), which are at `position` and after it."""
        w, width, count = self.w, self.width, tokens.shape[1]
        after = position + count
        x = F.embedding(tokens, w["token.table"]) + w["position.table"][position:after]
        for name, keys, values in zip(self.names, self.keys, self.values, strict=True):
            h = F.layer_norm(x, [width], w[f"{name}.norm.gain"], w[f"{name}.norm.b"])
            q, k, v = (
                F.linear(h, w[f"{name}.attention.w_{part}"], w[f"{name}.attention.b_{part}"])
                .view(1, count, self.heads, -1).transpose(1, 2)
                for part in "qkv"
            )  # fmt: skip
            keys[:, :, position:after], values[:, :, position:after] = k, v
            mixed = F.scaled_dot_product_attention(q, keys[:, :, :after], values[:, :, :after], is_causal=count > 1)
            mixed = mixed.transpose(1, 2).reshape(1, count, width)
            x = x + F.linear(mixed, w[f"{name}.attention.w_o"], w[f"{name}.attention.b_o"])
            h = F.layer_norm(x, [width], w[f"{name}.norm_2.gain"], w[f"{name}.norm_2.b"])
            inner = F.linear(h, w[f"{name}.feed_forward.inner.w"], w[f"{name}.feed_forward.inner.b"])
            outer = f"{name}.feed_forward.outer"
            x = x + F.linear(F.gelu(inner, approximate="tanh"), w[f"{outer}.w"], w[f"{outer}.b"])
        x = F.layer_norm(x[:, -1], [width], w["decoder.norm.gain"], w["decoder.norm.b"])
        return F.linear(x, w["token.table"])


def _layer_names(layers: int) -> list[str]:
    return [f"decoder.layer_{n}" if n > 1 else "decoder.layer" for n in range(1, layers + 1)]


def milliseconds(step: Callable[[], object], count: int) -> float:
    """The least time of `count` calls."""
    best = float("inf")
    for _ in range(count):
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--positions", type=int, nargs="+", default=[64, 480, 960])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=20, help="number of tokens of a run")
    parser.add_argument("--profile", action="store_true", help="print where the time of the last token goes")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    ctx = oc.Context("llvm", threads=arguments.threads)
    net = nn.gpt(
        vocabulary=VOCABULARY, length=arguments.length, width=arguments.width, layers=arguments.layers,
        heads=arguments.heads,
    )  # fmt: skip
    start = time.perf_counter()
    decoder = nn.Decoder(net, length=arguments.length, ctx=ctx)
    print(f"compiled in {time.perf_counter() - start:.2f} s")
    weights = {path: ctx[p] for path, p in net.params.items()}
    twin = TorchDecoder(weights, arguments.length, arguments.layers, arguments.heads)
    rng = np.random.default_rng(0)
    print(f"{'position':>8} {'ms':>8} {'PyTorch':>8} {'ratio':>6} {'difference':>11}")
    for position in arguments.positions:
        prompt = rng.integers(VOCABULARY, size=(1, position))
        ours = decoder.start(prompt.tolist())
        theirs = twin.step(torch.tensor(prompt), 0)
        differences = [np.abs(ours - theirs.numpy()).max()]
        token, filled = prompt[:, -1:], decoder.position
        torch_token = torch.tensor(token)

        def step(token=token, filled=filled):
            decoder._position = filled  # a step again at the same position
            return decoder.step(token)

        def torch_step(token=torch_token, position=position):
            return twin.step(token, position)

        differences.append(np.abs(step() - torch_step().numpy()).max())
        times, torch_times = [], []
        for _ in range(arguments.runs):
            times.append(milliseconds(step, arguments.tokens))
            torch_times.append(milliseconds(torch_step, arguments.tokens))
        ours_ms, torch_ms = min(times), min(torch_times)
        print(f"{position:>8} {ours_ms:>8.3f} {torch_ms:>8.3f} {torch_ms / ours_ms:>6.2f} {max(differences):>11.1e}")
    if arguments.profile:
        print(decoder._step.profile(position=decoder.position - 1))


if __name__ == "__main__":
    main()
