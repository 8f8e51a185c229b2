"""`t.operation`: the call that computes a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc

X = oc.tensor(np.ones((1, 8, 8, 2), "float32"), batch_axes=1, label="x")
Y = oc.tensor([1.0, 2.0], label="y")

CALLS: list[tuple[Callable[[], oc.Tensor], str, list[oc.Tensor], dict[str, Any]]] = [
    (lambda: X + Y, "add", [X, Y], {}),
    (lambda: X.max("b|hwc => b|c"), "max", [X], {"spec": "b|hwc => b|c"}),
    (
        lambda: oc.einsum("b|hwc; c => b|hw", X, Y),
        "einsum",
        [X, Y],
        {"spec": "b|hwc; c => b|hw", "reduce": "add", "combine": "mul"},
    ),
    (lambda: oc.max_pool2d(X, 2, stride=2), "max_pool2d", [X], {"window": 2, "stride": 2}),
    (lambda: oc.leaky_relu(X), "leaky_relu", [X], {"slope": 0.01}),
    (lambda: oc.concat("a^b => b", Y, a=1), "concat", [Y], {"spec": "a^b => b", "a": 1}),
    (lambda: oc.maximum(Y, 0.5), "max", [Y], {}),
    (lambda: X[0], "slice", [X], {"index": 0}),
    (lambda: Y.astype("float64"), "cast", [Y], {"dtype": oc.float64}),
]


@pytest.mark.parametrize(("build", "name", "operands", "settings"), CALLS)
def test_calls(build: Callable[[], oc.Tensor], name: str, operands: list[oc.Tensor], settings: dict[str, Any]) -> None:
    operation = build().operation
    assert operation is not None
    assert operation.name == name
    assert list(operation.operands)[: len(operands)] == operands
    assert {key: operation.settings.get(key) for key in settings} == settings


def test_declared_operations() -> None:
    @oc.defop
    def shift(x, *, by: float = 0.5):
        def forward(v, v1):
            v["=:"] = v1 + by

        return forward, None

    assert dict(shift(X, by=2.0).operation.settings) == {"by": 2.0}
    assert repr(shift(Y).operation) == "<operation shift(y, by=0.5)>"


def test_every_result_has_the_call_of_the_user() -> None:
    @oc.defop(outputs=("double", "square"))
    def twice(x, *, by: float = 2.0):
        def forward(double, square, v1):
            double["=:"] = by * v1
            square["=:"] = double * v1

        return forward, None

    for result in twice(Y):
        assert repr(result.operation) == "<operation twice(y, by=2.0)>"
    last, steps = oc.scan(lambda carry, y: (carry + y, carry), 0.0, Y)
    chosen = oc.cond(Y.sum() > 0.0, lambda: Y + 1.0, lambda: Y)
    assert last.operation.name == steps.operation.name == "scan" and Y in steps.operation.operands
    assert chosen.operation.name == "cond" and Y in chosen.operation.operands


def test_leaves_have_none() -> None:
    assert X.operation is None
    assert oc.param("w").operation is None


def test_settings_are_read_only() -> None:
    operation = oc.leaky_relu(Y).operation
    assert operation is not None
    with pytest.raises(TypeError):
        operation.settings["slope"] = 3.0  # type: ignore[index]
