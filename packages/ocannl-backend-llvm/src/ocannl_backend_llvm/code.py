"""Compiled programs: objects loaded into this process."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.backend.native import NativeCode, Package
from ocannl.codegen import Signature
from ocannl_backend_llvm import engine
from ocannl_backend_llvm.emit import symbol
from ocannl_backend_llvm.engine import Target
from ocannl_backend_llvm.team import team_code


def compiled(programs: Sequence[Signature], source: str, target: Target) -> NativeCode:
    return _loaded(Package.of(str(target), programs, source, engine.compile_text(source, target)))


def restored(blob: bytes, target: Target) -> NativeCode:
    """The same code, without any work by LLVM but loading it."""
    return _loaded(Package.read(blob, str(target)))


def _loaded(package: Package) -> NativeCode:
    library = engine.load(package.code, [symbol(program.name) for program in package.programs])
    return NativeCode(package, library, lambda name: library.address(symbol(name)), team_code)
