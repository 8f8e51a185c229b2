"""The Triton backend: kernels for graphics processors, or, without one, in triton's interpreter."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

from ocannl import codegen
from ocannl.backend import Capabilities, Code, Device, Entry, Location, Queue
from ocannl.backend.cpu import CpuDevice, devices
from ocannl.backend.cpu_queue import CpuQueue
from ocannl.backend.native import check
from ocannl.ir.loops import Proc
from ocannl_backend_triton import interpreter
from ocannl_backend_triton.code import TritonCode, restored
from ocannl_backend_triton.source import module
from ocannl_backend_triton.types import HELD

CAPABILITIES = Capabilities(frozenset(precision.name for precision in HELD), scheduled=False)


@cache
def _version() -> str:
    """The very text of the emitter, and the compiler: whatever changes code changes this."""
    digest = hashlib.sha256()
    for file in (__file__, codegen.__file__):
        for source in sorted(Path(file).parent.rglob("*.py")):
            digest.update(source.read_bytes())
    return f"{digest.hexdigest()[:12]} triton {metadata.version('triton')} interpreter"


class TritonBackend:
    """Implements `Backend`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return "triton"

    @property
    def version(self) -> str:
        return _version()

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def compile(self, procs: Sequence[Proc]) -> TritonCode:
        check(procs, CAPABILITIES, self.name)
        return TritonCode(tuple(map(module, procs)))

    def restore(self, blob: bytes) -> TritonCode:
        return restored(blob)

    def link(self, code: Code, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        device = queue.device
        assert isinstance(code, TritonCode) and isinstance(device, CpuDevice) and isinstance(queue, CpuQueue)
        return interpreter.link(code.module(name), device, queue, locations)

    def device_count(self) -> int:
        return len(devices())

    def device(self, ordinal: int) -> Device:
        return devices()[ordinal]
