"""The LLVM backend: compiles programs for the host CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ocannl.backend import Capabilities, CompiledCode, Entry, Location, Queue
from ocannl.backend.cpu.device import CpuDevice, caches, devices
from ocannl.backend.cpu.native import NativeCode, backend_version, import_lock, validate
from ocannl.codegen import signature
from ocannl.ir.loops import Proc
from ocannl_backend_llvm import jit
from ocannl_backend_llvm.compiled_code import compile_package, restore_package
from ocannl_backend_llvm.types import LLVM_TYPES


@cache
def _capabilities() -> Capabilities:
    width, registers = jit.host().vector_registers
    names = frozenset(precision.name for precision in LLVM_TYPES)
    return Capabilities(names, vector_bytes=width, vector_registers=registers, caches=caches(), timestamps=True)


class LlvmBackend:
    """Implements `Backend`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return "llvm"

    @property
    def version(self) -> str:
        return f"{backend_version('ocannl-backend-llvm', __file__)} {jit.llvm_version()} {jit.host()}"

    @property
    def capabilities(self) -> Capabilities:
        return _capabilities()

    def compile(self, procs: Sequence[Proc]) -> NativeCode:
        with import_lock:
            from ocannl_backend_llvm.emit import emit  # not needed to restore stored code

        validate(procs, _capabilities(), self.name)
        target = jit.host()
        return compile_package([signature(proc) for proc in procs], emit(procs, target.instructions), target)

    def restore(self, blob: bytes) -> NativeCode:
        return restore_package(blob, jit.host())

    def link(self, code: CompiledCode, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        assert isinstance(code, NativeCode)
        return code.link(name, queue, locations)

    def device_count(self) -> int:
        return len(devices())

    def device(self, ordinal: int) -> CpuDevice:
        return devices()[ordinal]
