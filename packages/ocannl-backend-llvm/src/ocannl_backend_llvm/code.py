"""Compiled programs: objects loaded into this process."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.backend.native import NativeCode, Package
from ocannl.codegen import Signature
from ocannl_backend_llvm import engine
from ocannl_backend_llvm.direct import DIRECT, TEXT
from ocannl_backend_llvm.emit import symbol
from ocannl_backend_llvm.engine import Target
from ocannl_backend_llvm.team import team_code


def compiled(programs: Sequence[Signature], source: str, target: Target) -> NativeCode:
    called = TEXT if any(program.brief for program in programs) else ""
    return _loaded(Package.of(str(target), programs, source, engine.compile_text(source + called, target)))


def restored(blob: bytes, target: Target) -> NativeCode:
    """The same code, without any work by LLVM but loading it."""
    return _loaded(Package.read(blob, str(target)))


def _loaded(package: Package) -> NativeCode:
    symbols = [symbol(program.name) for program in package.programs]
    if any(program.brief for program in package.programs):
        symbols.append(DIRECT)
    library = engine.load(package.code, symbols)
    return NativeCode(
        package, library, lambda name: library.address(symbol(name)), team_code, lambda: library.address(DIRECT)
    )
