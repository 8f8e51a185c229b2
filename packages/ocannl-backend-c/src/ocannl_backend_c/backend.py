"""The C backend: compiles programs for the host CPU, with one compiler run per batch of programs."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.backend import Capabilities, CompiledCode, Entry, Location, Queue
from ocannl.backend.cpu.device import CpuDevice, caches, devices
from ocannl.backend.cpu.native import NativeCode, Package, backend_version, validate
from ocannl.codegen import signature
from ocannl.ir.loops import Proc
from ocannl_backend_c import toolchain
from ocannl_backend_c.compiled_code import load_package
from ocannl_backend_c.dialect import TYPES
from ocannl_backend_c.emit import emit
from ocannl_backend_c.vectorcall import TEXT


def _capabilities() -> Capabilities:
    width, registers = toolchain.toolchain().vector_registers
    names = frozenset(precision.name for precision in TYPES)
    return Capabilities(names, vector_bytes=width, vector_registers=registers, caches=caches(), timestamps=True)


class CBackend:
    """Implements `Backend`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return "c"

    @property
    def version(self) -> str:
        return f"{backend_version('ocannl-backend-c', __file__)} {toolchain.toolchain()}"

    @property
    def capabilities(self) -> Capabilities:
        return _capabilities()

    def compile(self, procs: Sequence[Proc]) -> NativeCode:
        validate(procs, _capabilities(), self.name)
        tools, text = toolchain.toolchain(), emit(procs)
        programs = [signature(proc) for proc in procs]
        direct_text = TEXT if any(program.holds_gil for program in programs) else ""
        return load_package(Package.of(tools.target, programs, text, [toolchain.build(text + direct_text, tools)]))

    def restore(self, blob: bytes) -> NativeCode:
        return load_package(Package.read(blob, toolchain.toolchain().target))

    def link(self, code: CompiledCode, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        assert isinstance(code, NativeCode)
        return code.link(name, queue, locations)

    def device_count(self) -> int:
        return len(devices())

    def device(self, ordinal: int) -> CpuDevice:
        return devices()[ordinal]
