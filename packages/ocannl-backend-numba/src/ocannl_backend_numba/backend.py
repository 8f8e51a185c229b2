"""The backend itself: compiles the text of programs, and gives their addresses to the runtime of CPU backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core.errors import NumbaError

from ocannl.backend import Capabilities, CompileError
from ocannl.backend.cpu import NativeBackend, NativeCode, Package, backend_version, native_capabilities
from ocannl.codegen import signature
from ocannl.ir.loops import Proc
from ocannl.ir.precision import precision
from ocannl_backend_numba.arithmetic import OPERATIONS
from ocannl_backend_numba.emit import KINDS, NAMES, emit, symbol
from ocannl_backend_numba.thread_pool import thread_pool_code
from ocannl_backend_numba.vectorcall import direct

TARGET = f"numba {numba.__version__} {llvm.get_host_cpu_name()}"


@cache
def _vector_registers() -> tuple[int, int]:
    """The size in bytes and the number of the vector registers of this processor."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 64, 32
    return (32, 16) if features.get("avx2") else (16, 16)


@cache
def _capabilities() -> Capabilities:
    native = native_capabilities(map(precision, KINDS), _vector_registers(), _compile)
    return replace(native, operations=OPERATIONS)


def _compile(procs: Sequence[Proc]) -> NativeCode:
    text = emit(procs, _vector_registers()[0])
    functions: dict[str, Any] = dict(NAMES)
    try:
        exec(compile(text, "<ocannl numba>", "exec"), functions)
    except (NumbaError, SyntaxError, RecursionError, MemoryError) as error:
        raise CompileError(f"Numba rejected the source of a program: {error}") from None
    package = Package.of(TARGET, [signature(proc) for proc in procs], text, [])
    return NativeCode(
        package, functions, lambda name: functions[symbol(name)].address, thread_pool_code, lambda: direct().address
    )


class NumbaBackend(NativeBackend):
    """Implements `Backend`."""

    __slots__ = ()

    source_suffix = ".py"

    @property
    def name(self) -> str:
        return "numba"

    @property
    def version(self) -> str:
        return f"{backend_version('ocannl-backend-numba', __file__)} {TARGET}"

    @property
    def capabilities(self) -> Capabilities:
        return _capabilities()

    def compile_valid(self, procs: Sequence[Proc]) -> NativeCode:
        return _compile(procs)
