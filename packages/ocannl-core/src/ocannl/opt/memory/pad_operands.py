"""Copies operands that are read outside of their bounds to arrays with a border."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.assign import Origin
from ocannl.ir.loops import (
    AccessMode,
    Buf,
    Const,
    Load,
    MemorySpace,
    Proc,
    Ref,
    Stmt,
    Store,
    When,
    loop,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.walk import Node, rewrite, walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, group_of
from ocannl.opt.analysis.nests import bound_names, loads, wrap_in_loops


def pad_operands(proc: Proc, min_terms: int = machine.MIN_TERMS_PER_PADDED_CELL) -> Proc:
    """Replaces guarded reads of a reduction by reads of a padded copy, each cell of which is read by many terms:

        proc step                                                proc step
          x : f32[8]  in                                           x   : f32[8]   in
          w : f32[4]  in                                           w   : f32[4]   in
          y : f32[8]  inout                                        y   : f32[8]   inout
          for i in 0..8:                                           x_2 : f32[11]  arena
            for k in 0..4:                                         for i_2 in 0..11:
              y[i] += (x[i+k-3] if i+k-3 >= 0 else 0) * w[k]         x_2[i_2] = x[i_2-3] if i_2-3 >= 0 else 0
                                                             ==>   for i in 0..8:
                                                                     for k in 0..4:
                                                                       y[i] += x_2[i+k] * w[k]

    The tiles of the reduction need no guards, and may be vectorized along every loop. An operand is copied if many
    terms read a cell; more are needed where one guard serves a large tile, such as one along a batch and channels.
    """
    names = Namer(bound_names(proc))
    body: list[Stmt] = []
    bufs: list[Buf] = []
    for stmt in proc.body:
        group = group_of(stmt, names)
        operands = {} if group is None else _padded_operands(group, min_terms, names)
        bufs += [operand.buf for operand in operands.values()]
        body += [operand.copy(guarded, names) for guarded, operand in operands.items()]
        body.append(_with_operands(stmt, operands))
    return replace(proc, body=tuple(body), bufs=(*proc.bufs, *bufs)) if bufs else proc


@dataclass(frozen=True, slots=True)
class _PaddedOperand:
    """The padded copy of the operand that `source` reads; its first cell is at the place `first` of the operand."""

    buf: Buf
    source: Ref
    first: tuple[int, ...]
    origin: Origin

    @staticmethod
    def of(ref: Ref, shape: tuple[int, ...], origin: Origin, names: Namer) -> _PaddedOperand:
        buf = Buf(names(ref.buf.name), ref.buf.precision, shape, row_major(shape), MemorySpace.ARENA, AccessMode.TEMP)
        return _PaddedOperand(buf, ref, tuple([index.range()[0] for index in ref.indices]), origin)

    @property
    def cell(self) -> Load:
        indices = zip(self.source.indices, self.first, strict=True)
        return Load(Ref(self.buf, tuple([index - first for index, first in indices])))

    def copy(self, guarded: When, names: Namer) -> Stmt:
        """Builds the loops that fill the copy."""
        syms = [Sym(names("i"), 0, size - 1) for size in self.buf.shape]
        places = [Affine.of(sym) + first for sym, first in zip(syms, self.first, strict=True)]
        facts: list[Affine] = []
        for fact in guarded.cond.ge0:
            axis_and_sign = _restricted_axis(fact, self.source.indices)
            assert axis_and_sign is not None
            axis, sign = axis_and_sign
            facts.append(places[axis] * sign + (fact - self.source.indices[axis] * sign))
        value = When(Cond(tuple(facts)), Load(Ref(self.source.buf, tuple(places))), guarded.on_false)
        store = Store(Ref(self.buf, tuple(map(Affine.of, syms))), value, self.origin)
        (nest,) = wrap_in_loops([loop(sym, ()) for sym in syms], TRUE, (store,))
        return nest


def _padded_operands(group: FusionGroup, min_terms: int, names: Namer) -> dict[When, _PaddedOperand]:
    """Returns a copy for each guarded operand that is read often enough. Its guards compare indices with constants."""
    if not group.cond.is_true:
        return {}
    written = {alias_class(ref.buf) for ref in group.writes}
    operands: dict[When, _PaddedOperand] = {}
    for reduction in group.reductions:
        syms = {*group.syms, *reduction.syms} if reduction.cond.is_true else set()
        terms = prod(sym.extent for sym in syms)
        for node in walk(reduction.update.value):
            match node:
                case When(cond, Load(ref), Const()) if ref.indices and not cond.eq0 and syms.issuperset(ref.syms):
                    shape = tuple([high - low + 1 for low, high in map(Affine.range, ref.indices)])
                    min_guarded = machine.MIN_GUARDS_PER_PADDED_CELL * _cells_per_guard(group, reduction, cond)
                    is_read_often = terms >= max(min_terms, min_guarded) * prod(shape) > 0
                    is_replaceable = _are_bounds(cond, ref) and alias_class(ref.buf) not in written
                    if is_read_often and is_replaceable:
                        operands[node] = _PaddedOperand.of(ref, shape, reduction.update.origin, names)
    return operands


def _cells_per_guard(group: FusionGroup, reduction: Reduction, cond: Cond) -> int:
    """Returns how many cells of a tile share an evaluation of the guard: those along loops that the guard does not
    depend on, up to the largest tile. No tile lies along a loop that all operands depend on, such as that over the
    groups of a convolution."""
    operands = [ref.syms for ref in loads(reduction.update.value)]
    tiled = [sym for sym in group.syms if sym not in cond.syms and not all(sym in syms for syms in operands)]
    return min(prod([sym.extent for sym in tiled]), machine.MAX_TILE_AREA * machine.ELEMENTS_PER_LINE)


def _are_bounds(cond: Cond, ref: Ref) -> bool:
    """Whether each fact restricts the index along one axis, and all indices are in bounds if the facts hold."""
    ranges = [index.range() for index in ref.indices]
    for fact in cond.ge0:
        axis_and_sign = _restricted_axis(fact, ref.indices)
        if axis_and_sign is None:
            return False
        axis, sign = axis_and_sign
        low, high = ranges[axis]
        limit = (ref.indices[axis] - fact * sign).const  # of the index
        ranges[axis] = (max(low, limit), high) if sign > 0 else (low, min(high, limit))
    return all(low >= 0 and high < size for (low, high), size in zip(ranges, ref.buf.shape, strict=True))


def _restricted_axis(fact: Affine, indices: tuple[Affine, ...]) -> tuple[int, int] | None:
    """Returns the axis and the sign of an index that differs from the fact by a constant."""
    for axis, index in enumerate(indices):
        for sign in (1, -1):
            if index.terms == (fact * sign).terms:
                return axis, sign
    return None


def _with_operands(stmt: Stmt, operands: Mapping[When, _PaddedOperand]) -> Stmt:
    def rule(node: Node) -> Node:
        return operands[node].cell if isinstance(node, When) and node in operands else node

    return rewrite(stmt, rule) if operands else stmt
