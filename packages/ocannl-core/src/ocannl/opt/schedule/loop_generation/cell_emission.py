"""Emits statements for every cell of a tile, with loop-invariant code motion of subexpressions that cells share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ocannl.ir.affine import TRUE, Sym
from ocannl.ir.free_symbols import mentioned_symbols
from ocannl.ir.loops import (
    Apply,
    Body,
    Buf,
    Cast,
    Const,
    Expr,
    IndexValue,
    Let,
    Load,
    Local,
    Mode,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.pair_dots import dot_of_pairs, factors_of_dot
from ocannl.ir.walk import Node, children
from ocannl.opt.analysis.fusion_group import local_buffer
from ocannl.opt.analysis.substitution import map_expr, substitute
from ocannl.opt.schedule.loop_generation.tile_region import TileCell, TileLoops, TileRegion
from ocannl.opt.simplify.simplify import simplify_expr

CellStatement = Let | Store | Update


def emit_cells(
    region: TileRegion, stmts: Iterable[CellStatement], names: Namer, accs: Mapping[Buf, Buf] | None = None,
    mode: Mode = Mode.UNROLLED,
) -> Body:  # fmt: skip
    """Emits the statements, which are in symbols of the group, for every cell of the region.

    `accs` maps scalar accumulators to buffers with an element per cell; `mode` is that of the loops over rows. A
    subexpression that depends on the outermost rows only becomes a definition inside their loops; one that depends on
    other rows, or on lanes but not on every row, is computed into local buffers first.
    """
    return _InvariantHoister(region, names, accs or {}, mode).body(tuple(stmts))


class _InvariantHoister:
    __slots__ = (
        "_accs", "_hoisted", "_lets", "_loop_rows", "_loops", "_names", "_preamble", "_region", "_rows", "_symbols_of",
    )  # fmt: skip

    def __init__(self, region: TileRegion, names: Namer, accs: Mapping[Buf, Buf], mode: Mode) -> None:
        self._region, self._names, self._accs = region, names, accs
        self._loops = TileLoops(region, names, mode)
        self._rows = {row.sym: n for n, row in enumerate(region.rows) if row.count > 1}
        self._loop_rows = [n for n in self._rows.values() if n != self._loops.transposed_row]  # rows that are loops
        self._preamble: list[Stmt] = []
        self._lets: dict[int, list[Stmt]] = {}  # by number of enclosing row loops
        self._hoisted: dict[Expr, Callable[[TileCell], Expr]] = {}
        self._symbols_of: dict[int, frozenset[Sym] | None] = {}

    def body(self, stmts: tuple[CellStatement, ...]) -> Body:
        loops = self._loops.nest(lambda cell: self._emit(cell, stmts), lambda depth: tuple(self._lets.get(depth, ())))
        return (*self._preamble, *loops)

    def _emit(self, cell: TileCell, stmts: tuple[CellStatement, ...]) -> Body:
        variables: dict[str, Var] = {}
        body: list[Stmt] = []
        for stmt in stmts:
            value = self._value(stmt.value, cell, variables)
            if isinstance(stmt, Let):
                variables[stmt.name] = Var(self._names(stmt.name), value.precision)
                body.append(Let(variables[stmt.name].name, value))
            else:
                body.append(replace(stmt, ref=self._ref(stmt.ref, cell), value=value))
        return tuple(body)

    def _ref(self, ref: Ref, cell: TileCell) -> Ref:
        if ref.buf in self._accs:
            return Ref(self._accs[ref.buf], cell.indices)
        return ref.substitute(cell.values)

    def _value(self, expr: Expr, cell: TileCell, variables: Mapping[str, Var]) -> Expr:
        """Returns the expression in this cell, with invariant subexpressions hoisted."""
        match expr:
            case Const() | IndexValue():
                return substitute(expr, cell.values)
            case Var(name, _):
                return variables.get(name, expr)  # or a definition around the group
            case Load(ref) if ref.buf in self._accs:
                return Load(self._ref(ref, cell))
        dependences = self.invariant_in(expr)
        if dependences is not None:
            if expr not in self._hoisted:
                self._hoisted[expr] = self._hoist(expr, *dependences)
            return self._hoisted[expr](cell)
        factors = factors_of_dot(expr)
        if factors is not None:  # which are shared as they are stored, since instructions take them in this form
            x, y, u, v = (self._value(factor, cell, variables) for factor in factors)
            return dot_of_pairs((x, y, u, v))
        match expr:
            case Apply(op, args):
                return Apply(op, tuple([self._value(arg, cell, variables) for arg in args]))
            case Cast(value, precision):
                return Cast(self._value(value, cell, variables), precision)
            case When(cond, on_true, on_false):  # loads in a branch may be out of bounds elsewhere
                branches = (self._value_without_hoisting(branch, cell, variables) for branch in (on_true, on_false))
                return simplify_expr(When(cond.substitute(cell.values), *branches), TRUE)
            case _:
                return substitute(expr, cell.values)

    def _value_without_hoisting(self, expr: Expr, cell: TileCell, variables: Mapping[str, Var]) -> Expr:
        def leaf(node: Expr) -> Expr:
            match node:
                case Var(name, _):
                    return variables.get(name, node)
                case Load(ref):
                    return Load(self._ref(ref, cell))
                case _:
                    return substitute(node, cell.values)

        return map_expr(expr, leaf, cell.values)

    def invariant_in(self, expr: Expr) -> tuple[list[int], bool] | None:
        """Returns the rows that the expression depends on, and whether it depends on lanes; None if it differs between
        all cells, or depends on variables or accumulators."""
        syms = self._symbols(expr)
        if syms is None:
            return None
        rows = [n for sym, n in self._rows.items() if sym in syms]
        in_lanes = self._region.vector in syms
        varies_everywhere = len(rows) == len(self._rows) and (in_lanes or not self._region.strips)
        return None if varies_everywhere else (rows, in_lanes)

    def _symbols(self, expr: Node) -> frozenset[Sym] | None:
        """Returns the symbols of an expression; None if it contains variables or accumulators. They are computed once
        for each node, since `_value` asks in every cell and at every depth."""
        key = id(expr)  # of a node of the emitted statements, which outlive this object
        if key not in self._symbols_of:
            parts: list[frozenset[Sym] | None] = [frozenset(mentioned_symbols(expr))]
            if isinstance(expr, Var) or (isinstance(expr, Load) and expr.ref.buf in self._accs):
                parts.append(None)
            parts += [self._symbols(child) for child in children(expr)]
            symbol_sets = [part for part in parts if part is not None]
            self._symbols_of[key] = frozenset().union(*symbol_sets) if len(symbol_sets) == len(parts) else None
        return self._symbols_of[key]

    def _hoist(self, expr: Expr, rows: list[int], in_lanes: bool) -> Callable[[TileCell], Expr]:
        """Emits the computation of a shared subexpression and returns a function from a cell to its value there."""
        region, name = self._region, self._names(expr.ref.buf.name if isinstance(expr, Load) else "part")
        if not in_lanes and rows == self._loop_rows[: len(rows)]:
            values = self._loops.cells[0][1].values
            let = Let(name, simplify_expr(substitute(expr, values), TRUE))
            self._lets.setdefault(rows[-1] + 1 if rows else 0, []).append(let)
            return lambda cell: Var(name, expr.precision)
        fixed_rows = {row.sym: row.first for row in region.rows if row.count == 1}
        shared_region = TileRegion(  # whose buffer has no cells for the rows before it
            tuple([replace(region.rows[n], offset=0) for n in rows]),
            region.vector,
            region.strips if in_lanes else (),
            {**region.values, **fixed_rows},
        )
        buf = local_buffer(name, expr.precision, shared_region.shape)
        scalar = Buf(name, expr.precision, (), (), buf.space, buf.access)
        self._preamble.append(Local(buf))
        self._preamble += emit_cells(shared_region, (Store(Ref(scalar, ()), expr),), self._names, {scalar: buf})

        def value(cell: TileCell) -> Expr:
            row_indices = [cell.row_indices[n] - region.rows[n].offset for n in rows]
            return Load(Ref(buf, (*row_indices, *(cell.lane_indices if in_lanes else ()))))

        return value
