"""Seconds until the first result of networks, beside compiled PyTorch.

    python benchmarks/compile_time.py [NETWORK ...]

Each figure is taken in a new process with one thread and its own cache folder: from the expression of the network, or
from its function in PyTorch, to the first result, or the end of the first step of training. Weights exist before.
`warm` is a second process that finds the caches of the first. The first results of both systems must agree.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

SYSTEMS = ("ocannl_llvm", "ocannl_c", "torch_compile")
RATE, TOLERANCE = 1e-3, 1e-3


@dataclass(frozen=True, slots=True)
class Network:
    """`block` makes the network and `twin` its function of weights in PyTorch; a step trains it with `loss`."""

    block: Callable[[], Any]
    twin: Callable[..., Any]
    inputs: tuple[int, ...]
    targets: tuple[int, ...]
    classes: int
    argument: str = "x"  # the name of the input of `twin`
    vocabulary: int = 0  # inputs are tokens, if there is one
    is_trained: bool = True


def gpt(is_trained: bool) -> Network:
    from twins.families import of_gpt

    length = 64 if is_trained else 128
    model = of_gpt(is_trained, np.random.default_rng(0), 1, length, 768, 12, 50_257)
    return Network(lambda: model.block, model.twin, (1, length), (1, length), 50_257, "x", 50_257, is_trained)


def vit(is_trained: bool) -> Network:
    from twins import models

    from ocannl import nn

    block = partial(nn.vit, patch=16, width=768, layers=12, heads=12, inner=3072, classes=1000, label="vit")
    twin = partial(models.vit, patch=16, heads=12)
    return Network(block, twin, (1, 224, 224, 3), (1,), 1000, "image", is_trained=is_trained)


def unet() -> Network:
    from twins.models import unet as twin

    from ocannl import nn

    block = partial(nn.unet, classes=4, widths=(32, 64, 128, 256), norm=True, label="unet")
    return Network(block, twin, (1, 64, 64, 3), (1, 64, 64), 4, "image")


NETWORKS: dict[str, Callable[[], Network]] = {
    "GPT-2": partial(gpt, False), "GPT-2 step": partial(gpt, True), "ViT": partial(vit, False),
    "ViT step": partial(vit, True), "U-Net step": unet,
}  # fmt: skip


# --- a process --------------------------------------------------------------------------------------------------------


def arrays(network: Network) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    x = rng.integers(0, network.vocabulary, network.inputs, "int32") if network.vocabulary else rng.normal(
        size=network.inputs).astype("float32")  # fmt: skip
    return x, rng.integers(0, network.classes, network.targets, "int32")


def network_of(network: Network, ctx: Any, block: Any, x: Any, target: Any) -> Any:
    """The loss, or the mean of the result."""
    import ocannl as oc

    batch = 2 if network.vocabulary else 1
    image = oc.placeholder("x", batch=list(x.shape[:batch]), output=list(x.shape[batch:]), dtype=x.dtype)
    labels = oc.placeholder("target", batch=list(target.shape), dtype=target.dtype)
    ctx[image], ctx[labels] = x, target
    output = block(image)
    if target.ndim == 3:  # a class for each pixel
        output = oc.einsum("...|h, w, c => ..., h, w|c", output)
    return oc.cross_entropy(output, labels).mean() if network.is_trained else output.mean()


def by_ocannl(network: Network, backend: str) -> tuple[float, float]:
    """Seconds, and the loss or the mean of the result."""
    import ocannl as oc
    from ocannl import train

    _ = train.adamw  # imported on first use
    ctx, block, data = oc.Context(backend, threads=1), network.block(), arrays(network)
    start = perf_counter()
    loss = network_of(network, ctx, block, *data)
    seconds = perf_counter() - start
    ctx.init(loss)
    start = perf_counter()
    code = loss.forward
    if network.is_trained:
        code = oc.seq(train.grad_update(loss), train.adamw(loss, RATE, weight_decay=0.0))
    ctx.compile(code, keep=[loss])()
    return seconds + perf_counter() - start, float(ctx[loss])


def by_torch_compile(network: Network) -> tuple[float, float]:
    """Seconds, and the loss or the mean of the result."""
    import torch
    from twins import by_torch
    from twins.objectives import Adam, Objective, Training

    import ocannl as oc

    torch.set_num_threads(1)
    ctx, block, (x, target) = oc.Context("llvm", threads=1), network.block(), arrays(network)
    ctx.init(network_of(network, ctx, block, x, target))
    states = {path: ctx[state] for path, state in block.states.items()}
    weights = {path: ctx[p] for path, p in block.params.items()} | states

    def twin_loss(lib: Any, w: Any, batch: Any) -> Any:
        return lib.cross_entropy(network.twin(lib, w, batch["x"]), batch["target"])

    torch._dynamo.config.cache_size_limit = 64
    torch.compile(torch.neg)(torch.ones(3))  # imports the compiler
    if network.is_trained:
        training = Training([Objective(twin_loss)], twin_loss, Adam(RATE), weights, frozenset(states))
        trainer = by_torch.Trainer(training, compiled=True)
        start = perf_counter()
        (value,) = trainer.step({"x": x, "target": target})
        return perf_counter() - start, value
    function = by_torch.model_of(network.twin, weights, {network.argument: x}, compiled=True)
    start = perf_counter()
    value = float(function().mean())
    return perf_counter() - start, value


def measured(name: str, system: str) -> tuple[float, float]:
    network = NETWORKS[name]()
    return by_torch_compile(network) if system == "torch_compile" else by_ocannl(network, system.split("_")[1])


# --- the table --------------------------------------------------------------------------------------------------------


def run(name: str, system: str, cache: str) -> tuple[float, float]:
    """Measures in a new process."""
    folders = {"OCANNL_CACHE_DIR": f"{cache}/ocannl", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/torch"}
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--worker", name, system]
    result = subprocess.run(command, env={**os.environ, **folders, **one}, check=True, capture_output=True, text=True)
    seconds, value = json.loads(result.stdout.splitlines()[-1])
    return seconds, value


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(measured(*arguments.worker)))
        return
    columns = " | ".join(f"{system}, s | warm, s" for system in SYSTEMS)
    print(f"| network | {columns} | torch_compile / ocannl_llvm |\n|{'---|' * (2 * len(SYSTEMS) + 2)}", flush=True)
    for name in arguments.networks or NETWORKS:
        seconds, values = {}, {}
        for system in SYSTEMS:
            with tempfile.TemporaryDirectory() as cache:
                (cold, values[system]), (warm, _) = run(name, system, cache), run(name, system, cache)
                seconds[system] = cold, warm
        expected = values["torch_compile"]
        assert all(abs(value - expected) < TOLERANCE * max(1, abs(expected)) for value in values.values()), values
        cells = [f"{figure:.2f}" for system in SYSTEMS for figure in seconds[system]]
        ratio = seconds["torch_compile"][0] / seconds["ocannl_llvm"][0]
        print(f"| {name} | {' | '.join(cells)} | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    main()
