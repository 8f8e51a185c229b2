"""What a page shows of a routine, as data for its script."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import CLexer, LlvmLexer, PythonLexer, TextLexer

from ocannl.ir.assign import Origin
from ocannl.ir.host_call import HostCall
from ocannl.ir.loops import MemorySpace, Proc
from ocannl.ir.printer import short_name
from ocannl.ir.provenance import NestCache, ProgramLine, buffer_lifetimes, buffer_origins, nest_origins, program_parts
from ocannl.ir.tnode import Decision, TNode, tensor_of
from ocannl.runtime.nest_programs import partition
from ocannl.runtime.profile import Profile
from ocannl.runtime.program import Program
from ocannl.runtime.routine import Routine
from ocannl.runtime.routine_parts import parts_of
from ocannl_explorer.generated_code import origins_of_lines
from ocannl_explorer.origins import Origins
from ocannl_explorer.source_files import SourceFiles, highlighted

Json = dict[str, Any]
Part = tuple[ProgramLine, ...]
"""The lines of a header or of a statement of the outermost level."""

LEXERS: dict[str, type[Lexer]] = {".c": CLexer, ".ll": LlvmLexer, ".py": PythonLexer}


def contents(routine: Routine, profile: Profile | None) -> Json:
    """Collects all columns of the page. Keys are documented beside the functions that compute them."""
    files = SourceFiles()
    origins = Origins(files)
    stages: dict[str, list[Part]] = {}
    cache: NestCache = {}
    parts = [_rebuild(part, stages, cache) if isinstance(part, Program) else part for part in parts_of(routine.program)]
    procs = [part for part in parts if isinstance(part, Proc)]
    texts: dict[str, int] = {}
    placements = routine.placements
    data: Json = {
        "routine": routine.name,
        "backend": routine.context.backend.name,
        "stages": _stages(stages, texts, origins),
        "texts": list(texts),
        "generated": _generated(routine, parts, origins, cache),
        "tensors": [_tensor(node, decision, origins) for node, decision in placements.items()],
        "arena": _arena(procs, origins, cache),
        "profile": None if profile is None else _profile(profile, parts, routine, origins, cache),
    }
    data["origins"] = origins.table()
    data["files"] = files.table()
    return data


def _rebuild(program: Program, stages: dict[str, list[Part]], cache: NestCache) -> Proc:
    def add(name: str, proc: Proc) -> None:
        stages.setdefault(name, []).extend(program_parts(proc, cache))

    return program.rebuild(add)


def _stages(stages: dict[str, list[Part]], texts: dict[str, int], origins: Origins) -> list[Json]:
    """The program after each pass: `lines` index `texts`, `origins` the table of origins."""
    distinct = {id(part): part for parts in stages.values() for part in parts}  # stages share most parts
    numbers = {
        key: (
            [texts.setdefault(line.text, len(texts)) for line in part],
            [origins.number(line.origin) for line in part],
        )
        for key, part in distinct.items()
    }
    return [
        {
            "name": name,
            "lines": list(chain.from_iterable([numbers[id(part)][0] for part in parts])),
            "origins": list(chain.from_iterable([numbers[id(part)][1] for part in parts])),
        }
        for name, parts in stages.items()
    ]


def _generated(routine: Routine, parts: Sequence[Proc | HostCall], origins: Origins, cache: NestCache) -> Json:
    """The generated text: `lines` in HTML, and for each line the set of its `origins`, which index `sets`."""
    suffix = getattr(routine.context.backend, "source_suffix", "")
    lines = routine.source().splitlines()
    lexer = LEXERS.get(suffix, TextLexer)
    groups = origins_of_lines(lines, parts, cache)
    sets: dict[tuple[int, ...], int] = {}
    set_numbers = {
        key: sets.setdefault(tuple([origins.number(origin) for origin in group]), len(sets))
        for key, group in {id(group): group for group in groups}.items()  # the lines of a function share their group
    }
    numbers = [set_numbers[id(group)] for group in groups]
    marked = highlighted(lines, lexer(stripnl=False, ensurenl=False))
    return {"suffix": suffix, "lines": marked, "sets": list(sets), "origins": numbers}


def _tensor(node: TNode, decision: Decision, origins: Origins) -> Json:
    shape = getattr(tensor_of(node), "shape", None)
    return {
        "label": node.path or node.label,
        "shape": str(shape) if shape is not None else ",".join(map(str, node.dims)),
        "precision": short_name(node.precision),
        "placement": decision.placement.value,
        "pass": decision.author,
        "origin": origins.number(Origin(node.label, node.where)),
        "reasons": "" if shape is None or node.gradient_of is not None else str(shape.explain()),
    }


def _arena(procs: Sequence[Proc], origins: Origins, cache: NestCache) -> list[Json]:
    """For each program with an arena: its size, and the blocks with the range of statements in which they live."""
    arenas = []
    for proc in procs:
        arrays = buffer_origins(proc, cache)
        blocks = [
            {
                "name": buf.name, "offset": buf.offset, "bytes": buf.nbytes, "first": first, "last": last,
                "origin": origins.number(arrays[buf]),
            }
            for buf, (first, last) in buffer_lifetimes(proc, cache).items()
            if buf.space is MemorySpace.ARENA and buf.offset is not None
        ]  # fmt: skip
        if blocks:
            arenas.append({"program": proc.name, "bytes": proc.arena, "statements": len(proc.body), "blocks": blocks})
    return arenas


def _profile(
    profile: Profile, parts: Sequence[Proc | HostCall], routine: Routine, origins: Origins, cache: NestCache
) -> Json:
    """The rows of a profile, with the origins of their nests and host calls."""
    stamps = routine.context.backend.capabilities.timestamps
    nests: dict[tuple[str, str], list[tuple[Origin, ...]]] = {}
    for part in parts:
        if isinstance(part, HostCall):
            nests.setdefault((f"host {part.name}", ""), []).append((Origin(part.label, part.where),))
            continue
        arrays = buffer_origins(part, cache)
        for member in (member for nest in partition(part, stamps) for member in nest.members):
            nests.setdefault((member.name, member.heading), []).append(nest_origins(member.body, arrays))
    rows = []
    for row in profile.rows:
        remaining = nests.get((row.name, row.heading), [])
        rows.append(
            {
                "name": row.name, "heading": row.heading, "us": row.median_ns / 1e3,
                "read": row.read_bytes, "written": row.written_bytes,
                "origins": [origins.number(origin) for origin in (remaining.pop(0) if remaining else ())],
            }
        )  # fmt: skip
    return {"calls": profile.calls, "us": profile.call_ns / 1e3, "rows": rows}
