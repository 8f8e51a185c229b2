"""The LLVM backend: compiles programs for the host CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ocannl.backend import Capabilities
from ocannl.backend.cpu import NativeBackend, NativeCode, backend_version, native_capabilities
from ocannl.base.forks import import_lock
from ocannl.codegen import signature
from ocannl.ir.loops import Proc
from ocannl_backend_llvm import jit
from ocannl_backend_llvm.compiled_code import compile_package, restore_package
from ocannl_backend_llvm.types import LLVM_TYPES


def _capabilities() -> Capabilities:
    capabilities = native_capabilities(LLVM_TYPES, jit.host().vector_registers, _compile)
    present = jit.host().instructions
    return replace(
        capabilities, bfloat16_dots=present.bfloat16_dots, bfloat16_tiles=present.tile_unit,
        int16_dots=present.int16_lanes > 0, private_arrays=True,
    )  # fmt: skip


def _compile(procs: Sequence[Proc]) -> NativeCode:
    with import_lock:
        from ocannl_backend_llvm.emit import emit  # not needed to restore stored code

    target = jit.host()
    return compile_package([signature(proc) for proc in procs], emit(procs, target.instructions), target)


class LlvmBackend(NativeBackend):
    """Implements `Backend`."""

    __slots__ = ()

    source_suffix = ".ll"

    @property
    def name(self) -> str:
        return "llvm"

    @property
    def version(self) -> str:
        return f"{backend_version('ocannl-backend-llvm', __file__)} {jit.llvm_version()} {jit.host()}"

    @property
    def capabilities(self) -> Capabilities:
        return _capabilities()

    def compile_valid(self, procs: Sequence[Proc]) -> NativeCode:
        return _compile(procs)

    def restore(self, blob: bytes) -> NativeCode:
        return restore_package(blob, jit.host())
