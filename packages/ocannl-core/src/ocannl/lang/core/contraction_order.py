"""The order in which a product of several tensors is summed: a binary tree of pairwise contractions.

`opt_einsum` (Smith and Gray 2018) proposes orders for the sizes at hand, and a cost in multiplications and memory
traffic chooses among these and the single loop nest over all indices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import prod

Indices = frozenset[int]
ContractionTree = int | tuple["ContractionTree", "ContractionTree"]
"""An operand, or two subtrees whose values are multiplied, and summed over the indices that nothing else has."""

MAX_DP_OPERANDS = 7
"""Operands up to which dynamic programming over all subsets takes milliseconds."""

CELL_COST = 4
"""Cost of a stored and reloaded cell of an intermediate result, in multiplications."""

NEST_COST = 64
"""Cost of one more loop nest, in multiplications."""

MAX_GROWTH = 4
"""Size of an intermediate result relative to the largest operand or result, unless it saves much."""

SMALL_CELLS = 1 << 14
"""Cells of an intermediate result that is small beside any operand."""

MIN_SAVING_OF_LARGE = 16
"""Speedup, by the model, that justifies intermediate results larger than that."""


@cache
def contraction_tree(
    operands: tuple[Indices, ...], result: Indices, sizes: tuple[int, ...]
) -> ContractionTree | None:
    """The cheapest tree for `sum of product of operands`, or None if a single loop nest costs less.

    Operands and the result are sets of indices into `sizes`. Indices of one operand only are summed first.
    """
    costs = _Costs(operands, result, sizes)
    single_nest = costs.cells(frozenset().union(result, *operands)) * (len(operands) - 1) + NEST_COST
    if not costs.has_private_indices and len(operands) < 3:
        return None
    largest = max(costs.cells(indices) for indices in (result, *operands))
    limit = max(MAX_GROWTH * largest, SMALL_CELLS)

    def weighted_cost(tree: ContractionTree) -> int:
        cost, cells = costs.of(tree)
        return cost * (MIN_SAVING_OF_LARGE if cells > limit else 1)

    best = min(_candidates(operands, result, sizes, limit), key=weighted_cost)
    return best if weighted_cost(best) < single_nest else None


class _Costs:
    """Costs of contraction trees of one product."""

    def __init__(self, operands: Sequence[Indices], result: Indices, sizes: Sequence[int]) -> None:
        self.operands, self.result, self.sizes = operands, result, sizes
        self.private = [indices - self._union_except(n) for n, indices in enumerate(operands)]

    @property
    def has_private_indices(self) -> bool:
        return any(self.cells(indices) > 1 for indices in self.private)

    def _union_except(self, *excluded: int) -> Indices:
        return self.result.union(*(indices for n, indices in enumerate(self.operands) if n not in excluded))

    def cells(self, indices: Indices) -> int:
        return prod(self.sizes[n] for n in indices)

    def of(self, tree: ContractionTree) -> tuple[int, int]:
        """The cost of a tree, and the cells of its largest intermediate result."""
        cost, cells, _, _ = self._walk(tree, is_root=True)
        return cost, cells

    def _walk(self, tree: ContractionTree, is_root: bool = False) -> tuple[int, int, Indices, tuple[int, ...]]:
        """Cost, cells of the largest intermediate, indices of the value, and operands of a subtree."""
        if isinstance(tree, int):
            shared = self.operands[tree] - self.private[tree]
            if self.cells(self.private[tree]) == 1:
                return 0, 0, shared, (tree,)
            stored = self.cells(shared)
            return self.cells(self.operands[tree]) + CELL_COST * stored + NEST_COST, stored, shared, (tree,)
        (cost_1, cells_1, left, members_1), (cost_2, cells_2, right, members_2) = map(self._walk, tree)
        members = members_1 + members_2
        kept = (left | right) & self._union_except(*members)
        stored = 0 if is_root else self.cells(kept)
        cost = cost_1 + cost_2 + self.cells(left | right) + CELL_COST * stored + NEST_COST
        return cost, max(cells_1, cells_2, stored), kept, members


def _candidates(
    operands: tuple[Indices, ...], result: Indices, sizes: tuple[int, ...], limit: int
) -> Iterator[ContractionTree]:
    """Trees that `opt_einsum` proposes; a subset of them respects the limit of cells of an intermediate result."""
    if len(operands) == 2:
        yield (0, 1)
        return
    if len(operands) == 3:
        yield from (((0, 1), 2), ((0, 2), 1), ((1, 2), 0))
        return
    from opt_einsum import paths  # 30 ms, which few programs need

    inputs, output, extents = [*operands], result, dict(enumerate(sizes))
    if len(operands) > MAX_DP_OPERANDS:
        yield _tree(paths.greedy(inputs, output, extents), len(operands))
        return
    for minimize in ("flops", f"combo-{CELL_COST}"):
        for bound in (None, limit):
            search = paths.DynamicProgramming(minimize, search_outer=True)
            try:
                path = search(inputs, output, extents, bound)
            except RuntimeError:  # no tree within the limit
                continue
            yield _tree(path, len(operands))


def _tree(path: Sequence[Sequence[int]], operands: int) -> ContractionTree:
    """The tree of a path: every step contracts entries of a list, and appends the result."""
    entries: list[ContractionTree] = [*range(operands)]
    for step in path:
        first, *remaining = [entries.pop(at) for at in sorted(step, reverse=True)][::-1]
        for entry in remaining:
            first = first, entry
        entries.append(first)
    first, *remaining = entries
    for entry in remaining:
        first = first, entry
    return first
