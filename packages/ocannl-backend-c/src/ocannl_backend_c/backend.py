"""The C backend: compiles programs for the host CPU, with one compiler run per batch of programs."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.backend import Capabilities
from ocannl.backend.cpu import NativeBackend, NativeCode, Package, backend_version, native_capabilities
from ocannl.codegen import signature
from ocannl.ir.loops import Proc
from ocannl_backend_c import toolchain
from ocannl_backend_c.compiled_code import load_package
from ocannl_backend_c.dialect import TYPES
from ocannl_backend_c.emit import emit
from ocannl_backend_c.vectorcall import TEXT


def _capabilities() -> Capabilities:
    return native_capabilities(TYPES, toolchain.toolchain().vector_registers, _compile)


def _compile(procs: Sequence[Proc]) -> NativeCode:
    tools, text = toolchain.toolchain(), emit(procs)
    programs = [signature(proc) for proc in procs]
    direct_text = TEXT if any(program.holds_gil for program in programs) else ""
    return load_package(Package.of(tools.target, programs, text, [toolchain.build(text + direct_text, tools)]))


class CBackend(NativeBackend):
    """Implements `Backend`."""

    __slots__ = ()

    source_suffix = ".c"

    @property
    def name(self) -> str:
        return "c"

    @property
    def version(self) -> str:
        return f"{backend_version('ocannl-backend-c', __file__)} {toolchain.toolchain()}"

    @property
    def capabilities(self) -> Capabilities:
        return _capabilities()

    def compile_valid(self, procs: Sequence[Proc]) -> NativeCode:
        return _compile(procs)

    def restore(self, blob: bytes) -> NativeCode:
        return load_package(Package.read(blob, toolchain.toolchain().target))
