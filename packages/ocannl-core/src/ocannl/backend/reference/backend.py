"""The reference backend, "numpy": slow, exact and always available; the oracle of all backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.backend.api import Backend, BackendInfo, CompiledCode, Device, Entry, Location, Queue
from ocannl.backend.cpu.device import CpuDevice, devices
from ocannl.backend.cpu.native_code import validate
from ocannl.backend.cpu.queue import CpuQueue
from ocannl.backend.discovery import REFERENCE_DESCRIPTION, REFERENCE_PRIORITY
from ocannl.backend.hookspecs import hookimpl
from ocannl.backend.reference.vectorization import Analysis, analyse
from ocannl.backend.reference.vectorized_interpreter import bind
from ocannl.base.errors import CompileError
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Buf, MemorySpace, Proc
from ocannl.ir.printer import print_proc

NAME = "numpy"


@dataclass(frozen=True, slots=True)
class ReferenceCode:
    """Programs with the analysis of their loops."""

    programs: dict[str, Analysis]

    @property
    def source(self) -> str:
        return "\n".join(print_proc(a.proc) for a in self.programs.values())

    @property
    def blob(self) -> None:
        return None


class ReferenceBackend:
    """Implements `Backend`."""

    name = NAME
    capabilities = Capabilities(wants_schedule=False)

    @property
    def version(self) -> str:
        return f"numpy {np.__version__}"

    def compile(self, procs: Sequence[Proc]) -> CompiledCode:
        validate(procs, self.capabilities, NAME)
        return ReferenceCode({proc.name: analyse(proc) for proc in procs})

    def restore(self, blob: bytes) -> CompiledCode:
        raise CompileError("the reference backend produces no code to cache")

    def link(self, code: CompiledCode, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        device = queue.device
        assert isinstance(code, ReferenceCode) and isinstance(device, CpuDevice) and isinstance(queue, CpuQueue)
        control = queue.control
        analysis = code.programs[name]
        proc = analysis.proc
        pooled = [b for b in proc.bufs if b.space is MemorySpace.GLOBAL]
        buffers = {b: _flat(device, where, b) for b, where in zip(pooled, locations, strict=False)}
        if proc.arena:
            start = locations[len(pooled)]
            for buf in proc.bufs:
                if buf.space is MemorySpace.ARENA:
                    assert buf.offset is not None
                    buffers[buf] = _flat(device, Location(start.pool, start.offset_bytes + buf.offset), buf)
        return bind(analysis, buffers, proc.syms, lambda: control.cancelled)

    def device_count(self) -> int:
        return len(devices())

    def device(self, ordinal: int) -> Device:
        return devices()[ordinal]


def _flat(device: CpuDevice, where: Location, buf: Buf) -> np.ndarray[Any, Any]:
    return device.window(where, buf.nbytes).view(buf.precision.numpy)


@hookimpl
def ocannl_backend() -> BackendInfo:
    return BackendInfo(
        name=NAME,
        api_version=1,
        description=REFERENCE_DESCRIPTION,
        priority=REFERENCE_PRIORITY,
        probe=lambda: None,
        load=_load,
    )


def _load() -> Backend:
    return ReferenceBackend()
