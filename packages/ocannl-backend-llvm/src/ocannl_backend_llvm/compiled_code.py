"""Compiles, loads and restores packages of programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cache, partial
from itertools import takewhile

from ocannl.backend.cpu.native_code import NativeCode, Package, Source, recorded
from ocannl.codegen import Signature
from ocannl_backend_llvm import jit, parallel_codegen
from ocannl_backend_llvm.interrupts import not_interrupted
from ocannl_backend_llvm.jit import Target, symbol
from ocannl_backend_llvm.thread_pool import compile_in_background, thread_pool_code
from ocannl_backend_llvm.vectorcall import DIRECT, TEXT


def compile_package(programs: Sequence[Signature], modules: Iterable[str], target: Target) -> NativeCode:
    """Compiles and loads programs. An interrupt takes effect between two modules."""
    interrupts: list[None] = []
    remaining = takewhile(lambda _: not interrupts, modules)
    return not_interrupted(partial(_compile_package, programs, remaining, target), partial(interrupts.append, None))


def _compile_package(programs: Sequence[Signature], modules: Iterable[str], target: Target) -> NativeCode:
    source = Source()
    with compile_in_background() if any(program.is_parallel for program in programs) else nullcontext():
        compiled = parallel_codegen.compile_texts(recorded(modules, source), target)
    if any(program.holds_gil for program in programs):
        compiled.append(_direct(target))
    return _load_package(Package(str(target), tuple(programs), source.packed(), tuple(compiled)))


@cache
def _direct(target: Target) -> bytes:
    return parallel_codegen.compile_text(TEXT, target)


def restore_package(blob: bytes, target: Target) -> NativeCode:
    """Loads stored code without compiling it."""
    package = Package.read(blob, str(target))
    return not_interrupted(partial(_load_package, package))


def _load_package(package: Package) -> NativeCode:
    symbols = [symbol(program.name) for program in package.programs]
    if any(program.holds_gil for program in package.programs):
        symbols.append(DIRECT)
    library = jit.load(package.objects, symbols)
    return NativeCode(
        package, library, lambda name: library.address(symbol(name)), thread_pool_code, lambda: library.address(DIRECT)
    )
