"""The generated source text and machine code, and the origins of their functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from ocannl.codegen import Nest, deduplicated, outline_nests, with_callees
from ocannl.ir.assign import Origin
from ocannl.ir.host_call import HostCall
from ocannl.ir.loops import Buf, Proc, Store, Update
from ocannl.ir.printer import print_comp
from ocannl.ir.provenance import PrintCache, buffer_origins, nest_origins, program_lines
from ocannl.ir.walk import walk

Group = tuple[Origin, ...]
OutlinedProgram = tuple[Proc, Sequence[Nest], Mapping[Buf, Origin]]
"""A program, its nests, and the origins of its arrays."""

LEADING = ("/*", ";", "#", "@")  # lines that belong to the next function: comments and decorators


class CodeOrigins:
    """The origins of the generated code of the parts of a routine."""

    def __init__(self, parts: Sequence[Proc | HostCall], cache: PrintCache) -> None:
        self._parts, self._cache = parts, cache
        procs = [part for part in parts if isinstance(part, Proc)]
        self._programs = [(proc, outline_nests(proc), buffer_origins(proc, cache)) for proc in procs]

    @cached_property
    def _functions(self) -> dict[str, Group]:
        return function_origins(self._programs)

    def of_lines(self, lines: Sequence[str]) -> list[Group]:
        """Returns the origins of each line of the source: those of its function, host call, or line of a printed
        program, which is the source of the NumPy backend."""
        is_triton = any(line.startswith("@triton") for line in lines)
        functions, kernels = ({}, kernel_origins(self._programs)) if is_triton else (self._functions, {})
        groups = list(line_origins(lines, functions, kernels))
        for call in (part for part in self._parts if isinstance(part, HostCall)):
            text = print_comp(call).rstrip("\n")
            for n, line in enumerate(lines):
                if line == text:
                    groups[n] = (*groups[n], Origin(call.label, call.where))
        for proc, *_ in self._programs:
            printed = program_lines(proc, self._cache)
            texts = [line.text for line in printed]
            first = lines.index(texts[0]) if texts[0] in lines else len(lines)
            if list(lines[first : first + len(texts)]) == texts:
                groups[first : first + len(texts)] = [(line.origin,) for line in printed]
        return groups

    def of_symbols(self, names: Sequence[str]) -> list[Group]:
        """Returns the origins of functions of object files: `ocannl.step.1`, `ocannl.step.1.chunk` of the LLVM backend,
        and `step_1`, `step_1_chunk`, `step_1.isra.0` of the C backend."""
        programs = _alternatives(proc.name for proc, *_ in self._programs)
        symbol = re.compile(rf"(?:ocannl\.({programs})\.|({programs})_)(\d+)(?:\D.*)?")
        matches = map(symbol.fullmatch, names)
        return [self._functions.get(f"{match[1] or match[2]}.{match[3]}", ()) if match else () for match in matches]


def function_origins(programs: Sequence[OutlinedProgram]) -> dict[str, Group]:
    """The origins of each generated function of LLVM IR and C, keyed by `PROC.NUMBER`. A function that several equal
    nests share has the origins of all."""
    origins: dict[str, Group] = {}
    for proc, outlined, arrays in programs:
        for number, nests in enumerate(deduplicated(with_callees(outlined)), 1):
            origins_of_nests = [origin for nest in nests for origin in nest_origins(nest.body, arrays)]
            origins[f"{proc.name}.{number}"] = tuple(dict.fromkeys(origins_of_nests))
    return origins


def _alternatives(names: Iterable[str]) -> str:
    """A pattern that matches the longest of some names."""
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True)) or "(?!)"


def kernel_origins(programs: Sequence[OutlinedProgram]) -> dict[str, list[Group]]:
    """The origins of the Triton kernels of each program, in order: one kernel for each nest that writes arrays."""
    kernels: dict[str, list[Group]] = {}
    for proc, outlined, arrays in programs:
        writing = [nest for nest in outlined if any(isinstance(s, Store | Update) for s in walk(nest.body))]
        kernels[proc.name] = [nest_origins(nest.body, arrays) for nest in writing]
    return kernels


def line_origins(
    lines: Sequence[str], functions: Mapping[str, Group], kernels: Mapping[str, Sequence[Group]]
) -> Iterator[Group]:
    """Yields the origins of each line: those of its function, which begins with the comments above its head, and ends
    at a closing brace or before the next function."""
    remaining = {program: iter(groups) for program, groups in kernels.items()}
    programs = _alternatives({*kernels, *(name.rpartition(".")[0] for name in functions)})
    # `@ocannl.step.1(` of LLVM IR and ` step_1(` of C; entry functions are `@ocannl.step_2(` and ` ocannl_step_2(`
    head = re.compile(rf"@ocannl\.({programs})\.(\d+)\(|(?<![\w.])({programs})_(\d+)\(")
    kernel_head = re.compile(rf"def ({programs})_\w+\(")
    current: Group = ()
    waiting = 0  # lines that belong to the next function
    for line in lines:
        if not line or line[0].isspace() or line.startswith(("{", "}")):
            yield from [current] * (waiting + 1)
            waiting = 0
            if line.startswith("}"):
                current = ()
            continue
        if line.startswith(LEADING):
            waiting += 1
            continue
        if match := kernel_head.match(line):
            current = next(remaining[match[1]], ())
        elif line.startswith(("define", "int ", "static ", "void ", "CONDITIONAL_LOADS ")):
            match = head.search(line)
            current = functions.get(f"{match[1] or match[3]}.{match[2] or match[4]}", ()) if match else ()
        elif line.startswith("def ") or not line.endswith(":"):  # labels of LLVM IR end with a colon
            current = ()
        yield from [current] * (waiting + 1)
        waiting = 0
    yield from [()] * waiting
