"""Kernels of the programs that backends are judged and measured by, without running any."""

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
from ocannl_backend_triton.kernel import Kernel, Module

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

WORKLOADS = ("W2", "W4", "W5", "W6_chain", "W6_layernorm", "W6_softmax", "W6_sum", "W7_qk")


class NothingRuns(Exception):
    pass


def refuse() -> None:
    raise NothingRuns


class CollectingMachine:
    """Implements `Machine`: keeps the programs that it is given. Linking one ends by what `leave` raises."""

    words = "collecting"
    targets = ()

    def __init__(self, leave: Callable[[], object] = refuse) -> None:
        self.modules: list[Module] = []
        self._leave = leave

    def devices(self):
        return devices()

    def compile(self, modules: Sequence[Module]):
        self.modules += modules
        return {}

    def link(self, package, number, queue, locations):
        self._leave()


def of_workloads(names: Iterable[str] = WORKLOADS) -> list[Module]:
    """What the workloads of the benchmarks are on a GPU."""
    from compare.models import model
    from compare.workloads import WORKLOADS as KNOWN

    machine = CollectingMachine()
    with patch.dict(registry._backends, triton=TritonBackend(machine)), oc.settings(cache=False):
        context = oc.Context("triton")
        for name in names:
            made = model(KNOWN[name]())
            with suppress(NothingRuns):
                context.compile(made.code, name=name, keep=made.results)
    return machine.modules


def distinct(modules: Iterable[Module]) -> Iterator[tuple[Module, Kernel]]:
    """The kernels that differ in more than names."""
    seen = set()
    for module in modules:
        for kernel in module.kernels:
            text = re.search(rf"def {kernel.name}\((.*?)(?=^@triton|\Z)", module.source, re.S | re.M)
            shape = (text and text[1], kernel.grid, kernel.constants, kernel.num_warps, kernel.num_stages)
            if shape not in seen:
                seen.add(shape)
                yield module, kernel
