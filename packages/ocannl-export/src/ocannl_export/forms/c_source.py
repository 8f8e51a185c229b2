"""C sources: one file with a header."""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.ir.loops import Proc
from ocannl.ir.tnode import TNode
from ocannl_backend_c.emit import TranslationUnit, emit
from ocannl_export.c_dialects import GNU_UNIT, ISO_UNIT
from ocannl_export.interface import header, interface
from ocannl_export.library import WORKSPACE, ExportedFunction, Field, Library
from ocannl_export.programs import arguments
from ocannl_export.random_functions import definitions
from ocannl_export.request import Files, Request
from ocannl_export.targets import InstructionSet, host_levels


def c_source(request: Request) -> Files:
    """The source and the header, for the basic target of the processor at hand unless another is requested."""
    target = request.target or host_levels()[0]
    return c_files(request.library([target]), target, GNU_UNIT if request.vectors else ISO_UNIT)


def c_files(library: Library, target: InstructionSet, unit: TranslationUnit) -> Files:
    """The texts of the source and of the header, by file name."""
    is_aligned = unit is not ISO_UNIT
    procs = library.programs[target]
    public = [f"{library.name}_{function.name}" for function in library.functions]
    parts = [
        f'#include "{library.name}.h"\n',
        emit(procs, unit, definitions(unit.dialect, library.fields), public),
        interface(library, unit.dialect, lambda f: run_statements(library, target, f, unit), is_aligned=is_aligned),
    ]
    return {f"{library.name}.h": header(library, is_aligned=is_aligned), f"{library.name}.c": "\n".join(parts)}


def run_statements(library: Library, target: InstructionSet, function: ExportedFunction, unit: TranslationUnit) -> str:
    """The statements that run the program of a function for a target, and return its status."""
    proc = proc_of(library, target, function)
    fields = {field.node: field for field in library.fields}
    addresses = [_address(fields, node) for node, _ in arguments(proc)]
    if proc.arena:
        addresses.append(f"net->{WORKSPACE}")
    control = "struct control control = { net->parallel_for, net->pool, &control };\n" if library.threads else ""
    return f"""\
void *const addresses[] = {{ {", ".join(addresses)} }};
{control}return {unit.symbol(proc.name)}(addresses, symbols, {"&control" if library.threads else "0"});"""


def proc_of(library: Library, target: InstructionSet, function: ExportedFunction) -> Proc:
    return next(proc for proc in library.programs[target] if proc.name == function.name)


def _address(fields: Mapping[TNode, Field], node: TNode) -> str:
    field = fields[node]
    if field.offset_bytes is None:
        return f"(void *)constant_{field.name}_"
    return f"{'' if field.dims else '&'}net->{field.name}"
