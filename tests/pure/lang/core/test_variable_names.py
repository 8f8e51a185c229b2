"""Names: a tensor without a label takes the name of the variable it is assigned to."""

from __future__ import annotations

import asyncio
import code
import linecache
import textwrap
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ocannl as oc

at_module_level = oc.param()


def run(text: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"oc": oc, "np": np}
    exec(textwrap.dedent(text), scope)
    return scope


def test_at_module_level_and_in_a_function() -> None:
    local = oc.param()
    assert (at_module_level.label, local.label) == ("at_module_level", "local")


def test_an_explicit_label_is_kept() -> None:
    a = oc.param("given")
    b = a
    c = oc.placeholder("x") * 2
    d = c.with_label("y")
    assert (a.label, b.label, c.label, d is c) == ("given", "given", "y", True)


def test_the_first_assignment_names_an_expression() -> None:
    x = oc.placeholder("x")
    doubled = x * 2
    alias = doubled
    assert alias.label == "doubled"
    activated = oc.relu(x * 3)
    assert activated.label == "activated"
    assert activated.application.operands[0].label == "mul"  # never assigned


def test_by_walrus() -> None:
    x = oc.placeholder("x")
    y = oc.relu((w := oc.param()) @ x + (b := oc.param(0.0, o=[2])))
    assert (w.label, b.label, y.label) == ("w", "b", "y")
    assert list(y.params) == ["w", "b"]


def test_by_walrus_in_a_comprehension_and_a_condition() -> None:
    if (p := oc.param()) is not None:
        assert p.label == "p"
    params = [(inner := oc.param()) for _ in range(2)]
    assert [p.label for p in params] == ["inner", "inner"]
    assert inner is params[1]


def test_in_a_lambda_nothing_is_bound() -> None:
    make = lambda: oc.param()  # noqa: E731
    assert make().label == "param"
    bound = make()
    assert bound.label == "param"  # created in the lambda
    named = (lambda: [w := oc.param(), w * 2][0])()
    assert named.label == "w"


def test_under_exec_and_eval() -> None:
    scope = run(
        """
        w = oc.param()
        def make():
            inner = oc.param()
            return inner
        x = make()
        """
    )
    assert (scope["w"].label, scope["x"].label) == ("w", "inner")
    assert eval("(v := oc.param())", {"oc": oc}).label == "v"
    assert eval("oc.param()", {"oc": oc}).label == "param"


def test_as_an_attribute() -> None:
    class Model:
        shared = oc.param()

        def __init__(self) -> None:
            self.w = oc.param()
            self.inner = SimpleNamespace()
            self.inner.v = oc.param()

    model = Model()
    assert (model.w.label, Model.shared.label) == ("w", "shared")
    assert model.inner.v.label in ("v", "param")


def test_in_closures_and_globals() -> None:
    outer = oc.param()

    def read() -> str:
        return outer.label

    def write() -> None:
        nonlocal outer
        outer = oc.param()

    assert read() == "outer"
    write()
    assert read() == "outer"
    scope = run("def f():\n    global g\n    g = oc.param()\nf()")
    assert scope["g"].label == "g"


def test_in_every_iteration_of_a_loop() -> None:
    params = []
    for _ in range(3):
        w = oc.param()
        params.append(w)
    assert [t.label for t in params] == ["w", "w", "w"]
    total = params[0] * params[1] * params[2]
    assert list(total.params) == ["w", "w_2", "w_3"]


def test_several_names_are_bound_at_once() -> None:
    a, b = oc.param(), oc.param(0.0, o=[3])
    c, d, e = oc.param(), a * 2, oc.param()
    [f, g, h, i] = oc.param(), oc.param(), oc.param(), oc.param("given")
    model = SimpleNamespace(inner=SimpleNamespace())
    model.x, model.inner.y = oc.param(), oc.sigmoid(a)
    tensors = [a, b, c, d, e, f, g, h, i, model.x, model.inner.y]
    assert [t.label for t in tensors] == ["a", "b", "c", "d", "e", "f", "g", "h", "given", "x", "y"]
    assert [run("a, b = oc.param(), oc.param()")[name].label for name in "ab"] == ["a", "b"]


def test_by_a_condition() -> None:
    a = oc.param() if [] == [] else None
    b = None or oc.param()
    assert (a.label, b.label) == ("a", "b")


def test_no_names_from_unpacking_and_containers() -> None:
    (a, b), c = (oc.param(), oc.param()), [oc.param()]
    d = {"e": oc.param()}
    f, g = (oc.param() for _ in range(2))
    pair = oc.op(lambda x: (x * 2, x * 3))
    h, i = pair(a)
    first, *tail = oc.param(), oc.param()
    j = (oc.param() + 1).sum()
    k = oc.param(),
    assert {t.label for t in (a, b, c[0], d["e"], f, g, first, *tail, *k)} == {"param"}
    assert (h.label, i.label, j.label) == ("mul", "mul", "j")
    with oc.no_grad(), SimpleContext(oc.param()) as w:
        assert w.label == "param"


class SimpleContext:
    def __init__(self, tensor: oc.Tensor) -> None:
        self.tensor = tensor

    def __enter__(self) -> oc.Tensor:
        return self.tensor

    def __exit__(self, *exception: object) -> None:
        pass


def test_name_lookup_in_long_functions_is_bounded() -> None:
    """The search for a name is bounded: a list of thousands of items is not followed to its end."""
    items = ", ".join(["oc.param()"] * 3000)
    scope = run(f"many = [{items}]\nlast = oc.param()")
    assert {t.label for t in scope["many"]} == {"param"}
    assert scope["last"].label == "last"


def test_annotated_chained_and_augmented_bindings() -> None:
    annotated: oc.Tensor = oc.param()
    first = second = oc.param()
    assert annotated.label == "annotated"
    assert first is second
    assert first.label in ("first", "second", "param")


def test_only_the_result_of_a_composite_operation_is_named() -> None:
    x = oc.placeholder("x", o=[2])
    s = oc.sigmoid(x)
    m = x.mean()
    g = oc.gelu(x)
    assert (s.label, m.label, g.label) == ("s", "m", "g")
    assert (oc.sigmoid(x) + 1).application.operands[0].label == "sigmoid"


def test_names_in_threads_of_async_code() -> None:
    async def make() -> oc.Tensor:
        w = oc.param()
        await asyncio.sleep(0)
        v = w * 2
        return v

    async def both() -> list[oc.Tensor]:
        return await asyncio.gather(make(), make())

    assert [t.label for t in asyncio.run(both())] == ["v", "v"]


def test_names_across_lines_and_long_functions() -> None:
    lines = "\n".join(f"    t{n} = oc.param()\n    assert t{n}.label == 't{n}', t{n}.label" for n in range(400))
    run(f"def f():\n{lines}\nf()")


def test_call_site_is_the_line_of_the_user() -> None:
    w = oc.param()
    assert w.value.where.startswith("test_variable_names.py:")
    y = oc.sigmoid(w)
    assert y.value.where.startswith("test_variable_names.py:")


def test_hostile_names_stay_text() -> None:
    for label in ("a b", "x;y", "%s{0}", "w\n", "é", "select", "a" * 10_000, "a.b", '"', "--"):
        w = oc.param(label)
        t = w * 2
        assert w.label == label
        assert t.params[label] is w
        assert str((t + oc.placeholder("y", o=[2])).shape) == "2"


@pytest.mark.parametrize("wrong", ["", 3, None, b"w"])
def test_a_label_is_a_text(wrong: Any) -> None:
    with pytest.raises(oc.CodeError):
        oc.param().with_label(wrong)


def test_inside_an_assertion_of_pytest_nothing_is_bound() -> None:
    assert oc.relu(oc.placeholder("x") * 1).label.isidentifier()


@pytest.mark.parametrize("name", [None, 3, "", "ocannl"])
def test_code_may_be_of_any_module(name: Any) -> None:
    scope: dict[str, Any] = {"oc": oc, "__name__": name}
    exec("w = oc.param()", scope)
    assert scope["w"].label == "w"
    with pytest.raises(oc.CodeError):
        exec("w += 1", scope)


def test_in_a_console_and_in_cells_of_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    definitions = "@oc.op\ndef layer(x):\n    v = oc.param()\n    return v @ x\n\nb = layer()\ny = b(x)\n"
    text = f"w = oc.param()\n{definitions}w += 1\n"
    scope: dict[str, Any] = {"oc": oc, "x": oc.tensor([1.0, 2.0], label="x")}
    console = code.InteractiveConsole(scope)
    for line in text.splitlines():
        console.push(line)
    assert "assignments are recorded" in capsys.readouterr().err
    names = [scope["w"].label, scope["b"].label, *scope["b"].params, scope["y"].label]
    cell = "<ipython-input-1-0>"
    linecache.cache[cell] = (len(text), None, text.splitlines(True), cell)
    cells: dict[str, Any] = {"oc": oc, "x": scope["x"]}
    with pytest.raises(oc.CodeError, match="assignments are recorded"):
        exec(compile(text, cell, "exec"), cells)
    assert names == [cells["w"].label, cells["b"].label, *cells["b"].params, cells["y"].label] == ["w", "b", "v", "b_x"]


def test_names_without_debug_information() -> None:
    function = run("def make():\n    w = oc.param()\n    return w")["make"]
    bare = function.__code__.replace(co_linetable=b"", co_filename="")
    w = FunctionType(bare, {"oc": oc})()
    assert w.label == "w"
