"""A program cut into functions, one for each loop nest: compilers see small bodies, and only the arrays they touch.

    y[...] = ...        -+
    z = ...             -+-  statements without loops, together
    for i: ...          ---  one nest
    local s; for j: ...  |
    for k: ...          -+-  from a definition to the end of its scope
    for b:              -+
      for i: ...         |-  one nest, whose parts are functions as well, if each of them is long enough
      for j: ...        -+
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ocannl.ir.assign import Origin
from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import (
    Apply,
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
    Mode,
    Num,
    Pick,
    Poll,
    Prefetch,
    Proc,
    Stamp,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.walk import walk
from ocannl.ir.work import STRETCH, work

STRAIGHT = 32  # statements without loops that share a function
AHEAD = Comment | Prefetch  # stand before what they speak of
CALL = 10_000  # of work in a part of a nest, on the average, for which its call is nothing


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
    mention; how threads share it, if they do; and the nests that the body of its only loop calls, if there are any."""

    body: Body
    bufs: tuple[Buf, ...]
    syms: tuple[Sym, ...]
    labels: tuple[str, ...]
    claim: Claim | None = None
    parts: tuple[Nest, ...] = ()
    polls: bool = False  # it may be cancelled, or looks at the time: it is given the control structure
    streams: bool = False  # it writes past the caches, and must wait for that in the end
    stack_bytes: int = 0  # that local arrays share

    @property
    def handed(self) -> tuple[Local, ...]:
        """The arrays that parts hand to each other."""
        loop = _only_loop(self.body) if self.parts else None
        return _handed(loop) if loop is not None else ()

    def calls_in(self, stmt: Stmt) -> bool:
        """Whether it is the loop whose body calls the parts."""
        return bool(self.parts) and any(stmt is each for each in self.body)

    @property
    def disjoint(self) -> frozenset[Buf]:
        """The arrays that share no memory with another of this nest: pools never do, blocks of the arena may, and of
        the stack."""
        shared: set[Buf] = set()
        for home in (Home.ARENA, Home.REG):
            placed = [(buf.offset, buf) for buf in self.bufs if buf.home is home and buf.offset is not None]
            end, widest = 0, None  # of the blocks so far, the one that ends last
            for offset, block in sorted(placed, key=lambda each: each[0]):
                if widest is not None and offset < end:
                    shared |= {block, widest}
                if widest is None or offset + block.nbytes > end:
                    end, widest = offset + block.nbytes, block
        return frozenset(self.bufs) - shared


def nests(proc: Proc) -> tuple[Nest, ...]:
    return _nests(proc.body)


def with_parts(nests: Iterable[Nest]) -> Iterator[Nest]:
    """The nests, each after those that it calls."""
    for nest in nests:
        yield from with_parts(nest.parts)
        yield nest


def _nests(body: Body) -> tuple[Nest, ...]:
    return tuple([_nest(piece) for piece in _pieces(body) if any(not isinstance(s, AHEAD) for s in piece)])


def _divided(loop: For) -> tuple[Body, int]:
    """What parts of the only loop of a nest are made of, and how many loops there are among them."""
    inner = tuple([stmt for stmt in loop.body if not isinstance(stmt, Local) or stmt.buf.offset is None])
    return inner, sum(any(isinstance(node, For) for node in walk(piece)) for piece in _pieces(inner))


def _handed(loop: For) -> tuple[Local, ...]:
    return tuple([stmt for stmt in loop.body if isinstance(stmt, Local) and stmt.buf.offset is not None])


def _only_loop(body: Body) -> For | None:
    match [stmt for stmt in body if not isinstance(stmt, Comment)]:
        case [For() as loop] if loop.mode is Mode.SERIAL:
            return loop
        case _:
            return None


def _pieces(body: Body) -> Iterator[Body]:
    straight: list[Stmt] = []
    for place, stmt in enumerate(body):
        if isinstance(stmt, Let | Local):
            yield (*straight, *body[place:])
            return
        straight.append(stmt)
        looping = any(isinstance(node, For) for node in walk(stmt))
        if looping and len(straight) > 1 and not all(isinstance(s, AHEAD) for s in straight[:-1]):
            cut = len(straight) - 1
            while isinstance(straight[cut - 1], AHEAD):
                cut -= 1
            yield tuple(straight[:cut])
            straight = straight[cut:]
        if looping or len(straight) >= STRAIGHT:
            yield tuple(straight)
            straight = []
    if straight:
        yield tuple(straight)


def _nest(body: Body) -> Nest:
    loop, claim = _only_loop(body), None
    if loop is not None:
        inner, many = _divided(loop)
        each = work(loop.body) if loop.claimed or many > 1 else 0
        claim = _claim(loop, each)
        if many > 1 and each >= CALL * many:
            return _calling(body, loop, claim, _nests(inner))
    bufs: dict[Buf, None] = {}
    syms: dict[Sym, None] = {}
    labels: dict[str, None] = {}
    own: set[Buf | Sym] = set()
    polls = streams = False
    stack_bytes = 0

    def mention(index: Affine) -> None:
        for _, sym in index.terms:
            syms.setdefault(sym)

    for node in walk(body):
        match node:
            case Apply() | Num() | Var():
                pass
            case Load(ref) | Store(ref) | Update(ref) | Prefetch(ref) | Stamp(ref):
                bufs.setdefault(ref.buf)
                for index in ref.at:
                    mention(index)
                if isinstance(node, Store | Update):
                    _add_label(labels, node.origin)
                    streams |= isinstance(node, Store) and node.streamed
                polls |= isinstance(node, Stamp)
            case Idx(index):
                mention(index)
            case For(sym, lo, hi):
                own.add(sym)
                for index, _ in (*lo.of, *hi.of):
                    mention(index)
                _add_label(labels, node.origin)
            case If(cond) | When(cond):
                syms.update(dict.fromkeys(cond.syms))
            case Pick(sym):
                own.add(sym)
            case Local(buf):
                own.add(buf)
                stack_bytes = max(stack_bytes, _end(buf))
            case Poll():
                polls = True
            case _:
                pass
    given = tuple([buf for buf in bufs if buf not in own]), tuple([sym for sym in syms if sym not in own])
    return Nest(body, *given, tuple(labels), claim, (), polls, streams, stack_bytes)


def _calling(body: Body, loop: For, claim: Claim | None, parts: tuple[Nest, ...]) -> Nest:
    """The nest whose loop has these parts."""
    placed = [stmt.buf for stmt in _handed(loop)]
    bufs = dict.fromkeys(buf for part in parts for buf in part.bufs if buf not in placed)
    syms = dict.fromkeys((*loop.lo.syms, *loop.hi.syms, *(s for part in parts for s in part.syms if s is not loop.sym)))
    labels = dict.fromkeys(label for label in (loop.origin.label, *(x for part in parts for x in part.labels)) if label)
    stack_bytes = max([*map(_end, placed), *(part.stack_bytes for part in parts)])
    polls, streams = any(part.polls for part in parts), any(part.streams for part in parts)
    return Nest(body, tuple(bufs), tuple(syms), tuple(labels), claim, parts, polls, streams, stack_bytes)


def _end(buf: Buf) -> int:
    """Of its place on the stack, in bytes; an empty one has a place as well."""
    return 0 if buf.offset is None else buf.offset + max(1, buf.nbytes)


def _claim(loop: For, each: int) -> Claim | None:
    """How threads share the loop, an iteration of which is so much work."""
    if not loop.claimed:
        return None
    first, last = loop.lo.constant, loop.hi.constant
    assert first is not None and last is not None
    return Claim(loop, first, last + 1, loop.claimed, max(1, STRETCH // max(1, each * loop.claimed)))


def _add_label(labels: dict[str, None], origin: Origin) -> None:
    if origin.label:
        labels.setdefault(origin.label)
