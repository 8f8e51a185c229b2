"""Fused nests, and the dependence test for loop fusion.

An iteration of a fused nest executes the iteration of the first nest, and then that of the second. Fusion is legal if
it reverses no dependence (Kennedy and McKinley 1993): if the second nest accesses no cell in an earlier iteration than
the first nest does, where one of both writes the cell. `equal_loops` returns the loops along which all dependences have
distance zero; within an iteration, program order is preserved. Loops for which the index expressions do not prove this
stay inside. Reduction loops are never shared: a reduction completes within its iteration, before its epilogue runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, product

from ocannl.ir.accesses import Access, alias_class, has_no_loop_carried_dependence
from ocannl.ir.affine import Sym
from ocannl.ir.loops import Buf, For, Ref
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.fusion.row_reductions import RowReduction


@dataclass(frozen=True, slots=True, eq=False)
class FusedNest:
    """Groups that execute in sequence in each iteration of the shared loops; their `loops` are the inner ones."""

    loops: tuple[For, ...]
    members: tuple[FusionGroup, ...]
    row_reductions: tuple[RowReduction, ...] = ()  # over the shared loops

    @property
    def reads(self) -> Iterator[Ref]:
        return (ref for group in self.members for ref in group.reads)

    @property
    def writes(self) -> Iterator[Ref]:
        return (ref for group in self.members for ref in group.writes)

    @property
    def arrays(self) -> set[Buf]:
        return {ref.buf for ref in chain(self.reads, self.writes)}

    def is_parallel_over(self, sym: Sym) -> bool:
        """Whether the loop over the symbol carries no dependence; updates of one cell by two iterations conflict."""
        accesses = [*(Access(ref, True) for ref in self.writes), *(Access(ref, False) for ref in self.reads)]
        return has_no_loop_carried_dependence(accesses, sym, (), sums=False)


def are_dependent(first: FusedNest, second: FusedNest) -> bool:
    """Whether either nest writes an array that the other accesses."""
    pairs = chain(product(first.writes, (*second.writes, *second.reads)), product(first.reads, second.writes))
    return any(alias_class(left.buf) == alias_class(right.buf) for left, right in pairs)


def equal_loops(first: FusedNest, second: FusedNest) -> dict[Sym, Sym]:
    """Maps symbols of the first nest to those of the second that are equal in every dependence between them."""
    equal: dict[Sym, Sym] | None = None
    first_written = (first.writes, (*second.reads, *second.writes))
    second_written = (first.reads, tuple(second.writes))
    for first_refs, second_refs in (first_written, second_written):
        by_storage: dict[object, list[Ref]] = {}
        for right in second_refs:
            by_storage.setdefault(alias_class(right.buf), []).append(right)
        for left in first_refs:
            for right in by_storage.get(alias_class(left.buf), ()):
                if left.buf is not right.buf:
                    return {}
                index_syms = [(a.only_sym, b.only_sym) for a, b in zip(left.indices, right.indices, strict=True)]
                pairs = {
                    a: b for a, b in index_syms if a is not None and b is not None and (a.lo, a.hi) == (b.lo, b.hi)
                }
                equal = pairs if equal is None else {a: b for a, b in equal.items() if pairs.get(a) is b}
    return equal or {}


def inner_groups(nest: FusedNest, shared: set[Sym]) -> tuple[FusionGroup, ...]:
    """The groups of the nest inside the shared loops, with the unshared outer loops around each of them."""
    unshared = tuple([loop for loop in nest.loops if loop.sym not in shared])
    if not unshared:
        return nest.members
    return tuple([replace(group, loops=(*unshared, *group.loops)) for group in nest.members])
