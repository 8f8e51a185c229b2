"""Gathers into initialized arrays: which are merged with the initialization, and their values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.assign import nodes
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Update
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.idioms.merge_gather_initialization import merge_gather_initialization
from ocannl.opt.pipeline import optimize, passes
from ocannl.testing.evaluate import evaluate

NAMES = frozenset(step.name for step in passes({}, Capabilities()))
BEFORE = NAMES - {"decide_placement", "simplify", "inline_producers", "one_hot_to_gather", "eliminate_dead_code"}
X = np.arange(24.0, dtype="float32").reshape(4, 3, 2)
IDS, IDS_PER_CELL = np.array([3, -1, 0, 4, 2]), np.array([[0, 2, 9], [1, -2, 1], [2, 2, 2], [3, 0, 1]])


def rows() -> oc.Tensor:
    return oc.take(oc.tensor(X), IDS)


def cells() -> oc.Tensor:
    return oc.take_along_axis(oc.tensor(X[..., 0]), IDS_PER_CELL, "r,c => r")


def row() -> oc.Tensor:
    """The index is outside of all loops."""
    return oc.take(oc.tensor(X), np.array(2))


def sums() -> oc.Tensor:
    """Several terms for each cell."""
    one_hot = oc.one_hot(oc.tensor(IDS_PER_CELL, batch_axes=1), 4)
    return oc.einsum("b|i,v; v,c,d; => b|c,d", one_hot, oc.tensor(X), 0.0, combine="where")


def scatter() -> oc.Tensor:
    return oc.segment_sum(oc.tensor(X), np.array([1, 0, 1, 2]), 3)


@pytest.mark.parametrize(
    ("build", "is_merged"), [(rows, True), (cells, True), (row, True), (sums, False), (scatter, False)]
)
def test_merged_gathers_keep_their_values(build: Callable[[], oc.Tensor], is_merged: bool) -> None:
    tensor = build()
    code = tensor.forward.elaborate()
    arrays = {n: n.contents.array(n.dims, n.precision, 42) for n in nodes(code.comp) if n.contents is not None}
    before = optimize(lower(code.comp, "step"), {tensor.node: "the result"}, Capabilities(), without=BEFORE)
    after = merge_gather_initialization(before)
    assert (after is not before) == is_merged
    verify(after, "optimized")
    assert any(isinstance(node, Update) for node in walk(after.body)) != is_merged
    np.testing.assert_array_equal(interpret(after, arrays)[tensor.node], interpret(before, arrays)[tensor.node])
    expected = evaluate(code.comp, arrays)[tensor.node]
    np.testing.assert_array_equal(interpret(after, arrays)[tensor.node], expected)
