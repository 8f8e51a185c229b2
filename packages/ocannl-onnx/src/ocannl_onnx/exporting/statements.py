"""Assignments as operators: the values of pieces over their loops, reduced and placed in the left-hand side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np

from ocannl.ir import assign as comp
from ocannl.ir.affine import TRUE, Affine, Cond, Sym, bounds_condition
from ocannl.ir.assign import Assign, Piece
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Cast,
    Const,
    Expr,
    IndexValue,
    Load,
    MemorySpace,
    Ref,
    When,
    row_major,
)
from ocannl.ir.ops import ADD, BY_NAME, MUL, Op, neutral_element
from ocannl.ir.precision import Precision, bool_, int32, int64
from ocannl.ir.tnode import TNode
from ocannl.lower import types
from ocannl.lower.coverage import is_injective
from ocannl_onnx.exporting.contractions import (
    MATMUL_TYPES,
    REDUCTIONS,
    WindowOperators,
    product,
    reduced,
    sum_of_products,
)
from ocannl_onnx.exporting.graph_builder import OnnxBuilder
from ocannl_onnx.exporting.grids import Grid, Grids, NoForm, carrier, require_order, static_index
from ocannl_onnx.exporting.loads import Loads, Stored, SymbolValues, clipped, inside
from ocannl_onnx.exporting.pointwise import Pointwise
from ocannl_onnx.exporting.stores import SCATTERS, Stores, lhs_loops


class Statements:
    """Translates assignments. `values` are the current values of nodes, `steps` those of the symbols around."""

    def __init__(self, builder: OnnxBuilder, values: dict[TNode, Stored], steps: Mapping[Sym, Grid]) -> None:
        self.builder = builder
        self.values = values
        self.steps = dict(steps)
        self.grids = Grids(builder)
        self.loads = Loads(self.grids)
        self.stores = Stores(self.loads)
        self._bufs: dict[TNode, Buf] = {}

    def assign(self, assign: Assign) -> None:
        """Sets the value of the left-hand side. Raises: NoForm."""
        lhs, op = assign.lhs, assign.accum
        kind = lhs.precision if op is None else types.compute_type(op, lhs.precision)
        pieces = [_Piece(self, piece, lhs, op, kind) for piece in assign.pieces if all(s.extent for s in piece.loops)]
        result = self._overwritten(assign, pieces, kind) or self._changed(assign, pieces, kind)
        name = self._converted(result.name, kind, lhs.precision)
        inner = result.inner and Stored(self._converted(result.inner.name, kind, lhs.precision), result.inner.order)
        self.values[lhs] = Stored(name, result.order, inner)
        self.builder.dims[name] = tuple(lhs.dims[axis] for axis in result.order)

    def _converted(self, name: str, kind: Precision, target: Precision) -> str:
        """An array in the type of a node."""
        return self.grids.to_storage(self.grids.converted(Grid(name, (), kind), target))

    def _overwritten(self, assign: Assign, pieces: list[_Piece], kind: Precision) -> Stored | None:
        """The value, if it does not depend on the old one, and the cells of each piece are consecutive."""
        lhs, op = assign.lhs, assign.accum
        if not assign.clear and (op is not None or any(piece.mask for piece in pieces)):
            return None
        if any(piece.is_computed for piece in pieces):
            return None
        grids = [piece.from_neutral(piece.contribution()) for piece in pieces]
        indices = [piece.indices for piece in pieces]
        if len(pieces) > 1:
            return self.stores.concatenated(grids, indices, lhs.dims)
        for piece, grid in zip(pieces, grids, strict=True):
            stored = self.stores.direct(grid, piece.indices, lhs.dims)
            if stored is None and assign.clear:
                stored = self.stores.padded(grid, piece.indices, lhs.dims, piece.neutral, kind)
            return stored
        return None

    def _changed(self, assign: Assign, pieces: list[_Piece], kind: Precision) -> Stored:
        """The old or cleared value, changed by the pieces in order."""
        lhs, op = assign.lhs, assign.accum
        if assign.clear or lhs not in self.values:
            base = self.stores.full(lhs.dims, 0 if op is None or not assign.clear else neutral_element(op, kind), kind)
        else:
            old = self.values[lhs]
            grid = Grid(self.grids.from_storage(old.name, lhs.precision), (), lhs.precision)
            base = Stored(self.grids.converted(grid, kind).name, old.order)
        for piece in pieces:
            base = piece.into(base)
        return base

    # --- values ---

    def operand(self, value: comp.Value, scope: SymbolValues) -> types.Operand:
        """A value with the conversions between types written out."""
        match value:
            case comp.Read(node, indices, outside, merge):
                if merge:
                    raise NoForm("merge buffers are transfers between devices")
                load = Load(Ref(self.buf(node), indices))
                cond = TRUE
                for index, size in zip(indices, node.dims, strict=True):
                    cond = cond & bounds_condition(index, size)
                return types.guarded_load(load, TRUE if outside is None else cond, outside or 0)
            case comp.Number() | comp.Index():
                return value
            case comp.Convert(inner, precision):
                return types.cast(self.operand(inner, scope), precision)
            case comp.Call(op, args):
                return types.apply(op, [self.operand(arg, scope) for arg in args])

    def buf(self, node: TNode) -> Buf:
        if node not in self._bufs:
            strides = row_major(node.dims)
            space, access = MemorySpace.GLOBAL, AccessMode.IN
            self._bufs[node] = Buf(node.label, node.precision, node.dims, strides, space, access, node)
        return self._bufs[node]

    def pointwise(self, scope: SymbolValues) -> Pointwise:
        def load(load: Load, outside: float | None) -> Grid:
            buf = load.ref.buf
            return self.loads.load(self.stored(load), buf.precision, buf.shape, load.ref.indices, outside, scope)

        def index(value: IndexValue) -> Grid:
            return self.loads.index(value.index, scope)

        return Pointwise(self.grids, load, index)

    def stored(self, load: Load) -> Stored:
        node = load.ref.buf.node
        assert node is not None
        if node not in self.values:
            raise NoForm(f"`{node.label}` has no value")
        return self.values[node]

    def scalar(self, value: comp.Value) -> Grid:
        """A condition: whether a value without loops is not 0."""
        scope = SymbolValues(self.steps)
        expr = types.cast(types.apply(BY_NAME["ne"], (self.operand(value, scope), comp.Number(0))), bool_)
        return self.pointwise(scope).truth(expr)


class _Piece:
    """One iteration space of an assignment: its value, the iterations that count, and the cells that they write."""

    def __init__(self, writer: Statements, piece: Piece, lhs: TNode, op: Op | None, kind: Precision) -> None:
        piece = _with_batch_loop(piece, lhs)
        self.writer, self.piece, self.lhs, self.op, self.kind = writer, piece, lhs, op, kind
        self.grids = writer.grids
        self.indices = piece.indices
        self.neutral = 0 if op is None or op.neutral is None else neutral_element(op, kind)
        self.scope, masks = self._scope()
        if not piece.when.is_true:
            masks.append(self._condition(piece.when))
        self.mask: Grid | None = None
        for mask in masks:
            self.mask = mask if self.mask is None else self.grids.elementwise("And", [self.mask, mask], bool_)
        self.kept = lhs_loops(self.indices, self.scope)

    @property
    def is_computed(self) -> bool:
        """Whether cells are known only when the model runs."""
        return not all(self.scope.is_static(index) for index in self.indices)

    def _scope(self) -> tuple[SymbolValues, list[Grid]]:
        """The computed symbols, and where those of indirect indices are in range."""
        computed = dict(self.writer.steps)
        masks: list[Grid] = []
        for indirect in self.piece.indirect:
            scope = SymbolValues(dict(computed))
            value = types.cast(self.writer.operand(indirect.value, scope), int64)
            positions = self.writer.pointwise(scope).value(value)
            low, high = indirect.sym.lo, indirect.sym.hi
            array = self.grids.builder.array_of(positions.name)
            if array is None or array.size == 0 or array.min() < low or array.max() > high:
                masks.append(inside(self.grids, positions, low, high))
                positions = clipped(self.grids, positions, low, max(low, high))
            computed[indirect.sym] = positions
        return SymbolValues(computed), masks

    def _condition(self, when: Cond) -> Grid:
        facts = [(fact, "GreaterOrEqual") for fact in when.ge0] + [(fact, "Equal") for fact in when.eq0]
        mask: Grid | None = None
        for index, operator in facts:
            if self.scope.is_static(index):
                axes, array = static_index(index)
                fact = self.grids.constant(array >= 0 if operator != "Equal" else array == 0, axes, bool_)
            else:
                zero = self.grids.constant(np.array(0), (), int64)
                fact = self.grids.elementwise(operator, [self.writer.loads.index(index, self.scope), zero], bool_)
            mask = fact if mask is None else self.grids.elementwise("And", [mask, fact], bool_)
        assert mask is not None
        return mask

    # --- values ---

    @cached_property
    def expr(self) -> Expr:
        return types.cast(self.writer.operand(self.piece.value, self.scope), self.kind)

    @cached_property
    def summed(self) -> list[Sym]:
        """The loops whose iterations write the same cells."""
        return [sym for sym in self.piece.loops if sym not in self.kept]

    def contribution(self) -> Grid:
        """The value over the loops of the left-hand side; masked iterations have the neutral element. Of several plain
        stores in a cell it is the last one."""
        if self.op is None:
            if self.summed and self.mask is not None:
                raise NoForm("several iterations store in a cell, some under a condition")
            return self._masked(self._last(self._value(self.expr)))
        grid = self._selected() if self.mask is None else None
        if grid is None and self.mask is None:
            grid = self._windowed_or_product()
        return self._reduced(self._masked(self._value(self.expr))) if grid is None else grid

    def _selected(self) -> Grid | None:
        """The value of a sum `where(p == k, e, 0)` over a loop k that p does not depend on: e at k = p; None for other
        sums."""
        if self.op is not ADD or not self.summed:
            return None
        match self.expr:
            case Apply(select, (test, chosen, Const(0))) if select.name == "where":
                test = test.value if isinstance(test, Cast) else test
                if not isinstance(test, Apply) or test.op.name != "eq":
                    return None
            case _:
                return None
        sides = [self._value(side) for side in test.args]
        for position, counter in (sides, sides[::-1]):
            if len(counter.axes) != 1 or counter.axes[0] not in self.summed or position.kind.is_float:
                continue
            (loop,) = counter.axes
            numbers = self.grids.builder.array_of(counter.name)
            if loop in position.axes:
                continue
            if numbers is not None and np.array_equal(numbers, np.arange(loop.extent)):
                return self._at(loop, self.grids.converted(position, int64), chosen)
        return None

    def _at(self, loop: Sym, position: Grid, expr: Expr) -> Grid:
        """The sum of an expression at one position of a loop, 0 for positions out of range."""
        array = self.grids.builder.array_of(position.name)
        mask = None
        if array is None or array.size == 0 or array.min() < 0 or array.max() >= loop.extent:
            mask = inside(self.grids, position, 0, loop.hi)
            position = clipped(self.grids, position, 0, max(0, loop.hi))
        pointwise = self.writer.pointwise(SymbolValues({**self.scope.computed, loop: position}))
        grid = pointwise.value(expr)
        if mask is not None:
            grid = pointwise.where(mask, grid, pointwise.number(0, grid.kind))
        return self._reduced(grid, [sym for sym in self.summed if sym is not loop])

    def _value(self, expr: Expr) -> Grid:
        return self.writer.pointwise(self.scope).value(expr)

    def _masked(self, grid: Grid) -> Grid:
        if self.mask is None:
            return grid
        neutral = self.writer.pointwise(self.scope).number(self.neutral, self.kind)
        return self.writer.pointwise(self.scope).where(self.mask, grid, neutral)

    def _last(self, grid: Grid) -> Grid:
        """The value of the last iteration of the loops that write a cell."""
        builder = self.grids.builder
        for sym in self.summed:
            if sym in grid.axes:
                at = grid.axes.index(sym)
                last = builder.constant(np.array(sym.extent - 1, np.int64))
                remaining = tuple(axis for axis in grid.axes if axis is not sym)
                grid = Grid(builder.node("Gather", grid.name, last, axis=at), remaining, grid.kind)
        return grid

    def _windowed_or_product(self) -> Grid | None:
        op, windows = self.op, WindowOperators(self.grids, self.writer.stored)
        assert op is not None
        if self.summed and (pooled := windows.pooling(self.expr, op, self.kept, self.scope)) is not None:
            return pooled if op is not ADD else self._repeated(pooled)
        factors = product(self.expr)
        if op is not ADD or factors is None or self.kind not in MATMUL_TYPES or not self.summed:
            return None
        convolved = windows.convolution(factors, self.kept, self.scope, self._value)
        if convolved is not None:
            return self._repeated(convolved)
        left, right = (self._value(arg) for arg in factors.args)
        return self._repeated(sum_of_products(self.grids, left, right, self.kept, self.kind))

    def _repeated(self, grid: Grid) -> Grid:
        """The sum over loops that the value does not depend on, too."""
        read = _loops(self.expr, self.scope)
        count = prod(sym.extent for sym in self.summed if sym not in read)
        if count == 1:
            return grid
        factor = self.grids.constant(np.array(count), (), self.kind)
        return self.grids.elementwise("Mul", [grid, factor], self.kind)

    def _reduced(self, grid: Grid, loops: Sequence[Sym] | None = None) -> Grid:
        """The reduction over loops, all by default that write the same cells."""
        op, loops = self.op, self.summed if loops is None else loops
        assert op is not None
        summed = [sym for sym in loops if sym.extent != 1 or sym in grid.axes]
        if not summed:
            return grid
        absent = [sym for sym in summed if sym not in grid.axes]
        grid = self.grids.expanded(grid, [*absent, *grid.axes]) if absent else grid
        if op.name in ("max", "min"):
            require_order(op.name, self.kind)
        if op.name in ("and", "or"):
            truth = self.grids.converted(self.grids.converted(grid, bool_), int32)
            extreme = reduced(self.grids, truth, summed, BY_NAME["min" if op.name == "and" else "max"])
            return self.grids.converted(extreme, self.kind)
        if grid.kind is bool_ and op.name in ("max", "min"):
            return self.grids.converted(reduced(self.grids, self.grids.converted(grid, int32), summed, op), bool_)
        monoid = {"sub": ADD, "div": MUL}.get(op.name, op)
        if monoid.name not in REDUCTIONS:
            if op.name == "snd" or all(sym.extent == 1 for sym in summed):
                return self._last(grid)
            raise NoForm(f"reductions with `{op}`")
        return self.grids.wrapped(reduced(self.grids, grid, summed, monoid))

    def from_neutral(self, grid: Grid) -> Grid:
        """The contribution, accumulated in a cleared cell."""
        if self.op is None or self.op.name in ("add", "mul", "max", "min", "snd"):
            return grid
        return self._combined(self.op, self.writer.pointwise(self.scope).number(self.neutral, self.kind), grid)

    def _combined(self, op: Op, old: Grid, new: Grid) -> Grid:
        """`old op new`."""
        pointwise = self.writer.pointwise(self.scope)
        if op.name in ("relu_gate", "sat01_gate"):
            return pointwise.gate(op.name, old, new)
        if op.name in types.TRUTH:
            return self.grids.converted(pointwise.compare(op.name, [old, new]), self.kind)
        return pointwise.apply(op.name, [old, new])

    # --- writes ---

    def into(self, base: Stored) -> Stored:
        """The node, of type `kind`, after the piece."""
        stores, dims, op = self.writer.stores, self.lhs.dims, self.op
        if op is None:
            return self._stored_into(base)
        grid = self.contribution()
        if self.mask is not None and self.summed and op.name not in (*SCATTERS, "sub", "and", "or"):
            raise NoForm(f"accumulation by `{op}` under a condition")
        old, written = None if self.is_computed else self._cells_of(base), self._written()
        if old is not None:
            changed = self._combined(op, old, grid)
            if written is not None and op.name not in SCATTERS:
                changed = self.writer.pointwise(self.scope).where(written, changed, old)
            stored = stores.direct(changed, self.indices, dims)
            if stored is not None:
                return stored
        if op.name == "sub":
            grid, op = self.writer.pointwise(self.scope).apply("neg", [grid]), ADD
        if op.name not in SCATTERS or self.kind is bool_:
            raise NoForm(f"accumulation by `{op}` in computed cells")
        if op.name in ("max", "min"):
            require_order(op.name, self.kind)
        return stores.scattered(base, grid, self.piece.loops, self.indices, written, dims, op, self.scope)

    def _written(self) -> Grid | None:
        """The cells that are written in an iteration of the summed loops; None if all are."""
        mask = self.mask
        summed = [] if mask is None else [sym for sym in self.summed if sym in mask.axes]
        if mask is None or not summed:
            return mask
        count = reduced(self.grids, self.grids.converted(mask, int32), summed, BY_NAME["max"])
        return self.grids.converted(count, bool_)

    def _cells_of(self, base: Stored) -> Grid | None:
        """The old cells, if the indices are all cells in order."""
        probe = self.grids.constant(np.zeros(()), (), bool_)
        if self.writer.stores.direct(probe, self.indices, self.lhs.dims) is None:
            return None
        name = self.grids.cast(base.name, carrier(self.kind), self.kind)
        return self.writer.loads.load(
            Stored(name, base.order), self.kind, self.lhs.dims, self.indices, None, self.scope
        )

    def _stored_into(self, base: Stored) -> Stored:
        if self.summed and self.mask is not None:
            raise NoForm("several iterations store in a cell, some under a condition")
        grid = self._last(self._value(self.expr))
        stores, dims = self.writer.stores, self.lhs.dims
        old = self._cells_of(base) if self.mask is not None and not self.is_computed else None
        if self.mask is not None and old is not None:
            chosen = self.writer.pointwise(self.scope).where(self.mask, grid, old)
            stored = stores.direct(chosen, self.indices, dims)
            if stored is not None:
                return stored
        if not self.is_computed and not is_injective([self.piece]) and not self.summed:
            raise NoForm("several iterations store in a cell")
        return stores.scattered(base, grid, self.piece.loops, self.indices, self.mask, dims, None, self.scope)


def _with_batch_loop(piece: Piece, lhs: TNode) -> Piece:
    """The piece with a loop of one iteration over the first axis, if this has size 1 in the left-hand side. Operands
    with such an axis keep it, so that a batch of one image is an image with four axes."""
    if lhs.dims[:1] != (1,) or piece.indices[0] != Affine():
        return piece
    batch = Sym("batch", 0, 0)

    def rewritten(value: comp.Value) -> comp.Value:
        match value:
            case comp.Read(node, indices) if node.dims[:1] == (1,) and indices[0] == Affine():
                return replace(value, indices=(Affine.of(batch), *indices[1:]))
            case comp.Call(op, args):
                return comp.Call(op, tuple(map(rewritten, args)))
            case comp.Convert(inner, precision):
                return comp.Convert(rewritten(inner), precision)
        return value

    indices = (Affine.of(batch), *piece.indices[1:])
    return replace(piece, loops=(batch, *piece.loops), indices=indices, value=rewritten(piece.value))


def _loops(expr: Expr, scope: SymbolValues) -> set[Sym]:
    """The loops that an expression depends on."""
    match expr:
        case Load(ref):
            return lhs_loops(ref.indices, scope)
        case IndexValue(index):
            return scope.axes_of(index)
        case Apply(_, args):
            return set().union(*(_loops(arg, scope) for arg in args))
        case Cast(value, _):
            return _loops(value, scope)
        case When(_, value, _):
            return _loops(value, scope)
    return set()
