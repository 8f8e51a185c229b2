"""The Triton backend: kernels for graphics processors, or, without one, in triton's interpreter."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path

from ocannl import codegen
from ocannl.backend import Capabilities, Code, Device, Entry, Location, Queue
from ocannl.backend.cpu.native import check
from ocannl.base.config import ONLINE_SOFTMAX, PRODUCTS
from ocannl.ir.loops import Proc
from ocannl_backend_triton.machine import Machine
from ocannl_backend_triton.package import Package
from ocannl_backend_triton.shrink_to_shared_memory import fitted, sizes_of
from ocannl_backend_triton.source import module
from ocannl_backend_triton.types import HELD

LANES = 1 << 18  # of the largest GPUs; that smaller ones have the same parts of sums makes their results the same
CAPABILITIES = Capabilities(frozenset(precision.name for precision in HELD), scheduled=False, grouped=True, lanes=LANES)


@cache
def _text() -> str:
    """The very text of this package: whatever changes code changes this."""
    digest = hashlib.sha256()
    for file in (__file__, codegen.__file__):
        for source in sorted(Path(file).parent.rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


class TritonBackend:
    """Implements `Backend`."""

    __slots__ = ("_machine",)

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @property
    def name(self) -> str:
        return "triton"

    @property
    def version(self) -> str:
        return f"{_text()} {self._target} products={PRODUCTS.get()}"

    @property
    def _target(self) -> str:
        return f"triton {metadata.version('triton')} {self._machine.words}"

    @property
    def capabilities(self) -> Capabilities:
        return replace(CAPABILITIES, online=ONLINE_SOFTMAX.get())

    def compile(self, procs: Sequence[Proc]) -> Package:
        return self.compile_in(procs, [()] * len(procs))

    def ways(self, nest: Proc) -> list[int]:
        """Of the table of sizes, those that make a difference to the kernels."""
        table = sizes_of(self._machine)
        made: dict[tuple[object, ...], int] = {}
        for number, sizes in enumerate(table):
            found = module(nest, PRODUCTS.get(), sizes)
            made.setdefault((found.source, found.kernels), number)
        return list(made.values())

    def compile_in(self, procs: Sequence[Proc], ways: Sequence[Sequence[int]]) -> Package:
        check(procs, CAPABILITIES, self.name)
        table = sizes_of(self._machine)
        sizes = [{place: table[way] for place, way in enumerate(mine)} for mine in ways]
        return Package(self._target, *fitted(procs, sizes, table[0], self._machine))

    def restore(self, blob: bytes) -> Package:
        return Package.read(blob, self._target)

    def link(self, code: Code, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        assert isinstance(code, Package)
        return self._machine.link(code, code.number(name), queue, locations)

    def device_count(self) -> int:
        return len(self._machine.devices())

    def device(self, ordinal: int) -> Device:
        return self._machine.devices()[ordinal]
