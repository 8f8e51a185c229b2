"""Shared libraries for the processors at hand, and object files for any target.

A shared library has the programs once for each level of the processor's family, each compiled for its instructions; a
call chooses the widest level that the processor has. `__builtin_cpu_supports` reads what the C library found out when
the process started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ocannl.backend.registry import resolve
from ocannl.codegen.c_family.dialect import Prelude
from ocannl.ir.cpu import COMMON_CPU, Cpu
from ocannl_backend_c import toolchain
from ocannl_backend_c.emit import emit
from ocannl_export import compilers
from ocannl_export.c_dialects import CONTROL, GNU_UNIT, hidden_unit
from ocannl_export.forms.c_source import c_files, run_statements
from ocannl_export.interface import header, interface
from ocannl_export.library import ExportedFunction, Library
from ocannl_export.random_functions import definitions
from ocannl_export.request import Files, Request
from ocannl_export.targets import NATIVE, TARGETS, InstructionSet, host_levels


def shared_library(request: Request) -> Files:
    """The library and its header."""
    levels = host_levels() if request.target is None else (request.target,)
    library = request.library(levels, host_cpu())
    return {f"{library.name}.h": header(library, is_aligned=True), f"{library.name}.so": linked(library, levels)}


def linked(library: Library, levels: Sequence[InstructionSet]) -> bytes:
    """The shared library with all levels."""
    compiler = compilers.host_compiler()
    files: dict[str, str] = {f"{library.name}.h": header(library, is_aligned=True)}
    command = [*compiler.command, *compiler.options(compilers.COMPACT), "-fPIC", "-shared", "-s"]
    command += compilers.small_library_options()
    objects = {}
    for level in levels:
        text = emit(library.programs[level], hidden_unit(level.name))
        options = (*compilers.level_options(level), "-fPIC")
        objects[f"{level.name}.o"] = compilers.compile_object(compiler, options, {"level.c": text})
    files["interface.c"] = _dispatching_interface(library, levels)
    return compilers.run([*command, "-o", "code.so", "interface.c", *objects, "-lm"], {**files, **objects}, "code.so")


def object_file(request: Request) -> Files:
    """The object file of one target, and the header."""
    target = request.target or host_levels()[0]
    if target.name == NATIVE or target in host_levels():
        compiler, options = compilers.host_compiler(), (*compilers.level_options(target), "-fPIC")
    else:
        compiler, options = compilers.cross_compiler("object"), compilers.cross_options(target)
    options = (*options, *compilers.SECTIONS)
    library = request.library([target], host_cpu() if target.name == NATIVE else COMMON_CPU)
    files = c_files(library, target, GNU_UNIT)
    texts = {name: text for name, text in files.items() if isinstance(text, str)}
    name = library.name
    return {f"{name}.h": texts[f"{name}.h"], f"{name}.o": compilers.compile_object(compiler, options, texts)}


def host_cpu() -> Cpu:
    """The processor that the C backend has measured; plans are made for it."""
    return resolve("c").capabilities.cpu


def native_target() -> InstructionSet:
    """The processor at hand."""
    width, registers = toolchain.toolchain().vector_registers
    return replace(TARGETS["scalar"], name=NATIVE, vector_bytes=width, vector_registers=registers)


def _dispatching_interface(library: Library, levels: Sequence[InstructionSet]) -> str:
    units = {level: hidden_unit(level.name) for level in levels}
    declared = [
        f"{unit.linkage}int {unit.symbol(proc.name)}(void *const [], const int64_t [], struct control *);"
        for level, unit in units.items()
        for proc in library.programs[level]
    ]

    def call(function: ExportedFunction) -> str:
        *wider, first = [*reversed(levels)]
        lines = []
        for level in wider:
            tests = " && ".join(f'__builtin_cpu_supports("{feature}")' for feature in level.features)
            statements = run_statements(library, level, function, units[level])
            lines += [f"if ({tests}) {{", *(f"  {line}" for line in statements.splitlines()), "}"]
        return "\n".join([*lines, run_statements(library, first, function, units[first])])

    text = interface(library, GNU_UNIT.dialect, call, is_aligned=True)
    prelude = Prelude()
    for definition in definitions(GNU_UNIT.dialect, library.fields):
        prelude.use(definition)
    head = [f'#include "{library.name}.h"', "", CONTROL, *declared, ""]
    return "\n".join([*head, *prelude.lines(), text])
