"""What a generalized einsum spec says, as data.

    Spec       operand rows ; ... => result rows
    ShapeSpec  batch | input -> output           a row that is not written is empty: the operand has no such axes
    RowSpec    lead  ..var..  trail              `var` is None for a closed row
    AxisSpec   Label  i      one loop, shared by every axis of that name
               Fixed  2      one cell of the axis
               Wild   _      a loop of its own
               Window 2*o+1<+3*k
               Concat x^3^y  axes laid one after another
               Merged (a b)  row-major product of axes
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

Kind = Literal["batch", "input", "output"]
KINDS: tuple[Kind, ...] = ("batch", "input", "output")  # as written
MEMORY_ORDER: tuple[Kind, ...] = ("batch", "output", "input")

Coef = int | str
"""A coefficient: a number, or a name whose value is supplied beside the spec."""


@dataclass(frozen=True, slots=True)
class Label:
    name: str


@dataclass(frozen=True, slots=True)
class Fixed:
    index: int


@dataclass(frozen=True, slots=True)
class Wild:
    pass


class Padding(Enum):
    SAME = "="  # input = stride * output; what lies outside reads as neutral
    VALID = "<"  # every tap inside: input = stride * (output - 1) + 1 + (kernel - 1) * dilation
    UNSTATED = ""  # an index without a claim about the size beyond covering it


@dataclass(frozen=True, slots=True)
class Window:
    """index = stride * over + offset + dilation * kernel  (no kernel: a strided axis)."""

    stride: Coef
    over: str
    padding: Padding = Padding.UNSTATED
    offset: int = 0
    dilation: Coef = 1
    kernel: str | None = None


@dataclass(frozen=True, slots=True)
class Concat:
    parts: tuple[Label | int, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    parts: tuple[Label, ...]


AxisSpec = Label | Fixed | Wild | Window | Concat | Merged


@dataclass(frozen=True, slots=True)
class RowSpec:
    lead: tuple[AxisSpec, ...] = ()
    var: str | None = None
    trail: tuple[AxisSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class ShapeSpec:
    batch: RowSpec = RowSpec()
    input: RowSpec = RowSpec()
    output: RowSpec = RowSpec()


@dataclass(frozen=True, slots=True)
class Spec:
    """`operands => result`; `text` is what the user wrote, kept for messages and never compared."""

    operands: tuple[ShapeSpec, ...]
    result: ShapeSpec
    text: str = field(default="", compare=False)
