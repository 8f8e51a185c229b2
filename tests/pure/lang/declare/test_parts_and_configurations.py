"""Parts inside parts, configuration classes, signatures, results, documentation tokens and conditions as data."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import declare as d

A = np.array([1.5, -2.0, 3.0])

SCALED = d.Part(
    settings={"scale": d.Setting(float, 1.0, doc="the factor of `{name}`")},
    inputs={"x": d.Input("float", doc="the operand")},
    where=(d.value("scale") > 0,),
    doc="`{title}` multiplies by `scale`.",
)
SHIFTED = d.Part(
    parts=(SCALED,),
    settings={"shift": d.Setting(float, 0.0)},
    outputs={"v": d.Output(doc="the values of {name}({inputs}, {settings})")},
    signatures=(("x",), ("x", "scale", "shift")),
    backend_where=("a device computes it in order", d.rank("x") < 9),
    doc="`shift` is added.",
)


def scaled(x, *, scale, shift):
    """The values."""

    def forward(v, v1):
        v["=:"] = v1 * scale + shift

    def gradient(g, g1):
        g1 += g * scale

    return forward, gradient


def test_parts_contain_parts(oracle: Any) -> None:
    fn = oc.defop(parts=[SHIFTED], namespace="space")(scaled)
    assert str(inspect.signature(fn)) == "(x, *, scale: float = 1.0, shift: float = 0.0)"
    np.testing.assert_allclose(oracle(fn(oc.tensor(A), scale=2.0, shift=1.0)), 2 * A + 1)
    with pytest.raises(oc.CodeError, match="needs scale > 0"):
        fn(oc.tensor(A), scale=-1.0, shift=0.0)
    declared = fn.declaration
    assert declared.settings["scale"].doc == "the factor of `scaled`"
    assert declared.results["v"].doc == "the values of scaled(x, scale, shift)"
    assert declared.doc == "The values.\n\n`space.scaled` multiplies by `scale`.\n\n`shift` is added."
    assert declared.backend_where[0] == "a device computes it in order"


def test_sections_of_a_part_may_be_dropped() -> None:
    bare = SHIFTED.keep(doc=False, where=False, signatures=False, backend_where=False, outputs=False)
    declared = oc.defop(parts=[bare])(scaled).declaration
    assert (declared.doc, declared.where, declared.signatures) == ("The values.", (), ())
    assert (declared.backend_where, declared.results["v"].doc) == ((), "")
    assert list(declared.settings) == ["scale", "shift"]
    assert not SHIFTED.keep(settings=False).settings and not SHIFTED.keep(inputs=False).inputs


def test_an_outer_part_overrides_the_parts_inside() -> None:
    outer = d.Part(parts=(SCALED,), settings={"scale": d.Setting(float, 3.0)})

    def fn(x, *, scale):
        return (lambda v: None), None

    assert oc.defop(parts=[outer])(fn).declaration.settings["scale"].default == 3.0
    assert len(oc.defop(parts=[SCALED, SCALED])(fn).declaration.where) == 1


def test_signatures_restrict_the_arguments_of_a_call() -> None:
    fn = oc.defop(parts=[SHIFTED])(scaled)
    fn(oc.tensor(A))
    fn(x=oc.tensor(A), shift=1.0, scale=1.0)
    with pytest.raises(oc.CodeError, match=re.escape("`scaled` takes (x) or (x, scale, shift), not (x, scale)")):
        fn(oc.tensor(A), scale=2.0)
    with pytest.raises(oc.CodeError, match=re.escape("the signature (scale) of `scaled` lacks `x`")):
        oc.defop(parts=[SHIFTED], signatures=[("scale",)])(scaled)
    with pytest.raises(oc.CodeError, match="`scaled` has no input or setting `y`; there are x, scale, shift"):
        oc.defop(parts=[SHIFTED], signatures=[("x", "y")])(scaled)
    with pytest.raises(oc.CodeError, match="`signatures` of `scaled` is a list of lists of names, not 'x'"):
        oc.defop(parts=[SHIFTED], signatures="x")(scaled)


def test_results_are_described_and_typed() -> None:
    @oc.defop(outputs={"low": d.Output("int32", doc="the sign"), "high": None})
    def split(x):
        def forward(low, high, v1):
            low["=:"] = v1 > 0
            high["=:"] = v1

        return forward, None

    low, high = split(oc.tensor(A))
    assert (low.dtype, high.dtype) == (oc.int32, oc.float64)
    assert split.declaration.results["low"].doc == "the sign"


@d.configuration
class Limits:
    low: float = d.field(0.0, doc="the least value of `{name}({inputs})`")


LIMITS = Limits()


def test_tokens_in_fields_fixes_and_notes_for_backends() -> None:
    is_vector = (d.rank("x") < 2).says("give `{name}` a vector")

    @oc.defop(where=[is_vector], backend_where=["`{title}` is computed once, {}"])
    def limited(x, *, limits: Limits = LIMITS):
        """At least `limits.low`."""

        def forward(v, v1):
            v["=:"] = oc.maximum(v1, limits.low)

        return forward, None

    declared = limited.declaration
    assert declared.backend_where == ("`limited` is computed once, {}",)
    assert limited.__doc__.endswith("Settings: `limits.low`: float, the least value of `limited(x)`.")
    with pytest.raises(oc.ShapeError, match="fix  give `limited` a vector"):
        limited(oc.tensor(np.ones((2, 2))))


# --- configurations --------------------------------------------------------------------------------------------------


@d.configuration(where=[d.value("stride") > 0, (d.value("size") >= d.value("stride")).says("overlap windows")])
class Window:
    """Windows of cells."""

    size: int = d.field(doc="the cells of one window")
    stride: int = d.field(d.follows(lambda size: size), doc="the distance of windows")
    names: list[str] = d.field([], count=d.at_most(2))


PAIRS = Window(2)


def test_configurations_have_typed_fields_with_conditions() -> None:
    assert Window(3).stride == 3 and Window(size=3, stride=1) == Window(3, 1)
    declared = Window.declaration
    assert list(declared.fields) == ["size", "stride", "names"]
    assert (declared.doc, declared.fields["size"].doc) == ("Windows of cells.", "the cells of one window")
    for arguments, message in (
        (("a",), "`Window`: size='a' is not int"),
        ((2, 0), "`Window` needs stride > 0, and stride=0"),
        ((2, 3), "`Window` needs size >= stride, and size=2, stride=3\n  fix  overlap windows"),
        ((2, 1, ["a"] * 3), "`Window`: names=['a', 'a', 'a'] has 3 items, not at most 2"),
        ((2, 1, [1]), "`Window`: names=[1] is not list[str]"),
    ):
        with pytest.raises(oc.CodeError) as caught:
            Window(*arguments)
        assert str(caught.value) == message
    assert Window(np.int64(2), names=("a",)).names == ["a"] and type(Window(np.int64(2)).stride) is int
    with pytest.raises(AttributeError):
        Window(1).size = 2
    with pytest.raises(oc.ArgumentError, match="^Window has no argument `strides=`: write stride="):
        Window(1, strides=2)
    with pytest.raises(oc.ArgumentError, match=r"^Window\(size, stride=.*: missing a required argument: 'size'"):
        Window()
    with pytest.raises(oc.CodeError, match="^`Empty` has no field `n`; there are $"):
        d.configuration(where=[d.value("n") > 0])(type("Empty", (), {}))


def test_configurations_inherit_fields_and_conditions() -> None:
    @d.configuration(where=[d.value("rate") < 1])
    class Strided(Window):
        rate: float = d.field(0.5, doc="the share of zeros")

        def __post_init__(self) -> None:
            if self.size == 13:
                raise ValueError("unlucky")

    assert list(Strided.declaration.fields) == ["size", "stride", "names", "rate"] and Strided(3).stride == 3
    for arguments, message in (((2, 0), "needs stride > 0"), ((2, 1, [], 1.0), "needs rate < 1")):
        with pytest.raises(oc.CodeError, match=message):
            Strided(*arguments)
    with pytest.raises(ValueError, match="unlucky"):
        Strided(13)

    @d.configuration
    class Dilated(Strided):
        dilation: int = d.field(1, doc="the distance of cells")

    with pytest.raises(ValueError, match="unlucky"):
        Dilated(13)


def test_configurations_of_functions_are_checked() -> None:
    @d.configuration
    class Local:
        size: int = d.field(2, doc="the cells")

    twos = Local()

    @oc.defop
    def fn(x, *, local: Local = twos):
        size = local.size
        return (lambda v, v1: v.__setitem__("=:", v1 * size)), None

    assert fn.__doc__ == "Settings: `local.size`: int, the cells."
    with pytest.raises(oc.CodeError, match="^`fn`: local=3 is not Local$"):
        fn(oc.tensor(A), local=3)


def test_classes_that_are_no_configurations() -> None:
    def unknown():
        class Fn:
            size: Nowhere  # type: ignore[name-defined]  # noqa: F821

        return Fn

    def mutable():
        class Fn:
            size: list[int] = [1]  # noqa: RUF012

        return Fn

    def unordered():
        class Fn:
            size: int = 1
            stride: int

        return Fn

    for build, message in (
        (unknown, "the types of the fields of `Fn` are unknown: name 'Nowhere' is not defined"),
        (mutable, "`Fn` is no configuration: mutable default (.|\n)*declare.field"),
        (unordered, "`Fn` is no configuration: non-default argument 'stride' follows default argument"),
    ):
        with pytest.raises(oc.CodeError, match=f"^{message}"):
            d.configuration(build())


def test_operations_take_configurations(oracle: Any) -> None:
    @oc.defop(shape="stride*o<+size => o", where=[(d.value("window.size") <= d.size("x", 0)).says("a smaller window")])
    def summed(x, *, window: Window = PAIRS, factor: float = 1.0):
        def forward(v, v1):
            v["=:+"] = v1 * factor / window.stride

        def gradient(g, g1):
            g1 += g * factor / window.stride

        return forward, gradient

    x = np.arange(6.0)
    np.testing.assert_allclose(oracle(summed(oc.tensor(x))), x.reshape(3, 2).sum(1) / 2)
    np.testing.assert_allclose(oracle(summed(oc.tensor(x), window=Window(3, 1))), np.convolve(x, np.ones(3), "valid"))
    oc.testing.gradcheck(lambda t: summed(t, window=Window(3, 1)), x)
    with pytest.raises(oc.CodeError, match="`summed`: window=3 is not Window$"):
        summed(oc.tensor(x), window=3)
    with pytest.raises(oc.ShapeError, match=r"needs window.size <= size\(x, 0\)(.|\n)*a smaller window"):
        summed(oc.tensor(x), window=Window(7))


def test_unused_parts_and_configurations_are_rejected() -> None:
    def fn(x):
        return (lambda v: None), None

    def without_reading(x, *, window: Window = PAIRS):
        return (lambda v: None), None

    def reading(x, *, window: Window = PAIRS):
        size = window.size
        return (lambda v: size), None

    def reading_in_a_rule(x, *, window: Window = PAIRS):
        return (lambda v: window.size), None

    with pytest.raises(oc.CodeError, match="^a part of `fn` is not used: the operation reads none of its settings `n`"):
        oc.defop(parts=[d.Part(settings={"n": d.Setting(int, 1)})])(fn)
    with pytest.raises(oc.CodeError, match="^a part of `fn` is not used: the operation gets nothing from it"):
        oc.defop(parts=[d.Part()])(fn)
    windowed = d.Part(settings={"window": d.Setting(Window, Window(2)), "n": d.Setting(int, 1)})
    with pytest.raises(oc.CodeError, match="^`fn` never reads its configuration `window`: read a field of `Window`"):
        oc.defop(parts=[windowed], shape=lambda n: "pointwise")(fn)
    oc.defop(parts=[windowed], shape=lambda window: "pointwise")(fn)
    oc.defop(parts=[windowed], shape="stride*o<+size => o")(fn)
    with pytest.raises(oc.CodeError, match="^`without_reading` never reads its configuration `window`"):
        oc.defop()(without_reading)
    oc.defop(shape="stride*o<+size => o")(without_reading)
    oc.defop()(reading)
    oc.defop()(reading_in_a_rule)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: d.Part(parts=(3,)), "`parts` of a part is a list of declare.Part, not (3,)"),
        (lambda: d.Part(settings=3), "`settings` of a part is a mapping from names to declare.Setting, not 3"),
        (lambda: d.Part(inputs={"x": 3}), "`inputs` of a part is a mapping from names to declare.Input or texts, not "),
        (lambda: d.Part(outputs=["v"]), "`outputs` of a part is a mapping from names to declare.Output or "),
        (lambda: d.Part(where=True), "`where` of a part is a list of declare.Condition, not True"),
        (lambda: d.Part(backend_where=[3]), "`backend_where` of a part is a list of declare.Condition or texts, not "),
        (lambda: d.configuration(3), "declare.configuration decorates classes, not 3"),
        (lambda: d.configuration(where=3), "`where` of a configuration is a list of declare.Condition, not 3"),
    ],
)
def test_invalid_parts_and_configurations_are_rejected(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(oc.CodeError) as caught:
        declare()
    assert str(caught.value).startswith(message)


def test_parts_take_lists_and_configurations_no_arguments() -> None:
    assert d.Part(where=[d.value("n") > 0], signatures=[["x"]], parts=[SCALED]).signatures == (("x",),)

    @d.configuration
    class Plain:
        n: int = 3

    assert Plain().n == 3 and Plain.declaration.fields["n"].kind is int


def test_axes_may_depend_on_an_optional_input(oracle: Any) -> None:
    @oc.defop(shape=lambda weights: "i => i" if weights is None else "i; i => ")
    def total(x, weights=None):
        def forward(v, v1, v2):
            if weights is None:
                v["=:"] = v1
            else:
                v["=:+"] = v1 * v2

        def gradient(g, v1, v2, g1, g2):
            g1 += g if weights is None else g * v2
            g2 += g * v1

        return forward, gradient

    np.testing.assert_allclose(oracle(total(oc.tensor(A))), A)
    np.testing.assert_allclose(oracle(total(oc.tensor(A), oc.tensor(A))), A @ A)
    oc.testing.gradcheck(total, A, A + 1)


# --- conditions as data ----------------------------------------------------------------------------------------------

OPERATORS: Mapping[str, Callable[..., Any]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "and": lambda *xs: all(xs), "or": lambda *xs: any(xs), "not": operator.not_, "item": operator.getitem,
}  # fmt: skip


def computed(tree: Any, arguments: Mapping[str, Any]) -> Any:
    """The value of a tree, as a program in another language would compute it."""
    if not isinstance(tree, tuple):
        return tree
    head, *operands = tree
    match head:
        case "value": return arguments[operands[0]]
        case "rank": return len(arguments[operands[0]].dims)
        case "size": return arguments[operands[0]].dims[operands[1]]
        case "count": return len(arguments[operands[0]])
        case "given": return arguments[operands[0]] is not None
        case "same_shape": return len({arguments[name].dims for name in operands}) == 1
        case _: return OPERATORS[head](*(computed(operand, arguments) for operand in operands))


@pytest.mark.parametrize(
    "condition",
    [
        (d.rank("x") == 1) & (d.size("x", 0) % d.value("n") == 0),
        ~(d.value("n") + 1 - 2 * 1 > 3) | d.given("y"),
        d.all_of(d.count("sizes") > 1, d.value("sizes")[1] < d.value("n") * 2, d.value("n") // 2 != 1),
        d.any_of(d.same_shape("x", "z"), d.value("n") <= 2, d.value("n") >= 5),
        1 + 2 * d.rank("x") + 7 // d.value("n") > 8 - -d.value("n") - 20 % d.value("n"),
    ],
)
def test_trees_compute_what_conditions_test(condition: d.Condition) -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(60):
        arguments = {
            "x": oc.tensor(np.ones(int(rng.integers(1, 4)))), "z": oc.tensor(np.ones(2)), "n": int(rng.integers(1, 7)),
            "y": None if rng.random() < 0.5 else oc.tensor(1.0), "sizes": tuple(range(int(rng.integers(1, 5)))),
        }  # fmt: skip
        try:
            expected = computed(condition.tree, arguments)
        except IndexError:
            continue
        assert condition.test(arguments) is bool(expected)
        seen.add(expected)
    assert seen == {True, False}


def test_the_tree_of_each_item() -> None:
    assert (d.each("size") > 0).tree == (">", ("each", ("value", "size")), 0)
    assert (~d.same_type("x", "y")).tree == ("not", ("same_type", "x", "y"))
