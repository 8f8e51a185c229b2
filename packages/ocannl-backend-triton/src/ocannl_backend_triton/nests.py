"""What a kernel asks of its statements: which loops are whole or independent, and how they walk through arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd, prod

from ocannl.ir.index import Affine, Sym, SymKind
from ocannl.ir.loops import Body, Buf, Comment, For, If, Load, Local, Pick, Poll, Ref, Store, Update
from ocannl.ir.precision import bool_
from ocannl.ir.touch import are_independent, touches
from ocannl.ir.walk import walk


def is_whole(loop: For) -> bool:
    """Whether the loop runs over the whole range of its symbol, one by one."""
    return loop.step == 1 and loop.lo.constant == loop.sym.lo and loop.hi.constant == loop.sym.hi


def is_same(index: Affine, div: int, sym: Sym, block: int) -> bool:
    """Whether a quotient, rounded down, is one number for the iterations over a symbol that a block takes."""
    coef = index.coef(sym)
    others = index + Affine(((-coef, sym),), coef * sym.lo)
    step = gcd(div, coef * block, others.const, *(c for c, _ in others.terms))
    return coef == 0 or 0 < coef * (block - 1) < step


def quotients(loop: For) -> Iterator[tuple[Affine, int]]:
    """The bounds of a loop, as what is divided, rounded down, by what."""
    yield from ((index + (div - 1), div) for index, div in loop.lo.of)
    yield from loop.hi.of


def parallel(body: Body) -> tuple[list[For], Body]:
    """The outermost loops, one inside the other, of which each iteration is independent, and what is inside."""
    chain: list[For] = []
    while True:
        match [stmt for stmt in body if not isinstance(stmt, Comment | Poll)]:
            case [For() as loop] if is_whole(loop):
                outer = [each.sym for each in chain]
                if not are_independent(touches(loop.body), loop.sym, outer, sums=False):
                    return chain, body
                chain.append(loop)
                body = loop.body
            case [If(_, inner, ())]:
                body = inner
            case _:
                return chain, body


def hoisted(body: Body) -> Body:
    """The body with independent loops outside of the other ones that it is made of, such as the columns of a table to
    which rows are added one after the other."""
    path: list[For | If | Pick] = []
    inner = body
    while True:
        match [stmt for stmt in inner if not isinstance(stmt, Comment | Poll)]:
            case [For() | If(_, _, ()) | Pick() as stmt]:
                path.append(stmt)
                inner = stmt.then if isinstance(stmt, If) else stmt.body
            case _:
                break
    here = touches(body)
    free = [s for s in path if isinstance(s, For) and is_whole(s) and are_independent(here, s.sym, (), sums=False)]
    new = [*free, *(stmt for stmt in path if all(stmt is not one for one in free))]
    if all(a is b for a, b in zip(new, path, strict=True)):
        return body
    for stmt in reversed(new):
        inner = (replace(stmt, then=inner) if isinstance(stmt, If) else replace(stmt, body=inner),)
    return inner


def lanes(body: Body, outer: tuple[Sym, ...]) -> Iterator[For]:
    """Loops that can be executed in blocks, statement by statement: innermost ones, whose iterations have nothing in
    common but what they add to."""
    for stmt in body:
        match stmt:
            case For(sym, _, _, inner):
                below = list(lanes(inner, (*outer, sym)))
                if below or any(isinstance(node, For | Local) for node in walk(inner)):
                    yield from below
                elif is_whole(stmt) and not _counts(inner) and are_independent(touches(inner), sym, outer, sums=True):
                    yield stmt
            case If(_, then, orelse):
                yield from lanes(then, outer)
                yield from lanes(orelse, outer)
            case Pick(sym, _, inner):
                yield from lanes(inner, (*outer, sym))


def scatters(body: Body) -> bool:
    """Whether memory says where something is written: iterations may meet in one cell."""
    places = (at for node in walk(body) if isinstance(node, Store | Update) for at in node.ref.at)
    return any(sym.kind is SymKind.PICKED for at in places for sym in at.syms)


def _counts(body: Body) -> bool:
    """Whether each single iteration counts."""
    return scatters(body) or _alters(body)


def _alters(body: Body) -> bool:
    """Whether numbers become truth values by the first term, so that it matters whether there is one."""
    return any(
        isinstance(node, Update) and node.op.name in ("and", "or") and node.ref.buf.precision is not bool_
        for node in walk(body)
    )


def address(ref: Ref) -> Affine:
    """In elements from the first one."""
    return sum((at * stride for at, stride in zip(ref.at, ref.buf.strides, strict=True)), Affine())


def written(body: Body) -> dict[Buf, None]:
    return {node.ref.buf: None for node in walk(body) if isinstance(node, Store | Update)}


class Strides:
    """In how many cells that are read or written a symbol moves the address by one, those that are written counting
    twice."""

    def __init__(self, body: Body) -> None:
        self.weights: dict[Sym, int] = {}
        for node in walk(body):
            match node:
                case Load(ref): times = 1
                case Store(ref) | Update(ref): times = 2
                case _: continue
            cells = prod({sym: sym.extent for at in ref.at for sym in at.syms}.values())
            for sym in _unit(ref):
                self.weights[sym] = self.weights.get(sym, 0) + times * cells

    def weight(self, sym: Sym) -> int:
        return self.weights.get(sym, 0)


def _unit(ref: Ref) -> list[Sym]:
    return [sym for coef, sym in address(ref).terms if abs(coef) == 1 and sym.kind is SymKind.LOOP]
