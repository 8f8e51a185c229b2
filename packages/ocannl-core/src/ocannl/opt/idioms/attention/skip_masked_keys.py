"""Softmax over the keys that an affine mask leaves, such as those that a decoder has stored in its cache so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ocannl.ir.affine import Affine, Cond, Sym, SymKind
from ocannl.ir.loops import (
    AccessMode,
    Buf,
    Const,
    Expr,
    For,
    Let,
    Load,
    MemorySpace,
    Proc,
    Ref,
    Stmt,
    Store,
    Var,
    When,
    loop,
)
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.conditions import negate_condition
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.fusion_group_graph import ProgramGroups
from ocannl.opt.analysis.nests import loads, unit_covering_loops
from ocannl.opt.analysis.substitution import map_expr, substitute
from ocannl.opt.idioms.attention.match_softmax import NEG_INF, Softmax, match_softmax
from ocannl.opt.simplify.simplify import simplify_expr


def skip_masked_keys(proc: Proc, key_block: int | None = None) -> Proc:
    """Bounds the loops over the keys of a softmax, and of the sums weighted by it, by a static symbol.

        proc step(p in 0..32)                                 proc step(p in 0..32)
          m : f32      arena                                    m : f32      arena
          x : f32[32]  in                                       x : f32[32]  in
          s : f32      out                                      s : f32      out
          scope:                                                scope:
            local acc: f32                                        local acc: f32
            acc = -inf                                            acc = -inf
            for t in 0..32:                                       for t_block in 0..2:
              acc = max(acc, x[t] if p-t >= 0 else -inf)            if p-16*t_block >= 0:
            m = acc                                                   for t_2 in 0..16:
          scope:                                                        acc = max(acc, x[t_2+16*t_block] if p-t_2-16*t_block >= 0 else -inf)
            local acc_2: f32                           ==>        m = acc
            acc_2 = 0                                           scope:
            for u in 0..32:                                       local acc_2: f32
              acc_2 += exp((x[u] if p-u >= 0 else -inf) - m)      acc_2 = 0
            s = acc_2                                             for u_block in 0..2:
                                                                    if p-16*u_block >= 0:
                                                                      for u_2 in 0..16:
                                                                        acc_2 += exp((x[u_2+16*u_block] if p-u_2-16*u_block >= 0 else -inf) - m)
                                                                  s = acc_2

    Where a mask fails, scores are -inf and weights are 0. If the mask is an inequality between the key and a static
    symbol, the loops end with the last block of keys that it does not hide. At least one block must always remain, and
    nothing else may read the weights. `key_block` is the greatest number of keys of a block.
    """  # noqa: E501
    if not proc.syms:
        return proc
    return _Skipping(proc, machine.SKIPPED_KEY_BLOCK if key_block is None else key_block).result()


class _Skipping:
    def __init__(self, proc: Proc, key_block: int) -> None:
        self.proc, self.key_block = proc, key_block
        self.program, self.stmts = ProgramGroups(proc), list[Stmt](proc.body)

    def result(self) -> Proc:
        for position, group in self.program.groups.items():
            softmax = match_softmax(position, group, self.program.readers)
            if softmax is not None:
                self.bound_loops(softmax)
        body = tuple(self.stmts)
        return self.proc if body == self.proc.body else replace(self.proc, body=body)

    def bound_loops(self, softmax: Softmax) -> None:
        """Bounds the loops of a softmax if it is masked, and if nothing else reads an array that has a key axis."""
        key = softmax.key.sym
        block = max([n for n in range(1, self.key_block + 1) if key.extent % n == 0], default=0)
        bound = self.last_key(softmax)
        if bound is None or block < machine.MIN_SKIPPED_KEY_BLOCK or block == key.extent:
            return
        match = softmax.match
        weighted = {weighted_sum.position for weighted_sum in softmax.weighted_sums}
        positions = {*softmax.positions, *weighted}
        per_key = [store.ref for store in (match.exponentials, match.probabilities) if store is not None]
        read = [ref.buf for ref in loads(match.score)]
        if not all(self.is_private(ref.buf, positions) for ref in per_key):
            return
        if not all(self.is_unchanged(buf, softmax.positions[0], max(positions)) for buf in read):
            return
        for ref in dict.fromkeys(loads(match.score)):
            producer = self.program.accesses.reaching_write(ref.buf, softmax.positions[0])
            if self.is_private(ref.buf, {producer, *positions}) and self.writes_keys(producer, ref, key):
                positions.add(producer)
                per_key.append(ref)
        axes = {ref.buf: axis for ref in per_key for axis, index in enumerate(ref.indices) if index.only_sym is key}
        for position in positions:
            self.stmts[position] = self.bounded(self.program.groups[position], axes, bound - key.lo, block).stmt()

    def last_key(self, softmax: Softmax) -> Affine | None:
        """The last key that the mask leaves, in symbols that are constant within the program; None if there is none."""
        key, score = softmax.key.sym, self.with_definitions(softmax.match.score, softmax.positions[0])
        for node in walk(score):
            for fact in node.cond.ge0 if isinstance(node, When) else ():
                bound = fact + key
                if fact.coef(key) != -1 or any(sym.kind is not SymKind.STATIC for sym in bound.syms):
                    continue
                masked = simplify_expr(score, negate_condition(Cond((fact,))))
                if masked == Const(NEG_INF, masked.precision) and bound.range()[0] >= key.lo:
                    return bound
        return None

    def with_definitions(self, expr: Expr, before: int, depth: int = machine.MAX_DEFINITION_DEPTH) -> Expr:
        """The expression, evaluated at a position, with the definitions of arrays that groups compute cell by cell, to
        a depth that keeps it short."""

        def definition(node: Expr) -> Expr:
            if not isinstance(node, Load) or not depth:
                return node
            position = self.program.accesses.reaching_write(node.ref.buf, before)
            group = self.program.groups.get(position)
            if group is None or not group.cond.is_true:
                return node
            for ref, value in self.definitions(group):
                if ref.buf is node.ref.buf and unit_covering_loops(ref, group.loops) == set(group.syms):
                    is_unchanged = all(self.is_unchanged(read.buf, position, before) for read in group.reads)
                    pairs = zip(ref.indices, node.ref.indices, strict=True)
                    values = {sym: at for index, at in pairs if (sym := index.only_sym)}
                    inner = self.with_definitions(value, position, depth - 1)
                    return substitute(inner, values) if is_unchanged else node
            return node

        return map_expr(expr, definition)

    def definitions(self, group: FusionGroup) -> Iterator[tuple[Ref, Expr]]:
        """The cells that a group stores, and their values, where results of reductions are variables with new names."""
        named: dict[str | Buf, Expr] = {}
        for reduction in group.reductions:
            named[reduction.acc] = Var(self.program.names(reduction.acc.name), reduction.acc.precision)

        def leaf(node: Expr) -> Expr:
            match node:
                case Var(name):
                    return named.get(name, node)
                case Load(ref):
                    return named.get(ref.buf, node)
            return node

        for stmt in group.epilogue:
            value = map_expr(stmt.value, leaf)
            if isinstance(stmt, Let):
                named[stmt.name] = value
            elif isinstance(stmt, Store):
                yield stmt.ref, value

    def is_unchanged(self, buf: Buf, first: int, last: int) -> bool:
        """Whether the statements at two positions read the same values."""
        reaching_write = self.program.accesses.reaching_write
        return reaching_write(buf, first) == reaching_write(buf, last)

    def is_private(self, buf: Buf, positions: Iterable[int]) -> bool:
        """Whether the array is a temporary that only these statements access."""
        is_temporary = buf.space is MemorySpace.ARENA and buf.access is AccessMode.TEMP
        return is_temporary and set(self.program.accesses.accessors([buf], -1)) <= set(positions)

    def writes_keys(self, position: int, read: Ref, key: Sym) -> bool:
        """Whether a group stores the array, one element per iteration of a loop over the keys."""
        match self.program.groups.get(position):
            case FusionGroup(loops, cond, _, (Store(ref),)) if ref.buf is read.buf and cond.is_true:
                pairs = zip(ref.indices, read.indices, strict=True)
                syms = [index.only_sym for index, at in pairs if at.only_sym is key]
                covers = unit_covering_loops(ref, loops) == {loop.sym for loop in loops}
                return covers and [sym and (sym.lo, sym.hi) for sym in syms] == [(key.lo, key.hi)]
        return False

    def bounded(self, group: FusionGroup, axes: dict[Buf, int], last: Affine, size: int) -> FusionGroup:
        """The group with its loop over the keys split into blocks of `size`, up to the one of the key `last`."""
        (store, *_) = (stmt for stmt in group.epilogue if isinstance(stmt, Store))
        key = None if store.ref.buf not in axes else store.ref.indices[axes[store.ref.buf]].only_sym
        in_epilogue = key is not None
        key = key or group.reductions[0].syms[0]
        names = self.program.names
        block = Sym(names(f"{key.name}_block"), 0, key.extent // size - 1)
        inner = Sym(names(key.name), 0, size - 1)
        first = Affine(((size, block),))
        cond, split = Cond((last - first,)), group.substituted({key: first + inner + key.lo})

        def loops(old: tuple[For, ...]) -> Iterator[For]:
            for each in old:
                if each.sym is key:
                    yield from (loop(block, (), each.origin), loop(inner, (), each.origin))
                else:
                    yield each

        if in_epilogue:
            return replace(split, loops=tuple(loops(split.loops)), cond=cond)
        (reduction,) = split.reductions
        return replace(split, reductions=(replace(reduction, loops=tuple(loops(reduction.loops)), cond=cond),))
