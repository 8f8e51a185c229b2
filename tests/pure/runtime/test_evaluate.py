"""Values in one call: by tensor and by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc


@pytest.fixture
def graph() -> dict[str, Any]:
    x, n = oc.placeholder("x", b=[], i=[], o=[2]), oc.symbol("n", 0, 5)
    w = oc.param("w", 2.0, o=[2])
    y = (x * w + n).with_label("y")
    return {"x": x, "n": n, "w": w, "y": y, "z": (y * 2).with_label("z")}


def test_feeds_by_label_or_tensor(ctx, graph):
    x, n, y = (graph[name] for name in "xny")
    for feeds in ({"x": [1, 2], "n": 3}, {x: np.array([1, 2]), n: 3}, {"x": [1, 2], n: np.int64(3)}):
        assert oc.evaluate(y, feeds, ctx).tolist() == [5, 7]
    assert ctx[x].tolist() == [1, 2]


def test_result_structure_matches_outputs(ctx, graph):
    feeds = {"x": [1, 2], "n": 0}
    y, z, x, w = (graph[name] for name in "yzxw")
    assert [a.tolist() for a in oc.evaluate([y, z, x, w], feeds, ctx)] == [[2, 4], [4, 8], [1, 2], [2, 2]]
    assert {name: a.tolist() for name, a in oc.evaluate({"twice": z}, feeds, ctx).items()} == {"twice": [4, 8]}
    assert oc.evaluate([], {}, ctx) == []
    assert oc.evaluate(oc.tensor(3.0), ctx=ctx) == 3


def test_initialized_inputs_need_no_feeds(ctx, graph):
    assert oc.evaluate(graph["w"], ctx=ctx).tolist() == [2, 2]
    ctx[graph["x"]], ctx[graph["w"]] = [1, 2], [5, 6]
    assert oc.evaluate(graph["y"], {"n": 1}, ctx).tolist() == [6, 13]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g, ctx: oc.evaluate(g["y"], {"q": [1.0]}, ctx), oc.CodeError, "no input 'q'; the inputs are x"),
        (lambda g, ctx: oc.evaluate(g["y"], {3: 1}, ctx), oc.CodeError, "there is no input 3"),
        (lambda g, ctx: oc.evaluate(g["y"], {"x": [1, 2], "n": 9}, ctx), oc.DataError, "0 <= n < 5"),
        (lambda g, ctx: oc.evaluate(g["y"], {"x": [1, 2]}, ctx), oc.CodeError, "needs the symbol `n`"),
        (lambda g, ctx: oc.evaluate(g["y"], {"n": 1}, ctx), oc.UninitializedError, "`x`"),
        (lambda g, ctx: oc.evaluate(g["y"], {"x": [1, 2, 3], "n": 1}, ctx), oc.ShapeError, "`x`, .* has the sizes"),
        (lambda g, ctx: oc.evaluate(g["y"], None, ctx), oc.CodeError, "feeds are a mapping"),
        (lambda g, ctx: oc.evaluate("y", {}, ctx), oc.CodeError, "oc.evaluate computes a tensor, or a list"),
        (lambda g, ctx: oc.evaluate(["y"], {}, ctx), oc.CodeError, "oc.evaluate computes tensors"),
        (lambda g, ctx: oc.evaluate(g["y"], {}, "llvm"), oc.CodeError, "evaluated in a context"),
    ],
)
def test_invalid_outputs_or_feeds_raise(ctx, graph, call, error, message):
    with pytest.raises(error, match=message):
        call(graph, ctx)


def test_ambiguous_label_raises(ctx):
    a, b = (oc.placeholder("p", b=[], i=[], o=[1]) for _ in range(2))
    with pytest.raises(oc.CodeError, match="2 inputs are called `p`"):
        oc.evaluate(a + b, {"p": [1]}, ctx)
    assert oc.evaluate(a + b, {a: [1], b: [2]}, ctx).tolist() == [3]
