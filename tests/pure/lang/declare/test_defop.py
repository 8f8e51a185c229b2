"""Declared operations: slots, settings, inlining into formulas, conditions, several results and errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

import ocannl as oc
from ocannl import declare as d
from ocannl.base import annotations
from ocannl.testing.gradients import gradients_of

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


def masked(caught: Any) -> str:
    """The message, without the line numbers of this file."""
    return re.sub(r"test_defop\.py:\d+", "file.py:N", str(caught.value))


# --- values and gradients --------------------------------------------------------------------------------------------


def test_declared_operations_take_settings_and_labels(oracle: Any) -> None:
    x = oc.tensor(A, label="x")
    np.testing.assert_allclose(oracle(leaky_relu(x)), np.where(A > 0, A, 0.01 * A))
    np.testing.assert_allclose(oracle(leaky_relu(x, slope=0.5)), np.where(A > 0, A, 0.5 * A))
    y = leaky_relu(x, label="y")
    z = leaky_relu(x)
    assert (y.label, z.label) == ("y", "z")
    assert leaky_relu.__doc__ == "Leaky rectifier."
    assert str(inspect.signature(leaky_relu)) == "(x, *, slope: float = 0.01)"


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


# --- inlining into formulas ------------------------------------------------------------------------------------------


def test_operations_are_inlined_into_formulas(oracle: Any) -> None:
    @oc.defop()
    def bent(x, y):
        def forward(v, v1, v2):
            v["=:"] = leaky_relu(v1, slope=0.2) + hypotenuse(v1, v2) + oc.sigmoid(v2) * oc.relu(v1)

        return forward, None

    want = np.where(A > 0, A, 0.2 * A) + np.hypot(A, 2 * A) + np.maximum(A, 0) / (1 + np.exp(-2 * A))
    np.testing.assert_allclose(oracle(bent(oc.tensor(A), oc.tensor(2 * A))), want)


def test_only_a_single_assignment_can_be_inlined() -> None:
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
    assert str(caught.value) == "only an operation of one plain assignment can be inlined into a formula"


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


# --- errors ----------------------------------------------------------------------------------------------------------


def declare(forward: Any, gradient: Any = None, *, shape: Any = "pointwise", operands: int = 1) -> Callable[..., Any]:
    def unary(x):
        return forward, gradient

    def binary(x, y):
        return forward, gradient

    return oc.defop(shape=shape, name="odd")(unary if operands == 1 else binary)


def store(v, v1):
    v["=:"] = v1


SPEC_OF_TWO = """the spec has 2 operands, and 1 is given
  i;i=>i
    ^
  fix  give 1 more, or leave `i` out of the spec"""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: declare(lambda v, v2: None),
            "`v2` is not a slot of `forward` in `odd`; with 1 operand the slots are v t v1 t1",
        ),
        (
            lambda: declare(store, lambda g, x: None),
            "`x` is not a slot of `gradient` in `odd`; with 1 operand the slots are v t g v1 t1 g1",
        ),
        (
            lambda: declare(lambda v, v3: None, operands=2),
            "`v3` is not a slot of `forward` in `odd`; with 2 operands the slots are v t v1 t1 v2 t2",
        ),
        (
            lambda: declare(store, shape=3),
            "the axes of an operation are a text such as 'pointwise' or 'ij;jk => ik', not 3",
        ),
        (lambda: declare(store, shape="T", operands=2), "`T` does not fit an operation of 2 operands"),
        (lambda: declare(store, shape="compose"), "`compose` does not fit an operation of 1 operand"),
        (
            lambda: declare(store, shape="i;i=>i"),
            SPEC_OF_TWO,
        ),
        (lambda: oc.defop(name="odd")(lambda: (store, None)), "operation `odd` has no operands"),
        (
            lambda: leaky_relu(),
            "`leaky_relu(x, *, slope: float = 0.01)`: missing a required argument: 'x'",
        ),
        (
            lambda: leaky_relu(oc.tensor(A), slop=3),
            "`leaky_relu` has no argument `slop=`: did you mean `slope=`?",
        ),
        (
            lambda: leaky_relu(oc.tensor(A), 0.5),
            "`leaky_relu(x, *, slope: float = 0.01)`: too many positional arguments",
        ),
        (lambda: leaky_relu("a"), "'a' cannot be an operand of a tensor expression"),
    ],
)
def test_invalid_rules_and_calls_are_rejected(call: Callable[[], object], message: str) -> None:
    with pytest.raises(oc.CodeError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize("rules", [None, store, (store,), (store, None, None), (None, None)])
def test_the_declaring_function_returns_two_rules(rules: Any) -> None:
    with pytest.raises(oc.CodeError, match="the declaration of `gives` must return `forward, gradient`"):

        @oc.defop()
        def gives(x):
            return rules


def test_with_required_settings_slots_are_checked_at_the_first_call() -> None:
    @oc.defop()
    def power(x, *, by):
        return (lambda v, w: None), None

    with pytest.raises(oc.CodeError, match="`w` is not a slot of `forward` in `power`"):
        power(oc.tensor(A), by=2)


def test_invalid_assignments_in_rules_are_rejected() -> None:
    def spelled(v, v1):
        v["=?"] = v1

    def valued(v, v1):
        v["=:"] = "a"

    def tested(v, v1):
        v["=:"] = v1 if v1 > 0 else 0

    for rule, message in (
        (spelled, "'=?' is not an assignment"),
        (valued, "'a' cannot stand in the formula of an operation; slots and numbers can"),
        (tested, "the formula of an operation has no truth value; use oc.where"),
    ):
        with pytest.raises(oc.CodeError, match=re.escape(message)):
            declare(rule)(oc.tensor(A)).forward.elaborate()


def test_syntax_error_in_a_spec_has_a_caret() -> None:
    with pytest.raises(oc.EinsumSyntaxError, match="\\^"):
        declare(store, shape="i => => i")


# --- inputs, settings and results ------------------------------------------------------------------------------------


def scaled(**arguments: Any) -> Callable[..., Any]:
    """Declares a scaled sum of any number of inputs, with additional arguments of `oc.defop`."""

    @oc.defop(name="scaled", **arguments)
    def declared(x, *xs, scale: float = 1.0, mode: Literal["up", "down"] = "up"):
        factor = scale if mode == "up" else 1 / scale

        def forward(v, vs):
            v["=:"] = sum(vs[1:], vs[0]) * factor

        def gradient(g, gs):
            for slot in gs:
                slot += g * factor

        return forward, gradient

    return declared


def test_any_number_of_inputs(oracle: Any) -> None:
    fn = scaled()
    np.testing.assert_allclose(oracle(fn(oc.tensor(A))), A)
    np.testing.assert_allclose(oracle(fn(oc.tensor(A), 2 * A, 1.0, scale=2)), 2 * (3 * A + 1))
    oc.testing.gradcheck(lambda x, y, z: fn(x, y, z, scale=0.5, mode="down"), A, 2 * A, [1.0])


@pytest.mark.parametrize(
    ("count", "valid", "text"),
    [
        (d.exactly(1), {1}, "exactly 1"),
        (d.at_least(2), {2, 3}, "at least 2"),
        (d.at_most(1), {0, 1}, "at most 1"),
        (d.between(1, 2), {1, 2}, "1 to 2"),
    ],
)
def test_arity_of_variadic_inputs(count: d.Count, valid: set[int], text: str) -> None:
    fn = scaled(inputs={"xs": d.Input(count=count)})
    for n in range(4):
        if n in valid:
            fn(*[1.0] * (n + 1))
        else:
            with pytest.raises(oc.CodeError, match=rf"^`scaled` takes {text} of `\*xs`, and {n} (is|are) given$"):
                fn(*[1.0] * (n + 1))


def test_data_types_of_inputs() -> None:
    fn = scaled(inputs={"x": "float", "xs": "int | bool"})
    x, n = oc.tensor(A, label="x"), oc.tensor(np.array([1, 2, 3], "int32"), label="n")
    fn(x, n, n)
    fn(2, n)
    with pytest.raises(oc.DtypeError) as caught:
        fn(n)
    assert masked(caught) == "`scaled` takes float as `x`\n  x    n: 3 int32  data, file.py:N\n  fix  convert it"
    with pytest.raises(oc.DtypeError, match="^`scaled` takes int or bool as `xs`"):
        fn(x, x)
    with pytest.raises(oc.CodeError, match="^'real' is not a class of types; the classes are any, float, int, signed"):
        scaled(inputs={"x": "real"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": "a"}, "`scaled`: scale='a' is not float"),
        ({"scale": True}, "`scaled`: scale=True is not float"),
        ({"scale": None}, "`scaled`: scale=None is not float"),
        ({"mode": "left"}, "`scaled`: mode='left' is not one of 'up', 'down'"),
    ],
)
def test_types_of_settings(settings: Any, message: str) -> None:
    with pytest.raises(oc.CodeError) as caught:
        scaled()(oc.tensor(A), **settings)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (1, int, True), (np.int32(1), int, True), (1.0, int, False), (True, int, False), (np.float32(1), float, True),
        (None, int | None, True), ("a", int | None, False), ([1], list[int], True), ((1,), list[int], False),
        (True, bool, True), (1, Literal[1, 2], True), (True, Literal[1, 2], False), (3, "unknown", True),
        (3, Any, True),
    ],
)  # fmt: skip
def test_values_are_checked_against_annotations(value: Any, kind: Any, fits: bool) -> None:
    assert annotations.fits(value, kind) is fits


def test_defaults_follow_from_inputs_and_settings(oracle: Any) -> None:
    smaller = d.follows(lambda x, limit: min(x.dims[0], limit))

    @oc.defop()
    def damped(x, y=d.follows(lambda x: x), *, by: float = smaller, limit: int = 9):  # noqa: B008
        def forward(v, v1, v2):
            v["=:"] = v1 * v2 / by

        return forward, None

    x = oc.tensor(A)
    assert str(inspect.signature(damped)) == (
        "(x, y=<follows x>, *, by: float = <follows x, limit>, limit: int = 9)"
    )
    np.testing.assert_allclose(oracle(damped(x)), A * A / 3)
    np.testing.assert_allclose(oracle(damped(x, 2.0, limit=2)), A)
    np.testing.assert_allclose(oracle(damped(x, by=1.0)), A * A)
    with pytest.raises(oc.CodeError, match="^`circular`: the defaults of `a`, `b` depend on each other$"):

        @oc.defop()
        def circular(x, *, a=d.follows(lambda b: b), b=d.follows(lambda a: a)):  # noqa: B008
            return store, None


WINDOW = d.Part(
    settings={"size": d.Setting(int, 2), "stride": d.Setting(int, d.follows(lambda size: size))},
    where=(d.value("size") > 0, d.value("stride") > 0),
    doc="Windows of `size` cells, `stride` apart.",
)


@oc.defop(shape="stride*o<+size => o", parts=[WINDOW], doc="Sum of each window.")
def window_sum(x):
    def forward(v, v1):
        v["=:+"] = v1

    def gradient(g, g1):
        g1 += g

    return forward, gradient


@oc.defop(shape="stride*o<+size => o", parts=[WINDOW], doc="Mean of each window.")
def window_mean(x, *, size):
    def forward(v, v1):
        v["=:+"] = v1 / size

    def gradient(g, g1):
        g1 += g / size

    return forward, gradient


def test_parts_are_shared_and_settings_are_names_of_the_spec(oracle: Any) -> None:
    for fn, title in ((window_sum, "Sum"), (window_mean, "Mean")):
        assert str(inspect.signature(fn)) == "(x, *, size: int = 2, stride: int = <follows size>)"
        assert fn.__doc__ == f"{title} of each window.\n\nWindows of `size` cells, `stride` apart."
        with pytest.raises(oc.CodeError, match="needs size > 0\n  size  0"):
            fn(oc.tensor(A), size=0)
    x = np.arange(6.0)
    np.testing.assert_allclose(oracle(window_sum(oc.tensor(x))), [1, 5, 9])
    np.testing.assert_allclose(oracle(window_sum(oc.tensor(x), stride=1)), [1, 3, 5, 7, 9])
    np.testing.assert_allclose(oracle(window_mean(oc.tensor(x), size=3)), [1, 4])
    oc.testing.gradcheck(lambda t: window_mean(t, size=3, stride=1), x)


def test_axes_may_follow_from_settings(oracle: Any) -> None:
    @oc.defop(shape=lambda keep: "ij => i" if keep else "ij => ")
    def total(x, *, keep: bool = False):
        def forward(v, v1):
            v["=:+"] = v1

        def gradient(g, g1):
            g1 += g

        return forward, gradient

    x = np.arange(6.0).reshape(2, 3)
    assert oracle(total(oc.tensor(x))) == 15
    assert oracle(total(oc.tensor(x), keep=True)).tolist() == [3, 12]
    oc.testing.gradcheck(lambda t: total(t, keep=True), x)


def test_declared_type_of_a_result() -> None:
    @oc.defop(kind="int32")
    def sign(x):
        def forward(v, v1):
            v["=:"] = v1 > 0

        return forward, None

    @oc.defop(kind=lambda x: x.dtype)
    def same(x, y):
        def forward(v, v1, v2):
            v["=:"] = v1 + v2

        return forward, None

    assert sign(oc.tensor(A)).dtype is oc.int32
    assert same(oc.tensor([1.0]), oc.tensor(A)).dtype is oc.float32


# --- conditions ------------------------------------------------------------------------------------------------------


def two(*where: d.Condition) -> Callable[..., Any]:
    @oc.defop(name="two", where=where, shape="..r..; ..s.. => ")
    def declared(x, y=0.0, *, n: int = 1):
        def forward(v, v1):
            v["=:+"] = v1

        return forward, None

    return declared


X23, Y3, Y2, F32 = np.ones((2, 3)), np.ones(3), np.ones(2), np.ones(3, "float32")


@pytest.mark.parametrize(
    ("condition", "text", "valid", "invalid"),
    [
        (d.same_type("x", "y"), "same_type(x, y)", [(X23, Y3), (X23, 1.0)], [(X23, F32)]),
        (d.same_shape("x", "y"), "same_shape(x, y)", [(Y3, Y3)], [(X23, Y3), (X23, 1.0)]),
        (d.broadcastable("x", "y"), "broadcastable(x, y)", [(X23, Y3), (X23, 1.0), (Y3, X23[:, :1])], [(X23, Y2)]),
        (d.rank("x") == 2, "rank(x) == 2", [(X23,)], [(Y3,)]),
        (d.size("x", -1) == 3, "size(x, -1) == 3", [(X23,), (Y3,)], [(Y2,)]),
        (d.size("x", 1) != 3, "size(x, 1) != 3", [(Y3,), (X23[:, :2],)], [(X23,)]),
        (d.size("x", 0) % d.value("n") == 0, "(size(x, 0) % n) == 0", [(X23,)], []),
        (d.rank("x") > d.rank("y"), "rank(x) > rank(y)", [(X23, Y3), (Y3, 1.0)], [(Y3, Y3)]),
        (~(d.rank("x") < 2), "not (rank(x) < 2)", [(X23,)], [(Y3,)]),
        ((d.rank("x") <= 1) | (d.rank("y") >= 1), "rank(x) <= 1 or rank(y) >= 1", [(Y3,), (X23, Y3)], [(X23,)]),
        (
            d.all_of(d.rank("x") == 1, d.rank("y") == 1, d.any_of(d.value("n") == 1, d.value("n") == 3)),
            "rank(x) == 1 and rank(y) == 1 and (n == 1 or n == 3)",
            [(Y3, Y3)],
            [(Y3,), (X23, Y3)],
        ),
        ((d.size("x", 0) + 1 - 1) * 2 // 2 > 2, "((((size(x, 0) + 1) - 1) * 2) // 2) > 2", [(Y3,)], [(X23,)]),
    ],
)
def test_conditions(condition: d.Condition, text: str, valid: Any, invalid: Any) -> None:
    fn = two(condition)
    for operands in valid:
        fn(*(x if isinstance(x, float) else oc.tensor(x) for x in operands))
    for operands in invalid:
        with pytest.raises((oc.ShapeError, oc.DtypeError), match=re.escape(f"`two` needs {text}\n  x ")):
            fn(*(x if isinstance(x, float) else oc.tensor(x) for x in operands))


def test_a_condition_names_the_tensors_of_the_user() -> None:
    fn = two(d.same_shape("x", "y").says("crop one of them"))
    images, labels = oc.tensor(X23, label="images"), oc.tensor(Y3, label="labels")
    with pytest.raises(oc.ShapeError) as caught:
        fn(images, labels)
    assert masked(caught) == (
        "`two` needs same_shape(x, y)\n"
        "  x    images: 2,3 float64  data, file.py:N\n"
        "  y    labels: 3 float64    data, file.py:N\n"
        "  fix  crop one of them"
    )


def test_unsolved_sizes_are_checked_later(oracle: Any) -> None:
    fn = two(d.size("x", 0) == 3)
    w = oc.param("w")
    y = fn(w)
    assert (w + oc.tensor(Y2)).dims == (2,)
    with pytest.raises(oc.ShapeError, match="needs size\\(x, 0\\) == 3\n  x    w: 2 float64"):
        oracle(y)


def test_invalid_conditions_are_rejected() -> None:
    with pytest.raises(oc.CodeError, match="^conditions are joined by & | ~"):
        1 < d.rank("x") < 3  # noqa: B015
    with pytest.raises(oc.CodeError, match="^`two` has no input or setting `z`; there are x, y, n$"):
        two(d.rank("z") == 1)
    with pytest.raises(oc.CodeError, match="^`odd` has no input or setting `z`; there are x$"):
        oc.defop(inputs={"z": "float"}, name="odd")(lambda x: (store, None))


# --- several results -------------------------------------------------------------------------------------------------


@oc.defop(outputs=("s", "c"))
def sine_and_cosine(x):
    def forward(s, c, v1):
        s["=:"] = oc.sin(v1)
        c["=:"] = oc.cos(v1)

    def gradient(s, c, g_s, g_c, g1):
        g1 += g_s * c - g_c * s

    return forward, gradient


@oc.defop(outputs=("mean", "variance"), shape=("ij => i", "ij => i"))
def moments(x, *, n: int):
    def forward(mean, variance, v1):
        mean["=:+"] = v1 / n
        variance["=:+"] = (v1 - mean) * (v1 - mean) / n

    def gradient(mean, g_mean, g_variance, v1, g1):
        g1 += g_mean / n + g_variance * 2 * (v1 - mean) / n

    return forward, gradient


def test_several_results(oracle: Any) -> None:
    s, c = sine_and_cosine(oc.tensor(A))
    np.testing.assert_allclose(oracle(s), np.sin(A))
    np.testing.assert_allclose(oracle(c), np.cos(A))
    x = np.random.default_rng(0).normal(size=(2, 4))
    mean, variance = moments(oc.tensor(x), n=4)
    np.testing.assert_allclose(oracle(mean), x.mean(1))
    np.testing.assert_allclose(oracle(variance), x.var(1))


def test_gradients_of_several_results_separately_and_together() -> None:
    x = np.random.default_rng(0).normal(size=(2, 4))
    for output in range(2):
        oc.testing.gradcheck(lambda t, output=output: sine_and_cosine(t)[output], A)
        oc.testing.gradcheck(lambda t, output=output: moments(t, n=4)[output], x)
    oc.testing.gradcheck(lambda t: oc.einsum("i;i => i", *sine_and_cosine(t)), A)
    oc.testing.gradcheck(lambda t: oc.einsum("i;i => i", *moments(t, n=4)), x)


def test_unused_result_does_not_turn_the_gradient_into_nan(oracle: Any) -> None:
    @oc.defop(outputs=("v", "w"))
    def twice_and_root(x):
        def forward(v, w, v1):
            v["=:"] = 2 * v1
            w["=:"] = oc.sqrt(v1)

        def gradient(g, g_w, v1, g1):
            g1 += 2 * g + g_w / (2 * oc.sqrt(v1))

        return forward, gradient

    p = oc.param("p", [0.0, 1.0])
    (got,) = gradients_of(twice_and_root(p)[0].sum(), p)
    assert got.tolist() == [2, 2]


def test_several_results_are_inlined(oracle: Any) -> None:
    @oc.defop()
    def tangent(x):
        def forward(v, v1):
            s, c = sine_and_cosine(v1)
            v["=:"] = s / c

        return forward, None

    np.testing.assert_allclose(oracle(tangent(oc.tensor(A))), np.tan(A))


def test_results_read_only_earlier_results(oracle: Any) -> None:
    @oc.defop(outputs=("v", "w"))
    def backwards(x):
        def forward(v, w, v1):
            w["=:"] = v1
            v["=:"] = w + 1

        return forward, None

    message = "`forward` of `backwards` needs `w` for `v`, which is computed before it"
    with pytest.raises(oc.CodeError, match=message):
        oracle(backwards(oc.tensor(A))[0])


# --- incomplete rules ------------------------------------------------------------------------------------------------


def test_missing_gradient_of_an_operand_is_rejected() -> None:
    def gradient(g, v2, g1):
        g1 += g * v2

    with pytest.raises(oc.CodeError) as caught:
        declare(store, gradient, operands=2)
    assert str(caught.value) == (
        "the gradient of `odd` adds nothing to that of `y`: take the slot `g2`, or declare "
        "inputs={'y': declare.Input(differentiable=False)}"
    )
    for inputs in ({"y": d.Input(differentiable=False)}, {"y": "int"}):
        oc.defop(name="odd", inputs=inputs)(lambda x, y: (store, gradient))


def test_unassigned_result_is_rejected(oracle: Any) -> None:
    fn = declare(lambda v, v1: None)
    with pytest.raises(oc.CodeError, match="^`forward` of `odd` assigns nothing to `v`$"):
        oracle(fn(oc.tensor(A)))

    @oc.defop()
    def uses(x):
        def forward(v, v1):
            v["=:"] = fn(v1)

        return forward, None

    with pytest.raises(oc.CodeError, match="^`forward` of `odd` assigns nothing to `v`$"):
        oracle(uses(oc.tensor(A)))


@pytest.mark.parametrize("outputs", [(), ("v", "v"), ("a b",), (1,)])
def test_results_have_different_names(outputs: Any) -> None:
    with pytest.raises(oc.CodeError, match="^outputs of `odd` are different names such as"):
        oc.defop(name="odd", outputs=outputs)(lambda x: (store, None))


def test_with_samples_slots_are_checked_at_the_declaration() -> None:
    with pytest.raises(oc.CodeError, match="`w` is not a slot of `forward` in `power`"):

        @oc.defop(samples=[d.sample(d.Draw(), by=2)])
        def power(x, *, by):
            return (lambda v, w: None), None


def test_reads_of_earlier_results_have_no_gradient(oracle: Any) -> None:
    @oc.defop(outputs=("v", "w"))
    def root_and_square(x):
        def forward(v, w, v1):
            v["=:"] = oc.sqrt(v1)
            w["=:"] = v1 * v1 + 0 * v

        def gradient(v, g, g_w, v1, g1):
            g1 += g / (2 * v) + g_w * 2 * v1

        return forward, gradient

    p = oc.param("p", [0.0, 1.0])
    for result, want in ((root_and_square(p)[1], [0, 2]), (oc.stop_gradient(oc.log(p)) + p, [1, 1])):
        (got,) = gradients_of(result.sum(), p)
        assert got.tolist() == want


# --- local nodes ------------------------------------------------------------------------------------------------------


@oc.defop(shape="pointwise")
def product_plus(x, y):
    """X * y + x, computed through local nodes."""

    def forward(v, v1, v2):
        twice = oc.node("twice", slot=v1)
        twice["=:"] = v1 * 2
        n = oc.node(slot=v)
        n["=:"] = v1 * v2
        v["=:"] = n + twice - v1

    def gradient(g, v1, v2, g1, g2):
        n = oc.node("n", slot=g)
        n["=:"] = g * v2
        n += g
        g1 += n
        g2 += g * v1

    return forward, gradient


@oc.defop(shape="pointwise", outputs=("s", "c"))
def rotation(x):
    """Sine and cosine, whose gradient uses local nodes."""

    def forward(s, c, v1):
        s["=:"], c["=:"] = oc.sin(v1), oc.cos(v1)

    def gradient(g_s, g_c, v1, g1):
        first, second, both = oc.node("first", slot=v1), oc.node("second", slot=v1), oc.node("both", slot=v1)
        first["=:"] = g_s * oc.cos(v1)
        second["=:"] = g_c * oc.sin(v1)
        both["=:"] = first
        both -= second
        g1 += both

    return forward, gradient


@oc.defop(shape="ij; jk => ik")
def twice_product(x, y):
    """Twice a matrix product, with one operand doubled first."""

    def forward(v, v1, v2):
        n = oc.node("n", slot=v2)
        n["=:"] = v2 * 2
        v["=:+"] = v1 * n

    def gradient(g, v1, v2, g1, g2):
        g1 += 2 * g * v2
        g2 += 2 * g * v1

    return forward, gradient


def test_a_rule_may_have_nodes(oracle: Any, listing: Any) -> None:
    x = oc.tensor(A, label="x")
    y = product_plus(x, 3.0).with_label("y")
    assert [line.split("[")[0] for line in listing(y.forward)] == ["y_twice", "y_n", "y"]
    np.testing.assert_allclose(oracle(product_plus(x, 3.0)), 4 * A)
    np.testing.assert_allclose(oracle(product_plus(2.0, x)), 2 * A + 2)
    oc.testing.gradcheck(product_plus, A, A[::-1].copy())
    oc.testing.gradcheck(twice_product, np.ones((2, 3)), np.arange(6.0).reshape(3, 2))


def test_local_nodes_with_several_results() -> None:
    for output in range(2):
        oc.testing.gradcheck(lambda t, output=output: rotation(t)[output], A)
    oc.testing.gradcheck(lambda t: oc.einsum("i;i => i", *rotation(t)), A)


@pytest.mark.parametrize("slot", [3, oc.tensor(1.0), "v1"])
def test_slot_argument_of_nodes_requires_a_rule(slot: object) -> None:
    with pytest.raises(oc.CodeError, match="`slot=` takes an argument of the oc.defop rule"):
        oc.node("n", slot=slot)


def test_slot_argument_of_nodes_is_not_a_formula(oracle: Any) -> None:
    @oc.defop(shape="pointwise")
    def odd(x):
        """Rejected when its code is elaborated."""

        def forward(v, v1):
            n = oc.node("n", slot=v1 * 2)
            n["=:"] = v1
            v["=:"] = n

        return forward, None

    with pytest.raises(oc.CodeError, match="`slot=` takes an argument"):
        oracle(odd(oc.tensor(A)))


def test_arrays_and_numbers_of_numpy_are_operands_and_settings() -> None:
    @oc.defop()
    def scaled(x: object, *xs: object, by: float, shifts: list[int], n: int = 1) -> object:
        def forward(v: Any, vs: Any) -> None:
            v["=:"] = sum(vs[1:], vs[0]) * by + shifts[0] + n

        def gradient(g: Any, gs: Any) -> None:
            for g_x in gs:
                g_x += g * by

        return forward, gradient

    for array in (np.array([1.0, 2.0]), np.array(3.0), np.float64(3), np.float32(0.5), np.zeros(0)):
        for addends in ((), (array,)):
            result = scaled(array, *addends, by=np.float32(2), shifts=[np.int64(4)], n=np.int8(5))
            np.testing.assert_allclose(result.numpy(), np.asarray(array) * 2 * (1 + len(addends)) + 9)
    with pytest.raises(oc.CodeError, match="by=True is not float"):
        scaled(1.0, by=np.bool_(True), shifts=[1])


def test_formulas_of_rules_are_no_tensors() -> None:
    @oc.defop(outputs={"integer": d.Output("int32")})
    def truncated(x: object) -> object:
        def forward(integer: Any, v1: Any) -> None:
            integer["=:"] = oc.cast(v1, oc.int32)

        return forward, None

    with pytest.raises(oc.CodeError, match="no tensor; its value is converted to the type of its slot"):
        truncated(A).numpy()
