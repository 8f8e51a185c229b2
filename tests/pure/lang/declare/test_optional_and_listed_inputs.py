"""Optional inputs, lists of tensors, and settings that are lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import declare as d

A, B = np.array([1.5, -2.0, 3.0]), np.array([0.5, 4.0, -1.0])


@oc.defop(inputs={"bias": "float"}, where=[d.same_shape("x", "bias")])
def biased(x, scale, bias=None, *, twice: bool = False):
    """`x * scale`, plus the bias if there is one."""

    def forward(v, v1, v2, v_bias):
        v["=:"] = v1 * v2 if bias is None else v1 * v2 + v_bias

    def gradient(g, v1, v2, g1, g2, g_bias):
        g1 += g * v2
        g2 += g * v1
        g_bias += g

    return forward, gradient


def test_an_optional_input_may_be_omitted(oracle: Any) -> None:
    x, y = oc.tensor(A), oc.tensor(B)
    np.testing.assert_allclose(oracle(biased(x, 2.0)), 2 * A)
    np.testing.assert_allclose(oracle(biased(x, 2.0, None)), 2 * A)
    np.testing.assert_allclose(oracle(biased(x, 2.0, bias=y)), 2 * A + B)
    oc.testing.gradcheck(biased, A, B)
    oc.testing.gradcheck(biased, A, B, A * B)
    assert biased.declaration.optional == ("bias",)


def test_conditions_on_an_omitted_input_are_skipped() -> None:
    with pytest.raises(oc.ShapeError, match=r"needs same_shape\(x, bias\)"):
        biased(oc.tensor(A), 2.0, oc.tensor(B[:1]))
    with pytest.raises(oc.CodeError, match="None cannot take part|None"):
        biased(None, 2.0)


def test_an_optional_input_in_front_of_a_required_slot(oracle: Any) -> None:
    @oc.defop(where=[d.given("low") | d.given("high")])
    def limited(x, low=None, high=None):
        def forward(v, v1, v2, v3):
            above = v1 if v2 is None else oc.maximum(v1, v2)
            v["=:"] = above if v3 is None else oc.minimum(above, v3)

        return forward, None

    x = oc.tensor(A)
    np.testing.assert_allclose(oracle(limited(x, high=1.0)), np.minimum(A, 1))
    np.testing.assert_allclose(oracle(limited(x, 0.0)), np.maximum(A, 0))
    np.testing.assert_allclose(oracle(limited(x, 0.0, 1.0)), np.clip(A, 0, 1))
    with pytest.raises(oc.CodeError, match=re.escape("needs given(low) or given(high)")):
        limited(x)


def test_an_omitted_input_in_a_formula(oracle: Any) -> None:
    @oc.defop()
    def doubled(x):
        def forward(v, v1):
            v["=:"] = biased(v1, 2.0) + biased(v1, 1.0, v1)

        return forward, None

    np.testing.assert_allclose(oracle(doubled(oc.tensor(A))), 4 * A)


@oc.defop(inputs={"xs": d.Input("float", count=d.between(2, 3)), "y": "float"}, where=[d.same_shape("xs")])
def mixed(xs, y):
    """The product of `y` and the sum of the list."""

    def forward(v, v_xs, v_y):
        v["=:"] = sum(v_xs[1:], v_xs[0]) * v_y

    def gradient(g, v_xs, v_y, g_xs, g_y):
        for gradient_of_x in g_xs:
            gradient_of_x += g * v_y
        g_y += g * sum(v_xs[1:], v_xs[0])

    return forward, gradient


def test_any_input_may_be_a_list(oracle: Any) -> None:
    x, y = oc.tensor(A), oc.tensor(B)
    np.testing.assert_allclose(oracle(mixed([x, y], y)), (A + B) * B)
    np.testing.assert_allclose(oracle(mixed((x, y, x), 2.0)), 2 * (A + B + A))
    oc.testing.gradcheck(lambda p, q, r: mixed([p, q], r), A, B, A + 1)
    for operands in ([x], [x] * 4):
        with pytest.raises(oc.CodeError, match=f"^`mixed` takes 2 to 3 of `xs`, and {len(operands)} "):
            mixed(operands, y)
    with pytest.raises(oc.CodeError, match="^`xs` of `mixed` is a list of tensors, not <"):
        mixed(x, y)
    with pytest.raises(oc.ShapeError, match=r"needs same_shape\(xs\)"):
        mixed([x, oc.tensor(A[:1])], y)
    with pytest.raises(oc.DtypeError, match="`mixed` takes float as `xs`"):
        mixed([x, oc.tensor(np.array([1, 2, 3]))], y)


def test_slots_of_a_list_are_numbered_too() -> None:
    @oc.defop(inputs={"xs": d.Input(count=d.exactly(2))})
    def difference(xs, y):
        def forward(v, v1, v2, v3):
            v["=:"] = v1 - v2 * v3

        def gradient(g, v2, v3, g1, g2, gs):
            g1 += g
            g2 += -1.0 * g * v3
            gs[2] += -1.0 * g * v2

        return forward, gradient

    oc.testing.gradcheck(lambda p, q, r: difference([p, q], r), A, B, A + 1)


def test_a_list_of_tensors_in_a_formula(oracle: Any) -> None:
    @oc.defop()
    def both(x, y):
        def forward(v, v1, v2):
            v["=:"] = mixed([v1, v2], v2)

        return forward, None

    np.testing.assert_allclose(oracle(both(oc.tensor(A), oc.tensor(B))), (A + B) * B)


def test_missing_gradient_of_a_list_is_rejected() -> None:
    message = "^the gradient of `partial` adds nothing to that of `xs`: take the slot `g2`"
    with pytest.raises(oc.CodeError, match=message):

        @oc.defop(inputs={"xs": d.Input(count=d.exactly(2))})
        def partial(xs):
            def forward(v, v1, v2):
                v["=:"] = v1 + v2

            def gradient(g, g1):
                g1 += g

            return forward, gradient


# --- settings that are lists ------------------------------------------------------------------------------------------


def sized(*where: d.Condition, count: d.Count | None = None) -> Callable[..., Any]:
    @oc.defop(settings={"size": d.Setting(count=count, doc="the sizes")}, where=where)
    def fn(x, *, size: Sequence[int] | int, name: list[str] | None = None):
        def forward(v, v1):
            v["=:"] = v1 * (size if isinstance(size, int) else sum(size))

        return forward, None

    return fn


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: sized()(x, size=["a"]), "`fn`: size=['a'] is not collections.abc.Sequence[int] | int"),
        (lambda x: sized()(x, size=[1, 2.5]), "`fn`: size=[1, 2.5] is not collections.abc.Sequence[int] | int"),
        (lambda x: sized()(x, size=1, name=[3]), "`fn`: name=[3] is not list[str] | None"),
        (lambda x: sized(count=d.exactly(2))(x, size=[1]), "`fn`: size=[1] has 1 items, not exactly 2"),
        (lambda x: sized(d.each("size") > 0)(x, size=(1, 0)), "`fn` needs each of size > 0\n  size  (1, 0)"),
        (lambda x: sized(d.each("size") > 0)(x, size=0), "`fn` needs each of size > 0\n  size  0"),
        (lambda x: sized(d.count("size") == d.rank("x"))(x, size=[1, 2]), "`fn` needs count(size) == rank(x)"),
        (lambda x: sized(d.value("size")[0] < d.value("size")[-1])(x, size=[2, 1]), "`fn` needs size[0] < size[-1]"),
        (lambda x: sized(d.value("size")[2] == 1)(x, size=[2]), "size[2] is undefined for [2]: list index out of "),
        (lambda x: sized(d.value("size")[0] == 1)(x, size=2), "size[0] is undefined for 2: 'int' object is not "),
        (lambda x: sized(d.each("size") < d.each("size"))(x, size=[2]), "`fn` needs each of size < each of size"),
    ],
)
def test_conditions_on_lists(call: Callable[[oc.Tensor], object], message: str) -> None:
    with pytest.raises((oc.CodeError, oc.ShapeError)) as caught:
        call(oc.tensor(A))
    assert str(caught.value).startswith(message)


def test_lists_that_satisfy_conditions(oracle: Any) -> None:
    x = oc.tensor(A)
    where = [
        (d.each("size") * 2 + 1 >= 3) & (d.each("size") % d.value("size")[0] == 0), d.count("size") > d.rank("x"),
    ]  # fmt: skip
    np.testing.assert_allclose(oracle(sized(*where, count=d.at_least(2))(x, size=(1, 2))), 3 * A)
    np.testing.assert_allclose(oracle(sized(d.each("size") > 0, count=d.exactly(2))(x, size=5)), 5 * A)


def test_lists_tuples_and_arrays_stand_for_each_other(oracle: Any) -> None:
    received = []

    @oc.defop(where=[d.count("sizes") == 2])
    def fn(x, *, sizes: list[int], pair: tuple[float, ...] = (1.0,), nested: int | list[list[int]] = 0):
        received.append((sizes, pair, nested))
        return (lambda v, v1: v.__setitem__("=:", v1 * sum(sizes) * pair[0])), None

    x = oc.tensor(A)
    np.testing.assert_allclose(oracle(fn(x, sizes=(1, 2))), 3 * A)
    np.testing.assert_allclose(oracle(fn(x, sizes=np.array([1, 2]), pair=[2.0], nested=((1,), (2, 3)))), 6 * A)
    assert received[-2:] == [([1, 2], (1.0,), 0), ([1, 2], (2.0,), [[1], [2, 3]])]
    for sizes in ((1, 2.5), np.array([1.5, 2.5]), np.array([[1, 2]]), "ab", {1, 2}):
        with pytest.raises(oc.CodeError, match=r"^`fn`: sizes=(.|\n)* is not list\[int\]"):
            fn(x, sizes=sizes)


def test_default_against_a_length_is_rejected() -> None:
    with pytest.raises(oc.CodeError, match=re.escape("`fn`: size=(1, 2) has 2 items, not exactly 1")):

        @oc.defop(settings={"size": d.Setting(count=d.exactly(1))})
        def fn(x, *, size: tuple[int, ...] = (1, 2)):
            return (lambda v: None), None


