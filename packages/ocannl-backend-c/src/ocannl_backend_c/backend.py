"""The C backend: compiles programs for the host CPU, with one compiler run per batch of programs unless it is long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ocannl.backend import Capabilities
from ocannl.backend.cpu import NativeBackend, NativeCode, Package, Source, backend_version, native_capabilities
from ocannl.backend.cpu.native_code import recorded
from ocannl.codegen import signature
from ocannl.ir.loops import Proc
from ocannl_backend_c import toolchain
from ocannl_backend_c.compiled_code import load_package
from ocannl_backend_c.dialect import TYPES
from ocannl_backend_c.emit import emit_units
from ocannl_backend_c.vectorcall import TEXT


def _capabilities() -> Capabilities:
    capabilities = native_capabilities(TYPES, toolchain.toolchain().vector_registers, _compile)
    return replace(capabilities, private_arrays=True)


def _compile(procs: Sequence[Proc]) -> NativeCode:
    tools, source = toolchain.toolchain(), Source()
    programs = [signature(proc) for proc in procs]
    ending = TEXT if any(program.holds_gil for program in programs) else ""
    code = toolchain.build(_with_ending(recorded(emit_units(procs), source), ending), tools)
    return load_package(Package(tools.target, tuple(programs), source.packed(), (code,)))


def _with_ending(texts: Iterator[str], ending: str) -> Iterator[str]:
    """Yields the texts, the last one followed by `ending`."""
    last = next(texts)
    for text in texts:
        yield last
        last = text
    yield last + ending


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
