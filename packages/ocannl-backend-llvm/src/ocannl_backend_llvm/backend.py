"""The LLVM backend: compiles programs for the processor it runs on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ocannl.backend import Capabilities, Code, Entry, Location, Queue
from ocannl.backend.cpu.device import CpuDevice, caches, devices
from ocannl.backend.cpu.native import NativeCode, check, release, undivided
from ocannl.codegen import signature
from ocannl.ir.loops import Proc
from ocannl_backend_llvm import jit
from ocannl_backend_llvm.code import compiled, restored
from ocannl_backend_llvm.types import HELD


@cache
def _capabilities() -> Capabilities:
    width, registers = jit.host().vectors
    names = frozenset(precision.name for precision in HELD)
    return Capabilities(names, vector_bytes=width, vector_registers=registers, caches=caches(), stamps=True)


class LlvmBackend:
    """Implements `Backend`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return "llvm"

    @property
    def version(self) -> str:
        return f"{release('ocannl-backend-llvm', __file__)} {jit.llvm_version()} {jit.host()}"

    @property
    def capabilities(self) -> Capabilities:
        return _capabilities()

    def compile(self, procs: Sequence[Proc]) -> NativeCode:
        with undivided:
            from ocannl_backend_llvm.emit import emit  # code that is kept needs nothing of it

        check(procs, _capabilities(), self.name)
        target = jit.host()
        return compiled([signature(proc) for proc in procs], emit(procs, target.instructions), target)

    def restore(self, blob: bytes) -> NativeCode:
        return restored(blob, jit.host())

    def link(self, code: Code, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        assert isinstance(code, NativeCode)
        return code.link(name, queue, locations)

    def device_count(self) -> int:
        return len(devices())

    def device(self, ordinal: int) -> CpuDevice:
        return devices()[ordinal]
