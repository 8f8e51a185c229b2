"""The vocabulary of declarations, and errors of invalid declarations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

import ocannl as oc
from ocannl import declare as d
from ocannl.lang.declare import stubs
from ocannl.lang.declare.catalogue import row_of_declaration
from ocannl.lang.declare.reference_page import section

A = np.array([1.0, 2.0, 3.0])


def store(v, v1):
    v["=:"] = v1


def odd(x, *, n: int = 1):
    return store, None


def total(*xs, n: int = 1):
    def forward(v, vs):
        v["=:"] = sum(vs[1:], vs[0])

    def gradient(g, gs):
        for slot in gs:
            slot += g

    return forward, gradient


def late(x, *, n: int):
    return store, None


def untyped(x, *, n):
    return store, None


# --- valid declarations ----------------------------------------------------------------------------------------------


def test_a_declaration_needs_no_arguments(oracle: Any) -> None:
    assert oc.defop(odd).declaration.title == "odd"
    np.testing.assert_allclose(oracle(oc.defop(total)(oc.tensor(A), 1.0)), A + 1)


def test_inputs_can_be_passed_by_keyword(oracle: Any) -> None:
    np.testing.assert_allclose(oracle(oc.defop(odd)(x=oc.tensor(A))), A)


def test_defaults_follow_from_types_shapes_and_settings(oracle: Any) -> None:
    @oc.defop()
    def spread(
        x,
        y=d.follows(lambda x: oc.full(2.0, output=[x.dims[-1]])),  # noqa: B008
        *,
        low: float = d.follows(lambda x: 0.5 if x.dtype is oc.float64 else 0.25),
        high: float = d.follows(lambda low, x: low * x.dims[0]),
    ):
        def forward(v, v1, v2):
            v["=:"] = v1 * v2 + low + 100 * high

        return forward, None

    np.testing.assert_allclose(oracle(spread(oc.tensor(A))), 2 * A + 0.5 + 150)
    np.testing.assert_allclose(oracle(spread(oc.tensor(A.astype("float32")), 1.0)), A + 0.25 + 75)
    np.testing.assert_allclose(oracle(spread(oc.tensor(A), high=0.0)), 2 * A + 0.5)


def test_axes_follow_from_inputs(oracle: Any) -> None:
    @oc.defop(shape=lambda x: f"...|{'i' * len(x.dims)} => ...|i")
    def main_diagonal(x):
        def forward(v, v1):
            v["=:"] = v1

        def gradient(g, g1):
            g1 += g

        return forward, gradient

    cube = np.arange(27.0).reshape(3, 3, 3)
    assert oracle(main_diagonal(oc.tensor(cube))).tolist() == [0, 13, 26]
    assert oracle(main_diagonal(oc.tensor(cube[0]))).tolist() == [0, 4, 8]
    oc.testing.gradcheck(main_diagonal, cube)


def test_parts_are_shared_by_operations(oracle: Any) -> None:
    scaling = d.Part(
        settings={"scale": d.Setting(float, 1.0), "side": d.Setting(Literal["left", "right"], "left")},
        inputs={"x": "float", "y": d.Input("float", differentiable=False)},
        where=(d.value("scale") > 0, d.same_shape("x", "y")),
        doc="Scaled by `scale`.",
    )

    @oc.defop(parts=[scaling])
    def plus(x, y, *, scale):
        def forward(v, v1, v2):
            v["=:"] = scale * (v1 + v2)

        def gradient(g, g1):
            g1 += scale * g

        return forward, gradient

    @oc.defop(parts=[scaling], inputs={"y": "int"})
    def times(x, y, *, scale: float = 3.0):
        def forward(v, v1, v2):
            v["=:"] = scale * (v1 * v2)

        return forward, None

    x, n = oc.tensor(A, label="x"), oc.tensor(np.array([1, 2, 3], "int32"), label="n")
    configuration = {"scale": 2.0, "side": "right"}
    np.testing.assert_allclose(oracle(plus(x, x, **configuration)), 4 * A)
    np.testing.assert_allclose(oracle(times(x, n, **configuration)), 2 * A * A)
    np.testing.assert_allclose(oracle(times(x, n)), 3 * A * A)
    for fn, operand in ((plus, x), (times, n)):
        with pytest.raises(oc.CodeError, match="side='up' is not one of 'left', 'right'"):
            fn(x, operand, side="up")
        with pytest.raises(oc.CodeError, match=f"`{fn.__name__}` needs scale > 0"):
            fn(x, operand, scale=-1.0)
        with pytest.raises(oc.ShapeError, match=f"`{fn.__name__}` needs same_shape"):
            fn(x, 1.0 if fn is plus else 1)
    with pytest.raises(oc.DtypeError, match="`times` takes int as `y`"):
        times(x, x)


def test_a_namespace_is_part_of_the_title() -> None:
    fn = oc.defop(namespace="space")(odd)
    assert (fn.declaration.title, fn.__name__) == ("space.odd", "odd")
    with pytest.raises(oc.CodeError, match="^`space.odd"):
        fn()


def test_inputs_are_counted_in_conditions(oracle: Any) -> None:
    fn = oc.defop(where=[(d.count("xs") % 2 == 0) | (d.count("xs") == 1)])(total)
    for count in (1, 2, 4):
        assert oracle(fn(*[oc.tensor(A)] * count)).tolist() == (count * A).tolist()
    with pytest.raises(oc.CodeError, match=re.escape("`total` needs (count(xs) % 2) == 0 or count(xs) == 1\n  xs")):
        fn(*[oc.tensor(A)] * 3)


def test_conditions_cover_all_variadic_inputs() -> None:
    fn = oc.defop(where=[d.same_shape("xs"), d.same_type("xs")])(total)
    fn(oc.tensor(A), oc.tensor(A))
    with pytest.raises(oc.ShapeError, match=r"needs same_shape\(xs\)"):
        fn(oc.tensor(A), oc.tensor(A[:1]))
    with pytest.raises(oc.DtypeError, match=r"needs same_type\(xs\)"):
        fn(oc.tensor(A), oc.tensor(A.astype("float32")))


def test_reference_page_documents_the_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    @oc.defop(
        shape="..., i => ...",
        inputs={"x": "float", "xs": d.Input("int | bool", count=d.at_most(2))},
        where=[d.rank("x") >= 1, d.value("n") > 0],
        samples=[d.sample(d.Draw(dims=(2,)))],
    )
    def summed(x, *xs, n: int = 1):
        """The sum of the last axis.

        Grad:   `g`.
        Source: nobody.
        """

        def forward(v, v1):
            v["=:+"] = v1

        def gradient(g, gs):
            gs[0] += g

        return forward, gradient

    monkeypatch.setattr(oc.ops, "summed", summed, raising=False)
    assert section(row_of_declaration("oc.ops.summed", summed)) == """## summed

```text
oc.ops.summed(x, *xs, n: int = 1, label: str | None = None)
```

The sum of the last axis.

* Shapes: `..., i => ...`.
* Takes:
  * `x`: float
  * `xs`: at most 2, each int or bool
* Needs: `rank(x) >= 1`; `n > 0`.
* Grad: `g`.
* Source: nobody.

```pycon
>>> x = oc.tensor([-0.6, 0.8])
>>> oc.ops.summed(x).numpy().round(3)
np.float32(0.2)
```
"""


def test_reference_page_shows_all_results(monkeypatch: pytest.MonkeyPatch) -> None:
    @oc.defop(outputs=("v", "w"), samples=[d.sample(np.array([1.0, 2.0]))])
    def both(x):
        """The value, and its negative."""

        def forward(v, w, v1):
            v["=:"], w["=:"] = v1, -v1

        return forward, None

    monkeypatch.setattr(oc.ops, "both", both, raising=False)
    row = row_of_declaration("oc.ops.both", both)
    tensor = "ocannl.lang.core.tensor.Tensor"
    assert str(row.signature.return_annotation) == f"tuple[{tensor}, {tensor}]"
    assert ">>> [t.numpy().round(3) for t in oc.ops.both(x)]\n[array([1., 2.]), array([-1., -2.])]\n" in section(row)
    assert stubs.functions([row]).endswith(
        'def both(x: object, *, label: str | None = None) -> tuple[Tensor, Tensor]:\n'
        '    """The value, and its negative."""\n'
    )


# --- errors ----------------------------------------------------------------------------------------------------------


def part(**settings: d.Setting) -> d.Part:
    return d.Part(settings=settings)


N_OF_X = d.Part(settings={"x": d.Setting(int, 1)})
INVALID: dict[str, tuple[Callable[[], object], str]] = {
    "no function": (lambda: oc.defop()(3), "oc.defop decorates functions, not 3"),
    "a name": (
        lambda: oc.defop(name="a b")(odd),
        "the names of operations and namespaces must be identifiers, not 'a b' and ''",
    ),
    "a namespace": (
        lambda: oc.defop(namespace="a.b")(odd),
        "the names of operations and namespaces must be identifiers, not 'odd' and 'a.b'",
    ),
    "a text": (lambda: oc.defop(doc=3)(odd), "`doc` of `odd` is a text, not 3"),
    "inputs": (
        lambda: oc.defop(inputs=["x"])(odd),
        "`inputs` of `odd` is a mapping from names to declare.Input, not ['x']",
    ),
    "an input": (
        lambda: oc.defop(inputs={"x": 3})(odd),
        "an input is declared by a class of types such as 'float', or a declare.Input, not 3",
    ),
    "a count": (lambda: d.between(3, 1), "a count cannot be 3 to 1"),
    "a negative count": (lambda: d.exactly(-1), "a count cannot be -1 to -1"),
    "a list": (
        lambda: oc.defop(inputs={"x": d.Input(count=d.exactly(2))})(odd)(3.0),
        "`x` of `odd` is a list of tensors, not 3.0",
    ),
    "parts": (lambda: oc.defop(parts=[3])(odd), "`parts` of `odd` is a list of declare.Part, not [3]"),
    "a part and an input": (
        lambda: oc.defop(parts=[N_OF_X])(odd),
        "`x` is an input of `odd`, and a setting of one of its parts",
    ),
    "two parts": (
        lambda: oc.defop(parts=[part(m=d.Setting(int, 1)), part(m=d.Setting(int, 2))])(odd),
        "two parts of `odd` declare `m` differently",
    ),
    "a label": (
        lambda: oc.defop(parts=[part(label=d.Setting(str, "a"))])(odd),
        "`odd`: every operation takes `label=`; rename yours",
    ),
    "a default": (lambda: oc.defop(parts=[part(m=d.Setting(int, "a"))])(odd), "`odd`: m='a' is not int"),
    "a default against a condition": (
        lambda: oc.defop(where=[d.value("n") > 1])(odd),
        "`odd` needs n > 1\n  n    1\n  fix  give other `n`",
    ),
    "what a default follows from": (
        lambda: oc.defop(parts=[part(m=d.Setting(int, d.follows(lambda k: k)))])(odd),
        "`odd` has no input or setting `k`; there are x, m, n",
    ),
    "no rule of a default": (
        lambda: d.follows(3),
        "declare.follows takes a function of inputs and settings, not 3",
    ),
    "what axes follow from": (
        lambda: oc.defop(shape=lambda m: "pointwise")(odd),
        "`odd` has no input or setting `m`; there are x, n",
    ),
    "what a type follows from": (
        lambda: oc.defop(kind=lambda m: "int32")(odd),
        "`odd` has no input or setting `m`; there are x, n",
    ),
    "types": (
        lambda: oc.defop(kind=("int32", "int32"))(odd),
        "`odd` has 1 outputs, but types for 2",
    ),
    "axes": (
        lambda: oc.defop(shape=("pointwise", "pointwise"))(odd),
        "`odd` has 1 outputs, but axes for 2",
    ),
    "outputs": (lambda: oc.defop(outputs=3)(odd), "outputs of `odd` are different names such as ('v', 'w'), not 3"),
    "an output like a slot": (
        lambda: oc.defop(outputs=("v", "g1"))(odd),
        "`g1` is already a slot of `odd`; rename the output",
    ),
    "conditions": (lambda: oc.defop(where=[True])(odd), "`where` of `odd` is a list of declare.Condition, not [True]"),
    "nothing joined": (lambda: d.all_of(), "all_of and any_of take one or more conditions, not nothing"),
    "no conditions joined": (lambda: d.any_of(True), "all_of and any_of take one or more conditions, not True"),
    "a sample": (
        lambda: oc.defop(samples=[d.sample(d.Draw(), m=3)])(odd),
        "a sample of `odd(x, *, n: int = 1)` does not fit: got an unexpected keyword argument 'm'",
    ),
    "a sample of a wrong type": (lambda: oc.defop(samples=[d.sample(d.Draw(), n="a")])(odd), "`odd`: n='a' is not int"),
    "samples": (lambda: oc.defop(samples=[3])(odd), "`samples` of `odd` is a list of declare.Sample, not [3]"),
    "the rank of a setting": (
        lambda: oc.defop(where=[d.rank("n") == 1])(odd),
        "`n` is a setting, and has no axes or data type: use declare.value('n')",
    ),
    "the rank of many": (
        lambda: oc.defop(where=[d.rank("xs") == 1])(total)(oc.tensor(A)),
        "`xs` takes several tensors; declare.rank and declare.size are for one tensor",
    ),
    "the count of one": (
        lambda: oc.defop(where=[d.count("x") == 1])(odd)(oc.tensor(A)),
        "`x` is one value; declare.count is for lists, and for inputs such as `*x`",
    ),
    "the value of an input": (
        lambda: oc.defop(where=[d.value("x") == 1])(odd)(oc.tensor(A)),
        "`x` is an input, and its value is not known before code runs",
    ),
    "what cannot be compared": (
        lambda: oc.defop(where=[d.size("x", 0) < "a"])(odd)(oc.tensor(A)),
        "size(x, 0) < 'a' is undefined for 3 and 'a': '<' not supported between instances of 'int' and 'str'",
    ),
    "what cannot be computed": (
        lambda: oc.defop(where=[d.size("x", 0) % d.value("n") == 0])(late)(oc.tensor(A), n=0),
        "size(x, 0) % n is undefined for 3 and 0: integer modulo by zero",
    ),
    "a size in a spec": (
        lambda: oc.defop(shape="n,i => i")(untyped)(oc.tensor(A), n=1.5),
        "`untyped`: `n` is a size in its spec, so it must be an integer, not 1.5",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_declarations_are_rejected(case: str) -> None:
    declare, message = INVALID[case]
    with pytest.raises(oc.CodeError) as caught:
        declare()
    assert str(caught.value) == message


def test_unknown_data_type_is_rejected() -> None:
    with pytest.raises(oc.DtypeError, match="^'floaty' is not a data type of tensors; there are bool, uint8"):
        oc.defop(kind="floaty")(odd)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: d.Part(setting={}), "Part has no argument `setting=`: did you mean `settings=`?"),
        (lambda: d.Part(doc=3), "declare.Part: `doc` is a string, not 3"),
        (lambda: d.Part(signatures=["x"]), "`signatures` of a part is a list of lists of names, not ['x']"),
        (lambda: d.Part().keep(configs=False), "Part.keep has no argument `configs=`: "),
        (lambda: d.Input(3), "declare.Input: `kind` is a string, not 3"),
        (lambda: d.Input("float", count=3), "declare.Input: `count` is a Count or None, not 3"),
        (lambda: d.Setting(count=2), "declare.Setting: `count` is a Count or None, not 2"),
        (lambda: d.Output(doc=2), "declare.Output: `doc` is a string, not 2"),
        (lambda: d.Draw(dims=3), "declare.Draw: `dims` is a tuple or a list, not 3"),
        (lambda: d.at_least("a"), "declare.at_least: `number` is an integer, not 'a'"),
        (lambda: d.between(1), "declare.between(minimum, maximum): missing a required argument: 'maximum'"),
        (lambda: d.size("x"), "declare.size(name, axis): missing a required argument: 'axis'"),
        (lambda: d.rank(3), "declare.rank: `name` is a string, not 3"),
        (lambda: d.same_type("x", 3), "declare.same_type: `names` is a string, not 3"),
        (lambda: d.field(help="text"), "declare.field has no argument `help=`: "),
        (lambda: (d.rank("x") > 1).says(3), "condition.says takes a text, not 3"),
        (lambda: d.value("n")["a"], "an item of n has an integer as its position, not 'a'"),
        (lambda: d.rank("x") / 2, "quantities have no `/`: write `//`"),
        (lambda: d.value("n") and d.rank("x") > 0, "n has no value before a call; compare it, as in n > 0"),
        (lambda: d.Mixin, "declare has no attribute 'Mixin': write declare.Part, and parts=[...]"),
        (lambda: d.at_last, "declare has no attribute 'at_last': did you mean `at_least`?"),
    ],
)
def test_the_vocabulary_answers_wrong_calls(call: Callable[[], object], message: str) -> None:
    with pytest.raises(oc.CodeError) as caught:
        call()
    assert str(caught.value).startswith(message)
