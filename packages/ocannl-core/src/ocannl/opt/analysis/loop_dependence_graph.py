"""Dependence graph of the statements of a sequential loop (Allen and Kennedy 1987)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ocannl.ir.affine import Sym
from ocannl.ir.loops import AccessMode, Buf, For, Ref, Stmt, Store, Update
from ocannl.opt.analysis.nests import accessed_buffers, leaves, loads, nest_of
from ocannl.opt.analysis.privatizable_buffers import privatizable_buffers


@dataclass(frozen=True, slots=True)
class LoopDependenceGraph:
    """Statement i depends on statement j, in the same or an earlier iteration, if bit i of `successors[j]` is set.

    `private` buffers hold values of one iteration; they cause no dependences between iterations if each iteration has a
    buffer of its own. `accumulators` are only updated by one operation.
    """

    successors: tuple[int, ...]  # transitive
    private: frozenset[Buf]
    accumulators: frozenset[Buf]

    @property
    def cyclic(self) -> int:
        """The statements that depend on themselves, as a bit set."""
        return sum(1 << n for n, after in enumerate(self.successors) if after >> n & 1)

    def predecessors(self, of: int) -> int:
        """The statements on which statements of a bit set depend, without the set itself unless it depends on itself.
        """
        return sum(1 << n for n, after in enumerate(self.successors) if after & of)

    def followers(self, of: int) -> int:
        """The statements that depend on statements of a bit set."""
        result = 0
        for n in members(of):
            result |= self.successors[n]
        return result


    def in_order(self, of: int) -> list[int]:
        """The statements of a bit set in an order that respects all dependences, which must not be cyclic."""
        return sorted(members(of), key=lambda n: (self.predecessors(1 << n).bit_count(), n))


def members(bits: int) -> Iterable[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def loop_dependence_graph(loop: For, accessed_elsewhere: set[Buf]) -> LoopDependenceGraph:
    """Analyses a sequential loop; `accessed_elsewhere` are the buffers that code outside of it accesses."""
    stmts = loop.body
    access = [accessed_buffers(stmt) for stmt in stmts]
    covered = privatizable_buffers(stmts)
    bufs = dict.fromkeys(buf for read, written in access for buf in (*read, *written))
    private = {b for b in bufs if b.access is AccessMode.TEMP and b in covered and b not in accessed_elsewhere}
    accumulators = {b for b in bufs if b not in private and _is_accumulator(b, stmts)}
    successors = [0] * len(stmts)
    for buf in bufs:
        readers = [n for n, (read, written) in enumerate(access) if buf in read or buf in written]
        writers = {n for n, (_, written) in enumerate(access) if buf in written}
        if not writers or buf in accumulators:
            continue
        refs = {n: _refs(buf, stmts[n]) for n in readers}
        for i in readers:
            for j in readers:
                if i not in writers and j not in writers:
                    continue
                if i < j:
                    successors[i] |= 1 << j  # in the same iteration
                if buf not in private and _is_carried(loop.sym, refs[i], refs[j]):
                    successors[i] |= 1 << j
    return LoopDependenceGraph(tuple(_transitive(successors)), frozenset(private), frozenset(accumulators))


def _is_accumulator(buf: Buf, stmts: Sequence[Stmt]) -> bool:
    ops = set()
    for stmt in stmts:
        for leaf in leaves((stmt,)):
            match leaf:
                case Update(ref, op, value) if ref.buf is buf:
                    ops.add(op.name)
                    if nest_of(stmt) is None or any(read.buf is buf for read in loads(value)):
                        return False
                case Store(ref, value):
                    if ref.buf is buf or any(read.buf is buf for read in loads(value)):
                        return False
                case _:
                    if buf in accessed_buffers(leaf)[0]:
                        return False
    return len(ops) == 1


def _refs(buf: Buf, stmt: Stmt) -> list[Ref] | None:
    """Returns the cells of the buffer that a perfect nest accesses; None for other statements."""
    nest = nest_of(stmt)
    if nest is None:
        return None
    return [ref for ref in (nest.leaf.ref, *loads(nest.leaf.value)) if ref.buf is buf]


def _is_carried(sym: Sym, first: list[Ref] | None, second: list[Ref] | None) -> bool:
    """Whether an access of the second list may touch a cell in a later iteration than one of the first list did."""
    if first is None or second is None:
        return True
    return any(_may_follow(sym, a, b) for a in first for b in second)


def _may_follow(sym: Sym, a: Ref, b: Ref) -> bool:
    for index_a, index_b in zip(a.indices, b.indices, strict=True):
        step = index_a.coef(sym)
        if step and step == index_b.coef(sym) and index_a.syms == index_b.syms == (sym,):
            distance, rest = divmod(index_a.const - index_b.const, step)  # iterations from `a` to `b`
            return rest == 0 and distance > 0
    return True


def _transitive(successors: Sequence[int]) -> list[int]:
    closed = list(successors)
    for via in range(len(closed)):
        for n in range(len(closed)):
            if closed[n] >> via & 1:
                closed[n] |= closed[via]
    return closed
