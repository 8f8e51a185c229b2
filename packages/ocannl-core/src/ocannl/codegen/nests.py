"""A program cut into functions, one for each loop nest: compilers see small bodies, and only the arrays they touch.

    y[...] = ...        -+
    z = ...             -+-  statements without loops, together
    for i: ...          ---  one nest
    local s; for j: ...  |
    for k: ...          -+-  from a definition to the end of its scope
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ocannl.ir.assign import Origin
from ocannl.ir.index import Sym, SymKind
from ocannl.ir.loops import (
    Body,
    Buf,
    Comment,
    For,
    Home,
    Idx,
    If,
    Let,
    Load,
    Local,
    Poll,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    When,
)
from ocannl.ir.walk import Node, walk
from ocannl.ir.work import STRETCH, work_of

STRAIGHT = 32  # statements without loops that share a function


@dataclass(frozen=True, slots=True)
class Claim:
    """Iterations from `first` to below `limit` of `loop`, taken `size` at a time by whichever thread is free; at one of
    so many (`polled`) a thread looks whether it is to leave."""

    loop: For
    first: int
    limit: int
    size: int
    polled: int

    @property
    def count(self) -> int:
        """How many claims there are."""
        return -(-(self.limit - self.first) // self.size)


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """A piece of a program that can be a function of its own: its statements; what they need from outside, by first
    mention; and how threads share it, if they do."""

    body: Body
    bufs: tuple[Buf, ...]
    syms: tuple[Sym, ...]
    labels: tuple[str, ...]
    claim: Claim | None = None

    @property
    def polls(self) -> bool:
        """It may be cancelled."""
        return any(isinstance(node, Poll) for node in walk(self.body))

    @property
    def streams(self) -> bool:
        """It writes past the caches, and must wait for that in the end."""
        return any(isinstance(node, Store) and node.streamed for node in walk(self.body))

    @property
    def disjoint(self) -> frozenset[Buf]:
        """The arrays that share no memory with another of this nest: pools never do, blocks of the arena may."""
        blocks = sorted((b for b in self.bufs if b.home is Home.ARENA), key=lambda b: b.offset or 0)
        shared: set[Buf] = set()
        widest: Buf | None = None  # of the blocks so far, the one that ends last
        for block in blocks:
            if widest is not None and (block.offset or 0) < (widest.offset or 0) + widest.nbytes:
                shared |= {block, widest}
            if widest is None or (block.offset or 0) + block.nbytes > (widest.offset or 0) + widest.nbytes:
                widest = block
        return frozenset(self.bufs) - shared


def nests(proc: Proc) -> tuple[Nest, ...]:
    return tuple(_nest(body) for body in _pieces(proc.body) if any(not isinstance(s, Comment) for s in body))


def _pieces(body: Body) -> Iterator[Body]:
    straight: list[Stmt] = []
    for place, stmt in enumerate(body):
        if isinstance(stmt, Let | Local):
            yield (*straight, *body[place:])
            return
        straight.append(stmt)
        looping = any(isinstance(node, For) for node in walk(stmt))
        if looping and len(straight) > 1 and not all(isinstance(s, Comment) for s in straight[:-1]):
            # comments stand before what they speak of
            cut = len(straight) - 1
            while isinstance(straight[cut - 1], Comment):
                cut -= 1
            yield tuple(straight[:cut])
            straight = straight[cut:]
        if looping or len(straight) >= STRAIGHT:
            yield tuple(straight)
            straight = []
    if straight:
        yield tuple(straight)


def _nest(body: Body) -> Nest:
    bufs: dict[Buf, None] = {}
    syms: dict[Sym, None] = {}
    labels: dict[str, None] = {}
    local: set[Buf] = set()
    for node in walk(body):
        match node:
            case Local(buf, _):
                local.add(buf)
            case Load(ref):
                bufs.setdefault(ref.buf)
            case Store(ref, _, origin) | Update(ref, _, _, origin):
                bufs.setdefault(ref.buf)
                _add_label(labels, origin)
            case For():
                _add_label(labels, node.origin)
            case _:
                pass
        for sym in _symbols(node):
            if sym.kind is SymKind.STATIC:
                syms.setdefault(sym)
    return Nest(body, tuple(b for b in bufs if b not in local), tuple(syms), tuple(labels), _claim(body))


def _claim(body: Body) -> Claim | None:
    loops = [stmt for stmt in body if not isinstance(stmt, Comment)]
    if len(loops) != 1 or not isinstance(loops[0], For) or not loops[0].claimed:
        return None
    loop = loops[0]
    first, last = loop.lo.constant, loop.hi.constant
    assert first is not None and last is not None
    each = work_of(loop) * loop.claimed // max(1, last + 1 - first)
    return Claim(loop, first, last + 1, loop.claimed, max(1, STRETCH // max(1, each)))


def _add_label(labels: dict[str, None], origin: Origin) -> None:
    if origin.label:
        labels.setdefault(origin.label)


def _symbols(node: Node) -> Iterator[Sym]:
    """The symbols that a node itself mentions."""
    ref: Ref | None = None
    match node:
        case Load(ref) | Store(ref) | Update(ref):
            for at in ref.at:
                yield from at.syms
        case Idx(index, _):
            yield from index.syms
        case For(_, lo, hi):
            yield from lo.syms
            yield from hi.syms
        case If(cond) | When(cond):
            yield from cond.syms
        case _:
            pass
