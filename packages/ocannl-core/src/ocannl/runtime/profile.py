"""Where the time of a routine goes: its program cut into one for each loop nest, run one after the other.

    proc step                     step_h        step_loss                    nest  calls  median us ...
      for i: h[i] = ...    ==>      for i: ...    for i_2: ...     ==>        h        10       12.5
      for i_2: loss += ...                                                    loss     10        3.1

A nest whose loop calls parts has a row for each of them: its iterations leave the time before and after each part in an
array, whichever thread has them, and the parts divide the time of the nest.

All through the seam of backends, so it works with any of them. Arrays are where the routine has them; those that it
writes are put back afterwards, so that a profile leaves no trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from os import PathLike
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocannl.base.errors import BackendError, CodeError
from ocannl.codegen.nests import Nest, nests
from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import (
    Access,
    Body,
    Buf,
    Comment,
    For,
    Home,
    Local,
    Proc,
    Ref,
    Stamp,
    Stmt,
    Store,
    Update,
    row_major,
)
from ocannl.ir.names import Namer
from ocannl.ir.precision import int64
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.walk import walk
from ocannl.opt.nest import names_of
from ocannl.opt.substitute import replace_buffers
from ocannl.runtime.memory_traffic import traffic
from ocannl.runtime.program import Program, links

if TYPE_CHECKING:
    from ocannl.backend.api import Code, Entry
    from ocannl.runtime.context import Context

WRITTEN = (Access.OUT, Access.INOUT)
NAMED = 3  # arrays that the name of a nest mentions


@dataclass(frozen=True, slots=True)
class Row:
    """One loop nest, or a part of one: the arrays that it writes, the heading above it, and what a call takes."""

    name: str
    heading: str
    calls: int
    median_ns: int
    min_ns: int
    total_ns: int
    read_bytes: int
    written_bytes: int

    @property
    def bytes_per_second(self) -> float:
        """Infinite for what takes no longer than a call that does nothing."""
        return (self.read_bytes + self.written_bytes) * 1e9 / self.median_ns if self.median_ns else inf


@dataclass(frozen=True, slots=True)
class Span:
    """One run of what a row is about, in nanoseconds since the profile began."""

    row: int
    start_ns: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Profile:
    """What `Routine.profile` finds: a row for each nest, in order of the program, and every single run.

    `call_ns` is the median of calls of the routine itself.
    """

    routine: str
    backend: str
    calls: int
    call_ns: int
    rows: tuple[Row, ...]
    spans: tuple[Span, ...]

    @property
    def nests_ns(self) -> int:
        """What all nests of one call take."""
        return sum(row.median_ns for row in self.rows)

    def __str__(self) -> str:
        head = (
            f"routine {self.routine} on {self.backend}, {self.calls} calls: a call takes {self.call_ns / 1e3:.1f} us,"
            f" its nests {self.nests_ns / 1e3:.1f} us"
        )
        table = [("nest", "under", "median us", "min us", "total us", "read bytes", "written bytes", "GB/s")]
        table += [
            (
                row.name, row.heading, f"{row.median_ns / 1e3:.1f}", f"{row.min_ns / 1e3:.1f}",
                f"{row.total_ns / 1e3:.1f}", str(row.read_bytes), str(row.written_bytes),
                f"{row.bytes_per_second / 1e9:.2f}" if row.median_ns else "-",
            )
            for row in self.rows
        ]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(w) if n < 2 else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in table
        ]
        return "\n".join([head, *lines])

    def chrome_trace(self, path: str | PathLike[str]) -> None:
        """Writes a file that chrome://tracing and Perfetto show."""
        events: list[dict[str, object]] = [
            {"name": kind, "ph": "M", "pid": 1, "tid": 1, "args": {"name": text}}
            for kind, text in (("process_name", f"ocannl {self.backend}"), ("thread_name", self.routine))
        ]
        for span in self.spans:
            row = self.rows[span.row]
            events.append(
                {
                    "name": row.name, "cat": row.heading or self.routine, "ph": "X", "pid": 1, "tid": 1,
                    "ts": span.start_ns / 1e3, "dur": span.duration_ns / 1e3,
                    "args": {"nest": span.row, "read_bytes": row.read_bytes, "written_bytes": row.written_bytes},
                }
            )  # fmt: skip
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=1)
        Path(path).write_text(text, encoding="utf-8")


# --- cutting ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Member:
    """What a row is about."""

    name: str
    heading: str
    body: Body


@dataclass(frozen=True, slots=True)
class Piece:
    """A nest as a program of its own; one of several members leaves in `stamps` when each of them began and ended, in
    each iteration of its loop."""

    proc: Proc
    members: tuple[Member, ...]
    stamps: TNode | None = None


def cut(proc: Proc, stamped: bool = True) -> tuple[Piece, ...]:
    """Programs that do, one after the other, what the whole does; those of nests with parts stamp these if they may.

    Blocks of the arena stay where they are: what is in them when a program ends is there when the next begins.
    """
    named, arrays = Namer([proc.name]), Namer(names_of(proc))
    heading = ""
    pieces = []
    for nest in nests(proc):
        heading = _heading(nest.body) or heading
        written = _written(nest)
        if not written:
            continue
        name, members, stamps = named(f"{proc.name}_{written[0].name}"), [], None
        parts = nest.parts if stamped else ()
        for part in parts or (nest,):
            heading = _heading(part.body) or heading
            if _written(part):
                members.append(Member(_title(_written(part)), heading, _alone(nest, part)))
        if parts:
            nest, stamps = _stamped(nest, arrays("stamps"))
        pieces.append(Piece(program_of(name, proc, nest), tuple(members), stamps))
    return tuple(pieces)


def _alone(nest: Nest, part: Nest) -> Body:
    """The part in the loop of the nest, with what is handed from part to part."""
    if part is nest:
        return nest.body
    turns = _turns(nest)
    return (replace(turns, body=(*_handed(turns), *part.body)),)


def _stamped(nest: Nest, name: str) -> tuple[Nest, TNode]:
    """The nest with stamps around its parts, and the array of these."""
    turns, many = _turns(nest), sum(bool(_written(part)) for part in nest.parts)
    shape = (turns.sym.extent, many + 1)
    node = TNode(name, Role.STATE, lambda: shape, lambda: int64)
    stamps = Buf(name, int64, shape, row_major(shape), Home.POOL, Access.OUT, node)
    turn = Affine.of(turns.sym) - turns.sym.lo
    places = map(Affine.of, range(many + 1))
    body: list[Stmt] = [*_handed(turns), Stamp(Ref(stamps, (turn, next(places))))]
    for part in nest.parts:
        body += part.body
        if _written(part):
            body.append(Stamp(Ref(stamps, (turn, next(places)))))
    return replace(nest, body=(replace(turns, body=tuple(body)),), bufs=(*nest.bufs, stamps)), node


def _turns(nest: Nest) -> For:
    """The loop that calls the parts."""
    (turns,) = (stmt for stmt in nest.body if isinstance(stmt, For))
    return turns


def _handed(turns: For) -> Body:
    return tuple([stmt for stmt in turns.body if isinstance(stmt, Local) and stmt.buf.offset is not None])


def _heading(body: Body) -> str:
    return " / ".join(dict.fromkeys(_plain(stmt.text) for stmt in body if isinstance(stmt, Comment)))


def _written(nest: Nest) -> tuple[Buf, ...]:
    written = {stmt.ref.buf for stmt in walk(nest.body) if isinstance(stmt, Store | Update)}
    return tuple(buf for buf in nest.bufs if buf in written)


def program_of(name: str, whole: Proc, nest: Nest) -> Proc:
    """The nest alone."""
    arena = whole.arena if any(buf.home is Home.ARENA for buf in nest.bufs) else 0
    shared = {buf: replace(buf, access=Access.INOUT) for buf in nest.bufs if buf.home is Home.ARENA}
    return replace_buffers(Proc(name, nest.bufs, nest.syms, nest.body, arena=arena), shared)


def _title(written: Sequence[Buf]) -> str:
    labels = [_plain(buf.node.label if buf.node else buf.name) for buf in written]
    more = f" and {len(labels) - NAMED} more" if len(labels) > NAMED else ""
    return ", ".join(labels[:NAMED]) + more


def _plain(text: str) -> str:
    """On one line, whatever a user has called it."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


# --- running ----------------------------------------------------------------------------------------------------------


def profile(context: Context, program: Program, calls: int, values: Sequence[int]) -> Profile:
    """`values` are those of the program's symbols."""
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 1:
        raise CodeError(f"a profile is made of at least one call, not of {calls!r}")
    backend = context.backend
    proc = program.rebuilt()
    pieces = cut(proc, context.backend.capabilities.stamps)
    given = dict(zip(program.syms, values, strict=True))
    empty = Proc(Namer([program.name, *(p.proc.name for p in pieces)])(f"{program.name}_nothing"), (), (), ())
    code = backend.compile([empty, *(piece.proc for piece in pieces)])
    with context.lock:
        context.require(program)
        outside = links(proc)  # more than those of the program, if somebody has asked for a node to be kept since then
        context.arrays.allocate(link.node for link in outside if link.access is not Access.MERGE)
        context.arrays.allocate(piece.stamps for piece in pieces if piece.stamps is not None)
        clock = _Clock(context)
        nothing, *runs = [_Run.of(context, code, proc, given) for proc in (empty, *(p.proc for p in pieces))]
        entry, held = context.bind(program.code, program.name, program.links, program.arena_bytes)
        whole = _Run(entry, tuple(values), held)
        written = dict.fromkeys(link.node for link in (*program.links, *outside) if link.access in WRITTEN)
        with _restored(context, written):
            for run in (nothing, *runs):
                clock.time(run)  # pages and caches are now as they are in later calls
            taken = [
                (clock.time(nothing), clock.time(run), _shares(context, piece))
                for _ in range(calls) for piece, run in zip(pieces, runs, strict=True)
            ]  # fmt: skip
        with _restored(context, written):  # the same calls with the same numbers
            together = [clock.time(whole) for _ in range(1 + calls)][1:]
    cost = round(median([idle.duration_ns for idle, _, _ in taken] or [0]))  # of a call, in the midst of others
    members = [member for piece in pieces for member in piece.members]
    spans: list[Span] = []
    for _, time, shares in taken:
        start, took = time.start_ns, max(0, time.duration_ns - cost)
        for share in shares:
            spans.append(Span(len(spans) % len(members), start, round(took * share)))
            start += spans[-1].duration_ns
    rows = [_row(each, [s.duration_ns for s in spans[n :: len(members)]]) for n, each in enumerate(members)]
    call = max(0, round(median([time.duration_ns for time in together])) - cost)
    return Profile(program.name, backend.name, calls, call, tuple(rows), tuple(spans))


@dataclass(frozen=True, slots=True)
class _Run:
    """A program that is bound to memory, and the values of its symbols."""

    entry: Entry
    values: tuple[int, ...]
    held: tuple[object, ...]

    @staticmethod
    def of(context: Context, code: Code, proc: Proc, given: Mapping[Sym, int]) -> _Run:
        entry, held = context.bind(code, proc.name, links(proc), proc.arena)
        return _Run(entry, tuple(given[sym] for sym in proc.syms), held)


class _Clock:
    """Runs programs, and waits for them."""

    def __init__(self, context: Context) -> None:
        self.queue = context.queue
        self.start_ns = perf_counter_ns()

    def time(self, run: _Run) -> _Time:
        start = perf_counter_ns()
        if not self.queue.immediate:
            self.queue.submit(run.entry, *run.values)
            self.queue.synchronize()
        elif run.entry(*run.values):
            raise BackendError("the profile was cancelled")
        return _Time(start - self.start_ns, perf_counter_ns() - start)


class _Time(NamedTuple):
    start_ns: int
    duration_ns: int


def _shares(context: Context, piece: Piece) -> tuple[float, ...]:
    """Of the members in the time of the run that has just ended, that of all threads together."""
    if piece.stamps is None:
        return (1.0,)
    times = np.diff(context.arrays.download(piece.stamps), axis=1).sum(0)
    return tuple((times / max(1, times.sum())).tolist())


@contextmanager
def _restored(context: Context, nodes: Iterable[TNode]) -> Iterator[None]:
    """Inside, these may change."""
    saved = {node: context.arrays.download(node) for node in nodes if context.arrays.holds(node)}
    context.queue.synchronize()
    try:
        yield
    finally:
        for node, array in saved.items():
            context.queue.from_host(context.arrays[node].where, array)
        context.queue.synchronize()


def _row(member: Member, took: Sequence[int]) -> Row:
    read, written = traffic(member.body)
    return Row(member.name, member.heading, len(took), round(median(took)), min(took), sum(took), read, written)
