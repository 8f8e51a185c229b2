"""Time of ONNX Runtime on models exported by ocannl, beside its time on exports of PyTorch of equal networks.

    python benchmarks/onnx_export.py [--rounds 30]

Prints the minimum of alternating rounds, and the ratio. One thread.
"""

from __future__ import annotations

import argparse
import io
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import torch

import ocannl as oc
from ocannl import nn

t = torch.nn


def normed_conv(before: int, after: int, window: int, stride: int = 1) -> Any:
    return t.Sequential(t.Conv2d(before, after, window, stride, window // 2, bias=False), t.BatchNorm2d(after))


class Residual(t.Module):  # type: ignore[misc]
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.block = t.Sequential(normed_conv(before, after, 3, stride), t.ReLU(), normed_conv(after, after, 3))
        self.short = t.Identity() if before == after else normed_conv(before, after, 1, stride)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.block(x) + self.short(x))


def torch_resnet() -> Any:
    parts: list[Any] = [normed_conv(3, 64, 7, 2), t.ReLU(), t.MaxPool2d(3, 2, 1)]
    before = 64
    for stage in range(4):
        for n in range(2):
            parts.append(Residual(before, 64 << stage, 2 if n == 0 and stage else 1))
            before = 64 << stage
    return t.Sequential(*parts, t.AdaptiveAvgPool2d(1), t.Flatten(), t.Linear(before, 1000))


def torch_encoder() -> Any:
    torch.backends.mha.set_fastpath_enabled(False)  # its operators have no form in ONNX
    layer = t.TransformerEncoderLayer(256, 4, 1024, 0.0, "gelu", batch_first=True, norm_first=True)
    return t.TransformerEncoder(layer, 4, enable_nested_tensor=False)


def session(model: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def of_torch(module: Any, example: Any) -> Any:
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), (example,), file, dynamo=False, opset_version=20)
    return session(file.getvalue())


def of_ocannl(net: Callable[[oc.Tensor], oc.Tensor], x: oc.Tensor) -> Any:
    return session(oc.onnx.export(net, inputs=[x], ctx=oc.Context()).SerializeToString())


def encoder(x: oc.Tensor) -> oc.Tensor:
    return nn.encoder(layers=4, heads=4, inner=1024, label="encoder")(x)


def networks() -> dict[str, tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    image = rng.normal(size=(1, 3, 160, 160)).astype("float32")
    steps = rng.normal(size=(1, 128, 256)).astype("float32")
    resnet = nn.resnet(layers=18)
    return {
        "ResNet-18, 160x160": (
            (of_ocannl(resnet, oc.placeholder("x", b=[1], i=[], o=[160, 160, 3])), image.transpose(0, 2, 3, 1)),
            (of_torch(torch_resnet(), torch.tensor(image)), image),
        ),
        "encoder, 4 layers, 128x256": (
            (of_ocannl(encoder, oc.placeholder("x", b=[1, 128], i=[], o=[256])), steps),
            (of_torch(torch_encoder(), torch.tensor(steps)), steps),
        ),
    }


def seconds(runner: Any, array: Any) -> float:
    name = runner.get_inputs()[0].name
    start = time.process_time()
    runner.run(None, {name: array})
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    print(f"{'network':30} {'ocannl ms':>10} {'torch ms':>10} {'ratio':>6}")
    for name, pair in networks().items():
        array_pairs = [(runner, np.ascontiguousarray(array)) for runner, array in pair]
        times = [[seconds(*run) for run in array_pairs] for _ in range(rounds)]
        ours, theirs = (min(row[n] for row in times) for n in range(2))
        print(f"{name:30} {1000 * ours:10.2f} {1000 * theirs:10.2f} {ours / theirs:6.2f}")


if __name__ == "__main__":
    main()
