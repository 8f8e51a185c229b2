"""Profiler: partitions a routine into one program per loop nest, and measures each.

    proc step                     step_h        step_loss                    nest  calls  median us ...
      for i: h[i] = ...    ==>      for i: ...    for i_2: ...     ==>        h        10       12.5
      for i_2: loss += ...                                                    loss     10        3.1

A nest whose loop calls parts has a row for each part: every iteration stores timestamps between the parts, and the
time of the nest is divided in proportion.

The profiler uses the plugin API only, so it supports all backends. Programs use the arrays of the routine; the written
ones are restored afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, prod
from os import PathLike
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocannl.backend.returned_values import compile_code
from ocannl.base import html_text
from ocannl.base.errors import BackendError, CodeError
from ocannl.base.output_files import Writing
from ocannl.ir.affine import Sym
from ocannl.ir.flops import flops
from ocannl.ir.host_call import HostCall
from ocannl.ir.loops import AccessMode, Proc
from ocannl.ir.name_mangling import Namer
from ocannl.ir.tnode import TNode
from ocannl.opt.memory.precompute_weight_arrays import without_precomputed_arrays
from ocannl.runtime.context_protocol import ExecutionContext
from ocannl.runtime.host_calls import PartsEntry, host_step
from ocannl.runtime.memory_traffic import traffic
from ocannl.runtime.nest_programs import MeasuredNest, NestProgram, partition
from ocannl.runtime.program import Program, links
from ocannl.runtime.routine_parts import bind_program, parts_of

if TYPE_CHECKING:
    from ocannl.backend.api import CompiledCode, Entry

WRITTEN = (AccessMode.OUT, AccessMode.INOUT)


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """Measurements of a loop nest or a part of one, named after the arrays it writes, with the heading above it.

    `flops` are the floating-point operations of a call; 0 for host calls and transfers.
    """

    name: str
    heading: str
    calls: int
    median_ns: int
    min_ns: int
    total_ns: int
    read_bytes: int
    written_bytes: int
    flops: int = 0

    @property
    def bytes_per_second(self) -> float:
        """Memory throughput; infinite if the nest takes no longer than an empty call."""
        return (self.read_bytes + self.written_bytes) * 1e9 / self.median_ns if self.median_ns else inf


@dataclass(frozen=True, slots=True)
class Span:
    """One execution of a row's nest or part; times are relative to the beginning of the profile."""

    row: int
    start_ns: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Profile:
    """The result of `Routine.profile`: a row for each nest, in program order, and the span of every execution.

    `call_ns` is the median time of a call of the whole routine.
    """

    routine: str
    backend: str
    calls: int
    call_ns: int
    rows: tuple[ProfileRow, ...]
    spans: tuple[Span, ...]

    @property
    def nests_ns(self) -> int:
        """The sum of the median times of all nests."""
        return sum(row.median_ns for row in self.rows)

    def __repr__(self) -> str:
        return str(self)

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

    def _repr_html_(self) -> str:
        """The rows with bars, whose lengths are their shares of the time."""
        total = self.nests_ns or 1
        rows = [
            (row.name, row.heading, html_text.bar(row.median_ns / total, f"{row.median_ns / 1e3:.1f}"),
             f"{row.read_bytes:,}", f"{row.written_bytes:,}")
            for row in self.rows
        ]  # fmt: skip
        columns = ("nest", "under", "median us", "read bytes", "written bytes")
        return html_text.title(str(self).partition("\n")[0]) + html_text.table(columns, rows)

    def chrome_trace(self, path: str | PathLike[str]) -> None:
        """Writes a trace file for chrome://tracing and Perfetto."""
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
        with Writing(path, "trace"):
            Path(path).write_text(text, encoding="utf-8")


# --- measurement ------------------------------------------------------------------------------------------------------


MAX_CALLS = 1_000_000


def profile(context: ExecutionContext, program: Program, calls: int, values: Sequence[int]) -> Profile:
    """Profiles a program for the given values of its symbols; raises `CodeError` for an invalid number of `calls`."""
    if isinstance(calls, bool) or not isinstance(calls, int) or not 1 <= calls <= MAX_CALLS:
        raise CodeError(f"the number of profiled calls must be at least 1 and at most {MAX_CALLS}, not {calls!r}")
    backend = context.backend
    alignment_bytes = backend.capabilities.alignment_bytes
    procs = [
        part if isinstance(part, HostCall) else without_precomputed_arrays(part.rebuild(), alignment_bytes)
        for part in parts_of(program)
    ]
    pieces = [piece for proc in procs for piece in _pieces(proc, context.backend.capabilities.timestamps)]
    nests = [piece for piece in pieces if isinstance(piece, NestProgram)]
    symbol_values = dict(zip(program.syms, values, strict=True))
    empty = Proc(Namer([program.name, *(p.proc.name for p in nests)])(f"{program.name}_nothing"), (), (), ())
    code = compile_code(backend, [empty, *(nest.proc for nest in nests)])
    with context.lock:
        context.prepare_run(program)
        # a superset of the program's links, if more nodes are kept since its compilation
        outside_links = [link for proc in procs if isinstance(proc, Proc) for link in links(proc)]
        context.arrays.allocate(link.node for link in outside_links if link.access is not AccessMode.MERGE)
        context.arrays.allocate(nest.timestamps for nest in nests if nest.timestamps is not None)
        clock = _Clock(context)
        empty_run = _Run.of(context, code, empty, symbol_values)
        runs = [_run(context, code, program.name, piece, symbol_values) for piece in pieces]
        bound = bind_program(context, program)
        routine_run = _Run(bound.entry, tuple(values), bound.slabs, isinstance(bound.entry, PartsEntry))
        written = dict.fromkeys(link.node for link in (*program.links, *outside_links) if link.access in WRITTEN)
        with _restored(context, written):
            for run in (empty_run, *runs):
                clock.time(run)  # warms up pages and caches
            samples = [
                (clock.time(empty_run), clock.time(run), _time_shares(context, piece))
                for _ in range(calls) for piece, run in zip(pieces, runs, strict=True)
            ]  # fmt: skip
        with _restored(context, written):  # from the same initial values
            call_times = []
            for _ in range(1 + calls):
                bound.prepare_run()  # the call before may have written a weight
                call_times.append(clock.time(routine_run))
    overhead_ns = round(median([idle.duration_ns for idle, _, _ in samples] or [0]))  # of an empty call
    members = [member for piece in pieces for member in piece.members]
    spans: list[Span] = []
    for _, time, shares in samples:
        start, took_ns = time.start_ns, max(0, time.duration_ns - overhead_ns)
        for share in shares:
            spans.append(Span(len(spans) % len(members), start, round(took_ns * share)))
            start += spans[-1].duration_ns
    rows = [_row(subject, [s.duration_ns for s in spans[n :: len(members)]]) for n, subject in enumerate(members)]
    call = max(0, round(median([time.duration_ns for time in call_times[1:]])) - overhead_ns)
    return Profile(program.name, backend.name, calls, call, tuple(rows), tuple(spans))


@dataclass(frozen=True, slots=True)
class _HostPiece:
    """A host call, with its row."""

    call: HostCall
    timestamps: None = None

    @property
    def members(self) -> tuple[HostCall]:
        return (self.call,)


def _pieces(proc: Proc | HostCall, with_timestamps: bool) -> Sequence[NestProgram | _HostPiece]:
    return (_HostPiece(proc),) if isinstance(proc, HostCall) else partition(proc, with_timestamps)


@dataclass(frozen=True, slots=True)
class _Run:
    """A bound program, with the values of its symbols. One `on_host` is called, not submitted."""

    entry: Entry
    values: tuple[int, ...]
    memory: tuple[object, ...]
    on_host: bool = False

    @staticmethod
    def of(context: ExecutionContext, code: CompiledCode, proc: Proc, symbol_values: Mapping[Sym, int]) -> _Run:
        entry, memory = context.bind(code, proc.name, links(proc), proc.arena)
        return _Run(entry, tuple(symbol_values[sym] for sym in proc.syms), memory)


def _run(
    context: ExecutionContext, code: CompiledCode, routine: str, piece: NestProgram | _HostPiece,
    symbol_values: Mapping[Sym, int],
) -> _Run:  # fmt: skip
    if isinstance(piece, NestProgram):
        return _Run.of(context, code, piece.proc, symbol_values)
    entry = host_step(context.queue, piece.call, routine, lambda node: context.arrays[node].where)
    return _Run(entry, (), tuple(context.arrays[node].slab for node in piece.call.nodes), on_host=True)


class _Clock:
    """Measures synchronous executions of programs."""

    def __init__(self, context: ExecutionContext) -> None:
        self.queue = context.queue
        self.start_ns = perf_counter_ns()

    def time(self, run: _Run) -> _Time:
        start = perf_counter_ns()
        if run.on_host:
            run.entry(*run.values)
            self.queue.synchronize()
        elif not self.queue.immediate:
            self.queue.submit(run.entry, *run.values)
            self.queue.synchronize()
        elif run.entry(*run.values):
            raise BackendError("the profile was cancelled")
        return _Time(start - self.start_ns, perf_counter_ns() - start)


class _Time(NamedTuple):
    start_ns: int
    duration_ns: int


def _time_shares(context: ExecutionContext, piece: NestProgram | _HostPiece) -> tuple[float, ...]:
    """Returns each member's share of the time of the last run, summed over threads."""
    if piece.timestamps is None:
        return (1.0,)
    times = np.diff(context.arrays.download(piece.timestamps), axis=1).sum(0)
    return tuple((times / max(1, times.sum())).tolist())


@contextmanager
def _restored(context: ExecutionContext, nodes: Iterable[TNode]) -> Iterator[None]:
    """Context manager that restores the values of these nodes on exit."""
    saved = {node: context.arrays.download(node) for node in nodes if context.arrays.holds(node)}
    context.arrays.synchronize()
    try:
        yield
    finally:
        for node, array in saved.items():
            context.queue.from_host(context.arrays[node].where, array)
        context.queue.synchronize()


def _row(member: MeasuredNest | HostCall, durations_ns: Sequence[int]) -> ProfileRow:
    middle = round(median(durations_ns))
    if isinstance(member, HostCall):
        name, heading, read, written = f"host {member.name}", "", _nbytes(member.read), _nbytes(member.written)
        operations = 0
    else:
        name, heading, (read, written) = member.name, member.heading, traffic(member.body)
        operations = flops(member.body)
    return ProfileRow(
        name, heading, len(durations_ns), middle, min(durations_ns), sum(durations_ns), read, written, operations
    )  # fmt: skip


def _nbytes(nodes: Iterable[TNode]) -> int:
    return sum(prod(node.dims, start=node.precision.nbytes) for node in nodes)
