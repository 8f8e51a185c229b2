"""Provenance: the tensor and the source line behind every line of a printed program.

Passes copy the origin of a statement to what they derive from it, but create some statements without one: loops over
tiles, accumulators, copies into packed arrays. These have the origin of the nest they belong to:

    for b0 in 0..6:                    loss = ...   model.py:9    of its first statement that has an origin
      local acc: f32[4,16]                                        of the line above
      acc[b1, c] = 0                                              of the line above
      loss[b0] += acc[b1, c]           loss = ...   model.py:9
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from ocannl.ir.assign import NOWHERE, Origin
from ocannl.ir.loops import Buf, Comment, For, Load, Prefetch, Proc, ReadClock, Stmt, Store, Update
from ocannl.ir.printer import PrintedLoops, header_lines, statement_lines, statement_origin
from ocannl.ir.walk import walk

Lines = list[tuple[str, Origin | None]]


class ProgramLine(NamedTuple):
    """A line of a printed program. Its origin is `NOWHERE` only if no statement of the program has an origin."""

    text: str
    origin: Origin


class ProgramPart(NamedTuple):
    """The lines of a header, or of a statement of the outermost level, with the origin of each line."""

    texts: Sequence[str]
    origins: Sequence[Origin]

    def lines(self) -> Iterator[ProgramLine]:
        return map(ProgramLine, self.texts, self.origins)


@dataclass(frozen=True)
class PrintedHeader:
    """The lines of a header, the origins of its arrays, and the arrays whose origin only statements can tell."""

    texts: tuple[str, ...]
    arrays: dict[Buf, Origin]
    unknown: frozenset[Buf]

    @staticmethod
    def of(proc: Proc) -> PrintedHeader:
        arrays = {buf: Origin(buf.node.label, buf.node.where) if buf.node else NOWHERE for buf in proc.bufs}
        unknown = frozenset([buf for buf, origin in arrays.items() if not _has_position(origin)])
        return PrintedHeader(tuple([text for text, _ in header_lines(proc)]), arrays, unknown)


@dataclass(frozen=True)
class PrintedNest:
    """A statement of the outermost level: its lines, and their origins as far as the statement has them. If all lines
    have an origin, all programs with the statement share `part`."""

    stmt: Stmt
    texts: list[str]
    origins: list[Origin | None]
    part: ProgramPart | None

    @staticmethod
    def of(stmt: Stmt, loops: PrintedLoops) -> PrintedNest:
        lines = statement_lines(stmt, loops)
        texts = [text for text, _ in lines]
        origins = _resolve_nest(lines)
        resolved = [origin for origin in origins if origin is not None]
        return PrintedNest(stmt, texts, origins, ProgramPart(texts, resolved) if len(resolved) == len(texts) else None)

    @cached_property
    def accesses(self) -> tuple[frozenset[Buf], frozenset[Buf]]:
        """The arrays that the statement reads, and those that it writes."""
        read, written = _accesses(self.stmt)
        return frozenset(read), frozenset(written)


@dataclass(frozen=True)
class PrintCache:
    """What programs of one compilation share when they are printed: most passes keep most statements, and all arrays.

    Attributes:
        nests: printed statements of the outermost level by identity
        loops: the lines of loops
        headers: printed headers by name, symbols and arrays
    """

    nests: dict[int, PrintedNest] = field(default_factory=dict)
    loops: PrintedLoops = field(default_factory=dict)
    headers: dict[tuple[object, ...], PrintedHeader] = field(default_factory=dict)

    def nests_of(self, proc: Proc) -> list[PrintedNest]:
        nests = []
        for stmt in proc.body:
            nest = self.nests.get(id(stmt))
            if nest is None:
                nest = self.nests[id(stmt)] = PrintedNest.of(stmt, self.loops)
            nests.append(nest)
        return nests

    def header_of(self, proc: Proc) -> PrintedHeader:
        key = (proc.name, proc.syms, proc.bufs)
        if key not in self.headers:
            self.headers[key] = PrintedHeader.of(proc)
        return self.headers[key]


Resolved = Sequence[Sequence[Origin | None]]
"""The origins of the lines of each statement of the outermost level; None if no statement of the program has one."""


def program_lines(proc: Proc, cache: PrintCache | None = None) -> tuple[ProgramLine, ...]:
    """Returns the lines of `print_proc(proc)` with their origins. The header has the origin of the first statement."""
    return tuple(chain.from_iterable([part.lines() for part in program_parts(proc, cache)]))


def program_parts(proc: Proc, cache: PrintCache | None = None) -> list[ProgramPart]:
    """Returns the header, and each statement of the outermost level. Programs that share a statement share its part."""
    cache = cache or PrintCache()
    nests = cache.nests_of(proc)
    resolved = _resolve(proc.body, nests)
    body = _body_parts(nests, resolved)
    header = cache.header_of(proc)
    arrays = _buffer_origins(header, nests, resolved)
    first = body[0].origins[0] if body else NOWHERE
    return [ProgramPart(header.texts, [first, *map(arrays.__getitem__, proc.bufs)]), *body]


def body_lines(proc: Proc, cache: PrintCache | None = None) -> list[ProgramLine]:
    """Returns the lines of the statements: those of `program_lines` without the header."""
    nests = (cache or PrintCache()).nests_of(proc)
    return list(chain.from_iterable([part.lines() for part in _body_parts(nests, _resolve(proc.body, nests))]))


def _body_parts(nests: Sequence[PrintedNest], resolved: Resolved) -> list[ProgramPart]:
    return [
        nest.part or ProgramPart(nest.texts, [origin or NOWHERE for origin in origins])
        for nest, origins in zip(nests, resolved, strict=True)
    ]


def buffer_origins(proc: Proc, cache: PrintCache | None = None) -> dict[Buf, Origin]:
    """The origin of each array: that of its node, or else that of the first statement that accesses the array."""
    cache = cache or PrintCache()
    nests = cache.nests_of(proc)
    return _buffer_origins(cache.header_of(proc), nests, _resolve(proc.body, nests))


def nest_origins(body: Sequence[Stmt], arrays: Mapping[Buf, Origin]) -> tuple[Origin, ...]:
    """The distinct origins of the statements of a nest, in order; of a nest without any, those of what it writes."""
    statements = [node for node in walk(tuple(body)) if isinstance(node, For | Store | Update)]
    origins = [node.origin if isinstance(node, For) else statement_origin(node) for node in statements]
    with_origin = dict.fromkeys([origin for origin in origins if _has_position(origin)])
    if with_origin:
        return tuple(with_origin)
    written = {buf for stmt in body for buf in _accesses(stmt)[1]}
    return tuple(dict.fromkeys([origin for buf, origin in arrays.items() if buf in written]))


def buffer_lifetimes(proc: Proc, cache: PrintCache | None = None) -> dict[Buf, tuple[int, int]]:
    """The first and the last statement of the outermost level that access each array."""
    return _lifetimes(proc, (cache or PrintCache()).nests_of(proc))


def _lifetimes(proc: Proc, nests: Sequence[PrintedNest]) -> dict[Buf, tuple[int, int]]:
    lifetimes: dict[Buf, tuple[int, int]] = {}
    for n, nest in enumerate(nests):
        read, written = nest.accesses
        for buf in read | written:
            lifetimes[buf] = lifetimes.get(buf, (n, n))[0], n
    return {buf: lifetimes[buf] for buf in proc.bufs if buf in lifetimes}


def _buffer_origins(header: PrintedHeader, nests: Sequence[PrintedNest], resolved: Resolved) -> dict[Buf, Origin]:
    origins, remaining = dict(header.arrays), set(header.unknown)
    for nest, lines in zip(nests, resolved, strict=True):
        if not remaining:
            break
        read, written = nest.accesses
        for buf in (*(read & remaining), *(written & remaining)):
            origins[buf] = lines[0] or NOWHERE
            remaining.discard(buf)
    return origins


def _resolve(body: Sequence[Stmt], nests: Sequence[PrintedNest]) -> Resolved:
    """The origins of all lines of the statements of the outermost level."""
    resolved: list[Sequence[Origin | None]] = [nest.origins for nest in nests]
    incomplete = [n for n, nest in enumerate(nests) if nest.part is None]
    if incomplete:
        _resolve_copies(body, nests, resolved)
        _resolve_neighbours(incomplete, resolved)
    return resolved


def _has_position(origin: Origin | None) -> bool:
    return origin is not None and bool(origin.where)


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _resolve_nest(nest: Lines) -> list[Origin | None]:
    """Resolves the origins of lines by those below, then by those above."""
    origins = [origin if _has_position(origin) else None for _, origin in nest]
    if None not in origins:
        return origins
    depths = [_depth(text) for text, _ in nest]
    nearest: Origin | None = None  # of the lines that follow
    lowest = 0  # depth of the lines from the current one to the nearest with an origin
    for n, depth in reversed(list(enumerate(depths))):
        if origins[n] is None and lowest > depth:
            origins[n] = nearest
        lowest = min(lowest, depth)
        if origins[n] is not None:
            nearest, lowest = origins[n], depth
    above: list[int] = []  # the lines that enclose the current one
    for n, depth in enumerate(depths):
        while above and depths[above[-1]] >= depth:
            above.pop()
        if origins[n] is None and above:
            origins[n] = origins[above[-1]]
        above.append(n)
    return origins


def _resolve_copies(
    body: Sequence[Stmt], nests: Sequence[PrintedNest], resolved: list[Sequence[Origin | None]]
) -> None:
    """Gives nests without an origin the origin of the first later nest that reads what they write."""
    for n in reversed(range(len(nests))):
        if resolved[n][0] is None and not isinstance(body[n], Comment):
            _, written = nests[n].accesses
            readers = (m for m in range(n + 1, len(nests)) if resolved[m][0] and nests[m].accesses[0] & written)
            reader = next(readers, None)
            if reader is not None:
                resolved[n] = [origin or resolved[reader][0] for origin in resolved[n]]


def _resolve_neighbours(incomplete: Sequence[int], resolved: list[Sequence[Origin | None]]) -> None:
    """Gives the remaining lines, such as headings, the origin of the next nest, or else of the previous one."""
    for distance, order in ((1, reversed(incomplete)), (-1, incomplete)):
        for n in order:
            if 0 <= n + distance < len(resolved):
                neighbour = resolved[n + distance][0]
                resolved[n] = [origin or neighbour for origin in resolved[n]]


def _accesses(stmt: Stmt) -> tuple[set[Buf], set[Buf]]:
    """Returns the arrays that a statement reads and those that it writes."""
    read: set[Buf] = set()
    written: set[Buf] = set()
    for node in walk((stmt,)):
        match node:
            case Load(ref) | Prefetch(ref):
                read.add(ref.buf)
            case Store(ref) | ReadClock(ref):
                written.add(ref.buf)
            case Update(ref):
                read.add(ref.buf)
                written.add(ref.buf)
            case _:
                pass
    return read, written
