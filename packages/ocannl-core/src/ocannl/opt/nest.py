"""What passes ask of the statements of a routine: perfect nests taken apart, and who touches which buffer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import is_

from ocannl.ir.index import TRUE, Affine, Bound, Cond, Sym
from ocannl.ir.loops import (
    Body,
    Buf,
    Expr,
    For,
    Home,
    If,
    Let,
    Load,
    Local,
    Pick,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
)
from ocannl.ir.walk import Node, children


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops, one inside the other, around a single write; `cond` gathers the guards on the way to it."""

    loops: tuple[For, ...]
    cond: Cond
    leaf: Store | Update

    @property
    def iterations(self) -> int:
        count = 1
        for loop in self.loops:
            count *= loop.sym.extent
        return count


def nest_of(stmt: Stmt) -> Nest | None:
    """The statement as a perfect nest; None for anything else."""
    loops: list[For] = []
    cond = TRUE
    while True:
        match stmt:
            case For(body=(inner,)):
                loops.append(stmt)
                stmt = inner
            case If(guard, (inner,), ()):
                cond = cond & guard
                stmt = inner
            case Store() | Update():
                return Nest(tuple(loops), cond, stmt)
            case _:
                return None


def with_leaf(stmt: Stmt, leaf: Store | Update) -> Stmt:
    """The perfect nest `stmt` around another write."""
    match stmt:
        case For(body=(inner,)):
            return For(stmt.sym, stmt.lo, stmt.hi, (with_leaf(inner, leaf),), stmt.step, stmt.origin)
        case If(guard, (inner,), ()):
            return If(guard, (with_leaf(inner, leaf),))
        case _:
            return leaf


def around(loops: Sequence[For], cond: Cond, body: Body) -> Body:
    """`body` inside the loops, each fact of `cond` tested as far out as its symbols allow."""
    if not loops:
        return body if cond.is_true else (If(cond, body),)
    here, below = split(cond, [old.sym for old in loops])
    first = loops[0]
    turn = replace(first, body=around(loops[1:], below, body))
    return (turn,) if here.is_true else (If(here, (turn,)),)


def clipped(loops: Sequence[For], cond: Cond, body: Body) -> Body:
    """As `around`, with inequalities as bounds of the innermost loop that they depend on."""
    if not loops:
        return body if cond.is_true else (If(cond, body),)
    first, *rest = loops
    inner = [loop.sym for loop in rest]
    here, below = split(cond, [first.sym, *inner])
    mine, below = split(below, inner)
    lows, highs = list(first.lo.of), list(first.hi.of)
    for fact in mine.ge0:
        coef = fact.coef(first.sym)
        others = fact - Affine(((coef, first.sym),))
        (lows if coef > 0 else highs).append((-others if coef > 0 else others, abs(coef)))
    same = Cond((), mine.eq0)
    turn = replace(first, lo=_lower(lows), hi=_upper(highs), body=clipped(rest, below & same, body))
    return (turn,) if here.is_true else (If(here, (turn,)),)


def _lower(of: list[tuple[Affine, int]]) -> Bound:
    """The bound with its numbers as one, if the others do not say as much anyway."""
    number = max([-(-index.const // div) for index, div in of if index.is_const], default=None)
    others = [(index, div) for index, div in of if not index.is_const]
    if number is None or any(-(-index.range()[0] // div) >= number for index, div in others):
        return Bound(tuple(others))
    return Bound(((Affine((), number), 1), *others))


def _upper(of: list[tuple[Affine, int]]) -> Bound:
    number = min([index.const // div for index, div in of if index.is_const], default=None)
    others = [(index, div) for index, div in of if not index.is_const]
    if number is None or any(index.range()[1] // div <= number for index, div in others):
        return Bound(tuple(others))
    return Bound(((Affine((), number), 1), *others))


def in_order(loops: Sequence[For], syms: Sequence[Sym]) -> list[For]:
    """The loops over these symbols."""
    by_sym = {loop.sym: loop for loop in loops}
    return [by_sym[sym] for sym in syms]


def split(cond: Cond, syms: Sequence[Sym]) -> tuple[Cond, Cond]:
    """The facts that do not depend on `syms`, and those that do."""

    def part(facts: tuple[Affine, ...], depends: bool) -> tuple[Affine, ...]:
        return tuple([f for f in facts if any(s in syms for s in f.syms) is depends])

    return Cond(part(cond.ge0, False), part(cond.eq0, False)), Cond(part(cond.ge0, True), part(cond.eq0, True))


def block(body: Body) -> Stmt:
    """One statement that is this body; what is local to it stays local."""
    return body[0] if len(body) == 1 else If(TRUE, body)


def is_whole(loop: For) -> bool:
    """Whether the loop runs over the whole range of its symbol, one by one."""
    return loop.step == 1 and loop.lo.constant == loop.sym.lo and loop.hi.constant == loop.sym.hi


def is_claimed(stmt: Stmt) -> bool:
    """Whether it is a loop that stays outside of all others."""
    return isinstance(stmt, For) and stmt.claimed > 0


def loads(expr: Expr) -> list[Ref]:
    """Every cell the expression may read, left to right, with repetitions."""
    found: list[Ref] = []
    stack: list[Node] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            found.append(node.ref)
        else:
            stack.extend(children(node)[::-1])
    return found


def leaves(body: Body) -> Iterator[Store | Update | Let | Local | Pick]:
    """The statements below loops and guards, and picks before what they hold, in order."""
    stack = list(reversed(body))
    while stack:
        match stack.pop():
            case For(body=inner):
                stack.extend(reversed(inner))
            case If(_, then, orelse):
                stack.extend(reversed(then + orelse))
            case Pick(_, _, inner) as pick:
                yield pick
                stack.extend(reversed(inner))
            case Store() | Update() | Let() | Local() as leaf:
                yield leaf
            case _:
                pass


def touched(stmt: Stmt) -> tuple[list[Buf], list[Buf]]:
    """The buffers a statement reads and those it writes; what an update adds to counts as written only."""
    read: dict[Buf, None] = {}
    written: dict[Buf, None] = {}
    for leaf in leaves((stmt,)):
        match leaf:
            case Store(ref, value) | Update(ref, _, value):
                written[ref.buf] = None
                read.update((r.buf, None) for r in loads(value))
            case Let(_, value) | Pick(_, value, _):
                read.update((r.buf, None) for r in loads(value))
            case Local():
                pass
    return list(read), list(written)


def names_of(proc: Proc) -> Iterator[str]:
    """Every name that the program binds."""
    yield from (buf.name for buf in proc.bufs)
    yield from (sym.name for sym in proc.syms)
    stack: list[Body] = [proc.body]
    while stack:
        for stmt in stack.pop():
            match stmt:
                case For(sym, _, _, body):
                    yield sym.name
                    stack.append(body)
                case If(_, then, orelse):
                    stack += (then, orelse)
                case Pick(sym, _, body):
                    yield sym.name
                    stack.append(body)
                case Let(name, _):
                    yield name
                case Local(buf):
                    yield buf.name
                case _:
                    pass


def writes_kept(stmt: Stmt) -> bool:
    """Whether the caller looks at what the statement writes, even if that has no cells."""
    return any(buf.home is Home.POOL for buf in touched(stmt)[1])


def same(new: Sequence[object], old: Sequence[object]) -> bool:
    """Whether a rebuilt sequence is made of the objects of the old one."""
    return len(new) == len(old) and all(map(is_, new, old))


class Table:
    """Which statements of a body read and write each buffer: positions, ascending."""

    __slots__ = ("readers", "writers")

    def __init__(self, body: Body) -> None:
        self.readers: dict[Buf, list[int]] = {}
        self.writers: dict[Buf, list[int]] = {}
        for at, stmt in enumerate(body):
            read, written = touched(stmt)
            for buf in read:
                self.readers.setdefault(buf, []).append(at)
            for buf in written:
                self.writers.setdefault(buf, []).append(at)

    def written_between(self, buf: Buf, first: int, last: int) -> bool:
        """Whether a statement strictly after `first` and strictly before `last` writes it."""
        return _any_between(self.writers.get(buf, ()), first, last)

    def read_between(self, buf: Buf, first: int, last: int) -> bool:
        return _any_between(self.readers.get(buf, ()), first, last)


def _any_between(positions: list[int] | tuple[int, ...], first: int, last: int) -> bool:
    return bisect_left(positions, last) > bisect_right(positions, first)


def covers(nest: Nest) -> bool:
    """Whether the nest writes every cell of its buffer."""
    if not nest.cond.is_true or not all(is_whole(loop) for loop in nest.loops):
        return False
    if any(loop.sym.extent == 0 for loop in nest.loops):
        return 0 in nest.leaf.ref.buf.shape
    return walked(nest.leaf.ref, nest.loops) is not None


def walked(ref: Ref, loops: Sequence[For]) -> set[Sym] | None:
    """Those of the loops by which `ref` is every cell of the buffer once: the places are numbers in a mixed radix whose
    digits are loops, each used once. None if they are not."""
    free = {loop.sym for loop in loops if is_whole(loop)}
    used: set[Sym] = set()
    for place, size in zip(ref.at, ref.buf.shape, strict=True):
        count, start = 1, place.const
        for coef, sym in sorted(place.terms, key=lambda t: t[0]):
            if sym not in free or sym in used or coef != count:
                return None
            used.add(sym)
            count *= sym.extent
            start += coef * sym.lo
        if start != 0 or count != size:
            return None
    return used


def grid(ref: Ref, loops: Sequence[For]) -> set[Sym] | None:
    """As `walked`, where each place is a loop (that of a size of 1 may be fixed)."""
    single = all(place.only_sym is not None or place.is_const for place in ref.at)
    return walked(ref, loops) if single else None
