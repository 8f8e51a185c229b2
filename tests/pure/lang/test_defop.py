"""Declared operations: slots, configuration, use in formulas of others, and declarations that are refused."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc

A = np.array([1.5, -2.0, 3.0])


@oc.defop(shape="pointwise", doc="Leaky rectifier.")
def leaky_relu(x, *, slope: float = 0.01):
    def forward(v, v1):
        v["=:"] = oc.where(v1 > 0, v1, slope * v1)

    def gradient(g, v1, g1):
        g1 += oc.where(v1 > 0, g, slope * g)

    return forward, gradient


@oc.defop()
def hypotenuse(x, y):
    def forward(v, v1, v2):
        v["=:"] = oc.sqrt(v1 * v1 + v2 * v2)

    def gradient(v, g, v1, v2, g1, g2):
        g1 += g * v1 / v
        g2 += g * v2 / v

    return forward, gradient


# --- values and gradients --------------------------------------------------------------------------------------------


def test_a_declared_operation_is_applied_configured_and_named(oracle: Any) -> None:
    x = oc.tensor(A, label="x")
    np.testing.assert_allclose(oracle(leaky_relu(x)), np.where(A > 0, A, 0.01 * A))
    np.testing.assert_allclose(oracle(leaky_relu(x, slope=0.5)), np.where(A > 0, A, 0.5 * A))
    y = leaky_relu(x, label="y")
    z = leaky_relu(x)
    assert (y.label, z.label) == ("y", "z")
    assert leaky_relu.__doc__ == "Leaky rectifier."
    assert str(inspect.signature(leaky_relu)) == "(x, *, slope: 'float' = 0.01)"


def test_gradients_are_as_declared() -> None:
    oc.testing.gradcheck(leaky_relu, A)
    oc.testing.gradcheck(lambda x: leaky_relu(x, slope=0.3), A)
    oc.testing.gradcheck(hypotenuse, A, [[2.0], [1.0]])
    oc.testing.gradcheck(lambda x: hypotenuse(x, x), A)


def test_numbers_are_operands_too(oracle: Any) -> None:
    np.testing.assert_allclose(oracle(hypotenuse(oc.tensor(A), 2)), np.hypot(A, 2))
    np.testing.assert_allclose(oracle(hypotenuse(3.0, 4.0)), 5)


def test_an_operand_without_gradient_is_skipped() -> None:
    x = oc.tensor(A)
    oc.testing.gradcheck(lambda w: hypotenuse(w, x), A)
    assert hypotenuse(x, x).grad is None


def test_an_operation_without_gradient_has_none(oracle: Any) -> None:
    @oc.defop()
    def step(x):
        def forward(v, v1):
            v["=:"] = v1 > 0

        return forward, None

    w = oc.param("w", A)
    assert oracle(step(w)).tolist() == [1, 0, 1]
    assert step(w).grad is None


def test_shapes_are_compose_transpose_or_a_spec(oracle: Any) -> None:
    @oc.defop(shape="ij;jk=>ik")
    def product(x, y):
        def forward(v, v1, v2):
            v["=:+"] = v1 * v2

        def gradient(g, v1, v2, g1, g2):
            g1 += g * v2
            g2 += g * v1

        return forward, gradient

    @oc.defop(shape="compose")
    def compose(x, y):
        def forward(v, v1, v2):
            v["=:@^"] = v1 + v2

        return forward, None

    @oc.defop(shape="T")
    def flipped(x):
        def forward(v, v1):
            v["=:"] = v1 * 2

        def gradient(g, g1):
            g1 += g * 2

        return forward, gradient

    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(oracle(product(oc.tensor(a), oc.tensor(b))), a @ b)
    oc.testing.gradcheck(product, a, b)
    tropical = compose(oc.tensor(a, input_axes=1), oc.tensor(b[:, 0]))
    np.testing.assert_allclose(oracle(tropical), (a + b[:, 0]).max(1))
    np.testing.assert_allclose(oracle(flipped(oc.tensor(a, input_axes=1))), 2 * a.T)
    oc.testing.gradcheck(flipped, oc.tensor(a, input_axes=1))


def test_several_statements_run_in_order(oracle: Any) -> None:
    @oc.defop()
    def twice(x):
        def forward(v, v1):
            v["=:"] = v1
            v["=+"] = v1 * v
            v[...] = v + 1

        return forward, None

    np.testing.assert_allclose(oracle(twice(oc.tensor(A))), A + A * A + 1)


def test_a_slot_t_is_the_tensor_value(oracle: Any) -> None:
    @oc.defop()
    def same(x):
        def forward(t, t1):
            t["=:"] = t1

        def gradient(g, t, t1, g1):
            g1 += g * t / t1

        return forward, gradient

    np.testing.assert_allclose(oracle(same(oc.tensor(A))), A)
    oc.testing.gradcheck(same, A)


def test_gradients_can_be_subtracted_and_spelled() -> None:
    @oc.defop()
    def negated(x):
        def forward(v, v1):
            v["=:"] = -v1

        def gradient(g, g1):
            g1 -= g * 0.25
            g1["=-"] = g * 0.75

        return forward, gradient

    oc.testing.gradcheck(negated, A)


# --- in the formula of another ---------------------------------------------------------------------------------------


def test_an_operation_stands_in_the_formula_of_another(oracle: Any) -> None:
    @oc.defop()
    def bent(x, y):
        def forward(v, v1, v2):
            v["=:"] = leaky_relu(v1, slope=0.2) + hypotenuse(v1, v2) + oc.sigmoid(v2) * oc.relu(v1)

        return forward, None

    want = np.where(A > 0, A, 0.2 * A) + np.hypot(A, 2 * A) + np.maximum(A, 0) / (1 + np.exp(-2 * A))
    np.testing.assert_allclose(oracle(bent(oc.tensor(A), oc.tensor(2 * A))), want)


def test_only_one_plain_assignment_stands_in_a_formula() -> None:
    @oc.defop()
    def twice(x):
        def forward(v, v1):
            v["=:"] = v1
            v["=+"] = v1

        return forward, None

    @oc.defop()
    def uses(x):
        def forward(v, v1):
            v["=:"] = twice(v1)

        return forward, None

    with pytest.raises(oc.CodeError) as caught:
        uses(oc.tensor(A)).forward.elaborate()
    assert str(caught.value) == "only an operation of one plain assignment can stand in the formula of another"


def test_formulas_have_all_operators(oracle: Any) -> None:
    @oc.defop()
    def all_of(x, y):
        def forward(v, v1, v2):
            v["=:"] = (
                (1 + v1) - (v1 - 1) * (2 * v2) / (3 / v2) + v1**2 + 2**v2 + (v1 % 2) + (-v1) + (v1 < v2)
                + (v1 <= v2) + (v1 > v2) + (v1 >= v2) + (v1 & v2) + (v1 | v2) + ~v1
            )  # fmt: skip

        return forward, None

    x, y = A, np.array([2.0, 2.5, 3.0])
    want = (1 + x) - (x - 1) * (2 * y) / (3 / y) + x**2 + 2**y + (x % 2) - x
    want += 2  # of < and <=, > and >=, each pair holds once or twice; & and | hold, ~ does not
    want += (x < y) * 1 + (x <= y) * 1 + (x > y) * 1 + (x >= y) * 1
    np.testing.assert_allclose(oracle(all_of(oc.tensor(x), oc.tensor(y))), want)


# --- refusals --------------------------------------------------------------------------------------------------------


def declare(forward: Any, gradient: Any = None, *, shape: Any = "pointwise", operands: int = 1) -> Callable[..., Any]:
    def one(x):
        return forward, gradient

    def two(x, y):
        return forward, gradient

    return oc.defop(shape=shape, name="odd")(one if operands == 1 else two)


def store(v, v1):
    v["=:"] = v1


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            lambda: declare(lambda v, v2: None),
            "`v2` is no slot of `forward` in `odd`; with 1 operands there are v t g v1 t1 g1",
        ),
        (
            lambda: declare(store, lambda g, x: None),
            "`x` is no slot of `gradient` in `odd`; with 1 operands there are v t g v1 t1 g1",
        ),
        (
            lambda: declare(lambda v, v3: None, operands=2),
            "`v3` is no slot of `forward` in `odd`; with 2 operands there are v t g v1 t1 g1 v2 t2 g2",
        ),
        (
            lambda: declare(store, shape=3),
            "the axes of an operation are a text such as 'pointwise' or 'ij;jk => ik', not 3",
        ),
        (lambda: declare(store, shape="T", operands=2), "`T` does not fit an operation of 2 operands"),
        (lambda: declare(store, shape="compose"), "`compose` does not fit an operation of 1 operands"),
        (lambda: declare(store, shape="i;i=>i"), "the spec 'i;i=>i' has 2 operands, and the operation 1"),
        (lambda: oc.defop()(lambda: (store, None)), "operation `<lambda>` has no operands"),
        (
            lambda: leaky_relu(),
            "`leaky_relu(x, *, slope: 'float' = 0.01)`: missing a required argument: 'x'",
        ),
        (
            lambda: leaky_relu(oc.tensor(A), slop=3),
            "`leaky_relu(x, *, slope: 'float' = 0.01)`: got an unexpected keyword argument 'slop'",
        ),
        (
            lambda: leaky_relu(oc.tensor(A), 0.5),
            "`leaky_relu(x, *, slope: 'float' = 0.01)`: too many positional arguments",
        ),
        (lambda: leaky_relu("a"), "'a' cannot take part in an expression of tensors"),
    ],
)
def test_a_declaration_or_call_that_does_not_fit_is_refused(what: Callable[[], object], message: str) -> None:
    with pytest.raises(oc.CodeError) as caught:
        what()
    assert str(caught.value) == message


@pytest.mark.parametrize("given", [None, store, (store,), (store, None, None), (None, None)])
def test_a_declaration_gives_two_rules(given: Any) -> None:
    with pytest.raises(oc.CodeError, match="the declaration of `gives` gives `forward, gradient`"):

        @oc.defop()
        def gives(x):
            return given


def test_with_required_configuration_slots_are_checked_at_the_first_call() -> None:
    @oc.defop()
    def power(x, *, by):
        return (lambda v, w: None), None

    with pytest.raises(oc.CodeError, match="`w` is no slot of `forward` in `power`"):
        power(oc.tensor(A), by=2)


def test_a_spelling_or_a_value_that_means_nothing_in_a_rule_is_refused() -> None:
    def spelled(v, v1):
        v["=?"] = v1

    def valued(v, v1):
        v["=:"] = "a"

    def asked(v, v1):
        v["=:"] = v1 if v1 > 0 else 0

    for rule, message in (
        (spelled, "'=?' is not an assignment"),
        (valued, "'a' cannot stand in the formula of an operation; slots and numbers can"),
        (asked, "the formula of an operation has no truth value; use oc.where"),
    ):
        with pytest.raises(oc.CodeError, match=re.escape(message)):
            declare(rule)(oc.tensor(A)).forward.elaborate()


def test_a_spec_that_cannot_be_read_has_a_caret() -> None:
    with pytest.raises(oc.EinsumSyntaxError, match="\\^"):
        declare(store, shape="i => => i")
