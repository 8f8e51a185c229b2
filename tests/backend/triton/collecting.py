"""Collects the kernels of the conformance kit and of the benchmarks, without running them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import ocannl as oc
from ocannl.backend import registry
from ocannl.backend.cpu.device import devices
from ocannl_backend_triton.backend import TritonBackend
from ocannl_backend_triton.kernel_module import Kernel, KernelModule

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

WORKLOADS = ("W2", "W4", "W5", "W6_chain", "W6_layernorm", "W6_softmax", "W6_sum", "W7_qk")


class NotExecuted(Exception):
    pass


def raise_not_executed() -> None:
    raise NotExecuted


class CollectingMachine:
    """Implements `Machine`: collects the modules it compiles. Linking calls `on_link`, which raises an exception."""

    fingerprint = "collecting"
    targets = ()

    def __init__(self, on_link: Callable[[], object] = raise_not_executed) -> None:
        self.modules: list[KernelModule] = []
        self._on_link = on_link

    def devices(self):
        return devices()

    def compile(self, modules: Sequence[KernelModule]):
        self.modules += modules
        return {}

    def link(self, package, number, queue, locations):
        self._on_link()


def workload_modules(names: Iterable[str] = WORKLOADS) -> list[KernelModule]:
    """The modules of the benchmarks' workloads."""
    from compare.models import model
    from compare.workloads import WORKLOADS as BENCHMARKS

    machine = CollectingMachine()
    with patch.dict(registry._backends, triton=TritonBackend(machine)), oc.settings(cache=False):
        context = oc.Context("triton")
        for name in names:
            compared_model = model(BENCHMARKS[name]())
            with suppress(NotExecuted):
                context.compile(compared_model.code, name=name, keep=compared_model.results)
    return machine.modules


def distinct_kernels(modules: Iterable[KernelModule]) -> Iterator[tuple[KernelModule, Kernel]]:
    """Kernels without duplicates that differ only in their names."""
    seen = set()
    for module in modules:
        for kernel in module.kernels:
            text = re.search(rf"def {kernel.name}\((.*?)(?=^@triton|\Z)", module.source, re.S | re.M)
            shape = (text and text[1], kernel.grid, kernel.constants, kernel.num_warps, kernel.num_stages)
            if shape not in seen:
                seen.add(shape)
                yield module, kernel
