"""Computes equal arrays once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from itertools import count

from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import Access, Buf, Expr, Home, Idx, Load, Num, Proc, Ref, Stmt, Store
from ocannl.ir.precision import bool_
from ocannl.ir.walk import walk
from ocannl.opt.nest import Nest, Table, covers, loads, nest_of, touched
from ocannl.opt.substitute import map_expr, map_statements

ANY = Buf("any", bool_, (), (), Home.REG, Access.TEMP)


def unite(proc: Proc) -> Proc:
    """Reads of a temporary that was made as another array, which still is as it was then, read that one; `sweep` then
    finds the temporary dead.

        proc step                         proc step
          x : f32[5]  in                    x : f32[5]  in
          s : f32[5]  arena                 s : f32[5]  arena
          t : f32[5]  arena                 t : f32[5]  arena
          y : f32[5]  out                   y : f32[5]  out
          for i in 0..5:                    for i in 0..5:
            s[i] = exp(x[i])                  s[i] = exp(x[i])
          for k in 0..5:           ==>      for k in 0..5:
            t[k] = exp(x[k])                  t[k] = exp(x[k])
          for n in 0..5:                    for n in 0..5:
            y[n] = s[n] * t[n]                y[n] = s[n] * s[n]

    What an array holds has a number, new with every write, unless an equal write of equal numbers had one before.
    """
    values = _Values()
    twins: list[tuple[int, Buf, list[Buf]]] = []
    for at, stmt in enumerate(proc.body):
        nest = nest_of(stmt)
        if nest is None:
            for buf in touched(stmt)[1]:
                values.renew(buf)
            continue
        buf = nest.leaf.ref.buf
        alike = values.write(nest)
        if alike and buf.access is Access.TEMP:
            twins.append((at, buf, alike))
    if not twins:
        return proc
    table = Table(proc.body)
    instead: dict[Buf, Buf] = {}
    for at, buf, alike in twins:
        if table.writers[buf][-1] == at and table.readers.get(buf, [0])[0] > at:
            others = (other for other in alike if other not in instead and table.writers[other][-1] <= at)
            lasting = [other for other in others if other.access is not Access.TEMP or other in table.readers]
            if lasting:
                instead[buf] = lasting[0]
    if not instead:
        return proc

    def leaf(node: Expr) -> Expr:
        if isinstance(node, Load) and node.ref.buf in instead:
            return Load(Ref(instead[node.ref.buf], node.ref.at))
        return node

    body: tuple[Stmt, ...] = map_statements(proc.body, lambda ref: ref, leaf)
    return replace(proc, body=body)


class _Values:
    """What arrays hold, as numbers."""

    __slots__ = ("first", "forms", "fresh", "holders", "numbers", "syms")

    def __init__(self) -> None:
        self.fresh = count()
        self.numbers: dict[Buf, int] = {}
        self.first: dict[Hashable, tuple[Nest, int]] = {}  # nest of its kind that reads the same
        self.forms: dict[Hashable, dict[Hashable, int]] = {}  # of all nests of a kind
        self.holders: dict[int, list[Buf]] = {}  # of a number, in order
        self.syms: dict[tuple[int, int, int], Sym] = {}  # that stand for the loops of all nests

    def renew(self, buf: Buf) -> int:
        number = self.numbers[buf] = next(self.fresh)
        return number

    def of(self, buf: Buf) -> int:
        number = self.numbers.get(buf)
        return self.renew(buf) if number is None else number

    def write(self, nest: Nest) -> list[Buf]:
        """Takes note of it, and tells who holds the same now."""
        leaf, buf = nest.leaf, nest.leaf.ref.buf
        before = None if isinstance(leaf, Store) and covers(nest) else self.of(buf)
        operation = None if isinstance(leaf, Store) else leaf.op.name
        extents = tuple([each.sym.extent for each in nest.loops])
        read = tuple([self.of(ref.buf) for ref in loads(leaf.value)])
        kind = buf.precision.name, buf.shape, buf.strides, operation, extents, before, read
        number = self.numbers[buf] = self.number(kind, nest)
        alike = [other for other in self.holders.get(number, ()) if other is not buf and self.numbers[other] == number]
        self.holders.setdefault(number, []).append(buf)
        return alike

    def number(self, kind: Hashable, nest: Nest) -> int:
        """Of an equal write, or a new one; the first of a kind is looked at when there is a second."""
        if kind not in self.first:
            self.first[kind] = nest, next(self.fresh)
            return self.first[kind][1]
        if kind not in self.forms:
            first, number = self.first[kind]
            self.forms[kind] = {self.form(first): number}
        numbers, form = self.forms[kind], self.form(nest)
        if form not in numbers:
            numbers[form] = next(self.fresh)
        return numbers[form]

    def form(self, nest: Nest) -> Hashable:
        """The write, with the same symbols for the loops of all nests, whatever it reads."""
        values = {each.sym: Affine.of(self.sym(n, each.sym)) for n, each in enumerate(nest.loops)}

        def leaf(node: Expr) -> Expr:
            match node:
                case Load(ref):
                    return Load(Ref(ANY, tuple([at.substitute(values) for at in ref.at])))
                case Idx(index, precision):
                    return Idx(index.substitute(values), precision)
                case _:
                    return node

        loops = tuple([(each.lo.substitute(values), each.hi.substitute(values), each.step) for each in nest.loops])
        place = tuple([at.substitute(values) for at in nest.leaf.ref.at])
        value = nest.leaf.value
        signs = tuple([repr(node.value) for node in walk(value) if isinstance(node, Num)])  # of zeros
        return loops, nest.cond.substitute(values), place, map_expr(value, leaf, values), signs

    def sym(self, depth: int, sym: Sym) -> Sym:
        key = depth, sym.lo, sym.hi
        if key not in self.syms:
            self.syms[key] = Sym(f"s{depth}", sym.lo, sym.hi)
        return self.syms[key]
