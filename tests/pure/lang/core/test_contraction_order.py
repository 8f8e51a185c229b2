"""The tree of pairwise contractions of a product-sum."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from ocannl.lang.core.contraction_order import MAX_GROWTH, SMALL_CELLS, _Costs, contraction_tree


def tree(spec: str, *sizes: int) -> object:
    """The tree of a contraction in NumPy's notation; sizes in order of the letters."""
    letters = sorted(set(spec) - set(",->"))
    operands, result = ([frozenset(map(letters.index, axes)) for axes in part.split(",")] for part in spec.split("->"))
    return contraction_tree(tuple(operands), result[0], sizes)


def test_sizes_decide() -> None:
    assert tree("ij,jk,kl->il", 1000, 10, 1000, 10) == ((1, 2), 0)
    assert tree("ij,jk,kl->il", 10, 1000, 10, 1000) == ((0, 1), 2)


def test_a_single_nest_where_nothing_is_saved() -> None:
    assert tree("ij,jk->ik", 50, 50, 50) is None
    assert tree("ij,ij,ij->ij", 50, 50) is None
    assert tree("i,j,k->ijk", 2, 2, 2) is None


def test_sums_over_private_indices_come_first() -> None:
    assert tree("ij,k->i", 100, 100, 100) == (0, 1)


def test_large_intermediate_results_are_avoided() -> None:
    """The product of two operands exceeds both, and saves little."""
    spec, sizes = "ai,bi,abcj,cj->", (40, 40, 2, 40, 2)
    letters = sorted(set(spec) - set(",->"))
    operands = [frozenset(map(letters.index, axes)) for axes in spec.split("->")[0].split(",")]
    tree = contraction_tree(tuple(operands), frozenset(), sizes)
    assert tree is not None
    costs = _Costs(operands, frozenset(), sizes)
    assert costs.of(tree)[1] <= max(SMALL_CELLS, MAX_GROWTH * max(map(costs.cells, operands)))


@pytest.mark.parametrize("number", [4, 6, 9, 12])
def test_chains_cost_no_more_than_with_the_orders_of_numpy(number: int) -> None:
    random = np.random.default_rng(number)
    sizes = tuple(int(n) for n in random.integers(20, 200, number + 1))
    operands = tuple(frozenset((n, n + 1)) for n in range(number))
    result = frozenset((0, number))
    tree = contraction_tree(operands, result, sizes)
    assert tree is not None
    shapes = [np.empty((sizes[n], sizes[n + 1])) for n in range(number)]
    spec = ",".join(chr(97 + n) + chr(98 + n) for n in range(number)) + "->a" + chr(97 + number)
    path = np.einsum_path(spec, *shapes, optimize=("greedy", 1 << 40))[0][1:]
    entries: list[object] = [*range(number)]
    for step in path:
        pair = [entries.pop(at) for at in sorted(step, reverse=True)]
        entries.append(tuple(pair))
    costs = _Costs(operands, result, sizes)
    assert costs.of(tree)[0] <= 1.3 * costs.of(entries[0])[0]  # type: ignore[arg-type]
    assert costs.of(tree)[0] < prod(sizes)
