"""The machine-readable description of operations matches its schema, and tells what the functions do."""

from __future__ import annotations

import copy
import inspect
import json
from importlib.resources import files
from typing import Any, Literal

import numpy as np
import pytest
from tests.support.json_schema import violations

import ocannl as oc
from ocannl import declare as d
from ocannl.lang.declare.catalogue import row_of_declaration
from ocannl.lang.declare.namespaces import complete_catalogue
from ocannl.lang.declare.operations_json import operations_json
from ocannl.lang.declare.reference_page import section

SCHEMA = json.loads(files("ocannl.lang.declare").joinpath("operations.schema.json").read_text(encoding="utf-8"))
BUILTIN = json.loads(operations_json(complete_catalogue()))


@d.configuration(where=[(d.value("stride") > 0).says("a positive stride")])
class Window:
    size: int = d.field(doc="cells")
    stride: int = d.field(d.follows(lambda size: size))


PAIRS = Window(2)


@oc.defop(
    namespace="space",
    shape="pointwise",
    inputs={"x": d.Input("float", doc="the operand of `{name}`"), "xs": d.Input(count=d.between(1, 2))},
    settings={"sizes": d.Setting(count=d.exactly(2), doc="two sizes")},
    outputs={"v": d.Output("int32", doc="the result")},
    where=[d.same_shape("x", "bias") | ~d.given("bias"), d.each("sizes") > 0],
    backend_where=["in order", d.rank("x") < 5],
    signatures=[("x", "xs"), ("x", "xs", "bias", "sizes", "window", "how", "limit")],
)
def everything(x, xs, bias=None, *, sizes: list[int] = [1, 2], window: Window = PAIRS,  # noqa: B006
               how: Literal["up", "down"] = "up", limit: float = float("inf")):
    """Everything.

    Grad:   none.
    """

    def forward(v, v_x):
        v["=:"] = v_x * sizes[0] > window.size

    return forward, None


DECLARED = json.loads(operations_json([row_of_declaration("oc.ops.space.everything", everything)]))


@pytest.mark.parametrize("description", [BUILTIN, DECLARED], ids=["language", "package"])
def test_descriptions_match_the_schema(description: Any) -> None:
    assert list(violations(description, SCHEMA, SCHEMA)) == []


def test_descriptions_match_the_schema_for_an_independent_validator() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for description in (BUILTIN, DECLARED):
        jsonschema.Draft202012Validator(SCHEMA).validate(description)


def test_the_schema_rejects_other_descriptions() -> None:
    for change in (
        lambda text: text.update(version=2),
        lambda text: text["operations"][0].pop("name"),
        lambda text: text["operations"][0].update(more=1),
        lambda text: text["operations"][0]["inputs"][0].update(types="any"),
        lambda text: text["operations"][0]["settings"][0]["default"].update(value=[1]),
    ):
        changed = copy.deepcopy(DECLARED)
        change(changed)
        assert list(violations(changed, SCHEMA, SCHEMA))


def test_operations_are_described_as_they_are_called() -> None:
    rows = sorted(complete_catalogue(), key=lambda row: row.call)
    for operation, row in zip(BUILTIN["operations"], rows, strict=True):
        module = getattr(oc, row.declaration.namespace) if row.declaration.namespace else oc
        function = getattr(oc.Tensor if row.is_method else module, row.name)
        names = [p for p in inspect.signature(function).parameters if p not in ("self", "label")]
        described = [parameter["name"] for parameter in (*operation["inputs"][row.is_method :], *operation["settings"])]
        assert sorted(described) == sorted(names)


def test_a_declaration_is_described_with_everything() -> None:
    (operation,) = DECLARED["operations"]
    x, xs, bias = operation["inputs"]
    assert (x["types"], x["doc"], x["is_optional"]) == (["float"], "the operand of `everything`", False)
    assert (xs["is_list"], xs["is_variadic"], xs["count"]) == (True, False, {"minimum": 1, "maximum": 2})
    assert bias["is_optional"]
    sizes, window, how, limit = operation["settings"]
    assert (sizes["type"], sizes["count"], sizes["doc"]) == ("list[int]", {"minimum": 2, "maximum": 2}, "two sizes")
    assert [field["name"] for field in window["fields"]] == ["size", "stride"]
    assert window["fields"][1]["default"] == {"follows": ["size"]}
    assert window["conditions"][0]["tree"] == [">", ["value", "stride"], 0]
    assert window["conditions"][0]["fix"] == "a positive stride"
    assert how["default"] == {"value": "up", "text": "'up'"} and limit["default"] == {"text": "inf"}
    assert operation["outputs"] == [{"name": "v", "type": "int32", "doc": "the result"}]
    assert operation["signatures"][0] == ["x", "xs"]
    assert operation["conditions"][0]["tree"] == ["or", ["same_shape", "x", "bias"], ["not", ["given", "bias"]]]
    texts = [(c["text"], c["tree"]) for c in operation["backend_conditions"]]
    assert texts == [("in order", None), ("rank(x) < 5", ["<", ["rank", "x"], 5])]
    assert not operation["has_gradient"] and operation["shapes"] == ["pointwise"]


def test_constants_that_json_lacks_are_texts() -> None:
    @oc.defop(where=[d.value("limit") < np.inf, d.value("kind") != oc.float16, d.value("limit") >= np.float32(0.5)])
    def fn(x, *, limit: float = 1.0, kind: object = oc.float32):
        return (lambda v: limit), None

    (operation,) = json.loads(operations_json([row_of_declaration("oc.ops.fn", fn)]))["operations"]
    trees = [["<", ["value", "limit"], "inf"], ["!=", ["value", "kind"], "float16"], [">=", ["value", "limit"], 0.5]]
    assert [condition["tree"] for condition in operation["conditions"]] == trees


def test_docstring_and_page_describe_inputs_settings_and_results() -> None:
    assert everything.__doc__ == (
        "Everything.\n\nGrad:   none.\n"
        "Takes:  `x`: float, the operand of `everything`; `xs`: 1 to 2, each any; `bias` (optional): any.\n"
        "Settings: `sizes`: exactly 2 items, two sizes; `window.size`: int, cells.\n"
        "Gives:  `v`: the result."
    )
    assert section(row_of_declaration("oc.ops.space.everything", everything)).endswith("""
Everything.

* Shapes: `pointwise`.
* Takes:
  * `x`: float, the operand of `everything`
  * `xs`: 1 to 2, each any
  * `bias` (optional): any
* Settings:
  * `sizes`: exactly 2 items, two sizes
  * `window.size`: int, cells
* Gives: `v`: the result.
* Needs: `same_shape(x, bias) or not given(bias)`; `each of sizes > 0`.
* Calls: `(x, xs)`; `(x, xs, bias, sizes, window, how, limit)`.
* Backends: in order; `rank(x) < 5`.
* Grad: none.
""")
    x = oc.tensor(np.ones(2))
    assert everything(x, [x]).dtype is oc.int32
