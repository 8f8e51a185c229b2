"""One system and one workload in a process of its own: builds, runs, measures, and prints a line of JSON.

    python -m on_gpu.worker SYSTEM WORKLOAD SECONDS SIZE

A call is timed in stretches that end by waiting; the figure is the median stretch. `values` says what came out: losses
of the first steps, or the mean of each array and of its magnitude, so that systems can be compared.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from compare.workloads import TRAINING, Workload

from on_gpu.workloads import workload

STRETCH_S = 0.2
STEPS = 3
SYSTEMS = ("ocannl", "torch_eager", "torch_compile", "jax")


def prepared(system: str, inputs: Workload) -> tuple[str, Any, Callable[[], object]]:
    """The version, what is called, and what waits for it."""
    if system == "ocannl":
        from compare.adapter import adapter

        version, build = adapter(os.environ.get("BENCH_OCANNL_BACKEND", "triton"))
        run = build(inputs)
        return version(), run, run.sync
    if system == "jax":
        jax = importlib.import_module("on_gpu.by_jax")
        return jax.version(), jax.build(inputs), jax.sync
    torch = importlib.import_module("on_gpu.by_torch")
    return torch.version(), torch.build(inputs, compiled=system == "torch_compile"), torch.sync


def measured(system: str, name: str, seconds: float, size: str) -> dict[str, Any]:
    inputs = workload(name, small=size == "small")
    cell: dict[str, Any] = {key: inputs[key] for key in ("flops", "bytes") if key in inputs}
    cell["trains"] = inputs["kind"] in TRAINING
    try:
        start = perf_counter()
        cell["version"], run, sync = prepared(system, inputs)
        run.call()
        sync()
        cell["first_s"] = perf_counter() - start
        cell["values"] = values(run, sync, cell["trains"])
        cell["call_s"] = timed(run.call, sync, seconds)
    except Exception as wrong:
        cell["error"] = f"{type(wrong).__name__}: {wrong}"[:500]
    return cell


def values(run: Any, sync: Callable[[], object], trains: bool) -> list[float]:
    if not trains:
        value = run.value()
        arrays = [np.asarray(a, np.float64) for a in (value if isinstance(value, tuple | list) else [value])]
        return [float(number) for a in arrays for number in (a.mean(), np.abs(a).mean())]
    losses = [float(np.ravel(run.value())[0])]
    while len(losses) < STEPS:
        run.call()
        sync()
        losses.append(float(np.ravel(run.value())[0]))
    return losses


def timed(call: Callable[[], object], sync: Callable[[], object], seconds: float) -> float:
    def stretch(calls: int) -> float:
        sync()
        start = perf_counter()
        for _ in range(calls):
            call()
        sync()
        return (perf_counter() - start) / calls

    calls = 1
    while (seconds_per_call := stretch(calls)) * calls < min(STRETCH_S, seconds):
        calls *= 2
    return median(stretch(calls) for _ in range(max(3, round(seconds / (calls * seconds_per_call)))))


def main() -> None:
    system, name, seconds, size = sys.argv[1:]
    print("\n" + json.dumps(measured(system, name, float(seconds), size)))


if __name__ == "__main__":
    main()
