"""Sums that take what stands at one place: which loops vanish, which must not, and that results stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.assign import nodes
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import BindIndex, Body, For, If, Proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize, passes
from ocannl.testing.evaluate import evaluate

NAMES = frozenset(each.name for each in passes({}, Capabilities()))
BEFORE = NAMES - {"decide_placement", "simplify", "inline_producers", "one_hot_to_gather", "eliminate_dead_code"}

X = np.array([[1.0, np.nan], [np.inf, 2.0], [-np.inf, 3.0], [4.0, 5.0]])
IDS = np.array([3, 0, 7, -1, 2])


def data(array: Any, label: str) -> oc.Tensor:
    return oc.tensor(np.asarray(array), label=label)


def one_hot(dtype: Any = oc.float32, ids: Any = IDS) -> oc.Tensor:
    return oc.one_hot(data(ids, "ids"), 4, dtype=dtype)


def product_of(array: Any, dtype: Any) -> oc.Tensor:
    return oc.einsum("bv; vd => bd", one_hot(dtype), data(array, "x"))


def up_to() -> oc.Tensor:
    return oc.einsum("t; s => ts", oc.iota(len(X)), oc.iota(len(X)), combine="le")


def by_floats() -> oc.Tensor:
    return oc.einsum("b; v => bv", data(IDS * 1.0, "f"), oc.iota(4), combine="eq")


def taken(otherwise: float = 0.0, **how: Any) -> oc.Tensor:
    return oc.einsum("bv; vd; => bd", one_hot(), data(X, "x"), otherwise, combine="where", **how)


def scattered(spec: str, dims: tuple[int, ...]) -> oc.Tensor:
    return oc.einsum(spec, one_hot(), data(np.arange(np.prod(dims)).reshape(dims) - 3.0, "x"), 0.0, combine="where")


def pair() -> oc.Tensor:
    """Two loops are left out."""
    row, column = one_hot(oc.int32), oc.one_hot(data(IDS[::-1].copy(), "other"), 4, dtype=oc.int32)
    return oc.einsum("bv; bw; vw => b", row, column, data(np.arange(16).reshape(4, 4), "table"))


SHORTER: dict[str, tuple[Callable[[], oc.Tensor], int, int]] = {
    # what is computed, the depth of its loops, and how many symbols are picked
    "picked rows": (taken, 2, 1),
    "whole numbers": (lambda: product_of(np.arange(8).reshape(4, 2), oc.int32), 2, 1),
    "in either order": (lambda: oc.einsum("vd; bv => bd", data(np.ones((4, 2), int), "x"), one_hot(oc.int32)), 2, 1),
    "sums at picked rows": (lambda: scattered("bv; bd; => vd", (5, 2)), 2, 1),
    "numbers at picked places": (lambda: scattered("bv; b; => v", (5,)), 1, 1),
    "a map of all places": (lambda: scattered("bv; b; => bv", (5,)), 2, 0),
    "floats, times zero": (lambda: product_of(X, oc.float32), 3, 0),
    "flip": (lambda: oc.flip(data(X, "x"), "t,c => c"), 2, 0),
    "roll": (lambda: oc.roll(data(X, "x"), 3, "t,c => c"), 2, 0),
    "roll of ones": (lambda: oc.roll(oc.full(1.0, o=[4, 2]), 3, "t,c => c"), 2, 0),
    "roll by nothing": (lambda: oc.roll(data(X, "x"), 0, "t,c => c"), 2, 0),
    "flip of narrow floats": (lambda: oc.flip(data(X.astype("float16"), "x"), "t,c => c"), 2, 0),
    "sums up to a place": (lambda: oc.einsum("ts; tc; => sc", up_to(), data(X, "x"), 0.0, combine="where"), 3, 0),
    "the largest": (lambda: taken(reduce="max"), 3, 0),
    "something else otherwise": (lambda: taken(1.0), 3, 0),
    "ids that are floats": (lambda: oc.einsum("bv; vd; => bd", by_floats(), data(X, "x"), 0.0, combine="where"), 3, 0),
}  # fmt: skip


def shape(body: Body) -> tuple[int, int]:
    """The deepest loops and picks."""
    depth = picks = 0
    for stmt in body:
        match stmt:
            case For(body=inner) | If(then=inner):
                below, more = shape(inner)
                depth, picks = max(depth, below + isinstance(stmt, For)), max(picks, more)
            case BindIndex(body=inner):
                below, more = shape(inner)
                depth, picks = max(depth, below), max(picks, more + 1)
    return depth, picks


def optimized(t: oc.Tensor, without: frozenset[str]) -> tuple[Proc, Proc, dict[Any, Any]]:
    code = t.forward.elaborate()
    arrays = {n: n.contents.array(n.dims, n.precision, 42) for n in nodes(code.comp) if n.contents is not None}
    lowered = lower(code.comp, "step")
    keep_reasons = {t.node: "kept"}

    def judge(name: str, proc: Proc) -> None:
        verify(proc, "placed" if name == "allocate_memory" else "optimized")

    return lowered, optimize(lowered, keep_reasons, Capabilities(), judge, without), arrays


@pytest.mark.parametrize("name", SHORTER)
def test_loops_that_need_no_search_are_left_out_and_no_others(name: str) -> None:
    make, depth, picks = SHORTER[name]
    t = make()
    lowered, final, arrays = optimized(t, BEFORE)
    assert shape(final.body) == (depth, picks)
    np.testing.assert_array_equal(interpret(final, arrays)[t.node], interpret(lowered, arrays)[t.node])
    complete = optimized(t, frozenset())[1]
    np.testing.assert_allclose(interpret(complete, arrays)[t.node], interpret(lowered, arrays)[t.node])


def test_two_loops_of_one_sum() -> None:
    t = pair()
    lowered, final, arrays = optimized(t, BEFORE)
    np.testing.assert_array_equal(interpret(final, arrays)[t.node], interpret(lowered, arrays)[t.node])


def test_a_test_that_has_changed_meanwhile_is_left_alone() -> None:
    ids, x = oc.node("ids", output=[3], dtype=oc.int32), data(np.arange(8.0).reshape(4, 2), "x")
    hot, y = oc.node("hot", output=[3, 4]), oc.node("y", output=[3, 2])
    with oc.cd("late") as code:
        hot[...] = oc.one_hot(ids, 4)
        ids += 1
        y[...] = oc.einsum("bv; vd; => bd", hot, x, 0.0, combine="where")
    comp = code.elaborate().comp
    arrays = {ids.node: np.array([0, 3, 2], np.int32), x.node: np.arange(8.0).reshape(4, 2)}
    arrays |= {n: np.zeros(n.dims, n.precision.numpy) for n in nodes(comp) if n not in arrays}
    final = optimize(lower(comp, "late"), {}, Capabilities())
    np.testing.assert_array_equal(interpret(final, arrays)[y.node], evaluate(comp, arrays)[y.node])


@pytest.mark.parametrize("seed", range(60))
def test_walks_and_picks_at_random(seed: int) -> None:
    random = Random(seed)
    rng = np.random.default_rng(seed)
    sizes = tuple(random.choice([1, 2, 3, 5]) for _ in range(2))
    kind = random.choice(["float32", "float64", "int32", "float16"])
    t: oc.Tensor = data(rng.integers(-9, 9, size=sizes).astype(kind), "x")
    for _ in range(random.randrange(1, 4)):
        spec = random.choice(["a,b => a", "a,b => b"])
        match random.randrange(5):
            case 0: t = oc.flip(t, spec)
            case 1: t = oc.roll(t, random.randrange(-4, 5), spec)
            case 2: t = oc.einsum("ab => ba", t)
            case 3: t = oc.tril(t, random.randrange(-2, 3)) + t
            case _:
                ids = data(rng.integers(-1, 5, size=random.choice([1, 3])), "ids")
                hot = oc.one_hot(ids, t.dims[0], dtype=random.choice([oc.float32, oc.int32, oc.bool]))
                t = oc.einsum("bv; vd; => bd", hot, t, 0, combine="where")
    without = frozenset(n for n in NAMES if random.random() < 0.3)
    lowered, final, arrays = optimized(t, without)
    np.testing.assert_allclose(interpret(final, arrays)[t.node], interpret(lowered, arrays)[t.node], rtol=1e-6)
