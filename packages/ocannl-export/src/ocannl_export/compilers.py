"""Compilers: the one of the C backend for this machine, and that of the `ziglang` wheel for others."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

from ocannl.base.errors import CompileError
from ocannl.base.work_folder import work_folder
from ocannl_backend_c import toolchain
from ocannl_export.errors import ExportError
from ocannl_export.targets import NATIVE, InstructionSet

ZIG = (sys.executable, "-m", "ziglang", "cc")
OPTIMIZATION = ("-O3", "-w")
NO_UNROLLED_LOOPS = ("--param=max-completely-peeled-insns=50", "--param=max-completely-peel-times=4")
"""Options of gcc, which clang ignores: loops that gain from unrolling are unrolled in the text already."""
COMPACT = ("-Os", "-w")
"""For functions that run seldom, which `-O3` makes larger by unrolled loops."""
NO_UNWINDING = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
"""No tables for exceptions, which C does not raise."""
SECTIONS = ("-ffunction-sections", "-fdata-sections")
"""Functions and arrays in sections of their own, so that linkers drop what a program does not use."""
SMALL_LIBRARIES = (
    "-Wl,-z,noseparate-code,-z,norelro,-z,common-page-size=64", "-Wl,--build-id=none", "-Wl,--hash-style=gnu",
    "-nostartfiles",
)  # fmt: skip
"""Options of GNU's linker for small shared libraries: without gaps between code, constants and data, and without the
code that runs constructors, which C does not have."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler. `options` are those that results depend on, and `careful` those that avoid its defects and
    its waste."""

    command: tuple[str, ...]
    careful: tuple[str, ...] = ()

    def options(self, optimization: Sequence[str] = OPTIMIZATION) -> tuple[str, ...]:
        return (*toolchain.SEMANTICS, *self.careful, *NO_UNWINDING, *optimization)


def host_compiler() -> Compiler:
    """The compiler of the C backend. Raises: BackendUnavailable."""
    tools = toolchain.toolchain()
    careful = (toolchain.NO_SPECULATIVE_STORES, *toolchain.NO_EFFECT_ANALYSIS)
    return Compiler(tools.command, (*(option for option in tools.tuning if option in careful), *NO_UNROLLED_LOOPS))


def cross_compiler(form: str) -> Compiler:
    """The compiler of the `ziglang` wheel. Raises: ExportError."""
    if find_spec("ziglang") is None:
        raise ExportError(
            f"the form `{form}` for another machine needs the compiler of the wheel ziglang:"
            " pip install ocannl-export[zig]"
        )
    return Compiler(ZIG)


def level_options(target: InstructionSet) -> tuple[str, ...]:
    """The options for a level of the processors at hand."""
    if target.name == NATIVE:
        return tuple(option for option in toolchain.toolchain().tuning if option.startswith("-m"))
    wide = (toolchain.FULL_WIDTH_VECTORS,) if target.vector_bytes == 64 else ()
    names = ((f"-march={target.march}", *wide), (f"-mcpu={target.cpu}", *wide))  # of gcc and clang, and of zig
    return next(filter(accepts, names), names[0])


def small_library_options() -> tuple[str, ...]:
    """The options for small shared libraries that the compiler of the C backend has."""
    return SMALL_LIBRARIES if accepts(SMALL_LIBRARIES) else ()


@cache
def accepts(options: tuple[str, ...]) -> bool:
    """Whether the compiler of the C backend has these options."""
    command = (*toolchain.toolchain().command, *options, "-shared", "-fPIC", "-o", "code.so", "code.c")
    try:
        run(command, {"code.c": "int unused;\n"}, "code.so")
    except CompileError:
        return False
    return True


def cross_options(target: InstructionSet) -> tuple[str, ...]:
    return ("-target", target.triple, f"-mcpu={target.cpu}")


def run(command: Sequence[str], files: Mapping[str, str | bytes], output: str) -> bytes:
    """Runs a compiler on files in a temporary folder; returns the content of its output. Raises: CompileError."""
    with work_folder() as folder:
        for path, content in files.items():
            (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode("ascii"))
        status, _, errors = toolchain.run(command, folder)
        result = folder / output
        if status or not result.is_file():
            raise CompileError(f"the C compiler failed with status {status}\n{errors.decode(errors='replace').strip()}")
        return result.read_bytes()


def compile_object(compiler: Compiler, options: Sequence[str], files: Mapping[str, str]) -> bytes:
    """The object file of the one source among files."""
    (source,) = (name for name in files if name.endswith(".c"))
    return run([*compiler.command, *compiler.options(), *options, "-c", "-o", "code.o", source], files, "code.o")
