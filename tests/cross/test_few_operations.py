"""Whole programs on backends that have only the operations which every backend needs: all others are composed, and
results agree with those of the reference backend."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import ocannl as oc
from ocannl.backend import registry
from ocannl.backend.reference.backend import ReferenceBackend
from ocannl.ir.capabilities import ALL_OPERATIONS
from ocannl.opt.simplify.compose_operations import COMPOSITIONS

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from compare.adapter import Run
from compare.workloads import Workload, chain, decoder, lenet, moons, rows

FEWEST = ALL_OPERATIONS - COMPOSITIONS.keys()
SMALL_DECODER = {"L": 1, "D": 12, "H": 3, "T": 9, "B": 2, "V": 11}
WORKLOADS: dict[str, Callable[[], Workload]] = {
    "transformer": lambda: decoder(SMALL_DECODER),
    "convolutions": lambda: lenet(2),
    "hinge loss": lambda: moons(8),
    "chain": lambda: chain(cells=1000),
    "layer norm": lambda: rows("layernorm", 7, (5, 24)),
}


class Weak(ReferenceBackend):
    capabilities = replace(ReferenceBackend.capabilities, operations=FEWEST)


class WeakGpu(ReferenceBackend):
    """Has the plans of GPUs."""

    capabilities = replace(
        ReferenceBackend.capabilities, operations=FEWEST, wants_fusion_groups=True, wants_online_softmax=True
    )


def weak_llvm() -> object:
    backend = registry.open_backend("llvm")

    class WeakLlvm(type(backend)):  # type: ignore[misc]
        __slots__ = ()
        capabilities = replace(backend.capabilities, operations=FEWEST)

    return WeakLlvm()


BACKENDS: dict[str, Callable[[], object]] = {
    "numpy": Weak, "gpu": WeakGpu, **({"llvm": weak_llvm} if find_spec("ocannl_backend_llvm") else {}),
}  # fmt: skip


@pytest.fixture(params=BACKENDS)
def weak(request, monkeypatch) -> str:
    monkeypatch.setitem(registry._backends, "weak", BACKENDS[request.param]())
    return "weak"


def values(backend: str, workload: Workload) -> list[np.ndarray]:
    """The results of three calls, such as the losses of three steps."""
    run = Run(backend, workload)
    results = []
    for _ in range(3):
        run.call()
        run.sync()
        value = run.value()
        results += [array.copy() for array in (value if isinstance(value, tuple) else (value,))]
    return results


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads(weak: str, name: str) -> None:
    with oc.settings(cache=False):
        expected, results = (values(backend, WORKLOADS[name]()) for backend in ("numpy", weak))
    for want, got in zip(expected, results, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_random_numbers(weak: str) -> None:
    """Words of the generator are equal, so the uniform numbers are as well."""
    draws = []
    for backend in ("numpy", weak):
        with oc.settings(cache=False):
            context = oc.Context(backend)
            noise = oc.uniform(output=[1000], key="noise")
            context.compile(noise.forward, keep=[noise])()
            draws.append(context.get(noise).copy())
    np.testing.assert_array_equal(*draws)


def test_functions(weak: str) -> None:
    """Elementary functions on ordinary values and at the edges."""
    x = oc.placeholder("x", output=[12])
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -3.25, 1e-30, -1e30, 88.0, np.inf, -np.inf, np.nan]
    results = []
    for backend in ("numpy", weak):
        with oc.settings(cache=False):
            context = oc.Context(backend)
            outputs = [
                oc.relu(x), abs(x), oc.sigmoid(x), oc.tanh(x), oc.exp(x), oc.log(abs(x)), oc.sqrt(abs(x)), 1 / x,
                oc.gelu(x), oc.softplus(x), oc.erf(x), oc.sin(x), x > 0, oc.ne(x, 1.0), oc.maximum(x, 0.5),
            ]  # fmt: skip
            routine = context.compile(oc.seq(*(output.forward for output in outputs)), keep=outputs)
            context.set(x, np.array(edges, np.float32))
            routine()
            results.append([context.get(output).astype(np.float64) for output in outputs])
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)
