"""The generated source text, and the origins of its functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ocannl.codegen import deduplicated, outline_nests, with_callees
from ocannl.ir.assign import Origin
from ocannl.ir.loops import Proc
from ocannl.ir.provenance import buffer_origins, nest_origins


def function_origins(procs: Sequence[Proc]) -> dict[str, tuple[Origin, ...]]:
    """The origins of each generated function, keyed by `PROC.NUMBER`. A function that several equal nests share has
    the origins of all."""
    origins: dict[str, tuple[Origin, ...]] = {}
    for proc in procs:
        arrays = buffer_origins(proc)
        for number, nests in enumerate(deduplicated(with_callees(outline_nests(proc))), 1):
            origins_of_nests = [origin for nest in nests for origin in nest_origins(nest.body, arrays)]
            origins[f"{proc.name}.{number}"] = tuple(dict.fromkeys(origins_of_nests))
    return origins


def line_origins(lines: Sequence[str], functions: Mapping[str, tuple[Origin, ...]]) -> Iterator[tuple[Origin, ...]]:
    """Yields the origins of each line: those of the enclosing function, which starts at a line that is not indented
    and ends at a closing brace or before the next such line."""
    programs = "|".join(sorted({re.escape(name.rpartition(".")[0]) for name in functions}, key=len, reverse=True))
    name = re.compile(rf"\b({programs})[._](\d+)(?![0-9])") if programs else None
    current: tuple[Origin, ...] = ()
    for line in lines:
        is_head = bool(line) and not line[0].isspace() and line[0] not in "}/;#"
        if is_head and name is not None and not line.startswith("declare") and not line.rstrip().endswith(";"):
            match = name.search(line)
            if match is not None:
                current = functions.get(f"{match[1]}.{match[2]}", ())
            elif line.startswith(("define", "def ", "int ", "static ", "void ")):
                current = ()
        yield current
        if line.startswith("}"):
            current = ()
