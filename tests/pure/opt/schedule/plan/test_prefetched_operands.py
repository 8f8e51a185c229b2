"""Operands that each tile fetches for a later one: which, and that the cells are those of the next tile."""

from __future__ import annotations

import pytest

import ocannl as oc
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.cpu import Cpu
from ocannl.ir.loops import Prefetch, Proc
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize

TARGET = Capabilities(vector_bytes=64, vector_registers=32, cpu=Cpu())


def prefetches(rows: int, terms: int, columns: int) -> list[Prefetch]:
    """The prefetches of the weights in a product of `[rows, terms]` and `[terms, columns]`."""
    x, weights = oc.placeholder("x", b=[], o=[rows, terms]), oc.placeholder("weights", b=[], o=[terms, columns])
    y = oc.einsum("m, k; k, n => m, n", x, weights)
    stages: dict[str, Proc] = {}
    optimize(lower(y.forward.elaborate().comp, "step"), {y.node: "kept"}, TARGET, stages.__setitem__)
    verify(stages["schedule"], "optimized")
    nodes = [node for stmt in stages["schedule"].body for node in walk(stmt)]
    return [node for node in nodes if isinstance(node, Prefetch) and node.ref.buf.name == "weights"]


@pytest.mark.parametrize("columns", [5000, 18710])
def test_rows_of_large_weights_are_fetched_a_tile_ahead(columns: int) -> None:
    found = prefetches(12, 1000, columns)
    assert found
    for prefetch in found:
        *_, column = prefetch.ref.indices
        tile = max(coefficient for coefficient, _ in column.terms)  # along the loop over tiles
        assert prefetch.distance == tile
        assert column.const % 16 in (15, columns % 16 - 1)  # the last lane of a vector


@pytest.mark.parametrize(
    ("rows", "terms", "columns"),
    [
        pytest.param(12, 100, 500, id="in the private cache"),
        pytest.param(12, 4096, 8192, id="in few sets of the cache"),
        pytest.param(12, 40000, 16, id="in adjacent rows"),
    ],
)
def test_other_weights_are_not_fetched_ahead(rows: int, terms: int, columns: int) -> None:
    assert not prefetches(rows, terms, columns)
