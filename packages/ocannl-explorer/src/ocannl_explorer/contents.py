"""What a page shows of a routine, as data for its script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import CLexer, LlvmLexer, PythonLexer, TextLexer

from ocannl.backend.api import HasObjectFiles
from ocannl.ir.assign import Origin
from ocannl.ir.host_call import HostCall
from ocannl.ir.loops import MemorySpace, Proc
from ocannl.ir.merged_origins import OriginReaders
from ocannl.ir.printer import short_name
from ocannl.ir.provenance import PrintCache, ProgramPart, buffer_lifetimes, buffer_origins, nest_origins, program_parts
from ocannl.ir.tnode import Decision, TNode, tensor_of
from ocannl.runtime.context_protocol import ExecutionContext
from ocannl.runtime.nest_programs import partition
from ocannl.runtime.profile import Profile
from ocannl.runtime.program import Program
from ocannl.runtime.routine import Routine
from ocannl.runtime.routine_parts import parts_of
from ocannl_explorer.assembly import functions_of
from ocannl_explorer.generated_code import CodeOrigins
from ocannl_explorer.origins import Origins, distinct
from ocannl_explorer.plans import Search, searches
from ocannl_explorer.roofline import limits
from ocannl_explorer.source_files import SourceFiles, highlighted

Json = dict[str, Any]
LANGUAGES: dict[str, tuple[str, type[Lexer]]] = {
    ".c": ("C", CLexer), ".ll": ("LLVM IR", LlvmLexer), ".py": ("Python", PythonLexer),
}  # fmt: skip
"""The name and the lexer of the language of generated source, by the suffix of files."""


def contents(routine: Routine, profile: Profile | None) -> Json:
    """Collects all columns of the page. Keys are documented beside the functions that compute them."""
    files = SourceFiles()
    origins = Origins(files)
    cache = PrintCache()
    context = routine.context
    rebuilt = [
        _Rebuilt(part, cache, context) if isinstance(part, Program) else part for part in parts_of(routine.program)
    ]
    programs = [part for part in rebuilt if isinstance(part, _Rebuilt)]
    parts = [part.result if isinstance(part, _Rebuilt) else part for part in rebuilt]
    procs = [part for part in parts if isinstance(part, Proc)]
    placements = routine.placements
    data: Json = {
        "routine": routine.name,
        "backend": routine.context.backend.name,
        **_stages(programs, origins),
        "generated": list(_generated(routine, parts, origins, cache)),
        "tensors": [_tensor(node, decision, origins) for node, decision in placements.items()],
        "arena": _arena(procs, origins, cache),
        "profile": None if profile is None else _profile(profile, parts, routine, origins, cache),
        "limits": limits(routine.context),
        "searches": [_search(search, origins) for program in programs for search in program.searches],
    }
    data["origins"] = origins.table()
    data["files"] = files.table()
    return data


class _Rebuilt:
    """A program after each pass.

    Attributes:
        result: the program after the last pass
        stages: the lines after each pass
        merged: for each pass, the origins of statements that are part of others since, with the origins of those
        searches: the candidate plans of the nests
    """

    def __init__(self, program: Program, cache: PrintCache, context: ExecutionContext) -> None:
        self.stages: dict[str, list[ProgramPart]] = {}
        self.merged: dict[str, dict[Origin, tuple[Origin, ...]]] = {}
        procs: dict[str, Proc] = {}
        self.result = program.rebuild(procs.__setitem__)
        readers = OriginReaders(procs["lower"])
        origins: dict[int, set[Origin]] = {}  # of the parts, which stages share
        for name, proc in procs.items():
            self.stages[name] = parts = program_parts(proc, cache)
            for part in parts[1:]:
                if id(part) not in origins:
                    origins[id(part)] = set(distinct(part.origins))
            self.merged[name] = readers.merged(set().union(*[origins[id(part)] for part in parts[1:]]))
        names = list(procs)
        scheduled = names.index("schedule") if "schedule" in procs else 0
        self.searches = list(searches(program, procs[names[scheduled - 1]], context, cache)) if scheduled else []


def _stages(programs: Sequence[_Rebuilt], origins: Origins) -> Json:
    """The program after each pass.

    A stage is a sequence of `parts`, which many stages share; a part is its lines, which index `texts`, and their
    origins. `merged` has the origins of statements that are part of others, with the origins of those.
    """
    texts: dict[str, int] = {}
    parts: dict[int, tuple[ProgramPart, int]] = {}  # with their numbers, by identity
    stages: dict[str, Json] = {}
    for program in programs:
        for name, sequence in program.stages.items():
            stage = stages.setdefault(name, {"name": name, "parts": [], "merged": []})
            stage["parts"] += [parts.setdefault(id(part), (part, len(parts)))[1] for part in sequence]
            merged = program.merged[name].items()
            stage["merged"] += [(origins.number(origin), origins.numbers(into)) for origin, into in merged]
    numbered = [
        ([texts.setdefault(text, len(texts)) for text in part.texts], origins.numbers(part.origins))
        for part, _ in parts.values()
    ]
    return {"stages": list(stages.values()), "parts": numbered, "texts": list(texts)}


def _search(search: Search, origins: Origins) -> Json:
    """The candidate plans of a nest; `chosen` indexes `candidates`, and `us` are their measured times, if any."""
    return {
        "names": search.names, "origins": origins.numbers(search.origins),
        "candidates": search.candidates, "chosen": search.chosen,
        "us": [seconds * 1e6 if isfinite(seconds) else None for seconds in search.seconds],
    }  # fmt: skip


def _generated(
    routine: Routine, parts: Sequence[Proc | HostCall], origins: Origins, cache: PrintCache
) -> Iterator[Json]:
    """The generated source, and the machine code if there is any: the `name` of the language, `lines` in HTML or plain
    text, those that begin a function as `headings`, and for each line the set of its `origins`, which index `sets`."""
    code = CodeOrigins(parts, cache)
    suffix = getattr(routine.context.backend, "source_suffix", "")
    language, lexer = LANGUAGES.get(suffix, ("Text", TextLexer))
    lines = routine.source().splitlines()
    marked = highlighted(lines, lexer(stripnl=False, ensurenl=False))
    groups = code.of_lines(lines)
    yield {"name": language, "html": True, "lines": marked, "headings": [], **_sets(groups, origins)}
    functions = list(functions_of(_object_files(routine)))
    if not functions:
        return
    lines, groups, headings = [], [], []
    for function, group in zip(functions, code.of_symbols([f.name for f in functions]), strict=True):
        headings.append(len(lines))
        lines += [f"{function.name}:", *function.lines]
        groups += [group] * (len(function.lines) + 1)
    yield {"name": "assembly", "html": False, "lines": lines, "headings": headings, **_sets(groups, origins)}


def _object_files(routine: Routine) -> list[bytes]:
    codes = [part.code for part in parts_of(routine.program) if isinstance(part, Program)]
    return [file for code in codes if isinstance(code, HasObjectFiles) for file in code.object_files]


def _sets(groups: Sequence[Sequence[Origin]], origins: Origins) -> Json:
    """The distinct groups of origins, and the number of that of each line."""
    sets: dict[tuple[int, ...], int] = {}
    set_numbers = {
        key: sets.setdefault(tuple(origins.numbers(group)), len(sets))
        for key, group in {id(group): group for group in groups}.items()  # the lines of a function share their group
    }
    return {"sets": list(sets), "origins": [set_numbers[id(group)] for group in groups]}


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


def _arena(procs: Sequence[Proc], origins: Origins, cache: PrintCache) -> list[Json]:
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
    profile: Profile, parts: Sequence[Proc | HostCall], routine: Routine, origins: Origins, cache: PrintCache
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
                "read": row.read_bytes, "written": row.written_bytes, "flops": row.flops,
                "origins": origins.numbers(remaining.pop(0) if remaining else ()),
            }
        )  # fmt: skip
    return {"calls": profile.calls, "us": profile.call_ns / 1e3, "rows": rows}
