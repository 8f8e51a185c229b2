"""Time of sentence embeddings, beside ONNX Runtime and PyTorch: MiniLM (all-MiniLM-L6-v2) with the same weights.

    python benchmarks/encoder.py [--threads 1] [--sizes 1x32 1x128 32x32 32x128] [--weights FILE] [--profile]
                                 [--pack-each-call]

Weights are packed once, as by ONNX Runtime, which runs the model exported from PyTorch with all optimizations. Each
figure is the least time of a batch of sentences, in milliseconds, over rounds that alternate between the three: of the
processor with one thread, of the clock with several. Without `--weights`, a file of Hugging Face, the weights are
random.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from onnx_models import alternated
from torch.nn import functional as F

import ocannl as oc
from ocannl import nn

WIDTH, LAYERS, HEADS, INNER = 384, 6, 12, 1536


@oc.op
def sentence_embedding(tokens, mask, *, bert):
    """The mean of the features of the tokens, scaled to length 1."""
    total = oc.einsum("b, t|c; b, t| => b|c", bert(tokens, mask), mask.astype(oc.float32))
    return oc.normalize(total, "...|c => ...|")


class TorchEncoder(torch.nn.Module):
    """The same function of the same weights in PyTorch."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        super().__init__()
        self.w = {path.removeprefix("bert."): torch.tensor(array) for path, array in weights.items()}

    def dense(self, name: str, x: torch.Tensor, part: str = "") -> torch.Tensor:
        return F.linear(x, self.w[f"{name}w{part}"], self.w[f"{name}b{part}"])

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, [WIDTH], self.w[f"{name}.gain"], self.w[f"{name}.b"], 1e-12)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = F.embedding(tokens, self.w["token.table"]) + self.w["position.table"][: tokens.shape[1]]
        x = self.norm("norm", x + self.w["segment.table"][0])
        bias = (1.0 - mask.float())[:, None, None] * -1e9
        for n in range(1, LAYERS + 1):
            layer = f"encoder.layer_{n}" if n > 1 else "encoder.layer"
            q, k, v = (
                self.dense(f"{layer}.attention.", x, f"_{part}").view(*tokens.shape, HEADS, -1).transpose(1, 2)
                for part in "qkv"
            )
            weights = (q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5 + bias).softmax(-1)
            mixed = (weights @ v).transpose(1, 2).reshape(*tokens.shape, WIDTH)
            x = self.norm(f"{layer}.norm", x + self.dense(f"{layer}.attention.", mixed, "_o"))
            inner = F.gelu(self.dense(f"{layer}.feed_forward.inner.", x))
            x = self.norm(f"{layer}.norm_2", x + self.dense(f"{layer}.feed_forward.outer.", inner))
        total = (x * mask.float()[..., None]).sum(1)
        return F.normalize(total)


def ort_session(twin: TorchEncoder, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    tokens = torch.ones((2, 8), dtype=torch.int64)
    axes = {name: {0: "batch", 1: "length"} for name in ("tokens", "mask")}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "encoder.onnx"
        torch.onnx.export(
            twin, (tokens, tokens), str(path), input_names=["tokens", "mask"], dynamic_axes=axes, opset_version=17,
            dynamo=False,
        )  # fmt: skip
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def batch_of(size: str) -> tuple[np.ndarray, np.ndarray]:
    """Random tokens, and a mask of which an eighth is padding, for "sentences x tokens"."""
    batch, length = map(int, size.split("x"))
    mask = np.ones((batch, length), "int64")
    mask[:, length - length // 8 :] = 0
    return np.random.default_rng(0).integers(30522, size=(batch, length)), mask


class Comparison:
    def __init__(self, threads: int, weights: Path | None) -> None:
        torch.set_num_threads(threads)
        ctx = oc.Context("llvm", threads=threads)
        bert = nn.bert(width=WIDTH, layers=LAYERS, heads=HEADS, inner=INNER, label="bert")
        self.embed = oc.compile(sentence_embedding(bert=bert), sizes=["b, t|", "b, t|"], ctx=ctx)
        self.embed(np.zeros((1, 1), "int32"), np.ones((1, 1), "int32"))  # creates the parameters
        if weights is not None:
            oc.load_weights(weights, bert, ctx=ctx, strict=False, **nn.bert_layout())
        self.twin = TorchEncoder({path: ctx[p] for path, p in bert.params.items()})
        self.session = ort_session(self.twin, threads)
        self.clock = time.process_time if threads == 1 else time.perf_counter

    def row(self, size: str, rounds: int, seconds: float) -> str:
        tokens, mask = batch_of(size)
        ours, theirs = (tokens.astype("int32"), mask.astype("int32")), {"tokens": tokens, "mask": mask}
        torch_operands = torch.tensor(tokens), torch.tensor(mask)
        begin = time.perf_counter()
        embeddings = self.embed(*ours)
        compiled = time.perf_counter() - begin
        difference = np.abs(embeddings - self.session.run(None, theirs)[0]).max()
        with torch.inference_mode():
            ms, ort, eager = alternated(
                lambda: self.embed(*ours), lambda: self.session.run(None, theirs), lambda: self.twin(*torch_operands),
                clock=self.clock, rounds=rounds, seconds=seconds,
            )  # fmt: skip
        times = f"{ms:8.2f} {ort:8.2f} {eager:8.2f} {ort / ms:6.2f} {eager / ms:6.2f}"
        return f"{size:>7} {times} {difference:11.1e} {compiled:11.2f}"

    def profile(self) -> str:
        """Where the time of the last row goes."""
        return str(next(reversed(self.embed._compiled.values())).routine.profile())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", nargs="+", default=["1x32", "1x128", "32x32", "32x128"], help="sentences x tokens")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.15, help="of each of the three in a round")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--pack-each-call", action="store_true", help="without the setting `precompute_weights`")
    arguments = parser.parse_args()
    with oc.settings(precompute_weights=not arguments.pack_each_call):
        compare(arguments)


def compare(arguments: argparse.Namespace) -> None:
    comparison = Comparison(arguments.threads, arguments.weights)
    times = f"{'ms':>8} {'ORT':>8} {'PyTorch':>8} {'ratio':>6} {'ratio':>6}"
    print(f"{'size':>7} {times} {'difference':>11} {'compiled s':>11}")
    for size in arguments.sizes:
        print(comparison.row(size, arguments.rounds, arguments.seconds), flush=True)
        if arguments.profile:
            print(comparison.profile())


if __name__ == "__main__":
    main()
