"""Assignments with explicit loops, of values whose root operation has loops of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc

M = np.arange(9.0, dtype="float32").reshape(3, 3)
V = np.array([1.0, 2.0, 3.0], "float32")


def m() -> oc.Tensor:
    return oc.tensor(M, label="m")


def v() -> oc.Tensor:
    return oc.tensor(V, label="v")


VALUES = {
    "einsum": lambda: oc.einsum("ij => j", m()),
    "two operands": lambda: oc.einsum("ij; j => i", m(), v()),
    "diagonal": lambda: oc.einsum("ii => i", m()),
    "merged axes": lambda: oc.einsum("i, j => (i j)", m()),
    "window": lambda: oc.einsum("o<+k; k => o", v(), oc.tensor([1.0, 1.0])),
    "name of the result": lambda: oc.einsum("i => i, n", v(), n=3),
    "merge buffer": lambda: oc.einsum("ij => j", m().merge),
    "sum": lambda: m().sum("ij => j"),
    "total": lambda: m().sum(),
    "max": lambda: m().max("ij => j"),
    "product": lambda: oc.tensor(M, input_axes=1) @ v(),
    "transposition": lambda: oc.tensor(M, input_axes=1).T,
    "concat": lambda: oc.concat("a; b => a^b", v(), v()),
    "part": lambda: oc.concat("a^1 => a", v()),
    "stack": lambda: oc.stack([v(), v()]),
    "cumsum": lambda: oc.cumsum(v()),
    "sort": lambda: oc.sort(v()),
    "take": lambda: m().take(oc.tensor(np.array([0, 1]))),
    "softmax": lambda: v().softmax(),
    "convolution": lambda: oc.conv2d(oc.tensor(np.ones((1, 4, 4, 2)), batch_axes=1), oc.tensor(np.ones((3, 3, 2, 2)))),
}
LOGICS = [".", "pointwise", "@", "compose", "T", "transpose", "ik => k", "i => i", "ij; jk => ik", "...|... => ...|..."]


def record(spelling: str, logic: Any, value: Any) -> tuple[oc.Code, oc.Tensor]:
    n = oc.node("n")
    with oc.cd("explicit loops") as code:
        n[spelling, logic] = value()
    return code, n


OWN = {("product", "@"), ("product", "compose"), ("transposition", "T"), ("transposition", "transpose")}


@pytest.mark.parametrize("logic", LOGICS)
@pytest.mark.parametrize("name", VALUES)
def test_a_value_with_its_own_loops_is_refused(name: str, logic: str) -> None:
    for spelling in ("=:", "=+", "=:+", "=@^", "=:*") if (name, logic) not in OWN else ():
        with pytest.raises(oc.CodeError, match="has its own loops|does not fit an operation of"):
            record(spelling, logic, VALUES[name])


def test_the_error_states_both_loops_and_the_remedies() -> None:
    with pytest.raises(oc.CodeError) as caught:
        record("=:", ".", VALUES["einsum"])
    assert str(caught.value) == (
        "`einsum(\"ij => j\", m)` has its own loops (ij => j), and '.' specifies others: omit one of them, or compute "
        "the value into a tensor first"
    )


@pytest.mark.parametrize("inside", ["function", "slice of the left side"])
def test_other_recorders_and_targets_refuse_too(inside: str) -> None:
    target = oc.placeholder("t", batch=[2], input=[], output=[3])

    def update() -> None:
        (target[1] if inside == "slice of the left side" else oc.node("n"))["=+", "."] = VALUES["einsum"]()

    with pytest.raises(oc.CodeError, match="has its own loops"):
        oc.cd(update)()


@pytest.mark.parametrize(
    ("spelling", "logic", "value", "expected"),
    [
        ("=:+", "ij => j", lambda: oc.einsum("ij => j", m()), M.sum(0)),
        ("=:@^", "ij => j", lambda: m().max("ij => j"), M.max(0)),
        ("=:+", "@", VALUES["product"], M @ V),
        ("=:", "T", VALUES["transposition"], M.T),
        ("=:+", "i => i, n", VALUES["name of the result"], np.repeat(V[:, None], 3, 1)),
    ],
)
def test_equal_loops_keep_the_reduction_and_the_sizes(spelling: str, logic: str, value: Any, expected: Any) -> None:
    code, n = record(spelling, logic, value)
    ctx = oc.Context("numpy")
    ctx.run(code)
    np.testing.assert_array_equal(ctx[n], expected)


@pytest.mark.parametrize(("spelling", "stated"), [("=:", "stores without accumulating"), ("=+", "accumulates by add")])
def test_an_explicit_accumulation_does_not_replace_another_reduction(spelling: str, stated: str) -> None:
    with pytest.raises(oc.CodeError, match=f"reduces by max, and the assignment {stated}"):
        record(spelling, "ij => j", lambda: m().max("ij => j"))


@pytest.mark.parametrize("logic", [".", "T", "i => i"])
def test_operands_of_an_explicit_operation_are_computed_first(logic: str) -> None:
    n, k = oc.node("n"), oc.node("k")
    with oc.cd("operands") as code:
        oc.assign(n, "id", oc.einsum("ij => j", m()), logic=logic)
        earlier = oc.einsum("ij => i", m())
        k[...] = 0.0
        k["=+", logic] = earlier  # a statement after the expression: its value is an operand
    ctx = oc.Context("numpy")
    ctx.run(code)
    np.testing.assert_array_equal(ctx[n], M.sum(0))
    np.testing.assert_array_equal(ctx[k], M.sum(1))


def test_projections_iterate_over_the_value_of_an_operand() -> None:
    n = oc.placeholder("n", batch=[], input=[], output=[3])
    like = oc.relu(v())
    with oc.cd("projections") as code:
        oc.assign(n, "id", oc.einsum("ij => j", m()), projections=like.projections)
    ctx = oc.Context("numpy")
    ctx.run(code)
    np.testing.assert_array_equal(ctx[n], M.sum(0))


def test_slices_and_elementwise_results_take_explicit_loops() -> None:
    rows = oc.tensor(M, batch_axes=1)
    for value, expected in (
        (lambda: rows[1], M[1]),
        (lambda: 2 * v(), 2 * V),
        (lambda: m().mean("ij => j"), M.mean(0)),
    ):
        code, n = record("=:", ".", value)
        ctx = oc.Context("numpy")
        ctx.run(code)
        np.testing.assert_array_equal(ctx[n], expected)


@pytest.mark.parametrize(
    ("spec", "name", "uses", "shape"),
    [
        ("i => i, k", "k", [3, 5], (3, 5)),
        ("i => i, k", "k", [3, 1], (3, 1)),
        ("i => ..v.., i", "..v..", [2, 3], (2, 3)),
    ],
)
def test_an_open_left_side_needs_a_use_to_size_names(spec: str, name: str, uses: list[int], shape: Any) -> None:
    code, n = record("=:", spec, v)
    with pytest.raises(oc.ShapeError, match=f"`{name}` stands only in the result"):
        oc.Context("numpy").compile(code)
    assert (n + np.ones(uses, "float32")).dims == n.dims == shape
    ctx = oc.Context("numpy")
    ctx.run(code)
    np.testing.assert_array_equal(ctx[n], np.broadcast_to(V[:, None] if name == "k" else V, shape))
