"""Partition of a program: one program per loop nest, to be profiled or autotuned separately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ocannl.codegen.outlining import Nest, outline_nests
from ocannl.ir.affine import Affine, Bound
from ocannl.ir.loops import (
    AccessMode,
    Body,
    Buf,
    Comment,
    For,
    If,
    Local,
    MemorySpace,
    Proc,
    ReadClock,
    Ref,
    Stmt,
    Store,
    Update,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.precision import int64
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.walk import walk
from ocannl.opt.analysis.nests import bound_names
from ocannl.opt.analysis.substitution import replace_buffers

MAX_NAMED_ARRAYS = 3  # in the name of a nest


@dataclass(frozen=True, slots=True)
class MeasuredNest:
    """The nest or part measured by a row."""

    name: str
    heading: str
    body: Body


@dataclass(frozen=True, slots=True)
class NestProgram:
    """A nest as a separate program. If it has several members, it stores their start and end times in `timestamps`, for
    each iteration of its loop."""

    proc: Proc
    members: tuple[MeasuredNest, ...]
    timestamps: TNode | None = None


def partition(proc: Proc, with_timestamps: bool = True) -> tuple[NestProgram, ...]:
    """Partitions a program into one program per nest, to be executed in order. Nests with parts record timestamps if
    `with_timestamps`.

    The arena layout is preserved, so its contents carry over from one program to the next.
    """
    program_names, array_names = Namer([proc.name]), Namer(bound_names(proc))
    heading = ""
    pieces = []
    for nest in outline_nests(proc):
        heading = _heading(nest.body) or heading
        written = _written(nest)
        if not written:
            continue
        name, members, timestamps = program_names(f"{proc.name}_{written[0].name}"), [], None
        has_loop = any(isinstance(stmt, For) for stmt in nest.function_body)  # conditional code is not divided
        parts = _part_caller(nest).callees if with_timestamps and has_loop else ()
        for part in parts or (nest,):
            heading = _heading(part.body) or heading
            if _written(part):
                members.append(MeasuredNest(_title(_written(part)), heading, _isolate_part(nest, part)))
        if parts:
            nest, timestamps = _with_timestamps(nest, array_names("stamps"))
        pieces.append(NestProgram(nest_program(name, proc, nest), tuple(members), timestamps))
    return tuple(pieces)


def _isolate_part(nest: Nest, part: Nest) -> Body:
    """Returns the loop of the nest with this part only, and the local arrays shared between parts."""
    if part is nest:
        return nest.body
    loop = _part_loop(_part_caller(nest))
    lo, hi = Bound.lower(loop.sym.lo), Bound.upper(loop.sym.hi + 1)
    return (replace(loop, lo=lo, hi=hi, body=(*_shared_locals(loop), *part.body)),)


def _with_timestamps(nest: Nest, name: str) -> tuple[Nest, TNode]:
    """Returns the nest with clock reads around its parts, and the node of the timestamps."""
    caller = _part_caller(nest)
    loop, part_count = _part_loop(caller), sum(bool(_written(part)) for part in caller.callees)
    shape = (loop.sym.extent, part_count + 1)
    node = TNode(name, Role.STATE, lambda: shape, lambda: int64)
    buf = Buf(name, int64, shape, row_major(shape), MemorySpace.GLOBAL, AccessMode.OUT, node)
    iteration = Affine.of(loop.sym) - loop.sym.lo
    columns = map(Affine.of, range(part_count + 1))
    body: list[Stmt] = [*_shared_locals(loop), ReadClock(Ref(buf, (iteration, next(columns))))]
    for part in caller.callees:
        body += part.body
        if _written(part):
            body.append(ReadClock(Ref(buf, (iteration, next(columns)))))
    stamped = replace(loop, body=tuple(body))
    if caller is not nest:
        strips = _part_loop(nest)
        stamped = replace(strips, body=tuple([stamped if stmt is loop else stmt for stmt in strips.body]))
    (stmt,) = (stmt for stmt in nest.body if not isinstance(stmt, Comment))
    stmt = If(stmt.cond, (*stmt.then[:-1], stamped)) if isinstance(stmt, If) else stamped  # of private arrays
    return replace(nest, body=(stmt,), bufs=(*nest.bufs, buf)), node


def _part_caller(nest: Nest) -> Nest:
    """Returns the nest that calls the parts: the nest itself, or the loop over one strip if its loop is strip-mined."""
    written = [part for part in nest.callees if _written(part)]
    is_strip_mined = len(written) == 1 and written[0].callees and _part_loop(nest).step > 1
    return written[0] if is_strip_mined else nest


def _part_loop(nest: Nest) -> For:
    """Returns the loop that calls the parts."""
    (loop,) = (stmt for stmt in nest.function_body if isinstance(stmt, For))
    return loop


def _shared_locals(loop: For) -> Body:
    return tuple([stmt for stmt in loop.body if isinstance(stmt, Local) and stmt.buf.offset is not None])


def _heading(body: Body) -> str:
    return " / ".join(dict.fromkeys(_single_line(stmt.text) for stmt in body if isinstance(stmt, Comment)))


def _written(nest: Nest) -> tuple[Buf, ...]:
    buffers = {stmt.ref.buf for stmt in walk(nest.body) if isinstance(stmt, Store | Update)}
    return tuple(buf for buf in nest.bufs if buf in buffers)


def nest_program(name: str, proc: Proc, nest: Nest) -> Proc:
    """Returns a program that consists of the nest only."""
    arena = proc.arena if any(buf.space is MemorySpace.ARENA for buf in nest.bufs) else 0
    shared = {buf: replace(buf, access=AccessMode.INOUT) for buf in nest.bufs if buf.space is MemorySpace.ARENA}
    return replace_buffers(Proc(name, nest.bufs, nest.syms, nest.body, arena=arena), shared)


def _title(buffers: Sequence[Buf]) -> str:
    labels = [_single_line(buf.node.label if buf.node else buf.name) for buf in buffers]
    more = f" and {len(labels) - MAX_NAMED_ARRAYS} more" if len(labels) > MAX_NAMED_ARRAYS else ""
    return ", ".join(labels[:MAX_NAMED_ARRAYS]) + more


def _single_line(text: str) -> str:
    """Returns a user-defined name in printable form, on one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
