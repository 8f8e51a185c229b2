"""Lowering of computations to loop programs: one perfect loop nest per piece, without optimization.

    y[i] =:+ w[i, k] * x[k]    over i<2 k<3

    for i in 0..2:
      y[i] = 0
    for i_2 in 0..2:
      for k in 0..3:
        y[i_2] += w[i_2, k] * x[k]

A statement is lowered to, in this order: a copy of its left-hand side, if it reads cells that it has overwritten; an
initialization nest, unless every cell is stored anyway; a nest per piece; and, if cells accumulate several values in a
wider type than their own, a nest that stores the accumulators. Each cell accumulates its values in the order of the
pieces and of their loops, which matters only for operations that are not monoids and for plain stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ocannl.base.errors import CodeError
from ocannl.ir import assign as comp
from ocannl.ir.affine import TRUE, Affine, Cond, Sym, SymKind, bounds_condition
from ocannl.ir.assign import Assign, Origin, Piece
from ocannl.ir.free_symbols import free_symbols
from ocannl.ir.host_call import HostCall
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Body,
    Buf,
    Comment,
    Expr,
    If,
    Load,
    MemorySpace,
    Mode,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    loop,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, BY_NAME, MAX, MIN, MUL, NEG, SUB, Op, neutral_element
from ocannl.ir.precision import Family, Precision, int64
from ocannl.ir.projections import is_injective as indices_are_injective
from ocannl.ir.tnode import TNode
from ocannl.ir.value_symbols import value_symbols
from ocannl.lower import types
from ocannl.lower.access_modes import accesses, static_symbols
from ocannl.lower.coverage import direct_indices, is_injective, is_surjective

AXIS_NAMES = ("i", "j", "k", "l")
TRUE_NEUTRAL = (ADD, MUL, MAX, MIN)  # `neutral op e` equals `e`; for `and` and `or` it equals `e != 0`


def lower(code: comp.Comp, name: str) -> Proc:
    """Lowers a computation to a program called `name`; raises `CodeError` if it is malformed."""
    routine = _Lowerer(code)
    body = routine.body(code)
    return Proc(name, tuple(routine.bufs), routine.statics, body)


@dataclass(frozen=True, slots=True)
class _RenamedLoops:
    """The loops of one nest, and the sequential loops around it, with names that are unique in the program."""

    loops: tuple[Sym, ...]
    renamed: dict[Sym, Sym]

    def index(self, index: Affine) -> Affine:
        if not index.terms:
            return index
        return Affine.sum(((c, self._sym(s)) for c, s in index.terms), index.const)

    def at(self, indices: Sequence[Affine]) -> tuple[Affine, ...]:
        return tuple(self.index(a) for a in indices)

    def cond(self, cond: Cond) -> Cond:
        return Cond(self.at(cond.ge0), self.at(cond.eq0))

    def _sym(self, sym: Sym) -> Sym:
        if sym.kind is SymKind.STATIC:
            return sym
        if sym not in self.renamed:
            raise CodeError(f"`{sym.name}` is not a loop of the piece that uses it")
        return self.renamed[sym]


class _Lowerer:
    """The state shared by all statements of a program: names, buffers and static symbols."""

    def __init__(self, code: comp.Comp) -> None:
        self.statics = static_symbols(code)
        self.bufs: dict[Buf, None] = {}  # an ordered set
        self._access = accesses(code)
        self._node_bufs: dict[TNode, Buf] = {}
        self._merge_bufs: dict[TNode, Buf] = {}
        self._name = Namer(s.name for s in self.statics)
        self._iterations: dict[Sym, Sym] = {}  # of the sequential loops around the current statement
        for node in comp.nodes(code):
            if node in self._access:
                self._node_bufs[node] = self._new_buf(node.label, node, node.precision, self._access[node])

    # --- buffers and loops ---

    def _new_buf(self, label: str, node: TNode, precision: Precision, access: AccessMode) -> Buf:
        temp = access is AccessMode.TEMP
        home = MemorySpace.ARENA if temp else MemorySpace.GLOBAL
        strides = row_major(node.dims)
        return Buf(self._name(label), precision, node.dims, strides, home, access, None if temp else node)

    def _add_buf(self, buf: Buf) -> Buf:
        self.bufs.setdefault(buf)
        return buf

    def _merge_buf(self, node: TNode) -> Buf:
        if node not in self._merge_bufs:
            self._merge_bufs[node] = self._new_buf(f"{node.label}_merge", node, node.precision, AccessMode.MERGE)
        return self._merge_bufs[node]

    def _rename_loops(self, loops: Sequence[Sym], indirect_syms: Sequence[Sym] = ()) -> _RenamedLoops:
        renamed = {s: self._renamed(s) for s in (*loops, *indirect_syms)}
        return _RenamedLoops(tuple(renamed[s] for s in loops), self._iterations | renamed)

    def _renamed(self, sym: Sym) -> Sym:
        return Sym(self._name(sym.name, "i"), sym.lo, sym.hi, sym.kind)

    def _cell_loops(self, dims: Sequence[int]) -> tuple[tuple[Sym, ...], tuple[Affine, ...]]:
        """Returns loops over all cells of an array, and the indices of the cell."""
        names = (AXIS_NAMES[min(n, len(AXIS_NAMES) - 1)] for n in range(len(dims)))
        loops = tuple(Sym(self._name(name), 0, n - 1) for name, n in zip(names, dims, strict=True))
        return loops, tuple(Affine.of(s) for s in loops)

    # --- statements ---

    def body(self, code: comp.Comp) -> Body:
        """Lowers a computation to statements."""
        body: list[Stmt] = []
        stack: list[comp.Comp] = [code]
        while stack:
            match stack.pop():
                case comp.Seq(items):
                    stack.extend(reversed(items))
                case comp.LabeledBlock(text, inner):
                    body.append(Comment(text))
                    stack.append(inner)
                case comp.Loop(sym, inner):
                    self._iterations[sym] = renamed = self._renamed(sym)
                    body.append(loop(renamed, self.body(inner), mode=Mode.SEQUENTIAL))
                    del self._iterations[sym]
                case comp.Conditional(condition, inner):
                    body.append(self._conditional(condition, inner))
                case HostCall() as call:
                    raise CodeError(f"{call} is not native code: contexts execute it between native programs")
                case Assign() as assign:
                    body.extend(self.assign(assign))
        return tuple(body)

    def _conditional(self, condition: comp.Value, inner: comp.Comp) -> Stmt:
        is_true = types.apply(BY_NAME["ne"], (self._value(condition, self._rename_loops(()), {}), comp.Number(0)))
        taken = Sym(self._name("taken"), 1, 1, SymKind.CONDITION)
        return BindIndex(taken, types.cast(is_true, int64), self.body(inner))

    def assign(self, assign: Assign) -> Body:
        """Lowers one assignment to loop nests."""
        _check(assign)
        lhs, op, pieces, origin = assign.lhs, assign.accum, assign.pieces, assign.origin
        injective = is_injective(pieces)
        overwrites_all = bool(pieces) and (injective or op is None) and is_surjective(pieces, lhs.dims)
        must_fill = assign.clear and not overwrites_all
        compute_type = lhs.precision if op is None else types.compute_type(op, lhs.precision)
        uses_accumulator = not injective and _needs_wide_accumulator(lhs.precision, compute_type)

        target = self._node_bufs[lhs]
        source = target  # holds the old values of the left-hand side
        body: list[Stmt] = []
        if not uses_accumulator and _reads_overwritten_cells(assign, must_fill or not injective):
            source = self._new_buf(f"{lhs.label}_before", lhs, lhs.precision, AccessMode.TEMP)
            body.append(self._copy_converted(source, target, origin))
        accumulator = target
        if uses_accumulator:
            accumulator = self._new_buf(f"{lhs.label}_sum", lhs, compute_type, AccessMode.TEMP)

        if must_fill:
            start = 0 if op is None else neutral_element(op, compute_type)
            body.append(self._fill(accumulator, start, origin))
        elif uses_accumulator:
            body.append(self._copy_converted(accumulator, target, origin))
        sequential = not injective and not (op is SUB or (op is not None and op.monoid))
        sources = {lhs: source}
        for piece in pieces:
            scope = self._rename_loops(_order(piece, sequential), [pick.sym for pick in piece.indirect])
            value = self._value(piece.value, scope, sources)
            ref = Ref(self._add_buf(accumulator), scope.at(piece.indices))
            stmt = _accumulate(ref, op, value, compute_type, origin, is_first=assign.clear and injective)
            if not piece.when.is_true:
                stmt = If(scope.cond(piece.when), (stmt,))
            indirect = [
                (scope.renamed[pick.sym], types.cast(self._value(pick.value, scope, sources), int64))
                for pick in piece.indirect
            ]
            body.append(_nest(scope.loops, stmt, origin, indirect))
        if uses_accumulator:
            body.append(self._copy_converted(target, accumulator, origin))
        return tuple(body)

    def _fill(self, buf: Buf, value: float, origin: Origin) -> Stmt:
        loops, at = self._cell_loops(buf.shape)
        return _nest(loops, Store(Ref(self._add_buf(buf), at), types.constant(value, buf.precision), origin), origin)

    def _copy_converted(self, target: Buf, source: Buf, origin: Origin) -> Stmt:
        loops, at = self._cell_loops(target.shape)
        value = types.cast(Load(Ref(self._add_buf(source), at)), target.precision)
        return _nest(loops, Store(Ref(self._add_buf(target), at), value, origin), origin)

    def _value(self, value: comp.Value, scope: _RenamedLoops, sources: Mapping[TNode, Buf]) -> types.Operand:
        """Lowers a value; nodes in `sources` are read from other buffers than their own."""
        match value:
            case comp.Read(node, at, outside, merge):
                buf = self._merge_buf(node) if merge else sources.get(node) or self._node_bufs[node]
                indices = scope.at(at)
                if len(indices) != len(buf.shape):
                    axes = len(buf.shape)
                    raise CodeError(f"`{node.label}` has {axes} axes, but is read with {len(indices)} indices")
                cond = TRUE
                if outside is not None:
                    for index, size in zip(indices, buf.shape, strict=True):
                        cond = cond & bounds_condition(index, size)
                return types.guarded_load(Load(Ref(self._add_buf(buf), indices)), cond, outside or 0)
            case comp.Number():
                return value
            case comp.Index(index):
                return comp.Index(scope.index(index))
            case comp.Convert(inner, precision):
                return types.cast(self._value(inner, scope, sources), precision)
            case comp.Call(op, args):
                return types.apply(op, [self._value(a, scope, sources) for a in args])


def _check(assign: Assign) -> None:
    lhs, op = assign.lhs, assign.accum
    if op is not None and op.arity != 2:
        raise CodeError(f"`{op}` cannot accumulate into `{lhs.label}`: it takes {op.arity} operands, not 2")
    for piece in assign.pieces:
        if len({*piece.loops, *(p.sym for p in piece.indirect)}) != len(piece.loops) + len(piece.indirect):
            raise CodeError("a piece has a duplicate loop: " + ", ".join(s.name for s in piece.loops))
        if len(piece.indices) != len(lhs.dims):
            raise CodeError(f"`{lhs.label}` has {len(lhs.dims)} axes, but is written with {len(piece.indices)} indices")


def _order(piece: Piece, sequential: bool) -> tuple[Sym, ...]:
    """Orders loops by decreasing stride of the left-hand side, reductions last; `sequential` preserves the order of the
    iterations that write a common cell.

    Loops that only an indirect index depends on take the place of that index.
    """
    direct = direct_indices(piece)
    direct_loops = list({s: None for index in direct for s in index.syms})
    if sequential and not (piece.indirect and indices_are_injective(direct, direct_loops)):
        return piece.loops
    indirect_loops = {s for pick in piece.indirect for s in value_symbols(pick.value)}
    scattered = [s for s in piece.loops if s not in direct_loops and (sequential or s in indirect_loops)]
    ordered: dict[Sym, None] = {}
    for index in piece.indices:
        if index not in direct:
            ordered.update((s, None) for s in scattered)
        ordered.update((s, None) for _, s in sorted(index.terms, key=lambda t: -abs(t[0])) if s in piece.loops)
    return (*ordered, *(s for s in piece.loops if s not in ordered))


def _nest(loops: Sequence[Sym], stmt: Stmt, origin: Origin, picks: Sequence[tuple[Sym, Expr]] = ()) -> Stmt:
    """Wraps a statement in loops, with each indirect index bound at the outermost loop where it is invariant."""
    pending = list(picks)
    for depth in range(len(loops), -1, -1):
        inner = loops[depth - 1] if depth else None
        for sym, value in reversed([p for p in pending if inner is None or inner in free_symbols(p[1])]):
            stmt = BindIndex(sym, value, (stmt,))
            pending = [p for p in pending if p[0] is not sym]
        if inner is not None:
            stmt = loop(inner, (stmt,), origin)
    return stmt


def _accumulate(
    ref: Ref, op: Op | None, value: types.Operand, compute_type: Precision, origin: Origin, *, is_first: bool
) -> Stmt:
    """Combines a cell with a value in `compute_type`. If `is_first`, the cell holds the neutral element, possibly
    not yet stored."""
    storage_type = ref.buf.precision
    if op is None:
        return Store(ref, types.cast(value, storage_type), origin)
    operand = types.cast(value, compute_type)
    if op is SUB:
        op, operand = ADD, Apply(NEG, (operand,))
    if is_first:
        neutral = types.constant(neutral_element(op, compute_type), compute_type)
        result: Expr = operand if op in TRUE_NEUTRAL else Apply(op, (neutral, operand))
        return Store(ref, types.cast(result, storage_type), origin)
    if op.monoid and storage_type is compute_type:
        return Update(ref, op, operand, origin)
    return Store(ref, types.cast(Apply(op, (types.cast(Load(ref), compute_type), operand)), storage_type), origin)


def _needs_wide_accumulator(storage_type: Precision, compute_type: Precision) -> bool:
    """Whether repeated accumulation needs a buffer of the wider compute type; integers are stored at every step."""
    return storage_type is not compute_type and storage_type.family in (Family.FLOAT, Family.BOOL)


def _reads_overwritten_cells(assign: Assign, early: bool) -> bool:
    """Whether a right-hand side reads cells of the left-hand side after they may have changed. Reading only the cell
    that the same iteration writes is safe, unless `early`: cells may change before their iteration."""
    for piece in assign.pieces:
        for read in piece.reads:
            if read.node is assign.lhs and not read.merge and (early or read.indices != piece.indices):
                return True
    return False
