"""Comp -> Proc: one perfect nest of loops per piece, faithful and unoptimized.

    y[i] =:+ w[i, k] * x[k]    over i<2 k<3

    for i in 0..2:
      y[i] = 0
    for i_2 in 0..2:
      for k in 0..3:
        y[i_2] += w[i_2, k] * x[k]

A statement becomes, in this order: a copy of its left side, if it reads what it would already have overwritten; a nest
that clears, unless every cell is stored anyway; a nest per piece; and, where cells meet several values in a wider type
than their own, a nest that stores the sums. Each cell meets its values in the order of the pieces and of their loops,
which only shows in operations that are not monoids, and in plain stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ocannl.base.errors import CodeError
from ocannl.ir import assign as comp
from ocannl.ir.assign import Assign, Origin, Piece
from ocannl.ir.index import TRUE, Affine, Cond, Sym, SymKind, inside
from ocannl.ir.loops import (
    Access,
    Apply,
    Body,
    Buf,
    Comment,
    Expr,
    Home,
    Idx,
    If,
    Load,
    Pick,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    When,
    loop,
    row_major,
)
from ocannl.ir.names import Namer
from ocannl.ir.ops import ADD, MAX, MIN, MUL, NEG, SUB, Op
from ocannl.ir.precision import Family, Precision, int64
from ocannl.ir.tnode import TNode
from ocannl.ir.walk import walk
from ocannl.lower import types
from ocannl.lower.coverage import is_injective, is_surjective
from ocannl.lower.mentions import accesses, statics

AXIS_NAMES = ("i", "j", "k", "l")
TRUE_NEUTRAL = (ADD, MUL, MAX, MIN)  # `neutral op e` is `e`; for `and` and `or` it is `e != 0`


def lower(code: comp.Comp, name: str) -> Proc:
    """The program of a computation, called `name`."""
    routine = _Routine(code)
    body: list[Stmt] = []
    stack: list[comp.Comp] = [code]
    while stack:
        match stack.pop():
            case comp.Seq(items):
                stack.extend(reversed(items))
            case comp.Block(text, inner):
                body.append(Comment(text))
                stack.append(inner)
            case Assign() as assign:
                body.extend(routine.assign(assign))
    return Proc(name, tuple(routine.bufs), routine.statics, tuple(body))


@dataclass(frozen=True, slots=True)
class _Box:
    """The loops of one nest, under names of their own in the program."""

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
            raise CodeError(f"`{sym.name}` is not a loop of the piece that mentions it")
        return self.renamed[sym]


class _Routine:
    """What all statements of one program share: its names, buffers and static symbols."""

    def __init__(self, code: comp.Comp) -> None:
        self.statics = statics(code)
        self.bufs: dict[Buf, None] = {}  # an ordered set
        self._access = accesses(code)
        self._own: dict[TNode, Buf] = {}
        self._merged: dict[TNode, Buf] = {}
        self._name = Namer(s.name for s in self.statics)
        for node in comp.nodes(code):
            if node in self._access:
                self._own[node] = self._buf(node.label, node, node.precision, self._access[node])

    # --- buffers and loops ---

    def _buf(self, label: str, node: TNode, precision: Precision, access: Access) -> Buf:
        temp = access is Access.TEMP
        home = Home.ARENA if temp else Home.POOL
        strides = row_major(node.dims)
        return Buf(self._name(label), precision, node.dims, strides, home, access, None if temp else node)

    def _used(self, buf: Buf) -> Buf:
        self.bufs.setdefault(buf)
        return buf

    def _merge(self, node: TNode) -> Buf:
        if node not in self._merged:
            self._merged[node] = self._buf(f"{node.label}_merge", node, node.precision, Access.MERGE)
        return self._merged[node]

    def _box(self, loops: Sequence[Sym], picked: Sequence[Sym] = ()) -> _Box:
        renamed = {s: Sym(self._name(s.name, "i"), s.lo, s.hi, s.kind) for s in (*loops, *picked)}
        return _Box(tuple(renamed[s] for s in loops), renamed)

    def _cells(self, dims: Sequence[int]) -> tuple[tuple[Sym, ...], tuple[Affine, ...]]:
        """Loops over every cell of an array, and the cell."""
        names = (AXIS_NAMES[min(n, len(AXIS_NAMES) - 1)] for n in range(len(dims)))
        loops = tuple(Sym(self._name(name), 0, n - 1) for name, n in zip(names, dims, strict=True))
        return loops, tuple(Affine.of(s) for s in loops)

    # --- statements ---

    def assign(self, assign: Assign) -> Body:
        """The nests of one statement."""
        _check(assign)
        lhs, op, pieces, origin = assign.lhs, assign.accum, assign.pieces, assign.origin
        once = is_injective(pieces)
        stored = bool(pieces) and (once or op is None) and is_surjective(pieces, lhs.dims)
        fill = assign.clear and not stored
        kind = lhs.precision if op is None else types.compute_type(op, lhs.precision)
        summed = not once and _is_summed_apart(lhs.precision, kind)

        target = self._own[lhs]
        source = target  # where the right sides find the left side's old values
        body: list[Stmt] = []
        if not summed and _overwrites_what_it_reads(assign, fill or not once):
            source = self._buf(f"{lhs.label}_before", lhs, lhs.precision, Access.TEMP)
            body.append(self._convert(source, target, origin))
        into = self._buf(f"{lhs.label}_sum", lhs, kind, Access.TEMP) if summed else target

        if fill:
            start = 0 if op is None else types.neutral(op, kind).value
            body.append(self._fill(into, start, origin))
        elif summed:
            body.append(self._convert(into, target, origin))
        sequential = not once and not (op is SUB or (op is not None and op.monoid))
        for piece in pieces:
            box = self._box(_order(piece, sequential), [pick.sym for pick in piece.picks])
            value = self._value(piece.value, box, lhs, source)
            ref = Ref(self._used(into), box.at(piece.at))
            stmt = _meet(ref, op, value, kind, origin, first=assign.clear and once)
            if not piece.when.is_true:
                stmt = If(box.cond(piece.when), (stmt,))
            picks = [
                (box.renamed[pick.sym], types.cast(self._value(pick.value, box, lhs, source), int64))
                for pick in piece.picks
            ]
            body.append(_nest(box.loops, stmt, origin, picks))
        if summed:
            body.append(self._convert(target, into, origin))
        return tuple(body)

    def _fill(self, buf: Buf, value: float, origin: Origin) -> Stmt:
        loops, at = self._cells(buf.shape)
        return _nest(loops, Store(Ref(self._used(buf), at), types.constant(value, buf.precision), origin), origin)

    def _convert(self, target: Buf, source: Buf, origin: Origin) -> Stmt:
        loops, at = self._cells(target.shape)
        value = types.cast(Load(Ref(self._used(source), at)), target.precision)
        return _nest(loops, Store(Ref(self._used(target), at), value, origin), origin)

    def _value(self, value: comp.Value, box: _Box, lhs: TNode, source: Buf) -> types.Operand:
        match value:
            case comp.Read(node, at, outside, merge):
                buf = self._merge(node) if merge else source if node is lhs else self._own[node]
                where = box.at(at)
                if len(where) != len(buf.shape):
                    raise CodeError(f"`{node.label}` has {len(buf.shape)} axes, and is read at {len(where)} indices")
                cond = TRUE
                if outside is not None:
                    for index, size in zip(where, buf.shape, strict=True):
                        cond = cond & inside(index, size)
                return types.guarded(Load(Ref(self._used(buf), where)), cond, outside or 0)
            case comp.Number():
                return value
            case comp.Index(index):
                return comp.Index(box.index(index))
            case comp.Convert(inner, precision):
                return types.cast(self._value(inner, box, lhs, source), precision)
            case comp.Apply(op, args):
                return types.apply(op, [self._value(a, box, lhs, source) for a in args])


def _check(assign: Assign) -> None:
    lhs, op = assign.lhs, assign.accum
    if op is not None and op.arity != 2:
        raise CodeError(f"`{op}` cannot accumulate into `{lhs.label}`: it takes {op.arity} operands, not 2")
    for piece in assign.pieces:
        if len({*piece.loops, *(p.sym for p in piece.picks)}) != len(piece.loops) + len(piece.picks):
            raise CodeError("a piece runs over one loop twice: " + ", ".join(s.name for s in piece.loops))
        if len(piece.at) != len(lhs.dims):
            raise CodeError(f"`{lhs.label}` has {len(lhs.dims)} axes, and is written at {len(piece.at)} indices")


def _order(piece: Piece, sequential: bool) -> tuple[Sym, ...]:
    """The loops in the order of the left side's memory, then the reductions; as given where the order has a meaning."""
    if sequential:
        return piece.loops
    left: dict[Sym, None] = {}
    for index in piece.at:
        left.update((s, None) for _, s in sorted(index.terms, key=lambda t: -abs(t[0])) if s in piece.loops)
    return (*left, *(s for s in piece.loops if s not in left))


def _nest(loops: Sequence[Sym], stmt: Stmt, origin: Origin, picks: Sequence[tuple[Sym, Expr]] = ()) -> Stmt:
    """The statement inside the loops; each pick as far out as its value is known."""
    left = list(picks)
    for depth in range(len(loops), -1, -1):
        inner = loops[depth - 1] if depth else None
        for sym, value in reversed([p for p in left if inner is None or inner in _mentioned(p[1])]):
            stmt = Pick(sym, value, (stmt,))
            left = [p for p in left if p[0] is not sym]
        if inner is not None:
            stmt = loop(inner, (stmt,), origin)
    return stmt


def _mentioned(value: Expr) -> set[Sym]:
    """The symbols in an expression."""
    return {sym for node in walk(value) for index in _indices(node) for sym in index.syms}


def _indices(node: object) -> tuple[Affine, ...]:
    match node:
        case Load(ref):
            return ref.at
        case Idx(index, _):
            return (index,)
        case When(cond):
            return (*cond.ge0, *cond.eq0)
        case _:
            return ()


def _meet(ref: Ref, op: Op | None, value: types.Operand, kind: Precision, origin: Origin, *, first: bool) -> Stmt:
    """The cell meets a value, in the type `kind`; `first` when it holds the neutral element, written or not."""
    own = ref.buf.precision
    if op is None:
        return Store(ref, types.cast(value, own), origin)
    operand = types.cast(value, kind)
    if op is SUB:
        op, operand = ADD, Apply(NEG, (operand,))
    if first:
        result: Expr = operand if op in TRUE_NEUTRAL else Apply(op, (types.neutral(op, kind), operand))
        return Store(ref, types.cast(result, own), origin)
    if op.monoid and own is kind:
        return Update(ref, op, operand, origin)
    return Store(ref, types.cast(Apply(op, (types.cast(Load(ref), kind), operand)), own), origin)


def _is_summed_apart(own: Precision, kind: Precision) -> bool:
    """That cells which meet several values do so in a buffer of the wider type. Integers are stored at every step."""
    return own is not kind and own.family in (Family.FLOAT, Family.BOOL)


def _overwrites_what_it_reads(assign: Assign, early: bool) -> bool:
    """That a right side reads a cell of the left side after it may have changed; `early`: some change before their
    own iteration. Reading the very cell that the iteration writes is harmless otherwise."""
    for piece in assign.pieces:
        for read in piece.reads:
            if read.node is assign.lhs and not read.merge and (early or read.at != piece.at):
                return True
    return False
