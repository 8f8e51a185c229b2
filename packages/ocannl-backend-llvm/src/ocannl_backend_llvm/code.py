"""Compiled programs: objects loaded into this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cache

from ocannl.backend.cpu.native import NativeCode, Package, Source
from ocannl.codegen import Signature
from ocannl_backend_llvm import jit, objects
from ocannl_backend_llvm.direct import DIRECT, TEXT
from ocannl_backend_llvm.jit import Target, symbol
from ocannl_backend_llvm.thread_pool import prepared, team_code


def compiled(programs: Sequence[Signature], modules: Iterable[str], target: Target) -> NativeCode:
    source = Source()
    with prepared() if any(program.shares for program in programs) else nullcontext():
        made = objects.compile_texts(_noted(modules, source), target)
    if any(program.brief for program in programs):
        made.append(_direct(target))
    return _loaded(Package(str(target), tuple(programs), source.packed(), tuple(made)))


@cache
def _direct(target: Target) -> bytes:
    return objects.compile_text(TEXT, target)


def _noted(modules: Iterable[str], source: Source) -> Iterator[str]:
    for number, text in enumerate(modules):
        source.add(f"\n{text}" if number else text)
        yield text


def restored(blob: bytes, target: Target) -> NativeCode:
    """The same code, without any work by LLVM but loading it."""
    return _loaded(Package.read(blob, str(target)))


def _loaded(package: Package) -> NativeCode:
    symbols = [symbol(program.name) for program in package.programs]
    if any(program.brief for program in package.programs):
        symbols.append(DIRECT)
    library = jit.load(package.objects, symbols)
    return NativeCode(
        package, library, lambda name: library.address(symbol(name)), team_code, lambda: library.address(DIRECT)
    )
