"""Statements in every cell of a tile, what cells have in common being computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ocannl.ir.index import TRUE, Sym
from ocannl.ir.loops import (
    Apply,
    Body,
    Buf,
    Cast,
    Expr,
    Idx,
    Let,
    Load,
    Local,
    Mode,
    Num,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.names import Namer
from ocannl.ir.walk import walk
from ocannl.opt.fold import fold_expr
from ocannl.opt.group import scratch
from ocannl.opt.realize.region import Grid, Region, Spot
from ocannl.opt.substitute import map_expr, substitute

Write = Let | Store | Update


def in_cells(
    region: Region, stmts: Iterable[Write], names: Namer, accs: Mapping[Buf, Buf] | None = None,
    mode: Mode = Mode.UNROLLED,
) -> Body:  # fmt: skip
    """The statements, which are in symbols of the group, in every cell; `accs` are scalars that have a number for each
    cell in another buffer, `mode` is that of loops over rows.

    A part that depends on the first rows alone is a definition inside their loops; a part that depends on some of the
    others, or on lanes but not on every row, goes to registers first.
    """
    return _Shared(region, names, accs or {}, mode).body(tuple(stmts))


class _Shared:
    __slots__ = ("_accs", "_first", "_grid", "_lets", "_names", "_named", "_open", "_region", "_rows")

    def __init__(self, region: Region, names: Namer, accs: Mapping[Buf, Buf], mode: Mode) -> None:
        self._region, self._names, self._accs = region, names, accs
        self._grid = Grid(region, names, mode)
        self._rows = {row.sym: n for n, row in enumerate(region.rows) if row.count > 1}
        self._open = [n for n in self._rows.values() if n != self._grid.across]  # rows with a loop of their own
        self._first: list[Stmt] = []
        self._lets: dict[int, list[Stmt]] = {}
        self._named: dict[Expr, Callable[[Spot], Expr]] = {}

    def body(self, stmts: tuple[Write, ...]) -> Body:
        inner = self._grid.nest(lambda spot: self._at(spot, stmts), lambda depth: tuple(self._lets.get(depth, ())))
        return (*self._first, *inner)

    def _at(self, spot: Spot, stmts: tuple[Write, ...]) -> Body:
        defined: dict[str, Var] = {}
        body: list[Stmt] = []
        for stmt in stmts:
            value = self._value(stmt.value, spot, defined)
            if isinstance(stmt, Let):
                defined[stmt.name] = Var(self._names(stmt.name), value.precision)
                body.append(Let(defined[stmt.name].name, value))
            else:
                body.append(replace(stmt, ref=self._ref(stmt.ref, spot), value=value))
        return tuple(body)

    def _ref(self, ref: Ref, spot: Spot) -> Ref:
        if ref.buf in self._accs:
            return Ref(self._accs[ref.buf], spot.at)
        return Ref(ref.buf, tuple([at.substitute(spot.values) for at in ref.at]))

    def _value(self, expr: Expr, spot: Spot, defined: Mapping[str, Var]) -> Expr:
        match expr:
            case Num() | Idx():
                return substitute(expr, spot.values)
            case Var(name, _):
                return defined[name]
            case Load(ref) if ref.buf in self._accs:
                return Load(self._ref(ref, spot))
        shared = self._shared_with(expr)
        if shared is not None:
            if expr not in self._named:
                self._named[expr] = self._name(expr, *shared)
            return self._named[expr](spot)
        match expr:
            case Apply(op, args):
                return Apply(op, tuple([self._value(arg, spot, defined) for arg in args]))
            case Cast(value, precision):
                return Cast(self._value(value, spot, defined), precision)
            case When(cond, then, orelse):  # nothing is taken out of a side: its cells may exist only there
                sides = (self._within(side, spot, defined) for side in (then, orelse))
                return fold_expr(When(cond.substitute(spot.values), *sides), TRUE)
            case _:
                return substitute(expr, spot.values)

    def _within(self, expr: Expr, spot: Spot, defined: Mapping[str, Var]) -> Expr:
        """As `_value`, but all here."""

        def leaf(node: Expr) -> Expr:
            match node:
                case Var(name, _):
                    return defined[name]
                case Load(ref):
                    return Load(self._ref(ref, spot))
                case _:
                    return substitute(node, spot.values)

        return map_expr(expr, leaf, spot.values)

    def _shared_with(self, expr: Expr) -> tuple[list[int], bool] | None:
        """On which rows a part depends, and whether on the lane; None where no two cells have it in common."""
        syms: set[Sym] = set()
        for node in walk(expr):
            match node:
                case Load(ref):
                    if ref.buf in self._accs:
                        return None
                    syms.update(s for at in ref.at for s in at.syms)
                case Idx(index, _):
                    syms.update(index.syms)
                case When(cond, _, _):
                    syms.update(cond.syms)
                case Var():
                    return None
        rows = [n for sym, n in self._rows.items() if sym in syms]
        wide = self._region.vector in syms
        everywhere = len(rows) == len(self._rows) and (wide or not self._region.strips)
        return None if everywhere else (rows, wide)

    def _name(self, expr: Expr, rows: list[int], wide: bool) -> Callable[[Spot], Expr]:
        """Has the part computed, and tells where it is."""
        region, name = self._region, self._names(expr.ref.buf.name if isinstance(expr, Load) else "part")
        if not wide and rows == self._open[: len(rows)]:
            values = self._grid.spots[0][1].values
            let = Let(name, fold_expr(substitute(expr, values), TRUE))
            self._lets.setdefault(rows[-1] + 1 if rows else 0, []).append(let)
            return lambda spot: Var(name, expr.precision)
        single = {row.sym: row.first for row in region.rows if row.count == 1}
        part = Region(
            tuple([region.rows[n] for n in rows]),
            region.vector,
            region.strips if wide else (),
            {**region.known, **single},
        )
        buf = scratch(name, expr.precision, part.shape)
        cell = Buf(name, expr.precision, (), (), buf.home, buf.access)
        self._first.append(Local(buf))
        self._first += in_cells(part, (Store(Ref(cell, ()), expr),), self._names, {cell: buf})
        return lambda spot: Load(Ref(buf, (*(spot.rows[n] for n in rows), *(spot.wide if wide else ()))))
