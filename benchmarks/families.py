"""Families of programs at several sizes, beside PyTorch (eager and compiled), JAX and ONNX Runtime.

    python benchmarks/families.py [FAMILY ...] [--threads N] [--backend llvm] [--quick] [--write PATH]

The systems take turns in one process for each family, bound to as many cores as there are threads, and the shortest of
several rounds counts. A pause precedes each turn: threads of other systems spin for a while on the cores that are timed
next. Ratios are those of the fastest peer to ocannl; above 1, ocannl is faster. Beside them stands the largest
difference between the results of ocannl and of PyTorch, relative to the largest element. ONNX Runtime runs the models
that PyTorch exports, of programs without gradients. With `--write`, results are written as JSON and as a table.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
from compare.families import Cell, family_cells, line, table
from compare.machine import described
from operations import reuse_freed_memory
from twins.families import FAMILIES, Function, Model
from twins.objectives import Adam, Objective, Training

import ocannl as oc
from ocannl import train

Call = Callable[[], Any]
Peers = dict[str, Callable[[], Call]]
FIRST_CALLS, ROUNDS, QUICK_ROUNDS, ROUND_SECONDS = 3, 5, 2, 0.1
PAUSE_SECONDS = 0.05
RATE = 1e-3


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


def function_calls(program: Function, ctx: oc.Context) -> tuple[Call, Peers]:
    """The call of a function of arrays in ocannl, and how those of the peers are made."""
    from twins import by_jax, by_onnx, by_torch

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
    peers: Peers = {
        "PyTorch": partial(by_torch.call_of, *twin, compiled=False),
        "compiled": partial(by_torch.call_of, *twin, compiled=True), "JAX": partial(by_jax.call_of, *twin),
    }  # fmt: skip
    if not params:
        peers["ONNX Runtime"] = partial(by_onnx.call_of, program.twin, program.arrays)
    return ours, peers


def model_calls(program: Model, ctx: oc.Context) -> tuple[Call, Peers]:
    """The call of a block, or of a training step, in ocannl, and how those of the peers are made."""
    from twins import by_jax, by_onnx, by_torch

    inputs = placed(ctx, program.inputs, program.batch_axes)
    output = program.block(*inputs.values())
    if program.target is None:
        ctx.init(output)
        with oc.settings(precompute_weights=True):  # packed once, as in functions of `oc.compile` and in ONNX Runtime
            model = ctx.compile(output.forward)
        weights = {path: ctx[p] for path, p in program.block.params.items()}

        def ours() -> list[Any]:
            model()
            return [output]

        twin = (program.twin, weights, program.inputs)
        return ours, {
            "PyTorch": partial(by_torch.model_of, *twin, compiled=False),
            "compiled": partial(by_torch.model_of, *twin, compiled=True), "JAX": partial(by_jax.model_of, *twin),
            "ONNX Runtime": partial(by_onnx.model_of, *twin),
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

    return step, {
        "PyTorch": lambda: partial(by_torch.Trainer(training).step, batch),
        "compiled": lambda: partial(by_torch.Trainer(training, True).step, batch),
        "JAX": lambda: partial(by_jax.Trainer(training).step, batch),
    }


# --- measurement ------------------------------------------------------------------------------------------------------


def as_arrays(ctx: oc.Context, results: Any) -> list[np.ndarray[Any, Any]]:
    listed = results if isinstance(results, (list, tuple)) else [results]
    return [np.asarray(ctx[x] if isinstance(x, oc.Tensor) else x, "float64") for x in listed]


def difference(ctx: oc.Context, ours: Call, pytorch: Call) -> float:
    """Between the results of ocannl and of PyTorch in the first calls, of which each may be a training step, relative
    to the largest element of an array."""
    differences = []
    for _ in range(FIRST_CALLS):
        for a, b in zip(as_arrays(ctx, ours()), as_arrays(ctx, pytorch()), strict=True):
            differences.append(np.abs(a - b.reshape(a.shape)).max() / max(np.abs(b).max(), 1e-30))
    return float(np.max(differences))


def working(peers: Peers) -> tuple[dict[str, Call], dict[str, str]]:
    """The calls of the peers that can make and run them, and the errors of the others."""
    calls, failed = {}, {}
    for system, make in peers.items():
        try:
            call = make()
            call()
        except Exception as wrong:  # whatever a compiler raises
            failed[system] = f"{type(wrong).__name__}: {' '.join(str(wrong).split())}"[:300]
        else:
            calls[system] = call
    return calls, failed


def shortest_times(calls: Mapping[str, Call], rounds: int) -> dict[str, float]:
    """Milliseconds of a call."""
    times: dict[str, list[float]] = {system: [] for system in calls}
    for _ in range(rounds):
        for system, call in calls.items():
            sleep(PAUSE_SECONDS)
            start, count = perf_counter(), 0
            while (passed := perf_counter() - start) < ROUND_SECONDS or not count:
                call()
                count += 1
            times[system].append(1e3 * passed / count)
    return {system: min(samples) for system, samples in times.items()}


def measured(name: str, size: tuple[int, ...], threads: int, backend: str, rounds: int) -> Cell:
    import torch

    torch.compiler.reset()
    program = FAMILIES[name].build(np.random.default_rng(0), *size)
    ctx = oc.Context(backend, threads=threads)
    ours, peers = function_calls(program, ctx) if isinstance(program, Function) else model_calls(program, ctx)
    pytorch = peers["PyTorch"]()
    error = difference(ctx, ours, pytorch)
    calls, failed = working({**peers, "PyTorch": lambda: pytorch})
    return {
        "family": name, "size": size, "threads": threads, "times": shortest_times({"ocannl": ours, **calls}, rounds),
        "difference": error, "failed": failed,
    }  # fmt: skip


def cells_of(families: Sequence[str], arguments: argparse.Namespace) -> Iterator[Cell]:
    """Measures families, each in a process of its own unless it is the only one or the measurement is rough: the memory
    of one family slows down the next."""
    if len(families) > 1 and not arguments.quick:
        options = ["--backend", arguments.backend]
        with tempfile.TemporaryDirectory() as scratch:
            for name in families:
                yield from family_cells([name], arguments.threads, options, Path(scratch), partial(print, flush=True))
        return
    import torch

    reuse_freed_memory()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])  # JAX starts a thread for each
    torch.set_num_threads(arguments.threads)
    for name in families:
        sizes = FAMILIES[name].sizes
        for size in sizes[:1] if arguments.quick else sizes:
            rounds = QUICK_ROUNDS if arguments.quick else ROUNDS
            cell = measured(name, size, arguments.threads, arguments.backend, rounds)
            print(line(cell), flush=True)
            yield cell


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--backend", default="llvm")
    parser.add_argument("--quick", action="store_true", help="the first size of each family, in two rounds: rough")
    parser.add_argument("--write", type=Path, help="path of the results without an ending")
    arguments = parser.parse_args()
    unknown = set(arguments.families) - set(FAMILIES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    cells = list(cells_of(arguments.families or list(FAMILIES), arguments))
    print(f"\n{table(cells)}")
    if arguments.write:
        results = {
            "machine": described(), "threads": arguments.threads, "backend": arguments.backend, "cells": cells,
        }  # fmt: skip
        arguments.write.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        arguments.write.with_suffix(".md").write_text(table(cells), encoding="utf-8")


if __name__ == "__main__":
    main()
