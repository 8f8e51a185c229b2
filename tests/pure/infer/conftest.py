"""Helpers for building shapes without tensors: `net.param("w")`, `net.mul(w, x)`, `net.einsum("ij => ji", x)`."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ocannl.base.errors import ShapeError
from ocannl.infer.logic import COMPOSE, TRANSPOSE, Logic, einsum, pointwise
from ocannl.infer.parse import parse
from ocannl.infer.shape import Provenance, Shape, relate


class Net:
    """Rows are written `batch|input->output`; a row that is `?` is unknown, a size may have a unit: `3 rgb`."""

    def leaf(self, name: str, rows: str | None = "?", role: str = "placeholder", **more: Any) -> Shape:
        written = re.fullmatch(r"(?:(.*)\|)?(?:(.*)->)?(.*)", rows if rows is not None else "?|?->?")
        assert written is not None
        batch, input, output = (self.row(row) for row in written.groups())
        provenance = Provenance(name, role, None, f"model.py:{1 + sum(map(ord, name)) % 90}")
        return Shape.leaf(provenance, batch=batch, input=input, output=output, role=role, **more)

    def row(self, text: str | None) -> list[int | tuple[str, int]] | None:
        if text == "?":
            return None
        axes = [axis.split() for axis in (text or "").split(",") if axis.strip()]
        return [int(axis[0]) if len(axis) == 1 else (axis[1], int(axis[0])) for axis in axes]

    def x(self, rows: str = "?|?->?", name: str = "x") -> Shape:
        return self.leaf(name, rows)

    def param(self, name: str = "w", rows: str = "?->?", **more: Any) -> Shape:
        return self.leaf(name, rows, "param", **more)

    def relate(self, logic: Logic, *operands: Shape, text: str = "", result: Shape | None = None, **more: Any) -> Shape:
        provenance = Provenance(text or str(logic), "result", None, "model.py:100")
        return relate(logic, operands, result, provenance, **more)

    def mul(self, a: Shape, b: Shape) -> Shape:
        return self.relate(COMPOSE, a, b, text=f"{self.name(a)} @ {self.name(b)}")

    def add(self, *operands: Shape, result: Shape | None = None) -> Shape:
        text = " + ".join(map(self.name, operands))
        return self.relate(pointwise(len(operands)), *operands, text=text, result=result)

    def relu(self, a: Shape) -> Shape:
        return self.relate(pointwise(1), a, text=f"relu({self.name(a)})")

    def transpose(self, a: Shape) -> Shape:
        return self.relate(TRANSPOSE, a, text=f"{self.name(a)}.T")

    def einsum(self, spec: str, *operands: Shape, captures: Any = None, **sizes: Any) -> Shape:
        result = sizes.pop("result", None)
        logic = einsum(parse(spec))
        return self.relate(logic, *operands, text=spec, result=result, sizes=sizes, captures=captures or {})

    @staticmethod
    def name(shape: Shape) -> str:
        return shape.provenance.label

    def shapes(self, *shapes: Shape) -> list[str]:
        return [str(shape) for shape in shapes]

    def refuses(self, match: str, act: Any, *args: Any, **more: Any) -> str:
        with pytest.raises(ShapeError, match=match) as caught:
            act(*args, **more)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None or caught.value.__suppress_context__
        return str(caught.value)


@pytest.fixture(scope="session")
def net() -> Net:
    return Net()
