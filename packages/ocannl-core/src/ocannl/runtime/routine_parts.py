"""Programs of routines with host calls: a native program for each part of the code between two calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ocannl.backend.api import Backend, CompiledCode, Entry
from ocannl.base.config import TRACE
from ocannl.base.errors import CodeError
from ocannl.ir.affine import Sym
from ocannl.ir.assign import host_calls, nodes
from ocannl.ir.host_call import HostCall
from ocannl.ir.loops import AccessMode
from ocannl.ir.name_mangling import Namer
from ocannl.ir.printer import print_comp
from ocannl.ir.tnode import Role, TNode
from ocannl.runtime.benchmark import Autotuner
from ocannl.runtime.binding import Binding
from ocannl.runtime.compile import Job, compile_programs, no_reservation
from ocannl.runtime.context_protocol import ExecutionContext
from ocannl.runtime.host_calls import PartsEntry, host_step, native_step, split
from ocannl.runtime.precomputed_arrays import PrecomputedArrays
from ocannl.runtime.program import Link, Program, Stages
from ocannl.runtime.slabs import Slab
from ocannl.runtime.trace import with_trace

WRITING = (AccessMode.OUT, AccessMode.INOUT)


def compile_routines(
    jobs: Sequence[Job],
    backend: Backend,
    autotuner: Autotuner | None = None,
    reserve_arena: Callable[[int], object] = no_reservation,
) -> list[Program]:
    """Like `compile_programs`; jobs may contain host calls."""
    if all(next(host_calls(job.code), None) is None for job in jobs):
        return compile_programs(jobs, backend, autotuner, reserve_arena)
    unique = Namer(job.name for job in jobs)
    parts = [list(_parts(job, unique)) for job in jobs]
    native = [part for job_parts in parts for part in job_parts if isinstance(part, Job)]
    programs = iter(compile_programs(native, backend, autotuner, reserve_arena))
    return [
        _routine(job, [next(programs) if isinstance(part, Job) else part for part in job_parts], backend)
        for job, job_parts in zip(jobs, parts, strict=True)
    ]


def _parts(job: Job, unique: Namer) -> Iterator[Job | HostCall]:
    if next(host_calls(job.code), None) is None:
        yield job
        return
    parts = list(split(job.code))
    reasons = dict(job.keep_reasons)
    for part in parts:
        if isinstance(part, HostCall):
            for node in part.nodes:
                reasons.setdefault(node, f"{'result' if node in part.written else 'operand'} of the {part}")
    first: dict[TNode, int] = {}
    for number, part in enumerate(parts):
        for node in part.nodes if isinstance(part, HostCall) else nodes(part):
            if first.setdefault(node, number) != number:
                reasons.setdefault(node, f"used before and after a host call of `{job.name}`")
    for part in parts:
        if isinstance(part, HostCall):
            yield part
        else:
            accessed = set(nodes(part))
            kept = {node: reason for node, reason in reasons.items() if node in accessed}
            yield Job(part, kept, unique(f"{job.name}_part", "part"))


@dataclass(frozen=True)
class PartsCode:
    """The code of all parts."""

    source: str
    blob: bytes | None = None


@dataclass(frozen=True)
class PartsProgram(Program):
    """A program with host calls. `links` are the arrays of all parts."""

    parts: tuple[Program | HostCall, ...] = ()

    @cached_property
    def stages(self) -> Stages:
        """The stages of all native parts, one after the other."""
        texts: dict[str, list[str]] = {}
        for part in self.parts:
            if isinstance(part, Program):
                for name, text in part.stages.items():
                    texts.setdefault(name, []).append(text)
        return Stages((name, "".join(parts)) for name, parts in texts.items())


def _routine(job: Job, parts: list[Program | HostCall], backend: Backend) -> Program:
    if len(parts) == 1 and isinstance(parts[0], Program):
        return parts[0]
    programs = [part for part in parts if isinstance(part, Program)]
    code: CompiledCode = PartsCode("\n".join(_sources(parts)))
    return PartsProgram(
        job.name, job.code, job.keep_reasons, code, tuple(_links(parts)), _symbols(job.name, programs), 0,
        tuple(fact for program in programs for fact in program.facts), backend.capabilities, {},
        frozenset(name for program in programs for name in program.plain), parts=tuple(parts),
    )  # fmt: skip


def parts_of(program: Program) -> tuple[Program | HostCall, ...]:
    """The native programs and host calls of a routine, in order of execution."""
    return program.parts if isinstance(program, PartsProgram) else (program,)


def bind_program(context: ExecutionContext, program: Program) -> Binding:
    """Binds a program to the arrays of a context."""
    if isinstance(program, PartsProgram):
        return _bind_parts(context, program)
    precomputed = []
    if program.precomputed.sizes_bytes:
        alignment_bytes = program.capabilities.alignment_bytes
        precomputed.append(PrecomputedArrays(context.arrays, program.precomputed, alignment_bytes))
    further = [location for arrays in precomputed for location in arrays.locations]
    entry, slabs = context.bind(program.code, program.name, program.links, program.arena_bytes, further)
    return Binding(entry, (*slabs, *[arrays.slab for arrays in precomputed]), tuple(precomputed))


def _bind_parts(context: ExecutionContext, program: PartsProgram) -> Binding:
    steps: list[Entry] = []
    memory: dict[Slab, None] = {}
    precomputed: list[PrecomputedArrays] = []
    for part in program.parts:
        if isinstance(part, HostCall):
            memory.update((context.arrays[node].slab, None) for node in part.nodes)
            steps.append(host_step(context.queue, part, program.name, lambda node: context.arrays[node].where))
            continue
        bound = bind_program(context, part)
        entry = bound.entry
        memory.update(dict.fromkeys(bound.slabs))
        precomputed += bound.precomputed
        lines = TRACE.get()
        if lines:
            entry = with_trace(context, part, entry, lines)
        steps.append(native_step(context.queue, entry, part.syms, program.syms))
    return Binding(PartsEntry(tuple(steps)), tuple(memory), tuple(precomputed))


def _sources(parts: Iterable[Program | HostCall]) -> Iterator[str]:
    """The text of each host call, and of each code, which several parts share, before the first of its parts."""
    shown: set[str] = set()
    for part in parts:
        if isinstance(part, HostCall):
            yield print_comp(part)
        elif part.code.source not in shown:
            shown.add(part.code.source)
            yield part.code.source


def _symbols(routine: str, programs: Iterable[Program]) -> tuple[Sym, ...]:
    by_name: dict[str, Sym] = {}
    for sym in (sym for program in programs for sym in program.syms):
        if by_name.setdefault(sym.name, sym) is not sym:
            raise CodeError(f"two different symbols of `{routine}` are called `{sym.name}`; rename one of them")
    return tuple(by_name.values())


def _links(parts: Iterable[Program | HostCall]) -> Iterator[Link]:
    """The access of the routine to each array: an array that is overwritten first is not an input."""
    access: dict[TNode, AccessMode] = {}
    merged: dict[TNode, None] = {}
    for link in (link for part in parts for link in _part_links(part)):
        if link.access is AccessMode.MERGE:
            merged.setdefault(link.node)
            continue
        earlier = access.setdefault(link.node, link.access)
        if link.access in WRITING and earlier not in WRITING:
            access[link.node] = AccessMode.INOUT
    yield from (Link(node, mode) for node, mode in access.items())
    yield from (Link(node, AccessMode.MERGE) for node in merged)


def _part_links(part: Program | HostCall) -> Iterator[Link]:
    if isinstance(part, Program):
        yield from part.links
        return
    yield from (Link(node, AccessMode.CONST if node.role is Role.DATA else AccessMode.IN) for node in part.read)
    yield from (Link(node, AccessMode.OUT) for node in part.written)
