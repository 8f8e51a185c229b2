"""Families of programs at several sizes, beside PyTorch (eager and compiled) and JAX.

    python benchmarks/families.py [FAMILY ...] [--threads N] [--backend llvm] [--write PATH]

The systems take turns in one process, bound to as many cores as there are threads, and the shortest of several rounds
counts. Ratios are those of the fastest peer to ocannl; above 1, ocannl is faster. The last column is the largest
difference between the results of ocannl and of PyTorch, relative to the largest element. With `--write`, the results
are written as JSON and as a table.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from compare.machine import described
from operations import reuse_freed_memory
from twins.families import FAMILIES, Function, Model
from twins.objectives import Adam, Objective, Training

import ocannl as oc
from ocannl import train

Call = Callable[[], Any]
FIRST_CALLS, ROUNDS, ROUND_SECONDS = 3, 5, 0.1
RATE = 1e-3


@dataclass(frozen=True)
class Cell:
    """The shortest times of a program at a size, by system, in milliseconds."""

    family: str
    size: tuple[int, ...]
    times: Mapping[str, float]
    difference: float

    @property
    def size_text(self) -> str:
        return "x".join(map(str, self.size))

    @property
    def ratio(self) -> float:
        return min(time for system, time in self.times.items() if system != "ocannl") / self.times["ocannl"]


# --- calls of all systems ---------------------------------------------------------------------------------------------


def placed(ctx: oc.Context, arrays: Mapping[str, Any], batch_axes: Mapping[str, int]) -> dict[str, oc.Tensor]:
    """Placeholders that hold the arrays."""
    tensors = {}
    for name, array in arrays.items():
        count = batch_axes.get(name, 0)
        batch, output = list(array.shape[:count]), list(array.shape[count:])
        tensors[name] = oc.placeholder(name, batch=batch, output=output, dtype=array.dtype)
        ctx[tensors[name]] = array
    return tensors


def param(name: str, array: Any, batch_axes: int) -> oc.Tensor:
    return oc.param(name, array, batch=list(array.shape[:batch_axes]), output=list(array.shape[batch_axes:]))


def calls_of_function(program: Function, ctx: oc.Context) -> dict[str, Call]:
    from twins import by_jax, by_torch

    others = {name: array for name, array in program.arrays.items() if name not in program.learned}
    params = {name: param(name, program.arrays[name], program.batch_axes.get(name, 0)) for name in program.learned}
    output = program.ours(**params, **placed(ctx, others, program.batch_axes))
    ctx.init(output)
    if params:
        grads = [p.grad for p in params.values()]
        routine = ctx.compile(train.grad_update(output), keep=grads)
    else:
        grads = [output]
        routine = ctx.compile(output.forward)

    def ours() -> list[Any]:
        routine()
        return grads

    twin = (program.twin, program.arrays, program.learned)
    return {
        "ocannl": ours, "PyTorch": by_torch.call_of(*twin, compiled=False),
        "compiled": by_torch.call_of(*twin, compiled=True), "JAX": by_jax.call_of(*twin),
    }  # fmt: skip


def calls_of_model(program: Model, ctx: oc.Context) -> dict[str, Call]:
    from twins import by_jax, by_torch

    inputs = placed(ctx, program.inputs, program.batch_axes)
    output = program.block(*inputs.values())
    if program.target is None:
        ctx.init(output)
        model = ctx.compile(output.forward)
        weights = {path: ctx[p] for path, p in program.block.params.items()}

        def ours() -> list[Any]:
            model()
            return [output]

        twin = (program.twin, weights, program.inputs)
        return {
            "ocannl": ours, "PyTorch": by_torch.model_of(*twin, compiled=False),
            "compiled": by_torch.model_of(*twin, compiled=True), "JAX": by_jax.model_of(*twin),
        }  # fmt: skip
    target = placed(ctx, {"target": program.target}, {"target": program.batch_axes["x"]})["target"]
    loss = getattr(oc, program.loss)(output, target).mean()
    ctx.init(loss)
    states = {path: ctx[state] for path, state in program.block.states.items()}
    weights = {path: ctx[p] for path, p in program.block.params.items()} | states

    def twin_loss(lib: Any, w: Any, batch: Any) -> Any:
        return getattr(lib, program.loss)(program.twin(lib, w, batch["x"]), batch["target"])

    training = Training([Objective(twin_loss)], twin_loss, Adam(RATE), weights, frozenset(states))
    routine = ctx.compile(oc.seq(train.grad_update(loss), train.adamw(loss, RATE, weight_decay=0.0)), keep=[loss])
    batch = {**program.inputs, "target": program.target}

    def step() -> list[Any]:
        routine()
        return [float(ctx[loss])]

    trainers = {
        "PyTorch": by_torch.Trainer(training), "compiled": by_torch.Trainer(training, True),
        "JAX": by_jax.Trainer(training),
    }  # fmt: skip
    return {"ocannl": step} | {name: partial(trainer.step, batch) for name, trainer in trainers.items()}


# --- measurement ------------------------------------------------------------------------------------------------------


def as_arrays(ctx: oc.Context, results: Any) -> list[np.ndarray[Any, Any]]:
    listed = results if isinstance(results, (list, tuple)) else [results]
    return [np.asarray(ctx[x] if isinstance(x, oc.Tensor) else x, "float64") for x in listed]


def difference(ctx: oc.Context, calls: Mapping[str, Call]) -> float:
    """Between the results of ocannl and of PyTorch in the first calls, of which each may be a training step, relative
    to the largest element of an array."""
    differences = []
    for _ in range(FIRST_CALLS):
        ours, theirs = (as_arrays(ctx, calls[system]()) for system in ("ocannl", "PyTorch"))
        for a, b in zip(ours, theirs, strict=True):
            differences.append(np.abs(a - b.reshape(a.shape)).max() / max(np.abs(b).max(), 1e-30))
    return float(np.max(differences))


def shortest_times(calls: Mapping[str, Call]) -> dict[str, float]:
    """Milliseconds of a call."""
    times: dict[str, list[float]] = {system: [] for system in calls}
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for system, call in calls.items():
            start, count = perf_counter(), 0
            while (passed := perf_counter() - start) < ROUND_SECONDS or not count:
                call()
                count += 1
            times[system].append(1e3 * passed / count)
    return {system: min(samples) for system, samples in times.items()}


def measured(name: str, size: tuple[int, ...], threads: int, backend: str) -> Cell:
    import torch

    torch.compiler.reset()
    program = FAMILIES[name].build(np.random.default_rng(0), *size)
    ctx = oc.Context(backend, threads=threads)
    calls = calls_of_function(program, ctx) if isinstance(program, Function) else calls_of_model(program, ctx)
    error = difference(ctx, calls)
    return Cell(name, size, shortest_times(calls), error)


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def report(cells: list[Cell]) -> str:
    """A table in Markdown."""
    rows = [
        [cell.family, cell.size_text, *(f"{time:.3g}" for time in cell.times.values()), f"{cell.ratio:.2f}"]
        for cell in cells
    ]
    head = ["family", "size", *(f"{system}, ms" for system in cells[0].times), "ratio"]
    lines = [head, ["---"] * len(head), *rows]
    ratios = [cell.ratio for cell in cells]
    behind = sum(ratio < 1 for ratio in ratios)
    return (
        "\n".join(f"| {' | '.join(line)} |" for line in lines)
        + f"\n\nGeometric mean {geometric_mean(ratios):.2f}, {behind} of {len(cells)} below 1.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--backend", default="llvm")
    parser.add_argument("--write", type=Path, help="path of the results without an ending")
    arguments = parser.parse_args()
    unknown = set(arguments.families) - set(FAMILIES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    reuse_freed_memory()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])  # JAX starts a thread for each
    import torch

    torch.set_num_threads(arguments.threads)
    cells = []
    for name in arguments.families or FAMILIES:
        for size in FAMILIES[name].sizes:
            cell = measured(name, size, arguments.threads, arguments.backend)
            cells.append(cell)
            times = "".join(f"{time:>10.3f}" for time in cell.times.values())
            print(f"{name:<26}{cell.size_text:<20}{times}{cell.ratio:>8.2f}{cell.difference:>10.1e}", flush=True)
    print(f"\n{report(cells)}")
    if arguments.write:
        results = {
            "machine": described(), "threads": arguments.threads, "backend": arguments.backend,
            "cells": list(map(asdict, cells)),
        }  # fmt: skip
        arguments.write.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
        arguments.write.with_suffix(".md").write_text(report(cells))


if __name__ == "__main__":
    main()
