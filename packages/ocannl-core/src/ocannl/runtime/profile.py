"""Where the time of a routine goes: its program cut into one for each loop nest, run one after the other.

    proc step                     step_h        step_loss                    nest  calls  median us ...
      for i: h[i] = ...    ==>      for i: ...    for i_2: ...     ==>        h        10       12.5
      for i_2: loss += ...                                                    loss     10        3.1

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

from ocannl.base.errors import BackendError, CodeError
from ocannl.codegen.nests import Nest, nests
from ocannl.ir.index import Sym
from ocannl.ir.loops import Access, Buf, Comment, Home, Proc, Store, Update
from ocannl.ir.names import Namer
from ocannl.ir.tnode import TNode
from ocannl.ir.walk import walk
from ocannl.opt.substitute import replace_buffers
from ocannl.runtime.program import Program, links
from ocannl.runtime.traffic import traffic

if TYPE_CHECKING:
    from ocannl.backend.api import Code, Entry
    from ocannl.runtime.context import Context

WRITTEN = (Access.OUT, Access.INOUT)
NAMED = 3  # arrays that the name of a nest mentions


@dataclass(frozen=True, slots=True)
class Row:
    """One loop nest: the arrays that it writes, the heading above it, and what a call takes."""

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
    """One run of one nest, in nanoseconds since the profile began."""

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
class Piece:
    """A nest as a program of its own."""

    proc: Proc
    name: str
    heading: str


def cut(proc: Proc) -> tuple[Piece, ...]:
    """Programs that do, one after the other, what the whole does.

    Blocks of the arena stay where they are: what is in them when a program ends is there when the next begins.
    """
    named = Namer([proc.name])
    heading = ""
    pieces = []
    for nest in nests(proc):
        heading = " / ".join(_plain(s.text) for s in nest.body if isinstance(s, Comment)) or heading
        written = _written(nest)
        if written:
            name = named(f"{proc.name}_{written[0].name}")
            pieces.append(Piece(program_of(name, proc, nest), _title(written), heading))
    return tuple(pieces)


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
    pieces = cut(proc)
    given = dict(zip(program.syms, values, strict=True))
    empty = Proc(Namer([program.name, *(p.proc.name for p in pieces)])(f"{program.name}_nothing"), (), (), ())
    code = backend.compile([empty, *(piece.proc for piece in pieces)])
    with context.lock:
        context.require(program)
        outside = links(proc)  # more than those of the program, if somebody has asked for a node to be kept since then
        context.arrays.allocate(link.node for link in outside if link.access is not Access.MERGE)
        clock = _Clock(context)
        nothing, *runs = [_Run.of(context, code, proc, given) for proc in (empty, *(p.proc for p in pieces))]
        entry, held = context.bind(program.code, program.name, program.links, program.arena_bytes)
        whole = _Run(entry, tuple(values), held)
        written = dict.fromkeys(link.node for link in (*program.links, *outside) if link.access in WRITTEN)
        with _restored(context, written):
            for run in (nothing, *runs):
                clock.time(run)  # pages and caches are now as they are in later calls
            pairs = [(clock.time(nothing), row, clock.time(run)) for _ in range(calls) for row, run in enumerate(runs)]
        with _restored(context, written):  # the same calls with the same numbers
            together = [clock.time(whole) for _ in range(1 + calls)][1:]
    cost = round(median([idle.duration_ns for idle, _, _ in pairs] or [0]))  # of a call, in the midst of others
    spans = [Span(row, time.start_ns, max(0, time.duration_ns - cost)) for _, row, time in pairs]
    rows = [_row(piece, [s.duration_ns for s in spans[n :: len(pieces)]]) for n, piece in enumerate(pieces)]
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


def _row(piece: Piece, took: Sequence[int]) -> Row:
    read, written = traffic(piece.proc.body)
    return Row(piece.name, piece.heading, len(took), round(median(took)), min(took), sum(took), read, written)
