"""Models as functions from arrays to arrays."""

from __future__ import annotations

import numpy as np
import pytest
from usable_backends import usable_backends

import ocannl as oc
from ocannl import nn


@oc.op
def centered(x: oc.Tensor) -> dict[str, oc.Tensor]:
    y = nn.dropout(nn.linear(x, width=3, init=0.5), rate=0.5)
    return {"y": y, "sum": y.sum("...|c => ...|")}


@pytest.mark.parametrize("backend", usable_backends())
def test_results_have_the_structure_and_sizes_of_the_model(backend: str) -> None:
    function = oc.compile(centered(), ctx=oc.Context(backend))
    for count in (2, 5):
        result = function(np.arange(2.0 * count, dtype="float32").reshape(count, 2))
        assert list(result) == ["y", "sum"]
        wanted = 0.5 * (4 * np.arange(count) + 1)
        np.testing.assert_allclose(result["y"], np.tile(wanted[:, None], 3))
        np.testing.assert_allclose(result["sum"], 3 * wanted)


def test_the_least_recently_used_routine_is_dropped() -> None:
    built = []

    def model(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
        built.append(x.dims)
        return x + oc.einsum("b| => b, 0|", y)

    function = oc.compile(model, sizes=["b, t|", "b|"], ctx=oc.Context("numpy"), limit=2)
    for sizes in ((2, 3), (1, 3), (2, 3), (4, 4), (2, 3), (1, 3)):
        assert function(np.ones(sizes), np.ones(sizes[0])).shape[0] == sizes[0]
    assert built == [(2, 3), (1, 3), (4, 4), (1, 3)]
    assert function.sizes == (((2, 3), (2,)), ((1, 3), (1,)))
    assert function(np.ones((1, 3), "float32"), np.ones(1, "float32")).dtype == np.float32  # another type
    assert len(built) == 5


def test_refusals() -> None:
    ctx = oc.Context("numpy")
    function = oc.compile(lambda x, y: x + y, sizes=["b|3", "b|3"], ctx=ctx)
    with pytest.raises(oc.ShapeError, match="`3` of operand 0 is 4, but 3 is declared"):
        function(np.ones((2, 4)), np.ones((2, 3)))
    with pytest.raises(oc.ShapeError, match="`b` of operand 1 is 1, but 2"):
        function(np.ones((2, 3)), np.ones((1, 3)))
    with pytest.raises(oc.ShapeError, match="operand 0 is declared with 2 axes"):
        function(np.ones(3), np.ones(3))
    with pytest.raises(oc.ShapeError, match="compiled for 2 operands, and called with 1"):
        function(np.ones((2, 3)))
    with pytest.raises(oc.CodeError, match="names and integers"):
        oc.compile(lambda x: x, sizes="...|3", ctx=ctx)
    with pytest.raises(oc.CodeError, match="at least 1, not 0"):
        oc.compile(lambda x: x, limit=0, ctx=ctx)
    with pytest.raises(oc.CodeError, match="returns tensors, not 1"):
        oc.compile(lambda x: 1, ctx=ctx)(np.ones(3))
