"""Groups: loops around sums in registers and the statements that use them, the form in which nests are scheduled.

    for i in 0..5:
      local acc: f32 reg            a sum: its accumulator, what that begins with,
      acc = 0
      for k in 0..7:                and the loops that feed it
        acc += w[i, k]
      let h = tanh(acc)             then the tail: definitions, stores and updates
      y[i] = h
      z[i] = h * h

Iterations of the outer loops have nothing to do with each other, unless a single update is all there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ocannl.ir.index import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import (
    Access,
    Apply,
    Body,
    Buf,
    Expr,
    For,
    Home,
    If,
    Let,
    Load,
    Local,
    Ref,
    Stmt,
    Store,
    Update,
    row_major,
)
from ocannl.ir.names import Namer
from ocannl.ir.precision import Precision
from ocannl.ir.projections import is_injective
from ocannl.opt.nest import Nest, around, block, is_whole, loads, nest_of, split
from ocannl.opt.substitute import substitute


@dataclass(frozen=True, slots=True)
class Sum:
    """The accumulator is what `update` adds to, in each iteration of the loops that `cond` lets through."""

    start: Expr
    loops: tuple[For, ...]
    cond: Cond
    update: Update

    @property
    def acc(self) -> Buf:
        return self.update.ref.buf

    @property
    def syms(self) -> tuple[Sym, ...]:
        return tuple([loop.sym for loop in self.loops])


@dataclass(frozen=True, slots=True)
class Group:
    loops: tuple[For, ...]
    cond: Cond
    sums: tuple[Sum, ...]
    tail: tuple[Let | Store | Update, ...]

    @property
    def syms(self) -> tuple[Sym, ...]:
        return tuple([loop.sym for loop in self.loops])

    @property
    def writes(self) -> list[Ref]:
        return [stmt.ref for stmt in self.tail if not isinstance(stmt, Let)]

    @property
    def values(self) -> Iterator[Expr]:
        """Every expression in it, in order."""
        for each in self.sums:
            yield each.start
            yield each.update.value
        for stmt in self.tail:
            yield stmt.value

    @property
    def reads(self) -> list[Ref]:
        accs = {each.acc for each in self.sums}
        return [ref for value in self.values for ref in loads(value) if ref.buf not in accs]

    def substituted(self, values: Mapping[Sym, Affine]) -> Group:
        """With `values` for symbols of its outer loops, wherever these are mentioned."""

        def ref(old: Ref) -> Ref:
            return Ref(old.buf, tuple([at.substitute(values) for at in old.at]))

        def bounded(loop: For) -> For:
            return replace(loop, lo=loop.lo.substitute(values), hi=loop.hi.substitute(values))

        def summed(each: Sum) -> Sum:
            update = replace(each.update, value=substitute(each.update.value, values))
            loops = tuple([bounded(loop) for loop in each.loops])
            return Sum(substitute(each.start, values), loops, each.cond.substitute(values), update)

        def written(stmt: Let | Store | Update) -> Let | Store | Update:
            value = substitute(stmt.value, values)
            if isinstance(stmt, Let):
                return replace(stmt, value=value)
            return replace(stmt, ref=ref(stmt.ref), value=value)

        sums, tail = map(summed, self.sums), map(written, self.tail)
        return Group(self.loops, self.cond.substitute(values), tuple(sums), tuple(tail))

    def stmt(self) -> Stmt:
        body: list[Stmt] = []
        for each in self.sums:
            body += (Local(each.acc), Store(each.update.ref, each.start, each.update.origin))
            body += around(each.loops, each.cond, (each.update,))
        return block(around(self.loops, self.cond, (*body, *self.tail)))


def multiplies(group: Group) -> bool:
    """Whether the terms of a sum have factors of which each knows a loop that the other one does not: tiles of both are
    what programs take."""
    for each in group.sums:
        match each.update.value:
            case Apply(_, (left, right)):
                sides = [{s for ref in loads(side) for at in ref.at for s in at.syms} for side in (left, right)]
                if sides[0] - sides[1] and sides[1] - sides[0]:
                    return True
            case _:
                pass
    return False


def scratch(name: str, precision: Precision, shape: tuple[int, ...]) -> Buf:
    """Storage for a `Local`."""
    return Buf(name, precision, shape, row_major(shape), Home.REG, Access.TEMP)


def of_nest(nest: Nest, names: Namer, start: Expr | None = None) -> Group | None:
    """The nest as a group, its sum in a register; None where the order of its iterations shows.

    With a start, all cells that the nest could update begin with that, and are written, whatever the guard.
    """
    leaf, syms = nest.leaf, tuple([loop.sym for loop in nest.loops])
    own = [ref for ref in loads(leaf.value) if ref.buf is leaf.ref.buf]
    if any(ref != leaf.ref for ref in own) or not all(map(is_whole, nest.loops)):
        return None
    if isinstance(leaf, Store) or own:  # if a cell is written twice, the order shows
        return Group(nest.loops, nest.cond, (), (leaf,)) if is_injective(leaf.ref.at, syms) else None
    named = {s for place in leaf.ref.at for s in place.syms}
    kept = tuple([loop for loop in nest.loops if loop.sym in named])
    reduced = tuple([loop for loop in nest.loops if loop.sym not in named])
    if not reduced and start is None:
        return Group(kept, nest.cond, (), (leaf,))
    if not is_injective(leaf.ref.at, tuple([loop.sym for loop in kept])):
        return None
    here, inside = (TRUE, nest.cond) if start is not None else split(nest.cond, [loop.sym for loop in reduced])
    acc = scratch(names("acc"), leaf.ref.buf.precision, ())
    update = Update(Ref(acc, ()), leaf.op, leaf.value, leaf.origin)
    total = Sum(start or Load(leaf.ref), reduced, inside, update)
    return Group(kept, here, (total,), (Store(leaf.ref, Load(Ref(acc, ())), leaf.origin),))


def group_of(stmt: Stmt, names: Namer) -> Group | None:
    """The group that a statement is, or that its nest can be; None for anything else."""
    nest = nest_of(stmt)
    if nest is not None:
        return of_nest(nest, names)
    loops: list[For] = []
    cond = TRUE
    body: Body = (stmt,)
    while len(body) == 1:
        match body[0]:
            case For(body=inner) as one if is_whole(one):
                loops.append(one)
            case If(guard, inner, ()):
                cond = cond & guard
            case _:
                return None
        body = inner
    sums: list[Sum] = []
    while body and isinstance(body[0], Local):
        match body[:3]:
            case (Local(acc, None), Store(Ref(begun, ()), start), feed) if begun is acc:
                inner_nest = nest_of(feed)
            case _:
                return None
        if inner_nest is None or not isinstance(inner_nest.leaf, Update) or inner_nest.leaf.ref.buf is not acc:
            return None
        sums.append(Sum(start, inner_nest.loops, inner_nest.cond, inner_nest.leaf))
        body = body[3:]
    if not all(isinstance(each, Let | Store | Update) for each in body):
        return None
    return Group(tuple(loops), cond, tuple(sums), body)  # type: ignore[arg-type]
