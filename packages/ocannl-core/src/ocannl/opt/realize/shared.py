"""A value in every cell of a tile, what cells have in common being computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ocannl.ir.index import TRUE, Sym
from ocannl.ir.loops import Apply, Body, Cast, Expr, Idx, Let, Load, Local, Num, Ref, Stmt, Store, Var, When
from ocannl.ir.names import Namer
from ocannl.ir.walk import walk
from ocannl.opt.fold import fold_expr
from ocannl.opt.realize.region import Grid, Region, Spot, local
from ocannl.opt.substitute import substitute


def in_cells(region: Region, expr: Expr, make: Callable[[Spot, Expr], Stmt], names: Namer) -> Body:
    """`make` of every cell and the value there of `expr`, which is in symbols of the nest.

    A part that depends on the first rows alone is a definition inside their loops; a part that depends on some of the
    others, or on lanes but not on every row, goes to registers first.
    """
    return _Shared(region, names).body(expr, make)


class _Shared:
    __slots__ = ("_first", "_grid", "_lets", "_names", "_named", "_region", "_rows")

    def __init__(self, region: Region, names: Namer) -> None:
        self._region, self._names = region, names
        self._grid = Grid(region, names)
        self._rows = {row.sym: n for n, row in enumerate(region.rows) if row.count > 1}
        self._first: list[Stmt] = []
        self._lets: dict[int, list[Stmt]] = {}
        self._named: dict[Expr, Callable[[Spot], Expr]] = {}

    def body(self, expr: Expr, make: Callable[[Spot, Expr], Stmt]) -> Body:
        inner = self._grid.nest(
            lambda spot: (make(spot, self._value(expr, spot)),), lambda depth: tuple(self._lets.get(depth, ()))
        )
        return (*self._first, *inner)

    def _value(self, expr: Expr, spot: Spot) -> Expr:
        if isinstance(expr, Num | Idx | Var):
            return substitute(expr, spot.values)
        rows, wide = self._depends(expr)
        if len(rows) < len(self._rows) or not wide:
            if expr not in self._named:
                self._named[expr] = self._name(expr, rows, wide)
            return self._named[expr](spot)
        match expr:
            case Apply(op, args):
                return Apply(op, tuple([self._value(arg, spot) for arg in args]))
            case Cast(value, precision):
                return Cast(self._value(value, spot), precision)
            case _:
                return fold_expr(substitute(expr, spot.values), TRUE)

    def _name(self, expr: Expr, rows: list[int], wide: bool) -> Callable[[Spot], Expr]:
        """Has the part computed, and tells where it is."""
        region, name = self._region, self._names(expr.ref.buf.name if isinstance(expr, Load) else "part")
        if not wide and rows == list(self._rows.values())[: len(rows)]:
            values = self._grid.spots[0][1].values
            let = Let(name, fold_expr(substitute(expr, values), TRUE))
            self._lets.setdefault(rows[-1] + 1 if rows else 0, []).append(let)
            return lambda spot: Var(name, expr.precision)
        part = replace(region, rows=tuple([region.rows[n] for n in rows]), strips=region.strips if wide else ())
        buf = local(name, expr.precision, part.shape)
        self._first.append(Local(buf))
        self._first += in_cells(part, expr, lambda spot, value: Store(Ref(buf, spot.at), value), self._names)
        return lambda spot: Load(Ref(buf, (*(spot.rows[n] for n in rows), *(spot.wide if wide else ()))))

    def _depends(self, expr: Expr) -> tuple[list[int], bool]:
        """On which rows, and whether on the lane."""
        syms = _syms(expr)
        return [n for sym, n in self._rows.items() if sym in syms], self._region.vector in syms


def _syms(expr: Expr) -> set[Sym]:
    found: set[Sym] = set()
    for node in walk(expr):
        match node:
            case Load(ref):
                found.update(s for at in ref.at for s in at.syms)
            case Idx(index, _):
                found.update(index.syms)
            case When(cond, _, _):
                found.update(cond.syms)
            case _:
                pass
    return found
